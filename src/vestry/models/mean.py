"""The mean of a bounded number, with a variance that is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter
from vestry.models.estimates import EstimateRow, Estimates
from vestry.models.groups import By, group_axes, group_names, in_words
from vestry.noise_inversion.mean_equation import IntervalEnds, MeanEquation, contrast
from vestry.noise_inversion.variance_equation import VarianceEstimate, variance_from_partition
from vestry.numerics import Array
from vestry.purchases.noisy import Noisy
from vestry.schema.table_schema import TableSchema
from vestry.statistics.axis import MomentAxis
from vestry.statistics.bounded_sums import BoundedSums
from vestry.statistics.coordinates import Moment, MomentTerm, Name
from vestry.statistics.statistic import Statistic


@dataclass(frozen=True)
class NoisyMoments:
    """Noisy sums of s^2, 2 s f and f^2 in records, and the variance of the noise of each."""

    square: float
    product: float
    remainder: float
    variance: float

    @property
    def equation(self) -> MeanEquation:
        """The estimating equation of the mean of f."""
        return MeanEquation.of_partition(self.square, self.product, self.remainder, self.variance)

    def spread(self, prob: float) -> VarianceEstimate:
        """Return the variance of f."""
        return variance_from_partition(self.square, self.product, self.remainder, self.variance, prob)


@dataclass(frozen=True)
class MeanPosterior:
    """What noisy moments say of means, by group.

    Attributes
    ----------
    column
        The column.
    lower, upper
        The ends of its declared interval.
    moments
        The noisy moments of each group; without groups, under the empty group.
    """

    column: str
    lower: float
    upper: float
    moments: Mapping[tuple[str, ...], NoisyMoments]

    def estimates(self, prob: float = 0.9) -> Estimates:
        """Return the mean of each group with an interval that takes account of sampling and of noise."""
        rows = []
        for group, moments in self.moments.items():
            equation = moments.equation
            ends = self._scaled(equation.interval(prob))
            mean = self.lower + self._width * equation.estimate(prob)
            sd = self._width * equation.sd
            rows.append(EstimateRow(group, f"mean of {self.column}", mean, sd, ends.lower, ends.upper))
        return Estimates(tuple(rows), prob)

    def variances(self, prob: float = 0.9) -> Mapping[tuple[str, ...], VarianceEstimate]:
        """Return the variance of the values of each group; its fourth moment is bounded, not measured."""
        variances = {}
        for group, moments in self.moments.items():
            spread = moments.spread(prob)
            squared = self._width**2
            ends = IntervalEnds(squared * spread.interval.lower, squared * spread.interval.upper)
            variances[group] = VarianceEstimate(squared * spread.value, ends)
        return variances

    def contrast(self, first: tuple[str, ...], second: tuple[str, ...], prob: float = 0.9) -> IntervalEnds:
        """Return the interval for the difference of two groups' means."""
        difference = contrast(self.moments[first].equation, self.moments[second].equation, prob)
        return IntervalEnds(self._width * difference.lower, self._width * difference.upper)

    def sample(self, draws: int, rng: np.random.Generator) -> Mapping[tuple[str, ...], Array]:
        """Return draws of each group's mean, whose central intervals are the intervals."""
        drawn = {}
        for group, moments in self.moments.items():
            drawn[group] = self.lower + self._width * moments.equation.sample(draws, rng)
        return drawn

    @property
    def _width(self) -> float:
        return self.upper - self.lower

    def _scaled(self, ends: IntervalEnds) -> IntervalEnds:
        return IntervalEnds(self.lower + self._width * ends.lower, self.lower + self._width * ends.upper)


@dataclass(frozen=True)
class Mean:
    """The mean of a number between declared ends; needs neither a prior nor a declared variance.

    Attributes
    ----------
    column
        A column with an interval.
    by
        The columns whose levels are the groups.
    """

    column: str
    by: By = ()

    def statistics(self, schema: TableSchema) -> tuple[Statistic, ...]:
        """Return the partition of each record's mass by its value."""
        return (BoundedSums(MomentAxis.of_column(schema, self.column), group_axes(schema, self.by)),)

    def read(self, noisy: Noisy, schema: TableSchema) -> MeanPosterior:
        """Return what the moments say of each group's mean."""
        interval = schema.interval(self.column)
        moments = {}
        for group, coordinates in group_names(schema, self.by).items():
            moments[group] = self._moments(noisy, coordinates)
        return MeanPosterior(self.column, interval.low, interval.high, moments)

    def question(self) -> str:
        """Return the question in words."""
        return f"the mean of {self.column}{in_words(self.by)}"

    def _moments(self, noisy: Noisy, group: Name) -> NoisyMoments:
        terms: tuple[MomentTerm, ...] = ("square", "product", "remainder")
        numbers = [noisy.total_of([group | {Moment(self.column, term)}]) for term in terms]
        variances = {number.law.variance for number in numbers}
        if len(variances) > 1:
            raise InvalidParameter("noise", "of several sizes", "the same for all three sums", "sums of whole groups")
        square, product, remainder = (number.value / noisy.grid for number in numbers)
        return NoisyMoments(square, product, remainder, variances.pop() / noisy.grid**2)
