"""The gamma distribution of a rate: T = (log theta, -theta), eta = (shape, rate).

C(eta) = log G(shape) - shape log(rate), with G the gamma function; the base measure is dtheta/theta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammainc, gammaincinv, gammaln, xlogy

from vestry.conjugate.family import Distribution, points
from vestry.noise.bits import BitSource
from vestry.numerics import Array
from vestry.posterior.adaptive_grid import Axis, find_nodes
from vestry.posterior.discrete_noise import DROP, Noise
from vestry.posterior.mixture import GammaMixture
from vestry.releases import Draws


@dataclass(frozen=True)
class Gamma(Distribution):
    """The gamma distribution, of mean shape/rate."""

    shape: float
    rate: float

    def __post_init__(self) -> None:
        self.require_positive("shape", "rate")

    def natural(self) -> Array:
        """Return eta = (shape, rate)."""
        return np.array([self.shape, self.rate])

    def log_density(self, theta: ArrayLike) -> Array:
        """Return (shape - 1) log theta - rate theta - C."""
        x = points(theta, 1)[..., 0]
        inside = np.where(x >= 0, x, 1.0)
        terms = xlogy(self.shape - 1, inside) - self.rate * inside - self.log_partition(self.natural())
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

    @staticmethod
    def log_partition(eta: ArrayLike) -> float:
        """Return C(eta); infinite unless shape and rate are above 0."""
        shape, rate = np.asarray(eta, dtype=float)
        return float(gammaln(shape) - shape * math.log(rate)) if shape > 0 and rate > 0 else math.inf

    @staticmethod
    def gradient(eta: ArrayLike) -> Array:
        """Return E[T] = (psi(shape) - log(rate), -shape/rate)."""
        shape, rate = np.asarray(eta, dtype=float)
        return np.array([float(digamma(shape)) - math.log(rate), -shape / rate])


def exact_rates(bits: BitSource, parameters: Sequence[Fraction], size: int, *, scale: float) -> Draws:
    """Draw rates exactly, on a grid of 2^-40 of `scale`, first rounded down to a power of two."""
    from vestry.noise.exact_sampling import gamma
    from vestry.noise.grid import declared_grid

    grid = declared_grid(scale)
    return Draws(tuple((x,) for x in gamma(bits, *parameters, grid=grid, size=size)), grid)


def one_gamma(shape: float, rate: float) -> GammaMixture:
    """Return Gamma(shape, rate), of a sum and a count that were projected and are taken as exact."""
    return GammaMixture(np.ones(1), np.array([shape]), np.array([rate]))


# Nodes of a sum over one number, and along each axis of a sum over two.
_LINE, _PLANE = 4000, 500

LogWeight = Callable[[Array, Array], Array]


def sum_and_count_nodes(
    predictive: LogWeight, noisy: float, least: float, count: float, count_units: int | None, noise: Noise
) -> tuple[Array, Array, Array]:
    """Return nodes of the sum and the count, flat, with their log weights."""
    reach, top = noise.reach(4 * DROP), max(least, noisy)
    sums = Axis(max(least, noisy - reach), top + reach, top)

    def log_noise(s: Array) -> Array:
        return noise.log_weight(s, np.array(noisy), np.array(top))

    if count_units is None:
        nodes = find_nodes(lambda s: log_noise(s) + predictive(s, np.array(count)), [sums], size=_LINE, drop=DROP)
        return nodes.axes[0], np.full(nodes.axes[0].size, count), nodes.logs
    middle, units = max(0.0, count / count_units), float(count_units)
    counts = Axis(max(0.0, (count - reach) / units), middle + reach / units, middle)

    def both(s: Array, n: Array) -> Array:
        near = np.array(np.rint(middle) * units)
        return log_noise(s) + predictive(s, n) + noise.log_weight(n * units, np.array(count), near)

    nodes = find_nodes(both, [sums, counts], size=_PLANE, drop=DROP)
    return nodes.flat(0), nodes.flat(1), nodes.logs.ravel()
