"""Shares of missing, unmatched and clipped values, from the noisy counts of all columns together.

Every record has one condition in each column, so the counts of each column add up to the same number of records n. Most
columns have one condition alone, so which ones occur is unknown too: every non-empty set A of a column's conditions is
taken for equally probable, and given A and n the counts are Dirichlet-multinomial with concentration a (with a = 1 all
ways to divide n among A are equally probable). With noisy counts z_cj and m conditions in A,

    w_c(A, n)    = n! Gamma(m a)/(Gamma(n + m a) Gamma(a)^m) x product over j not in A of P(noise = z_cj)
                   x [sum over s, adding up to n, of product over j in A of Gamma(s_j + a)/s_j! P(noise = z_cj - s_j)],
    p(n | z)     ~ product over c of [sum over A of w_c(A, n)],
    p(A | n, z)  ~ w_c(A, n),

with the improper uniform prior on n >= 1 where n is private, and one n where it is public. Given n and A the counts of
a column are independent ones given their sum (`vestry.posterior.counts_given_total`). The parameters are the shares
s_cj/n of the table itself, not of a population that it was drawn from: without noise they would be known.

Noise on a cube (`vestry.noise.cube`) hides the counts of what does not fit, n being public: with q = e^(-1/scale)

    P(z | s) ~ sum over m of q^m 1[all |z_cj - s_cj| <= m],

so given m every count has a window, columns are independent again, and the weight of m is q^m times the product of the
columns' sums over A. What fits is what remains of n, and its window follows from the others'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from vestry.data_quality.quality_warnings import Finding, finding
from vestry.errors import ExtremeNumbers, InvalidParameter
from vestry.numerics import Array
from vestry.posterior.counts_given_total import Measure, Node, split, tree
from vestry.posterior.discrete_noise import Cube, Noise, law_of, log_ratio
from vestry.posterior.mixture import Marginal, normalise, probabilities
from vestry.posterior.reader import NOISE_AWARE, Reader
from vestry.releases import NoisyStatistics
from vestry.schema.statistics import CONDITIONS
from vestry.validation import is_number

# Log weight below which a count is omitted; counts of a condition that are held at once, beyond which they are taken in
# steps; numbers of records that stand for their distribution.
_DROP, _POINTS, _NODES = 30.0, 2048, 48
# The noise that is uniform on a cube; cubes beyond the bulk, counts of each held at once, and deviations to its end.
_CUBES, _CUBE_POINTS, _WIDTHS = 16, 128, 5.0
# Beyond so many cubes no calibrated noise lies.
_MOST_CUBES = 2e7
# Halvings of a quantile; a count is whole to this part.
_HALVINGS, _ROUNDING = 50, 1e-6


@dataclass(frozen=True, eq=False)
class ConditionShare(Marginal):
    """The distribution of one share s/n: that of s for each of several n, which have weights.

    Attributes
    ----------
    weights, totals
        The numbers of records, in steps, and how probable each is.
    start
        The least count, in steps.
    table
        The probabilities of the counts that follow it, one row for each number of records.
    """

    weights: Array
    totals: Array
    start: int
    table: Array

    def mean(self) -> float:
        """Return the mean."""
        return float(self.weights @ (self.table * self._values).sum(axis=1))

    def variance(self) -> float:
        """Return the variance."""
        return float(self.weights @ (self.table * (self._values - self.mean()) ** 2).sum(axis=1))

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the probability of at most x."""
        ladders = self._ladders
        flat, rows = np.ravel(np.asarray(x, float)), np.arange(len(self.totals))
        probabilities = np.empty(flat.size)
        for place, each in enumerate(flat):
            count = np.floor(np.clip(each, -1.0, 2.0) * self.totals + _ROUNDING).astype(int) - self.start
            inside = ladders[rows, np.clip(count, 0, ladders.shape[1] - 1)]
            probabilities[place] = self.weights @ np.where(count < 0, 0.0, inside)
        return np.minimum(probabilities, 1.0).reshape(np.shape(x))

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return the least share whose distribution function reaches p, by halving."""
        target = probabilities(p)
        low, high = np.full(target.shape, -1e-9), np.ones(target.shape)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            reached = self.cdf(middle) >= target
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        atoms = np.ceil(high[..., None] * self.totals - _ROUNDING) / self.totals  # the share is of one of the totals
        return np.asarray(np.clip(atoms.min(axis=-1), 0.0, 1.0) + 0.0)  # 0 without a sign

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws."""
        joint = self.weights[:, None] * self.table
        places = rng.choice(joint.size, size, p=joint.ravel() / joint.sum())
        return np.asarray(self._values.ravel()[places])

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the density, smoothed over a twentieth of the standard deviation."""
        near = max(math.sqrt(self.variance()) / 20, 0.5 / float(self.weights @ self.totals))
        with np.errstate(divide="ignore"):
            return np.log((self.cdf(np.asarray(theta) + near) - self.cdf(np.asarray(theta) - near)) / (2 * near))

    @cached_property
    def _ladders(self) -> Array:
        return np.cumsum(self.table, axis=1)

    @property
    def _values(self) -> Array:
        return np.asarray((self.start + np.arange(self.table.shape[1])) / self.totals[:, None])


@dataclass(frozen=True, eq=False)
class ColumnCounts:
    """What the noisy counts of one column say of its counts, in steps.

    Attributes
    ----------
    leaves
        Gamma(s + a)/s! P(noise = z - s) of each condition, up to a factor.
    logs
        The logarithms of these factors.
    zeros
        The logarithm of P(noise = z), up to the same factor for all sets: for a condition that does not occur.
    alpha
        The prior's concentration a.
    """

    leaves: tuple[Measure, ...]
    logs: Array
    zeros: Array
    alpha: float
    _chances: dict[bytes, Array] = field(default_factory=dict, repr=False)

    @cached_property
    def sums(self) -> dict[tuple[int, ...], Node]:
        """The tree over the conditions of every non-empty set."""
        places = range(len(self.leaves))
        sets = (chosen for size in places for chosen in combinations(places, size + 1))
        return {chosen: tree([self.leaves[place] for place in chosen]) for chosen in sets}

    def log_weights(self, totals: Array) -> Array:
        """Return log w(A, n), one row for each set, up to one constant for all."""
        rows = [self._log_weight(chosen, node.measure, totals) for chosen, node in self.sums.items()]
        return np.array(rows)

    def _log_weight(self, chosen: tuple[int, ...], measure: Measure, totals: Array) -> Array:
        size, alpha = len(chosen), self.alpha
        norm = gammaln(size * alpha) - size * gammaln(alpha) + self.logs[list(chosen)].sum()
        absent = np.delete(self.zeros, chosen).sum()
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(measure.at(totals.astype(np.int64))) - log_ratio(totals, size * alpha) + norm + absent
            )

    def chances(self, totals: Array) -> Array:
        """Return p(A | n), one row for each set."""
        key = totals.tobytes()
        if key not in self._chances:
            logs = self.log_weights(totals)
            top = logs.max(axis=0)
            if not np.all(np.isfinite(top)):
                raise ExtremeNumbers
            weights = np.exp(logs - top)
            self._chances[key] = weights / weights.sum(axis=0)
        return self._chances[key]

    def table(self, place: int, totals: Array) -> Array:
        """Return the distribution of one count, from the start of its leaf on, one row for each number of records."""
        own = self.leaves[place]
        counts = own.start + np.arange(own.table.size)
        rest_counts = totals.astype(np.int64)[:, None] - counts
        table = np.zeros(rest_counts.shape)
        for chosen, chance in zip(self.sums, self.chances(totals), strict=True):
            if place not in chosen:
                table[:, 0] += chance if own.start == 0 else 0.0
                continue
            others = tuple(each for each in chosen if each != place)
            rest = self.sums[others].measure if others else Measure(0, np.ones(1))
            joint = own.table * rest.at(rest_counts)
            sums = joint.sum(axis=1)
            table += joint * np.where(sums > 0, chance / np.where(sums > 0, sums, 1.0), 0.0)[:, None]
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def draw(self, totals: Array, rng: np.random.Generator) -> Array:
        """Draw the counts given the number of records, once for each; one draw per row."""
        different, place = np.unique(totals, return_inverse=True)
        ladders = np.cumsum(self.chances(different), axis=0)[:, np.ravel(place)]
        which = (rng.random(totals.size) > ladders[:-1]).sum(axis=0)
        counts = np.zeros((totals.size, len(self.leaves)))
        for index, (chosen, node) in enumerate(self.sums.items()):
            rows = np.flatnonzero(which == index)
            if rows.size:
                counts[np.ix_(rows, np.array(chosen))] = split(node, totals[rows].astype(np.int64), rng)
        return counts


@dataclass(frozen=True, eq=False)
class Shares:
    """The joint distribution of all shares; that of values that fit is not among them.

    Attributes
    ----------
    columns
        What is known of each column's counts.
    weights, totals
        The numbers of records, in steps, and how probable each is.
    """

    columns: tuple[ColumnCounts, ...]
    weights: Array
    totals: Array

    @property
    def dimension(self) -> int:
        """How many shares there are."""
        return sum(len(column.leaves) - 1 for column in self.columns)

    def marginal(self, index: int) -> ConditionShare:
        """Return the distribution of one share."""
        for column in self.columns:
            if index < len(column.leaves) - 1:
                table = column.table(index + 1, self.totals)
                return ConditionShare(self.weights, self.totals, column.leaves[index + 1].start, table)
            index -= len(column.leaves) - 1
        raise IndexError(index)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw the number of records, and each column's counts given it; one draw per row."""
        totals = rng.choice(self.totals, size, p=self.weights)
        counts = [column.draw(totals, rng)[:, 1:] for column in self.columns]
        return np.asarray(np.concatenate(counts, axis=1) / totals[:, None])


def shares_of(columns: Sequence[Array], *, alpha: float, noise: Noise, count: int | None) -> Shares:
    """Return the posterior from the noisy counts of each column's conditions.

    Exact for noise of a scale up to about 30; beyond, counts are taken in steps h, and the noise's spread is wrong by a
    part (h/scale)^2/12, at most 1e-4. The sum over n is thinned to 48 numbers.
    """
    reach = math.ceil(noise.reach(_DROP))
    step = max(1, math.ceil(2 * reach / _POINTS))
    known = tuple(_column(values, alpha, noise, reach, step) for values in columns)
    if count is not None:
        return Shares(known, *_in_steps(count, step))
    # No n is farther from the sum of a column's noisy counts than its noises can be together.
    low = max(values.sum() - values.size * reach for values in columns)
    high = min(np.maximum(values, 0.0).sum() + values.size * reach for values in columns)
    if high < max(low, step):
        raise ExtremeNumbers
    totals = np.arange(max(1, math.floor(low / step)), math.floor(high / step) + 1, dtype=float)
    logs = np.sum([logsumexp(each.log_weights(totals), axis=0) for each in known], axis=0)
    if not np.any(np.isfinite(logs)):
        raise ExtremeNumbers
    weights, places = normalise(logs)
    thinned = slice(None, None, math.ceil(len(places) / _NODES))
    return Shares(known, weights[thinned] / weights[thinned].sum(), totals[places][thinned])


def _in_steps(count: int, step: int) -> tuple[Array, Array]:
    """Return the number of records in steps: one or two whole numbers, with their weights."""
    whole, part = divmod(count, step)
    weights = np.array([1 - part / step, part / step])
    return weights[weights > 0], np.array([whole, whole + 1.0])[weights > 0]


@dataclass(frozen=True)
class Window:
    """Whether z is at most so far from s: the noise's distribution given the cube."""

    scale: float

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return 0 inside the window, and -infinity outside."""
        return np.where(np.abs(z - s) <= self.scale, 0.0, -np.inf)

    def reach(self, drop: float) -> float:
        """Return half the width."""
        return self.scale


@dataclass(frozen=True, eq=False)
class MixedShares:
    """The joint distribution of all shares over several cubes, which have weights."""

    weights: Array
    parts: tuple[Shares, ...]

    @property
    def dimension(self) -> int:
        """How many shares there are."""
        return self.parts[0].dimension

    def marginal(self, index: int) -> ConditionShare:
        """Return the distribution of one share: a row for each cube and number of records."""
        marginals = [part.marginal(index) for part in self.parts]
        start = min(each.start for each in marginals)
        width = max(each.start + each.table.shape[1] for each in marginals) - start
        before = [each.start - start for each in marginals]
        tables = [
            np.pad(each.table, ((0, 0), (first, width - first - each.table.shape[1])))
            for each, first in zip(marginals, before, strict=True)
        ]
        weights = np.concatenate([weight * each.weights for weight, each in zip(self.weights, marginals, strict=True)])
        return ConditionShare(weights, np.concatenate([each.totals for each in marginals]), start, np.vstack(tables))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw the cube, and the counts given it; one draw per row."""
        numbers = rng.multinomial(size, self.weights)
        draws = [part.draw(rng, number) for part, number in zip(self.parts, numbers, strict=True) if number]
        return rng.permutation(np.concatenate(draws))


def cube_shares_of(columns: Sequence[Array], *, alpha: float, scale: float, count: int) -> MixedShares:
    """Return the posterior from the counts, noisy by a cube, of each column's conditions other than that it fits.

    Of very many cubes some stand for those between them, by linear interpolation; probabilities are right to
    about 0.01, and to 0.03 where the noise's scale exceeds the number of records.
    Among these are all at which a column can have one condition alone, where weights jump, and those just before.
    """
    edges = _edges(columns, scale, count)
    parts, logs, best = [], [], -math.inf
    for edge, share in zip(edges, _edge_weights(edges, scale), strict=True):
        if -edge / scale < best - _DROP:
            break  # no later cube has a greater sum over A than 1
        step = max(1, math.ceil(min(2 * edge, count) / _CUBE_POINTS))
        weights, totals = _in_steps(count, step)
        known = tuple(_windowed(values, alpha, edge, step, count) for values in columns)
        sums = np.sum([logsumexp(each.log_weights(totals), axis=0) for each in known], axis=0) + np.log(weights)
        total = float(logsumexp(sums))
        if math.isfinite(total):
            possible = np.isfinite(sums)
            parts.append(Shares(known, np.exp(sums - total)[possible], totals[possible]))
            logs.append(total + math.log(share))
            best = max(best, total - edge / scale)
    if not parts:
        raise ExtremeNumbers
    shares, places = normalise(np.array(logs))
    return MixedShares(shares, tuple(parts[place] for place in places))


def _edges(columns: Sequence[Array], scale: float, count: int) -> Array:
    """Return half edges of cubes: from the least that is possible, to where every weight has fallen away.

    Given d counts m has about its prior's width, sqrt(d) scale. No column's sum over A is above 1, nor, where it is not
    0, much below n^-k for k counts, which bounds how far the weights can rise against q^m.
    """
    size = sum(values.size for values in columns)
    alone = [np.abs(values - count * np.eye(values.size + 1, values.size, -1)).max(axis=1) for values in columns]
    # A column can be divided where no count is below 0, and all together are at most n.
    least = max(max(float(-values.min()), _excess(values, count), 0.0) for values in columns)
    first = math.ceil(least)
    bulk = first + scale * (size + _WIDTHS * math.sqrt(size))
    highest = first + scale * (size * math.log(count + 1) + 3 * len(columns))
    end = math.ceil(min(max(bulk, *(each.min() for each in alone)), max(bulk, highest)) + _DROP * scale)
    if end - first > _MOST_CUBES:
        raise ExtremeNumbers
    if end - first <= 4 * _CUBES:
        return np.arange(first, end + 1.0)
    jumps = np.ceil([each for column in alone for each in column if first <= each <= end])
    even = np.linspace(first, bulk, min(4 * _CUBES, math.ceil(4 * (math.sqrt(size) + _WIDTHS))))
    beyond = bulk + (end - bulk) * np.linspace(0, 1, _CUBES) ** 2
    edges = np.unique(np.rint(np.concatenate([jumps, jumps - 1, even, beyond])))
    return np.asarray(edges[edges >= first])


def _excess(values: Array, count: int) -> float:
    """Return the least m at which the counts z - m that are above 0 add up to at most n."""
    ordered = np.sort(values)[::-1]
    return float(max((np.cumsum(ordered) - count) / np.arange(1, values.size + 1)))


def _edge_weights(edges: Array, scale: float) -> Array:
    """Return the weight q^m of each cube and, by interpolation, of those between it and its neighbours."""
    m = np.arange(edges[0], edges[-1] + 1)
    weights = np.exp((edges[0] - m) / scale)
    left = np.searchsorted(edges, m, side="right") - 1
    right = np.minimum(left + 1, edges.size - 1)
    part = (m - edges[left]) / np.maximum(edges[right] - edges[left], 1.0)
    halves = np.bincount(left, weights * (1 - part), edges.size), np.bincount(right, weights * part, edges.size)
    return np.asarray(halves[0] + halves[1], float)


def _windowed(values: Array, alpha: float, edge: float, step: int, count: int) -> ColumnCounts:
    """Return what is known of a column's counts inside the cube; first what remains of n."""
    rest, reach = count - values.sum(), values.size * edge
    ends = [(float(z), edge) for z in values]
    pairs = [_leaf(z, alpha, Window(half), math.ceil(half), step) for z, half in [(float(rest), reach), *ends]]
    leaves, logs = zip(*pairs, strict=True)
    zeros = np.append(0.0, np.where(np.abs(values) <= edge, 0.0, -np.inf))
    return ColumnCounts(tuple(leaves), np.array(logs), zeros, alpha)


def _column(values: Array, alpha: float, noise: Noise, reach: int, step: int) -> ColumnCounts:
    leaves, logs = zip(*(_leaf(float(z), alpha, noise, reach, step) for z in values), strict=True)
    zeros = noise.log_weight(np.zeros_like(values), values, np.maximum(values, 0.0))
    return ColumnCounts(tuple(leaves), np.array(logs), zeros, alpha)


def _leaf(z: float, alpha: float, noise: Noise, reach: int, step: int) -> tuple[Measure, float]:
    """Return Gamma(s + a)/s! P(noise = z - s) on the counts that matter, scaled to a top of 1, and the top's log."""
    start, nearest = math.floor(max(0.0, z - reach) / step), max(z, 0.0)
    counts = step * np.arange(start, math.ceil((nearest + reach) / step) + 1, dtype=float)
    logs = noise.log_weight(counts, np.full_like(counts, z), np.full_like(counts, nearest))
    logs = logs + log_ratio(counts / step, alpha)
    return Measure(start, np.exp(logs - logs.max())), float(logs.max())


def conditions_of(domain: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the conditions that a value of a domain may have: levels are not clipped."""
    return CONDITIONS[:3] if "levels" in domain else CONDITIONS


@dataclass(frozen=True, eq=False)
class QualityReader(Reader):
    """The shares of missing, unmatched and clipped values of every column.

    Attributes
    ----------
    columns
        What was declared of each column when it was looked at, as a study file writes it.
    alpha
        The concentration of the prior.
    """

    columns: Mapping[str, Mapping[str, Any]]
    alpha: float

    parameter = "share"
    display: ClassVar[str] = "quality"

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """The column and the condition of each share."""
        return tuple((name, each) for name, domain in self.columns.items() for each in conditions_of(domain)[1:])

    @property
    def dimension(self) -> int:
        """How many shares there are."""
        return len(self.conditions)

    def widths_of(self, *, of_draws: bool) -> tuple[str, ...]:
        """Say that a forecast is of a share of one half: where every value fits most intervals have no width."""
        return ("interval of a share of one half",)

    def noise_aware(self, statistics: NoisyStatistics) -> Shares | MixedShares:
        """Return the shares, the noise and the number of records summed out."""
        noise = law_of(statistics)
        cube = isinstance(noise, Cube)
        sizes = [len(conditions_of(domain)) - cube for domain in self.columns.values()]
        if len(statistics.values) != sum(sizes):
            given = len(statistics.values)
            raise InvalidParameter("the number of noisy statistics", given, str(sum(sizes)), "the release's own")
        values = np.array([float(value) for value in statistics.values])
        if statistics.scale > _LARGEST or np.abs(values).max() > _LARGEST:
            raise InvalidParameter("a noisy count or its scale", "one beyond it", "at most 2^50", "the release's own")
        counts = np.split(values, np.cumsum(sizes)[:-1])
        if cube:
            if statistics.count is None:
                raise InvalidParameter("the number of records", None, "public beside noise on a cube", "the original")
            return cube_shares_of(counts, alpha=self.alpha, scale=statistics.scale, count=statistics.count)
        return shares_of(counts, alpha=self.alpha, noise=noise, count=statistics.count)

    def plug_in(self, statistics: NoisyStatistics) -> Shares:
        """Refuse: a noisy share without its noise says nothing of a file."""
        raise InvalidParameter("method", "plug-in", f"{NOISE_AWARE} for quality", f'method="{NOISE_AWARE}"')

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw how many of `size` further values would be so, at the same shares."""
        return rng.binomial(size, np.clip(theta, 0.0, 1.0)).astype(float)

    def findings(self, distributions: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Return what is wrong with columns, as far as it is sure."""
        shares: Shares | MixedShares = distributions["all"]
        candidates = (
            finding(column, self.columns[column], condition, shares.marginal(index))
            for index, (column, condition) in enumerate(self.conditions)
        )
        return tuple(each for each in candidates if each is not None)


_LARGEST = 2**50


def quality_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> QualityReader:
    """Read what a release says of the columns that were looked at."""
    if len(prior) != 1 or not (is_number(prior[0]) and prior[0] > 0):
        raise InvalidParameter("a quality prior", prior, "one finite number above 0", "for example prior=(1,)")
    return QualityReader(dict(family["columns"]), prior[0])
