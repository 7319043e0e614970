"""Where a key stands in a study file, so that a fault can point at its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from vestry.errors import InvalidParameter, StudyFileError, VestryError

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
        found: dict[str, int] = {}
        for key, number in _keys(text):
            for end in range(1, len(key) + 1):
                found.setdefault(".".join(key[:end]), number)
        return cls(path, found)

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
            if refused.name == "largest":  # a model names it, and only the study can declare it
                return "study.largest"
            for holder in (key, key.rpartition(".")[0]):
                if f"{holder}.{refused.name}" in self.lines:
                    return f"{holder}.{refused.name}"
        return key


def check_keys(path: str, text: str) -> None:
    """Refuse a key of very many parts, before anything takes it apart: that would take a time quadratic in them."""
    parts, line = 0, 1
    for word in _WORD.finditer(text):
        kind, found = word.lastgroup, word[0]
        if kind in ("text", "bare"):
            parts += 1
        elif kind in ("newline", "mark"):
            parts = 0
        if parts > _MOST_PARTS:
            said = f"a key has more than {_MOST_PARTS} parts; write it as the study file's sections have it."
            raise StudyFileError(path, line, "the file", said)
        line += found.count("\n")


# A study's keys have three parts, or four.
_MOST_PARTS = 16


def _keys(text: str) -> Iterator[tuple[_Path, int]]:
    """Yield each header and key with its line."""
    section: _Path = ()
    value: _Path = ()
    parts: list[str] = []
    # What is open: braces and brackets of values, each with the path of the keys inside it.
    opened: list[tuple[str, _Path]] = []
    in_key, in_header, line, first = True, False, 1, 1
    for word in _WORD.finditer(text):
        kind, found = word.lastgroup, word[0]
        if kind in ("text", "bare") and in_key:
            first = first if parts else line
            parts.append(tomllib.loads(f"key = {found}")["key"] if kind == "text" else found)
        elif found == "=" and in_key:
            path = (*(opened[-1][1] if opened else section), *parts)
            yield path, first
            in_key, parts, value = False, [], path
        elif found == "[" and in_key:
            in_header = True
        elif found == "]" and in_header:
            if parts:
                section = tuple(parts)
                yield section, first
            in_header, parts = False, []
        elif found in ("{", "["):
            opened.append((found, value))
            in_key = found == "{"
        elif found in ("}", "]") and opened:
            opened.pop()
            in_key, parts = False, []
        elif found == "," and opened:
            value = opened[-1][1]
            in_key = opened[-1][0] == "{"
        elif kind == "newline" and not opened:
            in_key, parts = True, []
        line += found.count("\n")
