"""Linear regression by noisy moments as a model: what is collected, and what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vestry.mechanisms.additive_noise import NOISE_OF, Additive, calibrate_noise
from vestry.model.request import WIDE, PreparedSums, Request, Size, WidthPair, adjacency_of, grouping, groups_of
from vestry.numerics import Array
from vestry.regression.moment_posterior import LinearMap, LinearPosterior, in_closed_form, linear_posterior
from vestry.regression.moment_reader import MomentReader
from vestry.regression.moments import Moments, PersonMoments
from vestry.schema.design_matrix import HALF
from vestry.schema.domain import Domain
from vestry.schema.table_schema import TableSchema

# The method's name; the precision of the prior where none is declared; statistics of one release at most.
MOMENTS, USUAL_PRECISION, MOST_STATISTICS = "moments", 1.0, 5_000
# Made-up records of a plan, how often they are made up where the posterior has a closed form, and where it has none.
_MADE_UP, _REPEATS, _SAMPLED = 2000, 2, 1
_THEOREM = "A person's rows that count are averaged first, so she moves the sums as one record would."
# Of the outcome, on the scale of its interval: the largest sd of what is fitted, and the residual sd.
_FITTED, _RESIDUAL = 0.5, 0.25


def prepare_moments(model: Any, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
    """Calibrate the noise of the moments of a regression's columns."""
    averaged = model.averages_persons
    moments = (PersonMoments if averaged else Moments).of((*model.predictors, model.outcome), schema.domains)
    adjacency = adjacency_of(schema, model, count)
    layout = moments.layout(adjacency)
    limits = _THEOREM if averaged else ""
    mechanism = calibrate_noise(NOISE_OF[request.mechanism], layout, adjacency, request.guarantee, limits=limits)
    tally = moments.tally(grouping(model.by), count=layout.count is None)
    tally.check(schema.domains)
    described = {
        "name": model.name,
        "method": MOMENTS,
        "columns": moments.to_dict(),
        "outcome_column": model.outcome,
        "predictors": list(model.predictors),
        **({"persons": True} if averaged else {}),
    }
    numbers = (USUAL_PRECISION if model.prior_precision is None else float(model.prior_precision),)
    return PreparedSums(model, described, numbers, mechanism, tally, groups_of(schema.domains, model.by), ())


def size_of_moments(model: Any, domains: Mapping[str, Domain]) -> Size:
    """Return how many numbers a release has."""
    moments = Moments.of((*model.predictors, model.outcome), domains)
    size = len(moments.pairs) * len(groups_of(domains, model.by))
    return Size(size, MOST_STATISTICS, "sums of products" + (" by group" if model.by else ""))


def forecast_moments(prepared: PreparedSums, n: int, rng: np.random.Generator, *, rows: int = 1) -> WidthPair:
    """Return the mean width of the scaled coefficients' 90 % intervals, with privacy and without.

    Records are made up: every predictor uniform on its domain, coefficients from the prior, made smaller where what is
    fitted would spread over more than half of the outcome's interval, and a residual sd of an eighth of it. Where rows
    are averaged over persons, every person has `rows` of them.

    Raises
    ------
    NoInterval
        If the noise is expected to hide the Gram matrix where that has no answer.
    """
    model: Any = prepared.model
    moments = Moments.from_dict(prepared.described["columns"])
    reader = MomentReader(moments, model.outcome, model.predictors, prepared.numbers[0])
    mechanism = prepared.mechanism
    assert isinstance(mechanism, Additive)  # noqa: S101 - it was prepared so
    return expected_widths(reader, mechanism, max(1, n // rows), rng)


def expected_widths(reader: MomentReader, mechanism: Additive, n: int, rng: np.random.Generator) -> WidthPair:
    """Return the forecast for a calibrated mechanism; see `forecast_moments`."""
    moments = reader.moments
    widths: list[float] = []
    exact: list[float] = []
    repeats = _REPEATS
    while len(widths) < repeats:
        full, residual = _made_up(moments, reader, n, rng)
        noise = rng.normal(0, mechanism.deviation, len(mechanism.layout.names))
        pairs = moments.pairs[: len(noise)]
        values = tuple(round(float(full[i, j]) * HALF + e) for (i, j), e in zip(pairs, noise, strict=True))
        noisy = reader.gram(mechanism.statistics(values))
        if not in_closed_form(noisy):
            repeats = _SAMPLED
        posterior = linear_posterior(noisy, reader.prior_variance, _identity(noisy.dimension))
        widths.append(_width(posterior))
        places = reader.feature_places
        gram = full[np.ix_(places, places)] / residual**2 + reader.prior_precision * np.eye(len(places))
        exact.append(WIDE * float(np.mean(np.sqrt(np.diag(np.linalg.inv(gram))))))
    return float(np.mean(widths)), float(np.mean(exact)), None


def _identity(size: int) -> LinearMap:
    return LinearMap(np.eye(size), np.zeros(size), 1.0)


def _width(posterior: LinearPosterior) -> float:
    ends = [posterior.marginal(place).interval(0.9) for place in range(posterior.dimension - 2)]
    return float(np.mean([high - low for low, high in ends]))


def _made_up(moments: Moments, reader: MomentReader, n: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Return the full matrix of moments of n records, and the residual sd."""
    size, outcome = min(n, _MADE_UP), moments.require(reader.outcome)[0]
    columns = [np.ones((size, 1)), rng.uniform(-1, 1, (size, len(moments.numbers)))]
    columns += [np.eye(len(b.levels))[rng.integers(0, len(b.levels), size)][:, 1:] for b in moments.blocks]
    z = np.concatenate(columns, axis=1)
    places = list(reader.feature_places)
    theta = rng.normal(0, np.sqrt(reader.prior_variance), len(places))
    fitted = z[:, places] @ theta
    theta *= min(1.0, _FITTED / max(float(fitted.std()), 1e-12))
    theta[0] = np.clip(theta[0], -_FITTED, _FITTED)
    z[:, outcome] = z[:, places] @ theta + rng.normal(0, _RESIDUAL, size)
    return z.T @ z * (n / size), _RESIDUAL
