"""A study: what its file declares, what it would cost and give, and its releases."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vestry.certificate import Release
from vestry.data import Table
from vestry.errors import EntryState, InvalidParameter, LedgerMissing, Mismatch, VestryError
from vestry.ledger import Charge, Ledger
from vestry.models.plan import ASSUMED, Expectation, advised, expectations, needed
from vestry.models.run import charge_for, ready_for, run
from vestry.noise import Noise
from vestry.posterior import Posterior
from vestry.privacy.guarantee import Guarantee
from vestry.study.declaration import Asked, Declaration, read
from vestry.study.folder import Folder

Progress = Callable[[str], None]

NEW, KEPT, CHARGED, OPENED = "new", "released before", "charged before", "opened before"


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
        Whether the ledger would accept it after the releases before it; None if there is no ledger yet.
    state
        `new`, or what the ledger says of it.
    """

    name: str
    question: str
    spend: str
    mechanism: str
    parameter: str
    value: float
    fits: bool | None
    state: str


@dataclass(frozen=True)
class Outcome:
    """What became of a release: its name, what was done, and its posterior."""

    name: str
    done: str
    posterior: Posterior


@dataclass(frozen=True)
class Study:
    """A study file, opened.

    Attributes
    ----------
    declaration
        What the file says.
    """

    declaration: Declaration

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
            return Table(where, frame.domains, unit=frame.unit, neighbours=frame.neighbours, largest=said.largest)
        raise AssertionError  # pragma: no cover - `at` raises

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
                raise Mismatch("dataset", str(said.dataset), ledger.terms.dataset, "use the ledger of this dataset")
        owned = str(ledger.state().filter.budget)
        if owned != str(said.budget):
            instead = f"the ledger's budget, or raise it with vestry ledger amend {said.ledger} --budget {said.budget}"
            with said.places.at("study.budget"):
                raise Mismatch("budget", str(said.budget), owned, f"write {instead}")
        return ledger

    def has_ledger(self) -> bool:
        """Tell whether there is a ledger where the study says."""
        try:
            Ledger.open(_beside(self.declaration.folder, self.declaration.ledger))
        except LedgerMissing:
            return False
        except VestryError:
            return True  # there is one, and `ledger` will say what is wrong with it
        return True

    def check(self) -> list[Cost]:
        """Return what each release would be charged, from declarations and the ledger alone; data are not touched."""
        ledger = self.ledger if self.has_ledger() else None
        state = None if ledger is None else ledger.state()
        spent = None if state is None else state.spent
        costs = []
        for asked in self.declaration.releases:
            prepared = self._prepared(asked)
            standing = NEW if ledger is None else self._standing(asked, ledger)[0]
            fits: bool | None = None
            if state is not None and spent is not None:
                fits = True
                if standing == NEW:
                    event = prepared.mechanism.charge.under(self.declaration.frame.neighbours)
                    total = spent.plus(state.filter.price(event))
                    fits = state.filter.holds(total)
                    spent = total if fits else spent
            made = prepared.mechanism
            question, spend = asked.request.model.question(), str(asked.request.guarantee)
            costs.append(Cost(asked.name, question, spend, made.name, made.parameter, made.value, fits, standing))
        return costs

    def plan(self, name: str) -> list[Expectation]:
        """Return what each mechanism would give for a release, by simulation from its prior; nothing is touched."""
        asked = self.declaration.release(name)
        with self.declaration.places.at(f"release.{name}"):
            return expectations(asked.request, self.declaration.frame, n=self.declaration.n)
        raise AssertionError  # pragma: no cover - `at` raises

    def budget_for(self, name: str, width: float) -> Guarantee:
        """Return what a release would have to spend for 90 % intervals of this width."""
        asked = self.declaration.release(name)
        return needed(asked.request, self.declaration.frame, n=self.declaration.n, width=width)

    def release(
        self,
        *names: str,
        again: bool = False,
        output: Path | None = None,
        progress: Progress = lambda said: None,
        noise: Noise | None = None,
    ) -> list[Outcome]:
        """Release what is named, or all: charge, collect, release, and write the files.

        What was released before is not released again, unless `again`; a charge that was not opened is resumed, free;
        one that was opened is never drawn again. The report is written last.
        """
        said = self.declaration
        chosen = [said.release(name) for name in dict.fromkeys(names)] or list(said.releases)
        folder = Folder(output or said.folder)
        folder.try_writing([asked.name for asked in chosen])
        ledger, table = self.ledger, self.table
        outcomes = []
        try:
            for asked in chosen:
                progress(asked.name)
                outcomes.append(self._release(asked, ledger, table, folder, again=again, noise=noise))
        except VestryError:
            with suppress(VestryError):  # what went wrong first is told
                self._page(folder, progress)
            raise
        self._page(folder, progress)
        return outcomes

    def report(self, output: Path | None = None) -> Path:
        """Write the page of all releases that lie in the folder."""
        from vestry.study.story import told

        folder = Folder(output or self.declaration.folder)
        return folder.report(told(self.declaration, self.ledger, folder))

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
        raise LedgerMissing(f"there is no ledger at {where}; make it once with: {self.create_command()}")

    def _prepared(self, asked: Asked) -> Any:
        """Calibrate from declarations; a public count that is not declared is assumed."""
        said = self.declaration
        with said.places.at(f"release.{asked.name}.spend"):
            count = (said.n or ASSUMED) if said.frame.counts_publicly(asked.request.model) else None
            prepared = advised(asked.request, said.frame, said.n).prepared(said.frame, count)
        with said.places.at("study.largest"):
            prepared.check_bound(said.frame.domains, said.largest)
        return prepared

    def _standing(self, asked: Asked, ledger: Ledger) -> tuple[str, Charge | None]:
        """Say what the ledger knows of a release: the newest charge with its definition."""
        definition = asked.request.definition(self.declaration.frame)
        found: tuple[str, Charge | None] = (NEW, None)
        for entry, done in ledger.charges():
            if entry.facts.get("definition") == definition:
                state = KEPT if "release" in done else OPENED if "open" in done else CHARGED
                found = state, ledger.resume(entry.sequence)
        return found

    def _release(
        self, asked: Asked, ledger: Ledger, table: Table, folder: Folder, *, again: bool, noise: Noise | None
    ) -> Outcome:
        standing, charge = self._standing(asked, ledger)
        if charge is not None and standing == OPENED:
            with suppress(VestryError) if again else nullcontext():  # a saved file that was changed is as good as lost
                standing = KEPT if self._finished(asked, charge, folder) else OPENED
        if charge is not None and standing == KEPT and not again:
            return self._kept(asked, charge, folder)
        if charge is not None and standing == OPENED and not again:
            raise EntryState(
                f"{asked.name} was opened by entry {charge.sequence} and its release was lost; noise"
                " is never drawn twice for one charge; use --again to pay again, or leave it out."
            )
        frame = self.declaration.frame
        with self.declaration.places.at(f"release.{asked.name}"):
            prepared = ready_for(asked.request, table, ledger, n=self.declaration.n)
        done = "resumed, at no new cost"
        if charge is None or standing != CHARGED or not self._paid(asked, charge, prepared, again=again):
            done = "released"
            purpose = f"{asked.name}: {asked.purpose}"
            charge = charge_for(asked.request, prepared, frame, ledger, purpose=purpose)
        entry = charge.sequence
        made = run(prepared, table, charge, noise=noise, keep=lambda text: folder.keep(asked.name, entry, text))
        return self._written(asked, charge, folder, made.text().encode(), done)

    def _paid(self, asked: Asked, charge: Charge, prepared: Any, *, again: bool) -> bool:
        """Tell whether an old charge pays for what would run; if not, and `again` is not asked for, refuse."""
        event = prepared.mechanism.charge.under(self.declaration.frame.neighbours)
        if charge.entry.facts["event"] == event.to_dict():
            return True
        if not again:
            raise EntryState(
                f"{asked.name} was charged by entry {charge.sequence} for another number of records or another"
                " calibration than would run now; use --again to pay again, or leave it out."
            )
        return False

    def _finished(self, asked: Asked, charge: Charge, folder: Folder) -> bool:
        """Tell the ledger of a release that was saved just before a crash."""
        content = folder.saved(asked.name, charge.sequence)
        if content is None:
            return False
        charge.finish(content)  # unless another process has told it since
        return True

    def _kept(self, asked: Asked, charge: Charge, folder: Folder) -> Outcome:
        """Return a release that the ledger knows, by the file that has its hash."""
        known = next(entry for entry in charge.ledger.entries()
                     if entry.action == "release" and entry.target == charge.sequence)  # fmt: skip
        content = folder.find(asked.name, str(known.facts["release_sha256"]))
        if content is None:
            raise InvalidParameter(
                f"the release {asked.name}",
                "not in this folder",
                f"as entry {charge.sequence} released it",
                "its folder by --output, or --again to pay again",
            )
        return self._written(asked, charge, folder, content, "released before, free")

    def _written(self, asked: Asked, charge: Charge, folder: Folder, content: bytes, done: str) -> Outcome:
        """Put the release in its place and write what follows from it, the certificate last."""
        sha256 = hashlib.sha256(content).hexdigest()
        if not folder.holds(asked.name, sha256):
            lines = (entry for entry in charge.ledger.entries() if entry.action == "release")
            entries = {str(entry.facts["release_sha256"]): entry.target or 0 for entry in lines}
            folder.settle(asked.name, charge.sequence, content, entries)
        record = json.loads(content)
        posterior = Posterior.from_release(Release.from_dict(record))
        known = folder.facts(asked.name)
        there = (known.get("entry"), known.get("release_sha256")) == (charge.sequence, sha256)
        if not there or not folder.has_posterior(asked.name):
            folder.save_posterior(asked.name, posterior, sha256)
        if not there:
            state = charge.ledger.state()
            folder.certify(
                asked.name,
                {
                    "certificate": record["certificate"],
                    "release": asked.name,
                    "question": asked.request.model.question(),
                    "purpose": asked.purpose,
                    "ledger": charge.ledger.address,
                    "entry": charge.sequence,
                    "spent": str(asked.request.guarantee),
                    "remaining": state.filter.left(state.spent),
                    "release_sha256": sha256,
                },
            )
        return Outcome(asked.name, done, posterior)

    def _page(self, folder: Folder, progress: Progress) -> None:
        """Write the report, if there is something to tell."""
        if any(folder.release(asked.name) is not None for asked in self.declaration.releases):
            progress("report")
            self.report(folder.path)


def _beside(folder: Path, address: str) -> str:
    """Return a path that is relative to the study file; an address of a server as it is."""
    scheme, found, rest = address.partition("://")
    if not found:
        return str(folder / address)
    return f"{scheme}://{folder / rest}" if scheme == "duckdb" else address
