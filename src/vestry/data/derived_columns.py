"""Derived columns as expressions of an engine: no value can make one fail, and every engine computes the same.

First every column of an expression is read for its place, by the same total expressions as declared columns. Then
numbers that cannot be computed with are missing, and what remains is arithmetic of doubles, comparisons, and the `and`,
`or` and `not` of SQL. Texts and names are written by Ibis, which quotes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import Any

import ibis

from vestry.data.encoding import code, lacks_number, lacks_value, plain
from vestry.data.source import Expression, call
from vestry.data.text_value import double
from vestry.schema.derivation import match_levels
from vestry.schema.domain import DROP, Domain, Interval, Levels
from vestry.schema.formula import (
    DATE,
    NUMBER,
    TEXT,
    TRUTH,
    Arithmetic,
    ColumnName,
    Comparison,
    Constant,
    DatePart,
    FormulaPart,
    Junction,
    Membership,
    Negation,
    Reading,
    walk,
)
from vestry.schema.formula_parser import GREATEST, LEAST

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_FIRST, _LAST = datetime.date.min, datetime.date.max


def derive(
    table: Expression,
    held: Mapping[str, Expression],
    parts: Mapping[str, FormulaPart],
    engine: str,
    clean: Mapping[str, bool],
) -> tuple[Expression, dict[str, Expression]]:
    """Return a table, and its columns by name: those that were held, and the derived ones.

    Parameters
    ----------
    table
        The records.
    held
        Its columns by name.
    parts
        The derived columns by name, each an expression whose columns are read for their places.
    engine
        Which backend answers.
    clean
        Of each column, whether its text was trimmed before the engine saw it.
    """
    read = {each for part in parts.values() for each in walk(part) if isinstance(each, Reading)}
    named = {reading: f"r{place}" for place, reading in enumerate(sorted(read, key=repr))}
    aliases = {column: f"k{place}" for place, column in enumerate(held)}
    first = {name: held[column] for column, name in aliases.items()}
    for reading, name in named.items():
        column = held[reading.column]
        first[name] = plain(column, _domain(reading), engine, clean=clean[reading.column])
        if reading.of == TEXT:
            first[f"a{name}"] = lacks_value(column, engine, clean=clean[reading.column] or reading.exact)
    table = table.select(**first)
    second = {name: table[name] for name in aliases.values()}
    second |= {name: _settled(table, reading, name, engine) for reading, name in named.items()}
    table = table.select(**second)
    values = {reading: table[name] for reading, name in named.items()}
    columns = {column: table[name] for column, name in aliases.items()}
    derived = {
        column: columns[part.column] if isinstance(part, ColumnName) else _value(part, values, engine)
        for column, part in parts.items()
    }
    return table, {**columns, **derived}


def _domain(reading: Reading) -> Domain:
    """Return what a column is read as."""
    match reading.of:
        case "number":
            return Interval(-GREATEST, GREATEST)
        case "date":
            return Interval(_FIRST, _LAST, format=reading.format)  # type: ignore[arg-type]  # counted in days
        case "text":
            return match_levels(reading.among, exact=reading.exact)
    return Levels(False, True, missing=DROP)


def _settled(table: Expression, reading: Reading, name: str, engine: str) -> Expression:
    """Return a column that was read as a number, a day after the first one or a truth value; null where it is none."""
    value, missing = table[name], ibis.null("float64")
    if reading.of == NUMBER:
        beyond, small = value.abs() > double(GREATEST), value.abs() < double(LEAST)
        return ibis.cases((lacks_number(value), missing), (beyond, missing), (small, double(0)), else_=value)
    if reading.of == DATE:
        last = double((_LAST - _FIRST).days)
        return ibis.cases(((value >= double(0)) & (value <= last), value), else_=missing)
    place = code(value, _domain(reading), engine)
    if reading.of == TRUTH:
        return place == 1
    is_among = (place < len(reading.among)).fill_null(False)
    return ibis.cases((table[f"a{name}"], ibis.null("boolean")), else_=is_among)


def _value(part: FormulaPart, values: Mapping[Reading, Expression], engine: str) -> Expression:
    """Return a part as an expression: a double, a day as a double, or a truth value."""

    def inner(each: FormulaPart) -> Expression:
        return _value(each, values, engine)

    match part:
        case Reading():
            return values[part]
        case Constant():
            return _constant(part.value)
        case Arithmetic():
            return _arithmetic(part.sign, [inner(each) for each in part.numbers])
        case DatePart():
            return _date_part(part.function, [inner(each) for each in part.dates], engine)
        case Comparison():
            return _SIGNS[part.sign](inner(part.left), inner(part.right))
        case Membership():
            item = inner(part.item)
            return reduce(or_, (item == inner(each) for each in part.among))
        case Junction():
            return reduce(and_ if part.word == "and" else or_, map(inner, part.conditions))
        case Negation():
            return ~inner(part.condition)
    raise AssertionError(part)


def _constant(value: float | str | bool | datetime.date) -> Expression:
    if isinstance(value, datetime.date):
        return double((value - _FIRST).days)
    assert not isinstance(value, str)  # noqa: S101 - a text stands beside a column, and is read with it
    return ibis.literal(value) if isinstance(value, bool) else double(value)


def _arithmetic(sign: str, numbers: list[Expression]) -> Expression:
    if len(numbers) == 1:
        return double(0) - numbers[0]
    if sign == "/":
        return numbers[0] / numbers[1].nullif(double(0))
    return _SIGNS[sign](*numbers)


def _date_part(function: str, days: list[Expression], engine: str) -> Expression:
    if function == "days":
        return days[0] - days[1]
    whole, first = days[0].cast("int32"), ibis.literal(_FIRST)
    date = call("date_add", datetime.date, first, whole) if engine == "pyspark" else first + whole.as_interval("D")
    return (date.year() if function == "year" else date.month()).cast("float64")
