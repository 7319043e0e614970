"""Noisy numbers of several releases as one: of the same people a product of likelihoods, of other people sums.

Same people: the true number s is the same in every release, and each has its own noise, so that

    P(z_1, z_2, ... | s) = product over releases of P(noise_i = z_i - s).

Every sum over s that a posterior takes can take this product in the place of one noise: it is log-concave too. A noise
is asked by its noisy number, so each combination of noisy numbers gets a label near to where its product is greatest;
labels differ by a little (1e-9) where combinations do.

Other people: of disjoint tables the true sums add up, and so do their noises. The noise of the sum is the convolution:
of two Laplace noises, q1 = e^(-1/b1) >= q2, r = q2/q1, it is for k >= 0

    P(k) ~ q1^k [(1 - r^(k+1))/(1 - r) + (1 + r^k) q1 q2/(1 - q1 q2)],

and that of normal noises, discrete or rounded, is summed: it is not that of one such noise of a larger scale, because
roundings add up, too. To add up loses what a release says that is much more precise than another, so it is refused
there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import (
    DiscreteGaussian,
    IntegerNoise,
    JoinedStatistics,
    Laplace,
    Noise,
    NormalNoise,
    noise_of,
)
from vestry.releases import NoisyStatistics

# How far the labels of two combinations are apart.
_STEP = 1e-9
# Adding up may widen an interval by a tenth at most: the variance by this factor.
_WIDENED = 1.21
# Noise of a smaller deviation is taken for noise of this one, where its inverse is needed.
_LEAST = 1e-3
# Up to this deviation laws are convolved, over so many deviations.
_NEARLY_NORMAL = 50.0
_TABLED = 14


@dataclass(frozen=True, eq=False)
class Joined:
    """The product of several noises on the same numbers, by label.

    Attributes
    ----------
    noises
        One for each release.
    labels
        Increasing.
    values
        The noisy numbers of each label, one row per release.
    """

    noises: tuple[IntegerNoise, ...]
    labels: Array
    values: Array

    @property
    def scale(self) -> float:
        """About that of the product: squares of inverse scales add up."""
        return 1 / math.sqrt(sum(1 / each.scale**2 for each in self.noises))

    @property
    def deviation(self) -> float:
        """About that of the product."""
        return 1 / math.sqrt(sum(1 / max(noise.deviation, _LEAST) ** 2 for noise in self.noises))

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return the sum of the logarithms of P(z_i - s)/P(z_i - anchor); z is a label."""
        place = np.minimum(np.searchsorted(self.labels, z), self.labels.size - 1)
        parts = zip(self.noises, self.values, strict=True)
        return np.asarray(sum(noise.log_weight(s, row[place], anchor) for noise, row in parts))

    def reach(self, drop: float) -> float:
        """Return a distance from a label at which the product has fallen by `drop` from its summit.

        Beyond all noisy numbers every factor falls, so the one that falls fastest bounds it from there on.
        """
        spread = float(np.abs(self.values - self.labels).max(initial=0.0))
        return math.ceil(spread) + min(each.reach(drop) for each in self.noises)


@dataclass(frozen=True)
class SummedLaplace:
    """The noise of a sum of two numbers, each with Laplace noise."""

    larger: float
    smaller: float

    @property
    def scale(self) -> float:
        """Squares add up."""
        return math.hypot(self.larger, self.smaller)

    @property
    def deviation(self) -> float:
        """The standard deviation: squares add up."""
        return math.hypot(Laplace(self.larger).deviation, Laplace(self.smaller).deviation)

    def log_mass(self, k: Array) -> Array:
        """Return log P(k), up to a constant."""
        size, log_r = np.abs(k), 1 / self.larger - 1 / self.smaller
        both = -math.expm1(-1 / self.larger - 1 / self.smaller)
        ladder = size + 1 if log_r == 0 else np.expm1((size + 1) * log_r) / np.expm1(log_r)
        return np.asarray(np.log(ladder + (1 + np.exp(size * log_r)) * (1 - both) / both) - size / self.larger)

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return log P(z - s) - log P(z - anchor)."""
        return np.asarray(self.log_mass(z - s) - self.log_mass(z - anchor))

    def reach(self, drop: float) -> float:
        """Return a distance at which log P has fallen by `drop`."""
        far = self.larger * drop
        while self.log_mass(np.array(far)) > self.log_mass(np.array(0.0)) - drop:
            far += self.larger * (1 + 0.1 * drop)
        return float(far)


@dataclass(frozen=True, eq=False)
class SummedNormals:
    """The noise of a sum of numbers, each with discrete or rounded normal noise: their laws, convolved.

    Its logarithm is that of a normal density, and what `_correction` adds: of a deviation of 50 or more nothing, as the
    fourth cumulant of rounding, -1/120, is then a part of 1e-9 of the variance's square.

    Attributes
    ----------
    noises
        That of each number.
    """

    noises: tuple[NormalNoise, ...]

    @cached_property
    def deviation(self) -> float:
        """The standard deviation: squares add up."""
        return math.hypot(*(noise.deviation for noise in self.noises))

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return self.deviation

    @cached_property
    def _correction(self) -> Array:
        """What rounding adds to the logarithm of the normal density, at k = 0, 1, 2 ... up to 14 deviations."""
        last = math.ceil(_TABLED * self.deviation) + 1
        if self.deviation >= _NEARLY_NORMAL:
            return np.zeros(2)
        # Partial sums go twice as far, so that nothing is missing at the table's end.
        k = np.arange(-2.0 * last, 2.0 * last + 1)
        masses = [np.exp(noise.log_mass(k)) for noise in self.noises]
        total = reduce(partial(np.convolve, mode="same"), masses)
        right = slice(2 * last, 3 * last)
        return np.asarray(np.log(total[right]) + (k[right] / self.deviation) ** 2 / 2)

    def log_mass(self, k: Array) -> Array:
        """Return log P(k), up to a constant; beyond the table its last slope goes on."""
        size = np.abs(k)
        table = self._correction
        end = table.size - 1
        inside = np.interp(size, np.arange(table.size), table)
        beyond = np.maximum(size - end, 0.0) * (table[-1] - table[-2])
        return np.asarray(inside + beyond - (size / self.deviation) ** 2 / 2)

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return log P(z - s) - log P(z - anchor)."""
        return np.asarray(self.log_mass(z - s) - self.log_mass(z - anchor))

    def reach(self, drop: float) -> float:
        """Return a distance at which log P has fallen by `drop`."""
        return sum(noise.reach(0.0) for noise in self.noises) + self.deviation * math.sqrt(2 * drop)


def joined(contents: Sequence[NoisyStatistics]) -> JoinedStatistics:
    """Return what several releases of the same people hold, as one."""
    first = contents[0]
    if len({each.count for each in contents}) > 1:
        counts = ", ".join(str(each.count) for each in contents)
        allowed = "the same in every release of the same people"
        raise InvalidParameter("the number of records", counts, allowed, "same_people=False, or releases of one table")
    noises = tuple(noise_of(each) for each in contents)
    weights = np.array([1 / max(noise.deviation, _LEAST) ** 2 for noise in noises])
    table = np.array([each.values for each in contents], dtype=float)
    combinations, place = np.unique(table, axis=1, return_inverse=True)
    nearest = np.rint(weights @ combinations / weights.sum())
    labels = _apart(nearest)
    order = np.argsort(labels)
    noise = Joined(noises, labels[order], combinations[:, order])
    values = tuple(labels[np.ravel(place)].tolist())
    return _as_one(first, values, first.noise, noise.scale, first.count, noise, contents)


def _apart(nearest: Array) -> Array:
    """Return the numbers, those that are equal apart by small steps."""
    numbers, seen = nearest.copy(), dict[float, int]()
    for at, value in enumerate(nearest.tolist()):
        numbers[at] = value + _STEP * seen.get(value, 0)
        seen[value] = seen.get(value, 0) + 1
    return numbers


def summed(contents: Sequence[NoisyStatistics]) -> JoinedStatistics:
    """Return the sums of what releases of other people hold; refused where that would lose what one of them says."""
    first, noises = contents[0], [noise_of(each) for each in contents]
    _check_alike(contents)
    values = tuple(int(sum(each)) for each in zip(*(each.values for each in contents), strict=True))
    public = [each.count for each in contents if each.count is not None]
    count = sum(public) if len(public) == len(contents) else None
    scales = sorted((each.scale for each in noises), reverse=True)
    noise: Noise
    if all(isinstance(each, NormalNoise) for each in noises):
        noise = SummedNormals(tuple(noises))
    elif all(isinstance(each, Laplace) for each in noises) and len(noises) == 2:
        noise = SummedLaplace(*scales)
    else:
        given = f"{len(noises)} releases with {' and '.join(sorted({each.noise for each in contents}))} noise"
        allowed = "two with Laplace noise, or any number with Gaussian noise, where their numbers are added up"
        raise InvalidParameter("releases of other people", given, allowed, "two of them")
    return _as_one(first, values, first.noise, noise.scale, count, noise, contents)


def averaged(contents: Sequence[NoisyStatistics]) -> JoinedStatistics:
    """Return the mean of noisy numbers of the same people, weighted by precision: of Gaussian noise nothing is lost.

    The product of normal likelihoods of s is a normal one: 1/scale^2 adds up. The means are no whole numbers.
    """
    noises = [noise_of(each) for each in contents]
    if not all(isinstance(noise, NormalNoise) for noise in noises):
        allowed = "gaussian for moments of the same people"
        raise InvalidParameter("the noise of the releases", "another one", allowed, "each release by itself")
    first = joined(contents)  # refuses numbers of records that differ
    weights = np.array([1 / noise.deviation**2 for noise in noises])
    table = np.array([each.values for each in contents], dtype=float)
    values, scale = tuple((weights @ table / weights.sum()).tolist()), 1 / math.sqrt(weights.sum())
    return _as_one(first, values, first.noise, scale, first.count, DiscreteGaussian(scale), contents)


def _check_alike(contents: Sequence[NoisyStatistics]) -> None:
    """Refuse releases of which one has much more noise per record: in the sum it would hide what the other says."""
    sizes = [_records(each) for each in contents]
    variances = [noise_of(each).deviation ** 2 for each in contents]
    weighted = sum(n**2 / v for n, v in zip(sizes, variances, strict=True))
    if sum(variances) * weighted > _WIDENED * sum(sizes) ** 2:
        allowed = "about as precise as each other, where their numbers are added up"
        instead = "the more precise one alone"
        raise InvalidParameter("releases of other people", "noise that differs by record", allowed, instead)


def _records(statistics: NoisyStatistics) -> float:
    """Return about how many records there are: the public number, the noisy one, or the sum of counts."""
    if statistics.count is not None:
        return float(statistics.count)
    if statistics.names[-1:] == ("count",):
        return max(1.0, statistics.values[-1] * statistics.count_grid)
    return max(1.0, float(sum(statistics.values)))


def _as_one(
    first: NoisyStatistics,
    values: tuple[Any, ...],
    name: str,
    scale: float,
    count: int | None,
    noise: Noise,
    contents: Sequence[NoisyStatistics],
) -> JoinedStatistics:
    attributes = {each.name: getattr(first, each.name) for each in fields(NoisyStatistics)}
    changes = {"values": values, "noise": name, "scale": scale, "count": count}
    return JoinedStatistics(**{**attributes, **changes}, own_noise=noise, parts=tuple(contents))
