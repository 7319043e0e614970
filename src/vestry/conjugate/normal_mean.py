"""The mean of normal records of known variance, clipped to an interval in each coordinate; isotropic normal prior.

S(x) = x, and with s2 the variance of a record T = (theta, -|theta|^2/2), eta = (L mean, L), L the precision, so that a
record adds (x, 1)/s2; C(eta) = |eta_1|^2/(2 L) - (d/2) log(L/(2 pi)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from vestry.conjugate.family import Array, check_number, check_order, check_positive, check_scales, check_sums, points
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.numerics import outward
from vestry.privacy.adjacency import Adjacency
from vestry.privacy.event import Event
from vestry.privacy.pricing import event


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
class NormalMeanFamily:
    """Records of `dimension` coordinates, each clipped to [low, high], with a known variance around the mean."""

    variance: float
    low: float
    high: float
    dimension: int = 1

    name: ClassVar[str] = "normal-mean"

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
        self, prior: Normal, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: exactly mu-GDP, mu = r k w sqrt(d)/(s2 sqrt(L)), with w = high - low, k records a unit
        and L = L0/m + r n/s2. Neighbouring posteriors have the same precision L, and means at most
        r k w sqrt(d)/(s2 L) apart [DongRS22, Def. 2.1].

        Refused elsewhere: where the count can change so can the precision, and no supremum is known.
        """
        if population.count is None:
            raise GuaranteeUnreachable(
                "one private draw from a normal posterior whose count is not public",
                "no theorem bounds it, because the count moves the precision; release noisy statistics instead, or"
                " declare neighbours=replace and a public count",
            )
        start, weight = self.weights(prior, likelihood_power, prior_scale)
        precision = start + weight * population.count
        diameter = (self.high - self.low) * math.sqrt(self.dimension)
        mu = weight * population.rows * diameter / math.sqrt(precision)
        return event("gdp", mu=outward(mu), neighbours=population.neighbours)

    def order_limit(
        self, prior: Normal, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return infinity: with equal precisions every order is finite. Refused where `worst_draw` is."""
        self.worst_draw(prior, population, likelihood_power=likelihood_power, prior_scale=prior_scale)
        return math.inf

    def weights(self, prior: Normal, likelihood_power: float, prior_scale: float) -> tuple[float, float]:
        """Return the precision of the scaled prior and that of one tempered record."""
        r, m = check_scales(likelihood_power, prior_scale)
        return prior.precision / m, r / self.variance

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the declared numbers."""
        return {
            "name": self.name,
            "variance": self.variance,
            "low": self.low,
            "high": self.high,
            "dimension": self.dimension,
        }


# Coordinates of one mean: each has a name and a number of its own.
_MOST_COORDINATES = 10_000
