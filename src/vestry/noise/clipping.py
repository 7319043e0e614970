"""Private values made ready for noise without ever failing on one: what does not fit is clipped.

Clipping moves no two values apart, so it never enlarges a sensitivity. A refusal is for the wrong type
alone, and shows the type.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from vestry.errors import InvalidParameter

LOWEST_INTEGER, HIGHEST_INTEGER = -(2**63), 2**63 - 1
LARGEST_DOUBLE = sys.float_info.max


def integers(values: Any) -> list[int]:
    """List the values as integers of 64 bits."""
    return [int64(value) for value in _of_kind(Integral, values, plural="integers")]


def doubles(values: Any) -> list[float]:
    """List the values as finite doubles."""
    return [finite(value) for value in _of_kind(Real, values, plural="numbers")]


def int64(number: Any) -> int:
    """Clip an integer to 64 bits."""
    return min(max(int(number), LOWEST_INTEGER), HIGHEST_INTEGER)


def finite(number: Any) -> float:
    """Clip a number to the finite doubles, and turn NaN into 0."""
    try:
        double = float(number)
    except OverflowError:  # an integer beyond the doubles
        double = math.copysign(math.inf, 1 if number > 0 else -1)
    return 0.0 if math.isnan(double) else min(max(double, -LARGEST_DOUBLE), LARGEST_DOUBLE)


def _of_kind(kind: type, values: Any, *, plural: str) -> list[Any]:
    listed = list(values) if isinstance(values, Iterable) else None
    strangers = [values] if listed is None else [each for each in listed if not isinstance(each, kind)]
    if listed is None or strangers:
        raise InvalidParameter("values", type(strangers[0]), f"a sequence of {plural}", f"a list of {plural}")
    return listed
