"""Privacy profiles delta(epsilon): the largest hockey-stick divergence between neighbouring outputs, both ways.

Every profile obeys delta(-x) = 1 - e^(-x) + e^(-x) delta(x), so each is written for epsilon >= 0. Values are rounded
up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy.special import erfcx, ndtr

from vestry.numerics import SMALLEST, above_zero, minimum, outward, smallest

Profile = Callable[[float], float]


def gaussian(epsilon: float, *, mu: float) -> float:
    """Return Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) [BalleW18, Thm 8; DongRS22, Cor. 2.13].

    With u, v = (epsilon/mu -+ mu/2)/sqrt(2) this is e^(-u^2) [erfcx(u) - erfcx(v)] / 2; for small mu the difference is
    integrated, because -erfcx' has no cancellation to speak of.
    """
    ratio = epsilon / mu
    u = (ratio - mu / 2) / math.sqrt(2)
    v = (ratio + mu / 2) / math.sqrt(2)
    if ratio == math.inf or u > _NO_DOUBLE:
        return SMALLEST
    if mu < 0.1:
        width = mu / math.sqrt(2)  # v - u, which would have lost its digits
        nodes = epsilon / mu / math.sqrt(2) + width / 2 * _NODES
        fall = 2 / math.sqrt(math.pi) - 2 * nodes * erfcx(nodes)
        return above_zero(math.exp(-u * u) * width / 4 * float(_WEIGHTS @ fall))
    if u < 0:
        return above_zero(float(ndtr(-math.sqrt(2) * u)) - math.exp(-u * u) * float(erfcx(v)) / 2)
    return above_zero(math.exp(-u * u) * (float(erfcx(u)) - float(erfcx(v))) / 2)


def randomised_response(epsilon: float, *, total: float, failure: float = 0.0) -> float:
    """Return the largest profile of a (total, failure)-DP pair [KairouzOV15].

    failure + (1 - failure) (e^total - e^epsilon)^+ / (1 + e^total).
    """
    gap = _gap(epsilon, total)
    if gap == 0:
        return failure
    return above_zero(failure + (1 - failure) * -math.expm1(-gap) / (1 + math.exp(-total)))


def laplace(epsilon: float, *, total: float) -> float:
    """Return 1 - e^((epsilon - total)/2) for Laplace noise at sensitivity / scale = total [BalleBG18, Thm 3]."""
    gap = _gap(epsilon, total)
    return above_zero(-math.expm1(-gap / 2)) if gap > 0 else 0.0


def discrete_laplace(epsilon: float, *, sensitivity: float, scale: float) -> float:
    """Return F(k) - e^epsilon F(k - sensitivity) for integer noise, F its distribution function.

    The privacy loss of output x in 0..sensitivity is (sensitivity - 2x)/scale, so the outputs that lose more than
    epsilon are those up to k, the largest integer below (sensitivity - epsilon scale)/2. With q = e^(-1/scale) and
    s = (sensitivity - 2k)/scale - epsilon, the excess of the last of them, this is 1 - q^k + q^k (1 - e^-s)/(1 + q).
    """
    k = max(0, math.ceil((sensitivity - epsilon * scale) / 2) - 1)
    excess = _gap(epsilon, math.nextafter((sensitivity - 2 * k) / scale, math.inf))
    if excess == 0 and k == 0:
        return 0.0
    last = math.exp(-k / scale) * -math.expm1(-excess) / (1 + math.exp(-1 / scale))
    return above_zero(-math.expm1(-k / scale) + last)


def bounded_range(epsilon: float, *, total: float) -> float:
    """Return (1 - e^((epsilon - total)/2))^2 / (1 - e^(-total)) for a privacy loss that spans at most total.

    Two outputs with losses t and t - total; the worst t is (epsilon + total)/2 [DongDR20, sec. 4].
    """
    gap = _gap(epsilon, total)
    return above_zero(math.expm1(-gap / 2) ** 2 / -math.expm1(-total)) if gap > 0 else 0.0


def _gap(epsilon: float, total: float) -> float:
    """Return (total - epsilon)^+, enlarged by what the subtraction may have lost."""
    return max(0.0, total - epsilon + 4e-16 * total) if epsilon < total else 0.0


def from_renyi(epsilon: float, *, curve: Callable[[float], float], orders: Iterable[float] = ()) -> float:
    """Bound delta by the best order of a Renyi curve [CanonneKS20, Prop. 12].

    delta = min over a > 1 of exp((a-1)(R(a) - epsilon)) / a * (1 - 1/a)^(a-1). Any order gives a valid bound; `orders`
    are tried besides the search, for curves that are known at few of them.
    """

    def log_delta(below: float) -> float:
        divergence = curve(1 + below)
        lost = 4e-16 * below * (divergence + epsilon)  # what the next line's subtraction may lose
        return below * (divergence - epsilon + math.log1p(-1 / (1 + below))) - math.log1p(below) + lost

    exponent = min(0.0, _best(log_delta, orders))
    return min(1.0, above_zero(math.exp(exponent)))


def epsilon_from_renyi(delta: float, *, curve: Callable[[float], float], orders: Iterable[float] = ()) -> float:
    """Bound epsilon at a given delta by the best order: the inverse of `from_renyi`.

    epsilon = min over a > 1 of R(a) + log(1 - 1/a) - (log delta + log a)/(a - 1).
    """

    def epsilon(below: float) -> float:
        order = 1 + below
        return curve(order) + math.log1p(-1 / order) - (math.log(delta) + math.log1p(below)) / below

    return max(0.0, outward(_best(epsilon, orders)))


def _best(bound: Callable[[float], float], orders: Iterable[float]) -> float:
    return min([*(bound(order - 1) for order in orders), minimum(bound, low=1e-4, high=1e8)])


def epsilon_from_profile(delta: float, *, profile: Profile) -> float:
    """Return the smallest epsilon >= 0 whose delta is at most the given one."""
    high = 1.0
    while profile(high) > delta:
        high *= 2
        if high > 1e300:
            return math.inf
    return smallest(lambda x: profile(x) <= delta, low=0.0, high=high)


# At u above this e^(-u^2) erfcx(u)/2 is below the smallest double.
_NO_DOUBLE = 27.3
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
