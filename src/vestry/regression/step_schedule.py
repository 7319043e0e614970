"""How long a Langevin chain runs, and with which steps: from public constants, for a stated accuracy.

For a quadratic potential everything about the chain is known. Along a direction of curvature l a step eta turns the
variance v into (1 - eta l)^2 v + 2 eta, and the distance of the mean from the mode into (1 - eta l) times itself. Long
steps forget the start soonest and end with too large a variance where l is large; a few shorter steps at the end mend
that, because where l is large the chain forgets fast. So the steps are halved a few times at the end. The accuracy is
computed for all curvatures in [m, M]. For other potentials it is not proved; for logistic ones it was never exceeded in
the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vestry.errors import GuaranteeUnreachable
from vestry.validation import require_number

# The first step size times M: longer steps would not forget the start much sooner.
_FIRST = 1.5
# The longest chain that is offered.
LONGEST = 10**7


@dataclass(frozen=True)
class Schedule:
    """The steps of a chain, and how near they come.

    Attributes
    ----------
    step_sizes, steps
        The step size of each phase, and how many steps it has.
    inflation
        By how much the variance along any direction is too large, relatively, at most (for quadratic potentials).
    distance
        How far the mean along any direction is from the mode, in standard deviations of the posterior along it, at most
        (for quadratic potentials).
    """

    step_sizes: tuple[float, ...]
    steps: tuple[int, ...]
    inflation: float
    distance: float


def schedule(*, strong_convexity: float, smoothness: float, reach: float, accuracy: float = 0.05) -> Schedule:
    """Return a schedule whose variance is off by at most `accuracy`, and its mean by as many standard deviations.

    Parameters
    ----------
    strong_convexity, smoothness
        The least and the greatest curvature, m and M.
    reach
        A bound on the distance of the start from the mode.
    accuracy
        What to reach, relatively.
    """
    require_number("accuracy", accuracy, "for example accuracy=0.05", above=0, below=1)
    m, M = strong_convexity, max(smoothness, strong_convexity)  # noqa: N806 - the literature's name
    last = 2 * (accuracy / 2) / (1 + accuracy / 2) / M
    sizes = [_FIRST / M]
    while sizes[-1] > 2 * last:
        sizes.append(sizes[-1] / 2)
    sizes.append(last)
    curvatures = np.exp(np.linspace(math.log(m), math.log(M), 400))

    def spread(later: int, first: int) -> tuple[float, float]:
        variance, mean = np.full_like(curvatures, 0.0), np.full_like(curvatures, reach)
        for eta, count in zip(sizes, [first, *[later] * (len(sizes) - 1)], strict=True):
            decay = (1 - eta * curvatures) ** 2
            still = decay**count
            variance = still * variance + 2 * eta * (1 - still) / (1 - decay)
            mean = np.abs(1 - eta * curvatures) ** count * mean
        return float(np.max(np.abs(variance * curvatures - 1))), float(np.max(mean * np.sqrt(curvatures)))

    contraction = max(abs(1 - sizes[0] * m), abs(1 - sizes[0] * M))
    first = math.ceil(math.log(max(2.0, reach * math.sqrt(m) / accuracy)) / -math.log(contraction))
    later = 2
    while first <= LONGEST:
        off = spread(later, first)
        if off[0] <= accuracy and off[1] <= accuracy:
            return Schedule(tuple(sizes), (first, *[later] * (len(sizes) - 1)), *off)
        if off[1] > accuracy or later > 64:
            first = math.ceil(first * 1.05) + 1
        else:
            later += 2
    raise GuaranteeUnreachable(
        f"a chain of at most {LONGEST} steps",
        f"the potential may be {M / m:.3g} times as curved in one direction as in another; declare a smaller bound on"
        " the number of records, or a larger prior precision",
    )
