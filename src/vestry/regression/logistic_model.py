"""Logistic regression: the probability of a level, or of several, given predictors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.release import ADDITIVE
from vestry.model.request import PreparedSums, Request, Size, WidthPair, declaration, levels_of, listing
from vestry.regression.coefficients import coefficients_reader
from vestry.regression.loss import Loss
from vestry.regression.losses import Logistic, Multinomial
from vestry.regression.method import METHODS, OBJECTIVE
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.regression_model import PreparedRows, RowModel
from vestry.regression.table_model import (
    TABLE,
    caution_of,
    check_interactions,
    check_table,
    declared_fields,
    forecast_table,
    predictor_levels,
    prepare_table,
    size_of_table,
)
from vestry.regression.table_reader import table_reader
from vestry.schema.domain import Domain
from vestry.schema.table_schema import TableSchema


def logistic_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> Any:
    """Read what a release says of its regression: a table, or coefficients."""
    return (table_reader if family.get("method") == TABLE else coefficients_reader)(family, prior)


@dataclass(frozen=True, kw_only=True)
class LogisticRegression(RowModel):
    """Logistic regression of a column of levels.

    Attributes
    ----------
    method
        `table`: noisy counts of the outcome in every cell of the predictors' levels, from which intervals follow. Or
        over rows: `posterior`, the default, `objective`, `output`; they release coefficients without intervals.
    prior_precision
        For table and posterior: 1/variance of each coefficient's normal prior; omitted, 0.16 for table, where the
        intercept's standard deviation is four times as large.
    success
        The level whose probability is explained, against all others. Omitted, and with three levels or more, all of
        them are explained together, each with its own coefficients; by table, all but the first.
    interactions
        For table: products of predictors, such as "age:ward", that the release is read with unless told otherwise.
    """

    success: str | int | bool | None = None
    interactions: tuple[str, ...] = ()

    name = "logistic"
    methods: ClassVar[tuple[str, ...]] = (*METHODS, TABLE)
    reader: ClassVar[Any] = staticmethod(logistic_reader)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What `mechanism` may say beside `auto`."""
        return ADDITIVE if self.chosen == TABLE else super().mechanisms

    def table(self, domains: Mapping[str, Domain]) -> OutcomeTable:
        """Return what is counted: of a success, that and all others."""
        levels = levels_of(domains, self.outcome)
        if self.success is None:
            classes: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in levels.names]
        else:
            own = levels.names[levels.values.index(self.success)]
            others = tuple(name for name in levels.names if name != own)
            classes = [(others[0] if len(others) == 1 else f"not {own}", others), (own, (own,))]
        return OutcomeTable(predictor_levels(self, domains), self.outcome, tuple(classes))

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
        if self.chosen == TABLE:
            check_table(self)
            check_interactions(self, self.table(domains))
        elif self.interactions:
            raise InvalidParameter(
                "interactions", list(self.interactions), f"omitted except for the method {TABLE}", f'method = "{TABLE}"'
            )

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedRows | PreparedSums:  # type: ignore[override]
        """Calibrate from declarations and, where it is public, the number of records."""
        if self.chosen != TABLE:
            return super().prepare(request, schema, count)
        self.check(schema.domains)
        return prepare_table(self, self.table(schema.domains), request, schema, count)

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many numbers a release has."""
        return size_of_table(self.table(domains)) if self.chosen == TABLE else super().size(domains)

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected width of a coefficient's 90 % interval, and the same without privacy."""
        return forecast_table(prepared, n, rng) if self.chosen == TABLE else super().forecast(prepared, schema, n, rng)

    def caution(self, prepared: Any, schema: TableSchema, n: int) -> str:
        """Say that there are too many cells for the records."""
        return caution_of(prepared, n) if self.chosen == TABLE else ""

    def question(self) -> str:
        """Say in words what is asked."""
        what = self.outcome if self.success is None else f"{self.outcome} = {self.success}"
        words = f"how the odds of {what} depend on {listing(self.predictors)}"
        return words + (", with intervals" if self.chosen == TABLE else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, declared_fields(self))
