"""What the releases of a study cost, what remains of a budget, and the refusal of what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from vestry.errors import BudgetExceeded
from vestry.ledger.entry import State
from vestry.ledger.privacy_filter import PrivacyFilter, Spent
from vestry.mechanisms.release import Mechanism
from vestry.model.request import PreparedRelease, counts_publicly
from vestry.pipeline import NEW, ChargeIndex, PastCharge, calibrate
from vestry.planning import DEFAULT_EXPECTED_ROWS
from vestry.privacy.event import compose
from vestry.releases import Certificate
from vestry.study.config import ReleaseSpec, StudyConfig


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


def calibrated(config: StudyConfig, spec: ReleaseSpec, count: int | None) -> PreparedRelease:
    """Calibrate a release of a study; a fault points at what it may spend."""
    with config.lines.at(f"release.{spec.name}.spend"):
        prepared = calibrate(spec.request, config.schema, count, config.expected_rows)
    with config.lines.at("study.max_rows"):
        prepared.check_bound(config.schema.domains, config.max_rows)
    return prepared


def assumed_count(config: StudyConfig, spec: ReleaseSpec) -> int | None:
    """Return the number of records where it is public, as it is declared or assumed; None where it is private."""
    return (
        (config.expected_rows or DEFAULT_EXPECTED_ROWS) if counts_publicly(config.schema, spec.request.model) else None
    )


def costs(
    config: StudyConfig,
    specs: Sequence[ReleaseSpec],
    state: State,
    index: ChargeIndex,
    mechanism_of: Callable[[ReleaseSpec, PastCharge], Mechanism | Certificate],
) -> list[Cost]:
    """Return what each release would be charged: all that is new together, or one after another."""
    pasts = [index.find_charge(spec.request.definition(config.schema)) for spec in specs]
    mechanisms = [mechanism_of(spec, past) for spec, past in zip(specs, pasts, strict=True)]
    new = [
        each
        for each, past in zip(mechanisms, pasts, strict=True)
        if not isinstance(each, Certificate) and past.state == NEW
    ]
    filter, prices = prices_of(new, state)
    spent, left, rows = filter.nothing if state.filter.undecided else state.spent, iter(prices), []
    for spec, past, mechanism in zip(specs, pasts, mechanisms, strict=True):
        fits = True
        if not isinstance(mechanism, Certificate) and past.state == NEW:
            total = spent.plus(next(left))
            fits = filter.holds(total)
            spent = total if fits else spent
        name = mechanism.mechanism if isinstance(mechanism, Certificate) else mechanism.name
        words = spec.name, spec.request.model.question(), str(spec.request.guarantee), name
        rows.append(Cost(*words, mechanism.parameter, mechanism.value, fits=fits, state=past.state))
    return rows


def prices_of(mechanisms: Sequence[Mechanism], state: State) -> tuple[PrivacyFilter, list[Spent]]:
    """Return what a ledger would charge, and by which filter: together if that fits, else the first alone chooses."""
    events = [each.charge.under(each.adjacency.neighbours) for each in mechanisms]
    if not events:
        return state.filter, []
    together = state.filter.decided_by(compose(*events))
    prices = together.prices(events)
    if together.holds(reduce(Spent.plus, prices, together.nothing if state.filter.undecided else state.spent)):
        return together, prices
    first = state.filter.decided_by(events[0])
    return first, [first.price(each) for each in events]


def refusal(
    spec: ReleaseSpec, filter: PrivacyFilter, spent: Spent, price: Spent, before: Sequence[str] = ()
) -> BudgetExceeded:
    """Return the refusal of a release that does not fit after what is spent and after those named before it."""
    others = " and ".join(before)
    return BudgetExceeded(
        f"after {others}, {spec.name}" if before else spec.name,
        str(spec.request.guarantee),
        str(filter.budget),
        filter.remaining(spent),
        filter.epsilon_left(spent),
        filter.delta_note(spent, price),
        f"Nothing was charged; {others} alone would fit." if before else "",
    )
