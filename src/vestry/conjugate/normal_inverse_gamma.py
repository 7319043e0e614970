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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaincc, gammainccinv, gammaln, stdtr, stdtrit

from vestry.conjugate.family import (
    Array,
    check_number,
    check_positive,
    check_scales,
    check_sums,
    kl_between,
    points,
    renyi_between,
)
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.privacy.adjacency import Adjacency


@dataclass(frozen=True)
class MeanVariance:
    """v ~ inverse gamma(shape, scale), m | v ~ normal(location, v/weight); a point is (m, v)."""

    location: float
    weight: float
    shape: float
    scale: float

    dimension: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", check_number("the mean", self.location))
        for name in ("weight", "shape", "scale"):
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))

    def natural(self) -> Array:
        """Return eta = (k l, k l^2 + 2 b, k, 2 a)."""
        first = self.weight * self.location
        return np.array([first, first * self.location + 2 * self.scale, self.weight, 2 * self.shape])

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

    def renyi(self, other: MeanVariance, order: float) -> float:
        """Return the Renyi divergence; infinite where order eta + (1 - order) eta' is not normalisable."""
        return renyi_between(self.natural(), other.natural(), order, partition=log_partition, gradient=gradient)

    def kl(self, other: MeanVariance) -> float:
        """Return the Kullback-Leibler divergence."""
        return kl_between(self.natural(), other.natural(), partition=log_partition, gradient=gradient)

    @property
    def _spread(self) -> float:
        return math.sqrt(self.scale / (self.shape * self.weight))


def _declared(eta: ArrayLike) -> tuple[float, float, float, float]:
    """Return location, weight, shape and scale."""
    first, second, weight, twice = (float(x) for x in np.asarray(eta, dtype=float))
    return first / weight, weight, twice / 2, (second - first * first / weight) / 2


def normalisable(eta: ArrayLike) -> bool:
    """Tell whether weight, shape and scale are above 0."""
    if not float(np.asarray(eta, dtype=float)[2]) > 0:
        return False
    _, _, shape, scale = _declared(eta)
    return shape > 0 and scale > 0


def log_partition(eta: ArrayLike) -> float:
    """Return C(eta); infinite where it does not exist."""
    if not normalisable(eta):
        return math.inf
    _, weight, shape, scale = _declared(eta)
    return float(gammaln(shape) - shape * math.log(scale) - math.log(weight / (2 * math.pi)) / 2)


def gradient(eta: ArrayLike) -> Array:
    """Return E[T], with E[1/v] = a/b and E[log v] = log b - psi(a)."""
    location, weight, shape, scale = _declared(eta)
    inverse = shape / scale
    squares = 1 / weight + location * location * inverse
    return np.array([location * inverse, -inverse / 2, -squares / 2, (float(digamma(shape)) - math.log(scale)) / 2])


@dataclass(frozen=True)
class NormalInverseGammaFamily:
    """Records clipped to [low, high]."""

    low: float
    high: float

    name: ClassVar[str] = "normal-inverse-gamma"

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", check_number("low", self.low, instead="the least value a record may have"))
        object.__setattr__(self, "high", check_number("high", self.high, instead="the largest value a record may have"))
        if not self.low < self.high:
            raise InvalidParameter("high", self.high, f"above low, {self.low:g}", "the ends of the declared interval")

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

    log_partition = staticmethod(log_partition)
    gradient = staticmethod(gradient)
    normalisable = staticmethod(normalisable)

    def prior(self, numbers: Sequence[float]) -> MeanVariance:
        """Read (mean, weight, shape, scale): the last three above 0."""
        if len(numbers) != 4:
            allowed = "a mean, its weight in records, a shape and a scale"
            raise InvalidParameter(f"the prior of {self.name}", tuple(numbers), allowed, "for example 0,1,2,1")
        return MeanVariance(*numbers)

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
        r, m = check_scales(likelihood_power, prior_scale)
        added = np.array([*check_sums(sums, 2), check_number("count", count), count])
        location, weight, shape, scale = _declared(prior.natural() / m + r * added)
        return MeanVariance(location, weight, shape, scale)

    def worst_draw(
        self, prior: MeanVariance, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> NoReturn:
        """Refuse: no theorem bounds it."""
        raise GuaranteeUnreachable(
            "one private draw from a normal posterior of unknown variance",
            "no theorem bounds it, because neighbours differ in their spread; release noisy statistics (laplace or"
            " gaussian), or declare the variance and use normal-mean",
        )

    def order_limit(
        self, prior: MeanVariance, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> NoReturn:
        """Refuse, as `worst_draw` does."""
        self.worst_draw(prior, population)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the ends."""
        return {"name": self.name, "low": self.low, "high": self.high}
