"""The widths that a plan expects of histograms and quantiles, before any record is read.

Probabilities of bins are drawn from a Polya tree of the declared concentration, or of 2 where none is declared: values
that fill the bins unevenly, and leave few of them empty. Counts are drawn from them. With counts s, n their sum and F
the share of those below an edge, what noise adds to the variance of F is to first order

    [(1 - F)^2 (sum of V below) + F^2 (sum of V above)]/n^2,   V_j = sigma^2 (1 - (1 - f) e^(-s_j/sigma)),

with V_j what is left of the noise's variance sigma^2 in the posterior of s_j: all of it where s_j is large and a part f
where it is 0, fitted to releases. The same holds for one bin's share, its own V in the place of those below. Where n is
public, a sum's V is V (1 - V/(sum of all V)), over n^2. A quantile's interval reaches over all bins at whose edges F
may be the one that is asked for, from edge to edge: no plan is below the width of one bin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vestry.model.request import WIDE
from vestry.numerics import Array
from vestry.tables.binned_column import BinCounts

# Tables that are made up, and bins of each whose widths are averaged: the largest.
_TABLES, LOOKED_AT = 256, 4
# The concentration that is supposed where none is declared.
SUPPOSED = 2.0
# The part of the noise's variance that is left in an empty bin.
_HIDDEN = 0.3


def share_widths(bins: BinCounts, mechanism: Any, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the mean 90 % width of the probabilities of the largest bins, and the same without noise."""
    counts, left = _tables(bins, mechanism, n, rng)
    few = min(bins.size, LOOKED_AT)
    looked = np.argpartition(-counts, few - 1, axis=1)[:, :few]
    own, all_ = (np.take_along_axis(left, looked, axis=1), left.sum(axis=1, keepdims=True))
    p = np.take_along_axis(counts, looked, axis=1) / n
    exact = p * (1 - p) / n
    added = _added(p, own, all_, n, public=mechanism.layout.count is not None)
    return float(WIDE * np.sqrt(exact + added).mean()), float(WIDE * np.sqrt(exact).mean())


def quantile_widths(
    bins: BinCounts, quantiles: tuple[float, ...], mechanism: Any, n: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the mean width of the quantiles' 90 % intervals, and the same without noise, in units of the column."""
    counts, left = _tables(bins, mechanism, n, rng)
    shares = np.cumsum(counts, axis=1)[:, :-1] / n
    exact = shares * (1 - shares) / n
    below, all_ = np.cumsum(left, axis=1)[:, :-1], left.sum(axis=1, keepdims=True)
    added = _added(shares, below, all_, n, public=mechanism.layout.count is not None)
    mark = rng.standard_normal((len(counts), 1))
    edges = np.array(bins.edges)
    return (
        _reach(shares, np.sqrt(exact + added), mark, edges, quantiles),
        _reach(shares, np.sqrt(exact), mark, edges, quantiles),
    )


def _tables(bins: BinCounts, mechanism: Any, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Make up counts, and return them with what is left of the noise's variance in each."""
    supposed = replace(bins, alpha=SUPPOSED if bins.alpha is None else bins.alpha).before()
    counts = rng.multinomial(n, supposed.draw(rng, _TABLES)).astype(float)
    sigma = max(mechanism.deviation, 1e-9)
    return counts, sigma**2 * (1 - (1 - _HIDDEN) * np.exp(-counts / sigma))


def _added(share: Array, own: Array, whole: Array, n: int, *, public: bool) -> Array:
    """Return what noise adds to the variance of shares whose counts have the variance `own` of `whole`."""
    if public:
        return np.asarray(own * (1 - own / whole) / n**2)
    return np.asarray(((1 - share) ** 2 * own + share**2 * (whole - own)) / n**2)


def _reach(shares: Array, deviation: Array, mark: Array, edges: Array, quantiles: tuple[float, ...]) -> float:
    """Return the mean width over tables and quantiles: F is estimated a random number of deviations off."""
    estimates = shares + deviation * mark
    widths = []
    for q in quantiles:
        first = (estimates + WIDE / 2 * deviation < q).sum(axis=1)
        last = (estimates - WIDE / 2 * deviation < q).sum(axis=1)
        widths.append(edges[last + 1] - edges[first])
    return float(np.mean(widths))
