"""Mean and variance of normal records, both unknown; a record is clipped to [low, high].

S(x) = (x, x^2). With theta = (m, v), the mean and the variance of a record,
T = (m/v, -1/(2 v), -m^2/(2 v), -log(v)/2) and eta = (k l, k l^2 + 2 b, k, 2 a), so that a record adds (x, x^2, 1, 1):
the prior is v ~ inverse gamma(a, b), m | v ~ normal(l, v/k). The base measure is v^(-3/2), and
C(eta) = log G(a) - a log b - log(k)/2 + log(2 pi)/2.

Posterior draws are refused: no theorem bounds the divergence of two neighbouring posteriors, whose spread is itself
estimated. Noisy statistics remain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaincc, gammainccinv, gammaln, stdtr, stdtrit

import vestry.conjugate.normal_inverse_gamma_posterior as noise_aware_posterior
from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.conjugate.family import (
    ConjugateFamily,
    Distribution,
    check_sums,
    noise_per_record,
    noisy_values,
    points,
    positive,
)
from vestry.conjugate.interval_family import IntervalFamily, check_ends, half_width, rests_on_prior, too_narrow
from vestry.conjugate.normal_inverse_gamma_posterior import MeanVarianceMixture
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms.additive_noise import LAPLACE
from vestry.mechanisms.statistic_family import Layout
from vestry.model.request import By, interval_of
from vestry.model.worst_pair import Pair, count_records, say_records
from vestry.numerics import Array
from vestry.posterior.discrete_noise import noise_of
from vestry.posterior.mixture import ClippedMeans, PosteriorDistribution
from vestry.privacy.neighbours import Adjacency
from vestry.releases import NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.statistics import Product, Sum, Term
from vestry.validation import require_number


@dataclass(frozen=True)
class MeanVariance(Distribution):
    """v ~ inverse gamma(shape, scale), m | v ~ normal(location, v/weight); a point is (m, v)."""

    location: float
    weight: float
    shape: float
    scale: float

    dimension = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", require_number("the mean", self.location, "a mean of 0"))
        self.require_positive("weight", "shape", "scale")

    def natural(self) -> Array:
        """Return eta = (k l, k l^2 + 2 b, k, 2 a)."""
        first = self.weight * self.location
        return np.array([first, first * self.location + 2 * self.scale, self.weight, 2 * self.shape])

    def divided(self, scale: float) -> MeanVariance:
        """Return the distribution of eta/scale."""
        return MeanVariance(*_from_natural(self.natural() / scale))

    def log_density(self, theta: ArrayLike) -> Array:
        """Return the log density at (m, v); -inf where v <= 0."""
        at = points(theta, 2)
        m, v = at[..., 0], at[..., 1]
        inside = v > 0
        w = np.where(inside, v, 1.0)
        terms = -(self.shape + 1.5) * np.log(w) - (self.scale + self.weight * (m - self.location) ** 2 / 2) / w
        norm = self.shape * math.log(self.scale) - float(gammaln(self.shape)) + math.log(self.weight / 2 / math.pi) / 2
        return np.where(inside, terms + norm, -np.inf)

    def mean(self) -> Array:
        """Return the means of m and of v; infinite where the shape is at most 1."""
        return np.array([self.location, self.scale / (self.shape - 1) if self.shape > 1 else math.inf])

    def variance(self) -> Array:
        """Return the variances of m and of v; infinite where the shape is too small."""
        mean = self.mean()[1]
        second = mean * mean / (self.shape - 2) if self.shape > 2 else math.inf
        return np.array([mean / self.weight, second])

    def cdf(self, x: ArrayLike) -> Array:
        """Return the distribution functions: Student's t with 2 a degrees of freedom, and the inverse gamma's."""
        at = np.broadcast_to(np.asarray(x, dtype=float), (*np.shape(x)[:-1], 2) if np.ndim(x) else (2,))
        first = stdtr(2 * self.shape, (at[..., 0] - self.location) / self._spread)
        with np.errstate(divide="ignore"):
            second = np.where(at[..., 1] > 0, gammaincc(self.shape, self.scale / np.maximum(at[..., 1], 1e-300)), 0.0)
        return np.stack([first, second], axis=-1)

    def quantile(self, p: ArrayLike) -> Array:
        """Return their inverses."""
        at = np.broadcast_to(np.asarray(p, dtype=float), (*np.shape(p)[:-1], 2) if np.ndim(p) else (2,))
        first = self.location + self._spread * stdtrit(2 * self.shape, at[..., 0])
        return np.stack([first, self.scale / gammainccinv(self.shape, at[..., 1])], axis=-1)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return draws of shape (size, 2)."""
        v = self.scale / rng.standard_gamma(self.shape, size)
        return np.stack([self.location + np.sqrt(v / self.weight) * rng.standard_normal(size), v], axis=1)

    def slope(self, index: int, x: float) -> float:
        """Return the derivative of the log density of the mean (a Student t) or of the variance."""
        if index == 1:
            return (self.scale / x - self.shape - 1) / x
        away = x - self.location
        return -(2 * self.shape + 1) * away / (2 * self.scale / self.weight + away * away)

    @staticmethod
    def log_partition(eta: ArrayLike) -> float:
        """Return C(eta); infinite unless weight, shape and scale are above 0."""
        if not float(np.asarray(eta, dtype=float)[2]) > 0:
            return math.inf
        _, weight, shape, scale = _from_natural(eta)
        if not (shape > 0 and scale > 0):
            return math.inf
        return float(gammaln(shape) - shape * math.log(scale) - math.log(weight / (2 * math.pi)) / 2)

    @staticmethod
    def gradient(eta: ArrayLike) -> Array:
        """Return E[T], with E[1/v] = a/b and E[log v] = log b - psi(a)."""
        location, weight, shape, scale = _from_natural(eta)
        inverse = shape / scale
        squares = 1 / weight + location * location * inverse
        return np.array([location * inverse, -inverse / 2, -squares / 2, (float(digamma(shape)) - math.log(scale)) / 2])

    @property
    def _spread(self) -> float:
        return math.sqrt(self.scale / (self.shape * self.weight))


def _from_natural(eta: ArrayLike) -> tuple[float, float, float, float]:
    """Return location, weight, shape and scale."""
    first, second, weight, twice = (float(x) for x in np.asarray(eta, dtype=float))
    return first / weight, weight, twice / 2, (second - first * first / weight) / 2


@dataclass(frozen=True)
class NormalInverseGammaFamily(IntervalFamily):
    """Records clipped to [low, high]."""

    low: float
    high: float

    name: ClassVar[str] = "normal-inverse-gamma"
    parameter: ClassVar[str] = "normal"
    parameters: ClassVar[tuple[str, ...]] = ("mean", "variance")
    member: ClassVar[type[Distribution]] = MeanVariance
    prior_words: ClassVar[tuple[str, str]] = ("a mean, its weight in records, a shape and a scale", "0,1,2,1")

    def __post_init__(self) -> None:
        self.require_ends()

    def statistic(self, x: ArrayLike) -> Array:
        """Return (x, x^2) with x clipped; a missing value counts as low."""
        record = float(np.asarray(x, dtype=float).reshape(1)[0])
        clipped = self.low if math.isnan(record) else min(max(record, self.low), self.high)
        return np.array([clipped, clipped * clipped])

    def bounds(self) -> tuple[Array, Array]:
        """Return the least and the largest x and x^2."""
        squares = (self.low**2, self.high**2)
        least = 0.0 if self.low <= 0 <= self.high else min(squares)
        return np.array([self.low, least]), np.array([self.high, max(squares)])

    def extremes(self) -> Iterator[Array]:
        """Yield differences of the ends; x^2 inside the interval is not among them, and no mechanism uses them."""
        for one, other in itertools.permutations((self.low, self.high), 2):
            yield np.array([one - other, one * one - other * other])

    def update(
        self,
        prior: MeanVariance,
        sums: Sequence[float],
        count: float,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> MeanVariance:
        """Return the member with eta = eta0/m + r (sum of x, sum of x^2, n, n)."""
        r, m = positive("likelihood_power", likelihood_power), positive("prior_scale", prior_scale)
        added = np.array([*check_sums(sums, 2), require_number("count", count), count])
        return MeanVariance(*_from_natural(prior.natural() / m + r * added))

    def draw_event(self, prior: MeanVariance, weight: float, adjacency: Adjacency) -> NoReturn:
        """Refuse: no theorem bounds it."""
        raise GuaranteeUnreachable(
            "one private draw from a normal posterior of unknown variance",
            "no theorem bounds it, because neighbours differ in their spread; release noisy statistics (laplace or"
            " gaussian), or declare the variance and use normal-mean",
        )

    highest_order = draw_event

    # What is released

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the sums of y and of y^2, y = (x - middle)/reach in [-1, 1], in units of 1/M; M = 2^19.

        Replace: l1 is 9/4 between y = 1 and y = -1/2, and l2 is 2 between the ends; rounding adds at most one unit a
        coordinate and record. From nothing: (1, 1). A private count joins in units of 4/M, where it costs nothing more
        under replace.

        Where the middle is not a double, y goes up to 1 + t. Squares are counted up to M, so M (2 t + t^2) <= 1/2. Then
        l1 in units grows by M (3 t + t^2) < 1, which whole numbers do not show, and l2 by 2 M t <= 1/2, which with the
        sqrt(2) of rounding is below 2.
        """
        k, half = adjacency.rows, _HALF
        step = (self.high - self.low) / 2 / half
        check_ends(self.low, self.high, step, half)
        self._check_squares(step, half)
        names: tuple[str, ...] = ("sum", "sum of squares")
        inside = k * (9 * half // 4 + 2), k * (2 * half + 2.0)
        if adjacency.count is not None:
            return Layout(names, *inside, grid=step, count=adjacency.count)
        units = half // 4
        l1, l2 = k * (2 * half + units), k * math.hypot(half, half, units)
        if adjacency.replaces:
            moves = adjacency.groups > 1
            l1 = max(inside[0], 2 * l1 if moves else l1)
            l2 = max(inside[1], math.sqrt(2) * l2 if moves else l2)
        return Layout((*names, "count"), l1, l2, grid=step, count_grid=1 / units)

    def _check_squares(self, step: float, half: int) -> None:
        """Refuse an interval whose squares doubles count beyond the grid's end."""
        away = self.low - self.middle, self.high - self.middle
        if max(math.floor(x * x / (self.reach * step) + 0.5) for x in away) > half:
            raise too_narrow(self.low, self.high)

    # The posterior of what was released

    def noise_aware(self, prior: MeanVariance, statistics: NoisyStatistics) -> MeanVarianceMixture:
        """Sum over both sums, and over the count where it is private."""
        first, second, count = self._numbers(statistics)
        units = None if statistics.count is not None else round(1 / statistics.count_grid)
        if units is None and count < 2:
            raise InvalidParameter("the number of records", int(count), "at least 2", "a table with more records")
        return noise_aware_posterior.posterior(
            (first, second),
            count=count,
            count_units=units,
            prior=prior,
            noise=noise_of(statistics),
            unit=statistics.grid / self.reach,
            middle=self.middle,
            reach=self.reach,
        )

    def plug_in(self, prior: MeanVariance, statistics: NoisyStatistics) -> MeanVarianceMixture:
        """Take the projected sums and count as exact."""
        first, second, count = self._numbers(statistics)
        n = max(2.0, count if statistics.count is not None else count * statistics.count_grid)
        reach, middle, unit = self.reach, self.middle, statistics.grid / self.reach
        s = float(np.clip(first * unit, -n, n)) * reach + n * middle
        y = float(np.clip(second * unit, (first * unit) ** 2 / n if abs(first * unit) <= n else 0.0, n))
        t = y * reach**2 + 2 * middle * (s - n * middle) + n * middle**2
        sums = np.array([s]), np.array([max(t, s * s / n)]), np.array([n])
        member = noise_aware_posterior.updated(prior, *sums)
        return MeanVarianceMixture(np.ones(1), *(np.broadcast_to(x, (1,)) for x in member))

    def inside(self, posterior: PosteriorDistribution) -> ClippedMeans:
        """Clip the mean to the declared interval, where that of clipped values lies."""
        return ClippedMeans(posterior, self.low, self.high, 1)

    def remark(self, prior: MeanVariance, posterior: PosteriorDistribution, index: int) -> str:
        """Say that the prior moves a mean or a variance far: see `rests_on_prior`."""
        marginal = posterior.marginal(index)
        slopes = [prior.slope(index, end) for end in marginal.interval(_PROB)]
        return rests_on_prior(slopes, math.sqrt(marginal.variance()))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records, and their variance around it."""
        means = rng.normal(theta[:, 0], np.sqrt(theta[:, 1] / size))
        spread = theta[:, 1] * rng.chisquare(max(size - 1, 1), len(theta)) / max(size - 1, 1)
        return np.stack([means, spread], axis=1)

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return that of the mean middle + a, a = y/n, or of the variance q/n - a^2, q the sum of squares.

        d(q/n - a^2) = dq/n - 2 a dy/n + (a^2 - variance) dn/n, with dq in steps of the reach times those of y.
        """
        noise = noise_per_record(content)
        if noise is None:
            return None
        if index == 0:
            return math.hypot(noise[0], (mean - self.middle) * noise[1])
        n = float(content.count) if content.count is not None else content.values[-1] * content.count_grid
        away = content.values[0] * content.grid / n
        return math.hypot(self.reach * noise[0], 2 * away * noise[0], (away * away - mean) * noise[1])

    def _numbers(self, statistics: NoisyStatistics) -> tuple[float, float, float]:
        values = noisy_values(statistics, 2)
        count = float(values[2]) if statistics.count is None else float(statistics.count)
        return float(values[0]), float(values[1]), count

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the sum of n values and the sum of their squares."""
        total = rng.normal(n * theta[0], math.sqrt(n * theta[1]))
        squares = theta[1] * rng.chisquare(max(n - 1, 1)) + total * total / n
        return [float(total), float(squares)]

    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return both sums in steps of the grid, and the count where it is private."""
        middle, reach = self.middle, self.reach
        around = sums[1] - 2 * middle * sums[0] + n * middle * middle
        first = math.floor((sums[0] - n * middle) / layout.grid + 0.5)
        return layout.with_count([first, math.floor(around / (reach * layout.grid) + 0.5)], n)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return the pair at the diameter: 1 against -1/2 in l1, 1 against -1 in l2, for y in [-1, 1]."""
        k, half = adjacency.rows, half_width(self.low, self.high, layout.grid)
        upper = tuple(layout.with_count([k * half, k * half], k))
        if not adjacency.replaces:
            return Pair(f"{count_records(k)} added at the upper end", (0,) * len(layout.names), upper)
        if noise == LAPLACE:
            lower = layout.with_count([-k * half // 2, k * half // 4], k)
            return Pair(f"{say_records(k, 'go')} from 1/4 to the upper end", tuple(lower), upper)
        lower = layout.with_count([-k * half, k * half], k)
        return Pair(f"{say_records(k, 'go')} from end to end", tuple(lower), upper)


# Units from the middle to an end of an interval whose squares are summed too; the interval that a prior may move far.
_HALF, _PROB = 2**19, 0.9


@dataclass(frozen=True)
class NormalInverseGamma(ConjugateModel):
    """A normal likelihood, mean and variance unknown; values are clipped to their interval.

    Attributes
    ----------
    column
        A column with an interval.
    prior
        The mean, its weight in records, and the shape and scale of the variance's inverse gamma distribution.
    by
        A column of levels, or several: one mean and one variance for each.
    """

    column: str
    prior: tuple[float, float, float, float]
    by: By = None

    name: ClassVar[str] = "normal-inverse-gamma"
    example_prior: ClassVar[tuple[float, ...]] = (0.0, 1.0, 2.0, 1.0)
    family_type: ClassVar[type[ConjugateFamily]] = NormalInverseGammaFamily

    def family(self, domains: Mapping[str, Domain]) -> NormalInverseGammaFamily:
        """Return the family with the column's interval."""
        self.groups(domains)
        interval = interval_of(domains, self.column)
        return NormalInverseGammaFamily(interval.low, interval.high)

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Term, ...]:
        """Add the value and its square, from the middle of the interval."""
        interval = interval_of(domains, self.column)
        middle, reach = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        pair = (self.column, self.column), (middle, middle)
        return Sum(self.column, middle, layout.grid), Product(*pair, reach * layout.grid)

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return mean and variance."""
        return ("mean", "variance")

    def question(self) -> str:
        """Say what is asked."""
        return f"The mean and the variance of {self.column}{self.by_words()}"
