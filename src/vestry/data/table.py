"""Records and what they may contain: what can be asked of them without showing one.

How large a sum can become is settled from declarations alone, before any record is read.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from vestry.data.quiet_reading import quietly
from vestry.data.row_limit import limit_records
from vestry.data.source import Dialect, Source, connect, dialect_from, find_way, kind_of
from vestry.errors import InvalidParameter, VestryError
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.derivation import check_derived
from vestry.schema.design_matrix import Design
from vestry.schema.domain import Domain, Interval, Levels, sources, sources_of, underlying
from vestry.schema.meaning import EXACT
from vestry.schema.private import Block, Private, PrivateCounts, PrivateRows, RemoteRows
from vestry.schema.statistics import Count, PersonQuery, Product, Sum, SumQuery, sides, summand
from vestry.schema.table_schema import DEFAULT_MAX_ROWS, TableSchema
from vestry.validation import require_number, require_whole

if TYPE_CHECKING:
    from vestry.data.query import Query
    from vestry.data.statistic_query import StatisticEvaluation
    from vestry.data.value_counts import ValueQuery
    from vestry.statistics.statistic import Statistic

LIMIT = 2**62
_FAILED = (
    "the data could not be read, and nothing was summed; what the backend said may quote a record and is not shown. "
    "Check that the file or table is whole, and that it can still be reached."
)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Table:
    """Records at rest, with what their holder declares of them. Nothing is read before it is asked for.

    Attributes
    ----------
    data
        Where the records are: what `connect` takes.
    columns
        What each column may contain. Columns that are not declared are never read.
    unit
        Whose privacy is protected: `row`, or `person=COLUMN,rows=K`.
    neighbours
        `replace` or `add-remove`.
    max_rows
        How many records there are at most, declared; it bounds every sum.
    csv
        How a CSV file is written: `{"separator": ";", "decimal": ","}`.
    """

    data: Any
    columns: Mapping[str, Domain]
    unit: Unit
    neighbours: Neighbours
    max_rows: int
    csv: Dialect

    def __init__(
        self,
        data: Any,
        columns: Mapping[str, Domain],
        *,
        unit: str | Unit = "row",
        neighbours: str | Neighbours,
        max_rows: int = DEFAULT_MAX_ROWS,
        csv: Mapping[str, Any] | Dialect | None = None,
    ) -> None:
        kind_of(data)
        if not isinstance(columns, Mapping):
            raise InvalidParameter("columns", "none", "columns with their domains", _COLUMNS)
        for name, domain in columns.items():
            if not isinstance(name, str) or not name:
                raise InvalidParameter("a column's name", name, "text", _COLUMNS)
            if not isinstance(domain, (Levels, Interval)):
                raise InvalidParameter(f"the column {name}", domain, "levels or an interval", _COLUMNS)
        require_whole("max_rows", max_rows, "max_rows=10**9", most=LIMIT - 1)
        for name, domain in columns.items():
            if domain.derived is not None:
                check_derived(name, columns, Unit.parse(unit).person)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "columns", MappingProxyType(dict(columns)))
        object.__setattr__(self, "unit", Unit.parse(unit))
        object.__setattr__(self, "neighbours", Neighbours.parse(neighbours))
        object.__setattr__(self, "max_rows", max_rows)
        object.__setattr__(self, "csv", csv if isinstance(csv, Dialect) else dialect_from(csv))

    def __repr__(self) -> str:
        return f"Table({kind_of(self.data)}, columns: {', '.join(self.columns)})"

    def declaring(self, columns: Mapping[str, Domain]) -> Table:
        """Return the same records with other declarations of some columns."""
        if not columns:
            return self
        how = {"unit": self.unit, "neighbours": self.neighbours, "max_rows": self.max_rows, "csv": self.csv}
        return Table(self.data, {**self.columns, **columns}, **how)  # type: ignore[arg-type]

    def check(self, tally: SumQuery) -> None:
        """Try everything that can fail without touching a value: connect, the schema, the query, its bounds.

        Raises
        ------
        VestryError
            If the tally cannot be collected from this table.
        """
        query = self._query(tally)
        self._check_unread()
        with self._connected(query.wanted) as source:
            query.check_schema(source)
            source.explain(query.expression(source, row_key=""))

    def schema(self, *columns: str) -> Mapping[str, Any]:
        """Return the types of those of these columns that the table has. No value is read."""
        with self._connected({column: self.columns.get(column) for column in columns}) as source:
            return source.schema

    def sources(self, column: str) -> tuple[str, ...]:
        """Return the columns of the table that a declared one is read from: itself, unless it is derived."""
        return sources(column, self.columns[column]) if column in self.columns else (column,)

    @property
    def is_csv(self) -> bool:
        """Whether the records are in a CSV file, whose columns have names and no types."""
        return find_way(self.data).startswith((".csv", ".tsv"))

    def schema_faults(self) -> tuple[str, ...]:
        """Say which declared columns the table lacks, or holds as a type that cannot fit. No value is read."""
        from vestry.data.schema_check import schema_faults

        with connect(self.data, columns=None, dialect=self.csv) as source:
            return schema_faults(source.schema, sources_of(self.columns), self.unit.person)

    def count(self) -> int:
        """Return the number of records, where it is public: under replace with unit row."""
        if self.unit.person is not None or self.neighbours is not Neighbours.REPLACE:
            given = f"asked for under {self.neighbours} with unit {self.unit}"
            instead = 'neighbours="replace" and unit="row", or a count through a mechanism'
            raise InvalidParameter("the number of records", given, "private unless a row is replaced", instead)
        self._check_unread(counted=True)
        with self._connected({}) as source:
            counts = quietly(
                lambda: [source.rows(part.aggregate(n=part.count())) for part in source.parts], VestryError(_FAILED)
            )
        return sum(int(rows[0]["n"]) for rows in counts)

    def collect(self, tally: SumQuery, *, row_key: str) -> Private:
        """Sum over the records in one query.

        Parameters
        ----------
        tally
            What is summed.
        row_key
            A text that decides which records of a person count, where there are too many; it lives in the ledger.

        Returns
        -------
        Private
            The sums: for each cell of the tally, each term. Cells without records have 0.
        """
        if not isinstance(row_key, str):
            raise InvalidParameter("row_key", type(row_key).__name__, "text", 'row_key="patients"')
        query = self._query(tally)
        self._mark_read()
        with self._connected(query.wanted) as source:
            query.check_schema(source)
            # The answer is opened and closed inside, so that no frame of a traceback holds it.
            return quietly(
                lambda: Private(query.read(source.rows(query.expression(source, row_key=row_key)))),
                VestryError(_FAILED),
            )

    @property
    def declared(self) -> TableSchema:
        """What is declared of the records."""
        return TableSchema(self.columns, self.unit, self.neighbours, self.max_rows)

    def check_statistic(self, statistic: Statistic) -> None:
        """Try everything that can fail before a statistic is computed, without touching a value."""
        evaluation = self._evaluation(statistic)
        self._check_unread()
        with self._connected(evaluation.wanted) as source:
            evaluation.reading.check_schema(source)
            source.explain(evaluation.expression(source, row_key=""))

    def evaluate(self, statistic: Statistic, *, row_key: str) -> Private:
        """Compute the integers of a statistic in one query.

        Parameters
        ----------
        statistic
            What is computed.
        row_key
            As in `collect`.
        """
        evaluation = self._evaluation(statistic)
        self._mark_read()
        with self._connected(evaluation.wanted) as source:
            evaluation.reading.check_schema(source)
            return quietly(
                lambda: Private(evaluation.read(source.rows(evaluation.expression(source, row_key=row_key)))),
                VestryError(_FAILED),
            )

    def _evaluation(self, statistic: Statistic) -> StatisticEvaluation:
        from vestry.data.statistic_query import StatisticEvaluation  # loads Ibis

        for axis in statistic.query.axes:
            _check_domain(axis.column, self.declared.domain(axis.column))
        return StatisticEvaluation(statistic.query, self.declared)

    def rows(self, design: Design, *, row_key: str, stay: bool = False) -> PrivateRows:
        """Read the records of a regression in one query: features and outcomes, in blocks; at most `max_rows` of them.

        Parameters
        ----------
        design
            How a record becomes features and an outcome.
        row_key
            As in `collect`.
        stay
            Whether records that Spark holds may stay there: they are then counted, and read when they are summed.
        """
        query, names = self._query(design.tally), _names(design)

        def read(source: Source) -> Sequence[Block] | RemoteRows:
            records = query.records(source, row_key=row_key)
            if stay and (remote := _remote(source, records, design, row_key)) is not None:
                return remote.at_most(self.max_rows)
            batches = source.columns(records)
            blocks = [design.block(dict(zip(names, batch.values(), strict=True))) for batch in batches]
            empty = {name: np.zeros(0, dtype=np.int32) for name in names}
            return limit_records(blocks, self.max_rows, row_key=row_key) or [design.block(empty)]

        self._mark_read()
        with self._connected(query.wanted) as source:
            query.check_schema(source)
            return quietly(lambda: PrivateRows(read(source)), VestryError(_FAILED))

    def check_values(self, column: str, *, least: int, most: int) -> None:
        """Try everything that can fail before the values of a column are counted, without touching one."""
        query = self._value_query(column, least, most)
        self._check_unread()
        with self._connected(dict.fromkeys(query.columns)) as source:
            query.check_schema(source)
            source.explain(query.expression(source, row_key=""))

    def count_values(self, column: str, *, least: int, most: int, row_key: str) -> PrivateCounts:
        """Return which values of a column occur, and how many records, or persons, hold each.

        Parameters
        ----------
        column
            A column of the table, declared or not; its values are read as those of levels are.
        least
            Values that fewer hold are omitted.
        most
            How many different values of a person count.
        row_key
            As in `collect`.
        """
        query = self._value_query(column, least, most)
        self._mark_read()
        with self._connected(dict.fromkeys(query.columns)) as source:
            query.check_schema(source)
            return quietly(
                lambda: PrivateCounts(query.read(source.columns(query.expression(source, row_key=row_key)))),
                VestryError(_FAILED),
            )

    def _value_query(self, column: str, least: int, most: int) -> ValueQuery:
        from vestry.data.value_counts import ValueQuery  # loads Ibis

        return ValueQuery(column, self.unit, least, most)

    def can_stay(self, design: Design, function: Callable[[Iterator[Block]], np.ndarray]) -> bool:
        """Tell whether rows can stay where they are, and try there what is done with them, on a made-up record."""
        with self._connected(self._query(design.tally).wanted) as source:
            if source.backend.name != "pyspark":
                return False
            from vestry.data.spark_rows import try_executors

            try_executors(source, function, design, _names(design))
            return True

    def _connected(self, columns: Mapping[str, Domain | None]) -> Source:
        return connect(self.data, columns=columns, dialect=self.csv)

    def _check_unread(self, *, counted: bool = False) -> None:
        """Refuse a stream that was read already, or that would have to be counted before it is read."""
        if find_way(self.data) == _STREAM and (counted or self.data in _READ):
            allowed = "read once" + (", so that its records cannot be counted first" if counted else "")
            raise InvalidParameter("data", "a RecordBatchReader", allowed, "data=reader.read_all(), a table")

    def _mark_read(self) -> None:
        self._check_unread()
        if find_way(self.data) == _STREAM:
            _READ.add(self.data)

    def _query(self, tally: SumQuery) -> Query:
        from vestry.data.query import Query  # loads Ibis

        tally.check(self.columns)
        check_bound(tally, self.columns, self.max_rows)
        return Query(tally, self.columns, self.unit)


def _names(design: Design) -> tuple[str, ...]:
    """Return the columns of the query of rows, in its order."""
    tally = design.tally
    return (*tally.keys, *(term.column for term in tally.terms if isinstance(term, Sum)))


def _remote(source: Source, records: Any, design: Design, row_key: str) -> RemoteRows | None:
    if source.backend.name != "pyspark":
        return None
    from vestry.data.spark_rows import remote_rows

    return remote_rows(source, records, design, _names(design), row_key)


# A second reading of a stream would find no record.
_STREAM = "pyarrow.RecordBatchReader"
_READ: weakref.WeakSet[Any] = weakref.WeakSet()
_COLUMNS = 'columns={"ward": Levels("A", "B"), "stay": Interval(0, 60)}'

# Between these no step of a sum or product over- or underflows in a double. PostgreSQL would raise where others give
# infinity or zero.
_GREATEST_END = 1e30
_GRIDS = (1e-30, 1e60)
_LEAST_ORIGIN = 1e-80


def check_bound(tally: SumQuery, domains: Mapping[str, Domain], max_rows: int) -> None:
    """Refuse numbers that 64-bit sums and doubles cannot hold exactly.

    Parameters
    ----------
    tally
        What is summed.
    domains
        What the columns may contain.
    max_rows
        How many records there are at most.
    """
    for column in tally.columns:
        _check_domain(column, domains[column])
    most = (LIMIT - 1) // max_rows
    if isinstance(tally, PersonQuery) and tally.units > most:
        persons = (LIMIT - 1) // tally.units
        allowed = f"at most {persons} for averages over persons"
        raise InvalidParameter("max_rows", max_rows, allowed, f"max_rows = {persons}")
    for term in map(summand, tally.terms):
        if isinstance(term, Count):
            require_whole("units", term.units, f"units={most}", most=most)
        elif isinstance(term, (Sum, Product)):
            _check_grid(term, domains, max_rows)


def _check_domain(column: str, domain: Domain) -> None:
    domain = underlying(domain)
    if isinstance(domain, Interval) and max(abs(domain.low), abs(domain.high)) > _GREATEST_END:
        ends, allowed = [domain.low, domain.high], f"within {_GREATEST_END:g} of 0"
        raise InvalidParameter(f"the interval of {column}", ends, allowed, "a narrower one")
    for value in domain.values if isinstance(domain, Levels) else ():
        if isinstance(value, int) and abs(value) > EXACT:
            allowed = "at most 2^53 in size if it is a whole number"
            raise InvalidParameter(f"a level of {column}", value, allowed, f'"{value}" as text')


def _check_grid(term: Sum | Product, domains: Mapping[str, Domain], max_rows: int) -> None:
    columns, origins = sides(term)
    for origin in origins:
        if not (origin == 0 or _LEAST_ORIGIN <= abs(origin) <= _GREATEST_END):
            raise InvalidParameter("origin", origin, f"0 or from {_LEAST_ORIGIN:g} to {_GREATEST_END:g} in size", "0")
    require_number("grid", term.grid, "grid=0.001", least=_GRIDS[0], most=_GRIDS[1])
    span = 1.0
    for column, origin in zip(columns, origins, strict=True):
        domain = domains[column]
        assert isinstance(domain, Interval)  # noqa: S101 - tally.check has seen to it
        span *= max(abs(domain.low - origin), abs(domain.high - origin))
    most = (LIMIT - 1) // max_rows
    if math.floor(span / term.grid + 0.5) + 1 > most:
        # Twice what is enough, so that rounding does not matter.
        enough = 2.0 ** (math.floor(math.log2(2 * max(span, _GRIDS[0]) / (most - 0.5))) + 1)
        allowed = f"coarse enough for {max_rows:g} records to sum below 2^62"
        instead = f"grid={enough!r} or more" if enough <= _GRIDS[1] else "a narrower interval, or fewer rows"
        raise InvalidParameter("grid", term.grid, allowed, instead)
