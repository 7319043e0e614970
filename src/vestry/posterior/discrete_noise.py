"""The law of the noise, read as a likelihood of the statistic that it hides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from vestry.errors import InvalidParameter

Array = npt.NDArray[np.float64]


class NoiseLaw(Protocol):
    """How likely an integer z is, if s was hidden by noise: known exactly, as its scale is published."""

    @property
    def scale(self) -> float:
        """The noise's scale, in integer units."""

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return log P(z - s) - log P(z - anchor), without cancellation however far z lies outside."""

    def reach(self, drop: float) -> float:
        """Return the distance from z at which log P has fallen by `drop`."""


@dataclass(frozen=True)
class Laplace:
    """P(k) ~ exp(-|k|/scale) on the integers."""

    scale: float

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return (|z - anchor| - |z - s|)/scale. If z lies beyond both, only the way from one to the other counts."""
        low, high = np.minimum(s, anchor), np.maximum(s, anchor)
        inside = np.clip(z, low, high)
        return (np.abs(inside - anchor) - np.abs(inside - s)) / self.scale

    def reach(self, drop: float) -> float:
        """Return scale * drop."""
        return self.scale * drop


@dataclass(frozen=True)
class Gaussian:
    """P(k) ~ exp(-k^2/(2 scale^2)) on the integers."""

    scale: float

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return ((z - anchor)^2 - (z - s)^2)/(2 scale^2), as a product."""
        return (s - anchor) / self.scale * ((2 * z - s - anchor) / (2 * self.scale))

    def reach(self, drop: float) -> float:
        """Return scale * sqrt(2 drop)."""
        return self.scale * math.sqrt(2 * drop)


LAWS: dict[str, type[Laplace] | type[Gaussian]] = {"discrete-laplace": Laplace, "discrete-gaussian": Gaussian}


def noise_law(name: str, scale: float) -> Laplace | Gaussian:
    """Find the law that a release names."""
    if name not in LAWS:
        raise InvalidParameter("noise", name, " or ".join(LAWS), "the noise of the release")
    if not 0 < scale < math.inf:
        raise InvalidParameter("scale", scale, "a finite number above 0", "the scale of the release")
    return LAWS[name](float(scale))


def deviation(noise: str, scale: float) -> float:
    """Return the standard deviation of integer noise."""
    if noise == "discrete-laplace":
        # With q = e^(-1/scale) the variance is 2q/(1 - q)^2 = 1/(2 sinh^2(1/(2 scale))).
        return 1 / (math.sqrt(2) * math.sinh(1 / (2 * scale))) if scale > 1e-3 else 0.0
    if scale > 5:
        return scale
    k = np.arange(-60, 61)
    weights = np.exp(-(k**2) / (2 * scale**2))
    return float(np.sqrt(weights @ k**2 / weights.sum()))
