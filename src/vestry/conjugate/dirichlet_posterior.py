"""The noise-aware Dirichlet-categorical posterior: the counts that the noise hides are summed out.

With noisy counts z_i of all d categories,

    p(s | z) ~ p(n) n!/Gamma(n + A) * product over i of f_i(s_i),   f_i(s) = Gamma(s + a_i)/s! * P(noise = z_i - s),

where A is the sum of the prior's a_i. The categories meet in their total n alone. So with n public the counts are
independent ones conditioned on their sum, and a tree of convolutions gives the exact distribution of each count, and
exact joint draws, for any number of categories. With n private a one-dimensional integral makes them independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vestry.numerics import Array
from vestry.posterior.counts_given_total import Measure, Node, others, split, tree
from vestry.posterior.discrete_noise import DROP, Noise, log_ratio, thin, window
from vestry.posterior.mixture import BetaMixture, DirichletMixture, draw_dirichlet, normalise

# Counts of all categories that are held at once; beyond it they are taken in steps.
_TABLE = 2_000_000
# Of counts in steps, so many steps at the low end are summed count by count.
_REFINED = 32
_SEARCH = 200
# Joint counts that stand for the posterior where the total is private: at least, at most, and numbers held.
_FEWEST, _MOST, _NUMBERS = 512, 32_768, 100_000
# Nodes of the integral over tilts are omitted where their weight is below e^-_NODE_DROP of the greatest.
_NODE_DROP = 18.0


@dataclass(frozen=True, eq=False)
class Tilted:
    """The distributions f_i(s) e^(tilt s) of all categories, each over its own window.

    Attributes
    ----------
    low, high
        The ends of each window.
    step
        1, or the step in which counts are taken where there are too many.
    logs
        Log weights, one row per category; minus infinity beyond its window.
    """

    low: Array
    high: Array
    step: float
    logs: Array

    @property
    def counts(self) -> Array:
        """The counts that the columns stand for."""
        return self.low[:, None] + self.step * np.arange(self.logs.shape[1])

    @cached_property
    def log_totals(self) -> Array:
        """The logarithm of each row's sum."""
        top = self.logs.max(axis=1)
        return np.asarray(top + np.log(np.exp(self.logs - top[:, None]).sum(axis=1)))

    @cached_property
    def shares(self) -> Array:
        """Each row as probabilities."""
        return np.asarray(np.exp(self.logs - self.log_totals[:, None]))

    def moments(self) -> tuple[float, float]:
        """Return the mean and the variance of the total."""
        counts = self.counts
        means = (self.shares * counts).sum(axis=1)
        return float(means.sum()), float((self.shares * (counts - means[:, None]) ** 2).sum())


@dataclass(frozen=True, eq=False)
class HiddenCategories:
    """The prior and the noisy counts of all categories.

    Attributes
    ----------
    alphas
        The prior's parameters.
    noisy
        The noisy counts.
    noise
        Their noise.
    highest
        No count is larger; infinite where the number of records is private.
    """

    alphas: Array
    noisy: Array
    noise: Noise
    highest: float

    @property
    def nearest(self) -> Array:
        """The allowed counts nearest to the noisy ones."""
        return np.clip(self.noisy, 0.0, self.highest)

    def only(self, index: int) -> HiddenCategories:
        """Return one category alone."""
        return HiddenCategories(self.alphas[[index]], self.noisy[[index]], self.noise, self.highest)

    def log_factor(self, counts: Array) -> Array:
        """Return log f_i(s), up to a constant; one row per category."""
        return self.noise.log_weight(counts, self.noisy[:, None], self.nearest[:, None]) + log_ratio(
            counts, self.alphas[:, None]
        )

    def tilted(self, tilt: float) -> Tilted:
        """Tabulate f_i(s) e^(tilt s), each where it is not negligible."""
        low, high = self._windows(tilt)
        width = float((high - low).max()) + 1
        step = np.ceil(width * self.alphas.size / _TABLE)
        table = self._logs(low, high, step * np.arange(np.ceil(width / step)), tilt)
        if step > 1:
            table += np.log(step)
            self._refine(table, low, high, float(step), tilt)
        return Tilted(low, high, float(step), table)

    def _logs(self, low: Array, high: Array, above: Array, tilt: float) -> Array:
        """Return log f_i(s) + tilt (s - low_i) at s = low_i + above; minus infinity beyond the window."""
        counts = low[:, None] + above
        inside = counts <= high[:, None]
        logs = self.log_factor(np.where(inside, counts, low[:, None])) + tilt * above
        return np.where(inside, logs, -np.inf)

    def _refine(self, table: Array, low: Array, high: Array, step: float, tilt: float) -> None:
        """Share every count of the first steps between the two places beside it: near 0 a distribution may be steep."""
        places = np.arange(min(_REFINED, table.shape[1]))
        above = np.arange(places.size * step)
        share = np.maximum(0.0, 1 - np.abs(above[:, None] / step - places))
        logs = self._logs(low, high, above, tilt)
        top = logs.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            table[:, : places.size] = np.log(np.exp(logs - top) @ share) + top

    def _windows(self, tilt: float) -> tuple[Array, Array]:
        rising, falling = np.maximum(self.alphas, 1.0), np.minimum(self.alphas, 1.0)
        nearest = self.nearest

        def hill(s: Array) -> Array:
            return self.noise.log_weight(s, self.noisy, nearest) + log_ratio(s, rising) + tilt * (s - nearest)

        far = np.minimum(self.highest, nearest + self.noise.reach(1e4))
        spread = log_ratio(np.zeros_like(falling), falling) - log_ratio(far, falling)
        return window(hill, np.zeros_like(nearest), np.full_like(nearest, self.highest), drop=DROP + spread)


@dataclass(frozen=True, eq=False)
class ConditionedDirichlet:
    """The posterior where the number of records is public: independent counts given their sum, summed out.

    Attributes
    ----------
    categories
        Prior and noisy counts.
    count
        The number of records.
    tilt
        A tilt changes nothing given the sum; this one makes the sum's mean the count, so that nothing is rare.
    tables
        The tilted distributions.
    """

    categories: HiddenCategories
    count: int
    tilt: float
    tables: Tilted

    @property
    def dimension(self) -> int:
        """The number of categories."""
        return self.categories.alphas.size

    @cached_property
    def _tree(self) -> Node:
        rows = zip(self.tables.low, self.tables.high, self.tables.shares, strict=True)
        sizes = [(row, int((high - low) // self.tables.step) + 1) for low, high, row in rows]
        return tree([Measure(0, row[:size]) for row, size in sizes])

    @property
    def _target(self) -> float:
        """The total, in steps above the sum of the lowest counts."""
        return float((self.count - self.tables.low.sum()) / self.tables.step)

    @cached_property
    def _others(self) -> list[Measure]:
        below = int(np.floor(self._target))
        return others(self._tree, Measure(below, np.array([1 - (self._target - below), self._target - below])))

    def marginal(self, index: int) -> BetaMixture:
        """Return the distribution of one probability: Beta(a_i + s, A - a_i + n - s), s summed out exactly."""
        alpha, total = float(self.categories.alphas[index]), float(self.categories.alphas.sum())
        low, high = self.tables.low[index], self.tables.high[index]
        counts = np.arange(low, high + 1)
        rest = self._others[index]
        places = (counts - low) / self.tables.step
        weight = np.interp(places, rest.start + np.arange(rest.table.size), rest.table, left=0.0, right=0.0)
        with np.errstate(divide="ignore"):
            logs = (
                self.categories.only(index).log_factor(counts[None, :])[0] + self.tilt * (counts - low) + np.log(weight)
            )
        places_inside = np.flatnonzero(logs > logs.max() - DROP)
        counts, logs = counts[places_inside], logs[places_inside]
        remaining = total - alpha + (self.count - counts)
        counts, logs = thin(counts, logs, np.sqrt((alpha + counts) * remaining / (total + self.count)))
        weights, chosen_places = normalise(logs)
        counts = counts[chosen_places]
        return BetaMixture(weights, alpha + counts, total - alpha + (self.count - counts))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw the counts given their sum, and the probabilities given the counts; one draw per row."""
        below = np.floor(self._target)
        totals = (below + (rng.random(size) < self._target - below)).astype(np.int64)
        counts = self.tables.low + self.tables.step * split(self._tree, totals, rng)
        return draw_dirichlet(rng, self.categories.alphas + counts)


def public_count(noisy: Array, *, count: int, alphas: Array, noise: Noise) -> ConditionedDirichlet:
    """Return the posterior from noisy counts of all categories, their sum public.

    Exact; where the windows of all categories together hold more than two million counts (scale x categories above
    about 25,000) the counts of the *other* categories are taken in steps h, and their spread is wrong by a part
    (h/scale)^2/12.
    """
    categories = HiddenCategories(alphas, noisy, noise, float(count))
    tilt, low, high, stride = 0.0, -np.inf, np.inf, 1 / noise.scale
    for _ in range(_SEARCH):
        tables = categories.tilted(tilt)
        mean, variance = tables.moments()
        gap = count - mean
        if abs(gap) <= 0.25 * np.sqrt(variance) + 1e-9:
            break
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        newton = tilt + gap / variance if variance > 0 else np.inf
        if low < newton < high and abs(newton - tilt) <= stride:
            tilt = newton
        elif np.isinf(low) or np.isinf(high):
            tilt, stride = tilt + np.copysign(stride, gap), 2 * stride
        else:
            tilt = (low + high) / 2
    return ConditionedDirichlet(categories, count, tilt, tables)


def private_count(noisy: Array, *, alphas: Array, noise: Noise) -> DirichletMixture:
    """Return the posterior from noisy counts of all categories, their sum unknown.

    The prior of the number of records n is the improper uniform one on n >= 0. With

        n!/Gamma(n + A) = (n + A)/Gamma(A) * integral over u in (0, 1) of u^n (1 - u)^(A - 1)

    the counts are independent given u, with distributions f_i(s) u^s, up to the weight n + A. The integral is a
    trapezoid sum over log(-log u); at each node the counts are drawn, each category stratified (Latin hypercube), and
    their Dirichlet distributions stand for the posterior. Probabilities are then right to about 0.002. The generator of
    these draws is seeded by the noisy counts themselves, so the posterior is a function of the release.
    """
    categories = HiddenCategories(alphas, noisy, noise, np.inf)
    total = float(alphas.sum())
    depths, node_weights = _tilt_nodes(categories, total)
    wanted = int(np.clip(_NUMBERS / alphas.size, _FEWEST, _MOST))
    rng = np.random.default_rng([int(z) & 0xFFFFFFFF for z in noisy])
    parts, weights = [], []
    for depth, share in zip(depths, node_weights, strict=True):
        size = int(np.ceil(wanted * share))
        counts = _stratified(categories.tilted(-np.exp(depth)), size, rng)
        parts.append(counts)
        weights.append(share / size * (counts.sum(axis=1) + total))
    joined = np.concatenate(weights)
    return DirichletMixture(joined / joined.sum(), alphas + np.concatenate(parts))


def _tilt_nodes(categories: HiddenCategories, total: float) -> tuple[Array, Array]:
    """Return nodes t = log(-log u) and the weights of the integral over u, as a trapezoid sum one deviation apart."""

    def log_weight(t: float) -> tuple[float, float]:
        """Return the log of the integrand in t, and its slope."""
        tilt = -np.exp(t)
        tables = categories.tilted(tilt)
        mean, _ = tables.moments()
        level = t + tilt + (total - 1) * np.log(-np.expm1(tilt)) + (tables.log_totals + tilt * tables.low).sum()
        return float(level), float(1 + tilt * (1 + mean - (total - 1) / np.expm1(-tilt)))

    centre = _root(lambda t: log_weight(t)[1], float(np.log(total / (categories.nearest.sum() + total))))
    bend = (log_weight(centre - 0.1)[1] - log_weight(centre + 0.1)[1]) / 0.2
    gap = float(np.clip(1 / np.sqrt(max(bend, 1e-12)), 1e-3, 0.5))
    levels = {0: log_weight(centre)[0]}
    for direction in (-1, 1):
        place = 0
        while levels[place] > max(levels.values()) - _NODE_DROP:
            place += direction
            levels[place] = log_weight(centre + gap * place)[0]
    places, logs = np.array(list(levels)), np.array(list(levels.values()))
    weights, chosen = normalise(np.where(logs > logs.max() - _NODE_DROP, logs, -np.inf))
    return centre + gap * places[chosen], weights


def _root(slope: Callable[[float], float], start: float) -> float:
    """Return about where a falling function is 0."""
    low = high = start
    at_low = at_high = slope(start)
    while at_low <= 0:
        low, at_low = low - 0.5, slope(low - 0.5)
    while at_high > 0:
        high, at_high = high + 0.5, slope(high + 0.5)
    while high - low > 0.02:
        middle = low + (high - low) * float(np.clip(at_low / (at_low - at_high), 0.1, 0.9))
        value = slope(middle)
        low, at_low, high, at_high = (middle, value, high, at_high) if value > 0 else (low, at_low, middle, value)
        if abs(value) < 0.05:
            return middle
    return (low + high) / 2


def _stratified(tables: Tilted, size: int, rng: np.random.Generator) -> Array:
    """Draw the counts of all categories independently, each once from each of `size` equal shares."""
    rows = np.arange(len(tables.low))[:, None]
    strata = rng.permuted(np.tile(np.arange(size), (rows.size, 1)), axis=1)
    marks = (strata + rng.random(strata.shape)) / size
    ladders = np.minimum(np.cumsum(tables.shares, axis=1), 1.0)
    ladders[:, -1] = 1.0
    place = np.searchsorted((ladders + rows).ravel(), (marks + rows).ravel()).reshape(marks.shape)
    place = np.clip(place - rows * ladders.shape[1], 0, ladders.shape[1] - 1)
    return np.asarray((tables.low[:, None] + tables.step * place).T)
