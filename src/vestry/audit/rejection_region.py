"""The events of an audit, {score >= threshold} and {score <= threshold}, and the choice of the most telling ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vestry.audit.clopper_pearson import at_least, at_most
from vestry.audit.test_statistic import Score
from vestry.numerics import Array

# How many thresholds are tried: half of them evenly spaced in rank, half ever closer to the two ends.
THRESHOLDS = 512


@dataclass(frozen=True)
class RejectionRegion:
    """A tail of a score."""

    score: Score
    threshold: float
    above: bool

    def hits(self, values: Array) -> int:
        """Count the trials whose score, already computed, lies in the tail."""
        return int(np.count_nonzero(values >= self.threshold if self.above else values <= self.threshold))

    def __str__(self) -> str:
        return f"{self.score.name} {'>=' if self.above else '<='} {self.threshold:.6g}"


@dataclass(frozen=True)
class Choice:
    """For each epsilon the most telling cut so far, and how telling it was on the half where it was chosen."""

    cuts: tuple[RejectionRegion, ...]
    bounds: NDArray[np.float64]

    def better(self, other: Choice) -> Choice:
        """Keep at each epsilon the more telling of two."""
        pairs = zip(self.cuts, other.cuts, self.bounds >= other.bounds, strict=True)
        return Choice(
            tuple(mine if keep else theirs for mine, theirs, keep in pairs), np.maximum(self.bounds, other.bounds)
        )


def choose(score: Score, p: Array, q: Array, epsilons: NDArray[np.float64], *, level: float) -> Choice:
    """Choose for each epsilon the tail of the score, of p against q, with the largest bound on delta.

    p and q are the scores' values on one half of the trials. The bound that is maximised is the very one that the other
    half will give.
    """
    p, q = np.sort(p), np.sort(q)
    at = _thresholds(np.sort(np.concatenate([p, q])))
    below = [np.searchsorted(side, at, side="right") for side in (p, q)]
    above = [len(side) - np.searchsorted(side, at, side="left") for side in (p, q)]
    hits = [np.concatenate([below[i], above[i]]) for i in (0, 1)]
    low, high = at_least(hits[0], len(p), level=level), at_most(hits[1], len(q), level=level)
    bounds = low - np.exp(epsilons)[:, None] * high
    best = bounds.argmax(axis=1)
    cuts = tuple(RejectionRegion(score, float(at[i % len(at)]), bool(i >= len(at))) for i in best)
    return Choice(cuts, bounds[np.arange(len(epsilons)), best])


def _thresholds(pooled: Array) -> Array:
    """Return some of the sorted values: every one of few, else evenly by rank and closer and closer at both ends."""
    last = len(pooled) - 1
    near = np.geomspace(1, max(2, last / 2), THRESHOLDS // 4)
    ranks = np.concatenate([np.linspace(0, last, THRESHOLDS // 2), near - 1, last + 1 - near])
    return np.unique(pooled[np.clip(ranks.astype(int), 0, last)])
