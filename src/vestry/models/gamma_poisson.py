"""The rate of a column of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import vestry.families as families
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive import Layout
from vestry.models.model import by_words, groups_of, interval_of
from vestry.statistics.domain import Domain
from vestry.statistics.tally import One, Sum, Tally


@dataclass(frozen=True)
class GammaPoisson:
    """A Poisson likelihood with a gamma prior of its rate; counts are clipped to those declared.

    Attributes
    ----------
    column
        A column of counts: { count = 20 }, or an interval from 0 to a whole number.
    by
        A column of levels: one rate for each.
    prior
        The shape and the rate of the prior.
    """

    column: str
    by: str | None = None
    prior: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "gamma-poisson"

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, and `by`."""
        return (self.column,) if self.by is None else (self.by, self.column)

    def family(self, domains: Mapping[str, Domain]) -> families.GammaPoisson:
        """Return the Poisson family with the column's ends."""
        groups_of(domains, self.by)
        interval = interval_of(domains, self.column)
        if interval.low != 0 or interval.high != int(interval.high):
            given = [interval.low, interval.high]
            raise InvalidParameter(f"the column {self.column}", given, "counts from 0 to a whole number", "count = 20")
        return families.GammaPoisson(int(interval.high))

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the prior's shape and rate."""
        return tuple(float(x) for x in self.prior)

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the sum; and the count in fractions, where it is private."""
        terms = (self._sum(domains, layout), One(round(1 / layout.count_grid)))
        return Tally(self._keys, terms[: len(layout.names)])

    def drawn(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the sum and the count."""
        return Tally(self._keys, (self._sum(domains, layout), One()))

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return nothing: there is one rate."""
        return ()

    def question(self) -> str:
        """Say what is asked."""
        return f"The rate of {self.column}{by_words(self.by)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration."""
        return {"model": self.name, "column": self.column, "by": self.by, "prior": list(self.prior)}

    @property
    def _keys(self) -> tuple[str, ...]:
        return () if self.by is None else (self.by,)

    def _sum(self, domains: Mapping[str, Domain], layout: Layout) -> Sum:
        return Sum(self.column, 0.0, layout.grid)
