"""`vestry calibrate`: from a guarantee to a mechanism's parameter."""

from __future__ import annotations

from typing import Annotated

import typer

import vestry.cli.linear as linear
import vestry.cli.mechanism as options
from vestry.cli.group import add_conjugate, group
from vestry.cli.output import Json, emit, examples

EXAMPLES = examples(
    "vestry calibrate diffused --family beta-bernoulli --prior 6,12 --n 100 --guarantee order=2,epsilon=0.1",
    "vestry calibrate diffused --family beta-bernoulli --prior 6,12 --n 100 --guarantee epsilon=1,delta=1e-5 --json",
    "vestry calibrate laplace --family dirichlet-categorical --prior 1,1,1 --neighbours add-remove"
    " --guarantee epsilon=0.5",
    "vestry calibrate ops --family beta-bernoulli --prior 1,1 --n 100 --truncation 0.2 --guarantee epsilon=1",
    "vestry calibrate gibbs --lipschitz 1 --strong-convexity 100 --guarantee epsilon=1,delta=1e-5",
    "vestry calibrate objective --lipschitz 1 --smoothness 0.25 --regularisation 10 --guarantee epsilon=1,delta=1e-6",
)


def calibrate(
    mechanism: str,
    family: options.FamilyName,
    guarantee: Annotated[str, typer.Option(help="What to meet, for example epsilon=1,delta=1e-6.")],
    prior: options.Prior = None,
    n: options.Count = None,
    neighbours: options.NeighboursName = "replace",
    rows: options.Rows = 1,
    count: options.Known = None,
    draws: options.DrawCount = 1,
    truncation: options.Truncation = None,
    variance: options.Variance = None,
    low: options.Low = None,
    high: options.High = None,
    dimension: options.Dimension = 1,
    grid: options.Grid = None,
    analysis: Annotated[
        str, typer.Option(help="exact, or renyi: (epsilon, delta) through the Renyi curve only, as in the papers.")
    ] = "exact",
    json: Json = False,
) -> None:
    """Find the parameter by which it meets a guarantee, on the private side; touches no data."""
    from vestry.privacy import batch
    from vestry.privacy.guarantee import Guarantee, decimal

    wanted = Guarantee.parse(guarantee)
    given = options.declared(
        mechanism, family, prior, n, neighbours, rows, count, draws, truncation, variance, low, high, dimension, grid
    )
    made = given.calibrated(wanted, analysis=analysis)
    parameter, value = made.parameter, made.value
    spent = batch.price(made.event, made.guarantee)
    record = {
        "mechanism": mechanism,
        "parameter": parameter,
        "value": value,
        "guarantee": made.guarantee.to_dict(),
        "spent": spent.to_dict(),
        "event": made.event.to_dict(),
        "theorem": made.theorem,
    }
    emit(
        record,
        f"{parameter} = {decimal(value)}\nmeets {made.guarantee} under {made.guarantee.neighbours}",
        as_json=json,
    )


app = group(
    "Find the parameter by which a mechanism meets a guarantee, on the private side; touches no data.", EXAMPLES
)
add_conjugate(app, calibrate, "Calibrate")
linear.add_calibrations(app)
