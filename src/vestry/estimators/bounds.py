"""How declared bounds turn a row into features of bounded norm, and coefficients back into the row's own units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.regression.loss import positive
from vestry.schema.design_matrix import WITHIN, largest_norm

_WAYS = "bounds=(0, 10), or bounds=([18, 0], [90, 40]) with the low ends of all features first, or bounds=Ball(2.0)"
_RADII = (1e-15, 1e15)
# Numbers that are encoded at once.
_CHUNK = 2**18


@dataclass(frozen=True)
class Ball:
    """Rows of at most this norm. A longer row is scaled down to it; features are neither moved nor scaled.

    Attributes
    ----------
    radius
        The largest norm.
    """

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _radius(self.radius, "Ball(radius=2.0)"))


@dataclass(frozen=True, eq=False)
class Scaling:
    """z = (x - middle)/reach, clipped to [-1, 1], a longer row than `radius` scaled down; or the row of a ball.

    An infinite value is clipped; what is no number becomes the middle of its interval. In a ball, where there is no end
    to clip at, both become 0.

    Attributes
    ----------
    middle, reach
        Of each feature. Without an intercept nothing is moved: the middle is 0 and the reach the farther end.
    stand_in
        What a missing value becomes, after scaling.
    boxed
        Whether features are clipped one by one.
    radius
        The largest norm; None for as far as the box reaches.
    intercept
        Whether each row has a 1 as well, last.
    """

    middle: np.ndarray
    reach: np.ndarray
    stand_in: np.ndarray
    boxed: bool
    radius: float | None
    intercept: bool

    @classmethod
    def from_bounds(cls, bounds: Any, radius: Any, *, features: int, intercept: bool) -> Scaling:
        """Read the declaration; what does not fit the number of features is refused."""
        if bounds is None:
            raise InvalidParameter("bounds", None, "declared, since they are never learnt from the rows", _WAYS)
        if isinstance(bounds, Ball):
            if radius is not None:
                raise InvalidParameter("radius", radius, "left out with a Ball", f"bounds=Ball({bounds.radius:g})")
            zero = np.zeros(features)
            return cls(zero, np.ones(features), zero, False, bounds.radius, intercept)
        if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != 2:
            raise InvalidParameter("bounds", bounds, "a pair (low, high) or a Ball", _WAYS)
        low, high = (_ends(name, end, features) for name, end in zip(("low", "high"), bounds, strict=True))
        if not np.all(low / 2 < high / 2):  # halves, since the least doubles have none
            raise InvalidParameter("bounds", bounds, "of a low end below the high end for every feature", _WAYS)
        inner = None if radius is None else _radius(radius, "radius=2.0")
        centre = low / 2 + high / 2
        if intercept:
            return cls(centre, high / 2 - low / 2, np.zeros(features), True, inner, True)
        reach = np.maximum(np.abs(low), np.abs(high))
        return cls(np.zeros(features), reach, centre / reach, True, inner, False)

    @property
    def features(self) -> int:
        """How many coefficients a linear predictor has, the intercept included."""
        return len(self.middle) + self.intercept

    @property
    def norm(self) -> float:
        """The largest norm of a row as it is encoded, the intercept included."""
        widest = math.sqrt(len(self.middle)) if self.boxed else math.inf
        return largest_norm(widest, self.radius, intercept=self.intercept)

    def encode(self, rows: np.ndarray, dtype: type = np.float64) -> np.ndarray:
        """Return the rows as the mechanism sees them, a part at a time."""
        encoded: np.ndarray = np.empty((len(rows), self.features), dtype=dtype)
        step, width = max(1, _CHUNK // self.features), len(self.middle)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            encoded[part, :width] = self._scaled(rows[part])
        if self.intercept:
            encoded[:, width] = 1.0
        return encoded

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        values = np.array(rows, dtype=np.float64)
        missing = np.isnan(values) if self.boxed else ~np.isfinite(values)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.boxed:
                values -= self.middle
                values /= self.reach
                np.clip(values, -1.0, 1.0, out=values)
            np.copyto(values, np.broadcast_to(self.stand_in, values.shape), where=missing)
            if self.radius is not None:
                _shorten(values, self.radius * WITHIN)
        return values

    def restore(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients in the units of the features, and intercepts; the last axis is the features'."""
        width = len(self.middle)
        weights = coefficients[..., :width] / self.reach
        shift = weights @ self.middle
        return weights, (coefficients[..., width] if self.intercept else 0.0) - shift

    def to_dict(self) -> dict[str, Any]:
        """Return the scales of the features, and the radius."""
        pairs = [list(map(float, pair)) for pair in zip(self.middle, self.reach, strict=True)]
        return {"scales": pairs, "boxed": self.boxed, "radius": self.radius, "intercept": self.intercept}


def interval(name: str, given: Any, instead: str) -> tuple[float, float]:
    """Read a declared pair of numbers, low below high."""
    pair = tuple(given) if isinstance(given, (tuple, list, np.ndarray)) else ()
    if len(pair) != 2 or not all(_finite(_plain(end)) for end in pair) or not pair[0] < pair[1]:
        raise InvalidParameter(name, given, "a declared pair (low, high) of numbers, low below high", instead)
    return float(pair[0]), float(pair[1])


def _ends(name: str, given: Any, features: int) -> np.ndarray:
    """Return one end for each feature; a declaration is public, and may be quoted."""
    try:
        values = np.asarray(given)
    except ValueError:
        values = np.zeros((0, 0))
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        raise InvalidParameter(f"the {name} end of bounds", given, "a number, or one for each feature", _WAYS)
    if values.ndim == 1 and len(values) != features:
        allowed = f"a number, or one for each of the {features} features"
        raise InvalidParameter(f"the {name} end of bounds", "another number of them", allowed, _WAYS)
    ends = np.broadcast_to(values.astype(np.float64), (features,)).copy()
    if not np.all(np.isfinite(ends)):
        raise InvalidParameter(f"the {name} end of bounds", given, "finite", _WAYS)
    return ends


def _shorten(values: np.ndarray, radius: float) -> None:
    """Scale down, in place, the rows that are longer than the radius; no square overflows."""
    largest = np.maximum(np.abs(values).max(axis=1, initial=0.0), np.finfo(float).tiny)
    shares = values / largest[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", shares, shares))
    over = norms * largest > radius
    values[over] = shares[over] * (radius / norms[over])[:, None]


def _radius(given: Any, instead: str) -> float:
    """Read a radius that single precision holds, squared too."""
    radius = positive("radius", _plain(given), instead)
    if not _RADII[0] <= radius <= _RADII[1]:
        raise InvalidParameter("radius", given, f"from {_RADII[0]:g} to {_RADII[1]:g}", instead)
    return radius


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _plain(value: Any) -> Any:
    """Return a number of numpy's as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
