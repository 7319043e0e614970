"""Hockey-stick divergences of gamma laws as integrals of positive terms, in ball arithmetic.

Where the difference of two incomplete gamma functions loses its digits, the same number is

    H = integral over u >= 0 of exp(g(u)) (1 - exp(-k(u))),

with x = t e^u or t e^-u, t the point at which the densities cross (times e^epsilon), g the logarithm of the density of
u, and k >= 0 the privacy loss beyond epsilon. Nothing cancels, every function is entire, and Arb's integration encloses
the result. It is fast at any shape, where incomplete gamma functions of large shapes are slow and wide.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

# So many widths beyond its peak the density is below e^-800 of the greatest.
_WIDTHS = 40.0


def gamma_integral(
    flint: Any, *, shape: Any, log_scale: Any, weight: Any, upward: bool, loss: Callable[[Any], Any]
) -> Any:
    """Return the integral for x ~ Gamma(shape), x = e^(log_scale + u) upward, or e^(log_scale - u) downward.

    Parameters
    ----------
    flint
        The module, at the precision that is wanted.
    shape, log_scale
        Balls: the shape, and the logarithm of t.
    weight
        A ball by which the density is multiplied.
    upward
        Whether x is above t.
    loss
        k(u), for u a complex ball.

    Returns
    -------
    A real ball that encloses the integral, its upper end beyond what was cut off.
    """
    sign = 1 if upward else -1
    constant = shape * log_scale - shape.lgamma()

    def log_density(u: Any) -> Any:
        return constant + sign * shape * u - (log_scale + sign * u).exp()

    def term(u: Any, _: bool) -> Any:
        return log_density(u).exp() * (1 - (-loss(u)).exp())

    peak = max(0.0, float((sign * (shape.log() - log_scale)).mid()))
    width = max(1 / float(shape.mid()) ** 0.5, 1 / float(shape.mid()) if not upward else 0.0)
    end = peak + _WIDTHS * width
    slope = _slope(flint, shape, log_scale, sign, end)
    while not slope < -1e-9 or float((log_density(flint.arb(end)) - log_density(flint.arb(peak))).mid()) > -200:
        end += _WIDTHS * width
        slope = _slope(flint, shape, log_scale, sign, end)
    marks = sorted({0.0, end, *(x for x in (peak - _WIDTHS * width, peak, peak + 6 * width) if 0 < x < end)})
    total = flint.arb(0)
    for low, high in pairwise(marks):
        total += flint.acb.integral(term, low, high).real
    # By concavity what lies beyond the end is at most exp(g(end))/|g'(end)|; 1 - exp(-k) is at most 1.
    beyond = log_density(flint.arb(end)).exp() / -slope
    return weight * (total + flint.arb(0, beyond.upper()))


def _slope(flint: Any, shape: Any, log_scale: Any, sign: int, at: float) -> Any:
    return sign * (shape - (log_scale + sign * flint.arb(at)).exp())
