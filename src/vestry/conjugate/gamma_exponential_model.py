"""The rate of a column of times: one over their mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vestry.conjugate.conjugate_model import Conjugate
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.mechanisms.additive_noise import Layout
from vestry.model.columns import groups_of, interval_of
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum


@dataclass(frozen=True)
class GammaExponential(Conjugate):
    """An exponential likelihood with a gamma prior of its rate; times are clipped to their interval, above 0.

    Attributes
    ----------
    column
        A column with an interval that begins above 0.
    by
        A column of levels: one rate for each.
    prior
        The shape and the rate of the prior.
    """

    column: str
    by: str | None = None
    prior: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "gamma-exponential"

    def family(self, domains: Mapping[str, Domain]) -> GammaExponentialFamily:
        """Return the exponential family with the column's ends."""
        groups_of(domains, self.by)
        interval = interval_of(domains, self.column)
        return GammaExponentialFamily(interval.low, interval.high)

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add the time, counted from the middle of its interval."""
        interval = interval_of(domains, self.column)
        return (Sum(self.column, (interval.low + interval.high) / 2, layout.grid),)

    def question(self) -> str:
        """Say what is asked."""
        return f"The rate of {self.column}{self.by_words()}"
