"""The mean of one column, or of several, whose spread is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vestry.conjugate.conjugate_model import Conjugate
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Layout
from vestry.model.columns import groups_of, interval_of, listing
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum


@dataclass(frozen=True)
class NormalMean(Conjugate):
    """A normal likelihood of known variance with a normal prior of its mean; values are clipped to their interval.

    Attributes
    ----------
    column
        A column with an interval, or several with the same one: then a mean for each.
    variance
        The variance of one record, as declared.
    prior
        The mean and the variance of the prior.
    by
        A column of levels: one mean for each.
    """

    column: str | tuple[str, ...]
    variance: float
    prior: tuple[float, ...]
    by: str | None = None

    name: ClassVar[str] = "normal-mean"

    @property
    def own(self) -> tuple[str, ...]:
        """The column, or the columns."""
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    def family(self, domains: Mapping[str, Domain]) -> NormalMeanFamily:
        """Return the normal family with the columns' interval."""
        interval = interval_of(domains, self.own[0])
        groups_of(domains, self.by)
        for column in self.own[1:]:
            other = interval_of(domains, column)
            if (other.low, other.high) != (interval.low, interval.high):
                raise InvalidParameter(
                    "the intervals of several columns",
                    f"{[other.low, other.high]} of {column}",
                    f"the same, {[interval.low, interval.high]}",
                    "one interval, or a release for each column",
                )
        return NormalMeanFamily(self.variance, interval.low, interval.high, len(self.own))

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the columns, if there are several."""
        return self.own if len(self.own) > 1 else ()

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add each column's value, from the middle of the interval."""
        interval = interval_of(domains, self.own[0])
        return tuple(Sum(column, (interval.low + interval.high) / 2, layout.grid) for column in self.own)

    def question(self) -> str:
        """Say what is asked."""
        return f"The mean of {listing(self.own, ' and ')}{self.by_words()}"
