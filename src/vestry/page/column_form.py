"""The form of one column: from a declaration to fields, and from fields to a declaration."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from vestry.errors import InvalidParameter
from vestry.schema.domain import domain_from

# What a column may be: the word of the form, what it is called, and when to take it.
KINDS = {
    "levels": ("One of a few values", "ward A, B or C; yes or no; a diagnosis. Every value that counts is listed."),
    "number": ("A number", "a length of stay. Values outside the two ends are moved to the nearer end."),
    "count": ("A count", "visits, siblings: whole numbers from 0. What is larger counts as the largest."),
    "date": ("A date", "a day of admission. Days outside the two ends are moved to the nearer end."),
}  # fmt: skip
# What is done with missing values: what it is called, and what it means.
MISSING = {
    "never": ("There are none", "A promise. One that is there all the same counts as the first level, or the low end."),
    "drop": ("Leave the record out", "How many records remain is then private."),
    "level": ("A level of its own, called missing", "Where it tells something that a value is missing."),
    "value": ("It counts as another value", ""),
}
# What a value is not, if it counts as missing.
LACKS = {"levels": "one of the levels", "number": "a number", "count": "a number", "date": "a date"}
LEVEL_TYPES = {"text": "text", "whole": "whole numbers", "truth": "true and false"}


def kind_of_type(dtype: Any) -> str:
    """Return the kind that a type suggests; levels where it says nothing."""
    if dtype is None or dtype.is_boolean():
        return "levels"
    if dtype.is_numeric():
        return "number"
    return "date" if dtype.is_date() or dtype.is_timestamp() else "levels"


def kind_of(record: Mapping[str, Any]) -> str:
    """Return the kind that is declared; nothing if it is none."""
    if "levels" in record:
        return "levels"
    if "count" in record:
        return "count"
    ends = record.get("interval")
    if not isinstance(ends, list) or not ends:
        return ""
    return "number" if isinstance(ends[0], int | float) else "date"


def fields_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what a declaration says as the fields of the form."""
    missing = record.get("missing", "never")
    own = isinstance(missing, Mapping)
    levels = record.get("levels")
    levels = levels if isinstance(levels, list) else []
    ends = record.get("interval")
    low, high = ends if isinstance(ends, list) and len(ends) == 2 else ("", record.get("count", ""))
    bins = record.get("bins")
    return {
        "levels": "\n".join(map(_text, levels)),
        "level_type": _level_type(levels),
        "exact": "yes" if record.get("exact") is True else "",
        "low": _text(low),
        "high": _text(high),
        "bins": ", ".join(map(_text, bins)) if isinstance(bins, list) else "",
        "format": _text(record.get("format", "")),
        "missing": "value" if own else _text(missing),
        "missing_value": _text(missing.get("value", "")) if own else "",
        "from": _text(record.get("from", "")),
    }


def declaration(kind: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return what the fields declare, or refuse it as a study file would be refused."""
    given = {name: value.strip() for name, value in fields.items()}
    record: dict[str, Any] = {}
    read = {"levels": _levels, "number": _number_ends, "count": _most, "date": _date_ends}
    if kind not in read:
        raise InvalidParameter("a kind", kind, "one of " + ", ".join(KINDS), "levels")
    record.update(read[kind](given))
    if kind != "levels" and given.get("bins"):
        one = _day if kind == "date" else _number
        record["bins"] = [one("each edge of bins", part.strip()) for part in given["bins"].split(",")]
    record.update(_missing(kind, given))
    if given.get("from"):
        record["from"] = given["from"]
    domain_from(record)
    return record


def _levels(given: Mapping[str, str]) -> dict[str, Any]:
    lines = [line.strip() for line in given.get("levels", "").splitlines() if line.strip()]
    levels = [_level(given.get("level_type", "text"), line) for line in lines]
    exact = given.get("exact") == "yes"
    if not levels and given.get("from"):  # a condition is true or false
        return {}
    if len(levels) < 2:
        said = ", ".join(lines) or "nothing"
        raise InvalidParameter("levels", said, "two or more, each on a line of its own", "no, and below it yes")
    return {"levels": levels, **({"exact": True} if exact else {})}


def _level(kind: str, text: str) -> str | int | bool:
    if kind == "whole":
        try:
            return int(text)
        except ValueError:
            raise InvalidParameter("a level", text, "a whole number", "3, or say that levels are text") from None
    if kind == "truth":
        if text.lower() not in ("true", "false"):
            raise InvalidParameter("a level", text, "true or false", "true, or say that levels are text")
        return text.lower() == "true"
    return text


def _number_ends(given: Mapping[str, str]) -> dict[str, Any]:
    ends = [_number("the low end", given.get("low", "")), _number("the high end", given.get("high", ""))]
    if ends[0] >= ends[1]:
        raise InvalidParameter("the low end", ends[0], f"below the high end, {ends[1]}", "a smaller one")
    return {"interval": ends}


def _date_ends(given: Mapping[str, str]) -> dict[str, Any]:
    ends = [_day("the first day", given.get("low", "")), _day("the last day", given.get("high", ""))]
    if ends[0] >= ends[1]:
        raise InvalidParameter("the first day", str(ends[0]), f"before the last day, {ends[1]}", "an earlier one")
    return {"interval": ends, **({"format": given["format"]} if given.get("format") else {})}


def _most(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return {"count": int(given.get("high", ""))}
    except ValueError:
        raise InvalidParameter("the largest count", given.get("high", ""), "a whole number", "20") from None


def _missing(kind: str, given: Mapping[str, str]) -> dict[str, Any]:
    how = given.get("missing", "never")
    if how == "value":
        text = given.get("missing_value", "")
        if kind == "levels":
            value: Any = _level(given.get("level_type", "text"), text)
        else:
            value = _day("missing", text) if kind == "date" else _number("missing", text)
        return {"missing": {"value": value}}
    return {} if how == "never" else {"missing": how}


def _number(name: str, text: str) -> int | float:
    try:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError
        return int(text) if text.lstrip("+-").isdigit() else value
    except ValueError:
        raise InvalidParameter(name, text, "a number, with a point for decimals", "for example 0 or 59.5") from None


def _day(name: str, text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InvalidParameter(name, text, "a day", "for example 2024-01-31") from None


def _level_type(levels: list[Any]) -> str:
    if levels and all(isinstance(each, bool) for each in levels):
        return "truth"
    return "whole" if levels and all(type(each) is int for each in levels) else "text"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
