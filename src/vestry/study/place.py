"""Where a key stands in a study file, so that a fault can point at its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vestry.errors import StudyFault, VestryError

_HEADER = re.compile(r"\s*\[\s*(?P<name>[^\[\]]+?)\s*\]\s*(#.*)?")
_KEY = re.compile(r"\s*(?P<name>[A-Za-z0-9_\-.\"' ]+?)\s*=")


@dataclass(frozen=True)
class Places:
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
    def of(cls, path: str, text: str) -> Places:
        """Find the headers and the keys. Of an inline table the keys are on the line of the table."""
        found: dict[str, int] = {}
        section = ""
        for number, line in enumerate(text.splitlines(), 1):
            header, key = _HEADER.fullmatch(line), _KEY.match(line)
            if header is not None:
                section = _plain(header["name"])
                found.setdefault(section, number)
            elif key is not None:
                found.setdefault(f"{section}.{_plain(key['name'])}" if section else _plain(key["name"]), number)
        return cls(path, found)

    def line(self, key: str) -> int:
        """Return the line of a key, or of what holds it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key.rpartition(".")[0]
        return 1

    def fault(self, key: str, reason: str, *, exit_code: int = 2) -> StudyFault:
        """Return the error that points at a key."""
        return StudyFault(self.path, self.line(key), key or "the file", reason, exit_code=exit_code)

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Turn any refusal inside into one that points at the key."""
        refused: VestryError | None = None
        try:
            yield
        except StudyFault:
            raise
        except VestryError as error:
            refused = error
        if refused is not None:
            raise self.fault(key, str(refused), exit_code=refused.exit_code)


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
