"""Counts: a Poisson likelihood with a gamma prior of its rate; a record is clipped to [0, high].

S(x) = x, theta the logarithm of the rate, T = (theta, -e^theta), eta = (shape, rate): a record adds (x, 1)
[GeumlekSC17, sec. 3, appendix A.3].

The noise-aware posterior: p(s | n) ~ G(s + a)/s! (n/(b + n))^s (b/(b + n))^a, the negative binomial distribution, and a
member is Gamma(a + s, b + n); p(s, n | z) is that times the noise of both, and the prior of a private n is uniform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.conjugate.draw_cost import draw
from vestry.conjugate.family import ConjugateFamily, Distribution, noise_per_record, pool_noise, sum_and_count
from vestry.conjugate.gamma import Gamma, exact_rates, one_gamma, sum_and_count_nodes
from vestry.conjugate.interval_family import public_count
from vestry.conjugate.pooled_gamma import PooledGamma, pooled_gamma
from vestry.errors import InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.averaging import Averaged, averaged_numbers
from vestry.model.request import By, interval_of
from vestry.model.worst_pair import Pair, count_records, say_records
from vestry.noise.bits import BitSource
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Noise, log_ratio, noise_of
from vestry.posterior.mixture import GammaMixture, normalise
from vestry.posterior.noisy_data import POISSON
from vestry.posterior.tabulated import RATE, Tabulated, multiply
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum
from vestry.validation import is_number, require_whole


@dataclass(frozen=True)
class GammaPoissonFamily(ConjugateFamily):
    """Records that are whole numbers, clipped to 0 ... high."""

    high: int

    name: ClassVar[str] = "gamma-poisson"
    parameter: ClassVar[str] = "rate"
    data_kind: ClassVar[str] = POISSON
    member: ClassVar[type[Distribution]] = Gamma
    prior_words: ClassVar[tuple[str, str]] = ("a shape and a rate", "2,1")

    def __post_init__(self) -> None:
        high = int(self.high) if is_number(self.high) and self.high == int(self.high) else self.high
        high = require_whole("high", high, "the largest count of one record", most=2**40)
        object.__setattr__(self, "high", high)

    def statistic(self, x: ArrayLike) -> Array:
        """Return x rounded half up and clipped to [0, high]; a missing value counts as 0."""
        return np.asarray(np.floor(super().statistic(x) + 0.5))

    def bounds(self) -> tuple[Array, Array]:
        """Return 0 and high."""
        return np.zeros(1), np.array([float(self.high)])

    def added(self, numbers: Sequence[Any], sums: Sequence[Any], count: Any, weight: Any) -> tuple[Any, ...]:
        """Return shape/m + r sum and rate/m + r n."""
        (shape, rate), (total,) = numbers, sums
        return shape + weight * total, rate + weight * count

    def draw_event(self, prior: Gamma, weight: float, adjacency: Adjacency) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: the two posteriors have one rate, so they are Gamma(s) against Gamma(s + r k high) in
        units of it, s the smaller shape. The supremum is at s = shape/m, all other records 0: if V ~ Beta(s, c) is
        independent of U ~ Gamma(s + c), then U V ~ Gamma(s); the other way round a larger shape is a sum with an
        independent Gamma(c), which only hides.

        Refused elsewhere: where the count can change so can the rate, and no supremum is known.
        """
        public_count(adjacency, "Poisson")
        shift = weight * adjacency.rows * self.high
        return draw(gammas=((prior.shape, shift),), neighbours=adjacency.neighbours)

    def highest_order(self, prior: Gamma, weight: float, adjacency: Adjacency) -> float:
        """Return lambda* = 1 + shape/(m r k high)."""
        public_count(adjacency, "Poisson")
        return 1 + prior.shape / (weight * adjacency.rows * self.high)

    # What is released, and draws

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the sum; a private count joins in units of half the largest record.

        A unit contributes (x, u j), 0 <= x <= high j, j <= k; the farthest from nothing is k (high, u). Under replace
        with groups a record may leave one and enter another: twice that, sqrt(2) times in l2.
        """
        k, high = adjacency.rows, self.high
        if adjacency.count is not None:
            return Layout(("sum",), k * high, k * high, count=adjacency.count)
        units = max(1, high // 2)
        times = 2 if adjacency.replaces and adjacency.groups > 1 else 1
        l1, l2 = times * k * (high + units), math.sqrt(times) * k * math.hypot(high, units)
        return Layout(("sum", "count"), l1, l2, count_grid=1 / units)

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw exactly, on a grid of 2^-40."""
        return exact_rates(bits, parameters, size, scale=1.0)

    # The posterior of what was released

    def noise_aware(self, prior: Gamma, statistics: NoisyStatistics) -> GammaMixture:
        """Sum over the sum, and over the count where it is private."""
        noisy, count, units = sum_and_count(statistics)
        noise, numbers = noise_of(statistics), {"shape": prior.shape, "rate": prior.rate}
        return poisson_posterior(noisy, count=count, count_units=units, noise=noise, **numbers)

    def multiplied(self, prior: Gamma, contents: Sequence[NoisyStatistics]) -> Tabulated:
        """Return the product of what releases of other people say, over the prior."""
        posteriors = [self.noise_aware(prior, each) for each in contents]
        return multiply(posteriors, lambda x: prior.log_density(x[:, None]), RATE)

    def plug_in(self, prior: Gamma, statistics: NoisyStatistics) -> GammaMixture:
        """Take the projected sum and count as exact."""
        noisy, count, units = sum_and_count(statistics)
        return one_gamma(prior.shape + max(noisy, 0.0), prior.rate + max(count / (units or 1), 0.0))

    def group_numbers(self, statistics: NoisyStatistics) -> tuple[float, float]:
        """Return the sum and the number of records."""
        noisy, count, units = sum_and_count(statistics)
        return noisy, count / (units or 1)

    def pooled(self, contents: Sequence[NoisyStatistics]) -> PooledGamma:
        """Return rates from a gamma population, all of it unknown: see `vestry.conjugate.pooled_gamma`."""
        sums, counts = zip(*map(self.group_numbers, contents), strict=True)
        first, noise = contents[0], pool_noise(contents[0], contents[0].scale)
        counted = None if first.count is not None else noise.in_units_of(1 / first.count_grid)
        return pooled_gamma(sums, counts, noise=noise, exposure_noise=counted)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the sum of the new records."""
        return rng.poisson(size * theta).astype(float)

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return that of s/n: of s/n, and of the count times s/n^2 where it is private."""
        noise = noise_per_record(content)
        return None if noise is None else math.hypot(noise[0], mean * noise[1])

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the sum of n counts, cut where all are at the largest."""
        return [float(min(rng.poisson(n * theta[0]), n * self.high))]

    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return the sum, and the count where it is private."""
        return layout.with_count([math.floor(each / layout.grid + 0.5) for each in sums], n)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return records that go from 0 to the largest count, or are added there."""
        k, high = adjacency.rows, self.high
        if layout.count is not None:
            return Pair(f"{say_records(k, 'go')} from 0 to {high}", (0,), (k * high,))
        return Pair(f"{count_records(k)} added at {high}", (0, 0), tuple(layout.with_count([k * high], k)))

    def draw_pair(self, prior: Gamma, adjacency: Adjacency) -> Pair:
        """Return records that go from 0 to the largest count, where all others are 0."""
        k, n = adjacency.rows, public_count(adjacency, "Poisson")
        return Pair(f"{say_records(k, 'go')} from 0 to {self.high}, all others 0", (0, n), (k * self.high, n))


@dataclass(frozen=True)
class GammaPoisson(ConjugateModel):
    """A Poisson likelihood with a gamma prior of its rate; counts are clipped to those declared.

    Attributes
    ----------
    column
        A column of counts: { count = 20 }, or an interval from 0 to a whole number.
    by
        A column of levels, or several: one rate for each.
    prior
        The shape and the rate of the prior.
    pool
        Whether groups learn from each other when the release is read: see `vestry.conjugate.pooled_gamma`.
    """

    column: str
    by: By = None
    prior: tuple[float, float] = (1.0, 1.0)
    pool: bool = False

    name: ClassVar[str] = "gamma-poisson"
    one_number: ClassVar[bool] = True
    family_type: ClassVar[type[ConjugateFamily]] = GammaPoissonFamily

    def family(self, domains: Mapping[str, Domain]) -> GammaPoissonFamily:
        """Return the Poisson family with the column's ends."""
        self.groups(domains)
        interval = interval_of(domains, self.column)
        if interval.low != 0 or interval.high != int(interval.high):
            given = [interval.low, interval.high]
            raise InvalidParameter(f"the column {self.column}", given, "counts from 0 to a whole number", "count = 20")
        return GammaPoissonFamily(int(interval.high))

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add the count."""
        return (Sum(self.column, 0.0, layout.grid),)

    def averaged(self, domains: Mapping[str, Domain]) -> Averaged:
        """Average the counts over persons."""
        return averaged_numbers((self.column,), 0.0, float(self.family(domains).high), step=1.0)

    def question(self) -> str:
        """Say what is asked."""
        return f"The rate of {self.column}{self.by_words()}"


def poisson_posterior(
    noisy: float, *, count: float, shape: float, rate: float, noise: Noise, count_units: int | None = None
) -> GammaMixture:
    """Return the posterior of a Poisson rate from the noisy sum of counts.

    `count` is public; or, with `count_units`, it is the noisy count in these units.
    """

    def predictive(s: Array, n: Array) -> Array:
        return _negative_binomial(s, n, shape, rate)

    s, n, logs = sum_and_count_nodes(predictive, noisy, 0.0, count, count_units, noise)
    weights, places = normalise(logs)
    return GammaMixture(weights, shape + s[places], rate + n[places])


def _negative_binomial(s: Array, n: Array, a: float, b: float) -> Array:
    """Return log of G(s + a)/(s! G(a)) (b/(b+n))^a (n/(b+n))^s; no records give the sum 0."""
    with np.errstate(divide="ignore"):
        odds = np.where(n > 0, np.log(n / (b + n)), -np.inf)
    return log_ratio(s, a) - a * np.log1p(n / b) + np.where(s > 0, s * np.where(n > 0, odds, -1e300), 0.0)
