"""Whether a regression describes a noisy table: what each cell has, beside what it should have.

Of levels, z - p t with t the cell's noisy total has mean 0 if the regression holds, whatever the total, and variance
t p q + v (q^2 + (L - 1) p^2), v that of the noise, L the number of levels. Of counts, y - rate n has t rate + v_y +
rate^2 v_n. The regression was fitted to the same numbers, so that its scores are a little small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from vestry.numerics import Array
from vestry.posterior.discrete_noise import IntegerNoise, Laplace, noise_of
from vestry.releases import NoisyStatistics

# How often some cell is called a misfit although the regression holds.
_ALARM = 0.01


@dataclass(frozen=True)
class CellFit:
    """One number of one cell.

    Attributes
    ----------
    cell, kind
        Where, and what is counted.
    records
        About how many records the cell has.
    observed, expected
        The share of its records, or their rate: in the noisy table, and by the regression.
    score
        How far the noisy number lies from what the regression expects, in its standard deviations.
    misfit
        Whether that is more than chance and noise explain, in as many cells as there are.
    """

    cell: str
    kind: str
    records: float
    observed: float
    expected: float
    score: float
    misfit: bool

    @property
    def sentence(self) -> str:
        """What is to be said of a misfit."""
        return (
            f"the regression does not describe {self.cell}: {self.kind} is expected at {self.expected:.3g} of"
            f" {self.records:.0f} records, and the table has {self.observed:.3g}"
            f" ({abs(self.score):.1f} standard deviations); an interaction may be missing, and it is free to add one."
        )


def misfits(
    table: Any, numbers: Array, outcomes: Array, records: Array, statistics: NoisyStatistics
) -> tuple[CellFit, ...]:
    """Return how every cell fits, the worst first.

    Parameters
    ----------
    table
        What was counted.
    numbers
        The noisy numbers, one row per cell.
    outcomes
        What the regression expects, by class and cell.
    records
        About how many each cell has.
    """
    law = noise_of(statistics)
    variance = law.deviation**2
    if table.high is None:
        total, p = numbers.sum(axis=1), outcomes.T
        gap = numbers - p * total[:, None]
        noise = variance * ((1 - p) ** 2 + (numbers.shape[1] - 1) * p**2)
        sampling = records[:, None] * p * (1 - p)
        kinds = list(table.kinds)
    else:
        total, p = numbers[:, 0] / table.units, outcomes.T
        gap, noise = numbers[:, 1:] - p * total[:, None], variance * (1 + (p / table.units) ** 2)
        sampling = records[:, None] * p
        kinds = [f"the mean of {table.outcome}"]
    score = gap / np.sqrt(noise + sampling)
    beyond = np.abs(score) > _limits(noise / (noise + sampling), score.size, law)
    observed = p + gap / np.maximum(records, 1.0)[:, None]
    first = 1 if len(kinds) == 2 else 0  # of two classes one says it all
    fits = []
    for c, cell in enumerate(table.cells):
        for k in range(first, len(kinds)):
            shares = float(observed[c, k]), float(p[c, k]), float(score[c, k])
            fits.append(CellFit(table.cell_name(cell), kinds[k], float(records[c]), *shares, bool(beyond[c, k])))
    return tuple(sorted(fits, key=lambda each: -abs(each.score)))


def _limits(share: Array, size: int, noise: IntegerNoise) -> Array:
    """Return the largest scores that chance explains; Laplace noise has longer tails, as far as the noise matters."""
    tail = _ALARM / size
    normal = float(-ndtri(tail / 2))
    if not isinstance(noise, Laplace):
        return np.full_like(share, normal)
    long = math.log(1 / tail) / math.sqrt(2)
    return np.asarray(normal + share * (long - normal))
