"""The share of one level among the declared values of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestry.models.cell_shares import category_shares, success_share
from vestry.models.estimates import EstimateRow, Estimates
from vestry.models.groups import By, declared_coordinates, group_axes, group_columns, group_names, in_words, level_text
from vestry.numerics import Array
from vestry.posterior.mixture import BetaMixture
from vestry.purchases.noisy import Noisy
from vestry.schema.table_schema import TableSchema
from vestry.statistics.axis import LevelAxis
from vestry.statistics.cell_counts import CellCounts, total_is_public
from vestry.statistics.coordinates import LevelBlock, Name
from vestry.statistics.statistic import Statistic


@dataclass(frozen=True)
class ProportionPosterior:
    """The posterior of a share, by group.

    Attributes
    ----------
    quantity
        The share in words.
    shares
        Its distribution in each group; without groups, under the empty group.
    """

    quantity: str
    shares: Mapping[tuple[str, ...], BetaMixture]

    def estimates(self, prob: float = 0.9) -> Estimates:
        """Return mean, standard deviation and central credible interval of each group."""
        rows = []
        for group, share in self.shares.items():
            lower, upper = share.interval(prob)
            sd = math.sqrt(share.variance())
            rows.append(EstimateRow(group, self.quantity, share.mean(), sd, lower, upper))
        return Estimates(tuple(rows), prob)

    def sample(self, draws: int, rng: np.random.Generator) -> Mapping[tuple[str, ...], Array]:
        """Return independent draws of each group's share."""
        return {group: share.draw(rng, draws)[:, 0] for group, share in self.shares.items()}


@dataclass(frozen=True)
class Proportion:
    """The share of a level, with a Beta prior.

    Attributes
    ----------
    column
        A column of levels.
    success
        The level whose share is asked for.
    by
        The columns whose levels are the groups.
    prior
        The two numbers of the Beta prior.
    """

    column: str
    success: str
    by: By = ()
    prior: tuple[float, float] = (1.0, 1.0)

    def statistics(self, schema: TableSchema) -> tuple[Statistic, ...]:
        """Return the counts of the level and of all others; of the level alone where the total is public."""
        axis = self._axis(schema)
        if total_is_public(schema, axis) and not group_columns(self.by):
            return (CellCounts.of(axis, total="public"), CellCounts.of(axis))
        return (CellCounts.of(axis, *group_axes(schema, self.by)),)

    def read(self, noisy: Noisy, schema: TableSchema) -> ProportionPosterior:
        """Return the posterior of each group's share."""
        axis = self._axis(schema)
        text = level_text(schema, self.column, self.success)
        success = LevelBlock(self.column, frozenset([text]))
        failures = [coordinate for coordinate in declared_coordinates(axis) if coordinate != success]
        shares = {}
        for group, coordinates in group_names(schema, self.by).items():
            successes = coordinates | {success}
            others: list[Name] = [coordinates | {failure} for failure in failures]
            shares[group] = self._share(noisy, successes, others)
        return ProportionPosterior(f"P({self.column} = {self.success})", shares)

    def question(self) -> str:
        """Return the question in words."""
        return f"how often {self.column} is {self.success}{in_words(self.by)}"

    def _axis(self, schema: TableSchema) -> LevelAxis:
        text = level_text(schema, self.column, self.success)
        return LevelAxis.of_success(schema, self.column, text)

    def _share(self, noisy: Noisy, success: Name, failures: list[Name]) -> BetaMixture:
        total = None if self.by else noisy.total
        if len(noisy.names) == 1 and total is not None:
            released = next(iter(noisy.names))
            number = noisy.total_of([released])
            successes = number.value if released == success else total - number.value
            return success_share(successes, number.law, total, self.prior)
        counts = [noisy.total_of([success]), noisy.total_of(failures)]
        return category_shares(counts, total, self.prior).marginal(0)
