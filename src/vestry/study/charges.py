"""What a ledger knows of a study's questions, read once: the newest charge for each, and the charge of each release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from vestry.errors import LedgerCorrupt
from vestry.ledger import Ledger
from vestry.ledger.entry import Entry

NEW, KEPT, CHARGED, OPENED = "new", "released before", "charged before", "opened before"


@dataclass(frozen=True)
class Charges:
    """The charges of a ledger at one moment.

    Attributes
    ----------
    questions
        The newest charge with each definition.
    opened
        The charges that were opened.
    releases
        The hash of the file of each charge that was released.
    last
        When the newest line was written, by the clock of the machine that wrote it; empty if it does not say.
    """

    questions: Mapping[str, Entry]
    opened: frozenset[int]
    releases: Mapping[int, str]
    last: str

    @classmethod
    def of(cls, ledger: Ledger) -> Charges:
        """Read the lines once, in their order."""
        questions: dict[str, Entry] = {}
        opened: set[int] = set()
        releases: dict[int, str] = {}
        last = ""
        for entry in ledger.entries():
            facts = entry.facts
            last = str(facts.get("when", last))
            if entry.action == "charge" and "definition" in facts:
                questions[str(facts["definition"])] = entry
            elif entry.action == "open" and entry.target is not None:
                opened.add(entry.target)
            elif entry.action == "release" and entry.target is not None:
                if "release_sha256" not in facts:
                    raise LedgerCorrupt("a line says that there is a release, and not which", entry.sequence)
                releases[entry.target] = str(facts["release_sha256"])
        return cls(questions, frozenset(opened), releases, last)

    def standing(self, definition: str) -> tuple[str, Entry | None]:
        """Say what the ledger knows of a question: the newest charge for it, and how far it went."""
        entry = self.questions.get(definition)
        if entry is None:
            return NEW, None
        if entry.sequence in self.releases:
            return KEPT, entry
        return OPENED if entry.sequence in self.opened else CHARGED, entry

    def by_hash(self) -> dict[str, int]:
        """Return the charge of each release by the hash of its file."""
        return {sha256: charge for charge, sha256 in self.releases.items()}

    def ahead_of(self, now: datetime) -> bool:
        """Tell whether the newest line bears a later time than this one, by more than clocks differ."""
        try:
            return (datetime.fromisoformat(self.last) - now).total_seconds() > _CLOCKS_S
        except (ValueError, TypeError):
            return False


# Two machines' clocks may differ by this much, in seconds.
_CLOCKS_S = 120.0
