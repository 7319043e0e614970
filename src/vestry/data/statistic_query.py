"""The query of a statistic: one scan, integers for every record, at most k records per person, sums by cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

import ibis
import numpy as np

from vestry.data.axis_code import HeldColumn, axis_code, moment_outside_code, moment_value
from vestry.data.contribution_bounding import choose_records, person_name
from vestry.data.encoding import person
from vestry.data.person_sums import wide_sum
from vestry.data.query import Query
from vestry.data.source import Expression, Source
from vestry.data.text_value import double
from vestry.errors import DeclarationMismatch
from vestry.schema.column_reading import ColumnReading
from vestry.schema.domain import Domain
from vestry.schema.left_out import Kept
from vestry.schema.statistics import FITS, Condition, SumQuery
from vestry.schema.table_schema import TableSchema
from vestry.statistics.axis import TERMS, Axis, MomentAxis
from vestry.statistics.names import TableNames
from vestry.statistics.statistic import CountQuery, MomentQuery, StatisticQuery

_SQRT_8 = 8**0.5
# The cell of a record that a table leaves out without counting it.
NO_CELL = -1


@dataclass(frozen=True)
class StatisticEvaluation:
    """How a statistic's query is asked of a table of records, and how its answer is read.

    Attributes
    ----------
    asked
        What is computed.
    schema
        What is declared of the table.
    """

    asked: StatisticQuery
    schema: TableSchema

    def __post_init__(self) -> None:
        for axis in self.asked.axes:
            declared = ColumnReading.of(self.schema, axis.column)
            if declared != axis.reading:
                raise DeclarationMismatch(
                    f"the column {axis.column}", declared.source, axis.reading.source, "one table"
                )

    @cached_property
    def reading(self) -> Query:
        """How the columns are read: as they stand, so that missing values can be told from unmatched ones."""
        columns = dict.fromkeys(axis.column for axis in self.asked.axes)
        examined = SumQuery((), tuple(Condition(column, FITS) for column in columns))
        return Query(examined, self.schema.domains, self.schema.unit)

    @property
    def wanted(self) -> Mapping[str, Domain | None]:
        """The columns of the table that are read, with the domains by which their texts are read."""
        return self.reading.wanted

    def expression(self, source: Source, *, row_key: str) -> Expression:
        """Return the sums of every cell that has records, as one expression over the table."""
        parts = [self._records(part, source) for part in source.parts]
        records = ibis.union(*parts, distinct=False) if len(parts) > 1 else parts[0]
        integers = tuple(name for name in records.columns if name != "person")
        if self.schema.unit.person is not None:
            records = choose_records(records, "person", integers, self.schema.unit.rows, row_key)
        match self.asked:
            case CountQuery(tables=tables):
                counts = [_cell_counts(records, index) for index in range(len(tables))]
                return ibis.union(*counts, distinct=False) if len(counts) > 1 else counts[0]
            case MomentQuery(moments=moments):
                terms = range(len(moments.coordinates))
                sums = {f"s{index}": wide_sum(records[f"t{index}"], records) for index in terms}
                return records.aggregate(by=["cell0"], **sums)

    def _records(self, part: Expression, source: Source) -> Expression:
        """Return a part's records that count, as integers: the code on every axis, or the terms of its moment."""
        engine = source.backend.name
        part, held, _, clean = self.reading.held(part, source)
        integers: dict[str, Expression] = {}
        for index, axis in enumerate(self.asked.axes):
            domain = self.schema.domains[axis.column]
            column = HeldColumn(held[axis.column], domain, engine, clean[axis.column])
            if isinstance(axis, MomentAxis):
                assert isinstance(self.asked, MomentQuery)  # noqa: S101 - no other query has such an axis
                integers["f"] = moment_value(column, axis)
                integers["outside"] = ibis.null("int64")
                if not isinstance(axis.treatment, Kept):
                    integers["outside"] = moment_outside_code(column, axis)
            else:
                integers[f"c{index}"] = axis_code(column, axis)
        unit_column = self.schema.unit.person
        if unit_column is not None:
            text, number = person(held[unit_column], engine, clean=clean[unit_column])
            integers["person_text"] = text
            integers["person_number"] = number
        if not integers:
            return part.select(c0=ibis.literal(0, type="int64"))
        records = part.select(**integers)
        return self._settled(records)

    def _settled(self, records: Expression) -> Expression:
        """Return the integers of the records that count: their cell in each table, and the terms of a moment.

        A record that one table leaves out without counting it has the cell -1 there.
        """
        axes = self.asked.axes
        match self.asked:
            case CountQuery(tables=tables):
                cells = [_cell_index(records, axes, table.axes) for table in tables]
                settled = {f"cell{index}": cell.fill_null(NO_CELL) for index, cell in enumerate(cells)}
            case MomentQuery(groups=groups):
                group = _cell_index(records, axes, groups)
                counts = records["f"].notnull() | records["outside"].notnull()
                cell = ibis.cases((counts, group), else_=ibis.null("int64"))
                settled = {"cell0": cell.fill_null(NO_CELL), **_terms(records, self.asked)}
        if self.schema.unit.person is not None:
            settled["person"] = person_name(records["person_text"], records["person_number"])
        records = records.select(**settled)
        counted = [records[name] != NO_CELL for name in records.columns if name.startswith("cell")]
        records = records.filter(reduce(or_, counted))
        if self.schema.unit.person is not None:
            records = records.filter(records["person"].notnull())
        return records

    def read(self, rows: Iterable[Mapping[str, Any]]) -> list[int]:
        """Return the released integers in order, 0 where a cell has no records."""
        match self.asked:
            case CountQuery(tables=tables):
                counts = [np.zeros(table.cells, dtype=np.int64) for table in tables]
                for row in rows:
                    counts[row["table_index"]][row["cell"]] = int(row["records"])
                released = [count[: len(table)] for count, table in zip(counts, tables, strict=True)]
                integers: list[int] = np.concatenate(released).tolist()
                return integers
            case MomentQuery(groups=groups, moments=moments):
                terms = len(moments.coordinates)
                sums = np.zeros((TableNames(groups).cells, terms), dtype=np.int64)
                for row in rows:
                    sums[row["cell0"]] = [int(row[f"s{index}"]) for index in range(terms)]
                flat: list[int] = sums.ravel().tolist()
                return flat


def _cell_index(records: Expression, axes: tuple[Axis, ...], table: tuple[Axis, ...]) -> Expression:
    """Return the index of each record's cell in the product of a table's axes."""
    cell = ibis.literal(0, type="int64")
    for axis in table:
        code = records[f"c{axes.index(axis)}"]
        cell = cell * len(axis.coordinates) + code
    return cell


def _cell_counts(records: Expression, index: int) -> Expression:
    """Return the number of records in each cell of one table."""
    cell = records[f"cell{index}"]
    counted = records.filter(cell != NO_CELL).select(cell=cell)
    numbers = counted.aggregate(by=["cell"], records=counted.count().cast("string"))
    return numbers.mutate(table_index=ibis.literal(index, type="int64"))


def _terms(records: Expression, asked: MomentQuery) -> dict[str, Expression]:
    """Return what a record adds to each coordinate of the moment, as whole numbers; see `BoundedSums`."""
    fraction = records["f"]
    grid = double(asked.grid)
    if asked.moments.form == "partition":
        rest = double(1) - fraction
        first = (grid * (rest * rest) + double(0.5)).floor()
        second = (grid * (double(1) - fraction * fraction) + double(0.5)).floor()
        terms = [first, second - first, grid - second]
    else:
        value = (grid * fraction + double(0.5)).floor()
        complement = grid - value
        product = (double(_SQRT_8) * (complement * value) / grid).floor()
        terms = [complement, value, product]
    outside_coordinates = len(asked.moments.coordinates) - len(TERMS[asked.moments.form])
    outside = records["outside"]
    zero = ibis.literal(0, type="int64")
    named = {}
    for index, term in enumerate(terms):
        named[f"t{index}"] = ibis.cases((fraction.notnull(), term.cast("int64")), else_=zero)
    for index in range(len(terms), len(terms) + outside_coordinates):
        is_here = fraction.isnull() & (outside == index)
        named[f"t{index}"] = ibis.cases((is_here, grid.cast("int64")), else_=zero)
    return named
