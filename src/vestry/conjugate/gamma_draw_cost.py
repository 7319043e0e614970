"""What one draw from a gamma posterior costs whose rate moves: the price of events of kind `rate-draw`.

P = Gamma(s, 1) against Q = Gamma(s, q), q > 1 the ratio of the rates, both ways round. log p/q = (q - 1) x - s log q is
monotone, so with g and G the regularised lower and upper incomplete gamma functions

    H(P || Q) = G(s, t) - e^epsilon G(s, q t),   t = (epsilon + s log q)/(q - 1)
    H(Q || P) = g(s, q t) - e^epsilon g(s, t),   t = (s log q - epsilon)/(q - 1), and 0 where t <= 0.

Renyi, at order o: D(P || Q) = s [-log(1 - (o-1)(q-1))/(o-1) - log q], infinite from lambda* = 1 + 1/(q-1) on, and
D(Q || P) = s [o log q - log(1 + o (q-1))]/(o-1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy.special import gammainc, gammaincc

from vestry.conjugate.arb_divergence import gamma_integral
from vestry.conjugate.draw_cost import BoundedEstimate, greatest
from vestry.privacy.event import Event
from vestry.privacy.pricing import Pricing, Rule, event

_TRUST = 1e-12


def rate_draw(shape: float, ratio: float, **options: Any) -> Event:
    """Record one draw whose worst neighbours have this shape, and rates of this ratio."""
    return event("rate-draw", shape=shape, ratio=ratio, **options)


def _renyi(order: float, shape: float, ratio: float) -> float:
    """Return the larger of D_o(P || Q) and D_o(Q || P).

    With b = order + (1 - order) q for P over Q, D = s/(o-1) [(1-o) log q - log b]; the other way round, with
    b = order q + 1 - order, D = s/(o-1) [o log q - log b].
    """
    step = ratio - 1
    above = (order - 1) * step
    if above >= 1:
        return math.inf
    log_ratio = math.log1p(step)
    forward = shape * (-math.log1p(-above) / (order - 1) - log_ratio)
    back = shape * (order * log_ratio - math.log1p(order * step)) / (order - 1)
    far = shape * (math.log1p(above) + abs(math.log1p(-above))) / (order - 1) + shape * order * log_ratio / (order - 1)

    def exactly(formula: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any], Any]:
        return lambda arb: formula(arb(shape), arb(ratio), arb(order), arb(order) - 1)

    return greatest(
        [
            BoundedEstimate(
                forward, 4e-16 * far, exactly(lambda s, q, o, less: s * (-(o - less * q).log() / less - q.log()))
            ),
            BoundedEstimate(
                back, 4e-16 * far, exactly(lambda s, q, o, less: s * (o * q.log() - (o * q - less).log()) / less)
            ),
        ]
    )


def _profile(epsilon: float, shape: float, ratio: float) -> float:
    step, log_ratio = ratio - 1, math.log1p(ratio - 1)
    scale = math.exp(epsilon) if epsilon < 700 else math.inf
    t = (epsilon + shape * log_ratio) / step
    p, q = float(gammaincc(shape, t)), scale * float(gammaincc(shape, ratio * t))
    deltas = [_estimate(p, q, lambda arb: _arb_forward(arb, epsilon, shape, ratio))]
    u = (shape * log_ratio - epsilon) / step
    if u > 0:
        p, q = float(gammainc(shape, ratio * u)), scale * float(gammainc(shape, u))
        deltas.append(_estimate(p, q, lambda arb: _arb_back(arb, epsilon, shape, ratio)))
    return greatest(deltas)


def _estimate(p: float, q: float, formula: Callable[[Any], Any]) -> BoundedEstimate:
    if not math.isfinite(q):
        return BoundedEstimate(p, _TRUST * p, formula)
    return BoundedEstimate(p - q, _TRUST * (p + q), formula)


def _arb_forward(arb: Any, epsilon: float, shape: float, ratio: float) -> Any:
    s, q, e = arb(shape), arb(ratio), arb(epsilon)
    t = (e + s * q.log()) / (q - 1)
    return gamma_integral(shape=s, log_scale=t.log(), upward=True, loss=lambda u: (q - 1) * t * (u.exp() - 1))


def _arb_back(arb: Any, epsilon: float, shape: float, ratio: float) -> Any:
    s, q, e = arb(shape), arb(ratio), arb(epsilon)
    t = (s * q.log() - e) / (q - 1)
    # x = q theta is Gamma(s) where theta ~ Gamma(s, q)
    log_scale = (q * t).log()
    return gamma_integral(shape=s, log_scale=log_scale, upward=False, loss=lambda u: (q - 1) * t * (1 - (-u).exp()))


PRICING = Pricing(
    {
        "shape": Rule("above 0", lambda x: math.isfinite(x) and x > 0),
        "ratio": Rule("above 1", lambda x: math.isfinite(x) and x > 1),
    },
    renyi=_renyi,
    profile=_profile,
)
