"""What a value means, in plain Python: as a level, as a number, as a day and as a person's id.

It is written from the table of meanings alone and shares no code with Vestry. A value is a Python object, and its type
says what carried it: str, bytes, bool, int, float, Decimal, date, datetime (naive or zoned), time, timedelta, UUID or
None. Whatever else there is means nothing, and is missing.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

BLANK = " \t\n\r\v\f"
LONGEST = 100
EXACT = 2**53
TRUTH = {"true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0"}
INFINITE = {"inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf}
INFINITE |= {"-inf": -math.inf, "-infinity": -math.inf}

DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)[.][0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?")
WHOLE = re.compile(r"([+-]?)([0-9]+)([.]0*)?")
DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]+))?)?")
ZONE = re.compile(r"Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?")
HEX = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def text_of(value: str | bytes) -> str | None:
    """Return the text between white space, None if it is empty or too long."""
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    text = raw.decode("utf-8", "replace").strip(BLANK)
    return text if 0 < len(text) <= LONGEST else None


def level(value: object) -> str | None:
    """Return the text of the class that a value belongs to; None if it is missing."""
    if isinstance(value, (str, bytes)):
        text = text_of(value)
        return None if text is None else _level_of_text(text)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return _level_of_double(value)
    if isinstance(value, (int, Decimal)):
        return _digits(value)
    if isinstance(value, timedelta):
        return _level_of_double(value.total_seconds())
    if isinstance(value, UUID):
        return str(value)
    return _instant(value)


def number(value: object) -> float | None:
    """Return the double that a value reads as, infinities too; None if it is missing."""
    if isinstance(value, (str, bytes)):
        text = text_of(value)
        return None if text is None else _number_of_text(text)
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, (bool, int, Decimal)):
        digits = _digits(value)
        return None if digits is None else float(digits)
    if isinstance(value, time):
        return _seconds(value)
    return value.total_seconds() if isinstance(value, timedelta) else None


def day(value: object, low: date, high: date, form: str | None = None) -> float | None:
    """Return the whole days after the low end, clipped; None if the value is no day."""
    if isinstance(value, (str, bytes)):
        text = text_of(value)
        found = None if text is None else _date_of_text(text, form)
    else:
        found = _date(value)
    return None if found is None else float((min(max(found, low), high) - low).days)


def person(value: object) -> str | None:
    """Return the person's name; None if there is none, and then the record is left out."""
    if isinstance(value, datetime):
        return _moment_name(value)
    if not isinstance(value, (str, bytes)):
        return level(value)
    text = text_of(value)
    if text is None:
        return None
    if text in TRUTH:
        return TRUTH[text]
    if match := WHOLE.fullmatch(text):
        digits = match[2].lstrip("0") or "0"
        return "-" + digits if match[1] == "-" and digits != "0" else digits
    if NUMBER.fullmatch(text) and abs(float(text)) < EXACT:
        return _level_of_double(float(text))
    if HEX.fullmatch(text):
        return text.lower()
    moment = _moment(text) if len(text) > 10 else None
    return text if moment is None else _moment_name(moment)


def _moment_name(value: datetime) -> str:
    """Return the day of a moment; all moments with a zone are one."""
    return "@" if value.tzinfo is not None else value.date().isoformat()


def _level_of_text(text: str) -> str:
    if text in TRUTH:
        return TRUTH[text]
    if DECIMAL.fullmatch(text) or text == "-0":
        return _stripped(text)
    moment = _moment(text) or _clock(text)
    return text if moment is None else _instant(moment) or text


def _stripped(digits: str) -> str:
    short = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if short == "-0" else short


def _digits(value: int | Decimal) -> str | None:
    """Return a number's digits without an exponent, None if there are too many."""
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    tiny = isinstance(value, Decimal) and value.as_tuple().exponent < -2 * LONGEST
    if tiny or abs(value) >= Decimal(10) ** LONGEST:
        return None
    digits = _stripped(f"{Decimal(value):f}")
    return digits if len(digits) <= LONGEST else None


def _level_of_double(value: float) -> str | None:
    if not math.isfinite(value):
        return None
    if value.is_integer():
        return str(int(value)) if abs(value) < EXACT else None
    digits = f"{Decimal(repr(value)):f}"
    return digits if len(digits) <= LONGEST else None


def _instant(value: object) -> str | None:
    """Write a date, a timestamp or a time as its class."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            moment = _utc(value)
            return None if moment is None else _moment_text(moment) + "Z"
        return value.date().isoformat() if value.time() == time() else _moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    return _clock_text(value) if isinstance(value, time) else None


def _utc(value: datetime) -> datetime | None:
    """Return a zoned moment as UTC has it, None outside of the calendar."""
    try:
        return value.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        return None


def _moment_text(value: datetime) -> str:
    return f"{value.date().isoformat()}T{_clock_text(value.time())}"


def _clock_text(value: time) -> str:
    whole = f"{value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    return whole + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")


def _clock(text: str) -> time | None:
    match = CLOCK.fullmatch(text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3] or 0) > 59:
        return None
    return time(int(match[1]), int(match[2]), int(match[3] or 0), int(((match[4] or "") + "000000")[:6]))


def _day(text: str) -> date | None:
    match = DAY.fullmatch(text)
    try:
        return None if match is None else date(*map(int, match.groups()))
    except ValueError:
        return None


def _moment(text: str) -> datetime | date | None:
    """Read an ISO day, or a timestamp with or without a zone."""
    if len(text) <= 10 or text[10] not in "T ":
        return _day(text)
    rest, zone = text[11:], None
    if marks := [place for place, letter in enumerate(rest) if letter in "Z+-"]:
        rest, zone = rest[: marks[0]], ZONE.fullmatch(rest[marks[0] :])
        if zone is None:
            return None
    on, at = _day(text[:10]), _clock(rest)
    if on is None or at is None:
        return None
    return datetime.combine(on, at, None if zone is None else _zone(zone))


def _zone(match: re.Match[str]) -> timezone:
    minutes = int(match[2] or 0) * 60 + int(match[3] or 0)
    return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))


def _number_of_text(text: str) -> float | None:
    if text in TRUTH:
        return float(TRUTH[text])
    if NUMBER.fullmatch(text):
        return float(text)
    if text.lower() in INFINITE and text.isascii():
        return INFINITE[text.lower()]
    clock = _clock(text)
    return None if clock is None else _seconds(clock)


def _seconds(value: time) -> float:
    return (value.hour * 3600 + value.minute * 60 + value.second) + value.microsecond / 1_000_000


def _date(value: object) -> date | None:
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else _utc(value)
        return None if moment is None else moment.date()
    return value if isinstance(value, date) else None


def _date_of_text(text: str, form: str | None) -> date | None:
    return _date(_moment(text)) if form is None else _formatted(text, form)


FIELDS = {"%Y": "(?P<Y>[0-9]{4})", "%m": "(?P<m>[0-9]{1,2})", "%d": "(?P<d>[0-9]{1,2})"}
FIELDS |= {"%H": "(?P<H>[0-9]{1,2})", "%M": "(?P<M>[0-9]{1,2})", "%S": "(?P<S>[0-9]{1,2})"}


def _formatted(text: str, form: str) -> date | None:
    pattern = "".join(FIELDS.get(part, re.escape(part)) for part in re.findall("%.|[^%]", form))
    match = re.fullmatch(pattern, text)
    if match is None:
        return None
    found = {name: int(digits) for name, digits in match.groupdict().items()}
    try:
        return datetime(
            found["Y"], found["m"], found["d"], found.get("H", 0), found.get("M", 0), found.get("S", 0)
        ).date()
    except ValueError:
        return None
