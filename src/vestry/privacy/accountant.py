"""Prices events: from what ran to what is promised, in every privacy definition that a theorem allows.

Composition here is adaptive: an event may have been chosen after seeing the ones before it. A batch whose mechanisms
were all fixed beforehand can be priced more tightly by `vestry.privacy.pld`.

`smallest_parameter` and `largest_parameter` are the inverse, calibration: from a guarantee to the parameter of a
mechanism, on the private side.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from vestry.errors import ConversionError, GuaranteeUnreachable, InvalidParameter
from vestry.numerics import Number, any_of, format_up, largest, outward, root, smallest, total, up
from vestry.privacy import profile as profiles
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP, decimal, number
from vestry.privacy.pricing import PRICINGS, Pricing, event_of_guarantee
from vestry.validation import require_number


def _sum(event: Event, price: Callable[..., Number]) -> Number:
    """Add a price, a method or field of `Pricing`, over what ran: the one place where counts enter."""
    return total((price(PRICINGS[leaf.kind], **dict(leaf.parameters)), count) for leaf, count in event.leaves())


def pure(event: Event) -> Number:
    """Return the pure epsilon apart from failures; epsilons add [DworkR14, Thm 3.14]."""
    return _sum(event, lambda pricing, **p: pricing.pure(**p))


def renyi(event: Event, order: float) -> Number:
    """Return the Renyi divergence at a real order above 1, apart from failures; they add [Mironov17, Prop. 1]."""
    number("order", order)
    return _sum(event, lambda pricing, **p: pricing.renyi(order, **p))


def curve(event: Event) -> Callable[[float], float]:
    """Return the Renyi curve as a function of the order."""
    return lambda order: up(renyi(event, order))


def rho(event: Event) -> Number:
    """Return the zero-concentrated price, apart from failures; rhos add [BunS16, Lemma 2.3]."""
    return _sum(event, Pricing.price_rho)


def squared_mu(event: Event) -> Number:
    """Return the square of the Gaussian price, apart from failures; squares add [DongRS22, Cor. 3.3]."""
    return _sum(event, Pricing.price_squared_mu)


def failure(event: Event) -> Number:
    """Return the probability that some part has no bound at all: 1 - prod (1 - failure) [BunS16, Lemma 8.2]."""
    return any_of((PRICINGS[leaf.kind].failure(**dict(leaf.parameters)), count) for leaf, count in event.leaves())


def delta(event: Event, epsilon: float) -> float:
    """Return the least delta that some theorem gives at this epsilon >= 0: exact for a single event with a profile."""
    require_number("epsilon", epsilon, "for example epsilon=1", least=0)
    exactly = _exact_profile(event)
    if exactly is not None:
        return min(1.0, exactly(epsilon))
    failed, mu = min(1.0, up(failure(event))), _mu(event)
    bound = min(
        profiles.randomised_response(epsilon, total=up(pure(event))),
        profiles.gaussian(epsilon, mu=mu) if mu < math.inf else 1.0,
        profiles.from_renyi(epsilon, curve=curve(event), orders=_orders(event)),
    )
    return min(1.0, failed + outward((1 - failed) * bound))


def epsilon(event: Event, delta: float) -> float:
    """Return the least epsilon that some theorem gives at this delta; infinite if delta is below the failures."""
    exactly = _exact_profile(event)
    if exactly is not None:
        return profiles.epsilon_from_profile(delta, profile=exactly)
    failed, mu, everything = up(failure(event)), _mu(event), up(pure(event))
    if failed >= delta:
        return everything if failed == delta else math.inf
    rest = (delta - failed) / outward(1 - failed)
    return min(
        profiles.epsilon_from_profile(rest, profile=lambda x: profiles.randomised_response(x, total=everything))
        if everything < math.inf
        else math.inf,
        profiles.epsilon_from_profile(rest, profile=lambda x: profiles.gaussian(x, mu=mu))
        if mu < math.inf
        else math.inf,
        profiles.epsilon_from_renyi(rest, curve=curve(event), orders=_orders(event)),
    )


def amount(event: Event, like: Guarantee) -> Number:
    """Return the cost in the definition of `like`, at its delta or order; infinite where no theorem bounds it."""
    if isinstance(like, ApproxDP):
        least = epsilon(event, like.delta)
        # Searching for epsilon may end a hair above a target that `meets` has accepted.
        return min(least, like.epsilon) if meets(event, like) else least
    if failure(event) > 0:
        return math.inf
    match like:
        case PureDP():
            return pure(event)
        case RenyiDP(order=order):
            return renyi(event, order)
        case ZCDP():
            return rho(event)
        case GaussianDP():
            return root(squared_mu(event))
    raise InvalidParameter("a guarantee", like, "of a known privacy definition", "for example PureDP(1)")


def meets(event: Event, guarantee: Guarantee) -> bool:
    """Tell whether the event provably stays within the guarantee."""
    if not isinstance(guarantee, ApproxDP):
        return up(amount(event, guarantee)) <= guarantee.value
    if _exact_profile(event) is not None:
        return delta(event, guarantee.epsilon) <= guarantee.delta
    return epsilon(event, guarantee.delta) <= guarantee.epsilon


def price(event: Event, like: Guarantee) -> Guarantee:
    """Return the event's guarantee in the definition of `like`, at its delta or order; refused if there is none."""
    return _price(event, like, f"an event of kind {event.kind}")


def convert(guarantee: Guarantee, like: Guarantee) -> Guarantee:
    """Turn a guarantee into another privacy definition; refused with the reason where no theorem leads there."""
    return _price(event_of_guarantee(guarantee), like, str(guarantee))


def _price(event: Event, like: Guarantee, named: str) -> Guarantee:
    value = up(amount(event, like))
    if value == math.inf:
        raise ConversionError(named, _wanted(like), _reason(event, like))
    return like.at(max(value, sys.float_info.min)).under(event.neighbours)


def _exact_profile(event: Event) -> Callable[[float], float] | None:
    leaves = list(event.leaves())
    if all(PRICINGS[leaf.kind].gaussian for leaf, _ in leaves):
        mu = _mu(event)
        return lambda x: profiles.gaussian(x, mu=mu)
    leaf, count = leaves[0]
    exactly = PRICINGS[leaf.kind].profile
    if len(leaves) > 1 or count > 1 or exactly is None:
        return None
    return lambda x: exactly(x, **dict(leaf.parameters))


def _mu(event: Event) -> float:
    return up(root(squared_mu(event)))


def _orders(event: Event) -> tuple[float, ...]:
    return tuple(order for leaf, _ in event.leaves() for order in PRICINGS[leaf.kind].orders(**dict(leaf.parameters)))


def _wanted(like: Guarantee) -> str:
    fixed = [f"{key}={decimal(getattr(like, key))}" for key in like.names() if key != like.amount]
    return " at ".join([like.amount, *fixed])


def _reason(event: Event, like: Guarantee) -> str:
    failed = up(failure(event))
    chance = format_up(failed, digits=6)
    if isinstance(like, ApproxDP):
        return f"its own delta is {chance}; ask for a larger one"
    if failed > 0:
        return f"with probability {chance} its privacy loss may be infinite, and only (epsilon, delta) allows that"
    match like:
        case PureDP():
            return "its privacy loss has no bound; ask for (epsilon, delta) with --to delta=1e-6"
        case RenyiDP():
            known = max(_orders(event), default=math.inf)
            return f"a Renyi bound at one order says nothing of higher ones; ask for an order up to {known:g}"
        case ZCDP():
            return "zero-concentrated privacy needs a bound at every order"
        case _:
            return "no theorem bounds it by a Gaussian trade-off curve (discrete Gaussian noise is zCDP and not mu-GDP)"


_FURTHEST = 1e100


def smallest_parameter(mechanism: Callable[[float], Event], guarantee: Guarantee) -> float:
    """Return the least parameter, such as a noise scale, whose event meets the guarantee.

    The price must fall as the parameter grows. The result itself was priced and meets the guarantee.
    """

    def fits(x: float) -> bool:
        return meets(mechanism(x), guarantee)

    high = 1.0
    while not fits(high):
        high *= 16
        if high > _FURTHEST:
            raise GuaranteeUnreachable(str(guarantee), _WITHOUT)
    low = high
    while fits(low):
        low /= 16
        if low < 1 / _FURTHEST:
            return low * 16
    return smallest(fits, low=low, high=high)


def largest_parameter(
    mechanism: Callable[[float], Event],
    guarantee: Guarantee,
    *,
    at_most: float = math.inf,
    meets: Callable[[Event, Guarantee], bool] = meets,
    tolerance: float = 0.0,
) -> float:
    """Return the greatest parameter, such as an epsilon, whose event meets the guarantee.

    The price must grow with the parameter. The result itself was priced and meets the guarantee.

    Parameters
    ----------
    mechanism
        From the parameter to the event.
    guarantee
        What must be met.
    at_most
        The largest parameter that makes sense.
    meets
        How to price; the accountant unless a batch is priced.
    tolerance
        How far below the best parameter the result may be, relatively.
    """

    def fits(x: float) -> bool:
        return meets(mechanism(x), guarantee)

    low = min(1.0, at_most)
    while not fits(low):
        low /= 16
        if low < 1 / _FURTHEST:
            raise GuaranteeUnreachable(str(guarantee), _WITHOUT)
    high = low
    while high < at_most and fits(high):
        high = min(high * 16, at_most)
        if high > _FURTHEST:
            return high / 16
    return largest(fits, low=low, high=high, tolerance=tolerance)


_WITHOUT = "no parameter of this mechanism meets it, in any amount; ask for another definition, or a larger delta"
