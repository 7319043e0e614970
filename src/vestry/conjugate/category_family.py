"""Families of counts by category: what Bernoulli and categorical records share, and their worst-case neighbours."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from vestry.conjugate.family import ConjugateFamily
from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Dataset, Pair, count_records, say_records
from vestry.posterior.discrete_noise import deviation
from vestry.privacy.neighbours import Adjacency
from vestry.releases import NoisyStatistics


class CategoryFamily(ConjugateFamily):
    """Probabilities of categories, with a prior of concentrations."""

    parameter: ClassVar[str] = "probability"

    def highest_order(self, prior: Any, weight: float, adjacency: Adjacency) -> float:
        """Return lambda* = 1 + min(concentrations)/(m r k) [GeumlekSC17, Cor. 1, there with m = r = k = 1]."""
        return float(1 + min(prior.concentrations) / (weight * adjacency.rows))

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return sd/n for s/n with n public; with every count noisy sd/n sqrt((1-p)^2 + (d-1) p^2), d counts."""
        public, sd = content.count is not None, deviation(content.noise, content.scale)
        n = float(content.count) if content.count is not None else float(sum(content.values))
        if n <= 0:
            return None
        others = 0 if public else len(content.values) - 1
        p = min(max(content.values[index] / n, 0.0), 1.0) if others else 0.0
        return sd / n * math.sqrt((1 - p) ** 2 + others * p**2)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return the move by which one unit reaches the sensitivity of noisy counts."""
        k, size = adjacency.rows, len(layout.names)
        if size == 1:
            return Pair("a failure becomes a success" if k == 1 else f"{k} failures become successes", (0,), (k,))
        rest = (0,) * (size - 2)
        if adjacency.replaces:
            return Pair(f"{say_records(k, 'change')} category", (k, 0, *rest), (0, k, *rest))
        return Pair(f"{count_records(k)} added", (0, 0, *rest), (k, 0, *rest))

    def draw_pair(self, prior: Any, adjacency: Adjacency) -> Pair:
        """Return counts at which the two smallest concentrations stand alone."""
        return worst_categories(prior.concentrations, adjacency, sums=len(self.bounds()[0]))

    def truncated_pairs(self, prior: Any, adjacency: Adjacency) -> tuple[Pair, ...]:
        """Return the boundary pair, and one whose other records are split evenly between the first two categories."""
        alphas, sums, k = prior.concentrations, len(self.bounds()[0]), adjacency.rows
        pairs = [worst_categories(alphas, adjacency, sums=sums)] if adjacency.replaces else []
        others = 0 if adjacency.count is None else adjacency.count - k
        split = (others // 2, others - others // 2, *(0,) * (len(alphas) - 2))
        first = (split[0], split[1] + k, *split[2:]) if adjacency.replaces else split
        second = (split[0] + k, *split[1:])
        if others or not adjacency.replaces:
            name = f"{say_records(k, 'differ')}, {others} others split evenly"
            pairs.append(Pair(name, _collected(first, sums), _collected(second, sums)))
        return tuple(pairs)


# Other records, where very many of them are the worst case: far in the limit, and still exact in doubles.
CROWD = 10**6


def worst_categories(alphas: tuple[float, ...], adjacency: Adjacency, *, sums: int) -> Pair:
    """Return counts at which the two smallest alphas stand alone, everyone else elsewhere.

    Two categories under replace have no elsewhere: the others then sit in the one with the larger alpha. `sums` is how
    many of the counts are collected, before the number of records.
    """
    k, order = adjacency.rows, sorted(range(len(alphas)), key=lambda i: alphas[i])
    low, next_low, away = order[0], order[1], order[-1]
    if adjacency.replaces:
        others = 0 if adjacency.count is None else adjacency.count - k
        before, after = _counts(alphas, {away: others}, {next_low: k}), _counts(alphas, {away: others}, {low: k})
        name = f"{say_records(k, 'change')} category, {others} others elsewhere"
    else:
        before, after = _counts(alphas, {away: CROWD}, {}), _counts(alphas, {away: CROWD}, {low: k})
        name = f"{count_records(k)} added, {CROWD} others elsewhere"
    return Pair(name, _collected(before, sums), _collected(after, sums))


def _counts(alphas: tuple[float, ...], *parts: dict[int, int]) -> Dataset:
    return tuple(sum(part.get(i, 0) for part in parts) for i in range(len(alphas)))


def _collected(counts: Dataset, sums: int) -> Dataset:
    """Return what a mechanism is given for these counts."""
    return (*counts[:sums], sum(counts))
