"""Robust linear regression: the mean of a number, given predictors, with outliers of bounded weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vestry.model.request import interval_of
from vestry.registry import LOSSES
from vestry.regression.loss import Loss
from vestry.regression.losses import robust_losses
from vestry.regression.regression_model import RowModel
from vestry.schema.domain import Domain
from vestry.validation import require_choice, require_number

# The loss where none is declared; and its threshold, as a share of half the outcome's interval.
_USUAL, _SHARE = "huber", 0.25


@dataclass(frozen=True, kw_only=True)
class LinearRegression(RowModel):
    """Linear regression of a number by a robust loss.

    Attributes
    ----------
    loss
        Its name: `huber`, `pseudo-huber`, or another that is registered and has a threshold.
    threshold
        Residuals beyond it, in units of the outcome, weigh no more than it: it bounds what one record can do. Omitted,
        an eighth of the outcome's interval.
    """

    loss: str = _USUAL
    threshold: float | None = None

    name = "linear"

    def loss_for(self, domains: Mapping[str, Domain]) -> Loss:
        """Return the loss of the scaled outcome."""
        domain = interval_of(domains, self.outcome)
        share = _SHARE if self.threshold is None else self.threshold / ((domain.high - domain.low) / 2)
        chosen: Loss = LOSSES[self.loss](share)
        return chosen

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse an outcome or a threshold that is not a number."""
        super().check(domains)
        interval_of(domains, self.outcome)
        require_choice("loss", self.loss, robust_losses(), f'loss = "{_USUAL}"')
        if self.threshold is not None:
            require_number("threshold", self.threshold, "threshold = 5.0", above=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it; the usual loss is not written."""
        written = super().to_dict()
        if self.loss == _USUAL:
            del written["loss"]
        return written
