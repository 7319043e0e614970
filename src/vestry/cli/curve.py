"""`vestry curve`: from a mechanism's parameter to its privacy curve."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

import vestry.cli.mechanism as options
from vestry.cli.output import Json, emit, examples
from vestry.errors import InvalidParameter

EXAMPLES = examples(
    "vestry curve diffused --family beta-bernoulli --prior 6,12 --n 100 --at 0.5 --orders 2,5,10"
    " --epsilons 0.5,1 --json",
    "vestry curve laplace --family beta-bernoulli --n 100 --at 10 --plot curve.png",
)


def curve(
    mechanism: options.Mechanism,
    family: options.FamilyName,
    at: Annotated[float | None, typer.Option(help="The parameter's value; 1 for direct.")] = None,
    guarantee: Annotated[str | None, typer.Option(help="Instead of --at: calibrate to this first.")] = None,
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
    orders: Annotated[str, typer.Option(help="Renyi orders, with commas.")] = "1.5,2,3,5,10,20,50",
    epsilons: Annotated[str, typer.Option(help="Epsilons of the profile, with commas.")] = "0.1,0.25,0.5,1,2,4",
    plot: Annotated[Path | None, typer.Option(help="Also draw the curves into this file (png, svg or pdf).")] = None,
    json: Json = False,
) -> None:
    """Print a mechanism's Renyi curve and its profile delta(epsilon). An order without a bound prints as inf (null)."""
    from vestry.privacy import accountant
    from vestry.privacy.guarantee import Guarantee

    given = options.declared(
        mechanism, family, prior, n, neighbours, rows, count, draws, truncation, variance, low, high, dimension, grid
    )
    parameter = options.PARAMETERS[mechanism]
    if guarantee is not None:
        made = given.calibrated(Guarantee.parse(guarantee))
        event, value = made.event, made.value
    else:
        value = 1.0 if at is None and mechanism == "direct" else at
        if value is None:
            raise InvalidParameter(
                "--at", None, f"given: the {parameter}", "--at 0.5, or --guarantee epsilon=1,delta=1e-6"
            )
        event = given.at(value)
    renyi = [{"order": a, "epsilon": _finite(accountant.curve(event)(a))} for a in _list("--orders", orders)]
    profile = [{"epsilon": e, "delta": accountant.delta(event, e)} for e in _list("--epsilons", epsilons)]
    if plot is not None:
        from vestry.report.plot import privacy_curve

        privacy_curve(event, title=f"{mechanism}, {parameter.replace('_', ' ')} {value:.4g}", path=plot)
    record = {"mechanism": mechanism, "parameter": parameter, "value": value, "renyi": renyi, "profile": profile}
    emit(record, _table(renyi, profile), as_json=json)


def _list(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter(name, text, "numbers with commas between them", f"for example {name} 1,2,5") from None


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def _table(renyi: list[dict[str, Any]], profile: list[dict[str, Any]]) -> str:
    lines = [f"{'order':>10} {'epsilon':>14}"]
    lines += [f"{row['order']:>10g} {math.inf if row['epsilon'] is None else row['epsilon']:>14.8g}" for row in renyi]
    lines += ["", f"{'epsilon':>10} {'delta':>14}"]
    lines += [f"{row['epsilon']:>10g} {row['delta']:>14.8g}" for row in profile]
    return "\n".join(lines)
