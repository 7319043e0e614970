"""One line of the journal, and the hash that chains it to the lines before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vestry.errors import LedgerCorrupt

ACTIONS = ("create", "charge", "open", "release", "amend")
GENESIS = "0" * 64
UNREADABLE = "the line cannot be read"


@dataclass(frozen=True)
class Entry:
    """What happened, in order.

    Attributes
    ----------
    sequence
        0 for the creation, then 1, 2, ...
    action
        One of create, charge, open, release, amend.
    target
        The charge that an `open` or `release` belongs to.
    body
        Canonical JSON: what was charged, why, by whom, when, with which versions.
    previous, hash
        The hash of the line before and of this one.
    """

    sequence: int
    action: str
    target: int | None
    body: str
    previous: str
    hash: str

    @classmethod
    def read(cls, row: Sequence[Any]) -> Entry:
        """Read a line as the database has it; refuse one whose values are of other types."""
        entry = cls(*row)
        texts = (entry.action, entry.body, entry.previous, entry.hash)
        numbers = (entry.sequence, 0 if entry.target is None else entry.target)
        if not all(type(x) is str for x in texts) or not all(type(x) is int for x in numbers):
            raise LedgerCorrupt(UNREADABLE, entry.sequence if type(entry.sequence) is int else None)
        return entry

    @property
    def facts(self) -> dict[str, Any]:
        """The body, read."""
        try:
            facts = json.loads(self.body)
        except (TypeError, ValueError, RecursionError):
            facts = None
        if not isinstance(facts, dict):
            raise LedgerCorrupt(UNREADABLE, self.sequence)
        return facts

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain values, its body opened."""
        return {
            "sequence": self.sequence,
            "action": self.action,
            "target": self.target,
            "body": self.facts,
            "previous": self.previous,
            "hash": self.hash,
        }


def seal(sequence: int, action: str, target: int | None, body: str, previous: str, *, state: str) -> tuple[Entry, str]:
    """Chain a new line. Its hash covers its content and the state it leads to, which the head keeps with the content's.

    Returns
    -------
    The line, and the hash of its content alone.
    """
    content = _digest("vestry-ledger-1", str(sequence), action, str(target), body, previous)
    return Entry(sequence, action, target, body, previous, joined(sequence, content, state)), content


def joined(sequence: int, content: str, state: str) -> str:
    """Return the hash of a line from its number, the hash of its content and the state it leads to."""
    return _digest(str(sequence), content, state)


def _digest(*pieces: str) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        encoded = piece.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def canonical(value: Any) -> str:
    """Write JSON in the one way that is hashed: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
