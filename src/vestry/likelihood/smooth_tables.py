"""What noisy counts of a table say of the rates behind them: the noise is summed out, exactly.

A cell whose records fall into levels with probabilities p_l, and whose total has the geometric prior r^t, has the
likelihood

    sum over n_1, n_2, ... >= 0 of  (t!/prod n_l!) prod p_l^n_l r^t prod P(z_l - n_l),   t = sum n_l,        (1)

P the distribution of the noise. A geometric total is Poisson of an exponential mean: with r = 1/(1 + b), (1) is, up to
a factor,

    integral over m > 0 of  e^(-b m) prod_l e^(g_l(m p_l)) dm,    g_l(m) = log sum_n Poisson(n; m) P(z_l - n),   (2)

so the levels separate given the cell's mean m, which is one more unknown. Counts of Poisson outcomes have a rate for
each of n records, and records and outcomes are both noisy:

    sum over n >= 0 of  r^n P(z - n) e^(g(n rate)).                                                            (3)

g and the logarithm of (3) are functions of one number. They are computed on a grid, with their slopes, and joined by
cubics; the grid is fine on the scale on which they bend, 1/sqrt(count) in the logarithm of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from vestry.numerics import Array
from vestry.posterior.discrete_noise import DROP, Noise, count_window, thin

# Points of a grid, and how far it reaches in the logarithm.
NODES, _REACH = 257, 40.0
# Stands for a count of 0 where its logarithm is needed.
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class SmoothTables:
    """Functions of one number each, by value and slope at points t = centre + width sinh(x), x evenly spaced.

    Attributes
    ----------
    centres, widths
        Of each function: where it bends, and on which scale.
    values, slopes
        By function and point. Slopes are by t.
    """

    centres: Array
    widths: Array
    values: Array
    slopes: Array

    @staticmethod
    def points(centres: Array, widths: Array, nodes: int = NODES) -> Array:
        """Return the points of the grids, one row per function."""
        x = np.linspace(-1, 1, nodes) * np.arcsinh(_REACH / widths)[:, None]
        return np.asarray(centres[:, None] + widths[:, None] * np.sinh(x))

    @property
    def nodes(self) -> int:
        """How many points each grid has."""
        return int(self.values.shape[1])

    @cached_property
    def ends(self) -> Array:
        """The ends of x."""
        return np.arcsinh(_REACH / self.widths)

    @cached_property
    def cubics(self) -> Array:
        """The cubic from each point to the next, by function, point and power of the place between them."""
        step = 2 * self.ends / (self.nodes - 1)
        x = np.linspace(-1, 1, self.nodes) * self.ends[:, None]
        inner = self.slopes * (self.widths * step)[:, None] * np.cosh(x)
        first, last, gap = inner[:, :-1], inner[:, 1:], np.diff(self.values, axis=1)
        return np.stack([self.values[:, :-1], first, 3 * gap - 2 * first - last, first + last - 2 * gap], axis=-1)

    def __call__(self, t: Array) -> tuple[Array, Array]:
        """Return values and slopes at t; the last axis is that of the functions. Beyond a grid both are its end's."""
        shift = (t - self.centres) / self.widths
        step = 2 * self.ends / (self.nodes - 1)
        place = np.clip((np.arcsinh(shift) + self.ends) / step, 0.0, self.nodes - 1 - 1e-9)
        at = place.astype(np.intp)
        s = place - at
        zero, one, two, three = np.moveaxis(self.cubics[np.arange(len(self.widths)), at], -1, 0)
        value = zero + s * (one + s * (two + s * three))
        slope = (one + s * (2 * two + s * (3 * three))) / (step * self.widths * np.sqrt(1 + shift**2))
        return value, slope

    def only(self, place: int) -> SmoothTables:
        """Return one of the functions."""
        row = slice(place, place + 1)
        return SmoothTables(self.centres[row], self.widths[row], self.values[row], self.slopes[row])


def possible_counts(z: float, noise: Noise) -> tuple[Array, Array]:
    """Return the counts that a noisy one leaves possible, and log P(z - n) up to a constant.

    Where there are many, fewer stand for them that are as good for what is smooth on the scale of sqrt(n).
    """
    n, logs = count_window(z, noise, DROP)
    return thin(n, logs, np.sqrt(n + 1))


def log_mean_likelihood(noisy: Array, noise: Noise, nodes: int = NODES) -> SmoothTables:
    """Return g of each noisy count, as a function of the logarithm of the mean; see (2)."""
    distinct, row = np.unique(noisy, return_inverse=True)
    heights = np.maximum(distinct, 1.0)
    centres, widths = np.log(heights), 1 / np.sqrt(heights)
    points = SmoothTables.points(centres, widths, nodes)
    values, slopes = np.empty_like(points), np.empty_like(points)
    for place, z in enumerate(distinct):
        n, logs = possible_counts(float(z), noise)
        values[place], slopes[place] = _log_sum(points[place], n, logs - gammaln(n + 1))
    row = row.ravel()
    return SmoothTables(centres[row], widths[row], values[row], slopes[row])


def _log_sum(t: Array, n: Array, logs: Array) -> tuple[Array, Array]:
    """Return log sum_n e^(logs + n t - e^t), and its slope E n - e^t."""
    terms = logs + n * t[:, None]
    top = terms.max(axis=1, keepdims=True)
    weights = np.exp(terms - top)
    total, mean = weights.sum(axis=1), np.exp(t)
    return np.log(total) + top[:, 0] - mean, weights @ n / total - mean


def log_rate_likelihood(records: Array, outcomes: Array, noises: tuple[Noise, Noise], decay: float) -> SmoothTables:
    """Return the logarithm of (3) of each cell, as a function of the logarithm of its rate.

    Parameters
    ----------
    records, outcomes
        Noisy numbers of records, and noisy sums of their outcomes.
    noises
        Of the two.
    decay
        log(1/r).
    """
    of_mean = log_mean_likelihood(outcomes, noises[1])
    heights = np.maximum(outcomes, 1.0)
    centres = np.log(heights / np.maximum(records, 1.0))
    widths = 1 / np.sqrt(heights)
    points = SmoothTables.points(centres, widths)
    values, slopes = np.empty_like(points), np.empty_like(points)
    for place, z in enumerate(records):
        n, logs = possible_counts(float(z), noises[0])
        inner = points[place][:, None] + np.log(np.maximum(n, _NOTHING))
        g, slope = (each[..., 0] for each in of_mean.only(place)(inner[..., None]))
        terms = g + logs - decay * n
        top = terms.max(axis=1, keepdims=True)
        weights = np.exp(terms - top)
        total = weights.sum(axis=1)
        values[place] = np.log(total) + top[:, 0]
        slopes[place] = (weights * slope).sum(axis=1) / total
    return SmoothTables(centres, widths, values, slopes)
