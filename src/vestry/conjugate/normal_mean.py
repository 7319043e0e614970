"""The mean of normal records of known variance, clipped to an interval in each coordinate; isotropic normal prior.

S(x) = x, and with s2 the variance of a record T = (theta, -|theta|^2/2), eta = (L mean, L), L the precision, so that a
record adds (x, 1)/s2; C(eta) = |eta_1|^2/(2 L) - (d/2) log(L/(2 pi)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

import vestry.conjugate.normal_posterior as normal_posterior
from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.conjugate.family import (
    ConjugateFamily,
    Distribution,
    check_order,
    noise_per_record,
    noisy_values,
    points,
    pool_noise,
    positive,
)
from vestry.conjugate.interval_family import IntervalFamily, half_width, public_count, rests_on_prior
from vestry.conjugate.normal_posterior import NormalModel, NormalPosterior
from vestry.conjugate.pooled_normal import PooledNormal, pooled_normal
from vestry.errors import InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.averaging import Averaged, averaged_numbers
from vestry.model.request import WIDE, By, interval_of, listing
from vestry.model.worst_pair import Pair, say_records
from vestry.noise.bits import BitSource
from vestry.numerics import Array, outward
from vestry.posterior.discrete_noise import noise_of
from vestry.posterior.joined_noise import Joined
from vestry.posterior.mixture import ClippedMeans, PosteriorDistribution
from vestry.posterior.tabulated import LINE, multiply
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum
from vestry.validation import require_number, require_whole


@dataclass(frozen=True)
class Normal(Distribution):
    """The normal distribution with this mean and covariance I/precision."""

    location: tuple[float, ...]
    precision: float

    def __post_init__(self) -> None:
        if len(self.location) < 1:
            raise InvalidParameter("location", self.location, "at least one number", "one mean per coordinate")
        object.__setattr__(self, "location", tuple(require_number("mean", x, "mean=0") for x in self.location))
        self.require_positive("precision")

    @property
    def numbers(self) -> tuple[float, ...]:
        """The means and the precision."""
        return *self.location, self.precision

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Normal:
        """Make one of its means and its precision."""
        return cls(tuple(numbers[:-1]), numbers[-1])

    def divided(self, scale: float) -> Normal:
        """Return the distribution of eta/scale: the precision alone is divided."""
        return Normal(self.location, self.precision / scale)

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

    @staticmethod
    def log_partition(eta: ArrayLike) -> float:
        """Return C(eta) = |eta_1|^2/(2 L) - (d/2) log(L/(2 pi)); infinite where L <= 0."""
        *first, precision = np.asarray(eta, dtype=float)
        if not precision > 0:
            return math.inf
        return float(sum(x * x for x in first) / (2 * precision) - len(first) / 2 * math.log(precision / (2 * math.pi)))

    @staticmethod
    def gradient(eta: ArrayLike) -> Array:
        """Return E[T] = (mean, -(|mean|^2 + d/L)/2)."""
        read = np.asarray(eta, dtype=float)
        mean, precision = read[:-1] / read[-1], read[-1]
        return np.array([*mean, -(mean @ mean + len(mean) / precision) / 2])


@dataclass(frozen=True)
class NormalMeanFamily(IntervalFamily):
    """Records of `dimension` coordinates, each clipped to [low, high], with a known variance around the mean."""

    variance: float
    low: float
    high: float
    dimension: int = 1

    name: ClassVar[str] = "normal-mean"
    number_keys: ClassVar[tuple[str, ...]] = ("prior", "variance")
    several_columns: ClassVar[bool] = True
    example_prior: ClassVar[tuple[float, ...]] = (0.0, 100.0)
    parameter: ClassVar[str] = "mean"
    note: ClassVar[str] = "Values outside the declared interval were clipped to its ends before they were summed."
    member: ClassVar[type[Distribution]] = Normal

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive("variance", self.variance))
        self.require_ends()
        require_whole("dimension", self.dimension, most=_MOST_COORDINATES)

    def prior(self, numbers: Sequence[float]) -> Normal:
        """Read (mean, variance): one mean for every coordinate, or one each; the variance is above 0."""
        if len(numbers) not in (2, self.dimension + 1):
            means = "a mean" if self.dimension == 1 else f"one mean or {self.dimension}"
            raise InvalidParameter(
                "the prior of normal-mean", tuple(numbers), f"{means} and a variance", "for example 0,100"
            )
        *given, variance = numbers
        spread = require_number("the prior's variance", variance, "for example 0,100", above=0)
        return Normal(tuple(given * self.dimension if len(given) == 1 else given), 1 / spread)

    def record_weight(self, likelihood_power: float) -> float:
        """Return the precision of one tempered record, r/s2."""
        return likelihood_power / self.variance

    def added(self, numbers: Sequence[Any], sums: Sequence[Any], count: Any, weight: Any) -> tuple[Any, ...]:
        """Return the means (L0 m0/m + r sums/s2)/L and the precision L = L0/m + r n/s2.

        L0 and m0 are the prior's, `sums` those of the clipped records, n their count.
        """
        *means, start = numbers
        precision = start + weight * count
        return *((start * mean + weight * each) / precision for mean, each in zip(means, sums, strict=True)), precision

    def draw_event(self, prior: Normal, weight: float, adjacency: Adjacency) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: exactly mu-GDP, mu = r k w sqrt(d)/(s2 sqrt(L)), with w = high - low, k records a unit
        and L = L0/m + r n/s2. Neighbouring posteriors have the same precision L, and means at most
        r k w sqrt(d)/(s2 L) apart [DongRS22, Def. 2.1].

        Refused elsewhere: where the count can change so can the precision, and no supremum is known.
        """
        precision = prior.precision + weight * public_count(adjacency, "normal", "moves the precision")
        diameter = (self.high - self.low) * math.sqrt(self.dimension)
        mu = weight * adjacency.rows * diameter / math.sqrt(precision)
        return event("gdp", mu=outward(mu), neighbours=adjacency.neighbours)

    def highest_order(self, prior: Normal, weight: float, adjacency: Adjacency) -> float:
        """Return infinity: with equal precisions every order is finite."""
        self.draw_event(prior, weight, adjacency)
        return math.inf

    # What is released, and draws

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
        noise, grid, model = noise_of(statistics), statistics.grid, self._centred(prior)
        if isinstance(noise, Joined):
            posterior = self._joined(statistics, noise, model)
        elif statistics.count is None:
            posterior = normal_posterior.private_count(
                sums, count, model=model, noise=noise, grid=grid, count_grid=statistics.count_grid
            )
        else:
            posterior = normal_posterior.public_count(sums, count=statistics.count, model=model, noise=noise, grid=grid)
        return posterior.shifted(self.middle)

    def _joined(self, statistics: Any, noise: Joined, model: NormalModel) -> NormalPosterior:
        """Return the posterior from several releases of the same records."""
        each = np.array([part.values[: self.dimension] for part in statistics.parts], dtype=float)
        grid = statistics.grid
        if statistics.count is not None:
            count = statistics.count
            return normal_posterior.joined_public(each, count=count, model=model, noises=noise.noises, grid=grid)
        label, steps = float(statistics.values[-1]), statistics.count_grid
        return normal_posterior.joined_private(each, label, model=model, noise=noise, grid=grid, count_grid=steps)

    def multiplied(self, prior: Normal, contents: Sequence[NoisyStatistics]) -> PosteriorDistribution:
        """Return the product of what releases of other people say of one mean, over the prior."""
        if self.dimension > 1:
            allowed = "one mean, where people are not the same"
            raise InvalidParameter("combine", f"{self.dimension} means at once", allowed, "a release for each column")
        posteriors = [self.noise_aware(prior, each) for each in contents]
        return multiply(posteriors, lambda x: prior.log_density(x[:, None]), LINE)

    def plug_in(self, prior: Normal, statistics: NoisyStatistics) -> NormalPosterior:
        """Return the conjugate normal, each sum clipped to what n values of the interval can have."""
        sums, noisy = self._sums(statistics)
        n = noisy * statistics.count_grid if statistics.count is None else float(statistics.count)
        exact = plug_in_normal(sums * statistics.grid, count=n, model=self._centred(prior), reach=self.reach)
        return exact.shifted(self.middle)

    def inside(self, posterior: PosteriorDistribution) -> ClippedMeans:
        """Clip the means to the declared interval, where those of clipped values lie."""
        return ClippedMeans(posterior, self.low, self.high, self.dimension)

    def group_numbers(self, statistics: NoisyStatistics) -> tuple[float, float]:
        """Return the sum, counted from the middle of the interval, and the number of records."""
        if self.dimension > 1:
            raise InvalidParameter("pool", f"{self.dimension} columns", "asked of one column", "one column")
        sums, count = self._sums(statistics)
        n = count * statistics.count_grid if statistics.count is None else float(statistics.count)
        return float(sums[0]) * statistics.grid, n

    def pooled(self, contents: Sequence[NoisyStatistics]) -> PooledNormal:
        """Return means from a normal population, all of it unknown: see `vestry.conjugate.pooled_normal`."""
        sums, counts = zip(*map(self.group_numbers, contents), strict=True)
        first = contents[0]
        noise = pool_noise(first, first.scale * first.count_grid if first.count is None else 0.0)
        return pooled_normal(
            np.array(sums) / first.grid,
            counts,
            variance=self.variance,
            interval=(-self.reach, self.reach),
            noise=noise,
            grid=first.grid,
            count_noise=None if first.count is not None else noise.in_units_of(1 / first.count_grid),
            origin=self.middle,
        )

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records."""
        return rng.normal(theta, math.sqrt(self.variance / size))

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return that of middle + y/n: of y/n, and of the count times (mean - middle)/n where it is private."""
        noise = noise_per_record(content)
        return None if noise is None else math.hypot(noise[0], (mean - self.middle) * noise[1])

    def remark(self, prior: Normal, posterior: PosteriorDistribution, index: int) -> str:
        """Say that the prior moves a mean far, at mean and 1.645 standard deviations on either side."""
        marginal = posterior.marginal(index)
        sd, away = math.sqrt(marginal.variance()), marginal.mean() - prior.location[index]
        return rests_on_prior([prior.precision * (away + side * sd * WIDE / 2) for side in (-1, 1)], sd)

    def _centred(self, prior: Normal) -> NormalModel:
        """Return the model of values counted from the middle of the interval."""
        if len(set(prior.location)) > 1:
            allowed = "one mean for every coordinate"
            raise InvalidParameter("a normal prior", prior.location, allowed, "for example prior=(0, 100)")
        return NormalModel(self.variance, prior.location[0] - self.middle, 1 / prior.precision)

    def _sums(self, statistics: NoisyStatistics) -> tuple[Array, float]:
        """Return the noisy sums, and the noisy count where it is private."""
        values = noisy_values(statistics, self.dimension)
        return values[: self.dimension], float(values[-1])

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the sums of n records. They are not clipped: a declared interval is taken to be wide enough."""
        totals = rng.normal(n * theta, math.sqrt(n * self.variance))
        return [float(x) for x in np.clip(totals, n * self.low, n * self.high)]

    def draw_pair(self, prior: Normal, adjacency: Adjacency) -> Pair:
        """Return records that go from low to high; only the distance of the means matters."""
        k, n, d = adjacency.rows, public_count(adjacency, "normal", "moves the precision"), self.dimension
        half = half_width(self.low, self.high, self.layout(adjacency).grid)
        return Pair(f"{say_records(k, 'go')} from low to high", (*(-k * half,) * d, n), (*(k * half,) * d, n))


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
        A column of levels, or several: one mean for each.
    pool
        Whether groups learn from each other when the release is read: see `vestry.conjugate.pooled_normal`.
    """

    column: str | tuple[str, ...]
    variance: float
    prior: tuple[float, ...]
    by: By = None
    pool: bool = False

    name: ClassVar[str] = "normal-mean"
    number_keys: ClassVar[tuple[str, ...]] = ("prior", "variance")
    several_columns: ClassVar[bool] = True
    example_prior: ClassVar[tuple[float, ...]] = (0.0, 100.0)
    one_number: ClassVar[bool] = True
    family_type: ClassVar[type[ConjugateFamily]] = NormalMeanFamily

    @property
    def own(self) -> tuple[str, ...]:
        """The column, or the columns."""
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    def family(self, domains: Mapping[str, Domain]) -> NormalMeanFamily:
        """Return the normal family with the columns' interval."""
        interval = interval_of(domains, self.own[0])
        self.groups(domains)
        for column in self.own[1:]:
            other = interval_of(domains, column)
            if (other.low, other.high) != (interval.low, interval.high):
                raise InvalidParameter(
                    "column",
                    f"{column} from {other.low} to {other.high}",
                    f"columns of one interval, here {[interval.low, interval.high]}",
                    "one interval, or a release for each column",
                )
        return NormalMeanFamily(self.variance, interval.low, interval.high, len(self.own))

    def averaged(self, domains: Mapping[str, Domain]) -> Averaged:
        """Average each column over persons."""
        family = self.family(domains)
        return averaged_numbers(self.own, family.low, family.high)

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
