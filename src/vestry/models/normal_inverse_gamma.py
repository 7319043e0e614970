"""The mean and the variance of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import vestry.families as families
from vestry.mechanisms.additive import Layout
from vestry.models.model import by_words, groups_of, interval_of
from vestry.statistics.domain import Domain
from vestry.statistics.tally import One, Product, Sum, Tally


@dataclass(frozen=True)
class NormalInverseGamma:
    """A normal likelihood, mean and variance unknown; values are clipped to their interval.

    Attributes
    ----------
    column
        A column with an interval.
    prior
        The mean, its weight in records, and the shape and scale of the variance's inverse gamma law.
    by
        A column of levels: one mean and one variance for each.
    """

    column: str
    prior: tuple[float, float, float, float]
    by: str | None = None

    name: ClassVar[str] = "normal-inverse-gamma"

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, and `by`."""
        return (self.column,) if self.by is None else (self.by, self.column)

    def family(self, domains: Mapping[str, Domain]) -> families.NormalInverseGamma:
        """Return the family with the column's interval."""
        groups_of(domains, self.by)
        interval = interval_of(domains, self.column)
        return families.NormalInverseGamma(interval.low, interval.high)

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the prior's numbers."""
        return tuple(float(x) for x in self.prior)

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the sums of values and of squares, from the middle of the interval; and the count, if private."""
        interval = interval_of(domains, self.column)
        middle, reach = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        pair = (self.column, self.column), (middle, middle)
        terms = (Sum(self.column, middle, layout.grid), Product(*pair, reach * layout.grid))
        count = (One(round(1 / layout.count_grid)),) if len(layout.names) > len(terms) else ()
        return Tally(() if self.by is None else (self.by,), (*terms, *count))

    def drawn(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the same; draws are refused before anything is collected."""
        return self.noisy(domains, layout)

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return mean and variance."""
        return ("mean", "variance")

    def question(self) -> str:
        """Say what is asked."""
        return f"The mean and the variance of {self.column}{by_words(self.by)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration."""
        return {"model": self.name, "column": self.column, "by": self.by, "prior": list(self.prior)}
