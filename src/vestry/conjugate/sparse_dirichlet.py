"""The posterior of a table of many levels, of which an unknown share never occurs, from noisy counts.

A fixed Dirichlet(1) credits every declared level that is empty with about one noise scale of records. Here the
concentration alpha and the share pi of levels that can occur are unknown, and are summed out with the noise:

    a level occurs with probability pi;  then  lambda_j ~ Gamma(alpha, rate alpha/mu),  n_j ~ Poisson(lambda_j),
    else lambda_j = n_j = 0;   z_j = n_j + noise;   theta_j = lambda_j / sum of lambda.

Given which levels occur, theta is Dirichlet(alpha, ..., alpha) on them and independent of the total, which is negative
binomial; with log mu uniform the model is the Dirichlet-multinomial one with p(N) = 1/N for the number of records N. So
levels are independent given (alpha, mu, pi), and the likelihood is a product over levels of

    pi m(z_j) + (1 - pi) P(noise = z_j),    m(z) = sum over n >= 0 of NB(n; alpha, mu) P(noise = z - n).      (1)

Hyperprior: log alpha uniform on [0.03, 30], pi uniform, and the expected number of records M = K pi mu, for K levels,
has density 1/(M + 1/2) up to far above the noisy total, so that tables of zeros have a posterior too.

Equation (1) depends on z_j alone, and is tabulated once for every value that occurs; hyperparameters are summed out by
quadrature (`vestry.posterior.hyper_grid`). Given them and the counts, with x_j = n_j + alpha for a level that occurs
and 0 for others, theta_j ~ Beta(x_j, sum of the other x): a mixture over independent draws of (alpha, mu, pi, counts).
No Markov chain is run. The generator of these draws is seeded by the noisy counts, so the posterior is a function of
the release; probabilities are right to about 0.003.

Where the number of records is public, draws are conditioned on it. Up to `EXPLICIT` levels all counts but the largest
are drawn, that one is what remains, and the draw weighs as much as it is likely there: importance sampling, exact up
to the number of draws. Beyond, the sum of the other counts is taken for normal. Where it is private and there are more
levels, a total that the model puts more than four standard deviations from the noisy one is taken from the latter.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import expit, gammaln, log_expit, logit, logsumexp, ndtri

from vestry.conjugate.pooled_groups import even_marks
from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Noise, lattice, thin
from vestry.posterior.hyper_grid import HyperGrid, integrate
from vestry.posterior.mixture import BetaMixture, Marginal, draw_dirichlet, invert, probabilities

Places = npt.NDArray[np.intp]

# The ends of the concentration's prior.
LOWEST, HIGHEST = 0.03, 30.0
# Cells of the quadrature along (log alpha, log mu, logit pi).
SIZES = (15, 15, 15)
# Nodes that are kept of the quadrature, components of a level's mixture, and draws that these stand for: of all levels
# together, or of one level alone.
NODES, ATOMS, JOINT, ALONE = 256, 1024, 16_384, 4096
# Tables of at most so many levels keep as many nodes as components; those of more than the other a quarter of each.
_FEW, _MANY = 20, 10_000
# Tables of at most so many levels draw all counts together; larger ones take the sum of all other levels as one number.
EXPLICIT = 256
# Counts whose weight is below e^-_DROP of the noise's summit are omitted: less than 1e-13.
_DROP = 32.0
# Noisy values beyond this number are shared between neighbours in the likelihood of the hyperparameters.
_VALUES = 1500
# Counts of one level that are drawn one by one; of more, Gauss nodes stand for them.
_COUNTS = 4096
# Draws x levels that are held at once.
_CHUNK = 1 << 21
# A level is faint below so many noise scales; what is said of its interval.
_SCALES = 5
FAINT = f"below {_SCALES} noise scales: not calibrated if the level occurs"
# The prior of M falls off beyond so many times the noisy total.
_FAR = 20.0
# The total is taken from the sum of the noisy counts where the model's is this many standard deviations away.
_MISFIT = 4.0


def log_negative_binomial(n: Array, alpha: Array | float, mu: Array | float) -> Array:
    """Return log NB(n; shape alpha, mean mu) = log of Gamma(n+a)/(Gamma(a) n!) (a/(a+mu))^a (mu/(a+mu))^n."""
    return np.asarray(
        gammaln(n + alpha) - gammaln(alpha) - gammaln(n + 1) - alpha * np.log1p(mu / alpha) - n * np.log1p(alpha / mu)
    )


def window(z: float, noise: Noise, *, few: bool) -> tuple[Array, Array]:
    """List the counts that z leaves possible, with log P(z - n) relative to the count nearest to z.

    `few` replaces them by Gauss nodes wherever sums over the noise against functions that are smooth on the scale
    sqrt(n) stay the same to rounding.
    """
    nearest, reach = max(z, 0.0), np.ceil(noise.reach(_DROP))
    n, cells = lattice(max(0.0, np.floor(z) - reach), np.ceil(nearest) + reach)
    logs = noise.log_weight(n, np.array(z), np.array(nearest)) + cells
    return thin(n, logs, np.sqrt(n + 1) / 2) if few else (n, logs)


@dataclass(frozen=True)
class SparsePrior:
    """The default prior of a table: concentration and the share of levels that occur unknown, as above.

    Attributes
    ----------
    dimension
        The number of levels.
    """

    dimension: int

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw tables in which some level occurs, one per row."""
        return np.concatenate([_probabilities(rng, self.shapes(rng)[None, :]) for _ in range(size)])

    def shapes(self, rng: np.random.Generator) -> Array:
        """Draw alpha for every level that occurs, and 0 for the others."""
        alpha = np.exp(rng.uniform(np.log(LOWEST), np.log(HIGHEST)))
        occurs = rng.random(self.dimension) < rng.random()
        occurs[rng.integers(self.dimension)] = True
        return np.where(occurs, alpha, 0.0)


@dataclass(frozen=True, eq=False)
class LevelShare(Marginal):
    """The distribution of one level's probability: 0 if it never occurs, 1 if no other does, else a Beta mixture.

    Attributes
    ----------
    never, alone
        The probabilities of 0 and of 1.
    between
        The distribution of what is neither; None where there is nothing.
    """

    never: float
    alone: float
    between: BetaMixture | None
    _quantiles: dict[bytes, Array] = field(default_factory=dict, repr=False)

    @property
    def _weight(self) -> float:
        return 1.0 - self.never - self.alone

    def mean(self) -> float:
        """Return the mean."""
        return self._moments[0]

    def variance(self) -> float:
        """Return the variance."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[float, float]:
        if self.between is None:
            return self.alone, self.alone * self.never
        inner = self.between.mean()
        mean = self.alone + self._weight * inner
        square = self._weight * (self.between.variance() + inner**2) + self.alone
        return mean, max(0.0, square - mean**2)

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the probability of at most x; it jumps at 0 and at 1."""
        points = np.asarray(x, float)
        inner = self._weight * self.between.cdf(points) if self.between is not None else 0.0
        return np.where(points < 0, 0.0, np.where(points >= 1, 1.0, self.never + inner))

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return the least x with a distribution function of at least p."""
        target = probabilities(p)
        key = target.tobytes()
        if key not in self._quantiles:
            inside = (target > self.never) & (target < 1 - self.alone)
            shares = np.where(target <= self.never, 0.0, 1.0)
            if self.between is not None and np.any(inside):
                shares[inside] = _beta_quantile(self.between, (target[inside] - self.never) / self._weight)
            self._quantiles[key] = shares
        return self._quantiles[key]

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws, as a column."""
        mark = rng.random(size)
        shares = np.where(mark < self.never, 0.0, 1.0)
        inside = (mark >= self.never) & (mark < 1 - self.alone)
        if self.between is not None:
            shares[inside] = self.between.draw(rng, int(inside.sum()))[:, 0]
        return shares[:, None]

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the density between 0 and 1; it integrates to what the jumps leave."""
        if self.between is None:
            return np.full(np.shape(theta), -np.inf)
        return np.asarray(self.between.log_density(theta) + np.log(self._weight))


@dataclass(frozen=True, eq=False)
class NoisyLevels:
    """The noisy values that occur, and what equation (1) needs of each.

    Attributes
    ----------
    values, shares
        Values at which (1) is tabulated, and how many levels each stands for.
    noise
        The noise of each count.
    """

    values: Array
    shares: Array
    noise: Noise

    @classmethod
    def of(cls, noisy: Array, noise: Noise) -> NoisyLevels:
        """Count how often each value occurs; of too many values, some share their levels between two others.

        log m(z) bends on the scale of the noise, and far from 0 on the scale of z: linear sharing between values that
        are a sixteenth of that apart keeps the sum over levels to about 1e-4 a level.
        """
        values, multiplicity = np.unique(noisy, return_counts=True)
        counts = np.array(multiplicity, dtype=np.float64)
        if values.size <= _VALUES:
            return cls(values, counts, noise)
        bend = noise.scale / 16
        place = np.floor(np.sign(values) * np.log1p(np.abs(values) / (100 * bend)) * 100).astype(np.int64)
        first = np.flatnonzero(np.diff(place, prepend=place[0] - 1))
        knots = np.unique(np.append(values[first], values[-1]))
        right = np.clip(np.searchsorted(knots, values, side="right"), 1, knots.size - 1)
        part = (values - knots[right - 1]) / (knots[right] - knots[right - 1])
        shares = np.zeros(knots.size)
        np.add.at(shares, right - 1, counts * (1 - part))
        np.add.at(shares, right, counts * part)
        return cls(knots, shares, noise)

    @cached_property
    def _table(self) -> tuple[Array, list[csr_array]]:
        """The counts of all windows; and the noise's weight of each (column) for each value (row), alone, times the
        distance from the value, and times its square.
        """
        windows = [window(z, self.noise, few=True) for z in self.values]
        sizes = [each.size for each, _ in windows]
        counts, column = np.unique(np.concatenate([each for each, _ in windows]), return_inverse=True)
        weights = np.exp(np.concatenate([logs for _, logs in windows]))
        row = np.repeat(np.arange(self.values.size), sizes)
        away = counts[column] - self.values[row]
        shape = (self.values.size, counts.size)
        return counts, [csr_array((weights * away**power, (row, column)), shape=shape) for power in range(3)]

    @cached_property
    def log_absent(self) -> Array:
        """The logarithm of P(noise = z) of each value, in the units of m."""
        return np.asarray(self.noise.log_weight(np.zeros(1), self.values, np.maximum(self.values, 0.0)))

    def log_evidence(self, alpha: float, mu: Array) -> Array:
        """Return log m(z), one row per value; where m underflows, NB is taken for constant over the noise's width."""
        (m,) = self.evidence(alpha, mu)
        with np.errstate(divide="ignore"):
            logs = np.log(m)
        row, column = np.nonzero(m == 0)
        if row.size:
            total = np.log(np.asarray(self._table[1][0].sum(axis=1)))
            logs[row, column] = total[row] + log_negative_binomial(np.maximum(self.values[row], 0.0), alpha, mu[column])
        return logs

    def evidence(self, alpha: float, mu: Array, *, powers: int = 1) -> tuple[Array, ...]:
        """Return the sums (1) of 1, n - z and (n - z)^2, one row per value and one column per mu.

        They are in units of P(noise = z - max(z, 0)).
        """
        counts, tables = self._table
        mass = np.exp(log_negative_binomial(counts[:, None], alpha, mu))
        return tuple(np.asarray(table @ mass) for table in tables[:powers])

    def log_likelihood(self, alpha: Array, mu: Array, logit_pi: Array) -> Array:
        """Return the sum over levels of the logarithm of (1), at alpha of shape (i,), mu (i, j) and pi (i, j, k)."""
        sums = np.empty(logit_pi.shape)
        for i, each in enumerate(alpha):
            log_m = self.log_evidence(float(each), mu[i])
            for j in range(mu.shape[1]):
                odds = logit_pi[i, j][:, None]
                occurs, never = log_expit(odds) + log_m[:, j], log_expit(-odds) + self.log_absent
                sums[i, j] = np.logaddexp(occurs, never) @ self.shares
        return sums

    def shape_moments(self, alpha: float, mu: float, pi: float) -> tuple[Array, Array, Array]:
        """Return each value's probability that the level occurs, and the mean and the variance of x."""
        m, first, second = (each[:, 0] for each in self.evidence(alpha, np.array([mu]), powers=3))
        log_m = self.log_evidence(alpha, np.array([mu]))[:, 0]
        occurs = expit(logit(pi) + log_m - self.log_absent)
        with np.errstate(invalid="ignore", divide="ignore"):
            away, square = np.nan_to_num(first / m), np.nan_to_num(second / m)
        mean = np.maximum(self.values + away, 0.0) + alpha
        variance = np.maximum(square - away**2, 0.0)
        return occurs, occurs * mean, occurs * (variance + (1 - occurs) * mean**2)


def hyperparameters(noisy: Array, noise: Noise) -> HyperGrid:
    """Return the posterior of (log alpha, log mu, logit pi) from the noisy counts, their total unknown."""
    levels, number = NoisyLevels.of(noisy, noise), noisy.size
    most = _FAR * (np.maximum(noisy, 0.0).sum() + noise.scale * np.sqrt(number) + 1)

    def log_density(log_alpha: Array, log_mu: Array, logit_pi: Array) -> Array:
        log_pi = log_expit(logit_pi)
        expected = np.log(number) + log_pi + log_mu[:, :, None]
        # log of M/(M + 1/2) / (1 + M/most), and the density of logit pi
        prior = -np.logaddexp(0.0, np.log(0.5) - expected) - np.logaddexp(0.0, expected - np.log(most))
        prior += log_pi + log_expit(-logit_pi)
        return np.asarray(prior + levels.log_likelihood(np.exp(log_alpha), np.exp(log_mu), logit_pi))

    low = (np.log(LOWEST), np.log(0.5 / number) - 12, -np.log(number) - 12)
    high = (np.log(HIGHEST), np.log(most) + 12, 14.0)
    return integrate(log_density, low, high, sizes=SIZES)


@dataclass(frozen=True, eq=False)
class SparseDirichlet:
    """The posterior of all levels' probabilities.

    Attributes
    ----------
    noisy
        The noisy counts.
    noise
        Their noise.
    count
        The number of records where it is public.
    grid
        The posterior of the hyperparameters, the total taken for unknown.
    """

    noisy: Array
    noise: Noise
    count: int | None
    grid: HyperGrid

    @property
    def dimension(self) -> int:
        """The number of levels."""
        return self.noisy.size

    def remark(self, index: int) -> str:
        """Say that a level's noisy count is so small that the level may be rare or empty.

        An interval then holds 0 if the level is empty, and the share of a rare one less often than it should.
        """
        return FAINT if self.noisy[index] < round(_SCALES * self.noise.scale) else ""

    def _thinned(self, size: int) -> int:
        return size // 4 if self.dimension > _MANY else size

    @cached_property
    def _seed(self) -> int:
        return zlib.crc32(self.noisy.astype(float).tobytes())

    @cached_property
    def _nodes(self) -> tuple[Array, Places]:
        """The nodes (alpha, mu, pi) that stand for the posterior, and one of them for each of `ATOMS` draws."""
        grid = self.grid
        if self.count is not None and self.dimension > EXPLICIT:
            grid = self._given_count()
        size = self._thinned(NODES) if self.dimension > _FEW else ATOMS
        places, node = np.unique(grid.systematic(size, 0.5), return_inverse=True)
        return _parameters(grid.points[places]), node.ravel()

    def _given_count(self) -> HyperGrid:
        """Weigh some nodes by the normal density of the total that each expects, at the number of records."""
        places, weights = np.unique(self.grid.systematic(4 * NODES, 0.5), return_counts=True)
        points = self.grid.points[places]
        mean, variance, occurring = self._moments(_parameters(points))
        alpha = np.exp(points[:, 0])
        gap = self.count - (mean - alpha * occurring)
        logs = np.log(weights) - gap**2 / (2 * variance) - np.log(variance) / 2
        share = np.exp(logs - logs.max())
        return HyperGrid(points, share / share.sum(), self.grid.log_total, float(share.max() / share.sum()))

    @cached_property
    def _levels(self) -> NoisyLevels:
        return NoisyLevels.of(self.noisy, self.noise)

    def _moments(self, nodes: Array) -> tuple[Array, Array, Array]:
        """Return, at each node, mean and variance of the sum of x, and how many levels are expected to occur."""
        sums = np.empty((3, len(nodes)))
        for place, (alpha, mu, pi) in enumerate(nodes):
            occurs, mean, variance = self._levels.shape_moments(alpha, mu, pi)
            sums[:, place] = [mean @ self._levels.shares, variance @ self._levels.shares, occurs @ self._levels.shares]
        return sums[0], sums[1], sums[2]

    def _ladders(self, z: float, nodes: Array) -> tuple[Array, Array]:
        """Return the counts of one level, and at each node the probabilities of: never occurs, and each count."""
        n, logs = window(z, self.noise, few=False)
        if n.size > _COUNTS:
            n, logs = window(z, self.noise, few=True)
        alphas, place = np.unique(nodes[:, 0], return_inverse=True)
        alpha, mu, pi = (each[:, None] for each in nodes.T)
        table = np.empty((len(nodes), n.size + 1))
        absent = self.noise.log_weight(np.zeros(1), np.array(z), np.array(max(z, 0.0)))
        table[:, 0] = np.log1p(-nodes[:, 2]) + absent[0]
        shared = (gammaln(n + alphas[:, None]) - gammaln(alphas[:, None]) - gammaln(n + 1) + logs)[place.ravel()]
        table[:, 1:] = np.log(pi) + shared - alpha * np.log1p(mu / alpha) - n * np.log1p(alpha / mu)
        table = np.exp(table - table.max(axis=1, keepdims=True))
        table /= table.sum(axis=1, keepdims=True)
        return n, table

    def _draw_counts(self, n: Array, table: Array, node: Places, marks: Array) -> Array:
        """Turn uniform marks, one row per entry of `node`, into counts; -1 for a level that never occurs."""
        ladder = np.cumsum(table, axis=1)
        ladder /= ladder[:, -1:]
        steps = (ladder + np.arange(len(table))[:, None]).ravel()
        place = np.searchsorted(steps, node[:, None] + marks, side="right") - node[:, None] * table.shape[1]
        return np.asarray(np.append(-1.0, n)[np.clip(place, 0, n.size)])

    def _joint_counts(self, nodes: Array, node: Places, marks: Array) -> Array:
        """Turn uniform marks, one row per draw and one column per level, into the counts of all levels."""
        counts = np.empty((node.size, self.dimension))
        order = np.argsort(self.noisy, kind="stable")
        starts = np.flatnonzero(np.diff(self.noisy[order], prepend=np.nan))
        for group in np.split(order, starts[1:]):
            n, table = self._ladders(float(self.noisy[group[0]]), nodes)
            counts[:, group] = self._draw_counts(n, table, node, marks[:, group])
        return counts

    @cached_property
    def _atoms(self) -> tuple[Array, Array]:
        """The shapes x of all levels in each of many draws, and the draws' weights."""
        nodes, _ = self._nodes
        marks = even_marks(self._seed, JOINT, self.dimension + 2)
        node = np.minimum((marks[:, 0] * len(self._nodes[1])).astype(np.intp), len(self._nodes[1]) - 1)
        node = self._nodes[1][node]
        counts = self._joint_counts(nodes, node, marks[:, 2:])
        weights = np.ones(node.size) if self.count is None else self._given_total(nodes, node, counts, marks[:, 1])
        alpha = nodes[node, 0][:, None]
        shapes = np.where(counts >= 0, counts + alpha, 0.0)
        weights = np.where(shapes.sum(axis=1) > 0, weights, 0.0)
        return shapes, weights / weights.sum()

    def _given_total(self, nodes: Array, node: Places, counts: Array, marks: Array) -> Array:
        """Replace the largest level's counts by what remains of the total; return the probabilities of that."""
        largest = int(np.argmax(self.noisy))
        counts[:, largest] = 0.0
        rest = self.count - np.maximum(counts, 0.0).sum(axis=1)
        z = float(self.noisy[largest])
        n, table = self._ladders(z, nodes)
        alpha, mu = nodes[node, :2].T
        inside = rest >= 0
        level = np.where(inside, rest, 0.0)
        nearest = np.argmax(table[:, 1:], axis=1)
        anchor = n[nearest]
        log_top = np.log(table[np.arange(len(nodes)), 1 + nearest])
        top = log_negative_binomial(anchor, nodes[:, 0], nodes[:, 1])
        logs = log_negative_binomial(level, alpha, mu) - top[node] + log_top[node]
        logs += self.noise.log_weight(level, np.full(level.shape, z), anchor[node])
        if not np.any(inside):  # the total lies below all that the noise allows: the nearest draws stand for it
            counts[:, largest] = -1.0
            return np.asarray(np.exp((rest - rest.max()) / self.noise.scale))
        logs = np.where(inside, logs, -np.inf)
        occurring = np.exp(logs - logs.max())
        # With nothing left the level may be one that never occurs.
        never = np.where(rest == 0, table[node, 0], 0.0) * np.exp(-logs.max())
        counts[:, largest] = np.where(marks * (occurring + never) < never, -1.0, level)
        return np.asarray(occurring + never)

    @cached_property
    def _shares(self) -> dict[float, LevelShare]:
        return {}

    def marginal(self, index: int) -> LevelShare:
        """Return the distribution of one level's probability; levels with the same noisy count share theirs."""
        z = float(self.noisy[index])
        if z not in self._shares:
            x, rest, weights = self._explicit(z) if self.dimension <= EXPLICIT else self._against_rest(z)
            self._shares[z] = _level_share(*_fewer(x, rest, weights, self._thinned(ATOMS)))
        return self._shares[z]

    def _explicit(self, z: float) -> tuple[Array, Array, Array]:
        shapes, weights = self._atoms
        x = shapes[:, int(np.flatnonzero(self.noisy == z)[0])]
        return x, shapes.sum(axis=1) - x, weights

    @cached_property
    def _node_moments(self) -> tuple[Array, Array, Array]:
        return self._moments(self._nodes[0])

    def log_total(self, totals: Array) -> Array:
        """Return the log of how well each number of records agrees with the table, normal at each node.

        The prior p(N) = 1/N is taken out again.
        """
        nodes, node = self._nodes
        mean, variance, occurring = self._node_moments
        centre, spread = mean - nodes[:, 0] * occurring, np.maximum(variance, 1 / 12)
        share = np.bincount(node, minlength=len(nodes)) / node.size
        norm = np.log(np.maximum(share, 1e-300)) - np.log(spread) / 2
        logs = norm - (totals[:, None] - centre) ** 2 / (2 * spread)
        return np.asarray(logsumexp(logs, axis=1) + np.log(totals + 1))

    @cached_property
    def _variances(self) -> Array:
        """The variance of each level's x, at a node in the middle."""
        nodes, node = self._nodes
        variance = self._levels.shape_moments(*nodes[node[node.size // 2]])[2]
        return np.interp(self.noisy, self._levels.values, variance)

    @cached_property
    def _noisy_total(self) -> tuple[float, float] | None:
        """The total by the sum of the noisy counts, with its standard deviation, where the model's lies far from it.

        Where the counts of levels that occur are not gamma distributed, what the model takes for empty may add up.
        """
        mean, variance, occurring = self._node_moments
        nodes, node = self._nodes
        expected = (mean - nodes[:, 0] * occurring)[node].mean()
        n, logs = window(2 * self.noise.reach(_DROP), self.noise, few=False)
        weights = np.exp(logs)
        spread = float(weights @ (n - weights @ n / weights.sum()) ** 2 / weights.sum()) * self.dimension
        total = float(self.noisy.sum())
        far = abs(total - expected) > _MISFIT * np.sqrt(spread + variance[node].mean())
        return (total, float(np.sqrt(spread))) if far else None

    def _against_rest(self, z: float) -> tuple[Array, Array, Array]:
        """Draw one level's x at every atom, and the sum of all others as one number with their mean and variance."""
        nodes, node = self._nodes
        seed = zlib.crc32(np.float64(z).tobytes(), self._seed)
        n, table = self._ladders(z, nodes)
        alpha = nodes[:, :1]
        x = np.append(np.zeros((len(nodes), 1)), n + alpha, axis=1)
        mean = (table * x).sum(axis=1)
        spread = (table * (x - mean[:, None]) ** 2).sum(axis=1)
        all_mean, all_variance, occurring = self._node_moments
        others, variance = np.maximum(all_mean - mean, 1e-12), np.maximum(all_variance - spread, 1e-12)
        elsewhere = np.maximum(occurring - (1 - table[:, 0]), 0.0) * nodes[:, 0]
        if self.count is not None:
            gap = self.count - np.append(0.0, n) - (others - elsewhere)[:, None]
            table = table * np.exp(-(gap**2 - (gap**2).min(axis=1, keepdims=True)) / (2 * variance[:, None]))
            table /= table.sum(axis=1, keepdims=True)
        marks = even_marks(seed, self._thinned(ALONE), 3)
        node = node[(marks[:, 0] * node.size).astype(np.intp)]
        counts = self._draw_counts(n, table, node, marks[:, 1:2])[:, 0]
        own = np.where(counts >= 0, counts + nodes[node, 0], 0.0)
        total = (float(self.count), 0.0) if self.count is not None else self._noisy_total
        if total is not None:
            records = total[0] + total[1] * ndtri(marks[:, 2])
            rest = np.maximum(records - np.maximum(counts, 0.0), 0.0) + elsewhere[node]
        else:
            shape = (others**2 / variance)[node]
            # A gamma number of large shape is about the cube of a normal one.
            rest = others[node] * np.maximum(1 - 1 / (9 * shape) + ndtri(marks[:, 2]) / (3 * np.sqrt(shape)), 0.0) ** 3
        return own, np.maximum(rest, 1e-12), np.full(node.size, 1 / node.size)

    def mean(self) -> Array:
        """Return the mean of each probability."""
        return np.array([self.marginal(index).mean() for index in range(self.dimension)])

    def variance(self) -> Array:
        """Return the variance of each probability."""
        return np.array([self.marginal(index).variance() for index in range(self.dimension)])

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return each probability's own distribution function at its entry of x."""
        return np.array([float(self.marginal(i).cdf(each)) for i, each in enumerate(np.asarray(x, float))])

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return each probability's own quantiles, one row per level."""
        return np.array([self.marginal(index).quantile(p) for index in range(self.dimension)])

    def interval(self, prob: float) -> list[tuple[float, float]]:
        """Return each probability's equal-tailed interval."""
        return [self.marginal(index).interval(prob) for index in range(self.dimension)]

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent joint draws of all probabilities, one per row.

        With a public number of records and more than `EXPLICIT` levels, counts are drawn as if it were unknown and then
        moved to it, each by its share of the variance: exact where they are normal.
        """
        if self.count is not None and self.dimension <= EXPLICIT:
            shapes, weights = self._atoms
            return _probabilities(rng, shapes[rng.choice(weights.size, size, p=weights)])
        parts = list(self._fresh(rng, size))
        return np.concatenate(parts) if parts else np.empty((0, self.dimension))

    def _fresh(self, rng: np.random.Generator, size: int) -> Iterator[Array]:
        nodes, node = self._nodes
        while size > 0:
            some = int(min(size, max(1, _CHUNK // self.dimension)))
            chosen = node[rng.integers(node.size, size=some)]
            used, local = np.unique(chosen, return_inverse=True)
            counts = self._joint_counts(nodes[used], local.ravel(), rng.random((some, self.dimension)))
            shapes = np.where(counts >= 0, counts + nodes[chosen, :1], 0.0)
            total = (float(self.count), 0.0) if self.count is not None else None
            if total is None and self.dimension > EXPLICIT:
                total = self._noisy_total
            if total is not None:
                shapes = _moved(shapes, counts, rng.normal(total[0], total[1], (some, 1)), self._variances)
            shapes = shapes[shapes.sum(axis=1) > 0]
            size -= len(shapes)
            yield _probabilities(rng, shapes)

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Refuse: levels that never occur leave the joint distribution without a density."""
        raise InvalidParameter("log_density", "a sparse table", "a distribution with a density", "marginal(i)")

    @property
    def prior_weight(self) -> float:
        """How much the prior of even cells weighs: the mean of alpha/(alpha + mu), its records beside the table's."""
        alpha, mu, _ = _parameters(self.grid.points).T
        return float(self.grid.weights @ (alpha / (alpha + mu)) / self.grid.weights.sum())

    def population(self) -> dict[str, Any]:
        """Return the hyperparameters at the nodes of the quadrature, with their weights.

        concentration is alpha, mean the expected count of a level that occurs, occurring the share pi of such levels.
        """
        alpha, mu, pi = _parameters(self.grid.points).T
        return {"concentration": alpha, "mean": mu, "occurring": pi, "weight": self.grid.weights}


def _parameters(points: Array) -> Array:
    return np.column_stack([np.exp(points[:, 0]), np.exp(points[:, 1]), expit(points[:, 2])])


def _moved(shapes: Array, counts: Array, total: Array, variances: Array) -> Array:
    """Move the counts of levels that occur to their known total, each in proportion to its variance; none below 0."""
    occurs = counts >= 0
    gap = total - np.where(occurs, counts, 0.0).sum(axis=1, keepdims=True)
    share = np.where(occurs, variances, 0.0)
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    return np.where(occurs, np.maximum(shapes + gap * share, 1e-3 * shapes), 0.0)


def _probabilities(rng: np.random.Generator, shapes: Array) -> Array:
    """Draw from each row's Dirichlet distribution over the levels that occur."""
    shares = draw_dirichlet(rng, np.maximum(shapes, 1e-12))
    shares[shapes <= 0] = 0.0
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _beta_quantile(mixture: BetaMixture, p: Array) -> Array:
    """Return quantiles of a Beta mixture of many components, from the start that one draw of each gives."""
    rng = np.random.default_rng(0)
    logs = np.log(np.maximum(rng.beta(mixture.alphas, mixture.betas), 1e-300))
    order = np.argsort(logs)
    ladder = np.cumsum(mixture.weights[order])
    start = np.interp(p * ladder[-1], ladder, logs[order])

    def slope(t: Array) -> Array:
        return np.asarray(np.exp(mixture.log_density(np.exp(t)) + t))

    low, high = np.full_like(p, -745.0), np.zeros_like(p)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return np.exp(invert(p, lambda t: mixture.cdf(np.exp(t)), slope, start=start, low=low, high=high))


def _fewer(x: Array, rest: Array, weights: Array, size: int) -> tuple[Array, Array, Array]:
    """Let `size` draws of equal weight stand for all, evenly along the probability that each expects."""
    order = np.argsort(x / np.maximum(x + rest, 1e-300), kind="stable")
    ladder = np.cumsum(weights[order])
    places = np.searchsorted(ladder / ladder[-1], (np.arange(size) + 0.5) / size)
    chosen = order[np.minimum(places, order.size - 1)]
    return x[chosen], rest[chosen], np.full(size, 1 / size)


def _level_share(x: Array, rest: Array, weights: Array) -> LevelShare:
    """Collect weighted pairs of a level's shape and the others' into the distribution of its probability."""
    never, alone = weights[x <= 0].sum(), weights[(x > 0) & (rest <= 0)].sum()
    inside = (x > 0) & (rest > 0) & (weights > 0)
    if not np.any(inside):
        return LevelShare(float(never), float(alone), None)
    share = weights[inside]
    return LevelShare(float(never), float(alone), BetaMixture(share / share.sum(), x[inside], rest[inside]))


def sparse_dirichlet(noisy: npt.ArrayLike, *, noise: Noise, count: int | None = None) -> SparseDirichlet:
    """Return the posterior of a table's probabilities from noisy counts of all its levels.

    Parameters
    ----------
    noisy
        Integers, one per level; noise may have made them negative.
    noise
        The noise of each.
    count
        The number of records where it is public.
    """
    values = np.asarray(noisy, float)
    if values.ndim != 1 or values.size < 1:
        raise InvalidParameter("noisy", values.shape, "one count per level", "a list of noisy counts")
    return SparseDirichlet(values, noise, count, hyperparameters(values, noise))
