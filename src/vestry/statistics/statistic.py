"""The contract of a statistic: integers, summed over records, that are released with noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from vestry.privacy.neighbours import Neighbours
from vestry.schema.table_schema import Population, TableSchema
from vestry.statistics.axis import Axis, BinAxis, CountAxis, LevelAxis, MomentAxis
from vestry.statistics.identity import Identity
from vestry.statistics.integer_matrix import IntegerMatrix, Integers
from vestry.statistics.names import IntegerNames, TableNames

Value = str | float | None
Record = Mapping[str, Value]


@dataclass(frozen=True)
class CountQuery:
    """Count the records in the cells of each table; a record counts once in each of them."""

    tables: tuple[TableNames, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis of every table, each once."""
        return tuple(dict.fromkeys(axis for table in self.tables for axis in table.axes))


@dataclass(frozen=True)
class MomentQuery:
    """Sum the terms of a value in each group, where the integer `grid` stands for 1."""

    groups: tuple[CountAxis, ...]
    moments: MomentAxis
    grid: int

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis, that of the value last."""
        return (*self.groups, self.moments)


StatisticQuery = CountQuery | MomentQuery


@dataclass(frozen=True)
class IntegerLayout:
    """How far one protected unit moves the integers in a population of neighbours.

    Attributes
    ----------
    l1, l2_squared, largest
        The largest distances of the integers of two neighbouring tables: of sums of absolute values, of sums of
        squares, and of one integer.
    grid
        The integer that stands for one record.
    """

    l1: int
    l2_squared: int
    largest: int
    grid: int


@dataclass(frozen=True)
class NeighbouringTables:
    """Two neighbouring tables on which a sensitivity is attained."""

    first: tuple[Record, ...]
    second: tuple[Record, ...]


class Statistic(Protocol):
    """What can be bought: a frozen value that holds its domains, no data and no randomness."""

    @property
    def query(self) -> StatisticQuery:
        """What the data source computes."""

    @property
    def names(self) -> IntegerNames:
        """What each integer is, in the order of the query's answer."""

    def layout(self, population: Population) -> IntegerLayout:
        """Return the sensitivity."""

    def worst_pairs(self, population: Population) -> tuple[NeighbouringTables, ...]:
        """Return neighbouring tables that attain the sensitivity."""

    def identity(self) -> Identity:
        """Return the identity, which is equal for all spellings of one statistic."""

    def derive(self, wanted: Statistic) -> IntegerMatrix | None:
        """Return the matrix with wanted = matrix @ self on every table; None if there is none."""

    def typical_values(self, rows: int) -> Integers:
        """Return integers that a table of so many rows may have, for forecasts."""

    @classmethod
    def examples(cls, schema: TableSchema) -> tuple[Self, ...]:
        """Return instances on a schema's columns, for the tests that every statistic passes."""


def worst_pair(population: Population, axes: Sequence[Axis]) -> NeighbouringTables:
    """Return neighbouring tables of the records of one unit, alike, at the two ends of every axis."""
    person = population.unit.person
    marked: Record = {} if person is None else {person: "1"}
    record = {**marked, **{axis.column: extremes(axis)[0] for axis in axes}}
    replacement = {**marked, **{axis.column: extremes(axis)[1] for axis in axes}}
    rows = population.unit.rows
    if population.neighbours is Neighbours.ADD_REMOVE:
        return NeighbouringTables((), (record,) * rows)
    return NeighbouringTables((record,) * rows, (replacement,) * rows)


def extremes(axis: Axis) -> tuple[Value, Value]:
    """Return two values whose contributions are furthest apart: of counts those of the first two cells.

    The last cell may not be released.
    """
    match axis:
        case LevelAxis():
            return min(axis.blocks[0]), min(axis.blocks[min(1, len(axis.blocks) - 1)])
        case BinAxis():
            second = axis.edges[1:3]
            return float(axis.edges[0]), float(sum(second) / len(second))
        case MomentAxis():
            return float(axis.lower), float(axis.upper)
