"""The noise-aware posterior of a rate: sums, and the count where it is private, are summed out.

Poisson records: p(s | n) ~ G(s + a)/s! (n/(b + n))^s (b/(b + n))^a, the negative binomial distribution, and a member is
Gamma(a + s, b + n). Exponential records: p(s | n) ~ s^(n-1) b^a/(b + s)^(n + a) G(n + a)/G(n), and a member is
Gamma(a + n, b + s). Either way p(s, n | z) is that times the noise of both; the prior of a private n is uniform.

The sums run over whole numbers, or over so many of them that the sum is as good; see `adaptive_grid`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import xlog1py, xlogy

from vestry.numerics import Array
from vestry.posterior.adaptive_grid import Axis, find_nodes
from vestry.posterior.discrete_noise import DROP, Noise, log_ratio
from vestry.posterior.mixture import GammaMixture, normalise

# Nodes of a sum over one number, and along each axis of a sum over two.
_LINE, _PLANE = 4000, 500

LogWeight = Callable[[Array, Array], Array]


def poisson(
    noisy: float, *, count: float, shape: float, rate: float, noise: Noise, count_units: int | None = None
) -> GammaMixture:
    """Return the posterior of a Poisson rate from the noisy sum of counts.

    `count` is public; or, with `count_units`, it is the noisy count in these units.
    """

    def predictive(s: Array, n: Array) -> Array:
        return _negative_binomial(s, n, shape, rate)

    s, n, logs = _nodes(predictive, noisy, 0.0, count, count_units, noise)
    weights, places = normalise(logs)
    return GammaMixture(weights, shape + s[places], rate + n[places])


def exponential(
    noisy: float,
    *,
    grid: float,
    middle: float,
    count: float,
    shape: float,
    rate: float,
    noise: Noise,
    count_units: int | None = None,
) -> GammaMixture:
    """Return the posterior of an exponential rate from the noisy sum of times, in steps of a grid from the middle."""

    def predictive(units: Array, n: Array) -> Array:
        return _sum_of_times(grid * units + n * middle, n, shape, rate)

    units, n, logs = _nodes(predictive, noisy, -np.inf, count, count_units, noise)
    weights, places = normalise(logs)
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


def _nodes(
    predictive: LogWeight, noisy: float, least: float, count: float, count_units: int | None, noise: Noise
) -> tuple[Array, Array, Array]:
    """Return nodes of the sum and the count, flat, with their log weights."""
    reach, top = noise.reach(4 * DROP), max(least, noisy)
    sums = Axis(max(least, noisy - reach), top + reach, top)

    def log_noise(s: Array) -> Array:
        return noise.log_weight(s, np.array(noisy), np.array(top))

    if count_units is None:
        found = find_nodes(lambda s: log_noise(s) + predictive(s, np.array(count)), [sums], size=_LINE, drop=DROP)
        return found.axes[0], np.full(found.axes[0].size, count), found.logs
    middle, units = max(0.0, count / count_units), float(count_units)
    counts = Axis(max(0.0, (count - reach) / units), middle + reach / units, middle)

    def both(s: Array, n: Array) -> Array:
        near = np.array(np.rint(middle) * units)
        return log_noise(s) + predictive(s, n) + noise.log_weight(n * units, np.array(count), near)

    found = find_nodes(both, [sums, counts], size=_PLANE, drop=DROP)
    return found.flat(0), found.flat(1), found.logs.ravel()
