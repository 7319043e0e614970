"""The distribution of one number as a table: for products of posteriors, which have no other form.

Of other people, releases say independent things of one parameter. With posteriors p(theta | z_i) by one prior p(theta),

    p(theta | z_1, ..., z_k) ~ p(theta) product over i of [p(theta | z_i)/p(theta)].

It is tabulated in a coordinate in which it has no edge: the logit of a probability, the logarithm of a rate, a mean
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, logit

from vestry.numerics import Array
from vestry.posterior.mixture import Marginal, PosteriorDistribution, likely_places, probabilities

# Points of the first look, and of those that follow; what lies below the summit by more is omitted; where it begins.
_LOOK, _MORE, _DROP, _TAIL = 301, 300, 45.0, 1e-13
# Where the points of a finer look lie: at equal steps of the log odds of having passed them.
_LEVELS = expit(np.linspace(-16, 16, _MORE))
# Coordinates beyond these are the ends of doubles.
_FURTHEST = 700.0


@dataclass(frozen=True)
class Coordinate:
    """A scale: from a parameter to it, back, and the logarithm of the derivative on the way back."""

    of: Callable[[Array], Array]
    back: Callable[[Array], Array]
    log_slope: Callable[[Array], Array]


PROBABILITY = Coordinate(logit, expit, lambda u: log_expit(u) + log_expit(-u))
RATE = Coordinate(np.log, np.exp, lambda u: u)
LINE = Coordinate(lambda x: x, lambda u: u, np.zeros_like)


@dataclass(frozen=True, eq=False)
class Tabulated(Marginal):
    """A density at points of a coordinate, linear between them.

    Attributes
    ----------
    coordinate
        The scale.
    points, logs
        Where the density is known, and its logarithm there, up to a constant.
    """

    coordinate: Coordinate
    points: Array
    logs: Array

    dimension: ClassVar[int] = 1

    def marginal(self, index: int) -> Tabulated:
        """Return itself: there is one parameter."""
        return [self][index]

    @cached_property
    def _density(self) -> Array:
        """The density of the coordinate."""
        heights = np.exp(self.logs - self.logs.max())
        return np.asarray(heights / (np.diff(self.points) @ (heights[1:] + heights[:-1]) / 2))

    @cached_property
    def _ladder(self) -> Array:
        """The distribution function at the points."""
        pieces = np.diff(self.points) * (self._density[1:] + self._density[:-1]) / 2
        return np.concatenate([[0.0], np.cumsum(pieces) / pieces.sum()])

    @cached_property
    def _weights(self) -> Array:
        """The probability that each point stands for."""
        gaps = np.diff(self.points)
        cells = np.concatenate([[gaps[0] / 2], (gaps[1:] + gaps[:-1]) / 2, [gaps[-1] / 2]])
        return np.asarray(self._density * cells / (self._density @ cells))

    def mean(self) -> float:
        """Return the mean."""
        return float(self._weights @ self.coordinate.back(self.points))

    def variance(self) -> float:
        """Return the variance."""
        return float(self._weights @ (self.coordinate.back(self.points) - self.mean()) ** 2)

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the probability of at most x."""
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.nan_to_num(self.coordinate.of(np.asarray(x, float)), nan=-np.inf)
        return np.interp(at, self.points, self._ladder, left=0.0, right=1.0)

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return the point that is exceeded with probability 1 - p."""
        return np.asarray(self.coordinate.back(np.interp(probabilities(p), self._ladder, self.points)))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws, one per row."""
        return self.quantile(rng.random(size))[:, None]

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the density of the parameter."""
        with np.errstate(divide="ignore", invalid="ignore"):
            at = self.coordinate.of(np.ravel(np.asarray(theta, float)))
            logs = np.interp(at, self.points, np.log(self._density), left=-np.inf, right=-np.inf)
            return np.asarray(logs - self.coordinate.log_slope(at))

    def mirrored(self) -> Tabulated:
        """Return the distribution of what is left of 1, of a probability."""
        return Tabulated(self.coordinate, -self.points[::-1], self.logs[::-1])


@dataclass(frozen=True, eq=False)
class TwoShares:
    """A probability and what is left of 1."""

    first: Tabulated

    dimension: ClassVar[int] = 2

    def marginal(self, index: int) -> Tabulated:
        """Return the distribution of either."""
        return self.first.mirrored() if range(2)[index] == 1 else self.first

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return joint draws, one per row."""
        share = self.first.draw(rng, size)
        return np.concatenate([share, 1 - share], axis=1)


def multiply(
    posteriors: Sequence[PosteriorDistribution], log_prior: Callable[[Array], Array], coordinate: Coordinate
) -> Tabulated:
    """Return the product of posteriors of one number over their common prior, all but one of them."""
    marginals = [each.marginal(0) for each in posteriors]

    def logs(u: Array) -> Array:
        theta = coordinate.back(u)
        with np.errstate(divide="ignore", invalid="ignore"):
            total = sum(each.log_density(theta) for each in marginals) - (len(marginals) - 1) * log_prior(theta)
            return np.nan_to_num(np.asarray(total + coordinate.log_slope(u)), nan=-np.inf, posinf=-np.inf)

    with np.errstate(divide="ignore"):
        ends = [np.clip(coordinate.of(each.quantile([_TAIL, 1 - _TAIL])), -_FURTHEST, _FURTHEST) for each in marginals]
    points = np.linspace(min(each[0] for each in ends), max(each[1] for each in ends), _LOOK)
    heights = logs(points)
    for _ in range(_LOOKS):
        inside = likely_places(heights, _DROP)
        part = slice(max(inside[0] - 1, 0), inside[-1] + 2)
        points, heights = points[part], heights[part]
        new = np.setdiff1d(np.interp(_LEVELS, Tabulated(coordinate, points, heights)._ladder, points), points)
        points, heights = np.concatenate([points, new]), np.concatenate([heights, logs(new)])
        order = np.argsort(points)
        points, heights = points[order], heights[order]
    return Tabulated(coordinate, points, heights)


# Finer looks: each places points where the one before has found the probability.
_LOOKS = 4
