"""The probabilities of all levels of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import vestry.families as families
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive import Layout
from vestry.models.model import by_words, groups_of, levels_of
from vestry.statistics.domain import Domain
from vestry.statistics.tally import Indicator, One, Tally


@dataclass(frozen=True)
class DirichletCategorical:
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

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, and `by`."""
        return (self.column,) if self.by is None else (self.by, self.column)

    def family(self, domains: Mapping[str, Domain]) -> families.DirichletCategorical:
        """Return the categorical family with the column's levels."""
        groups_of(domains, self.by)
        if self.by == self.column:
            raise InvalidParameter("by", self.by, "another column than the model's", "another column")
        return families.DirichletCategorical(len(levels_of(domains, self.column).names))

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the alphas."""
        if self.prior is None:
            return (1.0,) * len(levels_of(domains, self.column).names)
        return tuple(float(x) for x in self.prior)

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the counts of all levels; of two with a public count the first alone."""
        if len(layout.names) == 1:
            return Tally(self._keys, (Indicator(self.column, (levels_of(domains, self.column).names[0],)),))
        return Tally((*self._keys, self.column), (One(),))

    def drawn(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the counts of all levels, and the count."""
        names = levels_of(domains, self.column).names
        return Tally(self._keys, (*(Indicator(self.column, (name,)) for name in names), One()))

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the levels."""
        return levels_of(domains, self.column).names

    def question(self) -> str:
        """Say what is asked."""
        return f"The probability of each {self.column}{by_words(self.by)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration."""
        prior = None if self.prior is None else list(self.prior)
        return {"model": self.name, "column": self.column, "by": self.by, "prior": prior}

    @property
    def _keys(self) -> tuple[str, ...]:
        return () if self.by is None else (self.by,)
