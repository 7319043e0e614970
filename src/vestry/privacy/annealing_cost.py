"""What annealed importance sampling over private records costs [FouldsGWC16, supplement C.2].

Particles pass through densities f_j = p(theta, X)^(b_j) at rising powers b_j = epsilon_j/(2 D) (replace) or epsilon_j/D
(add-remove), D the span of one record's log-likelihood: an exact draw at rung j, and so an update, has bounded range
epsilon_j. The path starts at power 0, which no record moves. Each particle pays for its own updates; the weights, which
look at the records once more, are paid for at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from vestry.errors import InvalidParameter
from vestry.numerics import outward
from vestry.privacy.event import Event, compose
from vestry.privacy.mcmc_cost import Collapsed, owned_scan, shared_scan
from vestry.privacy.neighbours import Neighbours
from vestry.privacy.pricing import event
from vestry.validation import require_number


@dataclass(frozen=True)
class Ladder:
    """A path of temperatures for annealed importance sampling.

    Attributes
    ----------
    span
        D: one record's log-likelihood lies in an interval of this width, over all records and parameters.
    epsilons
        What one update costs at each rung, rising; the last is the paper's epsilon_0.
    neighbours
        Which change is hidden.
    """

    span: float
    epsilons: tuple[float, ...]
    neighbours: Neighbours

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilons", tuple(float(x) for x in self.epsilons))
        object.__setattr__(self, "neighbours", Neighbours.parse(self.neighbours))
        rising = all(a < b for a, b in zip((0.0, *self.epsilons), self.epsilons, strict=False))
        if not self.epsilons or not rising or not self.epsilons[-1] < math.inf:
            raise InvalidParameter("epsilons", self.epsilons, "rising and above 0", "for example (0.01, 0.1, 0.5)")
        require_number("span", self.span, "for example span=2.2", above=0)
        if self.epsilons[-1] > self._whole:
            allowed = f"at most {self._whole:g}, where the power is 1"
            raise InvalidParameter("the last epsilon", self.epsilons[-1], allowed, f"{self._whole:g} or less")

    @property
    def _whole(self) -> float:
        return (2 if self.neighbours is Neighbours.REPLACE else 1) * self.span

    @property
    def powers(self) -> tuple[float, ...]:
        """The powers b_j of the density at each rung, rounded down."""
        return tuple(x / outward(self._whole) for x in self.epsilons)

    def particle(self, *, updates: int) -> Event:
        """Record one particle's path with this many updates at each rung, any record moving each.

        Privacy
        -------
        Bounded ranges epsilon_j, `updates` of each: sum_j updates epsilon_j in pure epsilon [FouldsGWC16, eq. 44], and
        sum_j updates epsilon_j^2/8 in rho. Particles compose: `times` their number.
        """
        return self._path(lambda update: shared_scan(update, updates=updates))

    def owned_particle(self, *, collapsed: Collapsed) -> Event:
        """Record one particle's path with a scan at each rung, each latent of which belongs to one record.

        Privacy
        -------
        sum_j epsilon_j by parallel composition [FouldsGWC16, eq. 45], on the condition of `owned_scan`.
        """
        return self._path(lambda update: owned_scan(update, collapsed=collapsed))

    @property
    def log_weight_sensitivity(self) -> float:
        """How much one unit can move a log weight, apart from a constant that all particles share: epsilon_0/2.

        log w = sum_j (b_j - b_(j+1)) log p(theta_j, X) with rising powers from 0, so that D b_0 bounds its change.
        """
        return self.epsilons[-1] / 2

    @property
    def weights_l1_sensitivity(self) -> float:
        """How much one unit can move the normalised weights in l1, the paths given: 2 tanh(epsilon_0/4).

        The odds of any set of particles change by a factor e^(epsilon_0) at most; from e^(-epsilon_0/2) to
        e^(epsilon_0/2) is the worst. [FouldsGWC16, sec. C.2] says 2, the diameter of the simplex.
        """
        return outward(2 * math.tanh(self.epsilons[-1] / 4))

    def noisy_weights(self, *, scale: float) -> Event:
        """Record the release of all normalised weights with Laplace noise, as many as there are particles.

        Privacy
        -------
        2 tanh(epsilon_0/4) / scale, in pure epsilon. It comes on top of the particles' paths.
        """
        return event("laplace", sensitivity=self.weights_l1_sensitivity, scale=scale).under(self.neighbours)

    def resample(self) -> Event:
        """Record one particle chosen with probability proportional to its weight, the weights themselves not told.

        Privacy
        -------
        Bounded range epsilon_0: the exponential mechanism with the log weights as scores. On top of the paths.
        """
        return event("exponential", epsilon=self.epsilons[-1]).under(self.neighbours)

    def _path(self, scan: Callable[[Event], Event]) -> Event:
        rungs = [event("exponential", epsilon=x).under(self.neighbours) for x in self.epsilons]
        return compose(*(scan(rung) for rung in rungs))
