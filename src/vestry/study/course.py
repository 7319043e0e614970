"""The course of one release through the ledger: charged, opened, released, each once; from where it stands, onward."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial

from vestry.certificate import Release
from vestry.data import Table
from vestry.data.query import check_column
from vestry.errors import BudgetExceeded, EntryState, InvalidParameter, VestryError
from vestry.ledger import Charge, Ledger
from vestry.ledger.filter import Filter, Spent
from vestry.models.request import Frame, Prepared
from vestry.models.run import charge_for, ready_for, run
from vestry.noise import Noise
from vestry.posterior import Posterior
from vestry.study.asked import Asked
from vestry.study.declaration import Declaration
from vestry.study.folder import Folder
from vestry.study.room import refused

NEW, KEPT, CHARGED, OPENED = "new", "released before", "charged before", "opened before"


@dataclass(frozen=True)
class Outcome:
    """What became of a release: its name, what was done, and its posterior."""

    name: str
    done: str
    posterior: Posterior


def standing(asked: Asked, frame: Frame, ledger: Ledger) -> tuple[str, Charge | None]:
    """Say what the ledger knows of a release: the newest charge with its definition."""
    definition = asked.request.definition(frame)
    found: tuple[str, Charge | None] = (NEW, None)
    for entry, done in ledger.charges():
        if entry.facts.get("definition") == definition:
            state = KEPT if "release" in done else OPENED if "open" in done else CHARGED
            found = state, ledger.resume(entry.sequence)
    return found


@dataclass(frozen=True)
class Course:
    """What the releases of a study have in common as they run; `again` pays again for what was released before."""

    declaration: Declaration
    ledger: Ledger
    table: Table
    folder: Folder
    again: bool
    noise: Noise | None

    def run(self, asked: Asked) -> Outcome:
        """Take a release from where it stands to its files."""
        frame = self.declaration.frame
        state, charge = standing(asked, frame, self.ledger)
        if charge is not None and state == OPENED:
            # A saved file that was changed is as good as lost.
            with suppress(VestryError) if self.again else nullcontext():
                state = KEPT if self._finished(asked, charge) else OPENED
        if charge is not None and state == KEPT and not self.again:
            return self._kept(asked, charge)
        if charge is not None and state == OPENED and not self.again:
            raise EntryState(
                f"{asked.name} was opened by entry {charge.sequence} and its release was lost; noise"
                f" is never drawn twice for one charge; {self._pay_again(asked)}"
            )
        prepared = self._ready(asked)
        done = "resumed, at no new cost"
        if charge is None or state != CHARGED or not self._paid(asked, charge, prepared):
            done = "released"
            purpose = f"{asked.name}: {asked.purpose}"
            try:
                charge = charge_for(asked.request, prepared, frame, self.ledger, purpose=purpose)
            except BudgetExceeded:
                now = self.ledger.state()
                raise refused(asked, now.filter, now.spent, self._price(prepared, now.filter)) from None
        keep = partial(self.folder.keep, asked.name, charge.sequence)
        made = run(prepared, self.table, charge, noise=self.noise, keep=keep)
        return self._written(asked, charge, made.text().encode(), done)

    def afford(self, asked: Sequence[Asked]) -> None:
        """Refuse releases that do not fit the budget together, before the first of them is charged."""
        state = self.ledger.state()
        spent, due = state.spent, self._due(asked)
        for place, each in enumerate(due if len(due) > 1 else ()):
            price = self._price(self._ready(each), state.filter)
            if not state.filter.holds(spent.plus(price)):
                before = [other.name for other in due[:place]]
                raise refused(each, state.filter, spent, price, before)
            spent = spent.plus(price)

    def _due(self, asked: Sequence[Asked]) -> list[Asked]:
        """Return what will be charged, each question once; a charge that was not opened may be resumed."""
        frame, due = self.declaration.frame, dict[str, Asked]()
        for each in asked:
            state, _ = standing(each, frame, self.ledger)
            if state == NEW or (self.again and state != CHARGED):
                due.setdefault(each.name if self.again else each.request.definition(frame), each)
        return list(due.values())

    def _ready(self, asked: Asked) -> Prepared:
        with self.declaration.places.at(f"release.{asked.name}"):
            try:
                return ready_for(asked.request, self.table, self.ledger, n=self.declaration.n)
            except InvalidParameter:
                self._look(asked)
                raise

    def _look(self, asked: Asked) -> None:
        """Point at the data, at a column or at the person, if one of them is why a release cannot be made ready."""
        said, person = self.declaration, self.declaration.frame.unit.person
        columns = asked.request.model.columns
        with said.places.at("study.data"):
            schema = self.table.schema(*columns, *filter(None, (person,)))
        for column in columns:
            with said.places.at(f"columns.{column}"):
                check_column(schema, column)
        if person is not None:
            with said.places.at("study.unit.person"):
                check_column(schema, person)

    def _price(self, prepared: Prepared, filter: Filter) -> Spent:
        return filter.price(prepared.mechanism.charge.under(self.declaration.frame.neighbours))

    def _pay_again(self, asked: Asked) -> str:
        file = self.declaration.path.name
        return f"to pay again write: vestry release {file} {asked.name} --again, or leave it out."

    def _paid(self, asked: Asked, charge: Charge, prepared: Prepared) -> bool:
        """Tell whether an old charge pays for what would run; if not, and `again` is not asked for, refuse."""
        event = prepared.mechanism.charge.under(self.declaration.frame.neighbours)
        if charge.entry.facts["event"] == event.to_dict():
            return True
        if not self.again:
            raise EntryState(
                f"{asked.name} was charged by entry {charge.sequence} for another number of records or another"
                f" calibration than would run now; {self._pay_again(asked)}"
            )
        return False

    def _finished(self, asked: Asked, charge: Charge) -> bool:
        """Tell the ledger of a release that was saved just before a crash."""
        content = self.folder.saved(asked.name, charge.sequence)
        if content is None:
            return False
        charge.finish(content)  # unless another process has told it since
        return True

    def _kept(self, asked: Asked, charge: Charge) -> Outcome:
        """Return a release that the ledger knows, by the file that has its hash."""
        content = self.folder.find(asked.name, next(sha for sha, entry in self._released() if entry == charge.sequence))
        if content is None:
            raise InvalidParameter(
                f"the release {asked.name}",
                "not in this folder",
                f"as entry {charge.sequence} released it",
                f"its folder by --output, or, {self._pay_again(asked).removesuffix('.')}",
            )
        return self._written(asked, charge, content, "released before, free")

    def _released(self) -> Iterator[tuple[str, int]]:
        """Yield the hash of each release that the ledger knows, and its charge."""
        for entry in self.ledger.entries():
            if entry.action == "release":
                yield str(entry.facts["release_sha256"]), entry.target or 0

    def _written(self, asked: Asked, charge: Charge, content: bytes, done: str) -> Outcome:
        """Put the release in its place and write what follows from it, the certificate last."""
        sha256 = hashlib.sha256(content).hexdigest()
        if not self.folder.holds(asked.name, sha256):
            self.folder.settle(asked.name, charge.sequence, content, dict(self._released()))
        record = json.loads(content)
        posterior = Posterior.from_release(Release.from_dict(record))
        known = self.folder.facts(asked.name)
        there = (known.get("entry"), known.get("release_sha256")) == (charge.sequence, sha256)
        if not there or not self.folder.has_posterior(asked.name):
            self.folder.save_posterior(asked.name, posterior, sha256)
        if not there:
            state = self.ledger.state()
            self.folder.certify(
                asked.name,
                {
                    "certificate": record["certificate"],
                    "release": asked.name,
                    "question": asked.request.model.question(),
                    "purpose": asked.purpose,
                    "ledger": self.ledger.address,
                    "entry": charge.sequence,
                    "spent": str(asked.request.guarantee),
                    "remaining": state.filter.left(state.spent),
                    "release_sha256": sha256,
                },
            )
        return Outcome(asked.name, done, posterior)
