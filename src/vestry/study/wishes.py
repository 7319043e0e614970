"""The spends at which releases give intervals as narrow as a study wants, and what would fit where they do not.

Nothing is spent and no record is read: widths are those of the plan, and prices those of the ledger or of a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR
from functools import reduce
from typing import Any

from vestry.errors import GuaranteeUnreachable
from vestry.ledger.entry import State
from vestry.ledger.privacy_filter import Spent
from vestry.numerics import largest
from vestry.planning import budget_for_width, forecast_at, quick_mechanism, rounded
from vestry.privacy.guarantee import Guarantee
from vestry.study.config import ReleaseSpec, StudyConfig
from vestry.study.release_costs import prices_of


@dataclass(frozen=True)
class Wish:
    """How wide an interval should be, and what that takes.

    Attributes
    ----------
    name, wanted
        The release, and the width that it should have at most.
    spend, width
        A spend and the width that is expected of it; None where no spend gives what is wanted.
    reason
        Why none does.
    """

    name: str
    wanted: float
    spend: Guarantee | None
    width: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "spend": None if self.spend is None else self.spend.to_dict()}


@dataclass(frozen=True)
class WishPlan:
    """What the wishes of a study take together.

    Attributes
    ----------
    wishes
        The least spend that meets each.
    fits
        Whether all of them, with the spends of the other new releases, fit what remains.
    costliest
        The wish that costs most; empty if all fit.
    instead
        Spends that would fit, all smaller by one factor; empty if all fit, or if nothing helps.
    """

    wishes: tuple[Wish, ...]
    fits: bool
    costliest: str = ""
    instead: tuple[Wish, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        lists = {key: [each.to_dict() for each in getattr(self, key)] for key in ("wishes", "instead")}
        return {**lists, "fits": self.fits, "costliest": self.costliest}


def plan_wishes(config: StudyConfig, new: Sequence[ReleaseSpec], state: State) -> WishPlan:
    """Find the least spend that meets each wish of the new releases, and see whether they fit together."""
    wishes = tuple(_meet(config, spec, spec.want) for spec in new if spec.want is not None)
    spends = {each.name: each.spend for each in wishes if each.spend is not None}
    fits = len(spends) == len(wishes) and fits_together(config, new, spends, state)
    if fits or not spends:
        return WishPlan(wishes, fits)
    costliest = max(spends, key=lambda name: spends[name].value)
    return WishPlan(wishes, fits, costliest, _what_fits(config, new, wishes, state))


def _meet(config: StudyConfig, spec: ReleaseSpec, wanted: float) -> Wish:
    schema, rows = config.schema, config.expected_rows
    with config.lines.at(f"release.{spec.name}.want"):
        try:
            spend = budget_for_width(spec.request, schema, expected_rows=rows, width=wanted)
        except GuaranteeUnreachable as error:
            return Wish(spec.name, wanted, None, None, str(error).rstrip("."))
        forecast = forecast_at(spec.request, schema, spend.value, expected_rows=rows)
    return Wish(spec.name, wanted, spend, forecast.width)


def fits_together(
    config: StudyConfig, new: Sequence[ReleaseSpec], spends: Mapping[str, Guarantee], state: State
) -> bool:
    """Tell whether the new releases fit what remains, with these spends for some of them."""
    requests = [
        replace(each.request, guarantee=spends[each.name]) if each.name in spends else each.request for each in new
    ]
    try:
        mechanisms = [quick_mechanism(each, config.schema, expected_rows=config.expected_rows) for each in requests]
    except GuaranteeUnreachable:
        return False
    filter, prices = prices_of(mechanisms, state)
    return filter.holds(reduce(Spent.plus, prices, filter.nothing if state.filter.undecided else state.spent))


def _what_fits(
    config: StudyConfig, new: Sequence[ReleaseSpec], wishes: Sequence[Wish], state: State
) -> tuple[Wish, ...]:
    """Return the spends of the wishes, made smaller by one factor until they fit; nothing if none does."""
    known = [each for each in wishes if each.spend is not None]

    def spends(share: float) -> dict[str, Guarantee]:
        return {
            each.name: each.spend.at(rounded(share * each.spend.value, ROUND_FLOOR))
            for each in known
            if each.spend is not None
        }

    def fits(share: float) -> bool:
        return fits_together(config, new, spends(share), state)

    if not fits(_LEAST):
        return ()
    guarantees = spends(largest(fits, low=_LEAST, high=1.0, tolerance=0.01))
    requests = {spec.name: spec.request for spec in new}
    return tuple(
        replace(each, spend=guarantees[each.name], width=forecast_at(
            requests[each.name], config.schema, guarantees[each.name].value, expected_rows=config.expected_rows).width)
        for each in known
    )  # fmt: skip


# The smallest share of its spend that a wish is offered.
_LEAST = 0.01
