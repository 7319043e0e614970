"""The gamma distribution of a rate: T = (log theta, -theta), eta = (shape, rate).

C(eta) = log G(shape) - shape log(rate), with G the gamma function; the base measure is dtheta/theta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammainc, gammaincinv, gammaln, xlogy

from vestry.conjugate.family import check_positive, kl_between, points, renyi_between
from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.mixture import GammaMixture
from vestry.releases import Draws

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource


@dataclass(frozen=True)
class Gamma:
    """The gamma distribution, of mean shape/rate."""

    shape: float
    rate: float

    dimension: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_positive("shape", self.shape))
        object.__setattr__(self, "rate", check_positive("rate", self.rate))

    def natural(self) -> Array:
        """Return eta = (shape, rate)."""
        return np.array([self.shape, self.rate])

    def log_density(self, theta: ArrayLike) -> Array:
        """Return (shape - 1) log theta - rate theta - C."""
        x = points(theta, 1)[..., 0]
        inside = np.where(x >= 0, x, 1.0)
        terms = xlogy(self.shape - 1, inside) - self.rate * inside - log_partition(self.natural())
        return np.where(x >= 0, terms, -np.inf)

    def mean(self) -> Array:
        """Return shape/rate."""
        return np.array([self.shape / self.rate])

    def variance(self) -> Array:
        """Return shape/rate^2."""
        return np.array([self.shape / self.rate / self.rate])

    def cdf(self, x: ArrayLike) -> Array:
        """Return the regularised incomplete gamma function."""
        return np.asarray(gammainc(np.array([self.shape]), self.rate * np.maximum(np.asarray(x, dtype=float), 0)))

    def quantile(self, p: ArrayLike) -> Array:
        """Return its inverse."""
        return np.asarray(gammaincinv(np.array([self.shape]), np.asarray(p, dtype=float)) / self.rate)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return draws of shape (size, 1)."""
        return rng.standard_gamma(self.shape, size=(size, 1)) / self.rate

    def marginal_log_density(self, index: int, points: Array) -> Array:
        """Return the log density of the one coordinate."""
        return self.log_density(points)

    def renyi(self, other: Gamma, order: float) -> float:
        """Return the Renyi divergence; infinite where order eta + (1 - order) eta' is not above 0."""
        return renyi_between(self.natural(), other.natural(), order, partition=log_partition, gradient=gradient)

    def kl(self, other: Gamma) -> float:
        """Return the Kullback-Leibler divergence."""
        return kl_between(self.natural(), other.natural(), partition=log_partition, gradient=gradient)


def log_partition(eta: ArrayLike) -> float:
    """Return C(eta); infinite where it does not exist."""
    shape, rate = np.asarray(eta, dtype=float)
    if not (shape > 0 and rate > 0):
        return math.inf
    return float(gammaln(shape) - shape * math.log(rate))


def gradient(eta: ArrayLike) -> Array:
    """Return E[T] = (psi(shape) - log(rate), -shape/rate)."""
    shape, rate = np.asarray(eta, dtype=float)
    return np.array([float(digamma(shape)) - math.log(rate), -shape / rate])


def normalisable(eta: ArrayLike) -> bool:
    """Tell whether shape and rate are above 0."""
    return bool(np.all(np.asarray(eta, dtype=float) > 0))


def read_prior(family: str, numbers: Sequence[float]) -> Gamma:
    """Read (shape, rate), each above 0."""
    if len(numbers) != 2:
        raise InvalidParameter(f"the prior of {family}", tuple(numbers), "a shape and a rate", "for example 2,1")
    return Gamma(*numbers)


def exact_rates(bits: BitSource, parameters: Sequence[Fraction], size: int, *, scale: float) -> Draws:
    """Draw rates exactly, on a grid of 2^-40 of `scale`, first rounded down to a power of two."""
    from vestry.noise.exact_sampling import gamma
    from vestry.noise.grid import declared_grid

    grid = declared_grid(scale)
    return Draws(tuple((x,) for x in gamma(bits, *parameters, grid=grid, size=size)), grid)


def one_gamma(shape: float, rate: float) -> GammaMixture:
    """Return Gamma(shape, rate), of a sum and a count that were projected and are taken as exact."""
    return GammaMixture(np.ones(1), np.array([shape]), np.array([rate]))
