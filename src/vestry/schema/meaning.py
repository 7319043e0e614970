"""One meaning of a value, whatever carries it: as text, truth value, number, date or time.

`level_text` maps a value to the text of its class, so that two values are the same level if and only if their texts are
equal. `carrier_text` writes a Python object as text that has the object's meaning wherever it is read: as a level, a
number, a day or a person. `docs/values.md` has the table. No value is an error: what has no meaning is None.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
import re
import uuid
from collections.abc import Callable
from typing import Any

Writer = Callable[[Any], str | None]

# Text longer than this, white space at its ends taken off, is missing.
LONGEST = 100
WHITE = " \t\n\r\v\f"
TRUE = ("true", "True", "TRUE")
FALSE = ("false", "False", "FALSE")
# From here on doubles skip whole numbers, so that one of them no longer names a level or a person.
EXACT = 2**53

# Parts of patterns that every engine reads alike; no backslash, since Spark unescapes it.
DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
ZONE = "(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
DECIMAL = "-?(0|[1-9][0-9]*)[.][0-9]+"

_DECIMAL = re.compile(DECIMAL, re.ASCII)
_WHOLE = re.compile("-?(0|[1-9][0-9]*)", re.ASCII)
_TIME = re.compile(TIME, re.ASCII)
_ISO = re.compile(f"({DATE})([T ]({TIME})({ZONE})?)?", re.ASCII)
_EPOCH = datetime.date(1970, 1, 1)


def level_text(value: Any) -> str | None:
    """Return the text of a value's class as a level; None where it is missing."""
    text = carrier_text(value)
    if text is None or not isinstance(value, (str, bytes)):
        return None if text is None or _beyond(text) else _canonical(text)
    return _canonical(text)


def carrier_text(value: Any) -> str | None:
    """Write a Python object as text that is read with the object's meaning; None where it is missing.

    Numbers that are not levels (infinities, and doubles from 2^53 on) are written in a way that no level has: `1.e16`.
    """
    return _WRITERS.get(type(value), _write_other)(value)


def number(value: Any) -> float:
    """Return a Python object as a number, NaN where it is none: the reading of an interval."""
    if type(value) is float:
        return value
    text = carrier_text(value)
    if text is None:
        return math.nan
    if text in TRUE + FALSE:
        return float(text in TRUE)
    if _TIME.fullmatch(text):
        return _seconds(text)
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def is_number(text: str) -> bool:
    """Tell whether the text of a class is a number's."""
    return bool(_WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text))


def time_of(text: str) -> str | None:
    """Return a time's canonical text, None if the text is none."""
    return _clock(text) if _TIME.fullmatch(text) else None


def instant_of(text: str) -> tuple[int, bool] | None:
    """Return microseconds since 1970 of a date or time of a date, and whether it has a zone; None for other text."""
    match = _ISO.fullmatch(text)
    if not match:
        return None
    try:
        day = datetime.date.fromisoformat(match[1])
    except ValueError:
        return None
    clock, zone = match[5], match[9]
    micros = (day - _EPOCH).days * 86_400_000_000
    if clock:
        micros += _micros(clock)
    if zone:
        micros -= _offset(zone) * 60_000_000
    return micros, bool(zone)


def instant_text(micros: int, zoned: bool) -> str:
    """Return an instant's canonical text: a date if it is a naive midnight."""
    days, rest = divmod(micros, 86_400_000_000)
    day = (_EPOCH + datetime.timedelta(days=days)).isoformat()
    if not (zoned or rest):
        return day
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    part = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{day}T{clock}{part}{'Z' * zoned}"


def _canonical(text: str) -> str:
    if text in TRUE + FALSE:
        return "1" if text in TRUE else "0"
    if _DECIMAL.fullmatch(text):
        text = text.rstrip("0").rstrip(".")
    if text == "-0":
        return "0"
    if (instant := instant_of(text)) is not None and _representable(instant[0]):
        return instant_text(*instant)
    return time_of(text) or text


def _representable(micros: int) -> bool:
    """Tell whether an instant lies in the years 1 to 9999 (a zone may move it out)."""
    try:
        _EPOCH + datetime.timedelta(days=micros // 86_400_000_000)
    except OverflowError:
        return False
    return True


_NUMBER = re.compile(
    "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE
)


def _beyond(text: str) -> bool:
    """Tell whether a carried number is not a level: it has an exponent, or is infinite."""
    return ".e" in text or text.endswith("iNf")


def _of_text(value: str) -> str | None:
    text = str.__str__(value)
    if not text.isascii():
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    text = text.strip(WHITE)
    return text if 0 < len(text) <= LONGEST else None


def _of_float(value: float) -> str | None:
    if value != value:
        return None
    if math.isinf(value):
        return "+iNf" if value > 0 else "-iNf"
    if value == int(value):
        return str(int(value)) if abs(value) < EXACT else _exponent(value)
    text = format(decimal.Decimal(repr(value)), "f")
    return text if len(text) <= LONGEST else _exponent(value)


def _exponent(value: float) -> str:
    """Write a double as `1.e16` or `1.5.e16` would be: digits, a point, and an exponent."""
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    return f"{'-' * sign}{''.join(map(str, digits))}.e{exponent}"


def _of_int(value: int) -> str | None:
    return str(value) if abs(value) < 10 ** (LONGEST - 1) else None


def _of_decimal(value: decimal.Decimal) -> str | None:
    if value.is_nan():
        return None
    if value.is_infinite():
        return "+iNf" if value > 0 else "-iNf"
    if abs(value.adjusted()) > LONGEST:
        return _of_float(float(value)) if value.adjusted() < 0 else None
    text = format(value, "f")
    return text if len(text) <= LONGEST else None


def _of_datetime(value: datetime.datetime) -> str | None:
    if value != value:  # pandas' own sign of a missing time
        return None
    zoned = value.tzinfo is not None and value.utcoffset() is not None
    plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if zoned else value.replace(tzinfo=None)
    day, clock = plain.date(), plain.time()
    micros = (day - _EPOCH).days * 86_400_000_000 + _micros(clock.isoformat())
    return instant_text(micros, zoned)


def _of_time(value: datetime.time) -> str | None:
    return _clock(value.isoformat()) if value.tzinfo is None else None


def _write_other(value: Any) -> str | None:
    """Write an object of another type, or of a subclass; None if a column cannot contain it."""
    try:
        for kinds, write in _KINDS:
            if isinstance(value, kinds):
                return write(value)
        return carrier_text(value.item()) if type(value).__module__ == "numpy" else None
    except Exception:  # an object may do anything, and no value is an error
        return None


def _clock(text: str) -> str:
    whole, _, fraction = text.partition(".")
    whole = whole if len(whole) > 5 else whole + ":00"
    fraction = fraction[:6].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _micros(clock: str) -> int:
    whole, _, fraction = _clock(clock).partition(".")
    hours, minutes, seconds = map(int, whole.split(":"))
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + int(fraction.ljust(6, "0"))


def _seconds(clock: str) -> float:
    return _micros(clock) / 1e6


def _offset(zone: str) -> int:
    """Return a zone's minutes before UTC's clock."""
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if zone[0] == "-" else 1)


_KINDS: tuple[tuple[Any, Writer], ...] = (
    (str, _of_text),
    ((bytes, bytearray), lambda value: _of_text(bytes(value).decode("utf-8", "replace"))),
    (bool, lambda value: "true" if value else "false"),
    (numbers.Integral, lambda value: _of_int(int(value))),
    (numbers.Real, lambda value: _of_float(float(value))),
    (decimal.Decimal, _of_decimal),
    (datetime.datetime, _of_datetime),
    (datetime.date, lambda value: value.isoformat()),
    (datetime.time, _of_time),
    (datetime.timedelta, lambda value: _of_float(value.total_seconds())),
    (uuid.UUID, str),
)
_WRITERS: dict[type, Writer] = {
    str: _of_text,
    bool: lambda value: "true" if value else "false",
    int: _of_int,
    float: _of_float,
    type(None): lambda value: None,
}
