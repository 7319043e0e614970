"""What follows from the probabilities of ordered bins: each bin's share, the distribution function and its quantiles.

The q-quantile is the least x with P(X <= x) >= q. It lies in the bin J at whose upper edge the distribution function
reaches q; where in that bin, the counts do not say. So

    P(J < L) <= tail and P(J > U) <= tail  give  the interval from the lower edge of L to the upper edge of U,

which holds the quantile with the stated posterior probability or more, whatever the shape inside the bins. Means, draws
and what lies between the ends take the values of a bin as evenly spread over it.

Of a share that may be 0 (or 1) in the table itself, with a probability of at least one tail, the interval reaches to 0
(or 1): equal tails would leave 0 out however little is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from vestry.numerics import Array
from vestry.posterior.mixture import Marginal, tail_of
from vestry.posterior.sample import Sample
from vestry.tables.polya_tree import BinDraws


@dataclass(frozen=True, eq=False)
class BinMarginal(Marginal):
    """One number by draws, with an interval that is not equal-tailed.

    Attributes
    ----------
    values
        The draws.
    lows, highs
        How low and how high each draw leaves the number; an interval reaches from the lower tail of the ones to the
        upper tail of the others.
    """

    values: Array
    lows: Array
    highs: Array

    equal_tailed: ClassVar[bool] = False

    @cached_property
    def _sample(self) -> Sample:
        return Sample(self.values)

    def mean(self) -> float:
        """Return the mean of the draws."""
        return self._sample.mean()

    def variance(self) -> float:
        """Return the variance of the draws."""
        return self._sample.variance()

    def cdf(self, x: Any) -> Array:
        """Return the share of draws that are at most x."""
        return self._sample.cdf(x)

    def quantile(self, p: Any) -> Array:
        """Return quantiles of the draws."""
        return self._sample.quantile(p)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return some of the draws."""
        return self._sample.draw(rng, size)

    def log_density(self, theta: Any) -> Array:
        """Return the log density of normal kernels around the draws."""
        return self._sample.log_density(theta)

    def interval(self, prob: float) -> tuple[float, float]:
        """Return the ends."""
        return outer_interval(self.lows, self.highs, tail_of(prob))


def outer_interval(lows: Array, highs: Array, tail: float) -> tuple[float, float]:
    """Return ends beyond which at most a share `tail` of the draws may lie, on either side."""
    beyond = int(np.floor(tail * lows.size + 1e-9))
    low = np.partition(lows, beyond)[beyond]
    high = np.partition(highs, highs.size - 1 - beyond)[highs.size - 1 - beyond]
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class BinPosterior:
    """The joint distribution of the probabilities of ordered bins, by draws.

    Attributes
    ----------
    edges
        Increasing; one more than there are bins.
    draws
        Counts and probabilities.
    """

    edges: Array
    draws: BinDraws

    @property
    def dimension(self) -> int:
        """How many bins there are."""
        return self.edges.size - 1

    def marginal(self, index: int) -> BinMarginal:
        """Return the distribution of one bin's probability."""
        return self._share(self.draws.shares[:, index], self.draws.counts[:, index])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return some of the draws of the probabilities."""
        return self.draws.shares[rng.integers(len(self.draws.shares), size=size)]

    def emptiness(self, index: int) -> float:
        """Return the probability that the table has no record in a bin."""
        return float((self.draws.counts[:, index] == 0).mean())

    def below(self, place: int) -> BinMarginal:
        """Return the distribution function at an edge: the probability of all bins before it."""
        counts = self.draws.counts[:, :place].sum(axis=1)
        return self._share(self._ladder[:, place - 1] if place else np.zeros(len(counts)), counts)

    def _share(self, values: Array, counts: Array) -> BinMarginal:
        """Return a share, which may be 0 where no record counts to it, and 1 where every record does."""
        whole = self.draws.counts.sum(axis=1)
        return BinMarginal(values, np.where(counts == 0, 0.0, values), np.where(counts == whole, 1.0, values))

    @cached_property
    def _ladder(self) -> Array:
        """The distribution function at every edge but the first, exactly 1 at the last."""
        ladder = np.cumsum(self.draws.shares, axis=1)
        ladder[:, -1] = 1.0
        return np.minimum(ladder, 1.0)

    def places(self, q: float) -> npt.NDArray[np.intp]:
        """Return the bin in which each draw has its q-quantile."""
        return np.asarray((self._ladder < q).sum(axis=1))

    def quantile(self, q: float) -> BinMarginal:
        """Return the distribution of the q-quantile."""
        rows, at = np.arange(len(self._ladder)), self.places(q)
        upper = self._ladder[rows, at]
        lower = np.where(at > 0, self._ladder[rows, at - 1], 0.0)
        share = np.clip((q - lower) / np.maximum(upper - lower, 1e-300), 0.0, 1.0)
        lows, highs = self.edges[at], self.edges[at + 1]
        return BinMarginal(lows + share * (highs - lows), lows, highs)


@dataclass(frozen=True, eq=False)
class QuantilePosterior:
    """The joint distribution of several quantiles.

    Attributes
    ----------
    bins
        The probabilities of the bins.
    quantiles
        Which ones.
    """

    bins: BinPosterior
    quantiles: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """How many quantiles there are."""
        return len(self.quantiles)

    def marginal(self, index: int) -> BinMarginal:
        """Return the distribution of one of them."""
        return self._marginals[index]

    @cached_property
    def _marginals(self) -> list[BinMarginal]:
        return [self.bins.quantile(q) for q in self.quantiles]

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return some of the draws, values of a bin taken as evenly spread over it."""
        together = np.stack([each.values for each in self._marginals], axis=1)
        return together[rng.integers(len(together), size=size)]
