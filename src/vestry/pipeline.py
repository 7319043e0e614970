"""The one path from a record to the world: prepare, find or make the charge, collect, release.

What was asked before is found by the hash of the question, and one table says what follows:

    the newest charge for it         then
    there is none                    charge, in a transaction that looks the question up again
    charged, and never opened        resume it, free, if it pays for what would run
    opened, and not released         never again: noise is drawn once for a charge
    released                         its release is free

Only `again` passes the last two: it pays again, and is a new charge.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vestry.data import Table
from vestry.errors import IN_LEDGER, AskedBefore, DeclarationMismatch, Interrupted, InvalidParameter, VestryError
from vestry.ledger import Charge, Ledger
from vestry.ledger.entry import Entry
from vestry.ledger.journal import JournalMoment
from vestry.mechanisms.release import ADDITIVE, Mechanism, assumptions_of, pays_for, publish, rehearse
from vestry.model.request import (
    AUTO,
    Model,
    PreparedRelease,
    Request,
    averaged_model,
    check_size,
    counts_publicly,
    grouping,
    pools,
    purpose_of,
)
from vestry.noise import NoiseSource
from vestry.planning import choose_mechanism
from vestry.posterior import Posterior
from vestry.privacy.guarantee import Guarantee
from vestry.release_file import ReleaseFile
from vestry.releases import Release
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_path

NEW = "new"
CHARGED = "charged before"
OPENED = "opened before"
RELEASED = "released before"
# What a question's newest charge is, by its last action.
_STATES: dict[str | None, str] = {"charge": CHARGED, "open": OPENED, "release": RELEASED}


def release(
    model: Model,
    table: Table,
    *,
    guarantee: Guarantee | str,
    ledger: Ledger | str,
    path: str | Path | None = None,
    mechanism: str = AUTO,
    draws: int | None = None,
    truncation: float | None = None,
    purpose: str | None = None,
    again: bool = False,
    average: str | None = None,
) -> Posterior:
    """Release a model's posterior from a table, charged to its ledger.

    Parameters
    ----------
    model
        For example `BetaBernoulli("readmitted", success="yes", by="ward")`.
    table
        The records and what is declared of them.
    guarantee
        What the release may cost.
    ledger
        The dataset's ledger, or where it is; its unit and neighbours must be the table's.
    path
        A new file for the release, which `vestry.open_release` and `vestry posterior` read. Room for it is taken before
        anything is charged. Whatever ends the program while it is written, the same call finishes it, free. What is not
        kept cannot be had again without paying again.
    mechanism, draws, truncation
        See `Request`.
    purpose
        Why, for the ledger; the model's question if omitted.
    again
        Whether to release what was released before; it costs again.
    average
        Where persons have several rows: `person`, each weighs 1 (the default for proportions, categories, means and
        rates), or `row`, each row does, and the interval takes a person's rows as independent.

    Raises
    ------
    Interrupted
        If it was interrupted while noise was drawn: what was paid for is finished first, and is the exception's
        `release`. An interrupt before that leaves a charge that the same call resumes, free.
    """
    ledger = _open_ledger(ledger)
    question = averaged_model(model, table.unit, average, of_draws=is_drawn(mechanism, draws))
    request = Request(question, Guarantee.parse(guarantee, neighbours=table.neighbours), mechanism, draws, truncation)
    prepared = prepare(request, table, ledger)
    definition = request.definition(schema_of(table))
    drawn: list[tuple[Charge, str]] = []
    try:
        with _new_file(path) as file:
            past = ChargeIndex.of(ledger).find_charge(definition)
            if past.was_opened and not again:
                return Posterior.from_release(_finish(file, ledger, past), pool=pools(model))
            file.make_room(rehearse_release(prepared))
            try:
                charge, _ = claim(prepared, ledger, definition, past, purpose=purpose, again=again)
            except AskedBefore:
                raise _asked_before(ChargeIndex.of(ledger).find_charge(definition)) from None

            def keep(text: str) -> None:
                file.stage(charge.entry, text)
                drawn.append((charge, text))

            release = run(prepared, table, charge, keep=keep, settle=partial(file.settle, charge.entry))
            return Posterior.from_release(release, pool=pools(model))
    except KeyboardInterrupt:
        if not drawn:
            raise
        raise _interrupted(*drawn[0], path) from None


def is_drawn(mechanism: str, draws: int | None) -> bool:
    """Tell whether draws are asked for, and not noisy statistics."""
    return draws is not None or mechanism not in (AUTO, *ADDITIVE)


@dataclass(frozen=True)
class PastCharge:
    """What a ledger knows of one question: the newest charge for it, how far it went, and the hash of its release."""

    state: str = NEW
    entry: Entry | None = None
    release_sha256: str | None = None

    @property
    def was_opened(self) -> bool:
        """Whether noise was, or may have been, drawn for it."""
        return self.state in (OPENED, RELEASED)


@dataclass(frozen=True)
class ChargeIndex:
    """The charges of a ledger at one moment.

    Attributes
    ----------
    journal
        The ledger's lines, whose chain was walked; None where there is no ledger yet.
    """

    journal: JournalMoment | None = None

    @classmethod
    def of(cls, ledger: Ledger) -> ChargeIndex:
        """Walk what of the journal was not walked before."""
        return cls(ledger.journal())

    def find_charge(self, definition: str) -> PastCharge:
        """Return the newest charge for a question, and how far it went."""
        if self.journal is None:
            return PastCharge()
        entry = self.journal.newest_charge(definition)
        if entry is None:
            return PastCharge()
        stage = self.journal.stage(entry.sequence)
        sha256 = self.journal.release_of(entry.sequence)
        return PastCharge(_STATES[stage], entry, sha256)

    def charge_of_release(self, sha256: str) -> int | None:
        """Return the number of the charge of a release, by the hash of its file; None if it is not known."""
        return None if self.journal is None else self.journal.charge_of_release(sha256)

    def last_written(self) -> str:
        """Return when the newest line was written, by the clock of the machine that wrote it; empty if unknown."""
        if self.journal is None:
            return ""
        facts = self.journal.last_line().facts
        return str(facts.get("when", ""))


def schema_of(table: Table) -> TableSchema:
    """Return what is declared of a table."""
    return TableSchema(table.columns, table.unit, table.neighbours, table.max_rows)


def prepare(
    request: Request, table: Table, ledger: Ledger, calibration: Callable[[int | None], PreparedRelease] | None = None
) -> PreparedRelease:
    """Try all that can fail without touching values: the ledger's terms, the calibration, the connection, the query.

    `calibration` returns what a number of records comes to, if it was calibrated before.
    """
    ledger.require(unit=table.unit, neighbours=table.neighbours)
    schema = schema_of(table)
    check_size(request.model, schema.domains)
    count = public_count(request, table)
    prepared = calibrate(request, schema, count) if calibration is None else calibration(count)
    prepared.check(table)
    return prepared


def public_count(request: Request, table: Table) -> int | None:
    """Return the number of records; None where it is private."""
    count = table.count() if counts_publicly(schema_of(table), request.model) else None
    if count == 0:
        raise InvalidParameter("the number of records", 0, "at least 1", "a table with records")
    return count


def calibrate(
    request: Request, schema: TableSchema, count: int | None, expected_rows: int | None = None
) -> PreparedRelease:
    """Choose the mechanism and calibrate it.

    `expected_rows` is the declared guess that `auto` is advised by, so that a plan and its release agree.
    """
    chosen = request.settled() or choose_mechanism(request, schema, expected_rows)
    return chosen.prepare(schema, count)


def claim(
    prepared: PreparedRelease,
    ledger: Ledger,
    definition: str,
    past: PastCharge,
    *,
    purpose: str | None = None,
    again: bool = False,
) -> tuple[Charge, bool]:
    """Return the charge that pays for what will run, and whether it was resumed.

    Raises
    ------
    AskedBefore
        If there is a charge for the question that cannot be resumed, also if another process made it since `past` was
        looked up; never where `again` pays again.
    """
    mechanism = prepared.mechanism
    if past.entry is not None and past.state == CHARGED and pays_for(past.entry, mechanism):
        return Charge(ledger, past.entry), True
    if past.entry is not None and not again:
        raise AskedBefore(past.entry.sequence)
    why = purpose or purpose_of(prepared.model.question())
    return charge_for(mechanism, ledger, why, definition, once=not again), False


def charge_for(
    mechanism: Mechanism, ledger: Ledger, purpose: str, definition: str | None = None, *, once: bool = False
) -> Charge:
    """Charge the ledger for what will run; `once`, refuse what was charged before, in the charge's own transaction."""
    assumptions = assumptions_of(mechanism)
    return ledger.charge(mechanism.charge, purpose=purpose, definition=definition, assumptions=assumptions, once=once)


def run(
    prepared: PreparedRelease,
    table: Table,
    charge: Charge,
    *,
    noise: NoiseSource | None = None,
    keep: Callable[[str], None] = lambda text: None,
    settle: Callable[[], None] = lambda: None,
) -> Release:
    """Collect the statistics, which are paid for, and release."""
    private = prepared.collect(table, row_key=charge.ledger.row_key())
    return publish(prepared.mechanism, private, charge, noise=noise, keep=keep, settle=settle, **_named(prepared))


def rehearse_release(prepared: PreparedRelease, *, noise: NoiseSource | None = None) -> int:
    """Try, before anything is charged, what follows the charge; return how many bytes the release may take."""
    return rehearse(prepared.mechanism, noise=noise, **_named(prepared))


def _named(prepared: PreparedRelease) -> dict[str, Any]:
    """Return what a release says besides what was drawn and what is promised."""
    return {
        "family": prepared.described,
        "prior": prepared.numbers,
        "by": ", ".join(grouping(prepared.model.by)) or None,
        "groups": prepared.groups,
        "labels": prepared.labels,
    }


def _interrupted(charge: Charge, text: str, path: str | Path | None) -> Interrupted:
    """Return the interrupt that was held back until the release was made."""
    release = Release.from_dict(json.loads(text))
    where = "is `release` of this exception" if path is None else f"is saved in {path}"
    return Interrupted(f"interrupted; entry {charge.sequence} was released first, and its release {where}.", release)


def _asked_before(past: PastCharge) -> DeclarationMismatch:
    """Return the refusal of what was asked before: a release is free to use, and noise is never drawn twice."""
    states = {RELEASED: "released", OPENED: "opened, and its release lost,"}
    owned = f"{states.get(past.state, 'charged')} before, by entry {past.entry.sequence if past.entry else None}"
    owned += "" if past.was_opened else ", by another process or for another number of records"
    instead = "use that release, which is free," if past.was_opened else "try again,"
    return DeclarationMismatch("release", "new", owned, f"{instead} or say again=True to pay again", where=IN_LEDGER)


def _open_ledger(ledger: object) -> Ledger:
    if isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, (str, Path)):
        return Ledger.open(str(ledger))
    raise InvalidParameter("ledger", ledger, "the dataset's ledger, or where it is", 'ledger="patients.ledger"')


def _new_file(path: str | Path | None) -> NewFile:
    if path is None:
        return NoFile()
    return NewFile(require_path("path", path, "for example path='release.json'"))


class NewFile(ReleaseFile):
    """The new file of a release; what goes wrong is said of the argument `path`."""

    def make_room(self, size: int) -> None:
        """Refuse a name that is taken or a folder that is missing, and take room for so many bytes at least."""
        with self._refusing():
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
            # A folder that is misspelt is not made.
            if not self.path.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
            super().make_room(size)

    def stage(self, charge: Entry, text: str) -> None:
        """Save what was drawn for a charge."""
        try:
            super().stage(charge, text)
        except OSError as error:
            raise VestryError(
                f"{self.path} cannot be written ({error.strerror}). What was drawn is lost, and entry {charge.sequence}"
                " stays spent; make room, and say again=True to pay again."
            ) from None

    def settle(self, charge: Entry) -> None:
        """Give what was saved under a charge the release's name, which must be free."""
        try:
            super().settle(charge)
        except OSError as error:
            raise VestryError(
                f"{self.path} cannot be written ({error.strerror}); the release is saved as {self.staging(charge)}:"
                " rename it, or make the same call again, which is free."
            ) from None

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            allowed = f"a new file that can be written ({error.strerror})"
            raise InvalidParameter("path", str(self.path), allowed, "for example path='release.json'") from None


class NoFile(NewFile):
    """No file: the release is returned, and nothing else keeps it."""

    def __init__(self) -> None:
        super().__init__(Path())

    def make_room(self, size: int) -> None:
        """Take no room."""

    def stage(self, charge: Entry, text: str) -> None:
        """Save nothing."""

    def staged(self, charge: Entry) -> None:
        """Return nothing."""

    def settle(self, charge: Entry) -> None:
        """Name nothing."""


def _finish(file: NewFile, ledger: Ledger, past: PastCharge) -> Release:
    """Return the release of a charge that was saved beside its file before a crash, or refuse to draw again."""
    content = None if past.entry is None else file.staged(past.entry)
    if past.entry is None or content is None:
        raise _asked_before(past)
    if past.release_sha256 is None:
        Charge(ledger, past.entry).finish(content)
    file.settle(past.entry)
    return Release.from_dict(json.loads(content))
