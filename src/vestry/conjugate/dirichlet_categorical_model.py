"""The probabilities of all levels of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vestry.conjugate.conjugate_model import Conjugate
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Layout
from vestry.model.columns import groups_of, levels_of
from vestry.schema.domain import Domain
from vestry.schema.statistics import Count, Indicator, SumQuery


@dataclass(frozen=True)
class DirichletCategorical(Conjugate):
    """A categorical likelihood with a Dirichlet prior.

    Attributes
    ----------
    column
        A column of levels.
    by
        A column of levels: one set of probabilities for each.
    prior
        One alpha for each level (the one of missing values last, if it is a level); all 1 if left out.
    """

    column: str
    by: str | None = None
    prior: tuple[float, ...] | None = None

    name: ClassVar[str] = "dirichlet-categorical"

    def family(self, domains: Mapping[str, Domain]) -> DirichletCategoricalFamily:
        """Return the categorical family with the column's levels."""
        groups_of(domains, self.by)
        if self.by == self.column:
            raise InvalidParameter("by", self.by, "another column than the model's", "another column")
        return DirichletCategoricalFamily(len(levels_of(domains, self.column).names))

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the alphas."""
        if self.prior is None:
            return (1.0,) * len(levels_of(domains, self.column).names)
        return super().numbers(domains)

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> SumQuery:
        """Collect the counts of all levels; of two with a public count the first alone."""
        if len(layout.names) == 1:
            return SumQuery(self.keys, self.terms(domains, layout)[:1])
        return SumQuery((*self.keys, self.column), (Count(),))

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Indicator, ...]:
        """Add 1 to the record's level."""
        return tuple(Indicator(self.column, (name,)) for name in levels_of(domains, self.column).names)

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the levels."""
        return levels_of(domains, self.column).names

    def question(self) -> str:
        """Say what is asked."""
        return f"The probability of each {self.column}{self.by_words()}"
