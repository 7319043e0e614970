"""Distributions that are known by draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.numerics import Array
from vestry.posterior.mixture import Marginal


@dataclass(frozen=True, eq=False)
class JointSample:
    """The joint distribution of several numbers, by draws, one per row."""

    values: Array

    @property
    def dimension(self) -> int:
        """How many numbers there are."""
        return int(self.values.shape[1])

    def marginal(self, index: int) -> Marginal:
        """Return the distribution of one of them."""
        return Sample(self.values[:, index])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return some of the draws."""
        return self.values[rng.integers(len(self.values), size=size)]


@dataclass(frozen=True, eq=False)
class Sample(Marginal):
    """The distribution of one number, by draws."""

    values: Array

    def mean(self) -> float:
        """Return the mean."""
        return float(self.values.mean())

    def variance(self) -> float:
        """Return the variance."""
        return float(self.values.var())

    def cdf(self, x: Any) -> Array:
        """Return the share of draws that are at most x."""
        ordered = np.sort(self.values)
        return np.asarray(np.searchsorted(ordered, np.asarray(x, float), side="right") / len(ordered))

    def quantile(self, p: Any) -> Array:
        """Return quantiles of the draws."""
        return np.asarray(np.quantile(self.values, np.asarray(p, float)))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return some of the draws."""
        return self.values[rng.integers(len(self.values), size=size)]

    def log_density(self, theta: Any) -> Array:
        """Return the log density of normal kernels around the draws."""
        x = np.asarray(theta, float)
        width = max(float(self.values.std()) * 1.06 * len(self.values) ** -0.2, 1e-6)
        steps = (x[..., None] - self.values) / width
        return np.asarray(
            np.log(np.exp(-(steps**2) / 2).mean(axis=-1) + 1e-300) - math.log(width * math.sqrt(2 * math.pi))
        )
