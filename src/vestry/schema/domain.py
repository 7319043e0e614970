"""What a column may contain, as its holder declares it. Nothing is learnt from the data.

A value outside its domain is never an error, since an error would tell of it: a number or a date beyond an interval is
clipped to its nearer end; a level that was not declared, NaN, null, and text that is not a number count as missing.
Which values are the same level, `vestry.schema.meaning` says. What a missing value becomes is declared too:

- `never`, the default: a public promise that none is missing. One that breaks it becomes the first level, or the low
  end.
- `{"value": x}`: the declared stand-in x.
- `level` (levels and bins only): its own level, called `missing`.
- `drop`: the record is omitted, and the number of records that count is private.

An interval in bins is a column of levels: `Bins`. A column may be derived from others of the same record by an
expression: see `vestry.schema.formula`.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from vestry.errors import InvalidParameter
from vestry.schema.formula import TRUTH
from vestry.schema.formula_parser import parse
from vestry.schema.meaning import LONGEST, level_text
from vestry.validation import is_number, require_number, require_whole

NEVER, DROP, LEVEL = "never", "drop", "level"
MISSING_LEVEL = "missing"

Missing = str | Mapping[str, Any]


@dataclass(frozen=True, init=False)
class Levels:
    """One of a few declared values: all text, all whole numbers, all truth values, or all dates.

    Attributes
    ----------
    values
        The declared levels; dates as text.
    missing
        What a missing value becomes.
    exact
        Whether text is matched as it stands: no white space is taken off, and "1.0" is not 1.
    derived
        The expression of other columns whose value this is; None for a column of the table.
    """

    values: tuple[str | int | bool, ...]
    missing: Missing
    exact: bool = False
    derived: str | None = None

    def __init__(
        self,
        *values: str | int | bool | datetime.date,
        missing: Missing = NEVER,
        exact: bool = False,
        derived: str | None = None,
    ) -> None:
        kinds = {type(value) for value in values}
        if len(values) < 2 or len(kinds) != 1 or not kinds <= {str, int, bool, datetime.date}:
            raise InvalidParameter(
                "levels",
                values,
                "two or more, all text, all whole numbers, all true and false or all dates",
                'for example "no", "yes"',
            )
        if not isinstance(exact, bool) or (exact and kinds != {str}):
            raise InvalidParameter("exact", exact, "true or false, and true for levels of text alone", "exact = false")
        plain = tuple(value.isoformat() if isinstance(value, datetime.date) else value for value in values)
        object.__setattr__(self, "values", plain)
        object.__setattr__(self, "exact", exact)
        object.__setattr__(self, "derived", derived)
        _check_different(values, self.texts)
        if missing == LEVEL and MISSING_LEVEL in values:
            raise InvalidParameter("levels", values, f'without "{MISSING_LEVEL}" if missing is a level', "another name")
        object.__setattr__(self, "missing", _policy(missing, levels=True))
        # 1 and 1.0 are equal to true, and are not truth values.
        if isinstance(missing, Mapping) and not (type(self.stand_in) in kinds and self.stand_in in plain):
            first = json.dumps(plain[0], ensure_ascii=False)
            raise InvalidParameter("missing", self.stand_in, "one of the levels", f"{{ value = {first} }}")

    @property
    def names(self) -> tuple[str, ...]:
        """The levels as text, the one of missing values last if it is one."""
        own = tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values)
        return (*own, MISSING_LEVEL) if self.missing == LEVEL else own

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the levels' classes: a value is a level if its own text is the same."""
        given = tuple(str(value) if self.exact else level_text(value) for value in self.values)
        return tuple("" if text is None else text for text in given)

    @property
    def stand_in(self) -> str | int | bool:
        """What a missing value becomes, where it is neither dropped nor its own level."""
        if isinstance(self.missing, Mapping):
            declared: str | int | bool = self.missing["value"]
            return declared
        return self.values[0]

    @property
    def missing_place(self) -> int | None:
        """The place of a missing value among the names, None where the record is dropped."""
        if self.missing == DROP:
            return None
        return len(self.values) if self.missing == LEVEL else self.values.index(self.stand_in)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as a study file writes them; what is at its default is omitted."""
        plain = {"levels": list(self.values), "missing": _plain(self.missing)}
        plain = {**plain, "exact": True} if self.exact else plain
        return plain | _expression(self)


@dataclass(frozen=True)
class Interval:
    """A number, clipped to [low, high]; or a date, clipped likewise and counted in days after the low end.

    Attributes
    ----------
    low, high
        The ends. Of dates: 0, and the number of days between them.
    missing
        What a missing value becomes.
    format
        How dates are written in text, where they are not ISO 8601: `%Y`, `%m`, `%d`, `%H`, `%M`, `%S` and other marks
        as they stand. None for 2024-01-31.
    derived
        The expression of other columns whose value this is; None for a column of the table.
    since
        The low end of dates; None for numbers.
    """

    low: float
    high: float
    missing: Missing = NEVER
    format: str | None = None
    derived: str | None = None
    since: datetime.date | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        ends: tuple[Any, Any] = (self.low, self.high)
        if all(type(end) is datetime.date for end in ends):
            self._count_days(*ends)
        for name in ("low", "high"):
            object.__setattr__(self, name, require_number(name, getattr(self, name), f"for example {name} = 0"))
        if not self.low < self.high:
            raise InvalidParameter(
                "interval", [self.low, self.high], "a low end below the high end", "for example [0, 60]"
            )
        object.__setattr__(self, "missing", self._days_of(_policy(self.missing, levels=False)))
        if self.format is not None:
            _check_format(self.format, self.since)
        if not self.low <= self.stand_in <= self.high:
            raise InvalidParameter("missing", self.stand_in, "inside the interval", f"{{ value = {self.low:g} }}")

    def _count_days(self, low: datetime.date, high: datetime.date) -> None:
        object.__setattr__(self, "since", low)
        object.__setattr__(self, "low", 0)
        object.__setattr__(self, "high", (high - low).days)

    def _days_of(self, missing: Missing) -> Missing:
        """Count the days of a stand-in that is a date."""
        if self.since is None or not isinstance(missing, Mapping):
            return missing
        given = _date(missing["value"])
        return {"value": given if given is None else (given - self.since).days}

    @property
    def stand_in(self) -> float:
        """What a missing value becomes, where it is not dropped."""
        if isinstance(self.missing, Mapping):
            instead = f"{self.low:g}" if self.since is None else self.since.isoformat()
            return require_number("missing", self.missing["value"], f"{{ value = {instead} }}")
        return float(self.low)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as a study file writes them; what is at its default is omitted."""
        plain = {"interval": [self.written(self.low), self.written(self.high)], "missing": _plain(self.missing)}
        if self.since is not None and isinstance(self.missing, Mapping):
            plain["missing"] = {"value": self.written(self.stand_in)}
        return plain | ({} if self.format is None else {"format": self.format}) | _expression(self)

    def written(self, value: float) -> Any:
        """Return a number as it is; the days of dates as the date that they stand for."""
        return value if self.since is None else (self.since + datetime.timedelta(days=value)).isoformat()

    def bins(self, *edges: float | datetime.date | str, missing: str | None = None) -> Bins:
        """Return the same column in bins, which are its levels: `Interval(0, 120).bins(0, 18, 40, 65, 120)`.

        With `missing="level"` a missing value has its own level; else what becomes of it is declared of the interval.
        """
        return Bins(self, edges, missing)


@dataclass(frozen=True, init=False, kw_only=True)
class Bins(Levels):
    """An interval cut at declared edges; each bin is a level.

    A bin holds its lower edge and not its upper one, which belongs to the next; the last one holds both. A value beyond
    an end of the interval is clipped, so it lies in the first or the last bin. A missing one is where its stand-in is.

    Attributes
    ----------
    interval
        What the values are read as.
    edges
        Increasing, from the low end to the high end; of dates, days after the low end.
    """

    interval: Interval
    edges: tuple[float, ...]

    def __init__(self, interval: Interval, edges: Any, missing: str | None = None) -> None:
        if missing not in (None, LEVEL):
            raise InvalidParameter("missing", missing, '"level", or declared of the interval', 'missing="level"')
        numbers = tuple(_edge(each, interval.since) for each in edges)
        ends = interval.low, interval.high
        if len(numbers) < 3 or any(not a < b for a, b in pairwise(numbers)) or (numbers[0], numbers[-1]) != ends:
            low, middle, high = map(interval.written, (ends[0], sum(ends) / 2, ends[1]))
            allowed = f"three edges or more, increasing from {low} to {high}, the ends of the interval"
            raise InvalidParameter("bins", list(edges), allowed, f"bins = [{low}, {middle}, {high}]")
        object.__setattr__(self, "interval", interval)
        object.__setattr__(self, "edges", numbers)
        object.__setattr__(self, "values", tuple(self._names()))
        object.__setattr__(self, "exact", False)
        object.__setattr__(self, "derived", interval.derived)
        given = interval.missing if missing is None else missing
        at = {"value": self.values[self.place(interval.stand_in)]}
        object.__setattr__(self, "missing", at if isinstance(given, Mapping) else given)

    def _names(self) -> Iterator[str]:
        """Yield `18 to <40`, and for the last bin `65 to 120`."""
        texts = [str(int(each) if isinstance(each, float) and each.is_integer() else each) for each in self._written()]
        for place, (low, high) in enumerate(pairwise(texts), start=2):
            yield f"{low} to {high}" if place == len(texts) else f"{low} to <{high}"

    def _written(self) -> list[Any]:
        return [self.interval.written(each) for each in self.edges]

    def place(self, value: float) -> int:
        """Return the place of the bin in which a number lies."""
        return sum(edge <= value for edge in self.edges[1:-1])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as a study file writes them; what is at its default is omitted."""
        missing = {"missing": self.missing} if self.missing == LEVEL else {}
        return {**self.interval.to_dict(), **missing, "bins": self._written()}


Domain = Levels | Interval


def _expression(domain: Domain) -> dict[str, str]:
    """Return the expression of a derived column, with one blank between its words."""
    return {} if domain.derived is None else {"from": parse(domain.derived).text}


def underlying(domain: Domain) -> Domain:
    """Return what the values of a column are read as: those of bins as numbers or dates."""
    return domain.interval if isinstance(domain, Bins) else domain


def sources(column: str, domain: Domain) -> tuple[str, ...]:
    """Return the columns of the table that are read for a declared one: itself, or those of its expression."""
    return (column,) if domain.derived is None else parse(domain.derived).columns


def sources_of(domains: Mapping[str, Domain]) -> dict[str, Domain | None]:
    """Return the columns of the table that are read for declared ones, those of expressions alone without a domain."""
    read = dict[str, Domain | None]()
    for column, domain in domains.items():
        read |= {each: read.get(each) for each in sources(column, domain)} if domain.derived else {column: domain}
    return read


def _edge(given: Any, since: datetime.date | None) -> float:
    """Return an edge as a number, or as days after the low end; NaN, which no edge can be, if it is neither."""
    if since is None:
        return float(given) if is_number(given) else float("nan")
    day = _date(given)
    return float("nan") if day is None else float((day - since).days)


def domain_from(record: Mapping[str, Any]) -> Domain:
    """Read a domain as a study file writes it: levels, or an interval, or a count's largest value; or a condition."""
    if not isinstance(record, Mapping):
        raise InvalidParameter("a column", record, "a declaration", '{ levels = ["no", "yes"] }')
    derived = parse(record["from"]) if "from" in record else None
    if derived is not None and derived.root.kind == TRUTH and not {"levels", "interval", "count"} & set(record):
        record = {**record, "levels": [False, True]}
    kinds = {"levels", "interval", "count"} & set(record)
    own = {"levels": {"exact"}, "interval": {"format", "bins"}, "count": {"bins"}}
    allowed = {"missing", "from"} | kinds | own.get("".join(kinds), set())
    if len(kinds) != 1 or set(record) - allowed:
        given = ", ".join(sorted(record)) or "nothing"
        raise InvalidParameter(
            "a column",
            given,
            "levels (with exact), interval (of dates with format) or count (both with bins), and missing",
            '{ levels = ["no", "yes"] } or { interval = [0, 60] }',
        )
    missing = record.get("missing", NEVER)
    if "levels" in record:
        if not isinstance(record["levels"], list):
            raise InvalidParameter("levels", record["levels"], "a list", 'levels = ["no", "yes"]')
        return Levels(*record["levels"], missing=missing, exact=record.get("exact", False), derived=record.get("from"))
    own_level = "bins" in record and missing == LEVEL
    interval = _counted(record, NEVER if own_level else missing)
    if "bins" not in record:
        return interval
    if not isinstance(record["bins"], list):
        raise InvalidParameter("bins", record["bins"], "a list of edges", "bins = [0, 18, 40, 65, 120]")
    return interval.bins(*record["bins"], missing=LEVEL if own_level else None)


def _counted(record: Mapping[str, Any], missing: Missing) -> Interval:
    """Read an interval, or a count's largest value."""
    if "count" in record:
        most = require_whole("count", record["count"], "the largest count, count = 20")
        return Interval(0, most, missing, derived=record.get("from"))
    return _interval(record["interval"], missing, record.get("format"), record.get("from"))


def _interval(ends: Any, missing: Missing, format: str | None, derived: str | None) -> Interval:
    if isinstance(ends, list) and len(ends) == 2:
        if all(map(is_number, ends)):
            return Interval(ends[0], ends[1], missing, format, derived)
        low, high = map(_date, ends)
        if low is not None and high is not None:
            return Interval(low, high, missing, format, derived)  # type: ignore[arg-type]  # counted in days
    allowed = "a low and a high end, both finite numbers or both dates"
    raise InvalidParameter("interval", ends, allowed, "interval = [0, 60] or [2020-01-01, 2024-12-31]")


def drops(domain: Domain) -> bool:
    """Tell whether a record is omitted if this column is missing."""
    return domain.missing == DROP


def _check_different(values: tuple[Any, ...], texts: tuple[str, ...]) -> None:
    """Refuse levels that no value can have, or that one value would have two of."""
    for value, text in zip(values, texts, strict=True):
        if not text or len(text) > LONGEST or any(mark < " " and mark not in "\t\n\r" for mark in text):
            allowed = f"of 1 to {LONGEST} characters, none of which is a control character"
            raise InvalidParameter("a level", value, allowed, 'another text; empty text is missing: missing = "level"')
    first = dict[str, Any]()
    for value, text in zip(values, texts, strict=True):
        if text in first and first[text] == value:
            raise InvalidParameter("levels", value, "different from each other", "each level once")
        if text in first:
            pair = f"{json.dumps(str(first[text]))} and {json.dumps(str(value))}"
            allowed = "different from each other, and these are the same value"
            raise InvalidParameter("levels", pair, allowed, "one of them, or exact = true")
        first[text] = value


def _check_format(format: object, since: datetime.date | None) -> None:
    """Refuse a format that does not say year, month and day, each once."""
    instead = 'format = "%d.%m.%Y", for an interval of dates'
    plain = isinstance(format, str) and _FORMAT.fullmatch(format) is not None and len(format) <= LONGEST
    fields = re.findall("%(.)", str(format))
    if since is None or not plain or len(set(fields)) < len(fields) or not {"Y", "m", "d"} <= set(fields):
        allowed = "%Y, %m, %d and, if need be, %H, %M, %S, each once, with blanks or . / - : , T Z between them"
        raise InvalidParameter("format", format, allowed, instead)


_FORMAT = re.compile("(%[YmdHMS]|[ ./:,TZ-])+")


def _date(value: object) -> datetime.date | None:
    if type(value) is datetime.date:
        return value
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) and len(value) == 10 else None
    except ValueError:
        return None


def _policy(missing: object, *, levels: bool) -> Missing:
    words = (NEVER, DROP, LEVEL) if levels else (NEVER, DROP)
    if isinstance(missing, str) and missing in words:
        return missing
    if isinstance(missing, Mapping) and set(missing) == {"value"}:
        return dict(missing)
    allowed = ", ".join(f'"{word}"' for word in words) + " or { value = ... }"
    raise InvalidParameter("missing", missing, allowed, 'missing = "drop"')


def _plain(missing: Missing) -> Any:
    return dict(missing) if isinstance(missing, Mapping) else missing
