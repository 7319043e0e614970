"""The mean of normal records of known variance, clipped to an interval in each coordinate; isotropic normal prior.

S(x) = x, and with s2 the variance of a record T = (theta, -|theta|^2/2), eta = (L mean, L), L the precision, so that a
record adds (x, 1)/s2; C(eta) = |eta_1|^2/(2 L) - (d/2) log(L/(2 pi)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.conjugate.family import (
    ConjugateFamily,
    check_number,
    check_order,
    check_positive,
    check_scales,
    check_sums,
    points,
)
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.request import groups_of, interval_of, listing
from vestry.model.worst_pair import Pair, say_records
from vestry.numerics import Array, outward
from vestry.posterior.discrete_noise import deviation, noise_law
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource
import vestry.conjugate.normal_posterior as normal_posterior
from vestry.conjugate.family import check_size, floats
from vestry.conjugate.interval_sums import end_to_end, half_width, sum_layout, sums_from_units, units_of_sums
from vestry.conjugate.normal_posterior import NormalModel, NormalPosterior


@dataclass(frozen=True)
class Normal:
    """The normal distribution with this mean and covariance I/precision."""

    location: tuple[float, ...]
    precision: float

    def __post_init__(self) -> None:
        if len(self.location) < 1:
            raise InvalidParameter("location", self.location, "at least one number", "one mean a coordinate")
        object.__setattr__(self, "location", tuple(check_number("mean", x) for x in self.location))
        object.__setattr__(self, "precision", check_positive("precision", self.precision))

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return len(self.location)

    def natural(self) -> Array:
        """Return eta = (precision x mean, precision)."""
        return np.array([*(self.precision * x for x in self.location), self.precision])

    def log_density(self, theta: ArrayLike) -> Array:
        """Return (d/2) log(L/(2 pi)) - L |theta - mean|^2/2."""
        squares = ((points(theta, self.dimension) - self.mean()) ** 2).sum(axis=-1)
        return np.asarray(self.dimension / 2 * math.log(self.precision / (2 * math.pi)) - self.precision * squares / 2)

    def mean(self) -> Array:
        """Return the mean of each coordinate."""
        return np.array(self.location)

    def variance(self) -> Array:
        """Return 1/precision for each coordinate."""
        return np.full(self.dimension, 1 / self.precision)

    def cdf(self, x: ArrayLike) -> Array:
        """Return Phi((x - mean) sqrt(L))."""
        return np.asarray(ndtr((np.asarray(x, dtype=float) - self.mean()) * math.sqrt(self.precision)))

    def quantile(self, p: ArrayLike) -> Array:
        """Return mean + Phi^-1(p)/sqrt(L)."""
        return np.asarray(self.mean() + ndtri(np.asarray(p, dtype=float)) / math.sqrt(self.precision))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return draws of shape (size, d)."""
        return self.mean() + rng.standard_normal((size, self.dimension)) / math.sqrt(self.precision)

    def marginal_log_density(self, index: int, points: Array) -> Array:
        """Return the log density of one coordinate."""
        variance = 1 / self.precision
        return -((points[:, index] - self.location[index]) ** 2) / (2 * variance) - 0.5 * math.log(
            2 * math.pi * variance
        )

    def renyi(self, other: Normal, order: float) -> float:
        """Return a |m_P - m_Q|^2 L_P L_Q/(2 L) + d/(2 (a-1)) log(L_P^a L_Q^(1-a)/L), L = a L_P + (1-a) L_Q.

        Infinite where L <= 0. It is the formula of the log-partition with the means' common part taken out.
        """
        if check_order(order) == 1:
            return self.kl(other)
        p, q = self.precision, other.precision
        between = order * p + (1 - order) * q
        if not between > 0:
            return math.inf
        logs = order * math.log(p / between) + (1 - order) * math.log(q / between)
        means = order * self._squared_distance(other) * p * q / (2 * between)
        return means + max(0.0, self.dimension / (2 * (order - 1)) * logs)

    def kl(self, other: Normal) -> float:
        """Return [L_Q |m_P - m_Q|^2 + d (L_Q/L_P - 1 - log(L_Q/L_P))]/2."""
        ratio = other.precision / self.precision
        spread = max(0.0, ratio - 1 - math.log(ratio))
        return (other.precision * self._squared_distance(other) + self.dimension * spread) / 2

    def _squared_distance(self, other: Normal) -> float:
        return float(((self.mean() - other.mean()) ** 2).sum())


@dataclass(frozen=True)
class NormalMeanFamily(ConjugateFamily):
    """Records of `dimension` coordinates, each clipped to [low, high], with a known variance around the mean."""

    variance: float
    low: float
    high: float
    dimension: int = 1

    name: ClassVar[str] = "normal-mean"
    parameter: ClassVar[str] = "mean"
    note: ClassVar[str] = "Values outside the declared interval were clipped to its ends before they were summed."

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", check_positive("variance", self.variance))
        object.__setattr__(self, "low", check_number("low", self.low, instead="the least value a record may have"))
        object.__setattr__(self, "high", check_number("high", self.high, instead="the largest value a record may have"))
        if not self.low < self.high:
            raise InvalidParameter("high", self.high, f"above low, {self.low:g}", "the ends of the declared interval")
        whole = isinstance(self.dimension, int) and not isinstance(self.dimension, bool)
        if not whole or not 1 <= self.dimension <= _MOST_COORDINATES:
            allowed = (
                "a whole number of at least 1" if not whole or self.dimension < 1 else f"at most {_MOST_COORDINATES}"
            )
            raise InvalidParameter("dimension", self.dimension, allowed, "for example dimension=1")

    def statistic(self, x: ArrayLike) -> Array:
        """Return x, each coordinate clipped to [low, high]; a missing value counts as low."""
        record = np.asarray(x, dtype=float).reshape(self.dimension)
        return np.clip(np.where(np.isnan(record), self.low, record), self.low, self.high)

    def bounds(self) -> tuple[Array, Array]:
        """Return low and high for each coordinate."""
        return np.full(self.dimension, self.low), np.full(self.dimension, self.high)

    def extremes(self) -> Iterator[Array]:
        """Yield the 2^d corners of the cube of differences."""
        width = self.high - self.low
        for corner in itertools.product((-width, width), repeat=self.dimension):
            yield np.array(corner)

    def log_partition(self, eta: ArrayLike) -> float:
        """Return C(eta) = |eta_1|^2/(2 L) - (d/2) log(L/(2 pi)); infinite where L <= 0."""
        *first, precision = np.asarray(eta, dtype=float)
        if not precision > 0:
            return math.inf
        return float(sum(x * x for x in first) / (2 * precision) - len(first) / 2 * math.log(precision / (2 * math.pi)))

    def gradient(self, eta: ArrayLike) -> Array:
        """Return E[T] = (mean, -(|mean|^2 + d/L)/2)."""
        read = np.asarray(eta, dtype=float)
        mean, precision = read[:-1] / read[-1], read[-1]
        return np.array([*mean, -(mean @ mean + len(mean) / precision) / 2])

    def normalisable(self, eta: ArrayLike) -> bool:
        """Tell whether L > 0."""
        return bool(np.asarray(eta, dtype=float)[-1] > 0)

    def prior(self, numbers: Sequence[float]) -> Normal:
        """Read (mean, variance): one mean for every coordinate, or one each; the variance is above 0."""
        if len(numbers) not in (2, self.dimension + 1):
            means = "a mean" if self.dimension == 1 else f"one mean or {self.dimension}"
            raise InvalidParameter(
                "the prior of normal-mean", tuple(numbers), f"{means} and a variance", "for example 0,100"
            )
        *given, variance = numbers
        spread = check_positive("the prior's variance", variance, instead="for example 0,100")
        return Normal(tuple(given * self.dimension if len(given) == 1 else given), 1 / spread)

    def update(
        self,
        prior: Normal,
        sums: Sequence[float],
        count: float,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> Normal:
        """Return the posterior of precision L = L0/m + r n/s2 and mean (L0 m0/m + r sums/s2)/L.

        L0 and m0 are the prior's, `sums` those of the clipped records, n their count.
        """
        start, weight = self.weights(prior, likelihood_power, prior_scale)
        added = check_sums(sums, self.dimension)
        precision = start + weight * check_number("count", count)
        return Normal(tuple((start * prior.mean() + weight * added) / precision), precision)

    def worst_draw(
        self, prior: Normal, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: exactly mu-GDP, mu = r k w sqrt(d)/(s2 sqrt(L)), with w = high - low, k records a unit
        and L = L0/m + r n/s2. Neighbouring posteriors have the same precision L, and means at most
        r k w sqrt(d)/(s2 L) apart [DongRS22, Def. 2.1].

        Refused elsewhere: where the count can change so can the precision, and no supremum is known.
        """
        if adjacency.count is None:
            raise GuaranteeUnreachable(
                "one private draw from a normal posterior whose count is not public",
                "no theorem bounds it, because the count moves the precision; release noisy statistics instead, or"
                " declare neighbours=replace and a public count",
            )
        start, weight = self.weights(prior, likelihood_power, prior_scale)
        precision = start + weight * adjacency.count
        diameter = (self.high - self.low) * math.sqrt(self.dimension)
        mu = weight * adjacency.rows * diameter / math.sqrt(precision)
        return event("gdp", mu=outward(mu), neighbours=adjacency.neighbours)

    def order_limit(
        self, prior: Normal, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return infinity: with equal precisions every order is finite. Refused where `worst_draw` is."""
        self.worst_draw(prior, adjacency, likelihood_power=likelihood_power, prior_scale=prior_scale)
        return math.inf

    def weights(self, prior: Normal, likelihood_power: float, prior_scale: float) -> tuple[float, float]:
        """Return the precision of the scaled prior and that of one tempered record."""
        r, m = check_scales(likelihood_power, prior_scale)
        return prior.precision / m, r / self.variance

    # What is released, and draws

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the sums of clipped values; see `sum_layout`."""
        return sum_layout(self.low, self.high, self.dimension, adjacency, grid)

    def from_units(self, adjacency: Adjacency, units: Sequence[int], count: int) -> list[Fraction]:
        """Turn integer sums back into sums of values, exactly."""
        return sums_from_units(self.low, self.high, self.layout(adjacency).grid, units, count)

    def exact_parameters(
        self,
        prior: Normal,
        sums: Sequence[Fraction],
        count: int,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> tuple[Fraction, ...]:
        """Return the means and the precision, not rounded."""
        start, weight = (Fraction(x) for x in self.weights(prior, likelihood_power, prior_scale))
        precision = start + weight * count
        at = (Fraction(mean) for mean in prior.location)
        return *((start * m + weight * each) / precision for m, each in zip(at, sums, strict=True)), precision

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw exactly, on a grid of 2^-40 of the interval's width, or of doubles at its ends where that is coarser."""
        from vestry.noise.exact_sampling import normal
        from vestry.noise.grid import declared_grid

        *means, precision = parameters
        grid = declared_grid(self.high - self.low, reach=max(abs(self.low), abs(self.high)))
        columns = [normal(bits, mean, precision, grid=grid, size=size) for mean in means]
        return Draws(tuple(zip(*columns, strict=True)), grid)

    # The posterior of what was released

    def noise_aware(self, prior: Normal, statistics: NoisyStatistics) -> NormalPosterior:
        """Integrate over the sums, and the count where it is private."""
        sums, count = self._sums(statistics)
        noise, grid, model = noise_law(statistics.noise, statistics.scale), statistics.grid, self._centred(prior)
        if statistics.count is None:
            posterior = normal_posterior.private_count(
                sums, count, model=model, noise=noise, grid=grid, count_grid=statistics.count_grid
            )
        else:
            posterior = normal_posterior.public_count(sums, count=statistics.count, model=model, noise=noise, grid=grid)
        return posterior.shifted((self.low + self.high) / 2)

    def plug_in(self, prior: Normal, statistics: NoisyStatistics) -> NormalPosterior:
        """Return the conjugate normal, each sum clipped to what n values of the interval can have."""
        sums, noisy = self._sums(statistics)
        n = noisy * statistics.count_grid if statistics.count is None else float(statistics.count)
        reach, model = (self.high - self.low) / 2, self._centred(prior)
        exact = plug_in_normal(sums * statistics.grid, count=n, model=model, reach=reach)
        return exact.shifted((self.low + self.high) / 2)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records."""
        return rng.normal(theta, math.sqrt(self.variance / size))

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return grid sd/n for a mean middle + y/n; with n noisy also (mean - middle) count_grid sd/n."""
        public, sd = content.count is not None, deviation(content.noise, content.scale)
        n = float(content.count) if content.count is not None else content.values[-1] * content.count_grid
        away = 0.0 if public else (mean - (self.low + self.high) / 2) * content.count_grid
        return math.hypot(content.grid, away) * sd / n if n > 0 else None

    def _centred(self, prior: Normal) -> NormalModel:
        """Return the model of values counted from the middle of the interval."""
        if len(set(prior.location)) > 1:
            allowed = "one mean for every coordinate"
            raise InvalidParameter("a normal prior", prior.location, allowed, "for example prior=(0, 100)")
        return NormalModel(self.variance, prior.location[0] - (self.low + self.high) / 2, 1 / prior.precision)

    def _sums(self, statistics: NoisyStatistics) -> tuple[Array, float]:
        """Return the noisy sums, and the noisy count where it is private."""
        check_size(statistics, {self.dimension + (statistics.count is None)})
        values = floats(statistics)
        return values[: self.dimension], float(values[-1])

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the sums of n records. They are not clipped: a declared interval is taken to be wide enough."""
        totals = rng.normal(n * theta, math.sqrt(n * self.variance))
        return [float(x) for x in np.clip(totals, n * self.low, n * self.high)]

    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return the sums in steps of the grid, and the count where it is private."""
        return units_of_sums(self.low, self.high, layout, sums, n)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return records that go from end to end, or are added at the upper one."""
        return end_to_end(self.low, self.high, layout, adjacency)

    def draw_pair(self, prior: Normal, adjacency: Adjacency) -> Pair:
        """Return records that go from low to high; only the distance of the means matters."""
        self.worst_draw(prior, adjacency)
        k, n, d = adjacency.rows, adjacency.count or 0, self.dimension
        half = half_width(self.low, self.high, self.layout(adjacency).grid)
        return Pair(f"{say_records(k, 'go')} from low to high", (*(-k * half,) * d, n), (*(k * half,) * d, n))

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the declared numbers."""
        return {
            "name": self.name,
            "variance": self.variance,
            "low": self.low,
            "high": self.high,
            "dimension": self.dimension,
        }


def plug_in_normal(sums: Array, *, count: float, model: NormalModel, reach: float) -> NormalPosterior:
    """Return the conjugate normal, each sum clipped to what n values between -reach and reach can have."""
    n = max(float(count), 0.0)
    clipped = np.clip(sums, -n * reach, n * reach)
    if n > 0:
        means, variances = model.member(clipped, np.array(n), np.zeros(1))
    else:
        means, variances = np.full(clipped.shape, model.prior_mean), np.full(1, model.prior_variance)
    shape = (1, clipped.size, 1)
    spread = np.broadcast_to(variances, clipped.shape).reshape(shape)
    return NormalPosterior(np.ones(1), np.ones(shape), means.reshape(shape), spread)


# Coordinates of one mean: each has a name and a number of its own.
_MOST_COORDINATES = 10_000


@dataclass(frozen=True)
class NormalMean(ConjugateModel):
    """A normal likelihood of known variance with a normal prior of its mean; values are clipped to their interval.

    Attributes
    ----------
    column
        A column with an interval, or several with the same one: then a mean for each.
    variance
        The variance of one record, as declared.
    prior
        The mean and the variance of the prior.
    by
        A column of levels: one mean for each.
    """

    column: str | tuple[str, ...]
    variance: float
    prior: tuple[float, ...]
    by: str | None = None

    name: ClassVar[str] = "normal-mean"
    family_type: ClassVar[type[ConjugateFamily]] = NormalMeanFamily

    @property
    def own(self) -> tuple[str, ...]:
        """The column, or the columns."""
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    def family(self, domains: Mapping[str, Domain]) -> NormalMeanFamily:
        """Return the normal family with the columns' interval."""
        interval = interval_of(domains, self.own[0])
        groups_of(domains, self.by)
        for column in self.own[1:]:
            other = interval_of(domains, column)
            if (other.low, other.high) != (interval.low, interval.high):
                raise InvalidParameter(
                    "the intervals of several columns",
                    f"{[other.low, other.high]} of {column}",
                    f"the same, {[interval.low, interval.high]}",
                    "one interval, or a release for each column",
                )
        return NormalMeanFamily(self.variance, interval.low, interval.high, len(self.own))

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the columns, if there are several."""
        return self.own if len(self.own) > 1 else ()

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add each column's value, from the middle of the interval."""
        interval = interval_of(domains, self.own[0])
        return tuple(Sum(column, (interval.low + interval.high) / 2, layout.grid) for column in self.own)

    def question(self) -> str:
        """Say what is asked."""
        return f"The mean of {listing(self.own, ' and ')}{self.by_words()}"
