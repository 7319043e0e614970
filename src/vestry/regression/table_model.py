"""Regression by noisy tables as a model: what is collected, and what is expected of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Additive, calibrate_noise
from vestry.model.request import WIDE, PreparedSums, Request, Size, TableSchema, declared
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Gaussian
from vestry.regression.moments import LevelColumn
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_reader import TableReader, parse_terms, table_reader
from vestry.regression.table_target import Whitening
from vestry.schema.domain import Domain, Levels

# The method's name; the precision of the prior where none is declared, a standard deviation of 2.5; numbers of one
# release at most.
TABLE, USUAL_PRECISION, MOST_NUMBERS = "table", 0.16, 5_000
# How often a plan makes up records, and how far coefficients of made-up ones lie from 0.
_REPEATS, _EFFECT = 4, 0.5
# Cells with fewer records than this many standard deviations of the noise say little.
_DISTINCT = 1.0


def predictor_levels(model: Any, domains: Any) -> tuple[LevelColumn, ...]:
    """Return the predictors with their levels, or refuse a number that is not in bins."""
    found = []
    for column in model.predictors:
        domain: Domain = declared(domains, column)
        if not isinstance(domain, Levels):
            instead = f"{column} = {{ interval = [0, 120], bins = [0, 40, 120] }}"
            raise InvalidParameter(f"the column {column}", "an interval", f"levels, or in bins, for {TABLE}", instead)
        found.append(LevelColumn(column, tuple(domain.names)))
    return tuple(found)


def check_table(model: Any) -> None:
    """Refuse what a regression by tables does not have."""
    for key in ("regularisation", "radius"):
        if getattr(model, key, None) is not None:
            raise InvalidParameter(key, getattr(model, key), f"omitted for the method {TABLE}", f"no {key}")
    if not getattr(model, "intercept", True):
        raise InvalidParameter("intercept", False, f"true for the method {TABLE}", "intercept = true")


def check_interactions(model: Any, table: OutcomeTable) -> None:
    """Refuse a product of columns that are not predictors."""
    given = model.interactions
    if not isinstance(given, tuple) or not all(isinstance(each, str) and ":" in each for each in given):
        allowed = "a list of products of predictors"
        raise InvalidParameter("interactions", given, allowed, 'interactions = ["age:ward"]')
    parse_terms(table, given)


def declared_fields(model: Any) -> dict[str, Any]:
    """Return a model's fields; no interactions are as before there were any."""
    return {key: value for key, value in vars(model).items() if key != "interactions" or value}


def prepare_table(
    model: Any, table: OutcomeTable, request: Request, schema: TableSchema, count: int | None
) -> PreparedSums:
    """Calibrate the noise of a table."""
    adjacency = schema.adjacency(model, count)
    layout = table.layout(adjacency)
    mechanism = calibrate_noise(f"discrete-{request.mechanism}", layout, adjacency, request.guarantee)
    table.query.check(schema.domains)
    terms = [*model.predictors, *model.interactions]
    described = {"name": model.name, "method": TABLE, "table": table.to_dict(), "predictors": terms}
    numbers = (USUAL_PRECISION if model.prior_precision is None else float(model.prior_precision),)
    return PreparedSums(model, described, numbers, mechanism, table.query, ("all",), ())


def size_of_table(table: OutcomeTable) -> Size:
    """Return how many numbers a release has."""
    return Size(table.size, MOST_NUMBERS, "cells x outcomes")


def forecast_table(prepared: PreparedSums, n: int, rng: np.random.Generator) -> tuple[float, float, None]:
    """Return the mean width of the coefficients' 90 % intervals, with privacy and without.

    Records are made up: every predictor uniform on its levels, coefficients of about 0.5 in size. The widths are those
    of normal approximations at the mode, the noise Gaussian with its variance.
    """
    reader = table_reader(prepared.described, prepared.numbers)
    mechanism = prepared.mechanism
    assert isinstance(mechanism, Additive)  # noqa: S101 - it was prepared so
    found = []
    for _ in range(_REPEATS):
        exact = _made_up(reader, n, rng)
        noisy = exact + np.round(rng.normal(0, mechanism.deviation, exact.shape))
        found.append([_width(reader, *each) for each in ((noisy, max(mechanism.deviation, 0.05)), (exact, 0.05))])
    private, without = np.mean(found, axis=0)
    return float(private), float(without), None


def _width(reader: TableReader, numbers: Array, deviation: float) -> float:
    root = Whitening.of(reader.target(numbers, Gaussian(deviation))).root
    spreads = np.sqrt((root**2).sum(axis=1)).reshape(-1, len(reader.features))
    return WIDE * float(spreads[:, :-1].mean())


def _made_up(reader: TableReader, n: int, rng: np.random.Generator) -> Array:
    """Return the numbers of n records, one row per cell."""
    table, cells = reader.table, len(reader.table.cells)
    records = rng.multinomial(n, np.full(cells, 1 / cells))
    theta = rng.normal(0, _EFFECT, (1, len(reader.coefficients)))
    outcomes = reader.outcomes_at(theta, table.cells)[0]
    if table.high is None:
        return np.array([rng.multinomial(*each) for each in zip(records, outcomes.T, strict=True)], dtype=float)
    sums = rng.poisson(records * outcomes[0] * table.high / 4)
    return np.column_stack([records * table.units, np.minimum(sums, records * table.high)]).astype(float)


def caution_of(prepared: PreparedSums, n: int) -> str:
    """Say that there are too many cells for the records."""
    table = OutcomeTable.from_dict(prepared.described["table"])
    mechanism: Any = prepared.mechanism
    cells, spread = len(table.cells), mechanism.deviation / table.units
    if n / cells > _DISTINCT * spread * len(table.kinds) ** 0.5:
        return ""
    return (
        f"{cells} cells are too many for {n} records: about {n / cells:.2g} each, and noise of standard deviation"
        f" {spread:.2g}; use fewer predictors, or fewer and wider bins"
    )
