"""What a release holds, as data for any model: noisy numbers by group, what they count, and the noise on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.releases import NoisyStatistics, Release

# Of which kind the numbers of a group are: successes (and failures, where their total is private); sums of counts of
# public or noisy numbers of records; counts of levels; sums of products of columns; anything else.
BINOMIAL, POISSON, MULTINOMIAL, GRAM, SUMS = "binomial", "poisson", "multinomial", "gram", "sums"


@dataclass(frozen=True, eq=False)
class NoisyData:
    """Noisy numbers of one release.

    Attributes
    ----------
    kind
        Of which kind they are.
    groups
        The names of the groups, one per row; of a table, those of its cells.
    levels
        The level of each group, by column; nothing where there are no groups.
    names
        What each number of a group is.
    values
        The noisy integers, by group and name.
    units
        What one unit of each stands for.
    noise, scale
        As in `NoisyStatistics`.
    count
        The number of records of each group, where it is public.
    described
        What else a model says of them.
    """

    kind: str
    groups: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    values: Array
    units: Array
    noise: str
    scale: float
    count: int | None
    described: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_one(self) -> bool:
        """Whether there are no groups."""
        return not self.levels


def statistics_of(release: Release) -> dict[str, NoisyStatistics]:
    """Return the noisy statistics of every group, or refuse a release of draws."""
    statistics = {group: each for group, each in release.contents.items() if isinstance(each, NoisyStatistics)}
    if len(statistics) < len(release.contents):
        allowed = "one of noisy statistics: of released draws no likelihood is known"
        raise InvalidParameter("a release", "one of draws", allowed, "a release by laplace or gaussian")
    return statistics


def noisy_data(release: Release, kind: str, **described: Any) -> NoisyData:
    """Return the numbers of a release whose groups are all alike."""
    statistics = statistics_of(release)
    first = next(iter(statistics.values()))
    for each in statistics.values():
        if (len(each.values), each.noise, each.scale, each.grid, each.count_grid, each.count) != (
            len(first.values), first.noise, first.scale, first.grid, first.count_grid, first.count,
        ):  # fmt: skip
            raise InvalidParameter(
                "a release", "groups that differ", "one of groups that are alike", "one group's name"
            )
    values = np.array([each.values for each in statistics.values()], dtype=float)
    return NoisyData(
        kind,
        tuple(statistics),
        {} if release.by is None else levels_of_groups(release.by.split(", "), tuple(statistics)),
        first.names,
        values,
        units_of(first),
        first.noise,
        first.scale,
        first.count,
        described,
    )


def units_of(statistics: NoisyStatistics) -> Array:
    """Return what one unit of each number stands for; a private count beside sums comes last."""
    units = np.full(len(statistics.values), statistics.grid)
    if statistics.count is None and statistics.names[-1:] == ("count",):
        units[-1] = statistics.count_grid
    return units


def levels_of_groups(columns: Sequence[str], groups: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the level of each group by column; with commas inside of levels the groups' names alone are known."""
    parts = [group.split(", ") for group in groups] if len(columns) > 1 else [[group] for group in groups]
    if any(len(each) != len(columns) for each in parts):
        return {", ".join(columns): groups}
    return {column: tuple(each[place] for each in parts) for place, column in enumerate(columns)}
