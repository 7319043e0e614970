"""Questions answered: from what has been bought, free of charge, or by a purchase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.ledger import Ledger
from vestry.models.statistic_model import ModelReading, StatisticModel
from vestry.noise import NoiseSource
from vestry.privacy.guarantee import Guarantee
from vestry.purchases.bought import Bought
from vestry.purchases.noisy import Noisy
from vestry.purchases.purchase import PurchaseRequest, buy, find
from vestry.purchases.statistic_noise import AUTO, calibrated
from vestry.purchases.store import PurchaseStore
from vestry.schema.table_schema import TableSchema
from vestry.statistics.statistic import Statistic

P = TypeVar("P", bound=ModelReading)


@dataclass(frozen=True)
class Answer(Generic[P]):
    """A posterior, and the charge that paid for it.

    Attributes
    ----------
    posterior
        What the model reads.
    charge
        The number of the entry in the ledger.
    is_new
        Whether it was charged now.
    is_derived
        Whether it is read from sums of what was bought, and not from the statistic itself.
    """

    posterior: P
    charge: int
    is_new: bool
    is_derived: bool


def release(
    model: StatisticModel[P],
    table: Table,
    ledger: Ledger,
    guarantee: Guarantee,
    *,
    mechanism: str = AUTO,
    again: bool = False,
    noise: NoiseSource | None = None,
) -> Answer[P]:
    """Answer a question from a release of one of its statistics, bought before or now.

    Each of the statistics from which the model can be read is looked up before the cheapest one is bought.
    """
    schema = table.declared
    candidates = model.statistics(schema)
    store = PurchaseStore.beside(ledger)
    chosen = candidates[0]
    for statistic in candidates:
        request = PurchaseRequest(statistic, guarantee, mechanism, again, model.question())
        wanted = calibrated(statistic, schema.population, guarantee, mechanism)
        if not again and find(request, wanted, ledger, store) is not None:
            chosen = statistic
            break
    receipt = buy(PurchaseRequest(chosen, guarantee, mechanism, again, model.question()), table, ledger, noise=noise)
    posterior = model.read(receipt.bought.noisy, schema)
    return Answer(posterior, receipt.bought.charge, receipt.is_new, is_derived=False)


def read(model: StatisticModel[P], schema: TableSchema, ledger: Ledger) -> Answer[P]:
    """Answer a question from what has been bought; raise if nothing answers it.

    Of all that answers the most precise is taken: the statistic itself, or sums of a finer one.
    """
    answers = list(_readable(model, schema, ledger))
    if not answers:
        wanted = model.statistics(schema)[0].identity().sha256[:12]
        allowed = f"bought before (statistic {wanted}), or a sum of what was"
        raise InvalidParameter(model.question(), "not yet bought", allowed, "release(...) with a spend")
    best = min(answers, key=lambda source: source.noisy.largest_deviation)
    return Answer(model.read(best.noisy, schema), best.bought.charge, is_new=False, is_derived=best.is_derived)


@dataclass(frozen=True)
class _Source:
    """Noisy integers of a model's statistic, and what they come from."""

    noisy: Noisy
    bought: Bought
    is_derived: bool


def _readable(model: StatisticModel[P], schema: TableSchema, ledger: Ledger) -> Iterator[_Source]:
    store = PurchaseStore.beside(ledger)
    for bought in store.all(ledger):
        for wanted in model.statistics(schema):
            noisy = _derived(bought, wanted)
            if noisy is not None:
                yield _Source(noisy, bought, is_derived=bought.statistic != wanted)
                break


def _derived(bought: Bought, wanted: Statistic) -> Noisy | None:
    if bought.statistic == wanted:
        return bought.noisy
    matrix = bought.statistic.derive(wanted)
    if matrix is None:
        return None
    return bought.noisy.sum_by(matrix)
