"""The noise-aware posterior of a rate: sums, and the count where it is private, are summed out.

Poisson records: p(s | n) ~ G(s + a)/s! (n/(b + n))^s (b/(b + n))^a, the negative binomial law, and a member is
Gamma(a + s, b + n). Exponential records: p(s | n) ~ s^(n-1) b^a/(b + s)^(n + a) G(n + a)/G(n), and a member is
Gamma(a + n, b + s). Either way p(s, n | z) is that law times the noise of both; the prior of a private n is uniform.

The sums run over whole numbers, or over so many of them that the sum is as good: nodes are placed anew in the window
that the last pass has found, denser at its top.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import xlog1py, xlogy

from vestry.posterior.mixture import GammaMixture, kept
from vestry.posterior.noise_law import Array, NoiseLaw
from vestry.posterior.window import DROP, log_ratio

# Nodes of a sum over one number, and along each axis of a sum over two.
_LINE, _PLANE = 4000, 500
_PASSES = 6

LogLaw = Callable[[Array, Array], Array]


def poisson(
    noisy: float, *, count: float, shape: float, rate: float, noise: NoiseLaw, count_units: int | None = None
) -> GammaMixture:
    """Return the posterior of a Poisson rate from the noisy sum of counts.

    `count` is public; or, with `count_units`, it is the noisy count in these units.
    """

    def law(s: Array, n: Array) -> Array:
        return _negative_binomial(s, n, shape, rate)

    s, n, logs = _summed(law, noisy, 0.0, 1.0, count, count_units, noise)
    weights, places = kept(logs)
    return GammaMixture(weights, shape + s[places], rate + n[places])


def exponential(
    noisy: float,
    *,
    grid: float,
    middle: float,
    count: float,
    shape: float,
    rate: float,
    noise: NoiseLaw,
    count_units: int | None = None,
) -> GammaMixture:
    """Return the posterior of an exponential rate from the noisy sum of times, in steps of a grid from the middle."""

    def law(units: Array, n: Array) -> Array:
        return _sum_of_times(grid * units + n * middle, n, shape, rate)

    units, n, logs = _summed(law, noisy, -np.inf, 1.0, count, count_units, noise)
    weights, places = kept(logs)
    return GammaMixture(weights, shape + n[places], rate + grid * units[places] + n[places] * middle)


def _negative_binomial(s: Array, n: Array, a: float, b: float) -> Array:
    """Return log of G(s + a)/(s! G(a)) (b/(b+n))^a (n/(b+n))^s; no records give the sum 0."""
    with np.errstate(divide="ignore"):
        odds = np.where(n > 0, np.log(n / (b + n)), -np.inf)
    return log_ratio(s, a) - a * np.log1p(n / b) + np.where(s > 0, s * np.where(n > 0, odds, -1e300), 0.0)


def _sum_of_times(s: Array, n: Array, a: float, b: float) -> Array:
    """Return log of s^(n-1) b^a/(b+s)^(n+a) G(n + a)/(G(n) G(a)); minus infinity where there is no such sum."""
    inside = (s > 0) & (n >= 1)
    time, records = np.where(inside, s, 1.0), np.where(inside, n, 1.0)
    # s^(n-1)/(b+s)^(n+a) = (1 + b/s)^-(n-1) (b+s)^-(a+1)
    logs = -xlog1py(records - 1, b / time) - xlogy(a + 1, b + time) + log_ratio(records - 1, a + 1)
    return np.where(inside, logs, -np.inf)


def _summed(
    law: LogLaw, noisy: float, least: float, step: float, count: float, count_units: int | None, noise: NoiseLaw
) -> tuple[Array, Array, Array]:
    """Return nodes of the sum and the count, flat, with their log weights."""
    private = count_units is not None
    reach = noise.reach(4 * DROP)
    ends = [(max(least, noisy - reach), max(least, noisy) + reach)]
    if count_units is not None:
        centre = count / count_units
        ends.append((max(0.0, centre - reach / count_units), max(0.0, centre) + reach / count_units))
    tops = [max(least, noisy), max(0.0, count / (count_units or 1))]
    size = _PLANE if private else _LINE
    for _ in range(_PASSES):
        axes = [_nodes(low, high, top, size) for (low, high), top in zip(ends, tops, strict=False)]
        s, s_cells = axes[0]
        n, n_cells = axes[1] if private else (np.array([count]), np.zeros(1))
        noise_s = noise.log_weight(s, np.array(noisy), np.array(tops[0]))
        logs = (noise_s + s_cells)[:, None] + n_cells + law(s[:, None], n[None, :])
        if count_units is not None:
            logs = logs + noise.log_weight(n * count_units, np.array(count), np.array(tops[1] * count_units))
        ends, tops, settled = _narrowed(logs, [s, n], ends, private)
        if settled:
            break
    return np.repeat(s, n.size), np.tile(n, s.size), logs.ravel()


def _narrowed(
    logs: Array, axes: list[Array], ends: list[tuple[float, float]], private: bool
) -> tuple[list[tuple[float, float]], list[float], bool]:
    """Return the window in which the weights lie, where they are greatest, and whether it is the one before."""
    best = np.unravel_index(int(np.argmax(logs)), logs.shape)
    found, tops, settled = [], [], True
    for axis in range(2 if private else 1):
        profile = logs.max(axis=1 - axis)
        above = np.flatnonzero(profile > profile.max() - DROP)
        points = axes[axis]
        low, high = points[max(above[0] - 1, 0)], points[min(above[-1] + 1, points.size - 1)]
        before = ends[axis]
        settled = settled and high - low > 0.5 * (before[1] - before[0])
        found.append((float(low), float(high)))
        tops.append(float(points[best[axis]]))
    return found, tops, settled or all(high - low < 2 for low, high in found)


def _nodes(low: float, high: float, top: float, size: int) -> tuple[Array, Array]:
    """List whole numbers from low to high, or so many, denser near the top; and the log of how many each stands for."""
    first, last = np.floor(low), np.ceil(high)
    if last - first + 1 <= size:
        return np.arange(first, last + 1), np.zeros(int(last - first) + 1)
    t = np.linspace(-1, 1, size)
    bent = 0.15 * t + 0.85 * t**3
    spread = np.where(bent < 0, top - first, last - top)
    points = np.unique(np.rint(np.clip(top + bent * spread, first, last)))
    gaps = np.diff(points)
    cells = np.concatenate([[0.5 + gaps[0] / 2], (gaps[1:] + gaps[:-1]) / 2, [0.5 + gaps[-1] / 2]])
    return points, np.log(cells)
