"""What logistic and linear regression share: a design of declared columns, a loss, and a mechanism over rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.data import Table
from vestry.data.table import check_bound
from vestry.errors import InvalidParameter
from vestry.model.request import (
    MOST_PARAMETERS,
    WIDE,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    declaration,
    declared,
    listing,
    parameters_of,
)
from vestry.regression import numpy_math
from vestry.regression.coefficients import coefficients_reader
from vestry.regression.langevin import LangevinSample
from vestry.regression.loss import Loss
from vestry.regression.losses import Logistic
from vestry.regression.method import (
    METHODS,
    POSTERIOR,
    Regression,
    made_up_pass,
    penalty,
    regression,
    shrinkage,
    try_out,
)
from vestry.regression.model_formula import FromFormula
from vestry.regression.objective_perturbation import ObjectivePerturbation
from vestry.regression.problem import LinearProblem
from vestry.schema.design_matrix import HALF, Design
from vestry.schema.domain import Domain, Interval, Levels
from vestry.schema.private import PrivateRows
from vestry.schema.table_schema import DEFAULT_MAX_ROWS, TableSchema
from vestry.validation import require_choice, require_number, require_truth


@dataclass(frozen=True)
class PreparedRows:
    """All that a regression's release needs but the ledger's leave and the records.

    Attributes
    ----------
    model
        The regression.
    mechanism
        Calibrated.
    design
        How a record becomes features.
    described, numbers, groups, labels
        As the release will name them.
    """

    model: RowModel
    mechanism: Regression
    design: Design
    described: Mapping[str, Any]
    numbers: tuple[float, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...] = ("all",)

    def check(self, table: Table) -> None:
        """Try all that can fail without touching values."""
        table.check(self.design.tally)
        if not (self.mechanism.few_passes and table.can_stay(self.design, made_up_pass(self.mechanism))):
            try_out(self.mechanism)

    def collect(self, table: Table, *, row_key: str) -> PrivateRows:
        """Read the rows, or say how they are summed where they are."""
        return table.rows(self.design, row_key=row_key, stay=self.mechanism.few_passes)

    def check_bound(self, domains: Mapping[str, Domain], max_rows: int) -> None:
        """Refuse numbers that the query cannot hold."""
        check_bound(self.design.tally, domains, max_rows)


@dataclass(frozen=True, kw_only=True)
class RowModel(FromFormula, ABC):
    """A regression of an outcome on predictors.

    Attributes
    ----------
    outcome
        The column to explain.
    predictors
        The columns to explain it by. Numbers are scaled by their declared interval, levels are indicators against
        their first level.
    intercept
        Whether there is one.
    method
        `posterior` (draws by a certified chain), `objective` or `output` (one estimate with noise).
    prior_precision
        For the posterior: 1/variance of each coefficient's normal prior, on scaled features; omitted, a public rule.
    regularisation
        For the other two: lam, of the sum of losses; omitted, a public rule.
    radius
        Rows whose scaled features are longer are scaled down to it: less noise, some bias. Omitted, none is.
    """

    outcome: str
    predictors: tuple[str, ...]
    intercept: bool = True
    method: str | None = POSTERIOR
    prior_precision: float | None = None
    regularisation: float | None = None
    radius: float | None = None

    name: ClassVar[str]
    methods: ClassVar[tuple[str, ...]] = METHODS
    reader: ClassVar[Any] = staticmethod(coefficients_reader)
    by: ClassVar[Any] = None
    column_keys: ClassVar[tuple[str, ...]] = ("outcome", "predictors")

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What `mechanism` may say: the method, or nothing."""
        return (self.chosen,)

    @property
    def chosen(self) -> str:
        """The method that is used."""
        return POSTERIOR if self.method is None else self.method

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.predictors, self.outcome)

    @abstractmethod
    def loss_for(self, domains: Mapping[str, Domain]) -> Loss:
        """Return the loss of one record."""

    def design(self, domains: Mapping[str, Domain]) -> Design:
        """Return how a record becomes features and an outcome: scaled, 1 or -1 for success, or a level's place."""
        success = getattr(self, "success", None)
        return Design(self.predictors, dict(domains), self.outcome, success, self.intercept, self.radius)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns and options that do not fit."""
        if not isinstance(self.predictors, tuple) or not self.predictors:
            raise InvalidParameter("predictors", self.predictors, "a list of columns", 'predictors = ["age"]')
        for column in self.columns:
            declared(domains, column)
        if len(set(self.columns)) < len(self.columns):
            raise InvalidParameter("predictors", list(self.columns), "each column once", "each of them once")
        require_truth("intercept", self.intercept, "intercept = true")
        require_choice("method", self.chosen, self.methods, f'method = "{self.methods[0]}"')
        for key in ("prior_precision", "regularisation", "radius"):
            if getattr(self, key) is not None:
                require_number(key, getattr(self, key), f"{key} = 1.0", above=0)
        right, wrong = "prior_precision", "regularisation"
        if self.chosen not in _PRECISE:
            right, wrong = wrong, right
        if getattr(self, wrong) is not None:
            raise InvalidParameter(wrong, getattr(self, wrong), f"omitted for the method {self.chosen}", right)

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedRows:
        """Calibrate from declarations and, where it is public, the number of records."""
        self.check(schema.domains)
        design, loss = self.design(schema.domains), self.loss_for(schema.domains)
        adjacency = adjacency_of(schema, self, count)
        max_rows = _declared_max_rows(schema) if count is None else count
        problem = LinearProblem(loss, len(design.features), design.norm, adjacency, max_rows)
        mechanism = regression(
            problem,
            request.guarantee,
            method=self.chosen,
            prior_precision=self.prior_precision,
            regularisation=self.regularisation,
            draws=1 if request.draws is None else request.draws,
        )
        numbers = (float(penalty(mechanism)),)
        lost = shrinkage(mechanism, self._variances(schema.domains))
        described = {**self._described(design, loss), "shrinkage": float(f"{lost:.3g}")}
        return PreparedRows(self, mechanism, design, described, numbers, _labels(design, loss))

    def _variances(self, domains: Mapping[str, Domain]) -> list[float]:
        """Return each feature's variance given the others, for predictors that are uniform on their domains.

        1/3 of a scaled number; of K levels, the difference to the first has the variance 2 K/n. Rows that are scaled
        down to a radius have at most its square in all.
        """
        sizes = [len(d.names) if isinstance(d := domains[column], Levels) else 0 for column in self.predictors]
        length = sum((k - 1) / k if k else 1 / 3 for k in sizes)
        share = 1.0 if self.radius is None else min(1.0, self.radius**2 / length)
        return [share / (2 * k) if k else share / 3 for k in sizes for _ in range(max(1, k - 1))]

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many coefficients there are; of several classes, each has all."""
        *predictors, outcome = (parameters_of(domains[column]) for column in self.columns)
        return Size(sum(predictors) * (outcome if outcome > 2 else 1), MOST_PARAMETERS, "parameters")

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected width of a coefficient's 90 % interval, and the same without privacy."""
        design = self.design(schema.domains)
        several = [expected_widths(prepared.mechanism, design, n, rng) for _ in range(_REPEATS)]
        return float(np.mean([each[0] for each in several])), float(np.mean([each[1] for each in several])), None

    def _described(self, design: Design, loss: Loss) -> dict[str, Any]:
        """Say what a coefficient is of: names, scales, classes."""
        outcome = design.domains[self.outcome]
        scales = [_scale(design.domains[column]) for column in self.predictors]
        places = [len(d.names) - 1 if isinstance(d := design.domains[c], Levels) else 1 for c in self.predictors]
        return {
            "name": self.name,
            "method": self.chosen,
            "loss": loss.to_dict(),
            "features": list(design.features),
            "classes": list(outcome.names) if loss.predictors > 1 and isinstance(outcome, Levels) else [],
            "intercept": self.intercept,
            "scales": [scale for scale, size in zip(scales, places, strict=True) for _ in range(size)],
            "outcome": _scale(outcome),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, vars(self))

    def question(self) -> str:
        """Say in words what is asked."""
        return f"how {self.outcome} depends on {listing(self.predictors)}"


def _scale(domain: Domain) -> list[float] | None:
    """Return the middle and the half-width of an interval."""
    return [(domain.low + domain.high) / 2, (domain.high - domain.low) / 2] if isinstance(domain, Interval) else None


def _labels(design: Design, loss: Loss) -> tuple[str, ...]:
    if loss.predictors == 1:
        return design.features
    outcome = design.domains[design.outcome]
    names = outcome.names if isinstance(outcome, Levels) else ()
    return tuple(f"{name}: {feature}" for name in names for feature in design.features)


def expected_widths(mechanism: Regression, design: Design, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the expected width of a coefficient's 90 % interval, and the same without privacy, on scaled features.

    Records are made up: every predictor uniform on its domain, coefficients from the prior. Both widths are those of
    normal approximations, averaged over the coefficients. For an estimate the first is that of the noise and the
    sampling error together.
    """
    problem, precision = mechanism.problem, float(penalty(mechanism))
    size = min(n, _MADE_UP)
    rows = _made_up(design, size, rng)
    theta = rng.normal(0, 1 / math.sqrt(max(precision, 1.0)), (problem.features,))
    eta = rows @ theta
    if problem.loss.outcomes == "numbers":
        weights = np.full(size, problem.loss.curvature)
    else:
        step, one = 1e-4, np.ones(size)
        # Of several classes, the derivative of two.
        slope = (problem.loss if problem.loss.predictors == 1 else Logistic()).derivative(numpy_math)
        weights = (slope(eta + step, one) - slope(eta - step, one)) / (2 * step)
    information = n / size * (rows.T * weights) @ rows
    ridge = np.eye(problem.features)
    exact = np.linalg.inv(information + _WEAK * ridge)
    if isinstance(mechanism, LangevinSample):
        private = np.linalg.inv(mechanism.likelihood_power * information + precision * ridge)
    else:
        inverse = np.linalg.inv(information + precision * ridge)
        variance = mechanism.value**2
        noise = variance * inverse @ inverse if isinstance(mechanism, ObjectivePerturbation) else variance * ridge
        private = inverse @ information @ inverse + noise
    widths = [WIDE * float(np.mean(np.sqrt(np.diag(each)))) for each in (private, exact)]
    return widths[0], widths[1]


def _declared_max_rows(schema: TableSchema) -> int:
    """Return how many records there may be; steps and penalties follow from it, so it must be said."""
    if schema.max_rows >= DEFAULT_MAX_ROWS:
        allowed = "declared for a regression under add-remove, where the number of records is private"
        raise InvalidParameter("max_rows", None, allowed, "max_rows = 10000, a number that the records will not exceed")
    return schema.max_rows


# Methods with a prior; the others have a penalty.
_PRECISE = (POSTERIOR, "moments", "table")
# Made-up records of a plan; and what keeps their information invertible.
_MADE_UP, _WEAK = 2000, 1e-6
_REPEATS = 8


def _made_up(design: Design, size: int, rng: np.random.Generator) -> np.ndarray:
    numbers = {
        column: rng.integers(0, len(domain.names), size)
        if isinstance(domain := design.domains[column], Levels)
        else rng.integers(-HALF, HALF + 1, size)
        for column in design.columns
    }
    return design.block(numbers)[0].astype(np.float64)
