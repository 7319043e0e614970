"""What a column may contain, as its holder declares it. Nothing is learnt from the data.

A value outside its domain is never an error, since an error would tell of it: a number beyond an interval is clipped to
its nearer end; a level that was not declared, NaN, null, and text that is no number count as missing. What a missing
value becomes is declared too:

- `never`, the default: a public promise that none is missing. One that breaks it becomes the first level, or the low
  end.
- `{"value": x}`: the declared stand-in x.
- `level` (levels only): a level of its own, called `missing`.
- `drop`: the record is left out, and the number of records that count is private.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from vestry.errors import InvalidParameter

NEVER, DROP, LEVEL = "never", "drop", "level"
MISSING_LEVEL = "missing"

Missing = str | Mapping[str, Any]


@dataclass(frozen=True, init=False)
class Levels:
    """One of a few declared values: all text, all whole numbers, or all truth values.

    Attributes
    ----------
    values
        The declared levels.
    missing
        What a missing value becomes.
    """

    values: tuple[str | int | bool, ...]
    missing: Missing

    def __init__(self, *values: str | int | bool, missing: Missing = NEVER) -> None:
        kinds = {type(value) for value in values}
        if len(values) < 2 or len(kinds) != 1 or not kinds <= {str, int, bool}:
            raise InvalidParameter(
                "levels",
                values,
                "two or more, all text, all whole numbers or all true and false",
                'for example "no", "yes"',
            )
        if len(set(values)) < len(values):
            raise InvalidParameter("levels", values, "different from each other", "each level once")
        if missing == LEVEL and MISSING_LEVEL in values:
            raise InvalidParameter("levels", values, f'without "{MISSING_LEVEL}" if missing is a level', "another name")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "missing", _policy(missing, levels=True))
        # 1 and 1.0 are equal to true, and are no truth value.
        if isinstance(missing, Mapping) and not (type(self.stand_in) in kinds and self.stand_in in values):
            first = json.dumps(values[0], ensure_ascii=False)
            raise InvalidParameter("missing", self.stand_in, "one of the levels", f"{{ value = {first} }}")

    @property
    def names(self) -> tuple[str, ...]:
        """The levels as text, the one of missing values last if it is one."""
        own = tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values)
        return (*own, MISSING_LEVEL) if self.missing == LEVEL else own

    @property
    def stand_in(self) -> str | int | bool:
        """What a missing value becomes, where it is neither dropped nor a level of its own."""
        if isinstance(self.missing, Mapping):
            declared: str | int | bool = self.missing["value"]
            return declared
        return self.values[0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as a study file writes them."""
        return {"levels": list(self.values), "missing": _plain(self.missing)}


@dataclass(frozen=True)
class Interval:
    """A number, clipped to [low, high].

    Attributes
    ----------
    low, high
        The ends.
    missing
        What a missing value becomes.
    """

    low: float
    high: float
    missing: Missing = NEVER

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _number(name, getattr(self, name), f"for example {name} = 0"))
        if not self.low < self.high:
            raise InvalidParameter(
                "interval", [self.low, self.high], "a low end below the high end", "for example [0, 60]"
            )
        object.__setattr__(self, "missing", _policy(self.missing, levels=False))
        if not self.low <= self.stand_in <= self.high:
            raise InvalidParameter("missing", self.stand_in, "inside the interval", f"{{ value = {self.low:g} }}")

    @property
    def stand_in(self) -> float:
        """What a missing value becomes, where it is not dropped."""
        if isinstance(self.missing, Mapping):
            return _number("missing", self.missing["value"], f"{{ value = {self.low:g} }}")
        return float(self.low)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as a study file writes them."""
        return {"interval": [self.low, self.high], "missing": _plain(self.missing)}


Domain = Levels | Interval


def domain_from(record: Mapping[str, Any]) -> Domain:
    """Read a domain as a study file writes it: levels, or an interval, or a count's largest value."""
    kinds = {"levels", "interval", "count"} & set(record)
    unknown = set(record) - {"levels", "interval", "count", "missing"}
    if len(kinds) != 1 or unknown:
        given = ", ".join(sorted(record)) or "nothing"
        raise InvalidParameter(
            "a column",
            given,
            "levels, interval or count, and missing",
            '{ levels = ["no", "yes"] } or { interval = [0, 60] }',
        )
    missing = record.get("missing", NEVER)
    if "levels" in record:
        if not isinstance(record["levels"], list):
            raise InvalidParameter("levels", record["levels"], "a list", 'levels = ["no", "yes"]')
        return Levels(*record["levels"], missing=missing)
    if "count" in record:
        most = record["count"]
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidParameter("count", most, "a whole number of at least 1", "the largest count, count = 20")
        return Interval(0, most, missing)
    ends = record["interval"]
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(_finite, ends)):
        raise InvalidParameter("interval", ends, "a low and a high end, both finite numbers", "interval = [0, 60]")
    return Interval(ends[0], ends[1], missing)


def drops(domain: Domain) -> bool:
    """Tell whether a record is left out if this column is missing."""
    return domain.missing == DROP


def _policy(missing: object, *, levels: bool) -> Missing:
    words = (NEVER, DROP, LEVEL) if levels else (NEVER, DROP)
    if isinstance(missing, str) and missing in words:
        return missing
    if isinstance(missing, Mapping) and set(missing) == {"value"}:
        return dict(missing)
    allowed = ", ".join(f'"{word}"' for word in words) + " or { value = ... }"
    raise InvalidParameter("missing", missing, allowed, 'missing = "drop"')


def _number(name: str, value: Any, instead: str) -> float:
    if not _finite(value):
        raise InvalidParameter(name, value, "a finite number", instead)
    return float(value)


def _finite(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _plain(missing: Missing) -> Any:
    return dict(missing) if isinstance(missing, Mapping) else missing
