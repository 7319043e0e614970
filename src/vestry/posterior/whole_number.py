"""A whole number that noise hides: its distribution, with every one from the least on equally probable before.

p(N | z) ~ P(noise = z - N),  N = least, least + 1, ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import DROP, lattice, noise_of
from vestry.posterior.mixture import Marginal
from vestry.releases import NoisyStatistics
from vestry.validation import require_number

# Counts and scales from which doubles skip whole numbers.
_LARGEST = 2**50
# Points of a distribution that is added to another.
_SPAN = 2.0**15
# Probabilities that differ by no more than this part are equal.
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class WholeNumber(Marginal):
    """The distribution of a whole number: points that increase, and how probable each is."""

    points: Array
    weights: Array

    dimension: ClassVar[int] = 1
    equal_tailed: ClassVar[bool] = False

    def marginal(self, index: int) -> WholeNumber:
        """Return itself: there is one parameter."""
        return [self][index]

    def plus(self, other: WholeNumber) -> WholeNumber:
        """Return the distribution of the sum with another number, independent of this one.

        Where they have more than 2^15 points each, in steps of whole numbers.
        """
        ends = [(each.points[0], each.points[-1]) for each in (self, other)]
        step = max(1.0, *(np.ceil((high - low) / _SPAN) for low, high in ends))
        tables = [each._regular(step) for each in (self, other)]
        weights = np.maximum(fftconvolve(*tables), 0.0)
        first = float(ends[0][0] + ends[1][0])
        return WholeNumber(first + step * np.arange(weights.size), weights / weights.sum())

    def _regular(self, step: float) -> Array:
        """Return the weights on equal steps, each shared between the two places beside it."""
        place = (self.points - self.points[0]) / step
        below = np.floor(place).astype(np.int64)
        table = np.zeros(below[-1] + 2)
        np.add.at(table, below, self.weights * (1 - (place - below)))
        np.add.at(table, below + 1, self.weights * (place - below))
        return table

    def mean(self) -> float:
        """Return the mean."""
        return float(self.weights @ self.points)

    def variance(self) -> float:
        """Return the variance."""
        return float(self.weights @ (self.points - self.mean()) ** 2)

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the probability of at most x."""
        sums = np.concatenate([[0.0], np.cumsum(self.weights)])
        return np.asarray(np.minimum(sums[np.searchsorted(self.points, x, side="right")], 1.0))

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return the least point whose probability of at most it is p."""
        places = np.searchsorted(np.cumsum(self.weights), p)
        return self.points[np.minimum(places, self.points.size - 1)]

    def interval(self, prob: float) -> tuple[float, float]:
        """Return the ends of the most probable points that have the probability; of equal ones all are kept."""
        require_number("prob", prob, "prob=0.9", above=0, below=1)
        ordered = np.sort(self.weights)[::-1]
        last = ordered[min(int(np.searchsorted(np.cumsum(ordered), prob)), ordered.size - 1)]
        places = np.flatnonzero(self.weights >= last * (1 - _EQUAL))
        return float(self.points[places[0]]), float(self.points[places[-1]])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws, one per row."""
        return rng.choice(self.points, (size, 1), p=self.weights)

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the probability, between two points that of a straight line."""
        with np.errstate(divide="ignore"):
            probabilities = np.interp(np.asarray(theta, float).ravel(), self.points, self.weights, left=0, right=0)
            return np.asarray(np.log(probabilities))


def whole_number(z: float, statistics: NoisyStatistics, *, least: int = 0, bound: int | None = None) -> WholeNumber:
    """Return the distribution of a count, given its noisy number.

    Parameters
    ----------
    z
        The noisy number.
    statistics
        Which noise hides it.
    least
        The smallest number that it can be.
    bound
        The largest size of the noise, where it is truncated.
    """
    noise = noise_of(statistics)
    if statistics.scale > _LARGEST or abs(z) > _LARGEST:
        raise InvalidParameter("a noisy count or its scale", "one beyond it", "at most 2^50", "the release's own")
    reach, nearest = math.ceil(noise.reach(DROP)), max(least, z)
    reach = reach if bound is None else min(reach, bound)
    points, sizes = lattice(max(least, math.floor(z) - reach), math.ceil(nearest) + reach)
    like = np.full_like(points, float(z)), np.full_like(points, float(nearest))
    weights = np.exp(noise.log_weight(points, *like) + sizes)
    return WholeNumber(points, weights / weights.sum())
