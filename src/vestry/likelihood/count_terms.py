"""True counts summed out of a likelihood: sums of fixed size, whose derivatives are safe, in any array library.

**One count, tilted.** z = n + noise, n Poisson of mean m or binomial, has

    log p(z | t) = log sum over n of w_n e^(n t)  -  A(t),   w_n = h(n) P(z - n),                                   (1)

t the logarithm of m, or the logit. Its slope is E[n] - A'(t), so no derivative overflows. The sum is over the window
of counts at which P has not fallen by `DROP` = 40 below its greatest value there. What is omitted is at most

    e^-40 P(0) <= 4.3e-18                                                                                           (2)

in p(z | t), whatever t: the omitted n have P(z - n) <= e^-40 P(0), and h(n) e^(n t - A(t)) sums to 1. So the
relative error is below 4.3e-18/p(z | t); it matters only where parameters explain z by e^-40 worse than anything could.

**Several counts of one unknown total.** n_k Poisson of mean m p_k, the total's mean m unknown with weight v(m) dm:

    log p(z | p) = log integral of v(m) prod over k of e^(g_k(log m + log p_k)) dm,                                 (3)

g_k(t) the logarithm (1) of a Poisson mean e^t. With v = 1 every total is equally likely, because the integral of
Poisson(n; m) dm is 1 for each n; with a gamma density the total is negative binomial. In y = sqrt(m) all factors have
a width of 1/2 or more, and Gauss-Legendre nodes a third of that apart give the integral to rounding. The g_k are
cubics between the points of a grid (`smooth_tables`), right to 1e-8 where they are within 20 of their summits.

**A noisy number of records.** y of rate r for each of n records, n unknown with the weights w_n of its own noise: (3)
with a sum over n in place of the integral.

**Several counts of one known total.** A convolution of (1)'s weights, all of which are positive, so that nothing
cancels; a common tilt, which changes nothing given the total, keeps the wanted entry near the summit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from vestry.errors import InvalidParameter
from vestry.likelihood.array_math import ArrayMath
from vestry.likelihood.smooth_tables import log_mean_likelihood
from vestry.numerics import Array
from vestry.posterior.discrete_noise import DROP, IntegerNoise, count_window, log_nearest, thin

# A window of more counts is replaced by fewer nodes that are as good (`thin`).
_LISTED = 1024
# Points of a grid of g; distance of nodes in sqrt(m), and how far they go beyond the total's window.
_POINTS, _GAP, _ENDS, _BEYOND = 513, 0.22, 8, 4.5
# How far the log probability of the total's noise falls at the ends of its window; what each count may be off besides.
_TOTAL_DROP, _EACH = 30.0, 3.0
# Stands for a count of 0 where its logarithm is needed.
_NOTHING = 1e-12
# Of counts with a known total: how far the window falls; steps towards the tilt; products that are summed at most.
_KNOWN_DROP, _STEPS, _PRODUCTS = 30.0, 24, 2e9


@dataclass(frozen=True, eq=False)
class CountTerm:
    """The sum (1), by group.

    Attributes
    ----------
    counts, log_weights
        n and log w_n, along the last axis.
    """

    counts: Any
    log_weights: Any

    def log_sum(self, maths: ArrayMath, tilt: Any) -> Any:
        """Return log sum of w_n e^(n t)."""
        return maths.log_sum(self.log_weights + self.counts * maths.xp.expand_dims(tilt, -1), -1)


@dataclass(frozen=True, eq=False)
class CubicTables:
    """Functions of one number each, as cubics between points centre + width sinh(x), x evenly spaced up to +-end.

    Attributes
    ----------
    centres, widths, ends
        By group and level.
    rows
        The place of each among the cubics.
    cubics
        Coefficients of the powers 0 to 3, by function and interval.
    """

    centres: Any
    widths: Any
    ends: Any
    rows: Any
    cubics: Any

    def value(self, maths: ArrayMath, t: Any) -> Any:
        """Return the functions at t, whose last axes are those of the functions."""
        intervals = self.cubics.shape[1]
        step = 2 * self.ends / intervals
        place = (maths.xp.arcsinh((t - self.centres) / self.widths) + self.ends) / step
        place = maths.xp.clip(place, 0.0, intervals - 1e-9)
        at = maths.freeze(maths.xp.floor(place)).astype("int64")
        s = place - at
        coefficients = maths.array(self.cubics.reshape(-1, 4))[self.rows * intervals + at]
        return coefficients[..., 0] + s * (coefficients[..., 1] + s * (coefficients[..., 2] + s * coefficients[..., 3]))


@dataclass(frozen=True, eq=False)
class MixtureTerm:
    """The sum over nodes of what several counts have in common; see (3).

    Attributes
    ----------
    log_nodes, log_weights
        The logarithm of m, or of the number of records, and of what a node counts; the first axis is that of nodes.
    tables
        The g, by group and count.
    """

    log_nodes: Any
    log_weights: Any
    tables: CubicTables

    def log_sum(self, maths: ArrayMath, shifts: Any, log_density: Any = 0.0) -> Any:
        """Return the logarithm of the sum; `shifts` are log p_k or a log rate, `log_density` is that at the nodes."""
        axis = -self.tables.rows.ndim
        at = maths.xp.expand_dims(self.log_nodes, -1) + maths.xp.expand_dims(shifts, axis - 1)
        explained = maths.xp.sum(self.tables.value(maths, at), axis=-1)
        return maths.log_sum(explained + self.log_weights + log_density, axis)


@dataclass(frozen=True, eq=False)
class KnownTotalTerm:
    """Counts that add up to a known number.

    Attributes
    ----------
    counts, log_weights
        n and log of P(z - n)/n!, one row per level; a row holds consecutive counts.
    total
        What they add up to.
    missing
        The total, less the least count of each level.
    """

    counts: Any
    log_weights: Any
    total: float
    missing: int

    def log_sum(self, maths: ArrayMath, log_p: Any) -> Any:
        """Return log of total! times the sum over all counts of prod p^n P(z - n)/n!."""
        xp, (levels, size) = maths.xp, self.counts.shape
        logs = self.log_weights + self.counts * xp.expand_dims(log_p, -1)
        tilt = maths.freeze(self._tilt(maths, logs, xp.expand_dims(0.0 * log_p[..., :1], -1)))
        logs = logs + self.counts * tilt
        tops = maths.freeze(xp.max(logs, axis=-1, keepdims=True))
        weights = xp.exp(logs - tops)
        scale = xp.sum(tops, axis=(-2, -1)) - self.total * tilt[..., 0, 0] + math.lgamma(self.total + 1)
        mass, reach = weights[..., 0, :], size
        for level in range(1, levels):
            last = level + 1 == levels
            sums = (
                np.arange(self.missing, self.missing + 1)
                if last
                else np.arange(min(reach + size - 1, self.missing + 1))
            )
            mass = _sums_of_two(xp, mass, reach, weights[..., level, :], size, sums)
            top = maths.freeze(xp.max(mass, axis=-1, keepdims=True))
            mass, scale, reach = mass / top, scale + xp.log(top[..., 0]), sums.size
        return xp.log(mass[..., 0]) + scale

    def _tilt(self, maths: ArrayMath, logs: Any, start: Any) -> Any:
        """Return about that t at which the mean of the total is right, by Newton's steps of at most 1."""
        xp = maths.xp
        tilt = start + math.log(self.total + 1)
        for _ in range(_STEPS):
            terms = logs + self.counts * tilt
            shares = xp.exp(terms - xp.expand_dims(maths.log_sum(terms, -1), -1))
            mean = xp.sum(shares * self.counts, axis=-1, keepdims=True)
            variance = xp.sum(shares * (self.counts - mean) ** 2, axis=(-2, -1), keepdims=True)
            gap = self.total - xp.sum(mean, axis=-2, keepdims=True)
            tilt = tilt + xp.clip(gap / (variance + 1e-6), -1.0, 1.0)
        return tilt


def _sums_of_two(xp: Any, first: Any, reach: int, second: Any, size: int, sums: np.ndarray) -> Any:
    """Return the weights of these sums of two counts, each from 0 on."""
    other = sums[:, None] - np.arange(size)
    inside = ((other >= 0) & (other < reach)).astype(float)
    return xp.sum(first[..., np.clip(other, 0, reach - 1)] * inside * xp.expand_dims(second, -2), axis=-1)


# How they are made of noisy numbers, in NumPy

Formula = Callable[[Array, int], Array]


def poisson_term(noisy: Array, noise: IntegerNoise) -> CountTerm:
    """Return (1) for Poisson counts: the sum, to which -m is to be added."""
    return _count_term(noisy, noise, lambda n, _: -gammaln(n + 1), lambda n, _: np.sqrt(n + 1))


def binomial_term(noisy: Array, noise: IntegerNoise, totals: Array) -> CountTerm:
    """Return (1) for binomial counts of known totals: the sum, to which n log(1 - p) is to be added."""
    each = totals.ravel()

    def log_ways(s: Array, place: int) -> Array:
        n = each[place]
        return np.asarray(gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1))

    def width(s: Array, place: int) -> Array:
        n = each[place]
        return np.asarray(np.sqrt((s + 1) * (n - s + 1) / (n + 2)))

    return _count_term(noisy, noise, log_ways, width, totals)


def _count_term(
    noisy: Array, noise: IntegerNoise, log_base: Formula, width: Formula, most: Array | None = None
) -> CountTerm:
    ends = np.full(noisy.size, np.inf) if most is None else most.ravel()
    rows = []
    for place, (z, end) in enumerate(zip(noisy.ravel(), ends, strict=True)):
        n, logs = count_window(float(z), noise, DROP, float(end))
        if n.size > _LISTED:
            n, logs = thin(n, logs, width(n, place))
        rows.append((n, logs + log_base(n, place)))
    counts, logs = _padded(rows)
    logs += log_nearest(noisy.ravel(), noise, ends)[:, None]
    return CountTerm(counts.reshape(*noisy.shape, -1), logs.reshape(*noisy.shape, -1))


def _padded(rows: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return counts and log weights as tables; what is filled in has no weight."""
    size = max(n.size for n, _ in rows)
    counts, logs = np.zeros((len(rows), size)), np.full((len(rows), size), -np.inf)
    for place, (n, own) in enumerate(rows):
        counts[place, : n.size], logs[place, : n.size] = n, own
    return counts, logs


def mean_term(noisy: Array, noise: IntegerNoise) -> MixtureTerm:
    """Return (3) for noisy counts, the last axis that of the counts of one total."""
    low, high = _total_window(noisy, noise)
    low, high = np.maximum(np.sqrt(low) - _BEYOND, 0.0), np.sqrt(high) + _BEYOND
    x, weights = np.polynomial.legendre.leggauss(int(np.ceil((high - low).max() / _GAP)) + _ENDS)
    half = (high - low) / 2
    x, weights = (each.reshape(-1, *(1,) * low.ndim) for each in (x, weights))
    y = low + half * (1 + x)
    return MixtureTerm(2 * np.log(y), np.log(2 * y * half * weights), _cubic_tables(noisy, noise))


def _total_window(noisy: Array, noise: IntegerNoise) -> tuple[Array, Array]:
    """Return the ends of the totals that noisy counts leave possible, by Chernoff's bound of the sum of noises."""
    reach = noise.reach_of_sum(noisy.shape[-1], _TOTAL_DROP)
    margin = _EACH * noise.scale
    least = np.maximum(noisy - margin, 0).sum(axis=-1)
    most = (np.maximum(noisy, 0) + margin).sum(axis=-1)
    return np.maximum(least - reach, 0.0), most + reach


def rate_term(records: Array, outcomes: Array, noise: IntegerNoise, units: float) -> MixtureTerm:
    """Return the sum over noisy numbers of records, each of so many units, of noisy sums of their outcomes."""
    own = noise.in_units_of(units)
    rows = []
    for z, total in zip(records.ravel(), outcomes.ravel(), strict=True):
        n, logs = count_window(float(z), own, DROP)
        if n.size > _LISTED:
            n, logs = thin(n, logs, np.sqrt(n + 1) * np.minimum(1.0, np.sqrt((n + 1) / max(total, 1.0))))
        rows.append((n, logs))
    counts, logs = _padded(rows)
    # Noise is on units: only the constant differs from that of noise on records.
    logs += log_nearest(records.ravel(), own)[:, None] + (noise.log_top - own.log_top)
    counts, logs = (each.T.reshape(-1, *records.shape) for each in (counts, logs))
    return MixtureTerm(np.log(np.maximum(counts, _NOTHING)), logs, _cubic_tables(outcomes[..., None], noise))


def _cubic_tables(noisy: Array, noise: IntegerNoise) -> CubicTables:
    """Return g of each noisy count; those of equal ones are held once."""
    distinct, rows = np.unique(noisy, return_inverse=True)
    rows = rows.reshape(noisy.shape)
    tables = log_mean_likelihood(distinct, noise, _POINTS)
    cubics = tables.cubics.copy()
    cubics[..., 0] += log_nearest(distinct, noise)[:, None]
    return CubicTables(tables.centres[rows], tables.widths[rows], tables.ends[rows], rows, cubics)


def known_total_term(noisy: Array, noise: IntegerNoise, total: int) -> KnownTotalTerm:
    """Return the sum over counts that add up to a known total."""
    rows = [_listed(float(z), noise, float(total)) for z in noisy]
    size = max(n.size for n, _ in rows)
    counts = np.stack([n[0] + np.arange(size) for n, _ in rows])
    logs = np.full(counts.shape, -np.inf)
    for place, (n, own) in enumerate(rows):
        logs[place, : n.size] = own
    missing = round(total - counts[:, 0].sum())
    if (len(noisy) * size) ** 2 > 2 * _PRODUCTS:
        allowed = f"at most about {math.sqrt(2 * _PRODUCTS) / size:.0f} of so much noise where their total is public"
        raise InvalidParameter(
            "the number of levels", len(noisy), allowed, "levels taken together, or a larger epsilon"
        )
    if not 0 <= missing <= sum(n.size - 1 for n, _ in rows):
        raise InvalidParameter("noisy counts", "others", "such as a release of this total has", "the original release")
    return KnownTotalTerm(counts, logs, float(total), missing)


def _listed(z: float, noise: IntegerNoise, total: float) -> tuple[Array, Array]:
    """Return consecutive counts and log P(z - n)/n!."""
    nearest, reach = min(max(z, 0.0), total), math.ceil(noise.reach(_KNOWN_DROP))
    n = np.arange(max(0.0, nearest - reach), min(total, nearest + reach) + 1)
    logs = noise.log_weight(n, np.array(z), np.array(nearest)) - gammaln(n + 1)
    return n, logs + log_nearest(np.array(z), noise, total)
