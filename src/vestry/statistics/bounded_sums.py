"""Sums of a bounded number, from which its mean and variance are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from vestry.privacy.neighbours import Neighbours
from vestry.schema.domain import Bins, Interval
from vestry.schema.table_schema import Population, TableSchema
from vestry.statistics.axis import Axis, CountAxis, LevelAxis, MomentAxis, sorted_axes
from vestry.statistics.coordinates import Moment, MomentTerm, Name, is_excluded
from vestry.statistics.identity import Identity
from vestry.statistics.integer_matrix import IntegerMatrix, Integers, summing_matrix
from vestry.statistics.names import IntegerNames, TableNames
from vestry.statistics.statistic import IntegerLayout, MomentQuery, NeighbouringTables, Statistic, worst_pair

# The integer that stands for 1: a power of two, so that a product with it is exact, and far finer than any noise.
GRID = 2**20

# The mean of each term where values are spread evenly.
_EVEN_MEANS: dict[MomentTerm, float] = {
    "square": 1 / 3,
    "product": 1 / 3,
    "remainder": 1 / 3,
    "complement": 1 / 2,
    "value": 1 / 2,
    "scaled product": math.sqrt(8) / 6,
}


@dataclass(frozen=True)
class BoundedSums:
    """Sums of the terms of a value in each group, with f the value scaled to [0, 1] and s = 1 - f.

    Terms are integers, G = `GRID` for 1. A partition is rounded by its cumulative sums: with
    c1 = floor(G s^2 + 1/2) and c2 = floor(G (1 - f^2) + 1/2), the terms are c1, c2 - c1 and G - c2. They are at least
    0 in doubles too, since s^2 <= s <= 1 - f^2 holds after each rounding, and sum to G exactly. Terms that are rounded
    one by one would exceed the declared sensitivity. Of the sphere, f is rounded first, s = G - f, and then
    sqrt(8) s f down.

    Privacy
    -------
    k rows of a unit. Partition, add-remove: l1 = k G, since terms are nonnegative and sum to G; l2 = k G, attained at
    the ends. Replace: l1 = 2 k G and l2^2 = 2 k^2 G^2, attained between the ends.
    Sphere: s + f = G and s^2 + f^2 + 8 s^2 f^2 / G^2 <= G^2, because 1 - 2 s f (1 - 4 s f) <= 1 for s f <= 1/4; so
    l2 = k G, l1 <= k (1 + 1/sqrt(2)) G. Replace: the points lie in an orthant, so squares add to at most 2 k^2 G^2;
    l1 is at most twice that of add-remove.
    A record that is left out adds G to a cell of its own.
    """

    moments: MomentAxis
    groups: tuple[CountAxis, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", sorted_axes(self.groups))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the groups, then that of the value."""
        return (*self.groups, self.moments)

    @property
    def names(self) -> IntegerNames:
        """What each integer sums."""
        return IntegerNames((TableNames(self.axes),))

    @property
    def query(self) -> MomentQuery:
        """What the data source computes."""
        return MomentQuery(self.groups, self.moments, GRID)

    def layout(self, population: Population) -> IntegerLayout:
        """Return the sensitivity."""
        rows = population.unit.rows
        moved = 2 if population.neighbours is Neighbours.REPLACE else 1
        mass = GRID
        if self.moments.form == "sphere":
            mass = GRID + _largest_scaled_product()
        unit = rows * GRID
        return IntegerLayout(l1=moved * rows * mass, l2_squared=moved * unit * unit, largest=unit, grid=GRID)

    def worst_pairs(self, population: Population) -> tuple[NeighbouringTables, ...]:
        """Return neighbouring tables that attain the l2 sensitivity, and of a partition the l1 sensitivity too."""
        return (worst_pair(population, self.axes),)

    def identity(self) -> Identity:
        """Return the identity: groups in canonical order, ends as exact fractions."""
        groups = [axis.document() for axis in self.groups]
        moments = self.moments.document()
        return Identity.of({"statistic": "bounded-sums", "groups": groups, "moments": moments, "grid": GRID})

    def derive(self, wanted: Statistic) -> IntegerMatrix | None:
        """Return the matrix that sums groups to fewer ones; None if they do not nest."""
        if isinstance(wanted, BoundedSums):
            return summing_matrix(self.names, wanted.names)
        return None

    def typical_values(self, rows: int) -> Integers:
        """Return the sums of values spread evenly over the interval, in groups of equal size."""
        means = [_even_mean(name) for name in self.names]
        terms = sum(mean > 0 for mean in means)
        groups = terms / 3
        unit = GRID * rows / groups
        return np.rint(np.array(means) * unit).astype(np.int64)

    @classmethod
    def examples(cls, schema: TableSchema) -> tuple[Self, ...]:
        """Return the sums of each interval in either form, as a whole and by each column of levels."""
        groups: list[LevelAxis] = []
        moments: list[MomentAxis] = []
        for column, domain in schema.domains.items():
            match domain:
                case Bins():
                    continue
                case Interval():
                    moments.append(MomentAxis.of_column(schema, column))
                    moments.append(MomentAxis.of_column(schema, column, "sphere"))
                case _:
                    groups.append(LevelAxis.of_levels(schema, column))
        whole = [cls(axis) for axis in moments]
        grouped = [cls(axis, (group,)) for axis in moments for group in groups]
        return (*whole, *grouped)


def _even_mean(name: Name) -> float:
    """Return the mean of the term that a name holds; 0 where the name counts records that are left out."""
    if is_excluded(name):
        return 0.0
    [term] = (coordinate.term for coordinate in name if isinstance(coordinate, Moment))
    return _EVEN_MEANS[term]


def _largest_scaled_product() -> int:
    """Return the largest integer of sqrt(8) s f: at s = f = 1/2, rounded down."""
    return math.isqrt(GRID * GRID // 2)
