"""The rate of a column of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vestry.conjugate.conjugate_model import Conjugate
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Layout
from vestry.model.columns import groups_of, interval_of
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum


@dataclass(frozen=True)
class GammaPoisson(Conjugate):
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

    def family(self, domains: Mapping[str, Domain]) -> GammaPoissonFamily:
        """Return the Poisson family with the column's ends."""
        groups_of(domains, self.by)
        interval = interval_of(domains, self.column)
        if interval.low != 0 or interval.high != int(interval.high):
            given = [interval.low, interval.high]
            raise InvalidParameter(f"the column {self.column}", given, "counts from 0 to a whole number", "count = 20")
        return GammaPoissonFamily(int(interval.high))

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add the count."""
        return (Sum(self.column, 0.0, layout.grid),)

    def question(self) -> str:
        """Say what is asked."""
        return f"The rate of {self.column}{self.by_words()}"
