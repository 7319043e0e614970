"""A noise source that adds nothing, for tests alone: what is released is what was computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from seeded_noise import SeededNoise

from vestry.noise.system_noise import check_exponent, check_scale, doubles, integers


class NoNoise(SeededNoise):
    """Add 0 to every number. What else is random, such as the order of rows, has a seed. Never use it for privacy."""

    def __init__(self) -> None:
        super().__init__(0)

    def discrete_laplace(self, values: Sequence[int], *, scale: float) -> list[int]:
        check_scale(scale)
        return integers(values)

    def discrete_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        check_scale(scale)
        return integers(values)

    def rounded_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        check_scale(scale)
        return integers(values)

    def lattice_gaussian(self, values: Sequence[float], *, scale: float, exponent: int) -> list[float]:
        check_scale(scale)
        check_exponent(exponent)
        return doubles(values)


def zero_normals(stream: np.random.Generator, size: int | tuple[int, ...]) -> np.ndarray:
    """Return what stands for standard normal numbers."""
    return np.zeros(size)


def exact_normal(source: object, mean: float, precision: float, *, grid: float, size: int = 1) -> list[float]:
    """Return the mean, rounded to the grid, for exact normal numbers around it."""
    return [round(mean / grid) * grid] * size


def remove_noise(monkeypatch) -> None:
    """Let fits without a ledger add no noise: none to sums, none in chains, and none to estimates."""
    monkeypatch.setattr("vestry.estimators.private_fit.SystemNoise", NoNoise)
    monkeypatch.setattr("vestry.noise.bounded_error_normals.normals", zero_normals)
    monkeypatch.setattr("vestry.noise.exact_sampling.normal", exact_normal)
