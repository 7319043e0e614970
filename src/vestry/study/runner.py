"""The releases of a study through the ledger: each from where it stands, charged, opened and released once.

What became of a release, and what follows from it: the rows of its posterior and the file of its draws.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from vestry.data import Table
from vestry.data.source import check_column
from vestry.errors import (
    AskedBefore,
    BudgetExceeded,
    Interrupted,
    InvalidParameter,
    LedgerStateError,
    MissingExtra,
    NoInterval,
    ReleaseLost,
    VestryError,
)
from vestry.ledger import Charge, Ledger
from vestry.ledger.entry import Entry, State
from vestry.ledger.ledger import Ask, Summary
from vestry.mechanisms.release import Mechanism, assumptions_of, pays_for
from vestry.model.request import PreparedRelease, pools
from vestry.noise import NoiseSource
from vestry.pipeline import (
    CHARGED,
    NEW,
    OPENED,
    RELEASED,
    ChargeIndex,
    PastCharge,
    claim,
    prepare,
    public_count,
    rehearse_release,
    run,
)
from vestry.posterior.posterior import Posterior, Rows
from vestry.posterior.reader import DRAWS
from vestry.release_file import SavedElsewhere
from vestry.releases import Certificate, Release
from vestry.study.config import ReleaseSpec, StudyConfig
from vestry.study.release_costs import Cost, assumed_count, calibrated, costs, prices_of, refusal
from vestry.study.storage import POSTERIOR, Cache, ReleaseStore, locked

ANEW, RESUMED, FREE = "released", "resumed, at no new cost", "released before, free"
Say = Callable[[str], None]
Paid = tuple[PreparedRelease, Charge]


@dataclass(frozen=True)
class ReleaseRunner:
    """Releases of a study into one folder, with one ledger, opened once.

    Attributes
    ----------
    config, ledger, table, store
        What is declared, what pays, the records, and where releases lie.
    again
        Whether to pay again for what was released before.
    noise
        Where noise comes from; the operating system, if None.
    calibrations
        What was calibrated, by release and number of records: once for a preview, the budget, the charge and the run.
    """

    config: StudyConfig
    ledger: Ledger
    table: Table
    store: ReleaseStore
    again: bool = False
    noise: NoiseSource | None = None
    calibrations: dict[tuple[str, int | None], PreparedRelease] = field(default_factory=dict, repr=False)

    def preview(self, specs: Sequence[ReleaseSpec], state: State) -> tuple[list[Cost], list[str]]:
        """Return what a run would charge, and notes. Of the records at most their number is read, if it is public."""
        index = ChargeIndex.of(self.ledger)
        return costs(self.config, specs, state, index, self._mechanism), _clock_notes(index)

    def release(
        self,
        specs: Sequence[ReleaseSpec],
        *,
        progress: Say = lambda text: None,
        on_outcome: Callable[[ReleaseOutcome], None] = lambda outcome: None,
        on_wait: Say = lambda text: None,
    ) -> list[ReleaseOutcome]:
        """Release, hand over each outcome as it happens, and write the report last; see `Study.release`."""
        outcomes: list[ReleaseOutcome] = []
        with locked(self.store.path, on_wait), self.store.keeping_room():
            index = ChargeIndex.of(self.ledger)
            try:
                self._check_folder(specs, index)
                outcomes += self._release_all(specs, index, progress, on_outcome)
                self._report(outcomes, progress)
            except KeyboardInterrupt:
                raise self._interrupted(specs, index) from None
        return outcomes

    def _release_all(
        self, specs: Sequence[ReleaseSpec], index: ChargeIndex, progress: Say, on_outcome: Callable[[Any], None]
    ) -> list[ReleaseOutcome]:
        """Charge all that is due, and take each release from where it stands to its files."""
        outcomes: list[ReleaseOutcome] = []
        lost: list[str] = []
        paid, index = self._pay(specs, index)
        try:
            for spec in specs:
                progress(spec.name)
                try:
                    outcome = self.run(spec, index, paid.get(spec.name))
                except ReleaseLost as error:  # the others are not held up
                    lost.append(str(error))
                    continue
                outcomes.append(outcome)
                on_outcome(outcome)
                if outcome.done == RESUMED:  # what the index has as not opened is resumed once
                    index = ChargeIndex.of(self.ledger)
            if lost:
                raise ReleaseLost(" ".join(lost))
        except VestryError:
            with suppress(VestryError):  # what went wrong first is told
                self._report((), progress)
            raise
        return outcomes

    def _interrupted(self, specs: Sequence[ReleaseSpec], before: ChargeIndex) -> Interrupted:
        """Return an interrupt that says, from the ledger's own lines, what was charged and released since `before`."""
        now = ChargeIndex.of(self.ledger)
        names: dict[str, list[str]] = {}
        for spec in specs:
            definition = self._definition(spec)
            past = now.find_charge(definition)
            if past != before.find_charge(definition):
                names.setdefault(_STANDING[past.state], []).append(spec.name)
        if not names:
            return Interrupted("interrupted; nothing was charged.")
        standing = "; ".join(f"{words}: {', '.join(several)}" for words, several in names.items())
        return Interrupted(f"interrupted; {standing}. Run it again to go on: none of these is charged again.")

    def warnings(self, outcomes: Sequence[ReleaseOutcome]) -> dict[str, tuple[str, ...]]:
        """Return what is to be said beside each release of the columns that it rests on."""
        from vestry.study.report_data import warnings_by_release

        known = {each.name: each.computed for each in outcomes if each.computed is not None}
        return warnings_by_release(self.config, self.store, known)

    def after(self, outcomes: Sequence[ReleaseOutcome]) -> Summary:
        """Return the ledger after these: as it was seen last, or now."""
        known = [each.after for each in outcomes if each.after is not None]
        return known[-1] if known else self.ledger.summary()

    def run(self, spec: ReleaseSpec, index: ChargeIndex, paid: Paid | None = None) -> ReleaseOutcome:
        """Take a release from where it stands to its files; from anew, if the same was charged since `index`."""
        for _ in range(_TRIES):
            with suppress(AskedBefore):
                return self._run(spec, index, paid)
            index = ChargeIndex.of(self.ledger)
        raise LedgerStateError(f"{spec.name} is being released by other processes; wait for them, and run it again.")

    def _run(self, spec: ReleaseSpec, index: ChargeIndex, paid: Paid | None) -> ReleaseOutcome:
        definition = self._definition(spec)
        past = index.find_charge(definition)
        if past.entry is not None and past.was_opened and not self.again:
            return self._write(spec, past.entry, self._stored(spec, past), FREE, index)
        if past.state == OPENED:
            with suppress(VestryError):  # a saved file that was changed is as good as lost
                self._recover(spec, past)
        if paid is None:
            prepared = self._prepare(spec)
            charge, resumed = self._claim(spec, prepared, definition, past)
        else:
            (prepared, charge), resumed = paid, False
        release = self._draw(spec, prepared, charge)
        return self._write(spec, charge.entry, release.text().encode(), RESUMED if resumed else ANEW, index)

    def _claim(
        self, spec: ReleaseSpec, prepared: PreparedRelease, definition: str, past: PastCharge
    ) -> tuple[Charge, bool]:
        """Resume what pays for what would run, or charge, unless the question was charged since it was looked up."""
        if past.entry is not None and not self.again and not pays_for(past.entry, prepared.mechanism):
            raise LedgerStateError(
                f"{spec.name} was charged by entry {past.entry.sequence} for another number of records or another"
                f" calibration than would run now; {self._pay_again(spec)}"
            )
        try:
            return claim(prepared, self.ledger, definition, past, purpose=_purpose(spec), again=self.again)
        except BudgetExceeded as error:
            raise self._refusal([(spec, prepared)]) or error from None

    def _draw(self, spec: ReleaseSpec, prepared: PreparedRelease, charge: Charge) -> Release:
        """Draw, and save what was drawn before the ledger is told."""
        unsaved: list[VestryError] = []

        def stage(text: str) -> None:
            try:
                self.store.stage(spec.name, charge.entry, text)
            except SavedElsewhere:
                raise
            except VestryError as error:
                unsaved.append(error)
                raise

        try:
            return run(prepared, self.table, charge, noise=self.noise, keep=stage)
        except LedgerStateError:
            raise LedgerStateError(
                f"entry {charge.sequence}, which pays for {spec.name}, was taken up by another process meanwhile; its"
                " release is in the folder of that process: wait for it, and run it again."
            ) from None
        except VestryError as error:
            if error not in unsaved:
                raise
            raise VestryError(
                f"{str(error).removesuffix('.')}. What was drawn for {spec.name} is lost, and entry {charge.sequence}"
                f" stays spent; {self._pay_again(spec)}"
            ) from None

    def _pay(self, specs: Sequence[ReleaseSpec], index: ChargeIndex) -> tuple[dict[str, Paid], ChargeIndex]:
        """Charge all that is new at once, before any of it is drawn, or refuse it all.

        Whatever is not drawn in the end, because something failed, is resumed later, free.
        """
        for _ in range(_TRIES):
            due = [(spec, self._prepare(spec)) for spec in self._due(specs, index)]
            asks = [
                Ask(each.mechanism.charge, _purpose(spec), self._definition(spec), assumptions_of(each.mechanism))
                for spec, each in due
            ]
            try:
                charges = self.ledger.charge_together(asks, once=not self.again) if asks else []
            except AskedBefore:  # by another process, since `index` was read
                index = ChargeIndex.of(self.ledger)
                continue
            except BudgetExceeded as error:
                raise self._refusal(due) or error from None
            return {spec.name: (each, charge) for (spec, each), charge in zip(due, charges, strict=True)}, index
        raise LedgerStateError("the same is being released by other processes; wait for them, and run it again.")

    def _refusal(self, due: Sequence[tuple[ReleaseSpec, PreparedRelease]]) -> BudgetExceeded | None:
        """Return the refusal that names the first release which does not fit after those before it."""
        state = self.ledger.state()
        filter, prices = prices_of([each.mechanism for _, each in due], state)
        spent = filter.nothing if state.filter.undecided else state.spent
        for place, ((spec, _), price) in enumerate(zip(due, prices, strict=True)):
            if not filter.holds(spent.plus(price)):
                return refusal(spec, filter, spent, price, [other.name for other, _ in due[:place]])
            spent = spent.plus(price)
        return None

    def _due(self, specs: Sequence[ReleaseSpec], index: ChargeIndex) -> list[ReleaseSpec]:
        """Return what will be charged, each question once; a charge that was not opened may be resumed."""
        due = dict[str, ReleaseSpec]()
        for spec in specs:
            definition = self._definition(spec)
            state = index.find_charge(definition).state
            if state == NEW or (self.again and state != CHARGED):
                due.setdefault(spec.name if self.again else definition, spec)
        return list(due.values())

    def _check_folder(self, specs: Sequence[ReleaseSpec], index: ChargeIndex) -> None:
        """Refuse a folder that holds another ledger's releases, before anything is charged."""
        self.store.sweep([spec.name for spec in specs])
        for spec in specs:
            sha256 = self.store.certified(spec.name)
            if sha256 is not None and index.charge_of_release(sha256) is None:
                raise self._unknown(spec)

    def _unknown(self, spec: ReleaseSpec) -> LedgerStateError:
        """Return the refusal of a folder whose certificate is of a release that the ledger does not know.

        It was paid for: by another ledger, or by this one before it was lost, cut short or put back from an old copy.
        """
        entry = self.store.read_certificate(spec.name).get("entry")
        return LedgerStateError(
            f"{spec.name} was paid for by entry {entry} of a ledger, and the ledger at {self.ledger.address} does not"
            " know that release: it is another ledger, or it was lost and made again, or put back from an old copy, and"
            " has forgotten what was spent; put the right ledger back, or, if this is another study's folder, name a"
            " new one by --output."
        )

    def _mechanism(self, spec: ReleaseSpec, past: PastCharge) -> Mechanism | Certificate:
        """Return what would run, or what ran for the release that lies in the folder."""
        if past.release_sha256 is not None and self.store.holds(spec.name, past.release_sha256):
            release = self.store.release(spec.name)
            if release is not None:
                return release.certificate
        if past.was_opened and not self.again:  # the records may be gone
            return calibrated(self.config, spec, assumed_count(self.config, spec)).mechanism
        with self._pointed(spec):
            count = public_count(spec.request, self.table)
        return self._calibrated(spec, count).mechanism

    def _calibrated(self, spec: ReleaseSpec, count: int | None) -> PreparedRelease:
        key = spec.name, count
        if key not in self.calibrations:
            self.calibrations[key] = calibrated(self.config, spec, count)
        return self.calibrations[key]

    def _prepare(self, spec: ReleaseSpec) -> PreparedRelease:
        with self._pointed(spec):
            prepared = prepare(spec.request, self.table, self.ledger, lambda count: self._calibrated(spec, count))
        self.store.make_room(spec.name, rehearse_release(prepared, noise=self.noise))
        return prepared

    @contextmanager
    def _pointed(self, spec: ReleaseSpec) -> Iterator[None]:
        """Point at the data, at a column or at the person, if one of them is why a release cannot be prepared."""
        with self.config.lines.at(f"release.{spec.name}"):
            try:
                yield
            except InvalidParameter:
                self._check_columns(spec)
                raise

    def _check_columns(self, spec: ReleaseSpec) -> None:
        lines, person = self.config.lines, self.config.schema.unit.person
        columns = spec.request.model.columns
        with lines.at("study.data"):
            read = {column: self.table.sources(column) for column in columns}
            schema = self.table.schema(*chain(*read.values()), *filter(None, (person,)))
        for column, sources in read.items():
            with lines.at(f"columns.{column}"):
                for each in sources:
                    check_column(schema, each)
        if person is not None:
            with lines.at("study.unit.person"):
                check_column(schema, person)

    def _definition(self, spec: ReleaseSpec) -> str:
        return spec.request.definition(self.config.schema)

    def _pay_again(self, spec: ReleaseSpec) -> str:
        file = self.config.path.name
        return f"to pay again write: vestry release {file} {spec.name} --again, or leave it out."

    def _recover(self, spec: ReleaseSpec, past: PastCharge) -> bytes | None:
        """Tell the ledger of a release that was saved just before a crash, and return it; None if none was."""
        content = None if past.entry is None else self.store.staged(spec.name, past.entry)
        if past.entry is not None and content is not None:
            Charge(self.ledger, past.entry).finish(content)  # unless another process has told it since
        return content

    def _stored(self, spec: ReleaseSpec, past: PastCharge) -> bytes:
        """Return what was drawn for a charge: the file that has its release's hash, or was saved before a crash."""
        number = None if past.entry is None else past.entry.sequence
        if past.release_sha256 is None:
            content = self._recover(spec, past)
            if content is None:
                raise ReleaseLost(
                    f"{spec.name} was opened by entry {number} and its release was lost, unless another process is"
                    f" making it in another folder; noise is never drawn twice for one charge; {self._pay_again(spec)}"
                )
            return content
        content = self.store.find(spec.name, past.release_sha256)
        if content is None:
            raise ReleaseLost(
                f"the release {spec.name} must be as entry {number} released it, and is not in this folder; name its"
                f" folder by --output, or, {self._pay_again(spec)}"
            )
        return content

    def _write(self, spec: ReleaseSpec, entry: Entry, content: bytes, done: str, index: ChargeIndex) -> ReleaseOutcome:
        """Put the release in its place, write its certificate, and then what follows from it."""
        sha256 = hashlib.sha256(content).hexdigest()
        moved, after = None, None
        if not self.store.holds(spec.name, sha256):
            moved = self.store.promote(spec.name, entry, content, index.charge_of_release)
        record = json.loads(content)
        facts = self.store.read_certificate(spec.name)
        if (facts.get("entry"), facts.get("release_sha256")) != (entry.sequence, sha256):
            after = self.ledger.summary()
            self._write_certificate(spec, entry, record["certificate"], sha256, after.state)
        pool = pools(spec.request.model)
        outcome = ReleaseOutcome(spec.name, done, Release.from_dict(record), [], moved, after, pool)
        outcome.summary.extend(summarise(outcome, self.store, sha256))
        return outcome

    def _write_certificate(self, spec: ReleaseSpec, entry: Entry, certificate: Any, sha256: str, state: State) -> None:
        self.store.write_certificate(
            spec.name,
            {
                "certificate": certificate,
                "release": spec.name,
                "question": spec.request.model.question(),
                "purpose": spec.purpose,
                "ledger": self.config.ledger_name,
                "entry": entry.sequence,
                "spent": str(spec.request.guarantee),
                "remaining": state.filter.left(state.spent),
                "release_sha256": sha256,
            },
        )

    def _report(self, outcomes: Sequence[ReleaseOutcome], progress: Say) -> None:
        """Write the report, if there is something to tell; of what was just released, the posterior is known."""
        from vestry.study.report_data import write_report

        if any(self.store.holds_release(spec.name) for spec in self.config.releases):
            progress("report")
            known = {each.name: each.computed for each in outcomes if each.computed is not None}
            write_report(self.config, self.ledger, self.after(outcomes), self.store, known)


def _clock_notes(index: ChargeIndex) -> list[str]:
    """Say if the newest line bears a later time than this machine's clock has, by more than clocks differ."""
    last = index.last_written()
    try:
        ahead = (datetime.fromisoformat(last) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return []
    if ahead <= _CLOCKS_S:
        return []
    return [
        f"the ledger's last line bears a later time ({last}) than this machine's clock has; lines are in"
        " the order of their numbers, and nothing is decided by the time: set the clock."
    ]


# What an interrupt may leave of a release: one that was opened was saved before the interrupt took effect.
_STANDING = {CHARGED: "charged and not opened", OPENED: "released and saved", RELEASED: "released and saved"}
# How often a release begins anew because another process charged the same question.
_TRIES = 5
# Two machines' clocks may differ by this much, in seconds.
_CLOCKS_S = 120.0


def _purpose(spec: ReleaseSpec) -> str:
    return f"{spec.name}: {spec.purpose}"


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
    after
        The ledger when the certificate was written; None if it was there before.
    pool
        Whether groups learn from each other.
    """

    name: str
    done: str
    release: Release
    summary: Rows
    moved: Path | None = None
    after: Summary | None = None
    pool: bool = False

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior, computed when it is first asked for."""
        return Posterior.from_release(self.release, pool=self.pool)

    @property
    def computed(self) -> Posterior | None:
        """The posterior, if it was asked for; None if it was not."""
        return self.__dict__.get("posterior")


def summarise(outcome: ReleaseOutcome, store: ReleaseStore, sha256: str) -> Rows:
    """Return the posterior's rows, and see that the file of its draws is there; both as they were cached."""
    from vestry.posterior.arviz_tree import draw_file

    cache, name = Cache(store.path), f"summary-{outcome.name}"
    facts = {"release": sha256, "prob": 0.9, **({"pool": True} if outcome.pool else {})}
    cached = cache.read(name, facts)
    if cached is not None and cached["draws"] == store.hash_of(outcome.name, POSTERIOR):
        return list(cached["rows"]) if cached["rows"] is not None else summary_of(outcome.posterior)
    with suppress(MissingExtra, NoInterval):  # hidden states are sampled by an extra; a later run writes them
        store.save_posterior(outcome.name, draw_file(outcome.posterior, sha256))
        rows = summary_of(outcome.posterior)
        only_draws = outcome.posterior.label == DRAWS
        file_hash = store.hash_of(outcome.name, POSTERIOR)
        cache.write(name, facts, {"rows": None if only_draws else rows, "draws": file_hash})
        return rows
    return []


def summary_of(posterior: Posterior) -> Rows:
    """Return the rows of a posterior's table; of released draws, the draws."""
    if posterior.label == DRAWS:
        method = {"interval_method": posterior.interval_method}
        tables = posterior.sample().items()
        return [{"group": group, "draw": row.tolist(), **method} for group, rows in tables for row in rows]
    return posterior.rows()
