"""Total expressions: every value of every column has one meaning, the same on every backend, and none is an error.

The engines differ in how they round halves, in casts that truncate or raise, in where NaN sorts and in which text they
read as a number. The order here is one on which they agree: cast to a double, then missing, then clip, then scale, then
floor(x + 1/2), then cast to an integer.
"""

from __future__ import annotations

import math
from typing import Any

from vestry.data.bound import NEGLIGIBLE, sides
from vestry.data.lookup import looked_up
from vestry.statistics.domain import DROP, LEVEL, Domain, Interval, Levels
from vestry.statistics.tally import Product, Sum

# An expression of Ibis, which carries no types of its own.
Expression = Any

# Text is a number if it reads like this, in at most 100 characters, or is one of the words for infinity. A mark is
# added at its end because `$` also matches before a last line break in Java. No backslash: Spark unescapes it.
_NUMBER = "^ *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})? *[|]$"
_SHORT_NUMBER = _NUMBER.replace("{1,4}", "{1,2}")
_LONGEST = 100
_INFINITY = {math.inf: ("inf", "+inf", "infinity", "+infinity"), -math.inf: ("-inf", "-infinity")}

# Beyond these PostgreSQL refuses to make a double of a decimal; others give infinity or 0.
_GREATEST, _LEAST = "1.7976931348623158e308", "2.4703282292062329e-324"


def usable(dtype: Any, domain: Domain) -> bool:
    """Tell whether a column of this type can be read as its domain declares it."""
    if isinstance(domain, Levels) and isinstance(domain.values[0], str):
        return bool(dtype.is_string() or dtype.is_integer() or dtype.is_boolean() or dtype.is_date() or dtype.is_uuid())
    return bool(dtype.is_string() or dtype.is_numeric() or dtype.is_boolean())


def plain(column: Expression, domain: Domain, engine: str) -> Expression:
    """Return the column as text where its levels are text, else as a double: null where it is neither."""
    import ibis

    if isinstance(domain, Levels) and isinstance(domain.values[0], str):
        return column.cast("string")
    dtype = column.type()
    if dtype.is_boolean():
        return ibis.cases((column, double(1)), (~column, double(0)), else_=ibis.null("float64"))
    if isinstance(domain, Levels) and isinstance(domain.values[0], bool) and dtype.is_string():
        return _truth(column)
    # A decimal goes through its text: engines divide by powers of ten differently.
    if dtype.is_string() or dtype.is_decimal():
        text = column.cast("string")
        return _number_in_postgres(text) if engine == "postgres" else _number(text)
    return column.cast("float64")


def code(value: Expression, domain: Domain, engine: str) -> Expression:
    """Return a level's place among `Levels.names`, or the clipped number; null where the record is dropped."""
    if isinstance(domain, Interval):
        return _clipped(value, domain)
    # Text often comes with a dictionary, and then a look-up is quicker by far.
    if engine == "duckdb" and isinstance(domain.values[0], str):
        return looked_up(value, domain.values, _missing(domain))
    return _place(value, domain)


def scaled(term: Sum | Product, codes: dict[str, Expression]) -> Expression:
    """Return floor(product of (x - origin) / grid + 1/2) as an integer."""
    columns, origins = sides(term)
    factors = [codes[column] - double(origin) for column, origin in zip(columns, origins, strict=True)]
    value = factors[0] if len(factors) == 1 else factors[0] * factors[1]
    return (value / double(term.grid) + double(0.5)).floor().cast("int64")


def person_text(column: Expression) -> Expression:
    """Return a person's name as text, null where there is none. A double names a person if it is a whole number."""
    import ibis

    if not column.type().is_floating():
        return column.cast("string")
    value = column.cast("float64")
    size = value.abs()
    whole = value.notnull() & ~value.isnan() & (size <= double(2.0**53))
    number = ibis.cases((whole, value), else_=ibis.null("float64")).floor().cast("int64")
    return ibis.cases((number.cast("float64") == value, number.cast("string")), else_=ibis.null("string"))


def names_person(dtype: Any) -> bool:
    """Tell whether a column of this type can identify persons."""
    whole = dtype.is_decimal() and dtype.scale == 0
    return bool(dtype.is_string() or dtype.is_integer() or dtype.is_uuid() or dtype.is_floating() or whole)


def double(value: float) -> Expression:
    """Return a double, written as text: engines read 0.1 as a decimal and divide on their own."""
    import ibis

    return ibis.literal(str(float(value))).cast("float64")


def _number(text: Expression) -> Expression:
    import ibis

    return ibis.cases((_reads(text, _NUMBER), text.try_cast("float64")), *_infinities(text), else_=ibis.null("float64"))


def _number_in_postgres(text: Expression) -> Expression:
    """Return the same where a cast that fails would raise: a long exponent goes through a decimal, which holds it."""
    import ibis

    exact = text.cast("decimal")
    greatest, least = (ibis.literal(limit).cast("decimal") for limit in (_GREATEST, _LEAST))
    # Nested, since only CASE keeps PostgreSQL from trying a cast before its condition holds.
    held = ibis.cases(
        (exact.abs() < least, double(0)),
        (exact > greatest, double(math.inf)),
        (exact < -greatest, double(-math.inf)),
        else_=exact.cast("float64"),
    )
    return ibis.cases(
        (_reads(text, _SHORT_NUMBER), text.cast("float64")),
        (_reads(text, _NUMBER), held),
        *_infinities(text),
        else_=ibis.null("float64"),
    )


def _reads(text: Expression, pattern: str) -> Expression:
    return (text.length() <= _LONGEST) & text.concat("|").re_search(pattern)


def _infinities(text: Expression) -> list[tuple[Expression, Expression]]:
    return [(text.lower().isin(words), double(value)) for value, words in _INFINITY.items()]


def _truth(text: Expression) -> Expression:
    import ibis

    lower = text.lower()
    return ibis.cases(
        (lower.isin(["true", "1"]), double(1)), (lower.isin(["false", "0"]), double(0)), else_=ibis.null("float64")
    )


def _clipped(value: Expression, domain: Interval) -> Expression:
    import ibis

    missing = ibis.null("float64") if domain.missing == DROP else _settled(domain.stand_in)
    return ibis.cases(
        (value.isnull() | value.isnan(), missing),
        (value < double(domain.low), _settled(domain.low)),
        (value > double(domain.high), _settled(domain.high)),
        (value.abs() < double(NEGLIGIBLE), double(0)),
        else_=value,
    )


def _settled(value: float) -> Expression:
    return double(0 if abs(value) < NEGLIGIBLE else value)


def _place(value: Expression, domain: Levels) -> Expression:
    import ibis

    place = _missing(domain)
    missing = ibis.null("int64") if place is None else _whole(place)
    given = [level if isinstance(level, str) else double(level) for level in domain.values]
    return ibis.cases(*((value == level, _whole(at)) for at, level in enumerate(given)), else_=missing)


def _missing(domain: Levels) -> int | None:
    """Return the place of a missing value, None where the record is dropped."""
    if domain.missing == DROP:
        return None
    return len(domain.values) if domain.missing == LEVEL else domain.values.index(domain.stand_in)


def _whole(value: int) -> Expression:
    import ibis

    return ibis.literal(value, type="int64")
