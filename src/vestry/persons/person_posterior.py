"""The average over persons from noisy sums of their weights: a test inverted at every level.

The target is R = E s/E w, s and w a person's weights as in `PersonQuery`. At the true R the persons' s - R w are
independent with mean 0, so that with S = sum s, F = sum f = sum (w - s), all of them noisy,

    z(R) = ((1 - R) S - R F)/sqrt(max(0, (1 - R)^2 sum s^2 - R (1 - R) sum 2 s f + R^2 sum f^2) + V(R))

is nearly standard normal, V(R) the variance that the noise gives to the numerator. {R in [0, 1]: |z(R)| <= z} is the
interval; Phi(-z(R)), taken at every level, is a confidence distribution. It is a normal approximation, rough where few
events are expected. A negative S or F, which noise alone makes, is taken as 0, so that no interval is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from vestry.numerics import Array
from vestry.posterior.mixture import Marginal, probabilities

# Points of the whole range, and of the part in which almost all of the distribution lies: so many deviations wide.
_WHOLE, _NEAR, _WIDE = 513, 2401, 9.0
_HALVINGS = 60
# The normal quantile of a 90 % interval.
_Z = 1.6448536269514722


@dataclass(frozen=True, eq=False)
class PersonAverageDistribution(Marginal):
    """The confidence distribution of one average.

    Attributes
    ----------
    yes, no
        S and F.
    squares
        The sums of s^2, 2 s f and f^2.
    noise
        V(R) = a (1 - R)^2 + b (1/2 - R)^2 + c R^2: a, b and c.
    ends
        What R = 0 and R = 1 stand for.
    """

    yes: float
    no: float
    squares: tuple[float, float, float]
    noise: tuple[float, float, float]
    ends: tuple[float, float] = (0.0, 1.0)

    def deviation(self, share: Array) -> Array:
        """Return the standard deviation of the numerator of z."""
        r, (ss, sf, ff), (a, b, c) = share, self.squares, self.noise
        sampling = (1 - r) ** 2 * ss - r * (1 - r) * sf + r**2 * ff
        return np.sqrt(np.maximum(sampling, 0.0) + a * (1 - r) ** 2 + b * (0.5 - r) ** 2 + c * r**2)

    def central_width(self) -> float:
        """Return the width of the 90 % interval if the deviation were everywhere that at the estimate."""
        total = max(self.yes, 0.0) + max(self.no, 0.0)
        share = np.array(0.5 if total == 0 else max(self.yes, 0.0) / total)
        width = 1.0 if total == 0 else min(1.0, 2 * _Z * float(self.deviation(share)) / total)
        return (self.ends[1] - self.ends[0]) * width

    def level(self, share: Array) -> Array:
        """Return Phi(-z(R)); 1/2 where nothing tells."""
        events = (1 - share) * max(self.yes, 0.0) - share * max(self.no, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(ndtr(-np.where(events == 0, 0.0, events / self.deviation(share))))

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Points of R, and the distribution function: below 1/2 the greatest level so far, above the least to come.

        So both ends of an interval are the outermost points that the test accepts.
        """
        total = max(self.yes, 0.0) + max(self.no, 0.0)
        centre = np.array([0.5 if total == 0 else max(self.yes, 0.0) / total])
        reach = 1.0 if total == 0 else float(self.deviation(centre)[0]) / total
        near = np.clip(centre + reach * np.linspace(-_WIDE, _WIDE, _NEAR), 0.0, 1.0)
        points = np.unique(np.concatenate([np.linspace(0.0, 1.0, _WHOLE), near, centre]))
        levels = self.level(points)
        below = np.maximum.accumulate(levels)
        above = np.minimum.accumulate(levels[::-1])[::-1]
        return points, np.where(below <= 0.5, below, np.where(above >= 0.5, above, 0.5))

    def _scale(self, share: Array) -> Array:
        low, high = self.ends
        return np.asarray(low + (high - low) * share)

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the distribution function, between the points of a table."""
        low, high = self.ends
        share = (np.asarray(x, float) - low) / (high - low)
        probabilities = np.interp(share, *self._table)
        return np.asarray(np.where(share < 0, 0.0, np.where(share >= 1, 1.0, probabilities)))

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return where the level is p: the first such point below 1/2, the last one above."""
        target = probabilities(p)
        points, levels = self._table
        flat = np.ravel(target)
        place = np.searchsorted(levels, flat)  # what is below the first level, or above the last, is at an end
        high = points[np.minimum(place, len(points) - 1)]
        low = np.where((place == 0) | (place == len(points)), high, points[np.maximum(place - 1, 0)])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = self.level(middle) < flat
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return self._scale(np.reshape((low + high) / 2, target.shape))

    def mean(self) -> float:
        """Return the mean: low + the integral of 1 - F."""
        return float(self._scale(np.array(self._moments[0])))

    def variance(self) -> float:
        """Return the variance."""
        mean, square = self._moments
        return (self.ends[1] - self.ends[0]) ** 2 * max(square - mean * mean, 0.0)

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """E R and E R^2, by the trapezoidal rule on the table."""
        points, levels = self._table
        return float(np.trapezoid(1 - levels, points)), float(np.trapezoid(2 * points * (1 - levels), points))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws."""
        points, levels = self._table
        return self._scale(np.interp(rng.random(size), levels, points))

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the slope of the table; what lies on the ends themselves has no density."""
        low, high = self.ends
        points, levels = self._table
        share = (np.asarray(theta, float) - low) / (high - low)
        slopes = np.interp(share, points, np.gradient(levels, points), left=0.0, right=0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(slopes, 0.0) / (high - low)))


@dataclass(frozen=True, eq=False)
class SeparateAverages:
    """Several averages of one group, each by itself: their dependence is not estimated."""

    parts: tuple[PersonAverageDistribution, ...]

    @property
    def dimension(self) -> int:
        """How many averages there are."""
        return len(self.parts)

    def marginal(self, index: int) -> PersonAverageDistribution:
        """Return the distribution of one of them."""
        return self.parts[index]

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return draws of each, one per row."""
        return np.stack([part.draw(rng, size) for part in self.parts], axis=1)


def numbers_average(values: Array, variance: float, *, grouped: bool, ends: tuple[float, float]) -> SeparateAverages:
    """Read (s^2, 2 s f, f^2, s (1 - w), f (1 - w)) of each number, each with noise of this variance."""
    parts = []
    for each in values.reshape(-1, 5 if grouped else 3):
        yes, no = each[0] + each[1] / 2 + each[3:4].sum(), each[2] + each[1] / 2 + each[4:5].sum()
        own = variance * (1 + grouped)
        squares = (float(each[0]), float(each[1]), float(each[2]))
        parts.append(PersonAverageDistribution(float(yes), float(no), squares, (own, variance, own), ends))
    return SeparateAverages(tuple(parts))


def levels_average(values: Array, variance: float, *, grouped: bool) -> SeparateAverages:
    """Read (q^2, q (w - q), q (1 - w)) of each level, each with noise of this variance.

    Of one level s = q and f = w - q; the sum of w^2 is that of all q^2 + q (w - q).
    """
    table = values.reshape(-1, 3 if grouped else 2)
    own, all_weight = table.sum(axis=1), table.sum()
    square, beside = table[:, 0], table[:, 1]
    rest = (square + beside).sum() - square - 2 * beside
    noise = variance * table.shape[1]
    return SeparateAverages(
        tuple(
            PersonAverageDistribution(
                float(own[place]),
                float(all_weight - own[place]),
                (float(square[place]), float(2 * beside[place]), float(rest[place])),
                (noise, 0.0, noise * (len(table) - 1)),
            )
            for place in range(len(table))
        )
    )
