"""A study: what its file declares, what it would cost and give, and its releases."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.data import Table
from vestry.data.connect import is_missing
from vestry.errors import IN_LEDGER, DeclarationMismatch, LedgerMissing, VestryError
from vestry.ledger import Ledger
from vestry.ledger.privacy_filter import PrivacyFilter
from vestry.noise import NoiseSource
from vestry.planning import ASSUMED, Forecast, budget_for_width, choose_mechanism, forecasts
from vestry.posterior import Posterior
from vestry.privacy.guarantee import Guarantee
from vestry.study.charges import KEPT, NEW, Charges
from vestry.study.config import StudyConfig, read
from vestry.study.folder_lock import locked
from vestry.study.release_spec import ReleaseSpec
from vestry.study.remaining_budget import room
from vestry.study.runner import FREE, ReleaseOutcome, ReleaseRunner
from vestry.study.storage import ReleaseStore

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Cost:
    """What a release would be charged.

    Attributes
    ----------
    name, question, spend
        The release, and what it may spend.
    mechanism, parameter, value
        What would run.
    fits
        Whether the ledger, or a new one with the declared budget, would accept it after the releases before it.
    state
        `new`, or what the ledger says of it.
    """

    name: str
    question: str
    spend: str
    mechanism: str
    parameter: str
    value: float
    fits: bool
    state: str


@dataclass(frozen=True)
class Study:
    """A study file, opened.

    Attributes
    ----------
    declaration
        What the file says.
    """

    declaration: StudyConfig

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """Read and check a study file. Neither data nor ledger is touched."""
        return cls(read(path))

    @property
    def table(self) -> Table:
        """The records, with what is declared of them; nothing is read before it is asked for."""
        said, frame = self.declaration, self.declaration.frame
        where = _beside(said.folder, said.data)
        with said.places.at("study.data"):
            return Table(
                where,
                frame.domains,
                unit=frame.unit,
                neighbours=frame.neighbours,
                largest=said.largest,
                csv=said.csv,
            )

    @property
    def ledger(self) -> Ledger:
        """The ledger, which must exist and agree with the study."""
        said, frame = self.declaration, self.declaration.frame
        with said.places.at("study.ledger"):
            ledger = self._opened()
        with said.places.at("study.unit"):
            ledger.require(unit=frame.unit)
        with said.places.at("study.neighbours"):
            ledger.require(neighbours=frame.neighbours)
        if said.dataset not in (None, ledger.terms.dataset):
            with said.places.at("study.dataset"):
                raise DeclarationMismatch(
                    "dataset",
                    str(said.dataset),
                    ledger.terms.dataset,
                    "use the ledger of this dataset",
                    where=IN_LEDGER,
                )
        owned = str(ledger.state().filter.budget)
        if owned != str(said.budget):
            instead = f"the ledger's budget, or raise it with vestry ledger amend {said.ledger} --budget {said.budget}"
            with said.places.at("study.budget"):
                raise DeclarationMismatch("budget", str(said.budget), owned, f"write {instead}", where=IN_LEDGER)
        return ledger

    def has_ledger(self) -> bool:
        """Tell whether there is a ledger where the study says, or was: what it paid for tells of it."""
        try:
            self._opened()
        except LedgerMissing:
            return bool(self._paid())
        except VestryError:
            return True  # there is one, and `ledger` will say what is wrong with it
        return True

    def lacks_data(self) -> bool:
        """Tell whether the file of the records is not there. Nothing is read, and a server is not asked."""
        try:
            return is_missing(_beside(self.declaration.folder, self.declaration.data))
        except OSError:
            return False  # a folder that may not be entered: `release` will say so

    def check(self, *, output: Path | None = None) -> list[Cost]:
        """Return what each release would be charged, from declarations and the ledger alone; data are not touched.

        Parameters
        ----------
        output
            A folder of releases: what lies there is not calibrated again.
        """
        ledger = self.ledger if self.has_ledger() else None
        filter_ = PrivacyFilter.of(self.declaration.budget) if ledger is None else ledger.state().filter
        spent = filter_.nothing if ledger is None else ledger.state().spent
        charges = None if ledger is None else Charges.of(ledger)
        frame, costs = self.declaration.frame, []
        for asked in self.declaration.releases:
            stands, entry = (NEW, None) if charges is None else charges.standing(asked.request.definition(frame))
            question, spend = asked.request.model.question(), str(asked.request.guarantee)
            if output is not None and charges is not None and entry is not None and stands == KEPT:
                made = _released(ReleaseStore(output), asked.name, charges.releases[entry.sequence])
                if made is not None:
                    costs.append(Cost(asked.name, question, spend, *made, fits=True, state=stands))
                    continue
            mechanism = self._prepared(asked).mechanism
            fits = True
            if stands == NEW:
                total = spent.plus(filter_.price(mechanism.charge.under(frame.neighbours)))
                fits = filter_.holds(total)
                spent = total if fits else spent
            numbers = mechanism.name, mechanism.parameter, mechanism.value
            costs.append(Cost(asked.name, question, spend, *numbers, fits=fits, state=stands))
        return costs

    def plan(self, name: str) -> list[Forecast]:
        """Return what each mechanism would give for a release, by simulation from its prior; nothing is touched."""
        asked = self.declaration.release(name)
        with self.declaration.places.at(f"release.{name}"):
            return forecasts(asked.request, self.declaration.frame, n=self.declaration.n)

    def calibrated(self, name: str, parameter: str, value: float) -> str:
        """Write a parameter for a reader: the scale of noise on sums of numbers in units of their column."""
        frame, model = self.declaration.frame, self.declaration.release(name).request.model
        if parameter == "scale" and isinstance(model, ConjugateModel):
            grid = model.family(frame.domains).layout(frame.population(model, None)).grid
            if grid != 1:
                return f"scale {value * grid:.6g} in units of {', '.join(model.own)}"
        return f"{parameter} {value:.6g}"

    def budget_for(self, name: str, width: float) -> Guarantee:
        """Return what a release would have to spend for 90 % intervals of this width."""
        asked = self.declaration.release(name)
        return budget_for_width(asked.request, self.declaration.frame, n=self.declaration.n, width=width)

    def release(
        self,
        *names: str,
        again: bool = False,
        output: Path | None = None,
        progress: Progress = lambda said: None,
        noise: NoiseSource | None = None,
        told: Callable[[ReleaseOutcome], None] = lambda outcome: None,
        waits: Callable[[str], None] = lambda said: None,
    ) -> list[ReleaseOutcome]:
        """Release what is named, or all: charge, collect, release, and write the files.

        What was released before is not released again, unless `again`; a charge that was not opened is resumed, free;
        one that was opened is never drawn again. What does not fit the budget together is refused before the first
        charge. Each outcome is `told` as it happens; the report is written last. One process at a time writes into a
        folder: a second one waits, is told so by `waits`, and then finds what the first has released.
        """
        said = self.declaration
        chosen = [said.release(name) for name in dict.fromkeys(names)] or list(said.releases)
        folder = ReleaseStore(output or said.folder)
        with locked(folder.path, waits):
            course = ReleaseRunner(said, self.ledger, self.table, folder, again, noise)
            charges = Charges.of(course.ledger)
            self._try(course, chosen, charges)
            outcomes: list[ReleaseOutcome] = []
            try:
                for asked in chosen:
                    progress(asked.name)
                    outcomes.append(course.run(asked, charges))
                    told(outcomes[-1])
                    if outcomes[-1].done != FREE:
                        charges = Charges.of(course.ledger)
            except VestryError:
                with suppress(VestryError):  # what went wrong first is told
                    self._page(folder, course.ledger, progress)
                raise
            self._page(folder, course.ledger, progress, outcomes)
        return outcomes

    def _try(self, course: ReleaseRunner, chosen: Sequence[ReleaseSpec], charges: Charges) -> None:
        """Try what can fail before anything is charged: the folder, what lies in it, and the budget."""
        names = [asked.name for asked in chosen]
        course.folder.sweep(names)
        for asked in chosen:
            course.recognise(asked, charges)
        known = set(charges.releases.values())
        course.folder.try_writing(
            [name for name in names if course.again or course.folder.certified(name) not in known]
        )
        course.afford(chosen, charges)

    def report(self, output: Path | None = None, *, waits: Callable[[str], None] = lambda said: None) -> Path:
        """Write the page of all releases that lie in the folder."""
        folder, ledger = ReleaseStore(output or self.declaration.folder), self.ledger
        with locked(folder.path, waits):
            return self._told(folder, ledger)

    def left(self) -> str:
        """Say what is left of the budget: the ledger's, or all of it where there is no ledger yet."""
        if not self.has_ledger():
            return str(self.declaration.budget)
        state = self.ledger.state()
        return room(state.filter, state.spent)

    def notes(self) -> list[str]:
        """Say what is odd about the ledger and harms nothing."""
        charges = Charges.of(self.ledger)
        if not charges.ahead_of(datetime.now(UTC)):
            return []
        return [
            f"the ledger's last line bears a later time ({charges.last}) than this machine's clock has; lines are in"
            " the order of their numbers, and nothing is decided by the time: set the clock."
        ]

    def create_command(self) -> str:
        """Return the command that makes the study's ledger."""
        said, frame = self.declaration, self.declaration.frame
        words = [_beside(said.folder, said.ledger), "--dataset", said.dataset or said.name, "--unit", str(frame.unit)]
        words += ["--neighbours", str(frame.neighbours), "--budget", str(said.budget)]
        return "vestry ledger create " + " ".join(shlex.quote(word) for word in words)

    @property
    def assumed(self) -> int:
        """The number of records that `plan` takes: the declared one, or 1000."""
        return self.declaration.n or ASSUMED

    def _opened(self) -> Ledger:
        where = _beside(self.declaration.folder, self.declaration.ledger)
        try:
            return Ledger.open(where)
        except LedgerMissing:
            pass
        paid = self._paid()
        if paid:
            raise LedgerMissing(
                f"the ledger at {where} is lost: {' and '.join(paid)} {'was' if len(paid) == 1 else 'were'} paid for"
                " from it, and a new one would not know what was spent; put it back from where it was moved to, or from"
                " a backup."
            )
        raise LedgerMissing(f"there is no ledger at {where}; make it once with: {self.create_command()}")

    def _paid(self) -> list[str]:
        """Return the releases beside the study file that have a certificate."""
        folder = ReleaseStore(self.declaration.folder)
        return [asked.name for asked in self.declaration.releases if folder.certified(asked.name) is not None]

    def _prepared(self, asked: ReleaseSpec) -> Any:
        """Calibrate from declarations; a public count that is not declared is assumed."""
        said = self.declaration
        with said.places.at(f"release.{asked.name}.spend"):
            count = (said.n or ASSUMED) if said.frame.counts_publicly(asked.request.model) else None
            prepared = choose_mechanism(asked.request, said.frame, said.n).prepared(said.frame, count)
        with said.places.at("study.largest"):
            prepared.check_bound(said.frame.domains, said.largest)
        return prepared

    def _page(
        self, folder: ReleaseStore, ledger: Ledger, progress: Progress, outcomes: Sequence[ReleaseOutcome] = ()
    ) -> None:
        """Write the report, if there is something to tell; of what was just released, the posterior is known."""
        if any(folder.holds_release(asked.name) for asked in self.declaration.releases):
            progress("report")
            known = {each.name: each.computed for each in outcomes if each.computed is not None}
            self._told(folder, ledger, known)

    def _told(self, folder: ReleaseStore, ledger: Ledger, known: Mapping[str, Posterior] | None = None) -> Path:
        from vestry.study.report_data import told

        return told(self.declaration, ledger, folder, known)


def _released(folder: ReleaseStore, name: str, sha256: str) -> tuple[str, str, float] | None:
    """Return what ran for a release that lies in a folder: mechanism, parameter and value; None if it does not."""
    if not folder.holds(name, sha256):
        return None
    release = folder.release(name)
    if release is None:
        return None
    return release.certificate.mechanism, release.certificate.parameter, release.certificate.value


def _beside(folder: Path, address: str) -> str:
    """Return a path that is relative to the study file; an address of a server as it is."""
    scheme, found, rest = address.partition("://")
    if not found:
        return str(folder / address)
    return f"{scheme}://{folder / rest}" if scheme == "duckdb" else address
