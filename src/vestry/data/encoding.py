"""Total expressions: every value of every column has one meaning, the same on every backend, and none is an error.

The engines differ in how they round halves, in casts that truncate or raise, in where NaN sorts and in which text they
read as a number. The order here is one on which they agree: cast to a double, then missing, then clip, then scale, then
floor(x + 1/2), then cast to an integer. What a value means is written in `vestry.schema.meaning`.

Text is compared with levels by keys: equal keys, same class of `meaning.level_text`. A key is the class's own text,
except for instants and clock times, whose text would have to be written: theirs is a number of microseconds behind a
blank, and no trimmed text begins with one. Only the classes that are declared are looked for.

DuckDB evaluates a function that never fails once for each entry of a column's dictionary. It evaluates CASE, and
arithmetic that may overflow, once for each record: three times as long as the counts themselves.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import ibis

from vestry.data.calendar import DAY, days, instant, micros_of, seconds
from vestry.data.source import Expression, call
from vestry.data.text_value import double, level_of, matches, number_of, trim
from vestry.schema.domain import DROP, Bins, Domain, Interval, Levels, underlying
from vestry.schema.meaning import DATE, EXACT, LONGEST, instant_of, is_number, level_text, number, time_of
from vestry.schema.statistics import ABSENT, CLIPPED, CONDITIONS, FITS, UNMATCHED, Product, Sum, sides

_EPOCH = datetime.date(1970, 1, 1)
# A number nearer to 0 than this is taken as 0. Under the limits of `vestry.data.table` it changes no sum: it is lost in
# x - origin, and where the origin is 0 its term is below 1e-39 before the 1/2 is added.
NEGLIGIBLE = 1e-100
_MIDNIGHT = f"^{DATE}[T ]00:00(:00([.]0+)?)?[|]$"
_DATE_LENGTH = 10


def plain(column: Expression, domain: Domain, engine: str, *, clean: bool) -> Expression:
    """Return a column as what its domain is about: the key of a level, a number, or days after the low end.

    Bins are about numbers or days.

    Parameters
    ----------
    column
        As the table has it.
    domain
        What is declared of it.
    engine
        Which backend answers.
    clean
        Whether text was trimmed before the engine saw it.
    """
    domain = underlying(domain)
    if isinstance(domain, Levels):
        return _level(column, domain, engine, clean=clean or domain.exact)
    read = _number if domain.since is None else partial(_day, domain=domain)
    return read(column, engine=engine, clean=clean)


def code(value: Expression, domain: Domain, engine: str) -> Expression:
    """Return a level's place among `Levels.names`, or the clipped number; null where the record is dropped."""
    if isinstance(domain, Interval):
        return _clipped(value, domain, engine)
    if isinstance(domain, Bins):
        return _bin(value, domain, engine)
    if value.type().is_floating():
        return _place(value, [(place, double(own)) for place, own in _numbers_of(domain.texts)], domain)
    keys = _level_keys(domain)
    # Text often comes with a dictionary, and then a look-up is quicker by far.
    if engine == "duckdb":
        return _look_up(value, keys, domain.missing_place)
    return _place(value, list(enumerate(keys)), domain)


def condition(column: Expression, domain: Domain, engine: str, *, clean: bool) -> Expression:
    """Return the place among `CONDITIONS` of how a column's value was read; see `statistics.Condition`."""
    domain = underlying(domain)
    value = plain(column, domain, engine, clean=clean)
    if isinstance(domain, Levels):
        clean = clean or domain.exact
        place = code(value, Levels(*domain.values, missing=DROP, exact=domain.exact), engine)
        cases = [(place.isnull(), UNMATCHED)]
    else:
        beyond = (value < double(domain.low)) | (value > double(domain.high))
        cases = [(lacks_number(value), UNMATCHED), (beyond, CLIPPED)]
    ordered = [(lacks_value(column, engine, clean=clean), ABSENT), *cases]
    places = [(holds, _whole(CONDITIONS.index(name))) for holds, name in ordered]
    return ibis.cases(*places, else_=_whole(CONDITIONS.index(FITS)))


def lacks_value(column: Expression, engine: str, *, clean: bool) -> Expression:
    """Tell whether there is nothing to read: null, NaN, or text that is empty or too long."""
    dtype = column.type()
    if dtype.is_floating():
        return lacks_number(column)
    if not (_is_text(dtype) or dtype.is_decimal()):
        return column.isnull()
    text = _text(column, engine, clean=clean)
    lacks = text.isnull() | (text == "") | (text.length() > LONGEST)
    return lacks | (text == "NaN") if dtype.is_decimal() else lacks


def lacks_number(value: Expression) -> Expression:
    """Tell whether a double is null or NaN."""
    return value.isnull() | value.isnan()


def scale(term: Sum | Product, codes: dict[str, Expression]) -> Expression:
    """Return floor(product of (x - origin) / grid + 1/2) as an integer."""
    columns, origins = sides(term)
    factors = [codes[column] - double(origin) for column, origin in zip(columns, origins, strict=True)]
    value = factors[0] if len(factors) == 1 else factors[0] * factors[1]
    return (value / double(term.grid) + double(0.5)).floor().cast("int64")


def person(column: Expression, engine: str, *, clean: bool) -> tuple[Expression, Expression]:
    """Return what a column says of a person: text, or a double, or both where the text is a number."""
    dtype = column.type()
    if dtype.is_floating() or dtype.is_interval():
        return ibis.null("string"), _number(column, engine=engine, clean=clean)
    if dtype.is_boolean():
        return ibis.cases((column, "1"), (~column, "0"), else_=ibis.null("string")), ibis.null("float64")
    if dtype.is_integer():
        return column.cast("string"), ibis.null("float64")
    text = _text(column, engine, clean=clean)
    return text, number_of(text, engine)


def _text(column: Expression, engine: str, *, clean: bool) -> Expression:
    """Return a column as trimmed text."""
    dtype, text = column.type(), column.cast("string")
    if dtype.is_decimal() and dtype.precision is not None and dtype.precision == dtype.scale:
        # DuckDB leaves the zero before the point out, if the type has no digit there.
        zero = ibis.cases((text.startswith("-."), "-0"), (text.startswith("."), "0"), else_="")
        return zero + ibis.cases((text.startswith("-."), text.substr(1)), else_=text)
    return text if clean or not _is_text(dtype) else trim(text, engine)


def _is_text(dtype: Any) -> bool:
    return bool(dtype.is_string() or dtype.is_unknown())


def _number(column: Expression, *, engine: str, clean: bool) -> Expression:
    """Return a column as doubles, null where it is not a number."""
    dtype = column.type()
    if dtype.is_boolean():
        return ibis.cases((column, double(1)), (~column, double(0)), else_=ibis.null("float64"))
    # A decimal goes through its text: engines divide by powers of ten differently.
    if _is_text(dtype) or dtype.is_decimal():
        text = _text(column, engine, clean=clean)
        read = number_of(text, engine)
        return ibis.cases((text.contains(":"), seconds(text)), else_=read) if _is_text(dtype) else read
    if dtype.is_time():
        return seconds(column.cast("string"))
    if dtype.is_interval():
        return call("date_part", float, "epoch", column).cast("float64")
    return column.cast("float64") if dtype.is_numeric() else ibis.null("float64")


def _day(column: Expression, *, domain: Interval, engine: str, clean: bool) -> Expression:
    """Return whole days after the low end as doubles, infinite beyond an end, null where it is not a date."""
    assert domain.since is not None  # noqa: S101 - `code` has seen to it
    dtype, low = column.type(), domain.since
    if dtype.is_timestamp() and engine == "duckdb" and dtype.scale != 6:
        column = column.try_cast(dtype.copy(scale=6))
    if _is_text(dtype):
        counted = days(_text(column, engine, clean=clean), domain.format, engine)
        return (counted - (low - _EPOCH).days).cast("float64")
    if not (dtype.is_date() or dtype.is_timestamp()):
        return ibis.null("float64")
    high = low + datetime.timedelta(days=int(domain.high))
    before, last = _instant(dtype, low, datetime.time.min), _instant(dtype, high, datetime.time.max)
    # Clipped first: an engine may fail on what lies between the ends of time.
    within = (column.date() if dtype.is_timestamp() else column).delta(ibis.literal(low), unit="day").cast("float64")
    return ibis.cases(
        (column.isnull(), ibis.null("float64")),
        (column < before, double(-math.inf)),
        (column > last, double(math.inf)),
        else_=within,
    )


def _instant(dtype: Any, day: datetime.date, clock: datetime.time) -> Expression:
    """Return a day, of the type of a column, and a moment of it where the type has one."""
    if dtype.is_date():
        return ibis.literal(day)
    zone = datetime.UTC if dtype.timezone else None
    return ibis.literal(datetime.datetime.combine(day, clock, zone))


def _clipped(value: Expression, domain: Interval, engine: str) -> Expression:
    missing = ibis.null("float64") if domain.missing == DROP else _settled(domain.stand_in)
    return ibis.cases(
        (lacks_number(value), missing),
        (value < double(domain.low), _settled(domain.low)),
        (value > double(domain.high), _settled(domain.high)),
        (value.abs() < double(NEGLIGIBLE), double(0)),
        else_=value,
    )


def _bin(value: Expression, domain: Bins, engine: str) -> Expression:
    """Return the place of the bin of a number or day, clipped; a number nearer to 0 than `NEGLIGIBLE` is 0."""
    missing = domain.missing_place
    lacks = lacks_number(value), ibis.null("int64") if missing is None else _whole(missing)
    edges = [(value < double(e)) if abs(e) >= NEGLIGIBLE else value <= double(-NEGLIGIBLE) for e in domain.edges[1:-1]]
    below = [(holds, _whole(place)) for place, holds in enumerate(edges)]
    return ibis.cases(lacks, *below, else_=_whole(len(edges)))


def _settled(value: float) -> Expression:
    return double(0 if abs(value) < NEGLIGIBLE else value)


def _level(column: Expression, domain: Levels, engine: str, *, clean: bool) -> Expression:
    """Return the key of a value's class as text; of truth values and numbers as a double, if doubles tell levels."""
    dtype, texts = column.type(), domain.texts
    if dtype.is_boolean():
        return _number(column, engine=engine, clean=clean)
    whole = dtype.is_integer() and all(abs(float(text)) < EXACT for text in texts if is_number(text))
    if whole or dtype.is_floating() or dtype.is_interval():
        return _number(column, engine=engine, clean=clean)
    if dtype.is_timestamp() and engine == "duckdb":
        return _instant_key(column, domain)
    text = _text(column, engine, clean=clean)
    if domain.exact and dtype.is_string():
        return text
    key = _level_key(text, domain, engine)
    if engine != "duckdb" or not dtype.is_string() or key is text:
        return key
    # Most text is a key as it stands.
    known = [own for own in _level_keys(domain) if own[:1] != " "]
    return ibis.cases((text.isin(known), text), else_=key)


def _place(value: Expression, keys: Sequence[tuple[int, Any]], domain: Levels) -> Expression:
    place = domain.missing_place
    missing = ibis.null("int64") if place is None else _whole(place)
    return ibis.cases(*((value == key, _whole(at)) for at, key in keys), else_=missing) if keys else missing


def _whole(value: int) -> Expression:
    return ibis.literal(value, type="int64")


def _look_up(value: Any, values: Sequence[Any], missing: int | None) -> Any:
    """Return the place of a value, counted from 0, and the place `missing` if it is not there; null for None.

    `list_position` counts from 1 and is null if it finds nothing, and `greatest` passes over nulls. So whatever belongs
    at place 0 is omitted from the list.
    """
    if missing is None:
        return _position(values, value) - 1
    others = [each for place, each in enumerate(values) if place != missing]
    place = _at_least_0(_position(others, value))  # 0 is what is missing, and the rest are numbered from 1
    if missing == 0:
        return place
    # The numbers of the places 1, 2, ...: those before `missing` have moved up by one.
    numbers = [*range(2, missing + 1), 0, *range(missing + 1, len(others) + 1)]
    return _at_least_0(_position(numbers, place))


def _position(values: Sequence[Any], value: Expression) -> Expression:
    return call("list_position", int, list(values), value)


def _at_least_0(value: Expression) -> Expression:
    return call("greatest", int, value, 0)


def _level_keys(domain: Levels) -> tuple[str, ...]:
    """Return the keys of the declared levels, in their order."""
    if domain.exact:
        return domain.texts
    timed = _timed(domain.texts)
    return tuple(_key(text, timed) for text in domain.texts)


def _level_key(text: Expression, domain: Levels, engine: str) -> Expression:
    """Return the keys of a column of trimmed text."""
    texts = domain.texts
    cases = []
    if any(time_of(each) for each in texts):
        micros = (seconds(text) * double(1e6) + double(0.5)).floor().cast("int64")
        cases.append((text.contains(":") & micros.notnull(), ibis.literal(" ") + micros.cast("string")))
    if _timed(texts):
        micros, zoned = instant(text, engine)
        mark = ibis.cases((zoned, "Z"), else_="")
        cases.append((micros.notnull(), ibis.literal(" @") + micros.cast("string") + mark))
    elif any(instant_of(each) for each in texts):
        cases.append((matches(text, _MIDNIGHT), text.substr(0, _DATE_LENGTH)))
    own = level_of(text) if any(map(is_number, texts)) else text
    return ibis.cases(*cases, else_=own) if cases else own


def _instant_key(column: Expression, domain: Levels) -> Expression:
    """Return the keys of a column of DuckDB's timestamps."""
    micros, zoned = micros_of(column), bool(column.type().timezone)
    if _timed(domain.texts):
        return ibis.literal(" @") + micros.cast("string") + ibis.literal("Z" * zoned)
    if zoned:
        return ibis.null("string")
    return ibis.cases((micros % DAY == 0, column.date().cast("string")), else_=ibis.null("string"))


def _numbers_of(texts: tuple[str, ...]) -> Iterator[tuple[int, float]]:
    """Yield place and number of the levels that a double can be: those whose text is the double's own."""
    for place, text in enumerate(texts):
        if is_number(text) and level_text(number(text)) == text:
            yield place, number(text)


def _timed(texts: tuple[str, ...]) -> bool:
    """Tell whether a level is an instant within a day."""
    return any(instant_of(text) and len(text) > _DATE_LENGTH for text in texts)


def _key(text: str, timed: bool) -> str:
    if (clock := time_of(text)) is not None:
        return f" {round(number(clock) * 1e6)}"
    moment = instant_of(text) if timed else None
    return text if moment is None else f" @{moment[0]}{'Z' * moment[1]}"
