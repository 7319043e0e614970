"""How many records, or persons, lie in each cell of declared levels: one query, and how far one unit can move it.

A record lies in one cell. Of a unit's k records all may lie in one cell, so they move one count by k; a person is
counted once in each cell where she has a row, so she moves at most d = min(k, C) of C cells, each by 1. What one unit
can do:

    neighbours                      records: l1, l2       persons: l1 = s, l2 = sqrt(s)
    add-remove                      k, k                  s = d
    replace, one cell               k, k                  s = 1
    replace, several cells          2 k, k sqrt(2)        s = min(2 d, C)

Attained: k equal records that come, go, or move to another cell; a person who leaves d cells and enters d others, or as
many as there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Pair, count_records, say_records
from vestry.privacy.neighbours import Adjacency
from vestry.schema.statistics import Count, PersonCount, SumQuery

RECORDS, PERSONS = "records", "persons"


@dataclass(frozen=True)
class CountedCells:
    """What is counted: `records` or `persons`, by the levels of columns, the last one's changing fastest."""

    columns: tuple[str, ...]
    of: str = RECORDS

    @property
    def query(self) -> SumQuery:
        """What each record, or person, adds."""
        return (PersonCount if self.of == PERSONS else SumQuery)(self.columns, (Count(),))

    def sensitivities(self, adjacency: Adjacency, cells: int) -> tuple[int, float]:
        """Return l1 and l2 of all cells for one unit, as the table above has them."""
        k = adjacency.rows
        if self.of == PERSONS:
            entered = min(k, cells)
            moved = min(2 * entered, cells) if adjacency.replaces else entered
            return moved, math.sqrt(moved)
        times = 2 if adjacency.replaces and cells > 1 else 1
        return k * times, k * math.sqrt(times)

    def layout(self, adjacency: Adjacency, names: tuple[str, ...]) -> Layout:
        """Lay out the counts of one group that has these cells; groups are cells too."""
        l1, l2 = self.sensitivities(adjacency, len(names) * adjacency.groups)
        return Layout(names, l1, l2, count=adjacency.count)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return neighbours of one group at the distance that one of its units has there."""
        k, zeros = 1 if self.of == PERSONS else adjacency.rows, (0,) * (len(layout.names) - 1)
        if adjacency.replaces and zeros:
            return Pair(f"{say_records(k, 'go')} to another cell", (k, *zeros), (*zeros, k))
        return Pair(f"{count_records(k)} added", (0, *zeros), (*zeros, k))
