"""The grid that an exact draw is rounded to: the multiples of a power of two, fixed by declared numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, final

import flint

from vestry.errors import InvalidParameter
from vestry.noise.bits import Ball
from vestry.noise.log_concave import decide
from vestry.noise.system_noise import finite

PROBABILITY_GRID = 2.0**-40
"""The grid of probabilities: finer than any use of a draw, and coarser than the steps of doubles, 2^-53 below 1."""


def declared_grid(unit: float, *, reach: float = 0.0) -> float:
    """Return 2^-40 of the largest power of two that is at most `unit`, a number above 0 that was declared.

    Where doubles of the size of `reach`, also declared, lie further apart, return their spacing: no finer value could
    be written.
    """
    exponent = math.frexp(min(max(unit, SMALLEST_UNIT), LARGEST_UNIT))[1] - 1
    return max(math.ldexp(1.0, exponent - 40), math.ulp(reach) if reach else 0.0)


SMALLEST_UNIT, LARGEST_UNIT = 2.0**-900, 2.0**900  # beyond these the multiples would not be doubles


@final
class Grid:
    """The multiples of `step`, between `low` and `high` where these are given."""

    __slots__ = ("_highest", "_lowest", "_step")

    def __init__(self, step: Any, low: Fraction | None = None, high: Fraction | None = None) -> None:
        if not isinstance(step, float) or not 0 < step < math.inf or math.frexp(step)[0] != 0.5:
            raise InvalidParameter("grid", step, "a power of two", "for example grid=2.0**-40")
        self._step = Fraction(step)
        self._lowest = None if low is None else math.ceil(low / self._step)
        self._highest = None if high is None else math.floor(high / self._step)

    def nearest(self, enclose: Callable[[int], Ball], *, precision: int) -> float:
        """Return the multiple nearest to a real number, which is enclosed more and more tightly until it is certain.

        What lies outside the ends is moved to the nearest multiple inside. So far out that the doubles are coarser than
        the grid, the multiple is rounded to a double, which is a multiple again.
        """
        half, step = flint.arb(0.5), flint.arb(float(self._step))
        index = decide(precision, lambda bits: (enclose(bits) / step + half).floor().unique_fmpz())
        return finite(self._inside(int(index)) * self._step)

    def _inside(self, index: int) -> int:
        if self._lowest is not None:
            index = max(index, self._lowest)
        return index if self._highest is None else min(index, self._highest)
