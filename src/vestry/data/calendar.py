"""Days, instants and clock times of text, by arithmetic on digits: no engine's own reading of dates is asked.

Engines differ in which text they read as a date, in the years they hold and in whether a wrong one is an error. Digits
that a pattern has found are whole numbers everywhere, and the calendar is a formula of them.
"""

from __future__ import annotations

import datetime
import re

from vestry.data.text_value import Expression, matches
from vestry.statistics.meaning import DATE, TIME, ZONE

_DATED = f"^{DATE}([T ]{TIME}{ZONE}?)?[|]$"
_CLOCK = f"^{TIME}[|]$"
_ZONED = "[+-]([0-9]{2}):?([0-9]{2})?$"
_DAY = 86_400_000_000
_MINUTE = 60_000_000
_EPOCH = datetime.date(1970, 1, 1)
# The first microsecond of the year 1 and the one after the year 9999.
_FIRST = (datetime.date.min - _EPOCH).days * _DAY
_END = ((datetime.date.max - _EPOCH).days + 1) * _DAY

_YEAR, _OTHER = "([0-9]{4})", "([0-9]{1,2})"
_LIMITS = {"H": 23, "M": 59, "S": 59}


def instant(text: Expression) -> tuple[Expression, Expression]:
    """Return microseconds since 1970 of trimmed ISO text (null for other text), and whether it has a zone."""
    import ibis

    micros = _day_number(text) * _DAY + _since_midnight(text, 11) - _offset(text) * _MINUTE
    held = _dated(text, ibis.cases(((micros >= _FIRST) & (micros < _END), micros), else_=ibis.null("int64")))
    return held, text.substr(10).re_search(f"{ZONE}$")


def clock(text: Expression) -> Expression:
    """Return microseconds since midnight of a trimmed time's text, null for other text."""
    import ibis

    return ibis.cases((matches(text, _CLOCK), _since_midnight(text, 0)), else_=ibis.null("int64"))


def days(text: Expression, format: str | None) -> Expression:
    """Return days since 1970 of trimmed ISO text, or of text in a declared format; null for other text."""
    if format is not None:
        return _formatted(text, format)
    minutes = _digits(text, 11) * 60 + _digits(text, 14) - _offset(text)
    moved = (minutes.cast("float64") / 1440).floor().cast("int64")
    return _dated(text, _day_number(text) + moved)


def _dated(text: Expression, value: Expression) -> Expression:
    """Return the value where the text is a real date; nested, since PostgreSQL may try a value before its condition."""
    import ibis

    year, month, day = _digits(text, 0, 4), _digits(text, 5), _digits(text, 8)
    real = ibis.cases((_real(year, month, day), value), else_=ibis.null("int64"))
    return ibis.cases((matches(text, _DATED), real), else_=ibis.null("int64"))


def _formatted(text: Expression, format: str) -> Expression:
    import ibis

    order = re.findall("%(.)", format)
    pattern = "^" + "".join(_piece(piece) for piece in re.findall("%.|.", format))
    found = {name: text.re_extract(pattern, place + 1).try_cast("int64") for place, name in enumerate(order)}
    year, month, day = found["Y"], found["m"], found["d"]
    fits = _real(year, month, day)
    for name, limit in _LIMITS.items():
        fits = fits & (found[name] <= limit) if name in found else fits
    real = ibis.cases((fits, _civil(year, month, day)), else_=ibis.null("int64"))
    return ibis.cases((matches(text, pattern + "[|]$"), real), else_=ibis.null("int64"))


def _piece(piece: str) -> str:
    """Return the pattern of a field, or of a mark as it stands."""
    if piece[0] != "%":
        return f"[{piece}]"
    return _YEAR if piece == "%Y" else _OTHER


def _day_number(text: Expression) -> Expression:
    return _civil(_digits(text, 0, 4), _digits(text, 5), _digits(text, 8))


def _civil(year: Expression, month: Expression, day: Expression) -> Expression:
    """Return days since 1970-01-01 of the Gregorian calendar, years counted from March so that a leap day is last."""
    import ibis

    early = ibis.cases((month <= 2, 1), else_=0)
    years = (year - early).cast("float64")
    months = (month - 3 + early * 12).cast("float64")
    leaps = (years / 4).floor() - (years / 100).floor() + (years / 400).floor()
    whole = years * 365 + leaps + ((months * 153 + 2) / 5).floor()
    return whole.cast("int64") + day - 719469


def _real(year: Expression, month: Expression, day: Expression) -> Expression:
    """Tell whether there is such a day."""
    import ibis

    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = ibis.cases(((month == 2) & leap, 29), (month == 2, 28), (month.isin([4, 6, 9, 11]), 30), else_=31)
    return (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last)


def _since_midnight(text: Expression, start: int) -> Expression:
    """Return microseconds of a time that begins at a place of the text; 0 where there is none."""
    import ibis

    has_seconds = text.substr(start + 5, 1) == ":"
    seconds = ibis.cases((has_seconds, _digits(text, start + 6)), else_=ibis.literal(0, type="int64"))
    padded = text.re_extract("[.]([0-9]{1,6})", 1).fill_null("") + ibis.literal("000000")
    fraction = _digits(padded, 0, 6)
    return (_digits(text, start) * 3600 + _digits(text, start + 3) * 60 + seconds) * 1_000_000 + fraction


def _offset(text: Expression) -> Expression:
    """Return the minutes by which a zone is before UTC; 0 without one."""
    import ibis

    tail = text.substr(10)
    hours, minutes = (_digits(tail.re_extract(_ZONED, place).fill_null(""), 0) for place in (1, 2))
    sign = ibis.cases((tail.contains("-"), -1), else_=1)
    return (hours * 60 + minutes) * sign


def _digits(text: Expression, start: int, size: int = 2) -> Expression:
    """Return the whole number that stands at a place of the text; 0 where there is none."""
    import ibis

    found = text.substr(start, size)
    whole = found.concat("|").re_search(f"^[0-9]{{{size}}}[|]$")
    return ibis.cases((whole, found.try_cast("int64")), else_=ibis.literal(0, type="int64"))
