"""The one check of each number that noise is asked for: a scale, a lattice exponent, a count of bytes."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from vestry.errors import InvalidParameter

LOWEST_EXPONENT, HIGHEST_EXPONENT = -1074, 1023
"""The exponents of the powers of two that are doubles."""


def checked_scale(scale: Any) -> float:
    """Return the smallest double that is at least `scale`, if that is a finite number above 0.

    Rounding goes up, so the noise is never smaller than what was asked.
    """
    if _is_a(Real, scale) and scale > 0:
        nearest = _nearest_double(scale)
        rounded_up = math.nextafter(nearest, math.inf) if nearest < scale else nearest
        if math.isfinite(rounded_up):
            return rounded_up
    raise InvalidParameter("scale", scale, "a finite number above 0", "for example scale=1.5")


def checked_exponent(exponent: Any) -> int:
    """Return `exponent` if 2**exponent is a double."""
    if _is_a(Integral, exponent) and LOWEST_EXPONENT <= exponent <= HIGHEST_EXPONENT:
        return int(exponent)
    allowed = f"a whole number from {LOWEST_EXPONENT} to {HIGHEST_EXPONENT}"
    raise InvalidParameter("exponent", exponent, allowed, "for example exponent=-20")


def checked_count(count: Any) -> int:
    """Return `count` if it is a whole number, 0 or more."""
    if _is_a(Integral, count) and count >= 0:
        return int(count)
    raise InvalidParameter("count", count, "a whole number, 0 or more", "for example count=16")


def _is_a(kind: type, number: Any) -> bool:
    return isinstance(number, kind) and not isinstance(number, bool)


def _nearest_double(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
