"""Sums of values clipped to an interval, as integers: a grid counted from the interval's middle.

Sums are exact: a double of the size of count x middle may have no room for what one record adds. On the default grid
one record spans the declared width as doubles have it, so no sensitivity grows by the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from vestry.errors import InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Pair, count_records, say_records
from vestry.privacy.neighbours import Adjacency


def sum_layout(low: float, high: float, dimension: int, adjacency: Adjacency, grid: float | None) -> Layout:
    """Lay out sums of d clipped coordinates, W units wide, counted from the middle of the interval.

    Replace with public count: k d W and k sqrt(d) W. Otherwise the count joins, in units chosen so that under replace
    it costs nothing more: a unit with k records at one end that changes into k at the other already moves the sums as
    far as one that vanishes moves sums and count together. By group under replace a record may also move: it leaves one
    group and enters another, twice what an addition costs (sqrt(2) times in l2); for several coordinates a change
    inside a group is the larger one in l2.
    """
    k, d = adjacency.rows, dimension
    names = tuple(f"sum {i}" for i in range(d)) if d > 1 else ("sum",)
    step = (high - low) / 2**20 if grid is None else grid
    if not 0 < step <= (high - low) / 2:
        raise InvalidParameter("grid", grid, "above 0 and at most half the interval", "a finer grid")
    half = half_width(low, high, step)
    width = 2 * half
    check_ends(low, high, step, half)
    if adjacency.count is not None:
        return Layout(names, k * d * width, k * math.sqrt(d) * width, grid=step, count=adjacency.count)
    # The count in units of 1/half: contributions (sums, count) are (u, half j) with |u_i| <= half j, j <= k.
    l1, l2 = k * (d * half + half), k * half * math.sqrt(d + 1)
    if adjacency.replaces:
        # From one end to the other in one group; or away, and into another group.
        moves = adjacency.groups > 1
        l1 = max(k * d * width, 2 * l1 if moves else l1)
        l2 = max(k * half * 2 * math.sqrt(d), math.sqrt(2) * l2 if moves else l2)
    return Layout((*names, "count"), l1, l2, grid=step, count_grid=1 / half)


def half_width(low: float, high: float, grid: float) -> int:
    """Return half the declared interval, in units of the grid on which sums are counted."""
    return math.ceil((high - low) / 2 / grid)


def sums_from_units(low: float, high: float, grid: float, units: Sequence[int], count: int) -> list[Fraction]:
    """Turn integer sums back into sums of records, exactly."""
    step, middle = Fraction(grid), Fraction((low + high) / 2)
    return [unit * step + count * middle for unit in units]


def units_of_sums(low: float, high: float, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
    """Return the integers of a layout for sums of n records: for plans."""
    middle = (low + high) / 2
    return layout.with_count([math.floor((each - n * middle) / layout.grid + 0.5) for each in sums], n)


def end_to_end(low: float, high: float, layout: Layout, adjacency: Adjacency) -> Pair:
    """Return the pair by which one unit reaches the sensitivity of sums: from end to end, or added at the upper one."""
    k, half = adjacency.rows, half_width(low, high, layout.grid)
    sums = len(layout.names) - (layout.count is None)
    lower, upper = (tuple(layout.with_count([sign * k * half] * sums, k)) for sign in (-1, 1))
    if adjacency.replaces:
        return Pair(f"{say_records(k, 'go')} from end to end", lower, upper)
    return Pair(f"{count_records(k)} added at the upper end", (0,) * len(layout.names), upper)


def check_ends(low: float, high: float, step: float, half: int) -> None:
    """Refuse an interval so narrow, for where it lies, that doubles count its ends beyond the grid's.

    A record adds floor((x - middle)/step + 1/2) in doubles. Every step of that grows with x, rounding included, so what
    holds at the ends holds between them.
    """
    middle = (low + high) / 2
    if max(math.floor((high - middle) / step + 0.5), -math.floor((low - middle) / step + 0.5)) > half:
        raise too_narrow(low, high)


def too_narrow(low: float, high: float) -> InvalidParameter:
    """Return the refusal of an interval that doubles cannot count."""
    return InvalidParameter(
        "the interval", [low, high], "wide enough for doubles to tell its values apart", "a wider one"
    )
