"""The shares of all levels of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter
from vestry.models.cell_shares import CategoryShares, category_shares
from vestry.models.estimates import EstimateRow, Estimates
from vestry.models.groups import By, group_axes, group_columns, group_names, in_words, level_coordinates
from vestry.models.proportion import Proportion
from vestry.numerics import Array
from vestry.posterior.mixture import two_sided
from vestry.purchases.noisy import Noisy
from vestry.schema.table_schema import TableSchema
from vestry.statistics.axis import LevelAxis
from vestry.statistics.cell_counts import CellCounts, total_is_public
from vestry.statistics.statistic import Statistic


@dataclass(frozen=True)
class CategoriesPosterior:
    """The posterior of the shares of all levels, by group.

    Attributes
    ----------
    column
        The column.
    levels
        The names of its levels.
    shares
        Their joint distribution in each group; without groups, under the empty group.
    """

    column: str
    levels: tuple[str, ...]
    shares: Mapping[tuple[str, ...], CategoryShares]

    def estimates(self, prob: float = 0.9) -> Estimates:
        """Return mean, standard deviation and central credible interval of each share in each group."""
        rows = []
        for group, shares in self.shares.items():
            for index, level in enumerate(self.levels):
                share = shares.marginal(index)
                lower, upper = share.interval(prob)
                quantity = f"P({self.column} = {level})"
                rows.append(EstimateRow(group, quantity, share.mean(), math.sqrt(share.variance()), lower, upper))
        return Estimates(tuple(rows), prob)

    def sample(self, draws: int, rng: np.random.Generator) -> Mapping[tuple[str, ...], Array]:
        """Return independent draws of each group's shares, one column per level."""
        return {group: shares.draw(rng, draws) for group, shares in self.shares.items()}


@dataclass(frozen=True)
class Categories:
    """The shares of all levels of a column, with a Dirichlet prior.

    Attributes
    ----------
    column
        A column of levels.
    by
        The columns whose levels are the groups.
    prior
        The numbers of the Dirichlet prior, in the order of the declared levels; 1 each if omitted.
    """

    column: str
    by: By = ()
    prior: tuple[float, ...] | None = None

    def statistics(self, schema: TableSchema) -> tuple[Statistic, ...]:
        """Return the counts of all levels; of two levels with a public total those of one suffice."""
        axis = LevelAxis.of_levels(schema, self.column)
        every_level = CellCounts.of(axis, *group_axes(schema, self.by))
        if self._is_one_number(schema):
            return (CellCounts.of(axis, total="public"), every_level)
        return (every_level,)

    def read(self, noisy: Noisy, schema: TableSchema) -> CategoriesPosterior:
        """Return the posterior of each group's shares."""
        levels = level_coordinates(schema, self.column)
        names = tuple(levels)
        prior = self.prior or (1.0,) * len(names)
        if len(prior) != len(names):
            instead = "[" + ", ".join(["1"] * len(names)) + "]"
            raise InvalidParameter("prior", list(prior), f"one number for each of {len(names)} levels", instead)
        if len(noisy.names) == 1:
            proportion = Proportion(self.column, names[0], prior=(prior[0], prior[1]))
            share = proportion.read(noisy, schema).shares[()]
            return CategoriesPosterior(self.column, names, {(): two_sided(share)})
        total = None if self.by else noisy.total
        shares = {}
        for group, coordinates in group_names(schema, self.by).items():
            counts = [noisy.total_of([coordinates | {level}]) for level in levels.values()]
            shares[group] = category_shares(counts, total, prior)
        return CategoriesPosterior(self.column, names, shares)

    def question(self) -> str:
        """Return the question in words."""
        return f"the shares of the levels of {self.column}{in_words(self.by)}"

    def _is_one_number(self, schema: TableSchema) -> bool:
        axis = LevelAxis.of_levels(schema, self.column)
        is_pair = len(axis.coordinates) == 2
        return is_pair and total_is_public(schema, axis) and not group_columns(self.by)
