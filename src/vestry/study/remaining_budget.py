"""What a budget still has room for, and the refusal of what it has not, in a study's words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from vestry.errors import BudgetExceeded
from vestry.ledger.privacy_filter import FAILURE_UNITS, PrivacyFilter, Spent
from vestry.numerics import format_up
from vestry.privacy.guarantee import ApproxDP, PureDP, decimal
from vestry.privacy.pricing import event_of_guarantee
from vestry.study.release_spec import ReleaseSpec


def room(filter: PrivacyFilter, spent: Spent) -> str:
    """Say what the next release may spend: its epsilon, and the delta that it may bring; rounded down."""
    if not isinstance(filter.budget, ApproxDP):
        return filter.left(spent)
    step = 10.0 ** (math.floor(math.log10(filter.budget.epsilon)) - 5)
    low, high = 0, math.floor(filter.budget.epsilon / step) + 1
    while high - low > 1:
        middle = (low + high) // 2
        price = filter.price(event_of_guarantee(PureDP(float(f"{middle * step:.6g}"))))
        low, high = (middle, high) if filter.holds(spent.plus(price)) else (low, middle)
    if low == 0:
        return "nothing"
    return f"epsilon={low * step:.6g} for a release, with a delta of its own up to {_delta_left(filter, spent)}"


def refused(
    asked: ReleaseSpec, filter: PrivacyFilter, spent: Spent, price: Spent, before: Sequence[str] = ()
) -> BudgetExceeded:
    """Return the refusal of a release that does not fit after what is spent and after those named before it."""
    notes = [f"nothing was charged; {' and '.join(before)} alone would fit"] if before else []
    if price.failure > filter.failure_limit - spent.failure:
        own = format_up(Fraction(price.failure, FAILURE_UNITS), digits=6)
        notes.insert(
            0, f"its delta {own} is above the {_delta_left(filter, spent)} left for charges that bring their own"
        )
    after = f" after {' and '.join(before)}" if before else ""
    return BudgetExceeded(
        f"for {asked.name} ({asked.request.guarantee}){after}",
        str(filter.budget),
        filter.remaining(spent),
        room(filter, spent),
        "; ".join(notes),
    )


def _delta_left(filter: PrivacyFilter, spent: Spent) -> str:
    """Write what is left of the delta that charges may bring, rounded down to six digits."""
    left = max(0, filter.failure_limit - spent.failure) / FAILURE_UNITS
    return "0" if left == 0 else decimal(float(f"{left * (1 - 5e-7):.6g}"))
