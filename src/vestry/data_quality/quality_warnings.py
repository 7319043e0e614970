"""What is wrong with a declaration, in words. Only declared values are named, never one of the data.

A share is large if it is above 5 % with a probability of at least 99 %, so that columns that fit are seldom warned of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vestry.posterior.mixture import Marginal
from vestry.schema.statistics import ABSENT, CLIPPED

LARGE, SURE = 0.05, 0.99


@dataclass(frozen=True)
class Finding:
    """One column whose values do not fit what is declared.

    Attributes
    ----------
    column, condition
        Which values.
    share, low, high
        The mean of their share, and its 90 % credible interval.
    domain
        What was declared of the column when it was looked at.
    sentence
        All of it in words, and what to look at.
    """

    column: str
    condition: str
    share: float
    low: float
    high: float
    domain: Mapping[str, Any]
    sentence: str


def finding(column: str, domain: Mapping[str, Any], condition: str, share: Marginal) -> Finding | None:
    """Return what is to be said of a share; None if it may be small."""
    if float(share.cdf(LARGE)) > 1 - SURE:
        return None
    low, high = share.interval(0.9)
    about = f"About {_hundredths(share.mean())} of 100 values of {column}"
    extent = f"(90 % credible interval {_hundredths(low)} to {_hundredths(high)})"
    what, question = _words(domain, condition)
    return Finding(column, condition, share.mean(), low, high, domain, f"{about} {what} {extent}: {question}")


def _hundredths(share: float) -> str:
    return f"{100 * share:.0f}"


def _words(domain: Mapping[str, Any], condition: str) -> tuple[str, str]:
    """Return what is so, and what may be the cause or what to write."""
    become = _become(domain)
    if condition == ABSENT:
        return f"are missing, and {become}", 'write how missing values count, for example missing = "drop".'
    if condition == CLIPPED:
        low, high = domain["interval"]
        return f"lie outside {low} to {high} and are clipped", _UNITS
    if "levels" in domain:
        return f"match no declared level, and {become}", _level_question(domain["levels"])
    if isinstance(domain["interval"][0], str):
        return f"are not dates as declared, and {become}", _DATES
    return f"are not numbers, and {become}", _NUMBERS


_UNITS = "is the column in another unit, or the interval too narrow?"
_NUMBERS = 'are decimals written with a comma (csv = { decimal = "," }), or numbers with a unit or another sign?'
_DATES = 'are they written otherwise than 2024-01-31 (format = "%d.%m.%Y"), or not as full dates?'


def _become(domain: Mapping[str, Any]) -> str:
    missing = domain.get("missing", "never")
    if missing == "drop":
        return "their records are dropped"
    if missing == "level":
        return "count as missing"
    first = domain["levels"][0] if "levels" in domain else domain["interval"][0]
    return f"count as {_written(missing.get('value') if isinstance(missing, Mapping) else first)}"


def _level_question(levels: list[Any]) -> str:
    texts = [level for level in levels if isinstance(level, str)]
    if texts and all(re.fullmatch("[0-9]{4}(-[0-9]{2})?", text) for text in texts):
        return f"are they full dates, such as {texts[0][:4]}-01-31, where {_written(texts[0])} is declared?"
    if texts and all(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) for text in texts):
        return f"are the dates written otherwise than {texts[0]}, or with a time of day?"
    causes = [_case_question(text) for text in texts if text.lower() != text.upper()][:1]
    if any(not text.isascii() for text in texts):
        causes.append("is the file in Latin-1 and not in UTF-8")
    if not causes:
        causes.append(f"is {_written(levels[0])} written another way, for example with a zero before it")
    return " or ".join(causes) + "?"


def _case_question(level: str) -> str:
    other = level.lower() if level != level.lower() else level[:1].upper() + level[1:]
    return f"is {_written(level)} written {_written(other)}"


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
