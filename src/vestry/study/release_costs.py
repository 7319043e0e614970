"""What the releases of a study cost, what remains of a budget, and the refusal of what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vestry.errors import BudgetExceeded
from vestry.ledger.entry import State
from vestry.ledger.privacy_filter import PrivacyFilter, Spent
from vestry.mechanisms.release import Mechanism
from vestry.model.request import PreparedRelease
from vestry.pipeline import NEW, ChargeIndex, PastCharge, calibrate
from vestry.planning import DEFAULT_EXPECTED_ROWS
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
        (config.expected_rows or DEFAULT_EXPECTED_ROWS) if config.schema.counts_publicly(spec.request.model) else None
    )


def costs(
    config: StudyConfig,
    specs: Sequence[ReleaseSpec],
    state: State,
    index: ChargeIndex,
    mechanism_of: Callable[[ReleaseSpec, PastCharge], Mechanism | Certificate],
) -> list[Cost]:
    """Return what each release would be charged, one after another."""
    spent, rows = state.spent, []
    for spec in specs:
        past = index.find_charge(spec.request.definition(config.schema))
        mechanism, fits = mechanism_of(spec, past), True
        if not isinstance(mechanism, Certificate) and past.state == NEW:
            total = spent.plus(price_of(mechanism, state))
            fits = state.filter.holds(total)
            spent = total if fits else spent
        name = mechanism.mechanism if isinstance(mechanism, Certificate) else mechanism.name
        words = spec.name, spec.request.model.question(), str(spec.request.guarantee), name
        rows.append(Cost(*words, mechanism.parameter, mechanism.value, fits=fits, state=past.state))
    return rows


def price_of(mechanism: Mechanism, state: State) -> Spent:
    """Return what a ledger would charge for what would run."""
    return state.filter.price(mechanism.charge.under(mechanism.adjacency.neighbours))


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
