"""Noise with a seed, for tests alone: the laws of `SystemNoise`, by other means, and repeatable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from vestry.noise import NoiseSource
from vestry.noise.system_noise import check_count, check_exponent, check_scale, doubles, finite, int64, integers

# Below this scale anything but 0 has probability under exp(-1000). Above the other a table would be long, and a
# rounded normal is as good: the discrete law differs by a part in 1e8.
SMALLEST_TABLE_SCALE, LARGEST_TABLE_SCALE = 0.02, 1e4


class SeededNoise(NoiseSource):
    """The same draws for the same seed and the same calls. Never use it for privacy."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_laplace(self, values: Sequence[int], *, scale: float) -> list[int]:
        # The difference of two geometric variables has the two-sided law.
        stop = -math.expm1(-1 / check_scale(scale))
        exact = integers(values)
        up, down = self._rng.geometric(stop, size=(2, len(exact)))
        return [int64(value + k) for value, k in zip(exact, (up - down).tolist(), strict=True)]

    def discrete_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        exact = integers(values)
        noise = self._gaussian(len(exact), Fraction(check_scale(scale)))
        return [int64(value + k) for value, k in zip(exact, noise, strict=True)]

    def rounded_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        exact = integers(values)
        scale = check_scale(scale)
        noise = self._rng.standard_normal(len(exact)).tolist()
        return [int64(value + round(Fraction(scale) * Fraction(z))) for value, z in zip(exact, noise, strict=True)]

    def lattice_gaussian(self, values: Sequence[float], *, scale: float, exponent: int) -> list[float]:
        step = Fraction(2) ** check_exponent(exponent)
        exact = doubles(values)
        noise = self._gaussian(len(exact), Fraction(check_scale(scale)) / step)
        nearest = [math.floor(Fraction(value) / step + Fraction(1, 2)) for value in exact]
        return [finite((index + k) * step) for index, k in zip(nearest, noise, strict=True)]

    def stream(self) -> np.random.Generator:
        return self._rng.spawn(1)[0]

    def random_bytes(self, count: int) -> bytes:
        # Of a stream, so that a test that watches streams sees bytes too.
        return self.stream().bytes(check_count(count))

    def _gaussian(self, count: int, scale: Fraction) -> list[int]:
        if scale < SMALLEST_TABLE_SCALE:
            return [0] * count
        if scale > LARGEST_TABLE_SCALE:
            return [round(scale * Fraction(z)) for z in self._rng.standard_normal(count).tolist()]
        reach = math.ceil(10 * scale) + 1
        support = np.arange(-reach, reach + 1)
        weight = np.exp(-0.5 * (support / float(scale)) ** 2)
        return [int(k) for k in self._rng.choice(support, size=count, p=weight / weight.sum())]
