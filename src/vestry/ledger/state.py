"""What a journal adds up to, and the walk that proves it line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from vestry.errors import LedgerCorrupt
from vestry.ledger.entry import GENESIS, UNREADABLE, Entry, canonical, seal
from vestry.ledger.privacy_filter import PrivacyFilter, Spent


class State(NamedTuple):
    """The filter in force and what is spent; its text is covered by the hash of the line that led to it."""

    filter: PrivacyFilter
    spent: Spent

    def text(self) -> str:
        """Return the one text that is hashed and kept in the head: a line for the filter, a line for what is spent."""
        return f"{_written(self.filter)}\n{canonical(self.spent.to_dict())}"

    @classmethod
    def read(cls, text: str) -> State:
        """Read `text` back."""
        try:
            fixed, spent = text.split("\n")
            state = cls(_filter(fixed), Spent.from_dict(json.loads(spent)))
            if not state.filter.fits(state.spent):
                raise ValueError
            return state
        except _UNREADABLE:
            raise LedgerCorrupt("its head cannot be read") from None


@lru_cache(maxsize=16)
def _written(fixed: PrivacyFilter) -> str:
    return canonical(fixed.to_dict())


@lru_cache(maxsize=16)
def _filter(text: str) -> PrivacyFilter:
    return PrivacyFilter.from_dict(json.loads(text))


class Walk:
    """Walks a journal from its first line, recomputing every hash and total; stops at the first that does not hold."""

    def __init__(self) -> None:
        self.last: Entry | None = None
        self.state: State | None = None
        self.content = ""
        self._actions: dict[int, str] = {}

    def over(self, entries: Iterable[Entry], *, kept: str | None = None) -> tuple[Entry, State]:
        """Return the last line and the state it leads to; the kept hash, if there is one, must be some line's."""
        found = kept is None
        for sequence, entry in enumerate(entries):
            try:
                self.state = self._after(sequence, entry, entry.facts)
                previous = self.last.hash if self.last else GENESIS
                again, self.content = seal(
                    sequence, entry.action, entry.target, entry.body, previous, state=self.state.text()
                )
            except _UNREADABLE as fault:
                reason = fault.reason if isinstance(fault, LedgerCorrupt) else UNREADABLE
                raise LedgerCorrupt(reason, sequence) from None
            if again != entry:
                raise LedgerCorrupt("the line was changed, or one is missing before it", sequence)
            self.last = entry
            found = found or entry.hash == kept
        if self.last is None or self.state is None:
            raise LedgerCorrupt("it has no lines")
        if not found:
            raise LedgerCorrupt("no line has the hash asked for, so the tail was cut or the file was swapped")
        return self.last, self.state

    def _after(self, sequence: int, entry: Entry, facts: dict[str, Any]) -> State:
        """Return the state that a line leads to, or say which rule it breaks."""
        if (entry.action == "create") != (self.state is None):
            raise LedgerCorrupt("a journal begins with its creation, once")
        if self.state is None:
            fixed = PrivacyFilter.from_dict(facts["filter"])
            return State(fixed, fixed.nothing)
        current, spent = self.state
        if entry.action == "charge":
            self._actions[sequence] = "charge"
            spent = spent.plus(Spent.from_dict(facts["price"]))
            if not current.holds(spent):
                raise LedgerCorrupt("the charge exceeds the budget")
        elif entry.action == "amend":
            raised = PrivacyFilter.from_dict(facts["filter"])
            if not raised.covers(current):
                raise LedgerCorrupt("the amendment lowers the budget")
            current = raised
        else:
            if entry.target is None or self._actions.get(entry.target) != BEFORE[entry.action]:
                raise LedgerCorrupt("the line follows no charge in the right state")
            self._actions[entry.target] = entry.action
        return State(current, spent)


# What reading a changed text may raise.
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
# What must have happened to a charge before it is opened and before it is released.
BEFORE = {"open": "charge", "release": "open"}
