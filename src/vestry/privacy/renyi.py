"""Renyi curves in closed form, accurate for tiny and for huge arguments.

Each function returns the supremum of D_a(P || Q) over neighbouring outputs P and Q, both ways, for a real order a > 1,
rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import exp_remainder, log_cosh, log_sinhc_step, outward, sinh_remainder


def randomised_response(order: float, *, epsilon: float) -> float:
    """Return the largest divergence any epsilon-DP pair can have.

    D_a = log(cosh((a - 1/2) epsilon) / cosh(epsilon / 2)) / (a - 1): randomised response is the extreme pair
    [BunS16, Prop. 3.3; Mironov17, Prop. 5].
    """
    x, y = (order - 0.5) * epsilon, epsilon / 2
    if x > 30:
        return outward((log_cosh(x) - log_cosh(y)) / (order - 1))
    # cosh x - cosh y = 2 sinh((x + y) / 2) sinh((x - y) / 2)
    excess = 2 * math.sinh(order * y) * math.sinh((order - 1) * y) / math.cosh(y)
    return outward(math.log1p(excess) / (order - 1))


def laplace(order: float, *, epsilon: float) -> float:
    """Return the divergence of Laplace noise at sensitivity / scale = epsilon.

    D_a = log(a/(2a-1) e^((a-1) epsilon) + (a-1)/(2a-1) e^(-a epsilon)) / (a - 1) [Mironov17, Prop. 6].
    """
    weight, other = order / (2 * order - 1), (order - 1) / (2 * order - 1)
    return _two_exponentials(order, epsilon, weight, other, 0.0)


def discrete_laplace(order: float, *, sensitivity: float, scale: float) -> float:
    """Return the divergence of integer noise P(k) ~ e^(-|k|/scale) at an integer sensitivity.

    With q = e^(-1/scale), c = 2a - 1 and epsilon = sensitivity / scale, summing the three geometric pieces gives
    D_a = log(w e^((a-1) epsilon) + (1 - w) e^(-a epsilon)) / (a - 1), w = (1 - q^(c+1)) / ((1 - q^c)(1 + q)).
    At sensitivity 1 it is randomised response; as scale grows it tends to the Laplace curve.
    """
    u, epsilon = 1 / scale, sensitivity / scale
    below = -math.expm1(-(2 * order - 1) * u) * (1 + math.exp(-u))
    weight = -math.expm1(-2 * order * u) / below
    other = math.exp(-u) * -math.expm1(-2 * (order - 1) * u) / below
    # What the linear terms of the exponentials leave: (a-1) w - a (1-w), without cancellation where u is small.
    if order * u > 1:
        drift = (order - 1) * weight - order * other
    else:
        inner = (order - 1) * sinh_remainder(order * u) - order * sinh_remainder((order - 1) * u)
        drift = 2 * math.exp(-order * u) * inner / below
    return _two_exponentials(order, epsilon, weight, other, drift)


def _two_exponentials(order: float, epsilon: float, weight: float, other: float, drift: float) -> float:
    """Return log(weight e^((a-1) epsilon) + other e^(-a epsilon)) / (a - 1), the weights adding to one.

    `drift` is (a-1) weight - a other, which the linear terms leave.
    """
    top = (order - 1) * epsilon
    if top > 1:
        ratio = math.log(other / weight) - (2 * order - 1) * epsilon if other > 0 else -math.inf
        return outward((top + math.log(weight) + math.log1p(math.exp(ratio))) / (order - 1))
    excess = weight * exp_remainder(top) + other * exp_remainder(-order * epsilon) + drift * epsilon
    return outward(math.log1p(excess) / (order - 1))


def bounded_range(order: float, *, epsilon: float) -> float:
    """Return the largest divergence of a pair whose privacy loss spans at most epsilon.

    The extreme pairs have two outputs with losses t and t - epsilon [DongDR20, sec. 4]. Maximising over t gives,
    with l(y) = log(sinh(y) / y),

        D_a = [a l(a epsilon/2) - l(epsilon/2)] / (a - 1) - l((a - 1) epsilon/2),

    which is below a epsilon^2 / 8 and below epsilon.
    """
    y = epsilon / 2
    # The same, as two differences of l that are both positive.
    value = log_sinhc_step((order - 1) * y, y) + log_sinhc_step(y, (order - 1) * y) / (order - 1)
    return outward(min(value, epsilon, order * epsilon * epsilon / 8))


def from_profile(order: float, *, profile: Callable[[float], float]) -> float:
    """Bound the divergence of any pair whose hockey-stick divergences, both ways, are below the profile.

    e^((a-1) D_a) = 1 + a (a-1) int_0^inf [e^((a-1) x) + e^(-a x)] delta(x) dx. Between evaluated points delta is
    convex in e^x, so the chord is above it; beyond the last one it is taken to fall as fast as it fell before.
    """
    points, logs = _dots(profile)
    a = order
    if a * (points[1] - points[0]) > 600:
        return math.inf  # far beyond what the grid resolves
    x0, h = points[:-1], np.diff(points)
    d0, slope = np.exp(logs[:-1]), np.diff(np.exp(logs)) / np.expm1(h)
    # delta(x0 + t) <= d0 + slope (e^t - 1), integrated against e^((a-1) x) and e^(-a x)
    rising = (d0 - slope) * np.expm1((a - 1) * h) / (a - 1) + slope * np.expm1(a * h) / a
    falling = (d0 - slope) * -np.expm1(-a * h) / a + slope * -np.expm1((1 - a) * h) / (a - 1)
    with np.errstate(divide="ignore"):
        up, down = np.log(np.maximum(rising, 0)), np.log(np.maximum(falling, 0))
        pieces = np.concatenate([(a - 1) * x0 + up, -a * x0 + down])
    log_integral = np.logaddexp.reduce(np.append(pieces, _log_tail(order, points, logs)))
    log_excess = math.log(a * (a - 1)) + float(log_integral)
    return outward(float(np.logaddexp(0.0, log_excess)) / (a - 1))


def _log_tail(order: float, points: np.ndarray, logs: np.ndarray) -> float:
    if logs[-1] == -math.inf:
        return -math.inf
    rate = -(logs[-1] - logs[-2]) / (points[-1] - points[-2])
    if rate <= order - 1:
        return math.inf
    return float(logs[-1] + (order - 1) * points[-1] + math.log(2 / (rate - order + 1)))


@lru_cache(maxsize=64)
def _dots(profile: Callable[[float], float]) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a profile from 0 to where it vanishes, on an even grid, and return the points and log delta."""
    end = 2.0**-20
    while profile(end) > _VANISHED and end < 2.0**12:
        end *= 2
    points = np.linspace(0.0, end, 8193)
    values = np.array([float(profile(x)) for x in points])
    if not np.all((values >= 0) & (values <= 1)) or np.any(np.diff(values) > 1e-12):
        allowed = "a falling function of epsilon with values in [0, 1]"
        raise InvalidParameter("a profile", profile, allowed, "for example lambda epsilon: 1e-6")
    seen = int(np.argmax(values <= _VANISHED)) if values[-1] <= _VANISHED else len(values)
    # Keep the first zero, to which the last chord falls; a tiny value is left to the tail.
    seen += int(seen < len(values) and values[seen] == 0.0) or int(seen < 2)
    with np.errstate(divide="ignore"):
        return points[:seen], np.log(values[:seen])


_VANISHED = 1e-290
