"""Times: an exponential likelihood with a gamma prior of its rate; a record is clipped to [low, high], low above 0.

theta is the rate, T = (log theta, -theta), eta = (shape, rate): a record adds (1, x) [GeumlekSC17, appendix A.3].
With low = 0 one record can change a short sum many times over, and privacy worsens with n; so low is above 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.conjugate.family import ConjugateFamily, check_number, check_positive, check_scales, check_sums
from vestry.conjugate.gamma import Gamma, gradient, log_partition, normalisable, read_prior
from vestry.conjugate.gamma_draw_cost import rate_draw
from vestry.conjugate.gamma_poisson import refuse_moving_count
from vestry.errors import InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.request import groups_of, interval_of
from vestry.model.worst_pair import Pair, say_records
from vestry.numerics import Array, outward
from vestry.posterior.discrete_noise import noise_law
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource
import vestry.conjugate.gamma_posterior as gamma_posterior
from vestry.conjugate.family import sum_and_count
from vestry.conjugate.gamma import exact_rates, one_gamma
from vestry.conjugate.interval_sums import end_to_end, half_width, sum_layout, sums_from_units, units_of_sums
from vestry.posterior.mixture import GammaMixture


@dataclass(frozen=True)
class GammaExponentialFamily(ConjugateFamily):
    """Records that are times, clipped to [low, high]."""

    low: float
    high: float

    name: ClassVar[str] = "gamma-exponential"
    parameter: ClassVar[str] = "rate"

    def __post_init__(self) -> None:
        low = check_positive("low", self.low, instead="the least time a record may have, above 0")
        high = check_positive("high", self.high, instead="the longest time a record may have")
        if not low < high:
            raise InvalidParameter("high", self.high, f"above low, {low:g}", "the ends of the declared interval")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def statistic(self, x: ArrayLike) -> Array:
        """Return x clipped to [low, high]; a missing value counts as low."""
        record = np.asarray(x, dtype=float).reshape(1)
        return np.clip(np.where(np.isnan(record), self.low, record), self.low, self.high)

    def bounds(self) -> tuple[Array, Array]:
        """Return low and high."""
        return np.array([self.low]), np.array([self.high])

    def extremes(self) -> Iterator[Array]:
        """Yield the width of the interval, both ways."""
        yield np.array([self.low - self.high])
        yield np.array([self.high - self.low])

    log_partition = staticmethod(log_partition)
    gradient = staticmethod(gradient)
    normalisable = staticmethod(normalisable)

    def prior(self, numbers: Sequence[float]) -> Gamma:
        """Read (shape, rate)."""
        return read_prior(self.name, numbers)

    def update(
        self,
        prior: Gamma,
        sums: Sequence[float],
        count: float,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> Gamma:
        """Return Gamma(shape/m + r n, rate/m + r sum)."""
        r, m = check_scales(likelihood_power, prior_scale)
        (total,) = check_sums(sums, 1)
        return Gamma(prior.shape / m + r * check_number("count", count), prior.rate / m + r * total)

    def worst_draw(
        self, prior: Gamma, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: the two posteriors have one shape s = shape/m + r n, and rates whose ratio is largest
        where all other records are at the low clip: q = (b + r ((n - k) low + k high))/(b + r n low), b = rate/m.
        The divergence of two gammas of one shape grows with the ratio of their rates.

        Refused elsewhere: where the count can change so can the shape, and no supremum is known.
        """
        refuse_moving_count(adjacency, "exponential")
        shape, ratio = self._pair(prior, adjacency, likelihood_power, prior_scale)
        return rate_draw(shape, ratio, neighbours=adjacency.neighbours)

    def order_limit(
        self, prior: Gamma, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda* = 1 + 1/(q - 1)."""
        refuse_moving_count(adjacency, "exponential")
        _, ratio = self._pair(prior, adjacency, likelihood_power, prior_scale)
        return 1 + 1 / (ratio - 1)

    def _pair(self, prior: Gamma, adjacency: Adjacency, power: float, scale: float) -> tuple[float, float]:
        """Return the common shape, and the ratio of the rates at its largest."""
        r, m = check_scales(power, scale)
        n, k = adjacency.count or 0, adjacency.rows
        least = prior.rate / m + r * n * self.low
        # Near 1 a double has few digits for what is beyond it: the next one is an upper bound.
        ratio = math.nextafter(1 + outward(r * k * (self.high - self.low) / least), math.inf)
        return prior.shape / m + r * n, ratio

    # What is released, and draws

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the sum of clipped times; see `sum_layout`."""
        return sum_layout(self.low, self.high, 1, adjacency, grid)

    def from_units(self, adjacency: Adjacency, units: Sequence[int], count: int) -> list[Fraction]:
        """Turn integer sums back into sums of times, exactly."""
        return sums_from_units(self.low, self.high, self.layout(adjacency).grid, units, count)

    def exact_parameters(
        self,
        prior: Gamma,
        sums: Sequence[Fraction],
        count: int,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> tuple[Fraction, ...]:
        """Return shape and rate, not rounded."""
        power, scale = check_scales(likelihood_power, prior_scale)
        (total,), r = sums, Fraction(power)
        return Fraction(prior.shape / scale) + r * count, Fraction(prior.rate / scale) + r * total

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw exactly, on a grid of 2^-40 of the least rate, 1/high."""
        return exact_rates(bits, parameters, size, scale=1 / self.high)

    # The posterior of what was released

    def noise_aware(self, prior: Gamma, statistics: NoisyStatistics) -> GammaMixture:
        """Sum over the sum, and over the count where it is private."""
        noisy, count, units = sum_and_count(statistics)
        noise, numbers = noise_law(statistics.noise, statistics.scale), {"shape": prior.shape, "rate": prior.rate}
        steps = {"grid": statistics.grid, "middle": (self.low + self.high) / 2}
        return gamma_posterior.exponential(noisy, count=count, count_units=units, noise=noise, **steps, **numbers)

    def plug_in(self, prior: Gamma, statistics: NoisyStatistics) -> GammaMixture:
        """Take the projected sum and count as exact."""
        noisy, count, units = sum_and_count(statistics)
        n = max(count / (units or 1), 0.0)
        total = noisy * statistics.grid + n * (self.low + self.high) / 2
        return one_gamma(prior.shape + n, prior.rate + float(np.clip(total, n * self.low, n * self.high)))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records."""
        return rng.standard_gamma(size, theta.shape) / (size * theta)

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the sum of n times, cut where all are at an end."""
        total = rng.standard_gamma(n) / max(theta[0], 1e-300)
        return [float(np.clip(total, n * self.low, n * self.high))]

    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return the sum in steps of the grid, and the count where it is private."""
        return units_of_sums(self.low, self.high, layout, sums, n)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return records that go from end to end, or are added at the upper one."""
        return end_to_end(self.low, self.high, layout, adjacency)

    def draw_pair(self, prior: Gamma, adjacency: Adjacency) -> Pair:
        """Return records that go from low to high, where all others are low."""
        refuse_moving_count(adjacency, "exponential")
        k, n = adjacency.rows, adjacency.count or 0
        half = half_width(self.low, self.high, self.layout(adjacency).grid)
        name = f"{say_records(k, 'go')} from low to high, all others low"
        return Pair(name, (-n * half, n), ((2 * k - n) * half, n))

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the clips."""
        return {"name": self.name, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class GammaExponential(ConjugateModel):
    """An exponential likelihood with a gamma prior of its rate; times are clipped to their interval, above 0.

    Attributes
    ----------
    column
        A column with an interval that begins above 0.
    by
        A column of levels: one rate for each.
    prior
        The shape and the rate of the prior.
    """

    column: str
    by: str | None = None
    prior: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "gamma-exponential"
    family_type: ClassVar[type[ConjugateFamily]] = GammaExponentialFamily

    def family(self, domains: Mapping[str, Domain]) -> GammaExponentialFamily:
        """Return the exponential family with the column's ends."""
        groups_of(domains, self.by)
        interval = interval_of(domains, self.column)
        return GammaExponentialFamily(interval.low, interval.high)

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add the time, counted from the middle of its interval."""
        interval = interval_of(domains, self.column)
        return (Sum(self.column, (interval.low + interval.high) / 2, layout.grid),)

    def question(self) -> str:
        """Say what is asked."""
        return f"The rate of {self.column}{self.by_words()}"
