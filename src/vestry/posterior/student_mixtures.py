"""A mean and a variance that are estimated together: mixtures of Student's t and of inverse gammas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc, gammaln, ndtri, stdtr

from vestry.numerics import Array
from vestry.posterior.mixture import Mixture, average, log_sum


@dataclass(frozen=True, eq=False)
class StudentMixture(Mixture):
    """Weighted Student's t distributions: location_j + width_j t, t with degrees_j degrees of freedom."""

    weights: Array
    locations: Array
    widths: Array
    degrees: Array

    def moments(self) -> tuple[Array, Array]:
        """Return the locations, and the variances: infinite up to two degrees."""
        with np.errstate(divide="ignore"):
            own = np.where(self.degrees > 2, self.widths**2 * self.degrees / (self.degrees - 2), np.inf)
        return self.locations, own

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the weighted distribution functions."""
        return average(
            np.asarray(x, float), self.weights, lambda at: stdtr(self.degrees, (at - self.locations) / self.widths)
        )

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the weighted densities."""
        half = self.degrees / 2
        norm = np.log(self.weights / self.widths) + gammaln(half + 0.5) - gammaln(half)
        norm = norm - np.log(self.degrees * np.pi) / 2

        def component(at: Array) -> Array:
            squares = ((at - self.locations) / self.widths) ** 2
            return np.asarray(norm - (half + 0.5) * np.log1p(squares / self.degrees))

        return log_sum(np.asarray(theta, float), norm.size, component)

    @cached_property
    def _unit(self) -> tuple[float, float]:
        centre = self.mean()
        return centre, float(np.sqrt(self.weights @ (self.widths**2 + (self.locations - centre) ** 2)))

    def ends(self) -> tuple[float, float]:
        """Return what reaches far beyond any quantile."""
        return -60.0, 60.0

    def rough(self, target: Array) -> Array:
        """Return quantiles as if it were normal."""
        return np.asarray(np.arcsinh(ndtri(target)))

    def coordinate(self, x: Array) -> Array:
        """Return the inverse hyperbolic sine of the distance from the mean, in widths."""
        return np.asarray(np.arcsinh((x - self._unit[0]) / self._unit[1]))

    def point(self, t: Array) -> Array:
        """Return the point of a coordinate."""
        return np.asarray(self._unit[0] + self._unit[1] * np.sinh(t))

    def log_slope(self, t: Array) -> Array:
        """Return the logarithm of width cosh t."""
        return np.asarray(np.log(self._unit[1]) + np.logaddexp(t, -t) - np.log(2.0))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return a member chosen by weight, and a draw from it; as a column."""
        chosen = rng.choice(self.weights.size, size, p=self.weights)
        return (self.locations[chosen] + self.widths[chosen] * rng.standard_t(self.degrees[chosen]))[:, None]


@dataclass(frozen=True, eq=False)
class InverseGammaMixture(Mixture):
    """Weighted inverse gammas: scale_j/G, G ~ Gamma(shape_j)."""

    weights: Array
    shapes: Array
    scales: Array

    def moments(self) -> tuple[Array, Array]:
        """Return m = b/(a - 1), infinite where a <= 1, and m^2/(a - 2), infinite where a <= 2."""
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.where(self.shapes > 1, self.scales / np.maximum(self.shapes - 1, 1e-300), np.inf)
            return means, np.where(self.shapes > 2, means**2 / (self.shapes - 2), np.inf)

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return sum w G(a, b/x), G the regularised upper incomplete gamma function."""
        at = np.maximum(np.asarray(x, float), 1e-300)
        probabilities = average(at, self.weights, lambda each: gammaincc(self.shapes, self.scales / each))
        return np.where(np.asarray(x) > 0, probabilities, 0.0)

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return log sum w b^a x^(-a-1) e^(-b/x)/G(a)."""
        norm = np.log(self.weights) + self.shapes * np.log(self.scales) - gammaln(self.shapes)
        points, above = np.maximum(np.asarray(theta, float), 1e-300), self.shapes + 1
        logs = log_sum(points, norm.size, lambda at: norm - above * np.log(at) - self.scales / at)
        return np.where(np.asarray(theta) > 0, logs, -np.inf)

    @cached_property
    def _centre(self) -> float:
        return float(self.weights @ np.log(self.scales / self.shapes))

    def ends(self) -> tuple[float, float]:
        """Return what reaches far beyond any quantile."""
        return -80.0, 80.0

    def rough(self, target: Array) -> Array:
        """Return the middle."""
        return np.zeros_like(target)

    def coordinate(self, x: Array) -> Array:
        """Return the logarithm, from the middle."""
        return np.asarray(np.log(x) - self._centre)

    def point(self, t: Array) -> Array:
        """Return the point of a coordinate."""
        return np.asarray(np.exp(self._centre + t))

    def log_slope(self, t: Array) -> Array:
        """Return the logarithm of the point."""
        return np.asarray(self._centre + t)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return a member chosen by weight, and a draw from it; as a column."""
        chosen = rng.choice(self.weights.size, size, p=self.weights)
        return (self.scales[chosen] / rng.standard_gamma(self.shapes[chosen]))[:, None]
