"""Times: an exponential likelihood with a gamma prior of its rate; a record is clipped to [low, high], low above 0.

theta is the rate, T = (log theta, -theta), eta = (shape, rate): a record adds (1, x) [GeumlekSC17, appendix A.3].
With low = 0 one record can change a short sum many times over, and privacy worsens with n; so low is above 0.

The noise-aware posterior: p(s | n) ~ s^(n-1) b^a/(b + s)^(n + a) G(n + a)/G(n), and a member is Gamma(a + n, b + s);
p(s, n | z) is that times the noise of both, and the prior of a private n is uniform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlog1py, xlogy

from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.conjugate.family import ConjugateFamily, Distribution, noise_per_record, sum_and_count
from vestry.conjugate.gamma import Gamma, exact_rates, one_gamma, sum_and_count_nodes
from vestry.conjugate.gamma_draw_cost import rate_draw
from vestry.conjugate.interval_family import IntervalFamily, half_width, public_count
from vestry.mechanisms.statistic_family import Layout
from vestry.model.request import By, interval_of
from vestry.model.worst_pair import Pair, say_records
from vestry.noise.bits import BitSource
from vestry.numerics import Array, outward
from vestry.posterior.discrete_noise import Noise, log_ratio, noise_of
from vestry.posterior.mixture import GammaMixture, normalise
from vestry.posterior.tabulated import RATE, Tabulated, multiply
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum


@dataclass(frozen=True)
class GammaExponentialFamily(IntervalFamily):
    """Records that are times, clipped to [low, high]."""

    low: float
    high: float

    name: ClassVar[str] = "gamma-exponential"
    parameter: ClassVar[str] = "rate"
    member: ClassVar[type[Distribution]] = Gamma
    prior_words: ClassVar[tuple[str, str]] = ("a shape and a rate", "2,1")

    def __post_init__(self) -> None:
        self.require_ends(above=0)

    def added(self, numbers: Sequence[Any], sums: Sequence[Any], count: Any, weight: Any) -> tuple[Any, ...]:
        """Return shape/m + r n and rate/m + r sum."""
        (shape, rate), (total,) = numbers, sums
        return shape + weight * count, rate + weight * total

    def draw_event(self, prior: Gamma, weight: float, adjacency: Adjacency) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: the two posteriors have one shape s = shape/m + r n, and rates whose ratio is largest
        where all other records are at the low clip: q = (b + r ((n - k) low + k high))/(b + r n low), b = rate/m.
        The divergence of two gammas of one shape grows with the ratio of their rates.

        Refused elsewhere: where the count can change so can the shape, and no supremum is known.
        """
        n = public_count(adjacency, "exponential")
        shape, ratio = prior.shape + weight * n, self._ratio(prior, weight, adjacency)
        return rate_draw(shape, ratio, neighbours=adjacency.neighbours)

    def highest_order(self, prior: Gamma, weight: float, adjacency: Adjacency) -> float:
        """Return lambda* = 1 + 1/(q - 1)."""
        return 1 + 1 / (self._ratio(prior, weight, adjacency) - 1)

    def _ratio(self, prior: Gamma, weight: float, adjacency: Adjacency) -> float:
        """Return the ratio of the rates at its largest."""
        least = prior.rate + weight * public_count(adjacency, "exponential") * self.low
        # Near 1 a double has few digits for what is beyond it: the next one is an upper bound.
        return math.nextafter(1 + outward(weight * adjacency.rows * (self.high - self.low) / least), math.inf)

    # What is released, and draws

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw exactly, on a grid of 2^-40 of the least rate, 1/high."""
        return exact_rates(bits, parameters, size, scale=1 / self.high)

    # The posterior of what was released

    def noise_aware(self, prior: Gamma, statistics: NoisyStatistics) -> GammaMixture:
        """Sum over the sum, and over the count where it is private."""
        noisy, count, units = sum_and_count(statistics)
        noise, numbers = noise_of(statistics), {"shape": prior.shape, "rate": prior.rate}
        steps = {"grid": statistics.grid, "middle": self.middle}
        return exponential_posterior(noisy, count=count, count_units=units, noise=noise, **steps, **numbers)

    def multiplied(self, prior: Gamma, contents: Sequence[NoisyStatistics]) -> Tabulated:
        """Return the product of what releases of other people say, over the prior."""
        posteriors = [self.noise_aware(prior, each) for each in contents]
        return multiply(posteriors, lambda x: prior.log_density(x[:, None]), RATE)

    def plug_in(self, prior: Gamma, statistics: NoisyStatistics) -> GammaMixture:
        """Take the projected sum and count as exact."""
        noisy, count, units = sum_and_count(statistics)
        n = max(count / (units or 1), 0.0)
        total = noisy * statistics.grid + n * (self.low + self.high) / 2
        return one_gamma(prior.shape + n, prior.rate + float(np.clip(total, n * self.low, n * self.high)))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records."""
        return rng.standard_gamma(size, theta.shape) / (size * theta)

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return that of n/s, s = y + n middle: -(n/s)^2 dy/n + (n/s) (1 - (n/s) middle) dn/n."""
        noise = noise_per_record(content)
        return None if noise is None else mean * math.hypot(mean * noise[0], (1 - mean * self.middle) * noise[1])

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the sum of n times, cut where all are at an end."""
        total = rng.standard_gamma(n) / max(theta[0], 1e-300)
        return [float(np.clip(total, n * self.low, n * self.high))]

    def draw_pair(self, prior: Gamma, adjacency: Adjacency) -> Pair:
        """Return records that go from low to high, where all others are low."""
        k, n = adjacency.rows, public_count(adjacency, "exponential")
        half = half_width(self.low, self.high, self.layout(adjacency).grid)
        name = f"{say_records(k, 'go')} from low to high, all others low"
        return Pair(name, (-n * half, n), ((2 * k - n) * half, n))


@dataclass(frozen=True)
class GammaExponential(ConjugateModel):
    """An exponential likelihood with a gamma prior of its rate; times are clipped to their interval, above 0.

    Attributes
    ----------
    column
        A column with an interval that begins above 0.
    by
        A column of levels, or several: one rate for each.
    prior
        The shape and the rate of the prior.
    """

    column: str
    by: By = None
    prior: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "gamma-exponential"
    family_type: ClassVar[type[ConjugateFamily]] = GammaExponentialFamily

    def family(self, domains: Mapping[str, Domain]) -> GammaExponentialFamily:
        """Return the exponential family with the column's ends."""
        self.groups(domains)
        interval = interval_of(domains, self.column)
        return GammaExponentialFamily(interval.low, interval.high)

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add the time, counted from the middle of its interval."""
        interval = interval_of(domains, self.column)
        return (Sum(self.column, (interval.low + interval.high) / 2, layout.grid),)

    def question(self) -> str:
        """Say what is asked."""
        return f"The rate of {self.column}{self.by_words()}"


def exponential_posterior(
    noisy: float,
    *,
    grid: float,
    middle: float,
    count: float,
    shape: float,
    rate: float,
    noise: Noise,
    count_units: int | None = None,
) -> GammaMixture:
    """Return the posterior of an exponential rate from the noisy sum of times, in steps of a grid from the middle."""

    def predictive(units: Array, n: Array) -> Array:
        return _sum_of_times(grid * units + n * middle, n, shape, rate)

    units, n, logs = sum_and_count_nodes(predictive, noisy, -np.inf, count, count_units, noise)
    weights, places = normalise(logs)
    return GammaMixture(weights, shape + n[places], rate + grid * units[places] + n[places] * middle)


def _sum_of_times(s: Array, n: Array, a: float, b: float) -> Array:
    """Return log of s^(n-1) b^a/(b+s)^(n+a) G(n + a)/(G(n) G(a)); minus infinity where there is no such sum."""
    inside = (s > 0) & (n >= 1)
    time, records = np.where(inside, s, 1.0), np.where(inside, n, 1.0)
    # s^(n-1)/(b+s)^(n+a) = (1 + b/s)^-(n-1) (b+s)^-(a+1)
    logs = -xlog1py(records - 1, b / time) - xlogy(a + 1, b + time) + log_ratio(records - 1, a + 1)
    return np.where(inside, logs, -np.inf)
