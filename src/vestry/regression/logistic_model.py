"""Logistic regression: the probability of a level, or of several, given predictors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vestry.errors import InvalidParameter
from vestry.model.request import levels_of, listing
from vestry.regression.loss import Loss
from vestry.regression.losses import Logistic, Multinomial
from vestry.regression.method import OBJECTIVE
from vestry.regression.regression_model import RowModel
from vestry.schema.domain import Domain


@dataclass(frozen=True, kw_only=True)
class LogisticRegression(RowModel):
    """Logistic regression of a column of levels.

    Attributes
    ----------
    success
        The level whose probability is explained, against all others. Omitted, and with three levels or more, all of
        them are explained together, each with its own coefficients.
    """

    success: str | int | bool | None = None

    name = "logistic"

    def loss_for(self, domains: Mapping[str, Domain]) -> Loss:
        """Return the logistic loss, of two classes or of several."""
        classes = len(levels_of(domains, self.outcome).names)
        return Logistic() if self.success is not None else Multinomial(classes)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse an outcome that has no such level."""
        super().check(domains)
        levels = levels_of(domains, self.outcome)
        if self.success is None:
            if len(levels.names) < 3:
                raise InvalidParameter(
                    "success", None, "given for an outcome of two levels", f'success = "{levels.names[-1]}"'
                )
            if self.method == OBJECTIVE:
                raise InvalidParameter(
                    "method", self.method, "posterior or output for several classes", 'method = "posterior"'
                )
        elif type(self.success) is not type(levels.values[0]) or self.success not in levels.values:
            named = ", ".join(map(str, levels.values))
            raise InvalidParameter("success", self.success, f"one of the levels ({named})", f'"{levels.values[-1]}"')

    def question(self) -> str:
        """Say in words what is asked."""
        what = self.outcome if self.success is None else f"{self.outcome} = {self.success}"
        return f"how the odds of {what} depend on {listing(self.predictors)}"
