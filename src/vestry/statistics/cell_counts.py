"""Counts of records in the cells of one or several tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from vestry.errors import InvalidParameter
from vestry.privacy.neighbours import Neighbours
from vestry.schema.domain import Bins, Interval
from vestry.schema.left_out import LeftOut
from vestry.schema.table_schema import Population, TableSchema
from vestry.statistics.axis import Axis, BinAxis, CountAxis, LevelAxis, sorted_axes
from vestry.statistics.coordinates import is_excluded
from vestry.statistics.identity import Document, Identity
from vestry.statistics.integer_matrix import IntegerMatrix, Integers, summing_matrix
from vestry.statistics.names import IntegerNames, TableNames
from vestry.statistics.statistic import CountQuery, IntegerLayout, NeighbouringTables, Statistic, worst_pair

Total = Literal["private", "public"]


@dataclass(frozen=True)
class CellCounts:
    """Counts of records in the cells of products of axes: one product, or several that are bought together.

    Where the total is public, the last cell of each table follows from it and is not released.

    Privacy
    -------
    Let k be the rows of one unit (1 if it is a row), all of which may lie in one cell of each of T tables.
    Add-remove: l1 = k T, l2^2 = k^2 T, largest k. Replace: the rows leave one cell and enter another, so a table of two
    released cells or more adds 2 k to l1 and 2 k^2 to l2^2, and a table of one released cell k and k^2.
    """

    tables: tuple[tuple[CountAxis, ...], ...]
    total: Total = "private"

    def __post_init__(self) -> None:
        tables = [sorted_axes(axes) for axes in self.tables]
        ordered = sorted(tables, key=_sort_key)
        object.__setattr__(self, "tables", tuple(ordered))
        if self.total == "public":
            _check_public(self.tables)

    @classmethod
    def of(cls, *axes: CountAxis, total: Total = "private") -> Self:
        """Return the counts of one table."""
        return cls((axes,), total)

    @property
    def names(self) -> IntegerNames:
        """What each integer counts."""
        omits_last = self.total == "public"
        tables = [TableNames(axes, omits_last) for axes in self.tables]
        return IntegerNames(tuple(tables))

    @property
    def query(self) -> CountQuery:
        """What the data source computes."""
        return CountQuery(self.names.tables)

    def layout(self, population: Population) -> IntegerLayout:
        """Return the sensitivity."""
        rows = population.unit.rows
        replaces = population.neighbours is Neighbours.REPLACE
        cells = 0
        for table in self.names.tables:
            can_move = replaces and len(table) > 1
            cells += 2 if can_move else 1
        return IntegerLayout(l1=rows * cells, l2_squared=rows * rows * cells, largest=rows, grid=1)

    def worst_pairs(self, population: Population) -> tuple[NeighbouringTables, ...]:
        """Return neighbouring tables that attain the sensitivity."""
        return (worst_pair(population, self.query.axes),)

    def identity(self) -> Identity:
        """Return the identity: tables and axes in canonical order, edges as exact fractions."""
        tables = [_document(axes) for axes in self.tables]
        return Identity.of({"statistic": "cell-counts", "tables": tables, "total": self.total})

    def derive(self, wanted: Statistic) -> IntegerMatrix | None:
        """Return the matrix that sums these cells to coarser ones; None if they do not nest."""
        if isinstance(wanted, CellCounts):
            return summing_matrix(self.names, wanted.names)
        return None

    def typical_values(self, rows: int) -> Integers:
        """Return equal counts in all cells of each table whose records are not left out."""
        counts = [_even_counts(table, rows) for table in self.names.tables]
        return np.concatenate(counts)

    @classmethod
    def examples(cls, schema: TableSchema) -> tuple[Self, ...]:
        """Return the counts of each column, of pairs, of two columns bought together, and with a public total."""
        axes: list[CountAxis] = []
        for column, domain in schema.domains.items():
            match domain:
                case Bins():
                    axes.append(BinAxis.of_declared(schema, column))
                case Interval():
                    axes.append(BinAxis.of_width(schema, column, bins=3))
                case _:
                    axes.append(LevelAxis.of_levels(schema, column))
        single = [cls.of(axis) for axis in axes]
        pairs = [cls.of(axes[0], axis) for axis in axes[1:]]
        together = cls(((axes[0],), (axes[-1],)))
        public = [cls.of(axis, total="public") for axis in axes if total_is_public(schema, axis)]
        return (*single, *pairs, together, *public)


def total_is_public(schema: TableSchema, *axes: Axis) -> bool:
    """Return True if the number of records that count is public: replace, unit row, none left out."""
    replaces = schema.neighbours is Neighbours.REPLACE
    return replaces and schema.unit.person is None and not _leaves_out(axes)


def _check_public(tables: tuple[tuple[CountAxis, ...], ...]) -> None:
    for axes in tables:
        if not axes or _leaves_out(axes):
            raise InvalidParameter("total", "public", "private where records are left out", 'total="private"')


def _leaves_out(axes: Sequence[Axis]) -> bool:
    return any(isinstance(axis.treatment, LeftOut) for axis in axes)


def _even_counts(table: TableNames, rows: int) -> Integers:
    declared = np.array([not is_excluded(name) for name in table])
    cells = declared.sum() + table.omits_last
    count = round(rows / cells)
    return np.where(declared, count, 0)


def _document(axes: tuple[CountAxis, ...]) -> list[Document]:
    return [axis.document() for axis in axes]


def _sort_key(axes: tuple[CountAxis, ...]) -> str:
    return Identity.of({"axes": _document(axes)}).text
