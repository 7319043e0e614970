"""Columns of every kind with what is declared of them, and the values that one record may be changed to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from data import oracle_meaning as oracle

from vestry.schema.domain import Interval, Levels
from vestry.schema.statistics import Count, Indicator, Sum, SumQuery

FINE = 2**40
NEGLIGIBLE = 1e-100


@dataclass(frozen=True)
class Declared:
    """A domain as its holder writes it; `code` is what the oracle makes of a value under it."""

    reading: str
    given: tuple
    missing: Any = None
    format: str | None = None

    @property
    def domain(self) -> Levels | Interval:
        if self.reading == "levels":
            return Levels(*self.given, missing=self.missing or "level")
        more = {} if self.format is None else {"format": self.format}
        if self.reading == "bins":
            ends = self.given[0], self.given[-1]
            own = None if self.missing else "level"
            return Interval(*ends, missing=self.missing or "never", **more).bins(*self.given, missing=own)
        return Interval(*self.given, missing=self.missing or "never", **more)

    @property
    def width(self) -> float:
        low, high = self.given
        return float((high - low).days) if self.reading == "day" else high - low

    @property
    def low(self) -> float:
        return 0.0 if self.reading == "day" else float(self.given[0])

    def code(self, value: object) -> float | None:
        """Return the place of the level (the last for missing), or the clipped number (the low end for missing)."""
        if self.reading == "levels":
            known = [oracle.level(each) for each in self.given]
            found = oracle.level(value)
            missing = None if self.missing == "drop" else len(known)
            return known.index(found) if found in known else missing
        if self.reading == "bins":
            return self._bin(value)
        found = oracle.day(value, *self.given, self.format) if self.reading == "day" else oracle.number(value)
        if found is None:
            return None if self.missing == "drop" else self.low
        clipped = min(max(found, self.low), self.low + self.width if self.reading == "day" else self.given[1])
        return 0.0 if abs(clipped) < NEGLIGIBLE else clipped

    def _bin(self, value: object) -> int | None:
        """Return the place of the half-open bin, the last one closed; the last place for missing."""
        edges = self.given
        if isinstance(edges[0], date):
            found = oracle.day(value, edges[0], edges[-1], self.format)
            edges = [(each - edges[0]).days for each in edges]
        else:
            found = oracle.number(value)
        if found is None:
            return None if self.missing == "drop" else len(edges) - 1
        found = 0.0 if abs(found) < NEGLIGIBLE else min(max(found, edges[0]), edges[-1])
        return max(place for place in range(len(edges) - 1) if edges[place] <= found)

    def terms(self, name: str) -> list[Indicator | Sum]:
        """Return terms that tell every code from every other: the binary digits of a place, or a fine grid."""
        if self.reading not in ("levels", "bins"):
            return [Sum(name, self.low, self.width / FINE)]
        names = self.domain.names
        digits = range(max(1, (len(names) - 1).bit_length()))
        return [Indicator(name, tuple(each for at, each in enumerate(names) if at >> digit & 1)) for digit in digits]

    def added(self, value: object) -> tuple[int, ...] | None:
        """Return what the record adds to these terms by the oracle; None if it is dropped."""
        code = self.code(value)
        if code is None:
            return None
        if self.reading not in ("levels", "bins"):
            return (math.floor((code - self.low) / (self.width / FINE) + 0.5),)
        count = len(self.given) + (self.missing != "drop") - (self.reading == "bins")
        return tuple(int(code) >> digit & 1 for digit in range(max(1, (count - 1).bit_length())))


def levels(*given: object) -> Declared:
    return Declared("levels", given)


def numbers(low: float, high: float) -> Declared:
    return Declared("number", (low, high))


def days(low: date, high: date) -> Declared:
    return Declared("day", (low, high))


def bins(*edges: object) -> Declared:
    return Declared("bins", edges)


BERLIN = timezone(timedelta(hours=2))
SOME_UUIDS = [UUID(int=7), UUID("3f2504e0-4f89-11d3-9a0c-0305e82c3301")]
DAYS = days(date(2020, 1, 1), date(2024, 12, 31))
YEARS = bins(date(2020, 1, 1), date(2020, 2, 29), date(2024, 1, 31), date(2024, 12, 31))

# For each kind: the values of most records, and what may be declared.
KINDS: dict[str, tuple[list, list[Declared]]] = {
    "truth": (
        [True, False],
        [levels(False, True), levels("0", "1"), levels("false", "true"), levels(1, 0), numbers(0, 1)],
    ),
    "whole": (
        [0, 1, 2, 3, -1, 7],
        [levels(0, 1, 2), levels("2", "0", "7"), numbers(0, 3), numbers(-1, 2), bins(-1, 0, 2, 7)],
    ),
    "big": (
        [2**53 + 1, 10**17, 5, 2**62 + 1],
        [levels("9007199254740993", "5", "100000000000000000"), numbers(0, 1e18)],
    ),
    "real": (
        [0.5, 1.5, 1.0, 2.25, -0.0, 0.1, 3.0, 0.30000000000000004],
        [levels("0.5", "1", "1.5", "0.1"), levels(0, 1, 3), numbers(0, 3), numbers(-1, 0.4), bins(-1, 0, 0.1, 0.3, 3)],
    ),
    "decimal": (
        [Decimal("1.50"), Decimal("1.00"), Decimal("0.25"), Decimal("-3.10"), Decimal("0.00")],
        [levels("1.5", "1", "0.25", "-3.1"), levels(1, 0), numbers(-4, 1.25), bins(-4, 0.25, 1.5, 2)],
    ),
    "text": (
        ["a", "b", " a ", "007", "1.0", "true", "é", "yes", "b\n", "x,y", 'q"q'],
        [levels("a", "b", "007"), levels("yes", "1", "é"), levels("x,y", 'q"q', "b"), numbers(0, 10)],
    ),
    "spelled": (
        ["1.5", " 2 ", "1e0", ".5", "5.", "+1", "-0.0", "0x1", "Inf", "2.50", "13:45"],
        [
            numbers(0, 3),
            bins(0, 1, 1.5, 3),
            levels("1.5", "2", "1e0", ".5", "+1", "0"),
            levels("2.5", "5.", "13:45:00"),
        ],
    ),
    "day": (
        [date(2024, 1, 31), date(2020, 2, 29), date(1999, 12, 31), date(2024, 12, 31)],
        [levels("2024-01-31", "2020-02-29"), levels("1999-12-31", "2024-12-31"), DAYS, YEARS],
    ),
    "moment": (
        [datetime(2024, 1, 31), datetime(2024, 1, 31, 13, 45), datetime(2021, 7, 1, 23, 59, 59, 500000)],
        [levels("2024-01-31", "2024-01-31T13:45:00"), levels("2021-07-01T23:59:59.5", "2024-01-31"), DAYS, YEARS],
    ),
    "zoned": (
        [datetime(2024, 1, 31, 1, 30, tzinfo=BERLIN), datetime(2024, 1, 31, tzinfo=UTC)],
        [levels("2024-01-30T23:30:00Z", "2024-01-31"), levels("2024-01-31T00:00:00Z", "2024-01-31T01:30:00"), DAYS],
    ),
    "clock": (
        [time(13, 45), time(0, 0), time(23, 59, 59, 250000)],
        [levels("13:45:00", "00:00:00"), levels("13:45", "23:59:59.25"), numbers(0, 86400)],
    ),
    "span": (
        [timedelta(seconds=90), timedelta(days=1), timedelta(seconds=1, milliseconds=500), timedelta(0)],
        [levels("90", "86400", "1.5"), numbers(0, 3600)],
    ),
    "uuid": (SOME_UUIDS, [levels(*map(str, SOME_UUIDS))]),
}

# What one record may be changed to: missing, of another type, huge, tiny, control characters, bytes that are no text.
MISSING = [None, "", " ", "\t\r\n"]
TROUBLE = [
    "\r", "a\rb", "x\rr0,1\rr1,1\r", "\n", "a\r\nr0,1,1\r\n", "\r\n\r\n", 'q"', '"', '""', 'a"b,c"', ",", ";\t|",
    "\x00", "a\x00b", "\x1a", "\x1f\x7f", "\u2028", "\x85", "\ufeff", "\\", "\\N", "\\\"", "#", "'", "a|b", "é" * 99,
    "NULL", "NA", "nan", "None",
]  # fmt: skip
BROKEN = ["\ud800", "a\udfff", b"\xff\xfe", b"a\xc3", b"\xed\xa0\x80", b"\x80" * 101]
LONG = ["1" * 101, "9" * 5000, "x" * 70000, "0" * 99 + "1", "1e9999", "1e99999", "-" * 3]
TYPED = [True, False, 0, 1, -1, 1.0, 0.1, "true", "True", "tRuE", "0", "1", "1.0", "-0", "0.5", "abc", Decimal("1.50")]
HUGE = [2**31, 2**53, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**30, 10**5000, -(10**5000)]
HUGE += [Decimal(10) ** 30, Decimal("1E+5000"), Decimal("-1E-5000"), Decimal("NaN"), Decimal("Infinity"), Decimal("-0")]
DOUBLES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 2.0**53, 1e16, 1e300, -1e39]
DATES = [date.min, date.max, date(2024, 2, 29), datetime.min, datetime.max, datetime(2024, 1, 31), time.max, time.min]
DATES += [datetime(1, 1, 1, tzinfo=BERLIN), datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-2)))]
DATES += [datetime(2024, 1, 31, 5, tzinfo=UTC), timedelta.max, timedelta.min, timedelta(microseconds=1), SOME_UUIDS[1]]
DATES += ["2024-02-30", "0000-00-00", "2024-1-1", "10000-01-01", "24:00", "2024-01-31T25:00", "2024-01-31T10:00+99:99"]
OTHER = [1j, [1, 2], {"a": 1}, (), object]
ODD = [*MISSING * 4, *TROUBLE, *BROKEN, *LONG, *TYPED, *HUGE, *DOUBLES, *DATES, *OTHER]


@dataclass(frozen=True)
class Cells:
    """The values of a column. `changed` is the place of the value that may be odd, None if none is."""

    kind: str
    values: tuple
    changed: int | None = None

    def without(self) -> Cells:
        """Return the column with the odd value missing."""
        assert self.changed is not None
        return replace(self, values=(*self.values[: self.changed], None, *self.values[self.changed + 1 :]))

    def ordered(self, order: list[int]) -> Cells:
        changed = None if self.changed is None else order.index(self.changed)
        return Cells(self.kind, tuple(self.values[at] for at in order), changed)


@dataclass(frozen=True)
class Column:
    """A column before and after one record is changed, and what is declared of it."""

    declared: Declared
    before: Cells
    after: Cells = field(compare=False)


def column(rng: Random, kind: str, rows: int) -> Column:
    """Draw a column of one kind and change one record of it."""
    pool, known = KINDS[kind]
    values = tuple(rng.choice(pool) for _ in range(rows))
    at = rng.randrange(rows)
    odd = rng.choice(ODD if rng.random() < 0.8 else pool)
    after = (*values[:at], odd, *values[at + 1 :])
    return Column(rng.choice(known), Cells(kind, values), Cells(kind, after, at))


WHO = "who"


def who(rows: int) -> Cells:
    """Return the names of the records: a column that nothing is wrong with."""
    return Cells("name", tuple(f"r{at}" for at in range(rows)))


def who_declared(rows: int) -> Declared:
    return levels(*(f"r{at}" for at in range(rows)))


def tally(declared: dict[str, Declared]) -> SumQuery:
    """Ask for what every record adds under every column, and that it is there once."""
    return SumQuery((WHO,), (Count(), *(term for name, each in declared.items() for term in each.terms(name))))


def split(found: tuple[int, ...], declared: dict[str, Declared], rows: int) -> dict[tuple[str | None, str], tuple]:
    """Give each record and column its own part of the sums; the record None is that of no known name."""
    sizes = {"": 1, **{name: len(each.terms(name)) for name, each in declared.items()}}
    parts, at = {}, 0
    for record in (*who(rows).values, None):
        for name, size in sizes.items():
            parts[record, name] = found[at : at + size]
            at += size
    assert at == len(found)
    return parts
