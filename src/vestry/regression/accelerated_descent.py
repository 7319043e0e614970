"""The minimum of a strongly convex and smooth function, to a distance that public constants guarantee.

The information-theoretically exact method of Taylor and Drori: of all first-order methods it has the best worst case.
With q = m/M and the numbers A_k below, its last point is within |start - minimum| / sqrt(1 + q A_N) of the minimum,
whatever the function [TaylorD23]. So how many gradients are computed follows from m, M, a bound on the distance
of the minimum, and the tolerance: it says nothing of the records, and a minimum that is not reached cannot happen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from vestry.errors import GuaranteeUnreachable

Gradient = Callable[[np.ndarray], np.ndarray]

LONGEST = 10**6


@lru_cache(maxsize=64)
def iterations(*, strong_convexity: float, smoothness: float, reach: float, tolerance: float) -> int:
    """Return how many gradients bring the last point within `tolerance` of the minimum, from within `reach` of it.

    The last answers are kept: a fit asks several times.
    """
    q, scale, count = strong_convexity / smoothness, 0.0, 0
    if q >= 1:
        return 1
    while reach > tolerance * math.sqrt(1 + q * scale):
        scale = _next(scale, q)
        count += 1
        if count > LONGEST:
            raise GuaranteeUnreachable(
                f"the minimum in {LONGEST} steps",
                f"the objective may be {1 / q:.3g} times as curved in one direction as in another; regularise more, or"
                " declare a smaller bound on the number of records",
            )
    return max(1, count)


def minimise(
    gradient: Gradient, start: np.ndarray, *, strong_convexity: float, smoothness: float, count: int
) -> np.ndarray:
    """Return the last point of the method after `count` gradients."""
    q, scale = strong_convexity / smoothness, 0.0
    x, z = start.copy(), start.copy()
    if q >= 1:  # a multiple of |theta|^2: one step is exact
        return np.asarray(start - gradient(start) / smoothness)
    for _ in range(count):
        grown = _next(scale, q)
        share = scale / ((1 - q) * grown)
        weight = ((1 - q) ** 2 * grown - (1 + q) * scale) / (2 * (1 + q + q * scale))
        y = (1 - share) * z + share * x
        slope = gradient(y)
        x = y - slope / smoothness
        z = (1 - q * weight) * z + q * weight * y - weight / smoothness * slope
        scale = grown
        if q * scale > 1e60:  # 1e-30 of the distance is left: far below rounding
            break
    return np.asarray(z)


def _next(scale: float, q: float) -> float:
    """Return A_(k+1) = [(1 + q) A_k + 2 (1 + sqrt((1 + A_k)(1 + q A_k)))]/(1 - q)^2."""
    return ((1 + q) * scale + 2 * (1 + math.sqrt((1 + scale) * (1 + q * scale)))) / (1 - q) ** 2
