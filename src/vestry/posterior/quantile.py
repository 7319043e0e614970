"""Quantiles of a mixture: its distribution function turned round by Newton's method inside a shrinking bracket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vestry.posterior.discrete_noise import Array

_TOLERANCE = 1e-12
_STEPS = 400


def invert(
    target: Array,
    distribution: Callable[[Array], Array],
    density: Callable[[Array], Array],
    *,
    start: Array,
    low: Array,
    high: Array,
) -> Array:
    """Return t in [low, high] with distribution(t) = target, to 1e-12 of 1 + |t|.

    A Newton step is taken if it stays in the bracket and is at most half as long as the last step; otherwise the
    bracket is halved. So the method is quadratic near the root and never slower than bisection by more than a factor.
    """
    target, t, low, high = (np.ravel(each).copy() for each in np.broadcast_arrays(target, start, low, high))
    t = np.clip(t, low, high)
    last = np.full(t.shape, np.inf)
    active = np.arange(t.size)
    for _ in range(_STEPS):
        at = t[active]
        gap = distribution(at) - target[active]
        below = gap < 0
        low[active[below]], high[active[~below]] = at[below], at[~below]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = at - gap / density(at)
        usable = (newton >= low[active]) & (newton <= high[active]) & (2 * np.abs(newton - at) <= last[active])
        t[active] = np.where(usable, newton, low[active] + (high[active] - low[active]) / 2)
        last[active] = np.abs(t[active] - at)
        active = active[last[active] > _TOLERANCE * (1 + np.abs(at))]
        if active.size == 0:
            break
    return np.asarray(t.reshape(np.shape(start)))
