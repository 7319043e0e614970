"""Declared bounds: what a row and an outcome may be, and so how they are encoded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.schema.design_matrix import RowEncoder
from vestry.validation import is_number, require_number

_WAYS = "bounds=(0, 10), or bounds=([18, 0], [90, 40]) with the low ends of all features first, or bounds=Ball(2.0)"
# Radii that single precision holds, squared too.
_LEAST, _MOST = 1e-15, 1e15


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


def encoder_of(bounds: Any, radius: Any, *, features: int, intercept: bool) -> RowEncoder:
    """Return how rows are encoded; a declaration that does not fit the number of features is refused.

    What is not a number becomes the middle of its interval, or 0 in a ball. Without an intercept nothing is moved: the
    middle is 0 and the reach the farther end.
    """
    zeros = np.zeros(features)
    if bounds is None:
        raise InvalidParameter("bounds", None, "declared, since they are never learnt from the rows", _WAYS)
    if isinstance(bounds, Ball):
        if radius is not None:
            raise InvalidParameter("radius", radius, "omitted with a Ball", f"bounds=Ball({bounds.radius:g})")
        return RowEncoder(zeros, np.ones(features), zeros, math.inf, bounds.radius, intercept)
    if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != 2:
        raise InvalidParameter("bounds", bounds, "a pair (low, high) or a Ball", _WAYS)
    low, high = (_ends(name, end, features) for name, end in zip(("low", "high"), bounds, strict=True))
    if not np.all(low / 2 < high / 2):  # halves, since the least doubles have none
        raise InvalidParameter("bounds", bounds, "of a low end below the high end for every feature", _WAYS)
    inner = None if radius is None else _radius(radius, "radius=2.0")
    middle, reach, stand_in = scale_of(low, high, intercept=intercept)
    return RowEncoder(middle, reach, stand_in, math.sqrt(features), inner, intercept)


def scale_of(low: Any, high: Any, *, intercept: bool) -> tuple[Any, Any, Any]:
    """Return the middle and the reach of declared ends, and what a missing value becomes after scaling."""
    centre = low / 2 + high / 2
    if intercept:
        return centre, high / 2 - low / 2, 0 * centre
    reach = np.maximum(np.abs(low), np.abs(high))
    return 0 * centre, reach, centre / reach


def interval(name: str, given: Any, instead: str) -> tuple[float, float]:
    """Read a declared pair of numbers, low below high."""
    pair = tuple(given) if isinstance(given, (tuple, list, np.ndarray)) else ()
    if len(pair) != 2 or not all(map(is_number, pair)) or not pair[0] < pair[1]:
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


def _radius(given: Any, instead: str) -> float:
    return require_number("radius", given, instead, least=_LEAST, most=_MOST)
