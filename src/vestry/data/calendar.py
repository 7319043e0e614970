"""Days, instants and clock times of text that a strict pattern has found: no engine's own idea of dates is asked.

Engines differ in which text they read as a date, in the years they hold and in whether a wrong one is an error. Here a
pattern decides what is a date, digits are whole numbers, and a day that does not exist is null. PostgreSQL would raise
for it, so there the calendar is a formula.
"""

from __future__ import annotations

import datetime
import re

import ibis

from vestry.data.source import Expression, call
from vestry.data.text_value import double, matches
from vestry.schema.meaning import DATE, TIME, ZONE

# Microseconds of a day.
DAY = 86_400_000_000

_DATED = f"^{DATE}([T ]{TIME}{ZONE}?)?[|]$"
_CLOCK = f"^{TIME}[|]$"
_OFFSET = "[+-]([0-9]{2}):?([0-9]{2})?$"
_MINUTE = 60_000_000
_EPOCH = datetime.date(1970, 1, 1)
# The first microsecond of the year 1 and the one after the year 9999.
_FIRST = (datetime.date.min - _EPOCH).days * DAY
_END = ((datetime.date.max - _EPOCH).days + 1) * DAY

_YEAR, _OTHER = "([0-9]{4})", "([0-9]{1,2})"
_LIMITS = {"H": 23, "M": 59, "S": 59}


def instant(text: Expression, engine: str) -> tuple[Expression, Expression]:
    """Return microseconds since 1970 of trimmed ISO text (null for other text), and whether it has a zone."""
    micros = _day_number(text, engine) * DAY + _since_midnight(text) - _offset(text) * _MINUTE
    held = ibis.cases((matches(text, _DATED), micros), else_=ibis.null("int64"))
    within = ibis.cases(((held >= _FIRST) & (held < _END), held), else_=ibis.null("int64"))
    return within, text.re_search(f":[^-]*{ZONE}$")


def seconds(text: Expression) -> Expression:
    """Return seconds since midnight of a trimmed time's text, as a double; null for other text."""
    clock = (_digits(text, 1) * 3600 + _digits(text, 4) * 60).cast("float64")
    return ibis.cases((matches(text, _CLOCK), clock + _seconds(text, 6)), else_=ibis.null("float64"))


def days(text: Expression, format: str | None, engine: str) -> Expression:
    """Return days since 1970 of trimmed ISO text, or of text in a declared format; null for other text."""
    if format is not None:
        return _formatted(text, format)
    minutes = (_digits(text, 12) * 60 + _digits(text, 15) - _offset(text)).cast("float64")
    moved = ibis.cases((text.re_search(f":[^-]*{ZONE}$"), (minutes / 1440).floor().cast("int64")), else_=_zero())
    return ibis.cases((matches(text, _DATED), _day_number(text, engine) + moved), else_=ibis.null("int64"))


def micros_of(column: Expression) -> Expression:
    """Return microseconds since 1970 of a column of DuckDB's timestamps, null where one is infinite."""
    return ibis.cases((call("isfinite", bool, column), call("epoch_us", int, column)), else_=ibis.null("int64"))


def _formatted(text: Expression, format: str) -> Expression:
    order = re.findall("%(.)", format)
    pattern = "^" + "".join(_piece(piece) for piece in re.findall("%.|.", format))
    fields = {name: text.re_extract(pattern, place + 1).try_cast("int64") for place, name in enumerate(order)}
    year, month, day = fields["Y"], fields["m"], fields["d"]
    fits = _real(year, month, day)
    for name, limit in _LIMITS.items():
        fits = fits & (fields[name] <= limit) if name in fields else fits
    real = ibis.cases((fits, _civil(year, month, day)), else_=ibis.null("int64"))
    return ibis.cases((matches(text, pattern + "[|]$"), real), else_=ibis.null("int64"))


def _piece(piece: str) -> str:
    """Return the pattern of a field, or of a mark as it stands."""
    if piece[0] != "%":
        return f"[{piece}]"
    return _YEAR if piece == "%Y" else _OTHER


def _day_number(text: Expression, engine: str) -> Expression:
    """Return days since 1970 of text that begins with a date; null if there is no such day."""
    if engine != "postgres":
        written = ibis.cases((text.startswith("0000"), ""), else_=_part(text, 1, 10))
        return written.try_cast("date").delta(ibis.literal(_EPOCH), unit="day").cast("int64")
    year, month, day = _digits(text, 1, 4), _digits(text, 6), _digits(text, 9)
    return ibis.cases((_real(year, month, day), _civil(year, month, day)), else_=ibis.null("int64"))


def _civil(year: Expression, month: Expression, day: Expression) -> Expression:
    """Return days since 1970-01-01 of the Gregorian calendar, years counted from March so that a leap day is last."""
    early = ibis.cases((month <= 2, 1), else_=0)
    years = (year - early).cast("float64")
    months = (month - 3 + early * 12).cast("float64")
    leaps = (years / 4).floor() - (years / 100).floor() + (years / 400).floor()
    whole = years * 365 + leaps + ((months * 153 + 2) / 5).floor()
    return whole.cast("int64") + day - 719469


def _real(year: Expression, month: Expression, day: Expression) -> Expression:
    """Tell whether there is such a day."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = ibis.cases(((month == 2) & leap, 29), (month == 2, 28), (month.isin([4, 6, 9, 11]), 30), else_=31)
    return (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last)


def _since_midnight(text: Expression) -> Expression:
    """Return microseconds of the time that stands behind a date, 0 where there is none."""
    minutes = _digits(text, 12) * 60 + _digits(text, 15)
    micros = (_seconds(text, 17) * double(1e6) + double(0.5)).floor().cast("int64")
    return ibis.cases((text.length() > 10, minutes * _MINUTE + micros), else_=_zero())


def _seconds(text: Expression, place: int) -> Expression:
    """Return the seconds that stand behind a colon at a place, to the microsecond; 0 where there is none."""
    digits = text.re_extract(":[0-9]{2}:([0-9]{2}([.][0-9]{1,6})?)", 1).try_cast("float64")
    return ibis.cases((_part(text, place, 1) == ":", digits), else_=double(0))


def _offset(text: Expression) -> Expression:
    """Return the minutes by which a zone is before UTC; 0 without one."""
    tail = _part(text, 17, 100)
    hours, minutes = (tail.re_extract(_OFFSET, place) for place in (1, 2))
    sign = ibis.cases((tail.contains("-"), -1), else_=1)
    whole = (_count(hours) * 60 + _count(minutes)) * sign
    return ibis.cases((tail.re_search(_OFFSET), whole), else_=_zero())


def _count(digits: Expression) -> Expression:
    """Return two digits as a number, 0 where there are none."""
    return ibis.cases((digits.length() == 2, digits.try_cast("int64")), else_=_zero())


def _digits(text: Expression, place: int, size: int = 2) -> Expression:
    """Return the whole number at a place, counted from 1, of text that has digits there."""
    return _part(text, place, size).try_cast("int64")


def _zero() -> Expression:
    return ibis.literal(0, type="int64")


def _part(text: Expression, place: int, size: int) -> Expression:
    """Return a part of a text by the engine's own function: that of Ibis writes a condition around every place."""
    return call("substr", str, text, place, size)
