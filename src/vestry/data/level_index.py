"""The place of a value among declared levels: by keys in SQL, and once for each text of a dictionary.

DuckDB evaluates a function that never fails once for each entry of a column's dictionary. It evaluates CASE, and
arithmetic that may overflow, once for each record: three times as long as the counts themselves.

Text is compared with levels by keys: equal keys, same class of `meaning.level_text`. A key is the class's own text,
except for instants and clock times, whose text would have to be written: theirs is a number of microseconds behind a
blank, and no trimmed text begins with one. Only the classes that are declared are looked for.

An expression over a dictionary of Arrow's takes seven times as long as over one of DuckDB's own. So a column of text
that has a dictionary becomes a column of whole numbers here, by the same relation as in SQL (`vestry.schema.meaning`).
Exact levels are left to SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from vestry.data.calendar import DAY, instant, micros_of, seconds
from vestry.data.source import Expression, call
from vestry.data.text_value import double, level_of, matches
from vestry.schema.domain import DROP, LEVEL, Levels
from vestry.schema.meaning import DATE, instant_of, is_number, level_text, number, time_of


def look_up(value: Any, values: Sequence[Any], missing: int | None) -> Any:
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


_MIDNIGHT = f"^{DATE}[T ]00:00(:00([.]0+)?)?[|]$"
_DATE_LENGTH = 10


def level_keys(domain: Levels) -> tuple[str, ...]:
    """Return the keys of the declared levels, in their order."""
    if domain.exact:
        return domain.texts
    timed = _timed(domain.texts)
    return tuple(_key(text, timed) for text in domain.texts)


def level_key(text: Expression, domain: Levels, engine: str) -> Expression:
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


def instant_key(column: Expression, domain: Levels) -> Expression:
    """Return the keys of a column of DuckDB's timestamps."""
    micros, zoned = micros_of(column), bool(column.type().timezone)
    if _timed(domain.texts):
        return ibis.literal(" @") + micros.cast("string") + ibis.literal("Z" * zoned)
    if zoned:
        return ibis.null("string")
    return ibis.cases((micros % DAY == 0, column.date().cast("string")), else_=ibis.null("string"))


def numbers_of(texts: tuple[str, ...]) -> Iterator[tuple[int, float]]:
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


def missing_place(domain: Levels) -> int | None:
    """Return the place of a missing value, None where the record is dropped."""
    if domain.missing == DROP:
        return None
    return len(domain.values) if domain.missing == LEVEL else domain.values.index(domain.stand_in)


class Places:
    """Turns dictionary arrays of text into places among declared levels; the last dictionary is remembered."""

    def __init__(self, domain: Levels) -> None:
        self._missing = missing_place(domain)
        self._known = {text: place for place, text in enumerate(domain.texts)}
        self._dictionary: Any = None
        self._table = np.zeros(0, dtype=np.int32)

    def of(self, array: Any) -> Any:
        """Return the places of an array of cleaned text, null where the record is dropped."""
        if self._dictionary is None or not array.dictionary.equals(self._dictionary):
            self._dictionary = array.dictionary
            texts = array.dictionary.to_pylist()
            self._table = np.array([self._place(text) for text in (*texts, None)], dtype=np.int32)
        indices = array.indices.fill_null(len(self._table) - 1).to_numpy(zero_copy_only=False)
        places = self._table[indices]
        return pa.array(places, pa.int32(), mask=places < 0 if self._missing is None else None)

    def _place(self, text: str | None) -> int:
        own = None if text is None else level_text(text)
        missing = -1 if self._missing is None else self._missing
        return missing if own is None else self._known.get(own, missing)
