"""The journal as far as its chain was walked: whatever is decided by a line of it is asked here.

A look-up walks what was never walked before, from the first line or from where the index ends, up to the head. A line
that is read later is compared with what the walk saw. So one flipped bit is refused, and decides nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import vestry.ledger.statements as statements
from vestry.errors import LedgerCorrupt, LedgerStateError
from vestry.ledger.database import Database, Session, pages_of
from vestry.ledger.entry import Entry
from vestry.ledger.index_file import IndexFile
from vestry.ledger.journal_index import JournalIndex
from vestry.ledger.statements import Head

# Shorter journals have no index file, and one is written anew when it is so many lines behind: walking them again
# takes some milliseconds.
LINES_BEHIND = 256
# When a walk tells how far it is, for the first time and from then on, in seconds.
TELL_EVERY_S = 2.0

ReadLines = Callable[[int, int], Iterable[tuple[Any, ...]]]


@dataclass(frozen=True)
class JournalMoment:
    """The journal up to one line, all of whose chain was walked.

    Attributes
    ----------
    index
        What the walk saw of each line.
    fetch
        Reads a line again, as the database has it now.
    """

    index: JournalIndex
    fetch: Callable[[int], Entry | None]

    def line(self, number: int) -> Entry:
        """Return a line that is as it was when its chain was walked."""
        if not 0 <= number < self.index.count:
            raise LedgerStateError(f"the ledger has no entry {number}; see `vestry ledger show`.")
        entry = self.fetch(number)
        if entry is None or not self.index.proves(entry):
            raise LedgerCorrupt("the line was changed", number)
        return entry

    def last_line(self) -> Entry:
        """Return the newest line."""
        return self.line(self.index.end.sequence)

    def newest_charge(self, definition: str) -> Entry | None:
        """Return the newest charge with a definition; None if there is none."""
        return next(self.charges(definition), None)

    def charges(self, definition: str) -> Iterator[Entry]:
        """Yield every charge with a definition, the newest first."""
        for number in self.index.charges_keyed(definition):
            entry = self.line(number)
            if str(entry.facts.get("definition")) == definition:
                yield entry

    def stage(self, charge: int) -> str | None:
        """Return the last action of a charge: charge, open or release; None for what is no charge."""
        return self.index.stage(charge)

    def release_of(self, charge: int) -> str | None:
        """Return the hash of a charge's release; None if it has none."""
        number = self.index.release_line(charge)
        return None if number is None else str(self.line(number).facts["release_sha256"])

    def charge_of_release(self, sha256: str) -> int | None:
        """Return the charge whose release has this hash; None if there is none."""
        for number in self.index.releases_keyed(sha256):
            entry = self.line(number)
            if str(entry.facts["release_sha256"]) == sha256:
                return entry.target
        return None


class WalkedJournal:
    """Walks a ledger's journal, each line once, and remembers what it saw in the index."""

    def __init__(self, database: Database, first: Entry) -> None:
        self.first = first
        self._database = database
        self._file = IndexFile(database.address)
        self._index: JournalIndex | None = None
        self._written = 0

    def now(self) -> JournalMoment:
        """Walk up to the head of now, in many short readings."""
        with self._database.reading() as (_, head):
            pass
        index = self._walked_to(head, self._database.line_pages)
        self._save(index)
        return JournalMoment(index, self._fetch)

    def prepare(self) -> None:
        """Walk before a transaction, so that nobody waits for it."""
        if self._index is None:
            self.now()

    def within(self, session: Session, head: Head) -> JournalMoment:
        """Walk up to the head that a transaction holds: the few lines that were added since it was prepared."""

        def lines(start: int, end: int) -> Iterator[tuple[Any, ...]]:
            return pages_of(session, statements.LINES, start, end)

        return JournalMoment(self._walked_to(head, lines), lambda number: _read_line(session, number))

    def _walked_to(self, head: Head, lines: ReadLines) -> JournalIndex:
        """Return an index that covers the head's line, or refuse the first line that does not hold."""
        known = self._index
        if known is not None:
            return self._extended(known, head, lines)
        written = self._file.read(most_lines=head.sequence + 1)
        if written is not None:
            self._written = written.count
            try:
                return self._extended(written, head, lines)
            except LedgerCorrupt:
                # It may be of another ledger, or of an older copy of this one: the journal itself decides.
                self._written = 0
        return self._extended(JournalIndex(), head, lines)

    def _extended(self, known: JournalIndex, head: Head, lines: ReadLines) -> JournalIndex:
        rows = _telling(lines(known.count, head.sequence), known.count, head.sequence + 1)
        index = known.extended(map(Entry.read, rows))
        if index.end.sequence <= head.sequence and index.end.hash != head.hash:
            raise LedgerCorrupt("its head does not belong to its last line", head.sequence)
        if not index.proves(self.first):
            raise LedgerCorrupt("the line was changed", 0)
        if self._index is None or index.count > self._index.count:
            self._index = index
        return index

    def _save(self, index: JournalIndex) -> None:
        """Write the index where it saves a long walk; where it cannot be written, the next process walks again."""
        if index.count - self._written >= LINES_BEHIND:
            self._file.write(index)
            self._written = index.count

    def _fetch(self, number: int) -> Entry | None:
        with self._database.reading() as (session, _):
            return _read_line(session, number)


def _read_line(session: Session, number: int) -> Entry | None:
    row = session.one(statements.ONE_LINE, number=number)
    return None if row is None else Entry.read(row)


def _telling(rows: Iterable[tuple[Any, ...]], start: int, total: int) -> Iterator[tuple[Any, ...]]:
    """Pass lines on; where a terminal looks on, tell how far a long walk is."""
    told = time.monotonic()
    for number, row in enumerate(rows, start):
        yield row
        if number % LINES_BEHIND == 0 and time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            if sys.stderr.isatty():
                sys.stderr.write(f"checking the ledger: {number:,} of {total:,} entries\n")
