"""The inverse of pricing: from a guarantee to the parameter of a mechanism, on the private side."""

from __future__ import annotations

import math
from collections.abc import Callable

from vestry.errors import GuaranteeUnreachable
from vestry.numerics import largest, smallest
from vestry.privacy.accountant import meets
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee

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


_WITHOUT = "no parameter of this mechanism meets it, in any amount; ask in another currency, or with a (larger) delta"
