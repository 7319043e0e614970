"""Linear regression: the mean of a number, given predictors. By noisy moments, or over rows by a robust loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.release import ADDITIVE
from vestry.model.request import (
    PERSON,
    By,
    PreparedSums,
    Request,
    Size,
    WidthPair,
    check_grouping,
    grouping,
    groups_of,
    interval_of,
)
from vestry.registry import LOSSES
from vestry.regression.coefficients import coefficients_reader
from vestry.regression.loss import Loss
from vestry.regression.losses import robust_losses
from vestry.regression.method import METHODS, POSTERIOR
from vestry.regression.moment_model import MOMENTS, forecast_moments, prepare_moments, size_of_moments
from vestry.regression.moment_reader import moment_reader
from vestry.regression.regression_model import PreparedRows, RowModel
from vestry.regression.residual_scale import check_residual_sd, with_residual_scale
from vestry.schema.design_matrix import HALF
from vestry.schema.domain import Domain
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_choice, require_number

# The loss where none is declared; and its threshold, as a share of half the outcome's interval.
_USUAL, _SHARE = "huber", 0.25
# What belongs to methods over rows.
_OF_ROWS = ("regularisation", "radius", "threshold", "residual_sd")


def linear_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> Any:
    """Read what a release says of its regression: moments, or coefficients."""
    return (moment_reader if family.get("method") == MOMENTS else coefficients_reader)(family, prior)


@dataclass(frozen=True, kw_only=True)
class LinearRegression(RowModel):
    """Linear regression of a number.

    Attributes
    ----------
    method
        `moments`, the default: noisy sums of all products of the columns, from which intervals follow. Or over rows by
        a robust loss: `posterior`, `objective`, `output`; they release coefficients without intervals.
    prior_precision
        For moments and posterior: 1/variance of each coefficient's normal prior, on scaled columns; omitted, 1 for
        moments.
    loss
        Over rows: `huber`, `pseudo-huber`, or another that is registered and has a threshold.
    threshold
        Over rows: residuals beyond it, in units of the outcome, weigh no more than it: it bounds what one record can
        do. Omitted, twice `residual_sd`, or without it an eighth of the outcome's interval.
    residual_sd
        For the posterior: the standard deviation of the residuals, in units of the outcome, known or from another
        release. Draws are then from the posterior of normal residuals, tempered as the guarantee needs it. Omitted,
        their spread has no scale.
    by
        For moments: columns of levels, whose combinations have a regression each.
    """

    method: str | None = None
    loss: str = _USUAL
    threshold: float | None = None
    residual_sd: float | None = None
    by: By = None  # type: ignore[misc]

    name = "linear"
    averages_persons: ClassVar[bool] = False
    column_keys = ("outcome", "predictors", "by")
    sum_words: ClassVar[str] = "records"
    methods: ClassVar[tuple[str, ...]] = (MOMENTS, *METHODS)
    reader: ClassVar[Any] = staticmethod(linear_reader)

    @property
    def chosen(self) -> str:
        """The method that is used: where none is named, moments, unless something is said of rows."""
        if self.method is not None:
            return self.method
        return POSTERIOR if self._of_rows() or not self.intercept else MOMENTS

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*super().columns, *grouping(self.by))

    def _of_rows(self) -> list[str]:
        """Return what is declared that methods over rows alone know."""
        return [key for key in (*_OF_ROWS, "loss") if getattr(self, key) not in (None, _USUAL)]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What `mechanism` may say beside `auto`."""
        return ADDITIVE if self.chosen == MOMENTS else super().mechanisms

    @classmethod
    def default_method(cls, keys: Mapping[str, Any]) -> str | None:
        """Return the method of a release that names none: one that asks for draws is over rows."""
        return POSTERIOR if "draws" in keys or keys.get("mechanism") == POSTERIOR else None

    @property
    def over_persons(self) -> LinearRegression | None:
        """The same regression of persons, the means of their rows; None over rows."""
        return PersonRegression(**vars(self)) if self.chosen == MOMENTS else None

    def loss_for(self, domains: Mapping[str, Domain]) -> Loss:
        """Return the loss of the scaled outcome."""
        domain = interval_of(domains, self.outcome)
        half = (domain.high - domain.low) / 2
        given = {"threshold": self.threshold, "residual_sd": self.residual_sd}
        scaled = {key: None if value is None else value / half for key, value in given.items()}
        return with_residual_scale(LOSSES[self.loss], **scaled, usual=_SHARE)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse an outcome or a threshold that is not a number, and options of another method."""
        check_grouping(self.by)
        super().check(domains)
        outcome = interval_of(domains, self.outcome)
        groups_of(domains, self.by)
        require_choice("loss", self.loss, robust_losses(), f'loss = "{_USUAL}"')
        if self.threshold is not None:
            require_number("threshold", self.threshold, "threshold = 5.0", above=0)
        if self.chosen == MOMENTS:
            for key in self._of_rows():
                raise InvalidParameter(key, getattr(self, key), f"omitted for the method {MOMENTS}", f"no {key}")
            if not self.intercept:
                raise InvalidParameter("intercept", False, f"true for the method {MOMENTS}", "intercept = true")
        elif self.by is not None:
            raise InvalidParameter("by", self.by, f"omitted for the method {self.chosen}", f'method = "{MOMENTS}"')
        if self.residual_sd is not None:
            half = (outcome.high - outcome.low) / 2
            check_residual_sd(self.residual_sd, reach=half, method=self.chosen, sampling_method=POSTERIOR)

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedRows | PreparedSums:  # type: ignore[override]
        """Calibrate from declarations and, where it is public, the number of records."""
        if self.chosen != MOMENTS:
            return super().prepare(request, schema, count)
        self.check(schema.domains)
        return prepare_moments(self, request, schema, count)

    def sum_unit(self, schema: TableSchema) -> float:
        """Return what one unit of noisy moments stands for, in records; 1 for what is not a sum."""
        return 1 / HALF if self.chosen == MOMENTS else 1.0

    def question(self) -> str:
        """Say in words what is asked."""
        groups = f", by {' and '.join(grouping(self.by))}" if self.by else ""
        return super().question() + groups + (", with intervals" if self.chosen == MOMENTS else "")

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many numbers a release has."""
        return size_of_moments(self, domains) if self.chosen == MOMENTS else super().size(domains)

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected width of a scaled coefficient's 90 % interval, and the same without privacy."""
        if self.chosen != MOMENTS:
            return super().forecast(prepared, schema, n, rng)
        return forecast_moments(prepared, n, rng, rows=schema.unit.rows if self.averages_persons else 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it; the usual loss is not written."""
        written = {**super().to_dict(), "method": self.chosen}
        if self.loss == _USUAL:
            del written["loss"]
        if self.residual_sd is None:
            del written["residual_sd"]
        if self.by is None:
            del written["by"]
        return written


class PersonRegression(LinearRegression):
    """Linear regression by moments where a record is a person: the means of her rows that count.

    She moves the moments as one record does. Persons are independent, so intervals hold however alike her rows are;
    the slope is that between persons.
    """

    averages_persons = True

    def question(self) -> str:
        """Say in words what is asked."""
        return f"{super().question()}, each person one record, her rows averaged"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return {**super().to_dict(), "average": PERSON}
