"""A study file's tables: where each key stands, what it says, and faults that point at its line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from vestry.errors import InvalidParameter, StudyFileError, VestryError
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
from vestry.privacy.neighbours import Neighbours
from vestry.registry import MODELS
from vestry.validation import require_moderate, require_whole

# The words of TOML. Only keys matter, so numbers and dates need no care: they are bare words and dots.
_WORD = re.compile(
    r'''(?P<long>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5})
      | (?P<text>"(?:\\.|[^"\\\n])*"|'[^'\n]*')
      | (?P<newline>\n)
      | (?P<mark>[\[\]{}=,])
      | (?P<bare>[^\s\[\]{}=,."'#]+)
      | (?P<skip>\#[^\n]*|.)
    ''',
    re.VERBOSE | re.DOTALL,
)
_Path = tuple[str, ...]
# A study's keys have three parts, or four.
_MOST_PARTS = 16
# What a ledger can write.
_LONGEST = 1000
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
    "title": 'title = "Readmissions after discharge"',
    "issuer": 'issuer = "Quality office, Example Hospital"',
    "contact": 'contact = "quality@hospital.example"',
    "date": "date = 2026-01-31",
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
    "want": "want = { width = 0.05 }",
    "width": "want = { width = 0.05 }",
    "outcome": 'outcome = "readmitted"',
    "predictors": 'predictors = ["age", "ward"]',
    "features": 'features = ["type", "outcome"]',
    "sequence": 'sequence = { region = "region", time = "month" }',
}


@dataclass(frozen=True)
class LineIndex:
    """The lines of a file by their keys.

    Attributes
    ----------
    path
        The file's name, for messages.
    lines
        The first line of each key, written with dots.
    """

    path: str
    lines: dict[str, int]

    @classmethod
    def of(cls, path: str, text: str) -> LineIndex:
        """Find the headers and the keys of a text that is TOML; keys of inline tables too."""
        lines: dict[str, int] = {}
        for key, number in _keys(text):
            for end in range(1, len(key) + 1):
                lines.setdefault(".".join(key[:end]), number)
        return cls(path, lines)

    def line(self, key: str) -> int:
        """Return the line of a key, or of what holds it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key.rpartition(".")[0]
        return 1

    def fault(self, key: str, reason: str, *, exit_code: int = 2) -> StudyFileError:
        """Return the error that points at a key."""
        return StudyFileError(self.path, self.line(key), key, reason, exit_code=exit_code)

    def at(self, key: str) -> AbstractContextManager[None, None]:
        """Turn any refusal inside into one that points at the key, or at a key in or beside it that it names.

        Declarations may hold numbers that no calibration can compute with; that is a refusal too.
        """
        return self._pointed(key)  # type: ignore[return-value]  # it swallows nothing

    @contextmanager
    def _pointed(self, key: str) -> Iterator[None]:
        refused: VestryError | None = None
        try:
            yield
        except StudyFileError:
            raise
        except VestryError as error:
            refused = error
        except ArithmeticError:
            refused = VestryError("its numbers are too large or too small to compute with; write more moderate ones.")
        if refused is not None:
            raise self.fault(self._nearer(key, refused), str(refused), exit_code=refused.exit_code)

    def _nearer(self, key: str, refused: VestryError) -> str:
        if isinstance(refused, InvalidParameter):
            if refused.name == "max_rows":  # a model names it, and only the study can declare it
                return "study.max_rows"
            for holder in (key, key.rpartition(".")[0]):
                if f"{holder}.{refused.name}" in self.lines:
                    return f"{holder}.{refused.name}"
        return key


@dataclass(frozen=True)
class Section:
    """A table of the file: its key with dots, empty for the whole file; what it says; where each key stands."""

    key: str
    record: Mapping[str, Any]
    lines: LineIndex

    def path(self, name: str) -> str:
        """Return where a key of this table stands."""
        return f"{self.key}.{name}" if self.key else name

    def at(self, name: str) -> AbstractContextManager[None, None]:
        """Turn any refusal inside into a fault that points at a key."""
        return self.lines.at(self.path(name))

    def below(self, name: str, *, called: str | None = None, instead: str | None = None) -> Section:
        """Return a table of this table; `called` names what it should be."""
        given = self.record[name]
        with self.at(name):
            if not isinstance(given, Mapping):
                raise InvalidParameter(called or name, given, "a table", instead or EXAMPLES[name])
        return Section(self.path(name), given, self.lines)

    def allow(self, names: Iterable[str]) -> None:
        """Refuse a key that is not one of these, with the nearest that is."""
        allowed = list(names)
        for name in self.record:
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, 1)
                instead = near[0] if near else "one of " + ", ".join(allowed)
                raise self.lines.fault(self.path(name), f"this key is not known; write {instead}.")

    def require(self, names: Iterable[str], what: str = "key") -> None:
        """Refuse a table without one of these keys."""
        for name in names:
            if name not in self.record:
                raise self.lines.fault(self.path(name), f"this {what} is missing; write {EXAMPLES[name]}.")

    def text(self, name: str, default: str | None = None) -> str:
        """Read one line of text."""
        value = self.record.get(name, default)
        with self.at(name):
            check_text(name, value)
        return str(value)

    def number(self, name: str, example: str) -> float | None:
        """Read a finite number; None if it is omitted."""
        if name not in self.record:
            return None
        with self.at(name):
            return require_moderate(name, self.record[name], f"{name} = {example}")

    def whole(self, name: str, example: int, *, most: int) -> int | None:
        """Read a whole number from 1; None if it is omitted."""
        if name not in self.record:
            return None
        with self.at(name):
            return require_whole(name, self.record[name], f"{name} = {min(example, most)}", most=most)

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


def check_keys(path: str, text: str) -> None:
    """Refuse a key of very many parts, before anything takes it apart: that would take a time quadratic in them."""
    parts, line = 0, 1
    for word in _WORD.finditer(text):
        kind, piece = word.lastgroup, word[0]
        if kind in ("text", "bare"):
            parts += 1
        elif kind in ("newline", "mark"):
            parts = 0
        if parts > _MOST_PARTS:
            reason = f"a key has more than {_MOST_PARTS} parts; write it as the study file's sections have it."
            raise StudyFileError(path, line, "the file", reason)
        line += piece.count("\n")


def _keys(text: str) -> Iterator[tuple[_Path, int]]:
    """Yield each header and key with its line."""
    section: _Path = ()
    value: _Path = ()
    parts: list[str] = []
    # What is open: braces and brackets of values, each with the path of the keys inside it.
    opened: list[tuple[str, _Path]] = []
    in_key, in_header, line, first = True, False, 1, 1
    for word in _WORD.finditer(text):
        kind, piece = word.lastgroup, word[0]
        if kind in ("text", "bare") and in_key:
            first = first if parts else line
            parts.append(tomllib.loads(f"key = {piece}")["key"] if kind == "text" else piece)
        elif piece == "=" and in_key:
            path = (*(opened[-1][1] if opened else section), *parts)
            yield path, first
            in_key, parts, value = False, [], path
        elif piece == "[" and in_key:
            in_header = True
        elif piece == "]" and in_header:
            if parts:
                section = tuple(parts)
                yield section, first
            in_header, parts = False, []
        elif piece in ("{", "["):
            opened.append((piece, value))
            in_key = piece == "{"
        elif piece in ("}", "]") and opened:
            opened.pop()
            in_key, parts = False, []
        elif piece == "," and opened:
            value = opened[-1][1]
            in_key = opened[-1][0] == "{"
        elif kind == "newline" and not opened:
            in_key, parts = True, []
        line += piece.count("\n")
