"""Decides whether a charge still fits: integer totals against limits that were fixed when the ledger was made.

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

All totals are integers in units of 1e-12 (failures: 1e-24), prices rounded up and limits down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

from vestry.errors import InvalidParameter
from vestry.numerics import Number, ceil_units, exact, floor_units, format_up, root
from vestry.privacy import accountant
from vestry.privacy.accountant import largest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP, decimal
from vestry.privacy.pricing import event

UNITS = 10**12
FAILURE_UNITS = 10**24


@dataclass(frozen=True)
class Alternative:
    """One way to stay within the budget: a privacy definition, and the most its total may be, in units."""

    definition: str
    limit: int
    order: float | None = None

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
    """The alternatives of one budget."""

    budget: Guarantee
    alternatives: tuple[Alternative, ...]
    failure_limit: int

    @classmethod
    def of(cls, budget: Guarantee, *, orders: Sequence[float] | None = None) -> PrivacyFilter:
        """Fix the alternatives of a budget, before anything is spent.

        Parameters
        ----------
        budget
            The guarantee that the whole ledger keeps.
        orders
            For an (epsilon, delta) budget, the Renyi orders to follow; chosen from the budget if omitted.
        """
        if isinstance(budget, ApproxDP):
            return _approximate(budget, orders)
        if orders is not None:
            raise InvalidParameter("orders", list(orders), "omitted", "orders only with an epsilon,delta budget")
        if type(budget) not in _NAMES:
            raise InvalidParameter("a budget", budget, "a guarantee", "for example epsilon=1,delta=1e-6")
        limit = _limit(exact(budget.value) ** (2 if isinstance(budget, GaussianDP) else 1))
        return cls(budget, (Alternative(_NAMES[type(budget)], limit, getattr(budget, "order", None)),), 0)

    @property
    def orders(self) -> tuple[float, ...]:
        """The Renyi orders that are followed."""
        return tuple(a.order for a in self.alternatives if a.order is not None)

    @property
    def chosen_orders(self) -> tuple[float, ...] | None:
        """The orders to make a filter for a larger budget of the same kind; None where there is no choice."""
        return self.orders if isinstance(self.budget, ApproxDP) else None

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
        bounded = [(each, each.format_up(total)) for each, total in self._pairs(spent) if total is not None]
        words = ", or ".join([text for each, text in bounded if each.order is None] or [text for _, text in bounded])
        own = format_up(Fraction(spent.failure, FAILURE_UNITS), digits=6)
        return f"{words} (and delta={own} in charges with their own)" if spent.failure else words

    def amounts_left(self, spent: Spent) -> str:
        """Write what remains as guarantees; those of Renyi orders only if no other does."""
        remaining = self.remaining(spent)
        plain = [text for name, text in remaining.items() if not name.startswith("renyi")]
        return ", or ".join(plain or remaining.values()) or "nothing"

    def delta_left(self, spent: Spent) -> str:
        """Write what remains for charges with their own delta, rounded down to six digits."""
        return decimal(_floor_digits(max(0, self.failure_limit - spent.failure) / FAILURE_UNITS))

    def left(self, spent: Spent) -> str:
        """Write what remains in a few words, as certificates keep it."""
        words = self.amounts_left(spent)
        if words == "nothing" or self.failure_limit == 0:
            return words
        return f"{words} (with delta up to {self.delta_left(spent)} in charges that bring their own)"

    def delta_note(self, spent: Spent, price: Spent) -> str:
        """Say that a charge's own delta is too large; nothing where it is not."""
        if price.failure <= self.failure_limit - spent.failure:
            return ""
        own, free = format_up(Fraction(price.failure, FAILURE_UNITS), digits=6), self.delta_left(spent)
        return f"Its own delta {own} is above the {free} that remains for charges with their own delta."

    def covers(self, other: PrivacyFilter) -> bool:
        """Tell whether every limit is at least the other's, alternative by alternative."""
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
        return {"budget": str(self.budget), "alternatives": rows, "failure_limit": self.failure_limit}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PrivacyFilter:
        """Read `to_dict` back."""
        return cls(
            Guarantee.parse(record["budget"]),
            tuple(Alternative(row["currency"], row["limit"], row.get("order")) for row in record["alternatives"]),
            record["failure_limit"],
        )

    def _pairs(self, spent: Spent) -> Iterator[tuple[Alternative, int | None]]:
        return zip(self.alternatives, spent.totals, strict=True)


def _approximate(budget: ApproxDP, orders: Sequence[float] | None) -> PrivacyFilter:
    shares = (len(_SPREAD) if orders is None else len(set(orders))) + 3  # the orders, rho, mu, failures
    share = ApproxDP(budget.epsilon, float(exact(budget.delta) / shares) * (1 - 1e-15))
    chosen = _chosen(share) if orders is None else tuple(sorted({RenyiDP(a, 1).order for a in orders}))
    rho = largest_parameter(lambda x: event("zcdp", rho=x), share)
    mu = largest_parameter(lambda x: event("gdp", mu=x), share)
    return PrivacyFilter(
        budget,
        (
            Alternative("pure", _limit(exact(budget.epsilon))),
            *(Alternative("renyi", _limit(_renyi_limit(order, share)), order) for order in chosen),
            Alternative("zcdp", _limit(exact(rho))),
            Alternative("gdp", _limit(exact(mu) ** 2)),
        ),
        floor_units(exact(budget.delta) / shares, per_one=FAILURE_UNITS),
    )


def _chosen(share: ApproxDP) -> tuple[float, ...]:
    """Choose orders at which between a fifth and four fifths of epsilon are left for the Renyi total."""
    above_one = [math.log(1 / share.delta) / share.epsilon * factor for factor in _SPREAD]
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
_NAMES: dict[type, str] = {PureDP: "pure", RenyiDP: "renyi", ZCDP: "zcdp", GaussianDP: "gdp"}
_AMOUNTS = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu"}
_PRICES = {"pure": accountant.pure, "zcdp": accountant.rho, "gdp": accountant.squared_mu}
