"""Which counts matter: the window of integers outside of which the weights are negligible.

A weight on counts is a product of the noise and of factors Gamma(s + a)/Gamma(s + 1). The logarithm of such a factor is
concave for a >= 1, and for a < 1 convex and decreasing. The concave parts have one summit, found by bisection, and the
window reaches down to `DROP` below it, plus whatever the convex parts can add between its ends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from vestry.posterior.discrete_noise import Array

# By concavity what lies beyond an edge is less than e^-DROP, 5e-18, of what lies inside.
DROP = 40.0
# More counts than this in one table are taken in steps, except this many at each end.
TABLE, _ENDS = 100_000, 5_000

Function = Callable[[Array], Array]

_LARGE = 16.0


def log_ratio(s: Array, a: Array | float) -> Array:
    """Return log Gamma(s + a) - log Gamma(s + 1), to rounding for every s >= 0 and a > 0, however large or small."""
    return -log_rising(s + a, 1 - a)


def log_rising(y: Array, step: Array | float) -> Array:
    """Return log Gamma(y + step) - log Gamma(y), without cancellation for large y (Stirling's series)."""
    y, step = np.broadcast_arrays(np.asarray(y, float), np.asarray(step, float))
    small = np.minimum(y, y + step) < _LARGE
    x, shift = np.where(small, _LARGE, y), np.where(small, 0.0, step)
    large = (x - 0.5) * np.log1p(shift / x) + shift * (np.log(x + shift) - 1) + _tail(x + shift) - _tail(x)
    if not np.any(small):
        return np.asarray(large)
    return np.asarray(np.where(small, gammaln(y + step) - gammaln(y), large))


def _tail(x: Array) -> Array:
    """Return the end of Stirling's series for log Gamma(x); its next term is below 1e-17 for x >= 16."""
    u = 1 / (x * x)
    return (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u * (1 / 1188 - u * 691 / 360360))))) / x


def summit(concave: Function, low: Array, high: Array) -> Array:
    """Return where a concave function on the integers of [low, high] is greatest. All arguments are arrays alike."""
    low, high = low.copy(), high.copy()
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        rises = concave(np.minimum(middle + 1, high)) > concave(middle)
        low, high = np.where(rises & (low < high), middle + 1, low), np.where(rises, high, middle)
    return low


def window(concave: Function, low: Array, high: Array, *, drop: Array | float) -> tuple[Array, Array]:
    """Return the ends of the integers of [low, high] at which a concave function is within `drop` of its summit.

    `high` may be infinite, if the function falls without end.
    """
    bounded = _bounded(concave, low, high, drop)
    top = summit(concave, low, bounded)
    floor = concave(top) - drop
    return _edge(concave, floor, top, low), _edge(concave, floor, top, bounded)


def _bounded(concave: Function, low: Array, high: Array, drop: Array | float) -> Array:
    """Replace infinite ends by ones beyond which the function has fallen by more than `drop` from a point inside."""
    bounded = np.where(np.isinf(high), low + 1, high)
    while True:
        reached = concave(bounded)
        before = concave(np.floor((low + bounded) / 2))
        unfinished = np.isinf(high) & (reached > before - drop)
        if not np.any(unfinished):
            return bounded
        bounded = np.where(unfinished, low + 2 * (bounded - low), bounded)


def _edge(concave: Function, floor: Array, inside: Array, end: Array) -> Array:
    """Return the integer next to `end`, seen from `inside`, at which the function is not below `floor`."""
    outside, direction = end.copy(), np.sign(end - inside)
    inside = np.where(concave(outside) >= floor, outside, inside)
    while np.any(np.abs(outside - inside) > 1):
        middle = inside + direction * np.floor(np.abs(outside - inside) / 2)
        above = concave(middle) >= floor
        inside, outside = np.where(above, middle, inside), np.where(above, outside, middle)
    return inside


def lattice(low: float, high: float) -> tuple[Array, Array]:
    """List the integers from low to high, or so many of them that their weighted sum is as good.

    Of more than `TABLE` integers all are taken near both ends, where a law may bend sharply, and every h-th between
    them. The trapezoid rule then errs in the spread of a law of scale b by a part (h/b)^2/12; a window is about 80
    scales wide, so that is below 1e-7.

    Returns
    -------
    The integers, and the logarithm of how many each stands for.
    """
    size = high - low + 1
    if size <= TABLE:
        points = np.arange(low, high + 1)
        return points, np.zeros(points.size)
    inner = np.arange(low + _ENDS, high - _ENDS, np.ceil(size / TABLE))
    points = np.concatenate([np.arange(low, low + _ENDS), inner, np.arange(high - _ENDS, high + 1)])
    ends = np.concatenate([[low - 1], points, [high + 1]])
    return points, np.log((ends[2:] - ends[:-2]) / 2)
