"""The posterior of a count from its noisy number, with every whole number from 0 on equally probable before.

    p(N | z) ~ P(noise = z - N),  N = 0, 1, 2, ...

It is about the table itself, not about a population it was drawn from: without noise the count would be known. The
interval is the shortest one: its ends are the least and the greatest count of those that together are most probable. An
equal-tailed one would never hold a count of 0 under noise of a large scale. This one holds every count in .86 to .96 of
all releases, summed over noise of scale 2 or more exactly: 0 in .91 or more, a count of about three scales in .86,
larger ones in .90.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import DROP, deviation, lattice, noise_of
from vestry.posterior.mixture import Marginal
from vestry.posterior.noisy_data import POISSON
from vestry.posterior.reader import NOISE_AWARE, Reader
from vestry.releases import NoisyStatistics
from vestry.validation import require_number

# Counts and scales from which doubles skip whole numbers.
_LARGEST = 2**50
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
        kept = np.flatnonzero(self.weights >= last * (1 - _EQUAL))
        return float(self.points[kept[0]]), float(self.points[kept[-1]])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws, one per row."""
        return rng.choice(self.points, (size, 1), p=self.weights)

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the probability, between two points that of a straight line."""
        with np.errstate(divide="ignore"):
            found = np.interp(np.asarray(theta, float).ravel(), self.points, self.weights, left=0, right=0)
            return np.asarray(np.log(found))


def count_posterior(statistics: NoisyStatistics) -> WholeNumber:
    """Return the distribution of a count, given its noisy number."""
    (z,), noise = statistics.values, noise_of(statistics)
    if statistics.scale > _LARGEST or abs(z) > _LARGEST:
        raise InvalidParameter("a noisy count or its scale", "one beyond it", "at most 2^50", "the release's own")
    reach, nearest = math.ceil(noise.reach(DROP)), max(0, z)
    points, sizes = lattice(max(0, z - reach), nearest + reach)
    like = np.full_like(points, float(z)), np.full_like(points, float(nearest))
    weights = np.exp(noise.log_weight(points, *like) + sizes)
    return WholeNumber(points, weights / weights.sum())


@dataclass(frozen=True)
class CountReader(Reader):
    """How a release of counts is read; `of` is what was counted."""

    of: str

    parameter = "count"
    data_kind: ClassVar[str] = POISSON
    prior_words: ClassVar[str] = ""
    dimension = 1
    released_words: ClassVar[str] = "Counts are whole numbers."
    average_words: ClassVar[str] = ""

    @property
    def note(self) -> str:
        """Say what was counted."""
        return f"Counts of {self.of} in the table itself, not estimates for a population."

    def noise_aware(self, statistics: NoisyStatistics) -> WholeNumber:
        """Return the distribution of the count, the noise summed out."""
        return count_posterior(statistics)

    def plug_in(self, statistics: NoisyStatistics) -> WholeNumber:
        """Take the noisy number, or 0 if it is below, as exact."""
        return WholeNumber(np.array([float(max(0, statistics.values[0]))]), np.ones(1))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Refuse: a count says nothing of new records."""
        raise InvalidParameter("predict", "a count", "asked of a model of records", 'model = "gamma-poisson"')

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float:
        """Return the noise's standard deviation."""
        return deviation(content.noise, content.scale)

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say that intervals are the shortest ones; rows need not be independent, as nothing is inferred from them."""
        made = super().interval_method(label, several_rows=False)
        return f"{made}, shortest interval" if label == NOISE_AWARE else made


def count_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> CountReader:
    """Read what a release says of itself; there is no prior to choose."""
    if prior:
        raise InvalidParameter("prior", prior, "omitted for a count", "no prior")
    return CountReader(str(described["of"]))
