"""The posterior of the probabilities of ordered bins from noisy counts, under a Polya tree prior.

The bins are halved, and the halves again, down to single bins. Of what lies in a node with m bins, the share of its
left part with l bins is Beta(a_l, a_r), a_l = 2 c l/m and a_r = 2 c (m - l)/m, independent over nodes [Lavine92]:
little is known of where the records lie, at any scale. A Dirichlet prior of many bins would know that no half of them
is empty, and what it adds to each bin would add up in a distribution function. Given the counts s of the bins the
shares are Beta(a_l + s_l, a_r + s_r), s_l and s_r the parts' sums. Where c is not declared it is 1/8, 1/4 or 1/2, each
as probable before, and is summed out: small ones fit tables of which most bins are empty.

The noise is summed out: with noisy counts z, and n_v the records below node v,

    p(s | z) ~ p(n) * product over bins of P(noise = z_i - s_i)
                    * product over nodes of  g_l(n_l) g_r(n_r)/g(n_l + n_r),   g_l(n) = Gamma(n + a_l)/n!,
                                             g(n) = Gamma(n + a_l + a_r)/n!,

where p(n) is flat on n >= 0 if the number of records is private. A node's weight as a function of its own total is the
convolution of its parts' weights times a factor of the total; so one pass up the tree gives the exact distribution of
the total, and one pass down exact independent draws of all counts. No Markov chain is run. Draws of the probabilities
follow. Their generator is seeded by the noisy counts, so that the posterior is a function of the release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

from vestry.errors import ExtremeNumbers
from vestry.numerics import Array
from vestry.posterior.counts_given_total import Measure, Node, convolve, split
from vestry.posterior.discrete_noise import DROP, Noise, log_rising

# Concentrations that are summed over where none is declared.
CONCENTRATIONS = (0.125, 0.25, 0.5)
# Numbers of all draws together, and draws at least and at most.
_NUMBERS, _FEWEST, _MOST = 1 << 20, 1024, 4096
# Counts of all bins together that are told apart; beyond it they are taken in steps.
_COUNTS = 1 << 18
# Numbers from here on are not whole numbers one by one.
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class BinDraws:
    """Joint draws of the counts of the bins, and of their probabilities given the counts; one draw per row."""

    counts: Array
    shares: Array


def polya_tree(noisy: Array, noise: Noise | None, *, count: int | None, alpha: float | None) -> BinDraws:
    """Return joint draws of the posterior.

    Parameters
    ----------
    noisy
        The noisy counts, in the order of the bins.
    noise
        Their noise; None for exact counts.
    count
        The number of records where it is public.
    alpha
        The concentration c of the prior; None if it is unknown.
    """
    rng = np.random.default_rng([int(z) & 0xFFFFFFFF for z in noisy])
    size = int(np.clip(_NUMBERS // noisy.size, _FEWEST, _MOST))
    leaves = _exact(noisy) if noise is None else _leaves(noisy, noise, count)
    trees = [_Tree.of(leaves, each, count) for each in (CONCENTRATIONS if alpha is None else (alpha,))]
    logs = np.array([each.log_evidence for each in trees])
    weights = np.exp(logs - logs.max())
    draws = [
        each.draw(part, rng) for each, part in zip(trees, rng.multinomial(size, weights / weights.sum()), strict=True)
    ]
    return BinDraws(*(np.concatenate(parts) for parts in zip(*draws, strict=True)))


@dataclass(frozen=True, eq=False)
class _Leaves:
    """The weight of each count of each bin.

    Attributes
    ----------
    lows
        The lowest count of each bin; of counts in steps, the middle of the lowest step.
    tables
        For each bin the weight of the lowest count and of those that follow.
    step
        How many counts each weight stands for.
    """

    lows: Array
    tables: tuple[Array, ...]
    step: int

    @property
    def middle(self) -> float:
        """How far the middle of a step lies above its lowest count."""
        return (self.step - 1) / 2


def _exact(counts: Array) -> _Leaves:
    return _Leaves(np.maximum(counts, 0.0), (np.ones(1),) * counts.size, 1)


def _leaves(noisy: Array, noise: Noise, count: int | None) -> _Leaves:
    """Tabulate P(noise = z - s) of every bin, relative to the count nearest to z, where it is not negligible."""
    most = np.inf if count is None else count
    nearest = np.clip(noisy, 0.0, most)
    reach = np.ceil(noise.reach(DROP))
    lows, highs = np.maximum(0.0, np.floor(nearest) - reach), np.minimum(np.ceil(nearest) + reach, most)
    size = (highs - lows + 1).sum()
    if not size < _LARGEST:
        raise ExtremeNumbers
    step = int(np.ceil(size / _COUNTS))
    tables, lows = [], lows + (step - 1) / 2
    for z, at, low, high in zip(noisy, nearest, lows, highs, strict=True):
        s = np.arange(low, max(high, low) + 1, step)
        tables.append(np.exp(noise.log_weight(s, np.full_like(s, z), np.full_like(s, at))))
    return _Leaves(lows, tuple(tables), step)


@dataclass(frozen=True, eq=False)
class _Tree:
    """The tree of one concentration.

    Attributes
    ----------
    leaves, alpha
        What was observed, and the concentration.
    root
        The weights of every node's total.
    totals, weights
        The totals of all bins that are possible, in steps above the sum of the lowest counts, and their weights.
    log_evidence
        log P(z | alpha), up to a constant.
    """

    leaves: _Leaves
    alpha: float
    root: Node
    totals: npt.NDArray[np.int64]
    weights: Array
    log_evidence: float

    @classmethod
    def of(cls, leaves: _Leaves, alpha: float, count: int | None) -> _Tree:
        """Build it upwards."""
        root, scale = _node(leaves, alpha, 0, leaves.lows.size, None)
        if count is None:
            totals = root.measure.start + np.arange(root.measure.table.size)
        else:
            totals = np.array([round((count - leaves.lows.sum()) / leaves.step)])
        weights = root.measure.at(totals)
        if not weights.sum() > 0:
            raise ExtremeNumbers  # the noisy counts leave no total possible
        return cls(leaves, alpha, root, totals, weights, scale + float(np.log(weights.sum())))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw the total, the counts given the total, and the probabilities given the counts."""
        totals = rng.choice(self.totals, size=size, p=self.weights / self.weights.sum())
        counts = self.leaves.lows + self.leaves.step * split(self.root, totals, rng)
        shares = np.ones_like(counts)
        _share(counts, shares, self.alpha, rng, 0, counts.shape[1])
        return counts - self.leaves.middle, shares


def _node(leaves: _Leaves, alpha: float, first: int, last: int, own: float | None) -> tuple[Node, float]:
    """Return the weights of a node's total and the logarithm of their unit.

    Its factor as part of another node is included: `own` is its parameter there.
    """
    low = leaves.lows[first:last].sum()
    if last - first == 1:
        measure, scale = _weighted(Measure(0, leaves.tables[first]), leaves.step, low, own, 1.0)
        return Node(first, last, measure), scale
    middle = (first + last) // 2
    alphas = _alphas(alpha, first, middle, last)
    left, left_scale = _node(leaves, alpha, first, middle, alphas[0])
    right, right_scale = _node(leaves, alpha, middle, last, alphas[1])
    both = convolve(left.measure, right.measure)
    measure, scale = _weighted(both, leaves.step, low, own, sum(alphas))
    scale += left_scale + right_scale - float(betaln(*alphas))
    return Node(first, last, measure, (left, right)), scale


def _alphas(alpha: float, first: int, middle: int, last: int) -> tuple[float, float]:
    """Return the prior's parameters of the two parts of a node."""
    left = 2 * alpha * (middle - first) / (last - first)
    return left, 2 * alpha - left


def _weighted(measure: Measure, step: int, low: float, own: float | None, below: float) -> tuple[Measure, float]:
    """Multiply by Gamma(n + own)/Gamma(n + below), where n! stands in for what is not given.

    Returns
    -------
    The measure with its largest weight 1, and the logarithm of what it was.
    """
    n = low + step * (measure.start + np.arange(measure.table.size, dtype=float))
    if n.size == 0:
        raise ExtremeNumbers
    logs = log_rising(n + below, (1.0 if own is None else own) - below)
    with np.errstate(divide="ignore"):
        logs = logs + np.log(measure.table)
    return Measure(measure.start, np.exp(logs - logs.max())), float(logs.max())


def _share(counts: Array, shares: Array, alpha: float, rng: np.random.Generator, first: int, last: int) -> None:
    """Draw the share of each part given the counts, and multiply the probabilities of the bins below by it."""
    if last - first == 1:
        return
    middle = (first + last) // 2
    left_alpha, right_alpha = _alphas(alpha, first, middle, last)
    left = rng.beta(left_alpha + counts[:, first:middle].sum(axis=1), right_alpha + counts[:, middle:last].sum(axis=1))
    shares[:, first:middle] *= left[:, None]
    shares[:, middle:last] *= 1 - left[:, None]
    _share(counts, shares, alpha, rng, first, middle)
    _share(counts, shares, alpha, rng, middle, last)
