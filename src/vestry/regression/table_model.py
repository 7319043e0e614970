"""Regression by noisy tables as a model: what is collected, and what is expected of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import NOISE_OF, Additive, calibrate_noise
from vestry.model.request import WIDE, PreparedSums, Request, Size, adjacency_of, declared
from vestry.numerics import Array
from vestry.regression.moments import LevelColumn
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_reader import parse_terms, table_reader
from vestry.schema.domain import Domain, Levels
from vestry.schema.table_schema import TableSchema

# The method's name; the precision of the prior where none is declared, a standard deviation of 2.5; numbers of one
# release at most.
TABLE, USUAL_PRECISION, MOST_NUMBERS = "table", 0.16, 5_000
# How often a plan makes up coefficients, at most and at least; their size; cells x coefficients^2 of all together.
_REPEATS, _FEWEST, _EFFECT, _WORK = 256, 4, 0.5, 2e7
# Cells with fewer records than this many standard deviations of the noise say little.
_DISTINCT = 1.0


def predictor_levels(model: Any, domains: Any) -> tuple[LevelColumn, ...]:
    """Return the predictors with their levels, or refuse a number that is not in bins."""
    columns = []
    for column in model.predictors:
        domain: Domain = declared(domains, column)
        if not isinstance(domain, Levels):
            instead = f"{column} = {{ interval = [0, 120], bins = [0, 40, 120] }}"
            raise InvalidParameter(f"the column {column}", "an interval", f"levels, or in bins, for {TABLE}", instead)
        columns.append(LevelColumn(column, tuple(domain.names)))
    return tuple(columns)


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
    adjacency = adjacency_of(schema, model, count)
    layout = table.layout(adjacency)
    mechanism = calibrate_noise(NOISE_OF[request.mechanism], layout, adjacency, request.guarantee)
    table.query.check(schema.domains)
    terms = [*model.predictors, *model.interactions]
    described = {"name": model.name, "method": TABLE, "table": table.to_dict(), "predictors": terms}
    numbers = (USUAL_PRECISION if model.prior_precision is None else float(model.prior_precision),)
    return PreparedSums(model, described, numbers, mechanism, table.query, ("all",), ())


def size_of_table(table: OutcomeTable) -> Size:
    """Return how many numbers a release has."""
    return Size(table.size, MOST_NUMBERS, "cells x outcomes")


def forecast_table(prepared: PreparedSums, n: int, rng: np.random.Generator) -> tuple[float, float, None]:
    """Return the mean width of the coefficients' 90 % intervals, intercepts aside, with privacy and without.

    Records are supposed to be spread evenly over the cells, m in each, and coefficients to be 0.5 in size, of either
    sign, without an intercept; of counts, around a rate of a quarter of the largest. The widths are those of normal
    approximations, by the Fisher information: with x the features of a cell, sigma the noise's deviation and p the
    classes' probabilities,

        levels   I = sum over cells of xx' (x) [A - bb'/(d + 1)],  A = J'V^-1 J,  b = J'V^-1 m p,  d = m p'V^-1 m p,
                 J = m (diag(p) - pp') without its first column,  V = diag(m p) + sigma^2,
        counts   I = sum over cells of xx'/[(S + sigma^2)/S^2 + sigma^2/(u m)^2],  S = m rate, u the units of a record,

    to which the prior's precision P is added. The logarithm of a cell's m is unknown too, and has an information of 1
    beside d.

    Where noise is large the information differs over the points that a release holds for likely, and an interval is
    about as wide as that at each of them says on average. So I is computed at such points: about normal with mean
    C I theta, C = (I + P)^-1, and the covariance of the release's centre, C I C, and of its posterior, C.
    """
    reader = table_reader(prepared.described, prepared.numbers)
    mechanism = prepared.mechanism
    assert isinstance(mechanism, Additive)  # noqa: S101 - it was prepared so
    table, size = reader.table, len(reader.coefficients)
    features = table.features(reader.terms, table.cells)
    repeats = int(np.clip(_WORK // (len(features) * size**2), _FEWEST, _REPEATS))
    signs = rng.choice([-1.0, 1.0], (repeats // 2, size))
    theta = _EFFECT * np.concatenate([signs, -signs])
    theta[:, len(reader.features) - 1 :: len(reader.features)] = 0.0
    precision = np.diag(np.tile(reader.precisions, size // len(reader.features)))
    chances = rng.standard_normal((2, *theta.shape))

    def information(at: Array, noise: float) -> Array:
        outcomes = reader.outcomes_at(at, table.cells)
        if table.high is None:
            cells = _odds_information(outcomes, n / len(features), noise)
        else:
            cells = _rate_information(outcomes * table.high / 4, n / len(features), noise, table.units)
        known = features.T @ (np.moveaxis(cells, 1, 3)[..., None] * features)
        return np.asarray(known.transpose(0, 1, 3, 2, 4).reshape(-1, size, size))

    def width(noise: float) -> float:
        likely = _likely_points(theta, information(theta, noise), precision, chances)
        covariance = np.linalg.inv(information(likely, noise) + precision)
        spreads = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        return WIDE * float(spreads.reshape(-1, len(reader.features))[:, :-1].mean())

    return width(mechanism.deviation), width(0.0), None


def _likely_points(theta: Array, information: Array, precision: Array, chances: Array) -> Array:
    """Return C I theta and normal errors of covariance C I C + C: C (I theta + I^(1/2) z + C^(-1/2) z')."""
    inverse = information + precision
    pulls = np.einsum("rij,rj->ri", information, theta)
    for matrix, chance in zip((information, inverse), chances, strict=True):
        values, vectors = np.linalg.eigh(matrix)
        pulls += np.einsum("rij,rj->ri", vectors, np.sqrt(np.maximum(values, 0.0)) * chance)
    return np.asarray(np.linalg.solve(inverse, pulls[..., None])[..., 0])


def _odds_information(shares: Array, records: float, noise: float) -> Array:
    """Return what each cell's noisy counts tell of its log odds, by draw and cell: a matrix of the classes but one."""
    p = np.moveaxis(shares, 1, 2)
    means = records * p
    weights = 1 / (means + noise**2)
    slopes = means[..., None] * (np.eye(p.shape[-1]) - p[..., None, :])[..., 1:]
    own = np.einsum("rcl,rcla,rclb->rcab", weights, slopes, slopes)
    cross = np.einsum("rcl,rcla->rca", weights * means, slopes)
    total = (weights * means**2).sum(axis=-1) + 1
    return np.asarray(own - cross[..., None] * cross[..., None, :] / total[..., None, None])


def _rate_information(rates: Array, records: float, noise: float, units: int) -> Array:
    """Return what each cell's noisy sum and number of records tell of its log rate."""
    sums = np.maximum(records * rates[:, 0], 1e-9)
    variance = (sums + noise**2) / sums**2 + (noise / (units * records)) ** 2
    return np.asarray(1 / variance)[..., None, None]


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
