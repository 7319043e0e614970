"""What a walk of the journal proved, one row for each line, so that no line need be walked twice to be relied on.

A row holds a mark of its line, by which the line is recognised when it is read again, the charge that it belongs to,
and a key by which it is looked up: eight bytes of a hash of a charge's definition, or of the hash of a release. A key
only says which lines to look at: whoever asks reads the line, compares its mark, and compares the text itself.

The index follows from the journal alone, and is never the only copy of anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vestry.errors import LedgerCorrupt, VestryError
from vestry.ledger.entry import ACTIONS, ChainEnd, Entry, JournalWalk, State, canonical_json

# What is kept of a line: 33 bytes.
ROW = np.dtype([("charge", "<u8"), ("key", "<u8"), ("mark", "V16"), ("action", "u1")])
# Later lines are kept apart until there are so many: putting them behind millions of others copies all of these.
LARGEST_TAIL = 256
# Raised when the same journal leads to another index.
FORMAT = 1

_DIGEST_BYTES = 32
_LENGTH_BYTES = 4
_CHARGE, _OPEN, _RELEASE = (ACTIONS.index(action) for action in ("charge", "open", "release"))
_NO_ROWS = np.empty(0, ROW)


@dataclass(frozen=True, eq=False)
class JournalIndex:
    """The lines up to one, all of whose chain was walked. It never changes: `extended` returns another.

    Attributes
    ----------
    end
        The last line that was walked, and the state that it leads to.
    rows, tail
        A row for each line in the order of their numbers; the newest ones apart.
    """

    end: ChainEnd = field(default_factory=ChainEnd)
    rows: np.ndarray = field(default_factory=lambda: _NO_ROWS)
    tail: np.ndarray = field(default_factory=lambda: _NO_ROWS)

    @property
    def count(self) -> int:
        """How many lines it covers."""
        return self.end.sequence + 1

    def extended(self, entries: Iterable[Entry]) -> JournalIndex:
        """Walk the lines that follow, and return an index that covers them too."""
        walk = JournalWalk(self.end, self.stage)
        new = list[np.ndarray]()
        page = list[tuple[int, int, bytes, int]]()
        for entry in entries:
            facts = walk.step(entry)
            page.append(_row(entry, facts))
            if len(page) == LARGEST_TAIL:
                new.append(np.array(page, ROW))
                page = []
        new.append(np.array(page, ROW))
        tail = np.concatenate([self.tail, *new])
        if len(tail) <= LARGEST_TAIL:
            return JournalIndex(walk.end, self.rows, tail)
        return JournalIndex(walk.end, np.concatenate([self.rows, tail]))

    def proves(self, entry: Entry) -> bool:
        """Tell whether a line is as it was when it was walked."""
        if not 0 <= entry.sequence < self.count:
            return False
        mark = self._row_of(entry.sequence)["mark"]
        return bool(mark.tobytes() == _mark(entry))

    def stage(self, charge: int) -> str | None:
        """Return the last action of a charge: charge, open or release; None for what is no charge."""
        if not 0 <= charge < self.count or self._row_of(charge)["action"] != _CHARGE:
            return None
        stage = _CHARGE
        for line in self._lines_of("charge", charge, start=charge + 1):
            row = self._row_of(line)
            stage = max(stage, int(row["action"]))
        return ACTIONS[stage]

    def release_line(self, charge: int) -> int | None:
        """Return the line that says that a charge was released; None if there is none."""
        for line in self._lines_of("charge", charge, start=charge + 1):
            if self._row_of(line)["action"] == _RELEASE:
                return line
        return None

    def charges_keyed(self, definition: str) -> Iterator[int]:
        """Yield the charges that may have a definition, the newest first."""
        return self._keyed(definition, _CHARGE)

    def releases_keyed(self, sha256: str) -> Iterator[int]:
        """Yield the lines that may be of a release with this hash, the newest first."""
        return self._keyed(sha256, _RELEASE)

    def never_opened(self) -> list[int]:
        """Return the charges that were not opened."""
        rows = np.concatenate([self.rows, self.tail])
        charged = rows["charge"][rows["action"] == _CHARGE]
        opened = rows["charge"][rows["action"] == _OPEN]
        waiting: list[int] = np.setdiff1d(charged, opened).tolist()
        return waiting

    def to_bytes(self) -> bytes:
        """Write the index down, behind a digest of all of it."""
        assert self.end.state is not None  # noqa: S101 - an index without lines is not written
        state = self.end.state.text()
        header = {"format": FORMAT, "sequence": self.end.sequence, "hash": self.end.hash, "state": state}
        text = canonical_json(header).encode()
        length = len(text).to_bytes(_LENGTH_BYTES, "big")
        content = b"".join((length, text, self.rows.tobytes(), self.tail.tobytes()))
        return _digest(content) + content

    @classmethod
    def from_bytes(cls, written: bytes) -> JournalIndex | None:
        """Read `to_bytes` back; None if any bit is another, or another version wrote it."""
        content = memoryview(written)[_DIGEST_BYTES:]
        if written[:_DIGEST_BYTES] != _digest(content):
            return None
        length = int.from_bytes(content[:_LENGTH_BYTES], "big")
        start = _LENGTH_BYTES + length
        try:
            header = json.loads(bytes(content[_LENGTH_BYTES:start]))
            rows = np.frombuffer(content[start:], ROW)
            if header["format"] != FORMAT or len(rows) != header["sequence"] + 1:
                return None
            state = State.read(header["state"])
            end = ChainEnd(header["sequence"], header["hash"], state)
        except (LookupError, TypeError, ValueError, VestryError):
            return None
        return cls(end, rows)

    def _row_of(self, line: int) -> Any:
        first = len(self.rows)
        return self.rows[line] if line < first else self.tail[line - first]

    def _keyed(self, text: str, action: int) -> Iterator[int]:
        key = _key(text)
        lines = self._lines_of("key", key)
        return (line for line in reversed(lines) if self._row_of(line)["action"] == action)

    def _lines_of(self, column: str, value: int, start: int = 0) -> list[int]:
        """Return the numbers of the lines from `start` on that have a value in a column."""
        first = len(self.rows)
        start_of_tail = max(start - first, 0)
        among_rows = np.flatnonzero(self.rows[column][start:] == value) + start
        among_tail = np.flatnonzero(self.tail[column][start_of_tail:] == value) + start_of_tail + first
        return [*among_rows.tolist(), *among_tail.tolist()]


def _row(entry: Entry, facts: dict[str, Any]) -> tuple[int, int, bytes, int]:
    """Return what is kept of a line that was proved."""
    action = ACTIONS.index(entry.action)
    if entry.action == "release" and "release_sha256" not in facts:
        raise LedgerCorrupt("a line says that there is a release, and not which", entry.sequence)
    charge = entry.sequence if entry.action == "charge" else entry.target or 0
    looked_up_by = _KEYED.get(entry.action, "")
    text = facts.get(looked_up_by)
    key = 0 if text is None else _key(str(text))
    return charge, key, _mark(entry), action


def _mark(entry: Entry) -> bytes:
    """Return 16 bytes by which a line is recognised: they depend on every part of it."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in (str(entry.sequence), entry.action, str(entry.target), entry.body, entry.previous, entry.hash):
        encoded = piece.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.digest()


def _key(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


# By which fact a line is looked up.
_KEYED = {"charge": "definition", "release": "release_sha256"}
