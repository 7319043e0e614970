"""Beta, gamma and Dirichlet draws held inside bounds, in doubles, many at a time.

A release never uses them: it draws exactly (`vestry.noise.exact_sampling`). They serve chains over what is
already public.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincc, betainccinv, gammainc, gammaincc, gammainccinv, gammaincinv

from vestry.errors import InvalidParameter

Array = np.ndarray
LogRatio = Callable[[Array, Array], Array]
_LEAST_MASS = 1e-250  # below it, doubles say nothing of the interval


def truncated_beta(rng: np.random.Generator, alpha: Array, beta: Array, *, low: float, high: float) -> Array:
    """Draw Beta(alpha, beta) restricted to [low, high], one for each pair, by the inverse distribution function.

    One that leans to the high end is reflected, so that the upper tail keeps its digits. Where doubles have no mass
    left in the interval, the draw is by rejection from the exponential that touches the log density at its end.
    """
    if not 0 <= low < high <= 1:
        raise InvalidParameter("low and high", (low, high), "0 <= low < high <= 1", "for example low=0.1, high=0.9")
    a, b = (x.astype(float) for x in np.broadcast_arrays(alpha, beta))
    flip = a / (a + b) > (low + high) / 2
    a, b = np.where(flip, b, a), np.where(flip, a, b)
    least, most = np.where(flip, 1 - high, low), np.where(flip, 1 - low, high)
    above, beyond = betaincc(a, b, least), betaincc(a, b, most)
    draws = np.clip(betainccinv(a, b, beyond + (above - beyond) * rng.random(a.shape)), least, most)
    far = above < _LEAST_MASS
    if far.any():
        p, q, end = a[far] - 1, b[far] - 1, least[far]
        slope = q / (1 - end) - np.maximum(0.0, p) / end
        log_ratio = _log_powers(p, end, q, 1 - end)
        draws[far] = end + _tail(rng, log_ratio, slope, most[far] - end)
    return np.asarray(np.where(flip, 1 - draws, draws))


def _log_powers(p: Array, x: Array, q: Array, y: Array) -> LogRatio:
    """Return the log of (1 + step/x)^p (1 - step/y)^q, for the places that are asked for."""
    return lambda step, which: p[which] * np.log1p(step / x[which]) + q[which] * np.log1p(-step / y[which])


def _log_power(p: Array, x: Array, rate: Array) -> LogRatio:
    """Return the log of (1 + step/x)^p e^(-rate step)."""
    return lambda step, which: p[which] * np.log1p(step / x[which]) - rate[which] * step


def _tail(rng: np.random.Generator, log_ratio: LogRatio, slope: Array, width: Array) -> Array:
    """Draw the distance from the end at which a falling log density starts; its tangent there is above it."""
    distances, pending = np.empty(slope.shape), np.arange(slope.size)
    while pending.size:
        rate, span = slope[pending], -np.expm1(-slope[pending] * width[pending])
        step = np.minimum(-np.log1p(-rng.random(pending.size) * span) / rate, width[pending])
        accepted = np.log1p(-rng.random(pending.size)) < log_ratio(step, pending) + rate * step
        distances[pending[accepted]] = step[accepted]
        pending = pending[~accepted]
    return distances


def truncated_gamma(rng: np.random.Generator, shape: Array, rate: Array, *, low: Array, high: Array) -> Array:
    """Draw from density ~ x^(shape - 1) e^(-rate x) on [low, high], one for each shape and rate.

    A plain gamma draw is kept if it falls inside, and made anew up to three times if it does not. What is still outside
    is drawn by the inverse distribution function, from the side with more digits; or, where doubles have no mass left,
    by rejection from the tangent at the near end.
    """
    a, t, least, most = (x.astype(float).ravel() for x in np.broadcast_arrays(shape, rate, low, high))
    draws = rng.standard_gamma(a) / t
    out = np.flatnonzero((draws < least) | (draws > most))
    for _ in range(3):
        draws[out] = rng.standard_gamma(a[out]) / t[out]
        out = out[(draws[out] < least[out]) | (draws[out] > most[out])]
    draws[out] = _inverse_gamma_draw(rng, a[out], t[out], least[out], most[out])
    return np.asarray(draws).reshape(
        np.broadcast_shapes(np.shape(shape), np.shape(rate), np.shape(low), np.shape(high))
    )


def _inverse_gamma_draw(rng: np.random.Generator, a: Array, t: Array, low: Array, high: Array) -> Array:
    upper = t * low > a  # the interval is in the upper tail
    first = np.where(upper, gammaincc(a, t * low), gammainc(a, t * low))
    second = np.where(upper, gammaincc(a, t * high), gammainc(a, t * high))
    place = first + (second - first) * rng.random(a.shape)
    draws: Array = np.clip(np.where(upper, gammainccinv(a, place), gammaincinv(a, place)) / t, low, high)
    above = upper & (first < _LEAST_MASS)
    below = ~upper & (second < _LEAST_MASS)
    if above.any():
        p, r, end = a[above] - 1, t[above], low[above]
        slope = r - np.maximum(0.0, p) / end
        draws[above] = end + _tail(rng, _log_power(p, end, r), slope, high[above] - end)
    if below.any():
        p, r, end = a[below] - 1, t[below], high[below]
        draws[below] = end - _tail(rng, _log_power(p, -end, -r), p / end - r, (high - low)[below])
    return draws


def truncated_dirichlet(rng: np.random.Generator, alphas: Array, *, low: float) -> Array:
    """Draw from Dirichlets whose components are all at least `low`, one for each row of alphas, by rejection.

    With k the category of the largest alpha, the others are independent truncated gammas of a common rate `tilt`, and
    the last is what they leave of 1. That is accepted with probability g(x_k)/max g, with g(x) = x^(alpha_k - 1)
    e^(-tilt x), because prod x_i^(alpha_i - 1) = e^tilt prod_(i != k) [x_i^(alpha_i - 1) e^(-tilt x_i)] g(x_k) where
    the sum is 1. It holds for every tilt; a good one makes the components add up to 1 on average. Two categories are
    a truncated Beta.

    One pass of truncated Betas, stick by stick, as [FouldsGWC16, sec. E.2] draws, is *not* this one for three or more.
    """
    shapes = np.asarray(alphas, float)
    d = shapes.shape[-1]
    if not 0 <= low < 1 / d:
        raise InvalidParameter("low", low, f"at least 0 and below 1/{d}", f"for example low={0.2 / d:g}")
    rows = shapes.reshape(-1, d)
    if d == 2:
        first = truncated_beta(rng, rows[:, 0], rows[:, 1], low=low, high=1 - low)
        return np.stack([first, 1 - first], axis=-1).reshape(shapes.shape)
    largest = rows.argmax(axis=1)[:, None]
    others = np.arange(d - 1) + (np.arange(d - 1) >= largest)  # every index but the largest's
    last, rest = np.take_along_axis(rows, largest, 1)[:, 0], np.take_along_axis(rows, others, 1)
    components = _simplex_rejection(rng, rest, last, low)
    result = np.empty_like(rows)
    np.put_along_axis(result, others, components, 1)
    np.put_along_axis(result, largest, 1 - components.sum(axis=1, keepdims=True), 1)
    return result.reshape(shapes.shape)


def _simplex_rejection(rng: np.random.Generator, rest: Array, last: Array, low: float) -> Array:
    high = 1 - rest.shape[1] * low
    tilt = _tilt(rest, last, low, high)
    best = np.clip((last - 1) / tilt, max(low, 1e-300), high)
    top = (last - 1) * np.log(best) - tilt * best
    components, pending = np.empty_like(rest), np.arange(len(rest))
    while pending.size:
        copies = min(16, len(rest) // pending.size)  # the few that are left are tried many times at once
        tried = np.repeat(pending, copies)
        proposals = truncated_gamma(rng, rest[tried], tilt[tried, None], low=np.asarray(low), high=np.asarray(high))
        left = 1 - proposals.sum(axis=1)
        inside = left >= max(low, 1e-300)
        safe = np.where(inside, left, 1.0)
        log_ratio = (last[tried] - 1) * np.log(safe) - tilt[tried] * safe - top[tried]
        accepted = (inside & (np.log1p(-rng.random(tried.size)) < log_ratio)).reshape(-1, copies)
        done = accepted.any(axis=1)
        components[pending[done]] = proposals.reshape(len(accepted), copies, -1)[done, accepted[done].argmax(axis=1)]
        pending = pending[~done]
    return components


def _tilt(rest: Array, last: Array, low: float, high: float) -> Array:
    """Find roughly the rate at which the truncated gammas, the largest included, have means that add up to 1."""
    shapes = np.concatenate([rest, last[:, None]], axis=1)
    tilt: Array = shapes.sum(axis=1)
    least, most = tilt * 1e-3, tilt * 1e6
    for _ in range(12):
        mean = _truncated_mean(shapes, tilt[:, None], low, high).sum(axis=1)
        if (np.abs(mean - 1) < 0.003).all():
            break
        too_large = mean > 1  # so the rate is too small
        least, most = np.where(too_large, tilt, least), np.where(too_large, most, tilt)
        # The means beyond their bounds fall as 1/tilt; a step outside the bracket is replaced by its middle.
        bound = shapes.shape[1] * low
        step = tilt * np.maximum(mean - bound, 1e-12) / max(1 - bound, 1e-12)
        tilt = np.where((step >= least) & (step <= most), step, np.sqrt(least * most))
    return tilt


def _truncated_mean(shape: Array, rate: Array, low: float, high: float) -> Array:
    """Approximate the mean of a truncated gamma: good enough to choose a proposal, which is then corrected."""
    a, b = rate * low, rate * high
    upper = a > shape
    mass = np.where(upper, gammaincc(shape, a) - gammaincc(shape, b), gammainc(shape, b) - gammainc(shape, a))
    more = np.where(
        upper, gammaincc(shape + 1, a) - gammaincc(shape + 1, b), gammainc(shape + 1, b) - gammainc(shape + 1, a)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        exact = shape / rate * more / mass
    edge = np.where(upper, low + 1 / (rate + np.maximum(1 - shape, 0) / max(low, 1e-300)), high)
    return np.clip(np.where(mass > _LEAST_MASS, exact, edge), low, high)
