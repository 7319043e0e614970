"""The mean and the variance of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vestry.conjugate.conjugate_model import Conjugate
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.mechanisms.additive_noise import Layout
from vestry.model.columns import groups_of, interval_of
from vestry.schema.domain import Domain
from vestry.schema.statistics import Product, Sum, Term


@dataclass(frozen=True)
class NormalInverseGamma(Conjugate):
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

    def family(self, domains: Mapping[str, Domain]) -> NormalInverseGammaFamily:
        """Return the family with the column's interval."""
        groups_of(domains, self.by)
        interval = interval_of(domains, self.column)
        return NormalInverseGammaFamily(interval.low, interval.high)

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Term, ...]:
        """Add the value and its square, from the middle of the interval."""
        interval = interval_of(domains, self.column)
        middle, reach = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        pair = (self.column, self.column), (middle, middle)
        return Sum(self.column, middle, layout.grid), Product(*pair, reach * layout.grid)

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return mean and variance."""
        return ("mean", "variance")

    def question(self) -> str:
        """Say what is asked."""
        return f"The mean and the variance of {self.column}{self.by_words()}"
