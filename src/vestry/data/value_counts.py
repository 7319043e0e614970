"""Which values of a column occur, and how many hold each: one query for every engine.

A value is what it would be as a level (`vestry.schema.meaning`): white space is taken off, 1.50 is 1.5 and TRUE is 1, a
date is a date however it is written. What cannot be declared as a level is missing: nothing, text of more than 100
characters, control characters, numbers beyond 2^53 as doubles. The engine groups by the key of a value's class, so two
spellings of one value are one; a key that is not that of the text which it stands for is omitted, so that no two keys
become one value afterwards. Keys are told apart by their md5 as well, since an engine may hold a and A for equal and
show whichever it met first.

Of a person at most so many different values count, chosen by a rule that looks at that person's rows alone: each value
once, in the order of md5(key | person | md5 of the value). So one person moves the count of each of so many values by
1, whatever the rows are.

What leaves the engine is one row for each value that as many hold as are looked at. How many these are, and how long it
takes, is private and is not told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ibis

from vestry.data.contribution_bounding import choose_records, person_name
from vestry.data.encoding import lacks_value, person, plain
from vestry.data.source import Expression, Source, call, check_column, usable
from vestry.data.text_value import double
from vestry.errors import InvalidParameter
from vestry.privacy.neighbours import Unit
from vestry.schema.domain import Levels
from vestry.schema.meaning import EXACT, instant_text, level_text

# Levels of every class that text is read as: a whole number that doubles cannot tell, a time and an instant.
_EVERY_CLASS = Levels("9007199254740993", "00:00:01", "1970-01-01T00:00:01")
# What `meaning.carrier_text` writes for a number that is not a level.
_CARRIED = re.compile("-?[0-9]+[.]e-?[0-9]+|[+-]iNf")
# Between these every engine writes a double that is not whole alike.
_SMALLEST, _GREATEST = 1e-3, 1e7


@dataclass(frozen=True)
class ValueQuery:
    """How the values of a column are asked for.

    Attributes
    ----------
    column
        A column of the table, declared or not.
    unit
        Whose records are bounded.
    least
        Values that fewer hold stay in the engine.
    most
        How many different values of a person count.
    """

    column: str
    unit: Unit
    least: int
    most: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, as text."""
        return (self.column, *filter(None, (self.unit.person,)))

    def check_schema(self, source: Source) -> None:
        """Refuse columns that no part of the table has as single values."""
        for column in self.columns:
            check_column(source.schema, column)

    def expression(self, source: Source, *, row_key: str) -> Expression:
        """Return the keys of the values that enough hold, and how many do."""
        parts = [self._keys(part, source) for part in source.parts]
        records = ibis.union(*parts, distinct=False) if len(parts) > 1 else parts[0]
        records = records.filter([records[name].notnull() for name in records.columns])
        if self.unit.person is None:
            counted = records.aggregate(by=["value", "token"], n=records["n"].sum().cast("int64"))
        else:
            records = choose_records(records.distinct(), "person", ("token",), self.most, row_key)
            counted = records.aggregate(by=["value", "token"], n=records.count().cast("int64"))
        return counted.filter(counted["n"] >= self.least) if self.least > 1 else counted

    def _keys(self, table: Expression, source: Source) -> Expression:
        """Return the keys of a part's values: with how many records hold each, or with each person who does.

        What is alike as the table has it is joined first, since the key of a class takes long to find.
        """
        engine, who, clean = source.backend.name, self.unit.person, source.clean
        present = {name for name, dtype in table.schema().items() if usable(dtype)}
        held = {column: table[column] if column in present else ibis.null("string") for column in self.columns}
        value = held[self.column]
        token = {"token": _token(value.cast("string"))} if _has_collation(value.type()) else {}
        if who is None:
            raw = table.select(value=value, **token)
            raw = raw.aggregate(by=["value", *token], n=raw.count())
            records = raw.select(value=_key(raw["value"], engine, clean=clean), n=raw["n"])
            return records.select("value", "n", token=_token(records["value"]))
        raw = table.select(value=value, person=held[who], **token).distinct()
        text, number = person(raw["person"], engine, clean=clean)
        records = raw.select(value=_key(raw["value"], engine, clean=clean), person=text, number=number)
        named = person_name(records["person"], records["number"])
        return records.select(value=records["value"], token=_token(records["value"]), person=named)

    def read(self, batches: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
        """Yield the values as text, and how many hold each."""
        for batch in batches:
            for key, count in zip(batch["value"].tolist(), batch["n"].tolist(), strict=True):
                text = value_of(key)
                if text is not None:
                    yield text, int(count)


def _token(text: Expression) -> Expression:
    """Return what tells texts apart byte by byte: under a collation of its own an engine may take several for equal."""
    return call("md5", str, text)


def _has_collation(dtype: Any) -> bool:
    return bool(dtype.is_string() or dtype.is_unknown())


def _key(column: Expression, engine: str, *, clean: bool) -> Expression:
    """Return the key of a value's class as text; null where it is missing."""
    key = plain(column, _EVERY_CLASS, engine, clean=clean)
    if key.type().is_floating():
        key = _written(key)
    return ibis.cases((lacks_value(column, engine, clean=clean), ibis.null("string")), else_=key.cast("string"))


def _written(number: Expression) -> Expression:
    """Return a double as text that every engine writes alike; null where it is not a level, or they differ."""
    small = number.notnull() & (number.abs() < double(EXACT))  # NaN is above every number, on every engine
    exact = ibis.cases((small, number), else_=ibis.null("float64"))
    whole = exact.floor().cast("int64")
    plain = (exact.abs() >= double(_SMALLEST)) & (exact.abs() <= double(_GREATEST))
    cases = (whole.cast("float64") == exact, whole.cast("string")), (plain, exact.cast("string"))
    return ibis.cases(*cases, else_=ibis.null("string"))


def value_of(key: str) -> str | None:
    """Return the value that a key stands for, as text; None if no level can be declared as it."""
    text = _decoded(key)
    if text is None or level_text(text) != text or _CARRIED.fullmatch(text):
        return None
    return text if may_be_declared(text) else None


def may_be_declared(text: str) -> bool:
    """Tell whether a text can be a level."""
    try:
        Levels(text, _OTHER if text != _OTHER else "1")
    except InvalidParameter:
        return False
    return True


_OTHER = "0"


def _decoded(key: str) -> str | None:
    """Return the text of a key: of an instant or a clock time it is a number of microseconds behind a blank."""
    if not key.startswith(" "):
        return key
    digits = key[1:].removeprefix("@").removesuffix("Z")
    try:
        micros = int(digits)
        if key.startswith(" @"):
            return instant_text(micros, key.endswith("Z"))
    except (ValueError, OverflowError):
        return None
    seconds, fraction = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return clock + (f".{fraction:06}".rstrip("0") if fraction else "")
