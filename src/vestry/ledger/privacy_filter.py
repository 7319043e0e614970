"""Decides whether a charge still fits: integer totals against limits that were fixed before any output was seen.

A filter holds alternatives: the sum of pure epsilons, of Renyi divergences at a few preset orders, of rhos, of squared
mus. A charge is accepted if, after it, the totals stay within the limit of *some* alternative.

Why each alternative gets delta/K
---------------------------------
Let the budget be (epsilon, delta) and let the transcript stop with alternative J still holding. Charges are chosen
adaptively, so J is random. Write the hockey-stick divergence as an integral over transcripts and split it by J. On
{J = j} the process equals one that stops before alternative j would break, and that one is (epsilon, delta_j)-DP by the
filter theorem for a single alternative [FeldmanZ21; WhitehouseRRW23]; so the part of {J = j} is at most
delta_j, and the whole at most the sum. With K shares of delta/K the union is valid. Pure sums need no delta. One share
is kept for charges that bring their own failure probability: those add up, whichever alternative holds
[BunS16, Lemma 8.2].

"Take the order whose epsilon is best so far" has no such proof and is false: an adaptive analyst reaches 1.99 times the
claimed delta. Neither may failures and a Renyi total share one delta, traded as one goes: the trade would depend on
what was seen.

The first charge chooses
------------------------
The first charge is chosen before any output is seen, so the shares may depend on it: for each first charge the rest is
a filter that was fixed beforehand, to which the argument above applies. A filter is therefore `undecided` until the
first charge is accepted. If that fits the equal shares, they stay. Otherwise its own failures get what they need, and
all the rest of delta goes to the one alternative of which it leaves most. If none holds it, and its exact profile meets
(epsilon, delta), it is accepted `alone`: no other charge fits with it. One alternative is kept beside for the day when
the budget is raised. It adds no risk: either its limit holds the first charge too, and then it holds whenever `alone`
does, with all of delta; or it does not, and then it never holds.

Refusals decide nothing and show nothing of the records. A charge for work that was done before decides nothing either:
its output may have been seen, so equal shares are in force from then on. Amending keeps orders and fractions of delta
and computes the limits anew. What is claimed is for each budget by itself: all that was released before the ledger
exceeded it keeps it. Choosing again later, after outputs, has no proof and is false.

All totals are integers in units of 1e-12 (failures: 1e-24), prices rounded up and limits down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.numerics import Number, ceil_units, exact, floor_units, format_up, root
from vestry.privacy import accountant
from vestry.privacy.accountant import largest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP, decimal
from vestry.privacy.pld import PLDAccountant
from vestry.privacy.pricing import event

UNITS = 10**12
FAILURE_UNITS = 10**24


Kind = tuple[str, float | None]
ALONE = "alone"


@dataclass(frozen=True)
class Alternative:
    """One way to stay within the budget: a privacy definition, and the most its total may be, in units."""

    definition: str
    limit: int
    order: float | None = None

    @property
    def kind(self) -> Kind:
        """The definition and its order."""
        return self.definition, self.order

    def price(self, event: Event) -> Number:
        """Return the event's price in this definition, apart from failures."""
        if self.order is not None:
            return accountant.renyi(event, self.order)
        return _PRICES[self.definition](event)

    def format_down(self, units: int) -> str:
        """Write an amount of this definition as a guarantee, rounded down."""
        amount = math.sqrt(units / UNITS) if self.definition == "gdp" else units / UNITS
        return self._named(decimal(_floor_digits(amount)))

    def format_up(self, units: int) -> str:
        """Write an amount of this definition as a guarantee, rounded up."""
        amount = Fraction(units, UNITS)
        return self._named(format_up(root(amount) if self.definition == "gdp" else amount, digits=6))

    def _named(self, digits: str) -> str:
        if self.order is not None:
            return f"order={decimal(self.order)},epsilon={digits}"
        return f"{_AMOUNTS[self.definition]}={digits}"


@dataclass(frozen=True)
class Spent:
    """Totals in units, one per alternative, None where unbounded; and the sum of failure probabilities."""

    totals: tuple[int | None, ...]
    failure: int

    def plus(self, price: Spent) -> Spent:
        """Add the price of one more charge."""
        pairs = zip(self.totals, price.totals, strict=True)
        return Spent(tuple(None if a is None or b is None else a + b for a, b in pairs), self.failure + price.failure)

    def to_dict(self) -> dict[str, Any]:
        """Return plain integers."""
        return {"totals": list(self.totals), "failure": self.failure}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Spent:
        """Read `to_dict` back."""
        return cls(tuple(record["totals"]), record["failure"])


@dataclass(frozen=True)
class PrivacyFilter:
    """The alternatives of one budget.

    Attributes
    ----------
    budget, alternatives
        What the whole ledger keeps, and the ways to keep it.
    failure_limit
        The most that failure probabilities may add up to, in units.
    failure_share
        Which part of delta that is; None for a share that equals those of the alternatives.
    undecided
        Whether the first charge will choose the shares.
    """

    budget: Guarantee
    alternatives: tuple[Alternative, ...]
    failure_limit: int
    failure_share: Fraction | None = None
    undecided: bool = False

    @classmethod
    def of(cls, budget: Guarantee, *, orders: Sequence[float] | None = None) -> PrivacyFilter:
        """Fix the alternatives of a budget in equal shares, before anything is spent.

        Parameters
        ----------
        budget
            The guarantee that the whole ledger keeps.
        orders
            For an (epsilon, delta) budget, the Renyi orders to follow; chosen from the budget if omitted.
        """
        if isinstance(budget, ApproxDP):
            return _equal_shares(budget, orders)
        if orders is not None:
            raise InvalidParameter("orders", orders, "omitted", "orders only with an epsilon,delta budget")
        if type(budget) not in _NAMES:
            raise InvalidParameter("a budget", budget, "a guarantee", "for example epsilon=1,delta=1e-6")
        limit = _limit(exact(budget.value) ** (2 if isinstance(budget, GaussianDP) else 1))
        return cls(budget, (Alternative(_NAMES[type(budget)], limit, getattr(budget, "order", None)),), 0)

    @classmethod
    def new(cls, budget: Guarantee, *, orders: Sequence[float] | None = None) -> PrivacyFilter:
        """Return the filter of a new ledger: in equal shares, unless the first charge needs others."""
        return replace(cls.of(budget, orders=orders), undecided=isinstance(budget, ApproxDP))

    @property
    def orders(self) -> tuple[float, ...]:
        """The Renyi orders that are followed."""
        return tuple(a.order for a in self.alternatives if a.order is not None)

    def with_budget(self, budget: Guarantee) -> PrivacyFilter:
        """Return the filter of another budget of the same kind, with the same orders and fractions of delta."""
        if not isinstance(budget, ApproxDP):
            return PrivacyFilter.of(budget)
        kinds = [each.kind for each in self.alternatives if each.definition not in ("pure", ALONE)]
        raised = _shared(budget, kinds, self.failure_share)
        own = tuple(each for each in self.alternatives if each.definition == ALONE)
        return replace(raised, alternatives=(*raised.alternatives, *own), undecided=self.undecided)

    def decided_by(self, event: Event) -> PrivacyFilter:
        """Return the filter that is in force once this event, all that is charged first, is accepted."""
        equal = self.decided()
        if not self.undecided or equal.holds(equal.price(event)) or not isinstance(self.budget, ApproxDP):
            return equal
        best = min(_candidates(self.budget, event), key=lambda each: each.strain(event), default=equal)
        if best.strain(event) <= 1 or not _meets_alone(event, self.budget):
            return best if best.holds(best.price(event)) else equal
        return replace(best, alternatives=(*best.alternatives, Alternative(ALONE, 1)))

    def may_become(self, chosen: PrivacyFilter) -> bool:
        """Tell whether a first charge can have chosen this filter: all its limits together are worth one delta.

        Limits are found by search, whose last digits may differ from one machine to another.
        """
        if not self.undecided or chosen.undecided or str(chosen.budget) != str(self.budget):
            return False
        again = chosen.with_budget(self.budget)
        pairs = zip(chosen.alternatives, again.alternatives, strict=True)
        return chosen.failure_limit <= again.failure_limit and all(
            mine.limit <= theirs.limit + 1 + theirs.limit // 10**9 for mine, theirs in pairs
        )

    def decided(self) -> PrivacyFilter:
        """Return the filter in equal shares, to be chosen no more."""
        return replace(self, undecided=False)

    def strain(self, event: Event) -> float:
        """Return which part of its limit an event takes, in the alternative where that is least."""
        return min(
            (total / each.limit for each, total in self._pairs(self.price(event)) if total is not None),
            default=math.inf,
        )

    def priced_like(self, other: PrivacyFilter) -> bool:
        """Tell whether a price for one is a price for the other: limits may differ, or the budget if undecided."""
        if self.undecided or other.undecided:
            return self == other
        return [each.kind for each in self.alternatives] == [each.kind for each in other.alternatives]

    @property
    def nothing(self) -> Spent:
        """What is spent at the start."""
        return Spent((0,) * len(self.alternatives), 0)

    def price(self, event: Event) -> Spent:
        """Price one charge in every alternative, rounded up."""
        failure = ceil_units(accountant.failure(event), per_one=FAILURE_UNITS)
        totals = tuple(ceil_units(a.price(event), per_one=UNITS) for a in self.alternatives)
        return Spent(totals, failure or 0)

    def fits(self, spent: Spent) -> bool:
        """Tell whether totals are whole numbers, one per alternative."""
        amounts = [spent.failure, *(total for total in spent.totals if total is not None)]
        return len(spent.totals) == len(self.alternatives) and all(type(x) is int and x >= 0 for x in amounts)

    def holds(self, spent: Spent) -> bool:
        """Tell whether some alternative holds."""
        return spent.failure <= self.failure_limit and any(
            total is not None and total <= alternative.limit for alternative, total in self._pairs(spent)
        )

    def prices(self, events: Sequence[Event]) -> list[Spent]:
        """Price what is charged together, in every alternative, rounded up. `alone` counts it once."""
        known = [each.definition == ALONE for each in self.alternatives]
        first, *others = map(self.price, events)
        joined = [tuple(0 if own else total for own, total in zip(known, each.totals, strict=True)) for each in others]
        return [first, *(Spent(totals, each.failure) for totals, each in zip(joined, others, strict=True))]

    def remaining(self, spent: Spent) -> dict[str, str]:
        """Write what remains of each alternative, for those of which anything does."""
        return {
            f"renyi-{decimal(each.order)}" if each.order else each.definition: each.format_down(each.limit - total)
            for each, total in self._pairs(spent)
            if total is not None and total < each.limit
        }

    def amounts_spent(self, spent: Spent) -> str:
        """Write what is spent in each definition that bounds it, rounded up; Renyi orders only if no other does."""
        if spent == self.nothing:
            return "nothing"
        pairs = [(each, total) for each, total in self._pairs(spent) if total is not None]
        if all(total > each.limit for each, total in pairs if each.definition != ALONE):
            return f"{self.budget}, by what was charged first"
        bounded = [(each, each.format_up(total)) for each, total in pairs if each.definition != ALONE]
        words = ", or ".join([text for each, text in bounded if each.order is None] or [text for _, text in bounded])
        own = format_up(Fraction(spent.failure, FAILURE_UNITS), digits=6)
        return f"{words} (and delta={own} in charges with their own)" if spent.failure else words

    def left(self, spent: Spent) -> str:
        """Write what the next charge may be: its pure epsilon, and the delta that it may bring; rounded down."""
        if not isinstance(self.budget, ApproxDP):
            return next(iter(self.remaining(spent).values()), "nothing")
        epsilon = self.epsilon_left(spent)
        if epsilon == "nothing":
            return epsilon
        return f"{epsilon} for the next release, with its own delta up to {self.delta_left(spent)}"

    def epsilon_left(self, spent: Spent) -> str:
        """Write the largest pure epsilon that would be accepted now, rounded down; other budgets in their own words."""
        if not isinstance(self.budget, ApproxDP):
            return self.left(spent)
        step = 10.0 ** (math.floor(math.log10(self.budget.epsilon)) - 5)
        low, high = 0, math.floor(self.budget.epsilon / step * (1 + 1e-12)) + 1
        while high - low > 1:
            middle = (low + high) // 2
            price = self.price(event("pure", epsilon=float(f"{middle * step:.6g}")))
            low, high = (middle, high) if self.holds(spent.plus(price)) else (low, middle)
        return f"epsilon={decimal(float(f'{low * step:.6g}'))}" if low else "nothing"

    def delta_left(self, spent: Spent) -> str:
        """Write what remains for charges with their own delta, rounded down to six digits."""
        if self.undecided:
            return decimal(self.budget.delta) if isinstance(self.budget, ApproxDP) else "0"
        return decimal(_floor_digits(max(0, self.failure_limit - spent.failure) / FAILURE_UNITS))

    def sharing(self) -> str:
        """Return in words how delta is shared."""
        if not isinstance(self.budget, ApproxDP):
            return "no delta to share"
        if self.undecided:
            return "equal shares of delta, unless the first charge needs others"
        if self.failure_share is None:
            return "equal shares of delta"
        if any(each.definition == ALONE for each in self.alternatives):
            return "all of delta to what was charged first"
        own = decimal(_floor_digits(self.failure_limit / FAILURE_UNITS))
        names = {"zcdp": "rho", "gdp": "mu", "renyi": "one Renyi order"}
        rest = [names[each.definition] for each in self.alternatives if each.definition in names]
        words = f"delta={own} to charges with their own"
        return f"{words}, the rest to {rest[0]}, as the first charge needed it" if rest else f"{words}, which is all"

    def delta_note(self, spent: Spent, price: Spent) -> str:
        """Say that a charge's own delta is too large; nothing where it is not."""
        if price.failure <= self.failure_limit - spent.failure:
            return ""
        own, free = format_up(Fraction(price.failure, FAILURE_UNITS), digits=6), self.delta_left(spent)
        return f"Its own delta {own} is above the {free} that remains for charges with their own delta."

    def covers(self, other: PrivacyFilter) -> bool:
        """Tell whether every limit is at least the other's, alternative by alternative."""
        if (self.undecided, self.failure_share) != (other.undecided, other.failure_share):
            return False  # an amendment neither chooses nor lets choose again
        if len(self.alternatives) != len(other.alternatives) or self.failure_limit < other.failure_limit:
            return False
        pairs = zip(self.alternatives, other.alternatives, strict=True)
        return all((a.definition, a.order) == (b.definition, b.order) and a.limit >= b.limit for a, b in pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        rows = [
            {"currency": each.definition, "limit": each.limit} | ({} if each.order is None else {"order": each.order})
            for each in self.alternatives
        ]
        record: dict[str, Any] = {"budget": str(self.budget), "alternatives": rows, "failure_limit": self.failure_limit}
        if self.failure_share is not None:
            record["failure_share"] = str(self.failure_share)
        return record | ({"undecided": True} if self.undecided else {})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PrivacyFilter:
        """Read `to_dict` back."""
        return cls(
            Guarantee.parse(record["budget"]),
            tuple(Alternative(row["currency"], row["limit"], row.get("order")) for row in record["alternatives"]),
            record["failure_limit"],
            Fraction(record["failure_share"]) if "failure_share" in record else None,
            record.get("undecided", False),
        )

    def _pairs(self, spent: Spent) -> Iterator[tuple[Alternative, int | None]]:
        return zip(self.alternatives, spent.totals, strict=True)


def _equal_shares(budget: ApproxDP, orders: Sequence[float] | None) -> PrivacyFilter:
    """Give every alternative, and failures, the same share of delta: five orders chosen from it, or those given."""
    count = (len(_SPREAD) if orders is None else len(set(orders))) + 3  # the orders, rho, mu, failures
    share = _share(budget, Fraction(1, count))
    chosen = _chosen(share, _SPREAD) if orders is None else sorted({RenyiDP(a, 1).order for a in orders})
    return _shared(budget, [*(("renyi", order) for order in chosen), ("zcdp", None), ("gdp", None)], None)


def _shared(budget: ApproxDP, kinds: Sequence[Kind], failure_share: Fraction | None) -> PrivacyFilter:
    """Split delta: a part for failures, the rest in equal shares for the alternatives of these kinds."""
    own = Fraction(1, len(kinds) + 1) if failure_share is None else failure_share
    limits = [Alternative("pure", _limit(exact(budget.epsilon)))]
    for definition, order in kinds:
        share = _share(budget, (1 - own) / len(kinds))
        limits.append(Alternative(definition, _limit(_largest_total(definition, order, share)), order))
    failures = floor_units(exact(budget.delta) * own, per_one=FAILURE_UNITS)
    return PrivacyFilter(budget, tuple(limits), failures, failure_share)


def _share(budget: ApproxDP, part: Fraction) -> ApproxDP:
    return ApproxDP(budget.epsilon, float(exact(budget.delta) * part) * (1 - 1e-15))


@lru_cache(maxsize=64)
def _largest_total(definition: str, order: float | None, share: ApproxDP) -> Fraction:
    """Return the largest total in a definition that meets a share."""
    if order is not None:
        return _renyi_limit(order, share)
    if definition == "zcdp":
        return exact(largest_parameter(lambda x: event("zcdp", rho=x), share))
    return exact(largest_parameter(lambda x: event("gdp", mu=x), share)) ** 2


def _candidates(budget: ApproxDP, first: Event) -> Iterator[PrivacyFilter]:
    """Yield filters that give the first charge's failures what they need, and one alternative all the rest."""
    whole, needed = exact(budget.delta), accountant.failure(first)
    own = Fraction(ceil_units(needed, per_one=FAILURE_UNITS) or 0, FAILURE_UNITS) / whole
    if own > 1:
        return
    yield _shared(budget, [], Fraction(1))
    if own == 1:
        return
    orders = _chosen(_share(budget, 1 - own), _FINER)
    for kind in (("zcdp", None), ("gdp", None), *(("renyi", order) for order in orders)):
        with suppress(InvalidParameter, GuaranteeUnreachable):  # too small a share for this definition
            yield _shared(budget, [kind], own)


def _meets_alone(first: Event, budget: ApproxDP) -> bool:
    """Tell whether what is charged first meets the budget by its joint profile: nothing was seen yet."""
    if accountant.meets(first, budget):
        return True
    interval = min(2e-3, max(1e-5, budget.epsilon / 5000))
    return PLDAccountant(first, interval=interval).epsilon(budget.delta) <= budget.epsilon


def _chosen(share: ApproxDP, spread: Sequence[float]) -> tuple[float, ...]:
    """Choose orders at which a part of epsilon is left for the Renyi total, 1 - 1/factor, more or less."""
    above_one = [math.log(1 / share.delta) / share.epsilon * factor for factor in spread]
    return tuple(float(f"{1 + x:.3g}") if x > 1 else 1 + float(f"{x:.3g}") for x in above_one)


def _renyi_limit(order: float, share: ApproxDP) -> Fraction:
    """Return the largest Renyi total at this order that meets the share [CanonneKS20, Prop. 12]."""
    gain = (math.log(share.delta) + math.log(order)) / (order - 1) - math.log1p(-1 / order)
    limit = share.epsilon + gain - 1e-12 * (share.epsilon + abs(gain))
    if limit <= 0:
        least = 1 + math.log(1 / share.delta) / share.epsilon
        raise InvalidParameter("order", order, f"larger for the budget, about {least:.3g} at least", "a larger order")
    return exact(limit)


def _limit(value: Fraction) -> int:
    units = floor_units(value, per_one=UNITS)
    if units < 1:
        raise InvalidParameter("a budget", float(value), "at least 1e-12 in each definition", "a larger budget")
    return units


def _floor_digits(amount: float) -> float:
    """Round down to six significant digits."""
    if amount <= 0:
        return 0.0
    exact = Decimal(repr(amount))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 5), ROUND_FLOOR))


_SPREAD = (1.25, 1.5, 2.0, 3.0, 5.0)
_FINER = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
_NAMES: dict[type, str] = {PureDP: "pure", RenyiDP: "renyi", ZCDP: "zcdp", GaussianDP: "gdp"}
_AMOUNTS = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu"}
_PRICES: dict[str, Callable[[Event], Number]] = {
    "pure": accountant.pure,
    "zcdp": accountant.rho,
    "gdp": accountant.squared_mu,
    ALONE: lambda event: Fraction(1, UNITS),
}
