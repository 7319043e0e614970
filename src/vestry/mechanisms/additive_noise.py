"""Integer noise on minimal sufficient statistics: the release that any later use gets for free.

Statistics are integers, so noise is discrete and exact. The count is a statistic like any other wherever it is not
public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from vestry.errors import DeclarationMismatch
from vestry.ledger import OpenCharge
from vestry.mechanisms.statistic_family import Layout
from vestry.noise import NoiseSource
from vestry.numerics import outward, ratio_up, up
from vestry.privacy.accountant import smallest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import NoisyStatistics
from vestry.schema.private import Private, reveal

LAPLACE = "discrete-laplace"
GAUSSIAN = "discrete-gaussian"
# A normal number, rounded to the nearest integer; its scale is the standard deviation before rounding.
ROUNDED_GAUSSIAN = "rounded-gaussian"
CUBE = "discrete-cube"

# The mechanism that adds each noise, as users name it; and the noise of each name.
MECHANISM_OF = {
    LAPLACE: "laplace",
    ROUNDED_GAUSSIAN: "gaussian",
    GAUSSIAN: "discrete-gaussian",
    CUBE: "cube",
}
NOISE_OF = {mechanism: noise for noise, mechanism in MECHANISM_OF.items()}

THEOREMS = {
    LAPLACE: "Integer noise P(k) ~ exp(-|k|/scale) on integers of l1 sensitivity D is (D/scale)-DP"
    " [DworkMNS06, Prop. 1].",
    ROUNDED_GAUSSIAN: "Integer noise round(N(0, scale^2)) on integers of l2 sensitivity D is (D/scale)-GDP: the rounded"
    " sum of the Gaussian mechanism [DongRS22, Thm 2.7].",
    GAUSSIAN: "Integer noise P(k) ~ exp(-k^2/(2 scale^2)) on integers of l2 sensitivity D is D^2/(2 scale^2)-zCDP"
    " [CanonneKS20, Thm 14]; it is not mu-GDP.",
    CUBE: "Integer noise P(k) ~ exp(-max |k_i|/scale) on integers none of which moves by more than D is (D/scale)-DP"
    " [HardtT10, sec. 4].",
}

# To so many zeros independent noise is added on trial: a hundredth of a second, where all may take seconds.
_REHEARSED = 1000


@dataclass(frozen=True)
class Additive:
    """Integer noise of one scale on the statistics of a layout.

    Privacy
    -------
    Laplace: (l1/scale)-DP. Gaussian: (l2/scale)-GDP. Discrete Gaussian: l2^2/(2 scale^2)-zCDP. Cube:
    (largest/scale)-DP. For the neighbours of `adjacency`, by the diameter of what one unit may contribute, or nothing
    where the count is private. `limits` says what is not hidden, if anything that a unit may change.
    """

    noise: str
    scale: float
    layout: Layout
    adjacency: Adjacency
    guarantee: Guarantee
    limits: str = ""

    parameter = "scale"

    @property
    def name(self) -> str:
        """`laplace`, `gaussian`, `discrete-gaussian` or `cube`."""
        return MECHANISM_OF[self.noise]

    @property
    def value(self) -> float:
        """The noise's scale."""
        return self.scale

    @property
    def event(self) -> Event:
        """What runs."""
        return event_of(self.noise, self.layout, self.scale).under(self.adjacency.neighbours)

    charge = event  # the ledger is charged what runs

    @property
    def theorem(self) -> str:
        """The result that the claim rests on, and what it does not hide."""
        return f"{THEOREMS[self.noise]} {self.limits}".rstrip()

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise: sqrt(2 q)/(1 - q), q = e^(-1/scale), for Laplace.

        For a Gaussian the scale, with that of rounding; for a discrete Gaussian the scale, or less where it is small.
        For a cube of d counts sqrt(E[m (m + 1)]/3), m half its edge; for advice m + 1/2 is taken for gamma(d + 1).
        """
        if self.noise == CUBE:
            d = len(self.layout.names)
            return math.sqrt(max(0.0, (d + 1) * (d + 2) * self.scale**2 - 0.25) / 3)
        if self.noise == ROUNDED_GAUSSIAN:
            return rounded_normal_deviation(self.scale)
        if self.noise == GAUSSIAN:
            return discrete_normal_deviation(self.scale)
        return math.sqrt(2) * math.exp(-0.5 / self.scale) / -math.expm1(-1 / self.scale)

    def release(self, private: Private, opened: OpenCharge, noise: NoiseSource) -> tuple[NoisyStatistics, ...]:
        """Add the noise, and return each group's statistics. `opened` is the leave of the ledger, taken just before."""
        opened.take()
        values, size = reveal(private), len(self.layout.names)
        wanted = size * self.adjacency.groups
        if len(values) != wanted:
            raise DeclarationMismatch("number of statistics", str(len(values)), str(wanted), "collect the layout's")
        noisy = tuple(self._noisy(values, noise))
        return tuple(self.statistics(noisy[start : start + size]) for start in range(0, wanted, size))

    def rehearse(self, noise: NoiseSource) -> tuple[NoisyStatistics, ...]:
        """Add the noise to zeros, and return zeros."""
        size = len(self.layout.names)
        tried = size if self.noise == CUBE else min(size, _REHEARSED)
        self._noisy([0] * tried, noise)
        return (self.statistics((0,) * size),) * self.adjacency.groups

    def _noisy(self, values: Sequence[int], noise: NoiseSource) -> Sequence[int]:
        if self.noise == LAPLACE:
            return noise.discrete_laplace(values, scale=self.scale)
        if self.noise == ROUNDED_GAUSSIAN:
            return noise.rounded_gaussian(values, scale=self.scale)
        if self.noise == GAUSSIAN:
            return noise.discrete_gaussian(values, scale=self.scale)
        from vestry.noise.cube import cube_noise
        from vestry.noise.system_noise import int64

        size = len(self.layout.names)
        draws = [each for _ in range(len(values) // size) for each in cube_noise(noise, size, self.scale)]
        return [int64(int64(value) + extra) for value, extra in zip(values, draws, strict=True)]

    def statistics(self, noisy: tuple[int, ...]) -> NoisyStatistics:
        """Return one group's noisy integers with what is needed to read them."""
        at, noise, scale = self.layout, self.noise, self.scale
        return NoisyStatistics(at.names, noisy, noise, scale, at.grid, at.count, at.count_grid)


def rounded_normal_deviation(scale: float) -> float:
    """Return the standard deviation of round(N(0, scale^2)): 1.041 at scale 1.

    The variance is the sum over m >= 1 of (2m - 1) P(|k| >= m), which is scale^2 + 1/12 up to e^(-2 pi^2 scale^2).
    """
    if scale > _BY_SHEPPARD:
        return math.hypot(scale, math.sqrt(1 / 12))
    m = np.arange(1, 40 * _BY_SHEPPARD)
    reached = 2 * ndtr(-(m - 0.5) / scale)
    return math.sqrt((2 * m - 1) @ reached)


def discrete_normal_deviation(scale: float) -> float:
    """Return the standard deviation of noise P(k) ~ exp(-k^2/(2 scale^2)): the scale, up to e^(-2 pi^2 scale^2)."""
    if scale > _BY_SHEPPARD:
        return scale
    k = np.arange(-40 * _BY_SHEPPARD, 40 * _BY_SHEPPARD + 1)
    weights = np.exp(-((k / scale) ** 2) / 2)
    return math.sqrt(weights @ k**2 / weights.sum())


# From here on the correction of e^(-2 pi^2 scale^2) is below 1e-30.
_BY_SHEPPARD = 2


def calibrate_noise(
    noise: str, layout: Layout, adjacency: Adjacency, guarantee: Guarantee, *, limits: str = ""
) -> Additive:
    """Calibrate the least scale that meets the guarantee."""
    bound = guarantee.under(adjacency.neighbours)
    scale = smallest_parameter(lambda x: event_of(noise, layout, x), bound)
    return Additive(noise, scale, layout, adjacency, bound, limits)


def event_of(noise: str, layout: Layout, scale: float) -> Event:
    """Record integer noise of this scale on the layout's statistics."""
    if noise == LAPLACE:
        return event(noise, sensitivity=up(Fraction(layout.l1)), scale=scale)
    if noise == CUBE:
        return event("pure", epsilon=up(ratio_up(layout.largest, scale)))
    # From 2^26 on the root of a whole number may round to a whole double that is not its root; a product, from 2^25 on.
    exactly = float(layout.l2).is_integer() and layout.l2 < 2**25
    return event(noise, sensitivity=layout.l2 if exactly else outward(layout.l2), scale=scale)
