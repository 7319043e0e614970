"""Robust linear regression: the mean of a number, given predictors, with outliers of bounded weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import vestry.regression.losses as losses
from vestry.model.request import interval_of
from vestry.regression.regression_model import RowModel
from vestry.schema.design_matrix import Design
from vestry.schema.domain import Domain
from vestry.validation import require_number

# The threshold where none is declared, as a share of half the outcome's interval.
_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class LinearRegression(RowModel):
    """Linear regression of a number by the Huber loss.

    Attributes
    ----------
    threshold
        Residuals beyond it, in units of the outcome, weigh no more than it: it bounds what one record can do. Left out,
        an eighth of the outcome's interval.
    """

    threshold: float | None = None

    name = "linear"

    def loss(self, domains: Mapping[str, Domain]) -> losses.Loss:
        """Return the Huber loss on the scaled outcome."""
        domain = interval_of(domains, self.outcome)
        if self.threshold is None:
            return losses.Huber(_SHARE)
        return losses.Huber(self.threshold / ((domain.high - domain.low) / 2))

    def design(self, domains: Mapping[str, Domain]) -> Design:
        """Return the design: the outcome is scaled as the predictors are."""
        return Design(self.predictors, dict(domains), self.outcome, None, self.intercept, self.radius)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse an outcome or a threshold that is not a number."""
        super().check(domains)
        interval_of(domains, self.outcome)
        if self.threshold is not None:
            require_number("threshold", self.threshold, "threshold = 5.0", above=0)
