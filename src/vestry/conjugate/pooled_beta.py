"""Proportions of many groups that learn from each other, from noisy counts of successes and failures.

    theta_g ~ Beta(mu k, (1 - mu) k),  rho = 1/(1 + k);   N_g ~ NB(shape, size);   s_g ~ Binomial(N_g, theta_g),
    f_g = N_g - s_g;   z = s_g + noise, f_g + noise.

mu and rho are uniform on (0, 1); log shape is uniform on [0.1, 100], and the expected number of records of a group has
density 1/(size + 1/2). All four are unknown and summed out. With a = mu k, b = (1 - mu) k, and
A_a(s) = Gamma(a + s)/(Gamma(a) s!), the evidence of one group is

    m_g = sum over s, f >= 0 of  A_a(s) P(zs - s) A_b(f) P(zf - f) c(s + f),   c(N) = NB(N; shape, size)/A_k(N),    (1)

and given them and the counts theta_g ~ Beta(a + s, b + f). Groups of few records go through (1) together: it is a
product of three matrices. Groups of many records go through it with a few Gauss nodes each. With totals taken for
flat (c = 1/A_k) intervals become too short as groups grow in number: of a total that the noise hides little is known
from its own counts, and much from those of the others.

Without noise the likelihood of (mu, rho) and that of (shape, size) are separate factors. So nodes are taken from the
quadrature of each pair, the other held at its mean, and are weighted by the likelihood at all four: what noise
couples is corrected by these weights. No Markov chain is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, log_expit, logit

from vestry.conjugate.pooled_groups import NODES, Places, PooledGroups, even_marks, inverse, log_sums
from vestry.conjugate.sparse_dirichlet import log_negative_binomial
from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Noise, count_window, thin
from vestry.posterior.hyper_grid import HyperGrid, integrate
from vestry.posterior.mixture import BetaMixture

# The ends of rho, of the shape of the totals.
_RHO, _SHAPES = 5e-5, (0.1, 100.0)
# Cells along each direction to begin with, and the width of the last in standard deviations; of few groups the
# posterior is wide and bent, and it costs little to look closer.
_SIZES, _COARSE, _FINE = (9, 9), 0.8, 0.5
_FEW_GROUPS, _MORE_NODES = 20, 1024
# Parts of mu's range along which nodes are ordered.
_RUNS = 32
# Counts below e^-_DROP of the noise's summit are omitted in exact means, below e^-_GROUP_DROP elsewhere.
_DROP, _GROUP_DROP = 24.0, 16.0
# Groups whose windows end below this count are taken together.
_DENSE = 256
# Noise that is this small beside sqrt(count), and this many scales from 0, is replaced by three points.
_SMALL, _DISTANT = 0.25, 24.0
# Populations x groups that are held at once.
_CHUNK = 1 << 18


def log_rising(count: Array, a: Array | float) -> Array:
    """Return log A_a(s) = log of Gamma(a + s)/(Gamma(a) s!)."""
    return np.asarray(gammaln(count + a) - gammaln(a) - gammaln(count + 1))


def few_counts(z: float, noise: Noise) -> tuple[Array, Array]:
    """Return Gauss nodes for the counts that z leaves possible: three where the noise is small beside sqrt(count)."""
    n, logs = count_window(z, noise, _DROP)
    if z < _DISTANT * noise.scale or noise.scale > _SMALL * np.sqrt(max(z, 1.0)):
        return thin(n, logs, 2 * np.sqrt(n + 1))
    weights = np.exp(logs)
    total, away = weights.sum(), n - z
    second, fourth = weights @ away**2 / total, weights @ away**4 / total
    outer = second**2 / (2 * fourth) if fourth > 0 else 0.0
    step = np.sqrt(fourth / second) if second > 0 else 0.0
    shares = np.array([outer, 1 - 2 * outer, outer])
    with np.errstate(divide="ignore"):
        return z + step * np.array([-1.0, 0.0, 1.0]), np.log(total * shares)


def _exp(x: Array) -> Array:
    """Return e^x, or 0 where that is so small that arithmetic with it would be slow."""
    return np.exp(np.where(x < -690.0, -np.inf, x))


def rising_ladder(size: int, a: Array) -> Array:
    """Return log A_a(n) for n = 0, 1, ... `size` - 1, one row per a: sums of log((a + j - 1)/j)."""
    j = np.arange(1.0, size)
    steps = np.log((a[:, None] + (j - 1)) / j)
    return np.concatenate([np.zeros((a.size, 1)), np.cumsum(steps, axis=1)], axis=1)


def _tilt(concentration: Array, most: float) -> Array:
    """Return t so that e^(-t n) beside each rising factor, and e^(t N) beside the coupling, keep all in range.

    log A_k is concave for k > 1, and t is the slope of its chord from 0 to the largest total.
    """
    return np.maximum(0.0, log_rising(np.asarray(most), concentration) / max(most, 1.0))


def _sums(table: Array, rows: int, columns: int) -> Array:
    """Return a view of each row of `table` as the matrix whose entry (s, f) is its entry s + f."""
    step = table.strides[1]
    return np.lib.stride_tricks.as_strided(table, (len(table), rows, columns), (table.strides[0], step, step))


@dataclass(frozen=True, eq=False)
class Populations:
    """Values of the hyperparameters; `shape` None takes totals for flat.

    Attributes
    ----------
    mean, concentration
        mu and k.
    shape, size
        Of the negative binomial distribution of the groups' totals.
    """

    mean: Array
    concentration: Array
    shape: Array | None
    size: Array

    def at(self, places: Places) -> Populations:
        """Return some of them."""
        shape = None if self.shape is None else self.shape[places]
        return Populations(self.mean[places], self.concentration[places], shape, self.size[places])

    def log_coupling(self, total: Array) -> Array:
        """Return log c(N), one row per population."""
        logs = -log_rising(total, self.concentration[:, None])
        if self.shape is None:
            return logs
        return logs + log_negative_binomial(total, self.shape[:, None], self.size[:, None])

    def coupling_ladder(self, size: int) -> Array:
        """Return log c(N) for N = 0, 1, ... `size` - 1, one row per population."""
        ladder = -rising_ladder(size, self.concentration)
        if self.shape is None:
            return ladder
        ends = self.shape * np.log1p(self.size / self.shape), np.log1p(self.shape / self.size)
        return ladder + rising_ladder(size, self.shape) - ends[0][:, None] - ends[1][:, None] * np.arange(size)

    def shapes(self) -> tuple[Array, Array]:
        """Return a and b."""
        return self.mean * self.concentration, (1 - self.mean) * self.concentration


@dataclass(frozen=True, eq=False)
class _Together:
    """Groups of few records: equation (1) as a product of matrices.

    Attributes
    ----------
    groups
        Their places.
    success, failure
        P(z - n), one row per count n = 0, 1, ... and one column per value that occurs.
    pair
        The columns of each group.
    """

    groups: Places
    success: Array
    failure: Array
    pair: tuple[Places, Places]

    @classmethod
    def of(cls, noisy: Array, groups: Places, noise: Noise, drop: float) -> _Together:
        """Tabulate the noise of the given groups."""
        tables, columns = [], []
        for side in (0, 1):
            values, place = np.unique(noisy[groups, side], return_inverse=True)
            windows = [count_window(z, noise, drop) for z in values]
            table = np.zeros((int(max(n[-1] for n, _ in windows)) + 1, values.size))
            for column, (n, logs) in enumerate(windows):
                table[n.astype(np.intp), column] = np.exp(logs)
            tables.append(table)
            columns.append(place.ravel())
        return cls(groups, tables[0], tables[1], (columns[0], columns[1]))

    def log_evidence(self, populations: Populations) -> Array:
        """Return log m_g of these groups, one row per population."""
        a, b = populations.shapes()
        rows, columns = len(self.success), len(self.failure)
        totals = np.arange(float(rows + columns - 1))
        tilt = _tilt(populations.concentration, float(totals[-1]))[:, None]
        coupling = populations.coupling_ladder(totals.size) + tilt * totals
        top = coupling.max(axis=1, keepdims=True)
        left = _exp(rising_ladder(rows, a) - tilt * totals[:rows])
        right = _exp(rising_ladder(columns, b) - tilt * totals[:columns])
        evidence = np.empty((a.size, self.groups.size))
        for each, hankel in enumerate(_sums(_exp(coupling - top), rows, columns)):
            inner = np.ascontiguousarray(hankel) @ (right[each][:, None] * self.failure)
            evidence[each] = ((left[each][:, None] * self.success).T @ inner)[self.pair]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(evidence) + top)


@dataclass(frozen=True, eq=False)
class _Apart:
    """Groups of many records: equation (1) over cells of a few nodes along each direction.

    Attributes
    ----------
    groups
        Their places.
    start
        The first cell of each group.
    s, f
        The counts of each cell.
    logs
        The noise's log weight of each cell.
    """

    groups: Places
    start: Places
    s: Array
    f: Array
    logs: Array

    @classmethod
    def of(cls, noisy: Array, groups: Places, noise: Noise, drop: float) -> _Apart:
        """List the cells of the given groups."""
        parts, sizes = [], []
        for zs, zf in noisy[groups]:
            (s, s_logs), (f, f_logs) = few_counts(zs, noise), few_counts(zf, noise)
            logs = (s_logs[:, None] + f_logs).ravel()
            probable = logs > logs.max() - drop
            cells = np.stack([np.repeat(s, f.size), np.tile(f, s.size), logs])[:, probable]
            parts.append(cells)
            sizes.append(cells.shape[1])
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        s, f, logs = np.concatenate(parts, axis=1)
        return cls(groups, start, s, f, logs)

    @cached_property
    def _counts(self) -> tuple[tuple[Array, Places], ...]:
        """The distinct counts of successes, of failures and of both, and the place of each cell's among them."""
        distinct = [np.unique(each, return_inverse=True) for each in (self.s, self.f, self.s + self.f)]
        return tuple((values, place.ravel()) for values, place in distinct)

    def log_evidence(self, populations: Populations) -> Array:
        """Return log m_g of these groups, one row per population."""
        a, b = populations.shapes()
        (s, at_s), (f, at_f), (n, at_n) = self._counts
        sides = log_rising(s, a[:, None]), log_rising(f, b[:, None]), populations.log_coupling(n)
        logs = np.empty((a.size, self.groups.size))
        for each, (of_s, of_f, of_n) in enumerate(zip(*sides, strict=True)):
            logs[each] = log_sums(of_s[at_s] + of_f[at_f] + of_n[at_n] + self.logs, self.start)
        return logs


@dataclass(frozen=True, eq=False)
class GroupEvidence:
    """Equation (1) for all groups.

    Attributes
    ----------
    noisy
        Noisy successes and failures, one row per group.
    noise
        Their noise.
    drop
        Counts whose noise is below e^-drop of its summit are omitted.
    """

    noisy: Array
    noise: Noise
    drop: float = _DROP

    @cached_property
    def _parts(self) -> list[_Together | _Apart]:
        reach = np.maximum(self.noisy, 0.0) + self.noise.reach(self.drop)
        few = np.all(reach < _DENSE, axis=1)
        kinds: list[tuple[Any, Places]] = [(_Together, np.flatnonzero(few)), (_Apart, np.flatnonzero(~few))]
        return [kind.of(self.noisy, groups, self.noise, self.drop) for kind, groups in kinds if groups.size]

    def log_evidence(self, populations: Populations) -> Array:
        """Return log m_g of every group, one row per population, in units of the noise at the counts nearest to z."""
        logs = np.empty((populations.mean.size, len(self.noisy)))
        for part in self._parts:
            logs[:, part.groups] = part.log_evidence(populations)
        return logs

    def log_likelihood(self, populations: Populations) -> Array:
        """Return the sum over groups of log m_g, one for each population, some populations at a time."""
        step = max(1, _CHUNK // len(self.noisy))
        places = np.arange(populations.mean.size)
        parts = [self.log_evidence(populations.at(places[i : i + step])).sum(axis=1) for i in places[::step]]
        return np.concatenate(parts)


def _log_prior_mean(x: Array) -> Array:
    """Return the log density of a logit whose probability is uniform."""
    return np.asarray(log_expit(x) + log_expit(-x))


def _pairs(first: Array, second: Array) -> Array:
    """Return all nodes of a grid, one per row."""
    return np.column_stack([np.repeat(first, second.shape[1]), second.ravel()])


def _populations(x: Array, y: Array, *, flat_totals: bool) -> Populations:
    """Return the hyperparameters of (logit rho, logit mu) and (log shape, log size)."""
    shape = None if flat_totals else np.exp(y[:, 0])
    return Populations(expit(x[:, 1]), np.exp(-x[:, 0]), shape, np.exp(y[:, 1]))


def hyperparameters(evidence: GroupEvidence, *, flat_totals: bool = False) -> tuple[Array, Array]:
    """Return nodes (logit rho, logit mu, log shape, log size) and their weights.

    `flat_totals` leaves the totals without a distribution: what the intervals then miss is in the module's docstring.
    """
    positive = np.maximum(evidence.noisy, 0.0)
    most = 20 * (positive.sum(axis=1).max() + evidence.noise.scale + 1)

    def log_likelihood(x: Array, y: Array) -> Array:
        return evidence.log_likelihood(_populations(x, y, flat_totals=flat_totals))

    def log_prior_size(y: Array) -> Array:
        return np.asarray(-np.logaddexp(0.0, np.log(0.5) - y) - np.logaddexp(0.0, y - np.log(most)))

    def of_x(first: Array, second: Array, y: Array) -> Array:
        x = _pairs(first, second)
        prior = _log_prior_mean(first)[:, None] + _log_prior_mean(second)
        return np.asarray(prior + log_likelihood(x, np.broadcast_to(y, x.shape)).reshape(second.shape))

    def of_y(first: Array, second: Array, x: Array) -> Array:
        y = _pairs(first, second)
        return np.asarray(log_prior_size(second) + log_likelihood(np.broadcast_to(x, y.shape), y).reshape(second.shape))

    x_ends = (float(logit(_RHO)), -14.0), (9.0, 14.0)
    y_ends = (float(np.log(_SHAPES[0])), float(np.log(0.5)) - 10), (float(np.log(_SHAPES[1])), float(np.log(most)) + 10)
    total = positive.sum(axis=0) + 1
    x = np.array([-2.0, float(np.log(total[0] / total[1]))])
    if flat_totals:
        x_grid = integrate(lambda u, v: of_x(u, v, np.zeros(2)), *x_ends, sizes=_SIZES)
        return np.column_stack([x_grid.points, np.zeros_like(x_grid.points)]), x_grid.weights
    few = len(evidence.noisy) <= _FEW_GROUPS
    widest = _FINE if few else _COARSE
    y_grid = integrate(lambda u, v: of_y(u, v, x), *y_ends, sizes=_SIZES, widest=widest)
    y = y_grid.weights @ y_grid.points
    x_grid = integrate(lambda u, v: of_x(u, v, y), *x_ends, sizes=_SIZES, widest=widest)
    marks = even_marks(0, _MORE_NODES if few else NODES, 2)
    return _coupled(x_grid, y_grid, marks, log_likelihood, log_prior_size)


def _coupled(
    x_grid: HyperGrid, y_grid: HyperGrid, marks: Array, log_likelihood: Any, log_prior_size: Any
) -> tuple[Array, Array]:
    """Take pairs of nodes of both grids evenly by their weights, and weigh each by the density that it truly has."""
    places = [
        np.minimum(np.searchsorted(np.cumsum(grid.weights), mark), grid.weights.size - 1)
        for grid, mark in zip((x_grid, y_grid), marks.T, strict=True)
    ]
    x, y = x_grid.points[places[0]], y_grid.points[places[1]]
    logs = log_likelihood(x, y)
    logs += _log_prior_mean(x[:, 0]) + _log_prior_mean(x[:, 1]) + log_prior_size(y[:, 1])
    logs -= np.log(x_grid.weights[places[0]]) + np.log(y_grid.weights[places[1]])
    weights = np.exp(logs - logs.max())
    return np.column_stack([x, y]), weights / weights.sum()


@dataclass(frozen=True, eq=False)
class PooledBeta(PooledGroups):
    """The joint posterior of all groups' proportions and of the population that they come from.

    Attributes
    ----------
    noisy
        Noisy successes and failures, one row per group.
    noise
        Their noise.
    populations, weights
        The hyperparameters at the nodes of the quadrature.
    """

    noisy: Array
    noise: Noise
    populations: Populations
    weights: Array

    @property
    def dimension(self) -> int:
        """The number of groups."""
        return len(self.noisy)

    def key(self, index: int) -> tuple[float, ...]:
        """Return the group's noisy counts."""
        return tuple(map(float, self.noisy[index]))

    @cached_property
    def _used(self) -> Populations:
        return self.populations.at(self.nodes[0])

    @cached_property
    def _ladders(self) -> tuple[Array, ...]:
        """A_a and A_b of counts below `_DENSE`, and c, tilted, in logarithms: one row per node that is used."""
        count = np.arange(float(2 * _DENSE + 1))
        tilt = _tilt(self._used.concentration, count[-1])[:, None]
        sides = [rising_ladder(_DENSE + 1, shape) - tilt * count[: _DENSE + 1] for shape in self._used.shapes()]
        return sides[0], sides[1], self._used.coupling_ladder(count.size) + tilt * count

    def components(self, index: int, node: Places, marks: Array) -> tuple[Array, Array]:
        """Draw the counts of successes, and of failures given those; return a + s and b + f."""
        (s, s_logs), (f, f_logs) = self._sides(index)
        left, right, both = self._factors(s, s_logs, f, f_logs)
        at_s = inverse(left * np.einsum("nsf,nf->ns", both, right), node, marks[:, 0])
        ladder = np.cumsum(right[node] * both[node, at_s], axis=1)
        at_f = np.minimum((ladder < marks[:, 1:2] * ladder[:, -1:]).sum(axis=1), f.size - 1)
        a, b = self._used.shapes()
        return a[node] + s[at_s], b[node] + f[at_f]

    def _factors(self, s: Array, s_logs: Array, f: Array, f_logs: Array) -> list[Array]:
        """Return the three factors of (1) at each node, of s, of f and of both, each up to a factor of its own."""
        if max(s[-1], f[-1]) <= _DENSE:
            first, second = int(s[0]), int(f[0])
            of_s, of_f, of_n = self._ladders
            of_s, of_f = of_s[:, first : first + s.size], of_f[:, second : second + f.size]
            coupling = of_n[:, first + second : first + second + s.size + f.size - 1]
        else:
            a, b = self._used.shapes()
            totals, place = np.unique(s[:, None] + f, return_inverse=True)
            tilt = _tilt(a + b, float(totals[-1]))[:, None]
            of_s, of_f = log_rising(s, a[:, None]) - tilt * s, log_rising(f, b[:, None]) - tilt * f
            coupling = self._used.log_coupling(totals) + tilt * totals
        left, right, both = (
            _exp(each - each.max(axis=1, keepdims=True)) for each in (of_s + s_logs, of_f + f_logs, coupling)
        )
        dense = max(s[-1], f[-1]) <= _DENSE
        return [left, right, _sums(both, s.size, f.size) if dense else both[:, place.reshape(s.size, f.size)]]

    def _sides(self, index: int) -> list[tuple[Array, Array]]:
        """Return the counts of successes and of failures that a group's noisy ones leave possible."""
        sides = [count_window(z, self.noise, _GROUP_DROP) for z in self.noisy[index]]
        if max(n[-1] for n, _ in sides) > _DENSE:
            return [few_counts(z, self.noise) for z in self.noisy[index]]
        return sides

    def mixture(self, first: Array, second: Array, weights: Array) -> BetaMixture:
        """Return a mixture of Beta distributions."""
        return BetaMixture(weights, first, second)

    def member(self, first: float, second: float) -> BetaMixture:
        """Return Beta(a + s, b + f), averaged over the population."""
        a, b = self.populations.shapes()
        return BetaMixture(self.weights, a + max(first, 0.0), b + max(second, 0.0))

    def draw_members(self, rng: np.random.Generator, first: Array, second: Array) -> Array:
        """Draw from each Beta distribution."""
        return rng.beta(first, second)

    def population(self) -> dict[str, Array]:
        """Return the hyperparameters at the nodes, with their weights: what the groups have in common.

        mean is mu, concentration k, rho = 1/(1 + k); shape and size are those of the groups' totals.
        """
        each = self.populations
        shape = np.full(each.size.shape, np.nan) if each.shape is None else each.shape
        proportion = {"mean": each.mean, "concentration": each.concentration, "rho": 1 / (1 + each.concentration)}
        return {**proportion, "shape": shape, "size": each.size, "weight": self.weights}


def pooled_beta(
    successes: npt.ArrayLike, failures: npt.ArrayLike, *, noise: Noise, flat_totals: bool = False
) -> PooledBeta:
    """Return the joint posterior of groups' proportions from noisy successes and failures of each.

    Parameters
    ----------
    successes, failures
        Integers, one per group; noise may have made them negative.
    noise
        The noise of each.
    flat_totals
        Take every number of records for equally likely, group by group, instead of learning their distribution.
    """
    noisy = np.column_stack([np.asarray(successes, float), np.asarray(failures, float)])
    if noisy.ndim != 2 or len(noisy) < 1:
        raise InvalidParameter("successes", noisy.shape, "one count per group", "a list of noisy counts")
    points, weights = hyperparameters(GroupEvidence(noisy, noise, _GROUP_DROP), flat_totals=flat_totals)
    # Nodes are taken evenly in this order: along mu, and for about the same mu along rho.
    order = np.lexsort((points[:, 0], np.argsort(np.argsort(points[:, 1])) * _RUNS // len(points)))
    places = order[weights[order] > 1e-6]
    points, weights = points[places], weights[places] / weights[places].sum()
    return PooledBeta(noisy, noise, _populations(points[:, :2], points[:, 2:], flat_totals=flat_totals), weights)
