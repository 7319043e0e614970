"""A table of a study file, its keys read and checked; a fault points at the key's line and says what to write."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from vestry.errors import InvalidParameter
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
from vestry.privacy.neighbours import Neighbours
from vestry.registry import MODELS
from vestry.study.toml_lines import LineIndex

# What a ledger can write.
_LONGEST = 1000
# As for the ends of intervals: beyond it no calibration computes well.
_GREATEST = 1e30
_GUARANTEES = [kind.names() for kind in (PureDP, ApproxDP, RenyiDP, ZCDP, GaussianDP)]
GUARANTEE = tuple(dict.fromkeys(name for names in _GUARANTEES for name in names))
_WAYS = (
    "{ epsilon = 0.3 }, or { epsilon = 0.3, delta = 1e-6 }, or { order = 10, epsilon = 0.1 }, or { rho = 0.1 }, or"
    " { mu = 0.5 }"
)
EXAMPLES = {
    "study": "[study] with name, data, unit, neighbours, budget and ledger",
    "columns": '[columns] and for example ward = { levels = ["A", "B"] } below it',
    "release": "[release.NAME] with a model and what it may spend",
    "model": 'model = "beta-bernoulli", or another of ' + ", ".join(MODELS),
    "name": 'name = "readmissions"',
    "dataset": 'dataset = "patients"',
    "data": 'data = "patients.parquet"',
    "unit": 'unit = "row", or unit = { person = "patient_id", rows = 3 }',
    "neighbours": 'neighbours = "add-remove", or "replace"',
    "budget": "budget = { epsilon = 1.0, delta = 1e-6 }",
    "ledger": 'ledger = "patients.ledger"',
    "spend": "spend = { epsilon = 0.3 }",
    "column": 'column = "readmitted"',
    "success": 'success = "yes"',
    "variance": "variance = 100",
    "prior": "prior = [0, 100]",
    "purpose": 'purpose = "quarterly report"',
    "outcome": 'outcome = "readmitted"',
    "predictors": 'predictors = ["age", "ward"]',
    "features": 'features = ["type", "outcome"]',
    "sequence": 'sequence = { region = "region", time = "month" }',
}


@dataclass(frozen=True)
class Section:
    """A table of the file: its key with dots, empty for the whole file; what it says; where each key stands."""

    key: str
    record: Mapping[str, Any]
    places: LineIndex

    def path(self, name: str) -> str:
        """Return where a key of this table stands."""
        return f"{self.key}.{name}" if self.key else name

    def at(self, name: str) -> AbstractContextManager[None, None]:
        """Turn any refusal inside into a fault that points at a key."""
        return self.places.at(self.path(name))

    def below(self, name: str, *, called: str | None = None, instead: str | None = None) -> Section:
        """Return a table of this table; `called` names what it should be."""
        given = self.record[name]
        with self.at(name):
            if not isinstance(given, Mapping):
                raise InvalidParameter(called or name, given, "a table", instead or EXAMPLES[name])
        return Section(self.path(name), given, self.places)

    def allow(self, names: Iterable[str]) -> None:
        """Refuse a key that is not one of these, with the nearest that is."""
        allowed = list(names)
        for name in self.record:
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, 1)
                instead = near[0] if near else "one of " + ", ".join(allowed)
                raise self.places.fault(self.path(name), f"this key is not known; write {instead}.")

    def require(self, names: Iterable[str], what: str = "key") -> None:
        """Refuse a table without one of these keys."""
        for name in names:
            if name not in self.record:
                raise self.places.fault(self.path(name), f"this {what} is missing; write {EXAMPLES[name]}.")

    def text(self, name: str, default: str | None = None) -> str:
        """Read one line of text."""
        found = self.record.get(name, default)
        with self.at(name):
            check_text(name, found)
        return str(found)

    def number(self, name: str, example: str) -> float | None:
        """Read a finite number; None if it is left out."""
        if name not in self.record:
            return None
        with self.at(name):
            return finite(name, self.record[name], f"{name} = {example}")

    def whole(self, name: str, example: int, *, most: int) -> int | None:
        """Read a whole number from 1; None if it is left out."""
        value = self.record.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most):
            return value
        with self.at(name):
            raise InvalidParameter(name, value, f"a whole number from 1 to {most}", f"{name} = {min(example, most)}")

    def guarantee(self, name: str, neighbours: Neighbours) -> Guarantee:
        """Read a guarantee, for example { epsilon = 0.3 }."""
        numbers = self.below(name)
        numbers.allow(GUARANTEE)
        with self.at(name):
            if set(numbers.record) not in map(set, _GUARANTEES):
                raise InvalidParameter(name, dict(numbers.record), "a known combination of keys", f"{name} = {_WAYS}")
            return Guarantee.parse(numbers.record, neighbours=neighbours)


def check_text(name: str, value: object) -> None:
    """Refuse what is not one line of text that a ledger can write."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > _LONGEST:
        allowed = f"one line of text of 1 to {_LONGEST} characters"
        raise InvalidParameter(name, value, allowed, EXAMPLES.get(name, "another name"))


def finite(name: str, value: object, example: str) -> float:
    """Return a number that is finite and of moderate size."""
    try:
        found = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidParameter(name, value, "a finite number", example)
    if found != 0 and not 1 / _GREATEST <= abs(found) <= _GREATEST:
        raise InvalidParameter(name, value, f"0, or from {1 / _GREATEST:g} to {_GREATEST:g} in size", example)
    return found
