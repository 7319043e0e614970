"""The one path from a record to the world: check, charge, collect, release."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vestry.data import Table
from vestry.errors import IN_LEDGER, AskedBefore, DeclarationMismatch, InvalidParameter
from vestry.ledger import Charge, Ledger
from vestry.mechanisms.release import assumptions_of, publish
from vestry.model.columns import purpose_of
from vestry.model.request import AUTO, Model, PreparedRelease, Request, TableSchema
from vestry.model.size_limit import check_size
from vestry.noise import NoiseSource
from vestry.planning import choose_mechanism
from vestry.posterior import Posterior
from vestry.privacy.guarantee import Guarantee
from vestry.releases import Release


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
        A new file for the release, which `vestry.open_release` and `vestry posterior` read. What is not kept cannot be
        had again without paying again.
    mechanism, draws, truncation
        See `Request`.
    purpose
        Why, for the ledger; the model's question if left out.
    again
        Whether to release what was released before; it costs again.
    """
    ledger = _opened(ledger)
    request = Request(model, Guarantee.parse(guarantee, neighbours=table.neighbours), mechanism, draws, truncation)
    frame = frame_of(table)
    ready = ready_for(request, table, ledger)
    definition = request.definition(frame)
    if not again:
        refuse_repetition(definition, ledger)
    with _kept(path) as keep:
        charge = waiting(definition, ready, ledger)
        if charge is None:
            charge = _charged_once(request, ready, frame, ledger, purpose=purpose, again=again)
        return Posterior.from_release(run(ready, table, charge, keep=keep))


def _charged_once(
    request: Request, ready: PreparedRelease, frame: TableSchema, ledger: Ledger, *, purpose: str | None, again: bool
) -> Charge:
    """Charge, or say which charge for the same there is: another process may have made it since it was looked up."""
    try:
        return charge_for(request, ready, frame, ledger, purpose=purpose, once=not again)
    except AskedBefore as error:
        entry = error.sequence
    refuse_repetition(request.definition(frame), ledger)
    owned = f"charged before, by entry {entry}, by another process or for another number of records"
    raise DeclarationMismatch("release", "new", owned, "try again, or say again=True to pay again", where=IN_LEDGER)


def _opened(ledger: object) -> Ledger:
    if isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, (str, Path)):
        return Ledger.open(str(ledger))
    raise InvalidParameter("ledger", ledger, "the dataset's ledger, or where it is", 'ledger="patients.ledger"')


@contextmanager
def _kept(path: str | Path | None) -> Iterator[Callable[[str], None]]:
    """Make the file before anything is charged, and write the release into it before the ledger is told."""
    if path is None:
        yield lambda text: None
        return
    place = Path(path)
    try:
        file = place.open("x", encoding="utf-8")
    except OSError as error:
        allowed = f"a new file that can be written ({error.strerror})"
        raise InvalidParameter("path", str(path), allowed, "for example path='release.json'") from None

    def keep(text: str) -> None:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())

    with file:
        try:
            yield keep
        finally:
            if not file.tell():
                place.unlink()


def frame_of(table: Table) -> TableSchema:
    """Return what is declared of a table."""
    return TableSchema(table.columns, table.unit, table.neighbours, table.largest)


def ready_for(request: Request, table: Table, ledger: Ledger, *, n: int | None = None) -> PreparedRelease:
    """Try all that can fail without touching values: the ledger's terms, the calibration, the connection, the query.

    `n` is the declared guess that `auto` is advised by, so that a plan and its release agree.
    """
    ledger.require(unit=table.unit, neighbours=table.neighbours)
    frame = frame_of(table)
    check_size(request.model, frame.domains)
    count = table.count() if frame.counts_publicly(request.model) else None
    if count == 0:
        raise InvalidParameter("the number of records", 0, "at least 1", "a table with records")
    prepared = choose_mechanism(request, frame, n).prepared(frame, count)
    prepared.check(table)
    return prepared


def refuse_repetition(definition: str, ledger: Ledger) -> None:
    """Refuse what was released or opened before: a release is free to use, and noise is never drawn twice."""
    for entry, done in ledger.charges():
        if entry.facts.get("definition") == definition and done:
            state = "released" if "release" in done else "opened, and its release lost,"
            instead = "use that release, which is free, or say again=True to pay again"
            raise DeclarationMismatch(
                "release", "new", f"{state} before, by entry {entry.sequence}", instead, where=IN_LEDGER
            )


def waiting(definition: str, prepared: PreparedRelease, ledger: Ledger) -> Charge | None:
    """Return a charge for the same that was never opened: it may be used, free, if it pays for what would run."""
    event = prepared.mechanism.charge.under(ledger.terms.neighbours).to_dict()
    for entry, done in ledger.charges():
        if entry.facts.get("definition") == definition and not done and entry.facts["event"] == event:
            return ledger.resume(entry.sequence)
    return None


def charge_for(
    request: Request,
    prepared: PreparedRelease,
    frame: TableSchema,
    ledger: Ledger,
    *,
    purpose: str | None = None,
    once: bool = False,
) -> Charge:
    """Charge the ledger for what will run; `once`, refuse what was charged before, in the charge's own transaction."""
    return ledger.charge(
        prepared.mechanism.charge,
        purpose=purpose or purpose_of(request.model.question()),
        definition=request.definition(frame),
        assumptions=assumptions_of(prepared.mechanism),
        once=once,
    )


def run(
    prepared: PreparedRelease,
    table: Table,
    charge: Charge,
    *,
    noise: NoiseSource | None = None,
    keep: Callable[[str], None] = lambda text: None,
) -> Release:
    """Collect the statistics, which are paid for, and release."""
    private = prepared.collect(table, row_key=charge.ledger.row_key())
    return publish(
        prepared.mechanism,
        private,
        charge,
        family=prepared.described,
        prior=prepared.numbers,
        by=prepared.model.by,
        groups=prepared.groups,
        labels=prepared.labels,
        noise=noise,
        keep=keep,
    )
