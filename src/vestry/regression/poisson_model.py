"""Poisson regression: the rate of a count, given predictors, by a noisy table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.release import ADDITIVE
from vestry.model.histograms import listed
from vestry.model.request import PreparedSums, Request, Size, WidthPair, declaration, interval_of, listing
from vestry.regression.model_formula import FromFormula
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_model import (
    TABLE,
    caution_of,
    check_interactions,
    declared_fields,
    forecast_table,
    predictor_levels,
    prepare_table,
    size_of_table,
)
from vestry.regression.table_reader import table_reader
from vestry.schema.domain import Domain
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_choice, require_number


@dataclass(frozen=True, kw_only=True)
class PoissonRegression(FromFormula):
    """Poisson regression of a column of counts.

    Attributes
    ----------
    outcome
        The column to explain: counts from 0.
    predictors
        The columns of levels, or in bins, to explain it by.
    method
        `table`, the only one.
    prior_precision
        1/variance of each coefficient's normal prior, on the scale of log rates; omitted, 0.16. The intercept's
        standard deviation is four times as large.
    interactions
        Products of predictors, such as "age:ward", that the release is read with unless told otherwise.
    """

    outcome: str
    predictors: tuple[str, ...]
    method: str = TABLE
    prior_precision: float | None = None
    interactions: tuple[str, ...] = ()

    name: ClassVar[str] = "poisson"
    by: ClassVar[None] = None
    mechanisms: ClassVar[tuple[str, ...]] = ADDITIVE
    reader: ClassVar[Any] = staticmethod(table_reader)
    column_keys: ClassVar[tuple[str, ...]] = ("outcome", "predictors")
    sum_words: ClassVar[str] = "records"

    def __post_init__(self) -> None:
        object.__setattr__(self, "predictors", listed(self.predictors))
        object.__setattr__(self, "interactions", listed(self.interactions))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.predictors, self.outcome)

    def table(self, domains: Mapping[str, Domain]) -> OutcomeTable:
        """Return what is counted."""
        domain = interval_of(domains, self.outcome)
        return OutcomeTable(predictor_levels(self, domains), self.outcome, high=int(domain.high))

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns and options that do not fit."""
        if not isinstance(self.predictors, tuple) or not self.predictors:
            raise InvalidParameter("predictors", self.predictors, "a list of columns", 'predictors = ["ward"]')
        if len(set(self.columns)) < len(self.columns):
            raise InvalidParameter("predictors", list(self.columns), "each column once", "each of them once")
        require_choice("method", self.method, (TABLE,), f'method = "{TABLE}"')
        if self.prior_precision is not None:
            require_number("prior_precision", self.prior_precision, "prior_precision = 1.0", above=0)
        domain = interval_of(domains, self.outcome)
        if domain.low != 0 or domain.high != int(domain.high) or domain.since is not None:
            raise InvalidParameter(f"the column {self.outcome}", "another interval", "counts", "count = 20")
        check_interactions(self, self.table(domains))

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations and, where it is public, the number of records."""
        self.check(schema.domains)
        return prepare_table(self, self.table(schema.domains), request, schema, count)

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many numbers a release has."""
        return size_of_table(self.table(domains))

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected width of a coefficient's 90 % interval, and the same without privacy."""
        return forecast_table(prepared, n, rng)

    def caution(self, prepared: PreparedSums, schema: TableSchema, n: int) -> str:
        """Say that there are too many cells for the records."""
        return caution_of(prepared, n)

    def question(self) -> str:
        """Say in words what is asked."""
        return f"how the rate of {self.outcome} depends on {listing(self.predictors)}, with intervals"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, declared_fields(self))
