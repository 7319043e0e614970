"""One line of the journal, the hash that chains it to the lines before, and the walk that proves them one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from vestry.errors import LedgerCorrupt
from vestry.ledger.privacy_filter import PrivacyFilter, Spent

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
        if type(entry.sequence) is not int:
            raise LedgerCorrupt(UNREADABLE)
        texts = (entry.action, entry.body, entry.previous, entry.hash)
        has_texts = all(type(text) is str for text in texts)
        if not has_texts or not isinstance(entry.target, int | None):
            raise LedgerCorrupt(UNREADABLE, entry.sequence)
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
        return {**vars(self), "body": self.facts}


def seal(sequence: int, action: str, target: int | None, body: str, previous: str, *, state: str) -> tuple[Entry, str]:
    """Chain a new line. Its hash covers its content and the state it leads to, which the head keeps with the content's.

    Returns
    -------
    The line, and the hash of its content alone.
    """
    content = _digest("vestry-ledger-1", str(sequence), action, str(target), body, previous)
    return Entry(sequence, action, target, body, previous, hash_line(sequence, content, state)), content


def hash_line(sequence: int, content: str, state: str) -> str:
    """Return the hash of a line from its number, the hash of its content and the state it leads to."""
    return _digest(str(sequence), content, state)


def _digest(*pieces: str) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        encoded = piece.encode()
        length = len(encoded).to_bytes(8, "big")
        digest.update(length + encoded)
    return digest.hexdigest()


def canonical_json(value: Any) -> str:
    """Write JSON in the one way that is hashed: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


class State(NamedTuple):
    """The filter in force and what is spent; its text is covered by the hash of the line that led to it."""

    filter: PrivacyFilter
    spent: Spent

    def text(self) -> str:
        """Return the one text that is hashed and kept in the head: a line for the filter, a line for what is spent."""
        return f"{_filter_text(self.filter)}\n{canonical_json(self.spent.to_dict())}"

    @classmethod
    def read(cls, text: str) -> State:
        """Read `text` back."""
        try:
            fixed, spent = text.split("\n")
            state = cls(_read_filter(fixed), Spent.from_dict(json.loads(spent)))
            if not state.filter.fits(state.spent):
                raise ValueError
            return state
        except _UNREADABLE:
            raise LedgerCorrupt("its head cannot be read") from None


@lru_cache(maxsize=16)
def _filter_text(fixed: PrivacyFilter) -> str:
    return canonical_json(fixed.to_dict())


@lru_cache(maxsize=16)
def _read_filter(text: str) -> PrivacyFilter:
    return PrivacyFilter.from_dict(json.loads(text))


@dataclass(frozen=True)
class ChainEnd:
    """The last line that was proved, and the state that it leads to; before the first line there is none."""

    sequence: int = -1
    hash: str = GENESIS
    state: State | None = None


def never_charged(charge: int) -> str | None:
    """Return how far a charge had come before the first line: there was none."""
    return None


class JournalWalk:
    """Walks a journal line by line, recomputing every hash and total; stops at the first that does not hold.

    Parameters
    ----------
    start
        Where an earlier walk ended; before the first line if omitted.
    stage_before
        The last action of a charge (charge, open or release) before this walk; None for what is no charge.
    """

    def __init__(
        self, start: ChainEnd | None = None, stage_before: Callable[[int], str | None] = never_charged
    ) -> None:
        self.end = start or ChainEnd()
        self.content = ""
        self._stage_before = stage_before
        self._stages: dict[int, str] = {}

    def over(self, entries: Iterable[Entry], *, head: str | None = None) -> ChainEnd:
        """Walk every line and return where the walk ends; `head`, if it is given, must be some line's hash."""
        head_seen = head is None
        for entry in entries:
            self.step(entry)
            head_seen = head_seen or entry.hash == head
        if self.end.state is None:
            raise LedgerCorrupt("it has no lines")
        if not head_seen:
            raise LedgerCorrupt("no line has the hash asked for, so the tail was cut or the file was swapped")
        return self.end

    def step(self, entry: Entry) -> dict[str, Any]:
        """Prove the next line and return its body, read."""
        sequence = self.end.sequence + 1
        try:
            facts = entry.facts
            state = self._after(sequence, entry, facts)
            text = state.text()
            again, self.content = seal(sequence, entry.action, entry.target, entry.body, self.end.hash, state=text)
        except LedgerCorrupt as fault:
            raise LedgerCorrupt(fault.reason, sequence) from None
        except _UNREADABLE:
            raise LedgerCorrupt(UNREADABLE, sequence) from None
        if again != entry:
            raise LedgerCorrupt("the line was changed, or one is missing before it", sequence)
        self.end = ChainEnd(sequence, entry.hash, state)
        return facts

    def _after(self, sequence: int, entry: Entry, facts: dict[str, Any]) -> State:
        """Return the state that a line leads to, or say which rule it breaks."""
        before = self.end.state
        if (entry.action == "create") != (before is None):
            raise LedgerCorrupt("a journal begins with its creation, once")
        if before is None:
            fixed = PrivacyFilter.from_dict(facts["filter"])
            return State(fixed, fixed.nothing)
        current, spent = before
        if entry.action == "charge":
            self._stages[sequence] = "charge"
            if current.undecided or "filter" in facts:
                current = _decided(current, facts)
                spent = current.nothing
            spent = spent.plus(Spent.from_dict(facts["price"]))
            if not current.holds(spent):
                raise LedgerCorrupt("the charge exceeds the budget")
        elif entry.action == "amend":
            raised = PrivacyFilter.from_dict(facts["filter"])
            if not raised.covers(current):
                raise LedgerCorrupt("the amendment lowers the budget")
            current = raised
        else:
            if entry.target is None or self._stage(entry.target) != BEFORE[entry.action]:
                raise LedgerCorrupt("the line follows no charge in the right state")
            self._stages[entry.target] = entry.action
        return State(current, spent)

    def _stage(self, charge: int) -> str | None:
        """Return the last action of a charge, in this walk or before it."""
        stage = self._stages.get(charge)
        return self._stage_before(charge) if stage is None else stage


def _decided(current: PrivacyFilter, facts: dict[str, Any]) -> PrivacyFilter:
    """Return the filter that a charge leaves in force: the first one decides, and writes down what is not equal."""
    if "filter" not in facts:
        return current.decided()
    chosen = PrivacyFilter.from_dict(facts["filter"])
    if not current.may_become(chosen):
        raise LedgerCorrupt("the charge chooses a filter that it cannot choose")
    return chosen


# What reading a changed text may raise.
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
# What must have happened to a charge before it is opened and before it is released.
BEFORE = {"open": "charge", "release": "open"}
