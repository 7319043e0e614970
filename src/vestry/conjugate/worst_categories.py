"""Worst-case neighbours of counts by category: for noisy counts, posterior draws and truncated draws."""

from __future__ import annotations

from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Dataset, Pair, count_records, say_records
from vestry.privacy.neighbours import Adjacency

# Other records, where very many of them are the worst case: far in the limit, and still exact in doubles.
CROWD = 10**6


def category_change(layout: Layout, adjacency: Adjacency) -> Pair:
    """Return the move by which one unit reaches the sensitivity of noisy counts."""
    k, size = adjacency.rows, len(layout.names)
    if size == 1:
        return Pair("a failure becomes a success" if k == 1 else f"{k} failures become successes", (0,), (k,))
    rest = (0,) * (size - 2)
    if adjacency.replaces:
        return Pair(f"{say_records(k, 'change')} category", (k, 0, *rest), (0, k, *rest))
    return Pair(f"{count_records(k)} added", (0, 0, *rest), (k, 0, *rest))


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


def split_categories(alphas: tuple[float, ...], adjacency: Adjacency, *, sums: int) -> tuple[Pair, ...]:
    """Return the boundary pair, and one whose other records are split evenly between the first two categories."""
    k, pairs = adjacency.rows, []
    if adjacency.replaces:
        pairs.append(worst_categories(alphas, adjacency, sums=sums))
    others = 0 if adjacency.count is None else adjacency.count - k
    split = (others // 2, others - others // 2, *(0,) * (len(alphas) - 2))
    first = (split[0], split[1] + k, *split[2:]) if adjacency.replaces else split
    second = (split[0] + k, *split[1:])
    if others or not adjacency.replaces:
        name = f"{say_records(k, 'differ')}, {others} others split evenly"
        pairs.append(Pair(name, _collected(first, sums), _collected(second, sums)))
    return tuple(pairs)


def _counts(alphas: tuple[float, ...], *parts: dict[int, int]) -> Dataset:
    return tuple(sum(part.get(i, 0) for part in parts) for i in range(len(alphas)))


def _collected(counts: Dataset, sums: int) -> Dataset:
    """Return what a mechanism is given for these counts."""
    return (*counts[:sums], sum(counts))
