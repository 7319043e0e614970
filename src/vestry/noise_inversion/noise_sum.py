"""The law of a sum of independent noises: what hides a sum of released integers.

The laws of the numbers are convolved. Every term is positive, so that each probability keeps its digits, far out in
the tails too. Where the sum has a large deviation the laws are taken on a coarser lattice, each with its own deviation
kept: in units of a hundredth of the sum's deviation, a lattice changes its fourth cumulant by parts of 1e-5.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import DROP, Cube, IntegerNoise, Laplace, RoundedGaussian, law

# The sum has about so many lattice steps to its standard deviation, at most.
_STEPS = 100.0
# Where that many numbers are summed on a coarse lattice that each has less noise than rounding adds.
_LEAST_SCALE = 0.3


@dataclass(frozen=True)
class NoiseSum:
    """The law of a sum of independent noises on integers.

    Attributes
    ----------
    parts
        The laws, each with the number of integers that have it.
    """

    parts: tuple[tuple[IntegerNoise, int], ...]

    @classmethod
    def of(cls, laws: Iterable[IntegerNoise]) -> Self:
        """Return the law of the sum of one noise of each law."""
        return cls.of_counts(Counter(laws))

    @classmethod
    def of_counts(cls, counts: Mapping[IntegerNoise, int]) -> Self:
        """Return the law of a sum with so many noises of each law."""
        present = [(single, count) for single, count in counts.items() if count > 0]
        ordered = sorted(present, key=lambda part: repr(part[0]))
        return cls(tuple(ordered))

    @classmethod
    def of_sums(cls, sums: Sequence[NoiseSum], repeats: Sequence[int] | None = None) -> Self:
        """Return the law of the sum of sums, each so many times; once each if nothing is said."""
        counts: Counter[IntegerNoise] = Counter()
        for noise, times in zip(sums, repeats or [1] * len(sums), strict=True):
            for single, count in noise.parts:
                counts[single] += count * times
        return cls.of_counts(counts)

    @classmethod
    def of_one(cls, noise: str, scale: float) -> Self:
        """Return the law of the noise on one integer, by its name."""
        single = law(noise, scale, size=1)
        if isinstance(single, Cube):
            raise InvalidParameter("noise", noise, "of each integer for itself", "the noise of the release")
        return cls(((single, 1),))

    @property
    def deviation(self) -> float:
        """The standard deviation: squares add up."""
        return math.sqrt(self.variance)

    @property
    def variance(self) -> float:
        """The variance."""
        variances = [count * single.deviation**2 for single, count in self.parts]
        return sum(variances)

    @property
    def scale(self) -> float:
        """The standard deviation, where a posterior asks for a scale."""
        return self.deviation

    def log_mass(self, k: Array) -> Array:
        """Return log P(k) up to a constant; beyond the table its last slope goes on."""
        distance = np.abs(k) / self._step
        table = self._table
        last = len(table) - 1
        inside = np.interp(distance, np.arange(last + 1), table)
        slope = table[last] - table[last - 1]
        beyond = np.maximum(distance - last, 0.0) * slope
        return np.asarray(inside + beyond)

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return log P(z - s) - log P(z - anchor)."""
        return np.asarray(self.log_mass(z - s) - self.log_mass(z - anchor))

    def reach(self, drop: float) -> float:
        """Return a distance at which log P has fallen by `drop`."""
        fallen = np.flatnonzero(self._table < self._table[0] - drop)
        if len(fallen) > 0:
            return float(fallen[0] * self._step)
        last = len(self._table) - 1
        slope = self._table[last - 1] - self._table[last]
        missing = drop - (self._table[0] - self._table[last])
        return float((last + missing / slope) * self._step)

    @cached_property
    def _step(self) -> float:
        """The step of the lattice, in integer units."""
        return max(1.0, self.deviation / _STEPS)

    @cached_property
    def _table(self) -> Array:
        """Log P at 0, 1, 2 ... steps, until it has fallen by `DROP`."""
        laws = [(_on_lattice(single, self._step), count) for single, count in self.parts]
        reaches = [single.reach_of_sum(count, DROP) for single, count in laws]
        normal_reach = self.deviation / self._step * math.sqrt(2 * DROP)
        last = math.ceil(max(*reaches, normal_reach)) + 2
        # Partial sums go twice as far, so that nothing is missing at the end.
        k = np.arange(-2.0 * last, 2.0 * last + 1)
        total = np.where(k == 0, 1.0, 0.0)
        for single, count in laws:
            log_mass = single.log_mass(k)
            mass_of_sum = _power(np.exp(log_mass), count)
            total = np.convolve(total, mass_of_sum, mode="same")
        right = total[2 * last : 3 * last + 1]
        return np.asarray(np.log(right))


def _on_lattice(noise: IntegerNoise, step: float) -> IntegerNoise:
    """Return a law of the same deviation, in units of a coarser lattice."""
    if step == 1:
        return noise
    deviation = noise.deviation / step
    if isinstance(noise, Laplace):
        # The deviation of discrete Laplace noise is 1/(sqrt(2) sinh(1/(2 scale))).
        ratio = 1 / (math.sqrt(2) * deviation)
        return Laplace(0.5 / math.asinh(ratio))
    return RoundedGaussian(_unrounded(deviation))


def _unrounded(deviation: float) -> float:
    """Return the scale of rounded normal noise of this deviation; sums of many may need less than rounding adds."""
    variance = deviation**2 - 1 / 12
    return math.sqrt(max(variance, _LEAST_SCALE**2))


def _power(mass: Array, count: int) -> Array:
    """Return the mass of a sum of so many independent numbers, by repeated squaring."""
    result = mass
    for bit in bin(count)[3:]:
        result = np.convolve(result, result, mode="same")
        if bit == "1":
            result = np.convolve(result, mass, mode="same")
    return result
