"""What a guarantee for one unit says about several, and add-remove about replace."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from vestry.errors import ConversionError, InvalidParameter
from vestry.numerics import exact, outward, up
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
from vestry.privacy.neighbours import Neighbours
from vestry.validation import require_whole


def group(guarantee: Guarantee, size: int) -> Guarantee:
    """Turn a guarantee for one unit into one for any `size` units together.

    Pure: size epsilon [DworkR14, Thm 2.2]. Approximate: (k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1))
    [Vadhan17, Lemma 2.2]. Zero-concentrated: k^2 rho [BunS16, Prop. 1.9]. Gaussian: k mu [DongRS22, Thm 2.14]. Renyi:
    each doubling of the group halves the order a and multiplies epsilon by (2a - 3)/(a - 2) [Mironov17, Prop. 2 with
    the constant of its proof]; 3 units cost as much as 4.
    """
    size = require_whole("a group's size", size, "for example 2")
    match guarantee:
        case PureDP() | GaussianDP():
            return guarantee.at(up(exact(guarantee.value) * size))
        case ZCDP(rho=rho):
            return guarantee.at(up(exact(rho) * size**2))
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _approximate(guarantee, size, epsilon, delta)
        case RenyiDP():
            return _renyi(guarantee, size)
        case _:
            raise InvalidParameter("a guarantee", guarantee, "one of the five definitions", "for example PureDP(1)")


def to_replace(guarantee: Guarantee) -> Guarantee:
    """Turn an add-remove guarantee into a replace guarantee: a replacement is one removal and one addition."""
    if guarantee.neighbours is not Neighbours.ADD_REMOVE:
        stated = str(guarantee.neighbours or "no relation")
        reason = f"it states {stated}, and only add-remove implies the other relation, since replacing keeps the count"
        raise ConversionError(str(guarantee), "a replace guarantee", reason)
    doubled = group(guarantee, 2)
    return dataclasses.replace(doubled, neighbours=Neighbours.REPLACE)


def _approximate(guarantee: ApproxDP, size: int, epsilon: float, delta: float) -> ApproxDP:
    if size == 1:
        return guarantee
    total = up(exact(epsilon) * size)
    factor = math.expm1(total) / math.expm1(epsilon) if total < 700 else math.inf
    grown = outward(delta * factor)
    if grown >= 1:
        target = f"(epsilon, delta) for {size} units"
        raise ConversionError(str(guarantee), target, "delta would reach 1; start from a smaller delta or epsilon")
    return ApproxDP(total, grown, neighbours=guarantee.neighbours)


def _renyi(guarantee: RenyiDP, size: int) -> RenyiDP:
    order, epsilon = exact(guarantee.order), exact(guarantee.epsilon)
    for _ in range((size - 1).bit_length()):
        if order <= 2:
            target = f"a Renyi guarantee for {size} units"
            raise ConversionError(str(guarantee), target, f"its order must be above {2 ** (size - 1).bit_length()}")
        epsilon *= (2 * order - 3) / (order - 2)
        order /= 2
    return RenyiDP(_down(order), up(epsilon), neighbours=guarantee.neighbours)


def _down(value: Fraction) -> float:
    rounded = float(value)
    return rounded if exact(rounded) <= value else math.nextafter(rounded, 0.0)
