"""The course of one release through the ledger: charged, opened, released, each once; from where it stands, onward."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vestry.data import Table
from vestry.data.query import check_column
from vestry.errors import AskedBefore, BudgetExceeded, InvalidParameter, LedgerStateError, MissingExtra, VestryError
from vestry.ledger import Charge, Ledger
from vestry.ledger.entry import Entry
from vestry.ledger.privacy_filter import PrivacyFilter, Spent
from vestry.model.request import PreparedRelease
from vestry.noise import NoiseSource
from vestry.pipeline import charge_for, ready_for, run
from vestry.posterior.posterior import Posterior, Rows
from vestry.posterior.reader import DRAWS
from vestry.releases import Release
from vestry.study.cache import Cache
from vestry.study.charges import CHARGED, KEPT, NEW, OPENED, Charges
from vestry.study.config import StudyConfig
from vestry.study.release_spec import ReleaseSpec
from vestry.study.remaining_budget import refused
from vestry.study.storage import POSTERIOR, ReleaseStore

RELEASED, RESUMED, FREE = "released", "resumed, at no new cost", "released before, free"


@dataclass(frozen=True)
class ReleaseOutcome:
    """What became of a release.

    Attributes
    ----------
    name, done
        The release, and what was done.
    release
        What was published.
    summary
        The posterior's rows; or the draws, where draws were released.
    moved
        Where another release went that lay in its place; None if none did.
    """

    name: str
    done: str
    release: Release
    summary: Rows
    moved: Path | None = None

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior, computed when it is first asked for."""
        return Posterior.from_release(self.release)

    @property
    def computed(self) -> Posterior | None:
        """The posterior, if it was asked for; None if it was not."""
        return self.__dict__.get("posterior")


@dataclass(frozen=True)
class ReleaseRunner:
    """What the releases of a study have in common as they run; `again` pays again for what was released before."""

    declaration: StudyConfig
    ledger: Ledger
    table: Table
    folder: ReleaseStore
    again: bool
    noise: NoiseSource | None

    def run(self, asked: ReleaseSpec, charges: Charges) -> ReleaseOutcome:
        """Take a release from where it stands to its files; from anew, if another process asks the same meanwhile."""
        for _ in range(_TRIES):
            with suppress(AskedBefore):
                return self._run(asked, charges)
            charges = Charges.of(self.ledger)
        raise LedgerStateError(f"{asked.name} is being released by other processes; wait for them, and run it again.")

    def _run(self, asked: ReleaseSpec, charges: Charges) -> ReleaseOutcome:
        state, entry = charges.standing(asked.request.definition(self.declaration.frame))
        if entry is not None and state == OPENED:
            # A saved file that was changed is as good as lost.
            with suppress(VestryError) if self.again else nullcontext():
                content = self._finished(asked, entry)
                if content is not None and not self.again:
                    return self._written(asked, entry, content, FREE, charges)
        if entry is not None and state == KEPT and not self.again:
            return self._kept(asked, entry, charges)
        if entry is not None and state == OPENED and not self.again:
            raise LedgerStateError(
                f"{asked.name} was opened by entry {entry.sequence} and its release was lost, unless another process is"
                f" making it in another folder; noise is never drawn twice for one charge; {self._pay_again(asked)}"
            )
        prepared = self._ready(asked)
        done, charge = RESUMED, None if entry is None else Charge(self.ledger, entry)
        if charge is None or state != CHARGED or not self._paid(asked, charge, prepared):
            done, charge = RELEASED, self._charged(asked, prepared)
        made = self._made(asked, prepared, charge)
        return self._written(asked, charge.entry, made.text().encode(), done, charges)

    def _charged(self, asked: ReleaseSpec, prepared: PreparedRelease) -> Charge:
        """Charge, unless the same question was charged since it was looked up."""
        frame, purpose = self.declaration.frame, f"{asked.name}: {asked.purpose}"
        try:
            return charge_for(asked.request, prepared, frame, self.ledger, purpose=purpose, once=not self.again)
        except BudgetExceeded:
            now = self.ledger.state()
            raise refused(asked, now.filter, now.spent, self._price(prepared, now.filter)) from None

    def _made(self, asked: ReleaseSpec, prepared: PreparedRelease, charge: Charge) -> Release:
        """Draw, and save what was drawn before the ledger is told."""
        unsaved: list[VestryError] = []

        def keep(text: str) -> None:
            try:
                self.folder.keep(asked.name, charge.entry, text)
            except VestryError as error:
                unsaved.append(error)
                raise

        try:
            return run(prepared, self.table, charge, noise=self.noise, keep=keep)
        except LedgerStateError:
            raise LedgerStateError(
                f"entry {charge.sequence}, which pays for {asked.name}, was taken up by another process meanwhile; its"
                " release is in the folder of that process: wait for it, and run it again."
            ) from None
        except VestryError as error:
            if error not in unsaved:
                raise
            raise VestryError(
                f"{str(error).removesuffix('.')}. What was drawn for {asked.name} is lost, and entry {charge.sequence}"
                f" stays spent; {self._pay_again(asked)}"
            ) from None

    def afford(self, asked: Sequence[ReleaseSpec], charges: Charges) -> None:
        """Refuse releases that do not fit the budget together, before the first of them is charged."""
        due = self._due(asked, charges)
        if len(due) < 2:
            return
        state = self.ledger.state()
        spent = state.spent
        for place, each in enumerate(due):
            price = self._price(self._ready(each), state.filter)
            if not state.filter.holds(spent.plus(price)):
                before = [other.name for other in due[:place]]
                raise refused(each, state.filter, spent, price, before)
            spent = spent.plus(price)

    def _due(self, asked: Sequence[ReleaseSpec], charges: Charges) -> list[ReleaseSpec]:
        """Return what will be charged, each question once; a charge that was not opened may be resumed."""
        frame, due = self.declaration.frame, dict[str, ReleaseSpec]()
        for each in asked:
            definition = each.request.definition(frame)
            state, _ = charges.standing(definition)
            if state == NEW or (self.again and state != CHARGED):
                due.setdefault(each.name if self.again else definition, each)
        return list(due.values())

    def recognise(self, asked: ReleaseSpec, charges: Charges) -> None:
        """Refuse a folder whose certificate is of a release that the ledger does not know, before anything is charged.

        It was paid for: by another ledger, or by this one before it was lost, cut short or put back from an old copy.
        """
        sha256 = self.folder.certified(asked.name)
        if sha256 is None or sha256 in charges.by_hash():
            return
        entry = self.folder.facts(asked.name).get("entry")
        raise LedgerStateError(
            f"{asked.name} was paid for by entry {entry} of a ledger, and the ledger at {self.ledger.address} does not"
            " know that release: it is another ledger, or it was lost and made again, or put back from an old copy, and"
            " has forgotten what was spent; put the right ledger back, or, if this is another study's folder, name a"
            " new one by --output."
        )

    def _ready(self, asked: ReleaseSpec) -> PreparedRelease:
        with self.declaration.places.at(f"release.{asked.name}"):
            try:
                return ready_for(asked.request, self.table, self.ledger, n=self.declaration.n)
            except InvalidParameter:
                self._look(asked)
                raise

    def _look(self, asked: ReleaseSpec) -> None:
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

    def _price(self, prepared: PreparedRelease, filter: PrivacyFilter) -> Spent:
        return filter.price(prepared.mechanism.charge.under(self.declaration.frame.neighbours))

    def _pay_again(self, asked: ReleaseSpec) -> str:
        file = self.declaration.path.name
        return f"to pay again write: vestry release {file} {asked.name} --again, or leave it out."

    def _paid(self, asked: ReleaseSpec, charge: Charge, prepared: PreparedRelease) -> bool:
        """Tell whether an old charge pays for what would run; if not, and `again` is not asked for, refuse."""
        event = prepared.mechanism.charge.under(self.declaration.frame.neighbours)
        if charge.entry.facts["event"] == event.to_dict():
            return True
        if not self.again:
            raise LedgerStateError(
                f"{asked.name} was charged by entry {charge.sequence} for another number of records or another"
                f" calibration than would run now; {self._pay_again(asked)}"
            )
        return False

    def _finished(self, asked: ReleaseSpec, entry: Entry) -> bytes | None:
        """Tell the ledger of a release that was saved just before a crash, and return it; None if none was."""
        content = self.folder.saved(asked.name, entry)
        if content is not None:
            Charge(self.ledger, entry).finish(content)  # unless another process has told it since
        return content

    def _kept(self, asked: ReleaseSpec, entry: Entry, charges: Charges) -> ReleaseOutcome:
        """Return a release that the ledger knows, by the file that has its hash."""
        content = self.folder.find(asked.name, charges.releases[entry.sequence])
        if content is None:
            raise InvalidParameter(
                f"the release {asked.name}",
                "not in this folder",
                f"as entry {entry.sequence} released it",
                f"its folder by --output, or, {self._pay_again(asked).removesuffix('.')}",
            )
        return self._written(asked, entry, content, FREE, charges)

    def _written(self, asked: ReleaseSpec, entry: Entry, content: bytes, done: str, charges: Charges) -> ReleaseOutcome:
        """Put the release in its place, write its certificate, and then what follows from it."""
        sha256 = hashlib.sha256(content).hexdigest()
        moved = None
        if not self.folder.holds(asked.name, sha256):
            moved = self.folder.settle(asked.name, entry, content, {**charges.by_hash(), sha256: entry.sequence})
        record = json.loads(content)
        known = self.folder.facts(asked.name)
        if (known.get("entry"), known.get("release_sha256")) != (entry.sequence, sha256):
            self._certify(asked, entry, record, sha256)
        outcome = ReleaseOutcome(asked.name, done, Release.from_dict(record), [], moved)
        outcome.summary.extend(self._summary(outcome, sha256))
        return outcome

    def _certify(self, asked: ReleaseSpec, entry: Entry, record: dict[str, object], sha256: str) -> None:
        state = self.ledger.state()
        self.folder.certify(
            asked.name,
            {
                "certificate": record["certificate"],
                "release": asked.name,
                "question": asked.request.model.question(),
                "purpose": asked.purpose,
                "ledger": self.ledger.address,
                "entry": entry.sequence,
                "spent": str(asked.request.guarantee),
                "remaining": state.filter.left(state.spent),
                "release_sha256": sha256,
            },
        )

    def _summary(self, outcome: ReleaseOutcome, sha256: str) -> Rows:
        """Return the posterior's rows, and see that the file of its draws is there; both as they were kept."""
        cache, name, facts = Cache(self.folder.path), f"summary-{outcome.name}", {"release": sha256, "level": 0.9}
        kept = cache.read(name, facts)
        if kept is not None and kept["draws"] == self.folder.hash_of(outcome.name, POSTERIOR):
            return list(kept["rows"]) if kept["rows"] is not None else summary_of(outcome.posterior)
        with suppress(MissingExtra):  # hidden states are sampled by an extra; a later run writes them
            self._save_draws(outcome, sha256)
            rows = summary_of(outcome.posterior)
            drawn = outcome.posterior.label == DRAWS
            written = self.folder.hash_of(outcome.name, POSTERIOR)
            cache.keep(name, facts, {"rows": None if drawn else rows, "draws": written})
            return rows
        return []

    def _save_draws(self, outcome: ReleaseOutcome, sha256: str) -> None:
        from vestry.posterior.draw_file import draw_file

        self.folder.save_posterior(outcome.name, draw_file(outcome.posterior, sha256))


def summary_of(posterior: Posterior) -> Rows:
    """Return the rows of a posterior's table; of released draws, the draws."""
    if posterior.label == DRAWS:
        return [{"group": group, "draw": row.tolist()} for group, rows in posterior.draw().items() for row in rows]
    return posterior.summary()


# How often a release begins anew because another process charged the same question.
_TRIES = 5
