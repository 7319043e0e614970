"""The one path from records to noisy integers: look up, or charge, open, compute, save.

    charges for the statistic        then
    released, precise enough         the most precise is returned, free
    charged, and never opened        it is run by the event in its entry, if that is precise enough
    otherwise                        a new charge

An opened charge is never run again: noise is drawn once for a charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.interrupts import HeldInterrupts
from vestry.ledger import Charge, Ledger
from vestry.ledger.entry import Entry
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.release import certify, pays_for
from vestry.noise import NoiseSource, SystemNoise
from vestry.privacy.guarantee import Guarantee
from vestry.purchases.bought import Bought
from vestry.purchases.statistic_noise import AUTO, calibrated, law_of, of_event
from vestry.purchases.store import PurchaseStore
from vestry.statistics.cell_counts import total_is_public
from vestry.statistics.statistic import Statistic

# No written number of a release is longer, in characters.
_LONGEST_NUMBER = 32
# What a release file holds besides its numbers, in bytes, at most.
_BESIDES = 100_000
# Two noises are equally precise if their deviations differ by rounding alone.
_EQUAL = 1 + 1e-9


@dataclass(frozen=True)
class Receipt:
    """A noisy statistic, and whether it was paid for now.

    Attributes
    ----------
    bought
        What was bought.
    is_new
        Whether it was charged now, and not before.
    """

    bought: Bought
    is_new: bool


@dataclass(frozen=True)
class PurchaseRequest:
    """A statistic that is asked for.

    Attributes
    ----------
    statistic
        What is asked for.
    guarantee
        What it may cost.
    mechanism
        The noise by name, or `auto`.
    again
        Whether to buy another release of what was bought before.
    purpose
        Why, for the ledger.
    """

    statistic: Statistic
    guarantee: Guarantee
    mechanism: str = AUTO
    again: bool = False
    purpose: str = "a noisy statistic"


def buy(request: PurchaseRequest, table: Table, ledger: Ledger, *, noise: NoiseSource | None = None) -> Receipt:
    """Return a noisy statistic: one that was bought before if it is as precise, or else a new one.

    Parameters
    ----------
    request
        What is asked for.
    table
        The records and what is declared of them.
    ledger
        What pays.
    noise
        Privacy's randomness; tests replace it.
    """
    ledger.require(unit=table.unit, neighbours=table.neighbours)
    population = table.declared.population
    wanted = calibrated(request.statistic, population, request.guarantee, request.mechanism)
    store = PurchaseStore.beside(ledger)
    with store.locked():
        store.recover(ledger)
        if not request.again:
            answer = find(request, wanted, ledger, store)
            if answer is not None:
                return Receipt(answer, is_new=False)
        source = noise or SystemNoise()
        total = _prepare(request.statistic, wanted, table, store, source)
        charge, paid = _claim(request, wanted, table, ledger)
        bought = _run(request.statistic, paid, table, charge, store, source, total)
    return Receipt(bought, is_new=True)


def find(request: PurchaseRequest, wanted: Additive, ledger: Ledger, store: PurchaseStore) -> Bought | None:
    """Return the most precise release of a statistic that answers a request; None if none does."""
    answers = [bought for bought in released(request.statistic, ledger, store) if _answers(bought, request, wanted)]
    return min(answers, key=lambda bought: bought.law.deviation, default=None)


def released(statistic: Statistic, ledger: Ledger, store: PurchaseStore) -> Iterator[Bought]:
    """Yield every release of a statistic, the newest first."""
    journal = ledger.journal()
    for entry in journal.charges(statistic.identity().sha256):
        sha256 = journal.release_of(entry.sequence)
        if sha256 is not None:
            yield store.read(entry, sha256)


def _answers(bought: Bought, request: PurchaseRequest, wanted: Additive) -> bool:
    """Return whether a release was bought with the same spend, or is as precise as what would be bought."""
    named = request.mechanism in (AUTO, bought.certificate.mechanism)
    same_spend = bought.certificate.guarantee == wanted.guarantee.to_dict()
    precise = bought.law.deviation <= law_of(wanted).deviation * _EQUAL
    return named and (same_spend or precise)


def _prepare(
    statistic: Statistic, wanted: Additive, table: Table, store: PurchaseStore, source: NoiseSource
) -> int | None:
    """Try everything that can fail without touching a value; return the number of records where it is public."""
    table.check_statistic(statistic)
    total = None
    if total_is_public(table.declared, *statistic.query.axes):
        total = table.count()
    if total == 0:
        raise InvalidParameter("the number of records", 0, "at least 1", "a table with records")
    wanted.rehearse(source)
    size = _LONGEST_NUMBER * len(statistic.names) + _BESIDES
    store.rehearse(size)
    return total


def _claim(request: PurchaseRequest, wanted: Additive, table: Table, ledger: Ledger) -> tuple[Charge, Additive]:
    """Return an open charge, and the noise that it pays for: one that was never opened, or a new one."""
    identity = request.statistic.identity().sha256
    for entry, paid in _unopened(request, wanted, table, ledger):
        if law_of(paid).deviation <= law_of(wanted).deviation * _EQUAL and not request.again:
            return Charge(ledger, entry), paid
    is_first = ledger.journal().newest_charge(identity) is None
    # A process that comes to the ledger by another name does not see the lock: the first charge is made once.
    charge = ledger.charge(wanted.charge, purpose=request.purpose, definition=identity, once=is_first)
    return charge, wanted


def _unopened(
    request: PurchaseRequest, wanted: Additive, table: Table, ledger: Ledger
) -> Iterator[tuple[Entry, Additive]]:
    """Yield the charges for a statistic that were never opened, each with the noise of its event."""
    population = table.declared.population
    journal = ledger.journal()
    for entry in journal.charges(request.statistic.identity().sha256):
        if journal.stage(entry.sequence) != "charge":
            continue
        paid = of_event(request.statistic, population, entry.facts["event"], wanted.guarantee)
        # What would run must be what was paid for, its sensitivity included.
        if pays_for(entry, paid):
            yield entry, paid


def _run(
    statistic: Statistic,
    paid: Additive,
    table: Table,
    charge: Charge,
    store: PurchaseStore,
    source: NoiseSource,
    total: int | None,
) -> Bought:
    """Open the charge, compute, add the noise and save; an interrupt is held back until then."""
    exact = table.evaluate(statistic, row_key=charge.ledger.row_key())
    layout = statistic.layout(table.declared.population)
    certificate = certify(paid, unit=str(table.unit))
    with HeldInterrupts():
        opened = charge.open()
        noisy = paid.release(exact, opened, source)
        bought = Bought(
            statistic=statistic,
            values=noisy[0].values,
            noise=paid.noise,
            scale=paid.scale,
            grid=layout.grid,
            total=total,
            certificate=certificate,
            charge=charge.sequence,
            charged_at=str(charge.entry.facts.get("when", "")),
        )
        text = bought.text()
        unfinished = store.write_unfinished(charge.sequence, text)
        opened.released(text.encode())
        store.finish(unfinished)
    return bought
