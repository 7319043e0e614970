"""Means of many groups that learn from each other, from noisy sums.

    theta_g ~ N(mu, t^2);   sum of n_g records ~ N(n_g theta_g, n_g s^2);   y_g = sum + noise,

with the variance s^2 of a record known, as in the normal model of one mean. n_g is public, or known up to noise and
summed over with equal prior weights. mu is uniform on the declared interval, and t on (0, its width). Given n, with
V = n^2 t^2 + n s^2, the evidence of one group is the density of N(n mu, V) with the noise added:

    Gaussian noise of variance v: N(y; n mu, V + v)
    Laplace noise of scale b:     [e^(V/2b^2 - D/b) Phi((D - V/b)/sqrt V) + e^(V/2b^2 + D/b) Phi((-D - V/b)/sqrt V)]/2b,

with D = y - n mu; the sums' grid is far finer than the noise, whose distribution is taken as continuous. Given mu, t
and Laplace noise as a mixture of normal noises, with variance w exponential of mean 2 b^2, theta_g is normal: of
precision 1/t^2 + n^2/(n s^2 + w). mu and t are summed out by quadrature; no Markov chain is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from vestry.conjugate.pooled_beta import few_counts
from vestry.conjugate.pooled_groups import Places, PooledGroups, inverse, log_sums
from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Noise, NormalNoise
from vestry.posterior.hyper_grid import integrate
from vestry.posterior.mixture import NormalMixture

_SIZES, _COARSE = (9, 9), 0.7
# t is at least this part of the interval's width.
_LEAST = 1e-6
# Variances of normal noise, on a logarithmic grid around 2 b^2, that make up Laplace noise.
_VARIANCES = np.linspace(-9.0, 4.5, 64)


@dataclass(frozen=True, eq=False)
class Sums:
    """Noisy sums of all groups, with the numbers of records that each may have.

    Attributes
    ----------
    sums
        In the units of the records.
    start
        The first possible number of records of each group.
    counts, logs
        Every possible number of records of every group, and its log weight.
    variance
        Of a record.
    noise
        Its kind; its scale is `scale`, in the units of the records.
    """

    sums: Array
    start: Places
    counts: Array
    logs: Array
    variance: float
    noise: Noise
    scale: float

    @cached_property
    def sizes(self) -> Places:
        """How many numbers of records each group may have."""
        return np.diff(self.start, append=self.logs.size)

    @cached_property
    def _each(self) -> Array:
        return np.repeat(self.sums, self.sizes)

    def part(self, index: int) -> slice:
        """Return where one group's numbers of records are."""
        return slice(int(self.start[index]), int(self.start[index] + self.sizes[index]))

    def log_evidence(self, mean: float, spread: float) -> Array:
        """Return the log evidence of every group at mu = mean and t = spread."""
        n = self.counts
        logs = self._log_density(self._each - n * mean, n * n * spread**2 + n * self.variance) + self.logs
        return log_sums(logs, self.start)

    def _log_density(self, away: Array, variance: Array) -> Array:
        if isinstance(self.noise, NormalNoise):
            total = variance + self.scale**2
            return np.asarray(-0.5 * np.log(2 * np.pi * total) - away**2 / (2 * total))
        variance = np.maximum(variance, 1e-20 * self.scale**2)
        deviation, ratio = np.sqrt(variance), variance / self.scale
        sides = [ratio / (2 * self.scale) - d / self.scale + log_ndtr((d - ratio) / deviation) for d in (away, -away)]
        return np.asarray(np.logaddexp(*sides) - np.log(2 * self.scale))

    def normal_noises(self, away: Array, variance: Array) -> tuple[Array, Array]:
        """Return variances w of normal noise, along a last axis, and their log weights given the sum."""
        if isinstance(self.noise, NormalNoise):
            return np.full(1, self.scale**2), self._log_density(away, variance)[..., None]
        w = 2 * self.scale**2 * np.exp(_VARIANCES + np.log1p(np.abs(away).min() / self.scale))
        total = variance[..., None] + w
        logs = np.log(w) - w / (2 * self.scale**2) - 0.5 * np.log(total) - away[..., None] ** 2 / (2 * total)
        return w, logs


@dataclass(frozen=True, eq=False)
class PooledNormal(PooledGroups):
    """The joint posterior of all groups' means and of the population that they come from.

    Attributes
    ----------
    data
        The noisy sums.
    centres, spreads, weights
        mu and t at the nodes of the quadrature.
    origin
        Records and mu are counted from here.
    """

    data: Sums
    centres: Array
    spreads: Array
    weights: Array
    origin: float = 0.0

    @property
    def dimension(self) -> int:
        """The number of groups."""
        return self.data.sums.size

    def key(self, index: int) -> int:
        """Return the group itself: no two sums are alike."""
        return index

    def components(self, index: int, node: Places, marks: Array) -> tuple[Array, Array]:
        """Draw a number of records and a variance of the noise; return the mean and the variance of theta."""
        part, y = self.data.part(index), float(self.data.sums[index])
        n, n_logs = self.data.counts[part], self.data.logs[part]
        mu, t2 = self.centres[self.nodes[0]][:, None], self.spreads[self.nodes[0]][:, None] ** 2
        w, logs = self.data.normal_noises(y - n * mu, n * n * t2 + n * self.data.variance)
        logs = (logs + n_logs[:, None]).reshape(len(mu), -1)
        place = inverse(np.exp(logs - logs.max(axis=1, keepdims=True)), node, marks[:, 0])
        count, noise = n[place // w.size], w[place % w.size]
        centre, spread = mu[node, 0], t2[node, 0]
        precision = count**2 / (count * self.data.variance + noise)
        variance = 1 / (1 / spread + precision)
        own = y / np.maximum(count, 1e-9)
        return self.origin + variance * (centre / spread + precision * own), variance

    def mixture(self, first: Array, second: Array, weights: Array) -> NormalMixture:
        """Return a mixture of normal distributions."""
        return NormalMixture(weights, first, second)

    def member(self, first: float, second: float) -> NormalMixture:
        """Return the normal posterior of a sum of so many records, averaged over the population."""
        t2, n = self.spreads**2, max(second, 0.0)
        variance = 1 / (1 / t2 + n / self.data.variance)
        means = variance * (self.centres / t2 + first / self.data.variance) if n > 0 else self.centres
        return NormalMixture(self.weights, self.origin + means, variance)

    def draw_members(self, rng: np.random.Generator, first: Array, second: Array) -> Array:
        """Draw from each normal distribution."""
        return rng.normal(first, np.sqrt(second))

    def population(self) -> dict[str, Array]:
        """Return the hyperparameters at the nodes, with their weights: mean is mu and spread t."""
        return {"mean": self.origin + self.centres, "spread": self.spreads, "weight": self.weights}


def pooled_normal(
    sums: npt.ArrayLike,
    counts: npt.ArrayLike,
    *,
    variance: float,
    interval: tuple[float, float],
    noise: Noise,
    grid: float = 1.0,
    count_noise: Noise | None = None,
    origin: float = 0.0,
) -> PooledNormal:
    """Return the joint posterior of groups' means from noisy sums of their records.

    Parameters
    ----------
    sums
        Noisy sums, one per group, in units of the grid.
    counts
        The numbers of records, public; or, with `count_noise`, noisy ones.
    variance
        The variance of a record inside its group.
    interval
        Where the groups' means may lie, counted from the origin.
    noise, grid
        The noise of the sums, in units of the grid.
    count_noise
        The noise of the numbers of records.
    origin
        Records were counted from here.
    """
    values, numbers = np.asarray(sums, float) * grid, np.asarray(counts, float)
    if values.ndim != 1 or values.size < 1 or numbers.shape != values.shape:
        raise InvalidParameter("counts", numbers.shape, "one per group", "as many as sums")
    windows = [
        (np.array([n]), np.zeros(1)) if count_noise is None else few_counts(float(n), count_noise) for n in numbers
    ]
    start = np.cumsum([0, *(n.size for n, _ in windows[:-1])]).astype(np.intp)
    n, logs = (np.concatenate(each) for each in zip(*windows, strict=True))
    data = Sums(values, start, n, logs, float(variance), noise, noise.scale * grid)
    low, high = interval
    width = high - low

    def log_density(log_spread: Array, mean: Array) -> Array:
        logs = [
            [data.log_evidence(float(v), float(np.exp(u))).sum() for v in row]
            for u, row in zip(log_spread, mean, strict=True)
        ]
        return np.array(logs) + log_spread[:, None]

    ends = (np.log(_LEAST * width), low), (np.log(width), high)
    hyper_grid = integrate(log_density, *ends, sizes=_SIZES, widest=_COARSE)
    return PooledNormal(data, hyper_grid.points[:, 1], np.exp(hyper_grid.points[:, 0]), hyper_grid.weights, origin)
