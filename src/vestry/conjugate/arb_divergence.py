"""Hockey-stick divergences of gamma distributions as integrals of positive terms, in ball arithmetic.

Where the difference of two incomplete gamma functions loses its digits, the same number is

    H = integral over u >= 0 of exp(g(u)) (1 - exp(-k(u))),

with x = t e^u or t e^-u, t the point at which the densities cross (times e^epsilon), g the logarithm of the density of
u, and k >= 0 the privacy loss beyond epsilon. Nothing cancels, every function is entire, and Arb's integration encloses
the result. It is fast at any shape, where incomplete gamma functions of large shapes are slow and wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

# So many widths beyond its peak the density is below e^-800 of the greatest.
_WIDTHS = 40.0
# Below this e^w - 1 - w is a short sum.
_SMALL = 2.0**-8


def gamma_integral(*, shape: Any, log_scale: Any, upward: bool, loss: Callable[[Any], Any]) -> Any:
    """Return the integral for x ~ Gamma(shape), x = e^(log_scale + u) upward, or e^(log_scale - u) downward.

    Parameters
    ----------
    shape, log_scale
        Balls: the shape, and the logarithm of t.
    upward
        Whether x is above t.
    loss
        k(u), for u a complex ball.

    Returns
    -------
    A real ball that encloses the integral, its upper end beyond what was cut off.
    """
    import flint

    sign = 1 if upward else -1
    scale = log_scale.exp()
    middle = shape * log_scale - shape.lgamma() - scale

    def log_density(u: Any) -> Any:
        return middle + (shape - scale) * (sign * u) - scale * _beyond_linear(flint, sign * u)

    peak = max(0.0, float((sign * (shape.log() - log_scale)).mid()))
    top = log_density(flint.arb(peak))

    def term(u: Any, _: bool) -> Any:
        # Relative to the peak: the integration stops at an absolute error, which a density of 1e-300 would not notice.
        return (log_density(u) - top).exp() * (1 - (-loss(u)).exp())

    width = max(1 / float(shape.mid()) ** 0.5, 1 / float(shape.mid()) if not upward else 0.0)
    end = peak + _WIDTHS * width
    slope = _slope(flint, shape, log_scale, sign, end)
    while not slope < -1e-9 or float((log_density(flint.arb(end)) - top).mid()) > -200:
        end += _WIDTHS * width
        slope = _slope(flint, shape, log_scale, sign, end)
    marks = sorted({0.0, end, *(x for x in (peak - _WIDTHS * width, peak, peak + 6 * width) if 0 < x < end)})
    total = flint.arb(0)
    for low, high in pairwise(marks):
        total += flint.acb.integral(term, low, high).real
    # By concavity what lies beyond the end is at most exp(g(end))/|g'(end)|; 1 - exp(-k) is at most 1.
    beyond = (log_density(flint.arb(end)) - top).exp() / -slope
    return top.exp() * (total + flint.arb(0, beyond.upper()))


def _beyond_linear(flint: Any, w: Any) -> Any:
    """Return e^w - 1 - w, in a form whose ball does not grow when w is small.

    A posterior of shape 1e21 is 1e-11 wide, and its density is e to the difference of two numbers near 1e21: for a ball
    of w each of the three terms is as wide as the ball, where w^2 (1/2 + w/6 + ...) is narrower by the factor |w|. What
    is missing from the sum is at most |w|^k e^|w|/(k+2)!.
    """
    size = float(abs(w).upper())
    if not size < _SMALL:
        return w.exp() - 1 - w
    terms = 2
    while size**terms > 2.0**-1000 and terms * math.log2(1 / max(size, 1e-300)) < flint.ctx.prec:
        terms += 1
    total = w * 0
    for k in range(terms - 1, -1, -1):
        total = total * w + flint.arb(1) / math.factorial(k + 2)
    left_out = flint.arb(2) * flint.arb(size) ** terms / math.factorial(terms + 2)
    return w * w * (total + _around_zero(flint, w, left_out))


def _around_zero(flint: Any, like: Any, radius: Any) -> Any:
    ball = flint.arb(0, radius.upper())
    return flint.acb(ball, ball) if isinstance(like, flint.acb) else ball


def _slope(flint: Any, shape: Any, log_scale: Any, sign: int, at: float) -> Any:
    return sign * (shape - (log_scale + sign * flint.arb(at)).exp())
