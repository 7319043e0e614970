"""What the values of a column are read as, apart from its levels, ends and edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vestry.schema.derivation import derivation, readings
from vestry.schema.domain import Domain, Interval, underlying
from vestry.schema.formula import ColumnName
from vestry.schema.formula_parser import parse
from vestry.schema.table_schema import TableSchema

Kind = Literal["text", "exact text", "number", "date"]


@dataclass(frozen=True)
class ReadPart:
    """As what an expression reads another column, which that column's own declaration decides."""

    column: str
    kind: str
    date_format: str | None
    exact: bool


@dataclass(frozen=True)
class ColumnReading:
    """How a value becomes a text, a number or a number of days.

    Attributes
    ----------
    column
        The declared column.
    source
        The column of the table, or the expression of other columns in canonical writing, behind an equals sign.
    kind
        What a value is read as. Dates are days after `since`.
    date_format
        How dates are written in text; None for ISO 8601.
    since
        The day from which dates are counted, as text.
    parts
        The columns of the expression.
    """

    column: str
    source: str
    kind: Kind
    date_format: str | None = None
    since: str | None = None
    parts: tuple[ReadPart, ...] = ()

    @classmethod
    def of(cls, schema: TableSchema, column: str) -> ColumnReading:
        """Return the reading of a declared column."""
        domain = schema.domain(column)
        plain = underlying(domain)
        source = _source(schema, column)
        kind = _kind(plain)
        parts: list[ReadPart] = []
        if source.startswith("="):
            parts = [ReadPart(*part) for part in readings(column, schema.domains)]
        if isinstance(plain, Interval) and plain.since is not None:
            return cls(column, source, kind, plain.format, plain.since.isoformat(), tuple(parts))
        return cls(column, source, kind, parts=tuple(parts))


def _source(schema: TableSchema, column: str) -> str:
    domain = schema.domain(column)
    if domain.derived is None:
        return column
    root = derivation(column, schema.domains)
    if isinstance(root, ColumnName):
        return root.column
    return "= " + parse(domain.derived).text


def _kind(plain: Domain) -> Kind:
    if not isinstance(plain, Interval):
        return "exact text" if plain.exact else "text"
    return "number" if plain.since is None else "date"
