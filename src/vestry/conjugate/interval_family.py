"""Families of values that are clipped to an interval, whose sums are integers: a grid counted from its middle.

Sums are exact: a double of the size of count x middle may have no room for what one record adds. On the default grid
one record spans the declared width as doubles have it, so no sensitivity grows by the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from vestry.conjugate.family import ConjugateFamily
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Pair, count_records, say_records
from vestry.numerics import Array
from vestry.privacy.neighbours import Adjacency
from vestry.validation import require_number


class IntervalFamily(ConjugateFamily):
    """Records of values between two declared ends, `low` and `high`; their statistics are sums."""

    low: float
    high: float
    dimension: int = 1

    def require_ends(self, *, above: float | None = None) -> None:
        """Refuse ends that are not two numbers, the larger one second."""
        for name, which in (("low", "least"), ("high", "largest")):
            end = require_number(name, getattr(self, name), f"the {which} value a record may have", above=above)
            object.__setattr__(self, name, end)
        if not self.low < self.high:
            raise InvalidParameter("high", self.high, f"above low, {self.low:g}", "the ends of the declared interval")

    @property
    def middle(self) -> float:
        """The middle of the interval."""
        return (self.low + self.high) / 2

    @property
    def reach(self) -> float:
        """Half its width."""
        return (self.high - self.low) / 2

    def bounds(self) -> tuple[Array, Array]:
        """Return low and high for each coordinate."""
        return np.full(self.dimension, self.low), np.full(self.dimension, self.high)

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the sums of clipped values; see `sum_layout`."""
        return sum_layout(self.low, self.high, self.dimension, adjacency, grid)

    def from_units(self, adjacency: Adjacency, units: Sequence[int], count: int) -> list[Fraction]:
        """Turn integer sums back into sums of values, exactly."""
        step, middle = Fraction(self.layout(adjacency).grid), Fraction(self.middle)
        return [unit * step + count * middle for unit in units]

    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return the sums in steps of the grid, and the count where it is private."""
        return layout.with_count([math.floor((each - n * self.middle) / layout.grid + 0.5) for each in sums], n)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return records that go from end to end, or are added at the upper one: as far as one unit moves sums."""
        k, half = adjacency.rows, half_width(self.low, self.high, layout.grid)
        sums = len(layout.names) - (layout.count is None)
        lower, upper = (tuple(layout.with_count([sign * k * half] * sums, k)) for sign in (-1, 1))
        if adjacency.replaces:
            return Pair(f"{say_records(k, 'go')} from end to end", lower, upper)
        return Pair(f"{count_records(k)} added at the upper end", (0,) * len(layout.names), upper)


def rests_on_prior(slopes: Sequence[float], deviation: float) -> str:
    """Say that a declared prior moves an interval far from where the release alone would have it.

    With a normal likelihood a prior of log density l moves a posterior of standard deviation sd by l'(x) sd^2, x the
    truth. An interval of 90 % that is moved by d standard deviations covers Phi(1.645 - d) - Phi(-1.645 - d) or more:
    0.87 at d = 0.45, 0.83 at 0.67. `slopes` are l' at the ends of the interval, where the truth may lie.
    """
    return RESTS_ON_PRIOR if max(map(abs, slopes)) * deviation > _FAR else ""


# How far a prior may move an interval, in standard deviations, before that is said; and what is said.
_FAR = 0.45
RESTS_ON_PRIOR = "rests on the declared prior: not calibrated if that is far off"


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


def public_count(adjacency: Adjacency, likelihood: str, moves: str = "enters the posterior") -> int:
    """Return the number of records; refuse a draw where neighbours may differ in it."""
    if adjacency.count is None:
        raise GuaranteeUnreachable(
            f"one private draw from a {likelihood} posterior whose count is not public",
            f"no theorem bounds it, because the count {moves}; release noisy statistics instead, or declare"
            " neighbours=replace and a public count",
        )
    return adjacency.count
