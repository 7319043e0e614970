"""`vestry curve`: from a mechanism's parameter to its privacy curve."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import vestry.cli.linear as linear
import vestry.cli.mechanism as options
from vestry.cli.group import add_conjugate, group
from vestry.cli.output import Json, emit, examples
from vestry.errors import InvalidParameter

if TYPE_CHECKING:
    from vestry.privacy.event import Event

EXAMPLES = examples(
    "vestry curve diffused --family beta-bernoulli --prior 6,12 --n 100 --at 0.5 --orders 2,5,10"
    " --epsilons 0.5,1 --json",
    "vestry curve laplace --family beta-bernoulli --n 100 --at 10 --plot curve.png",
    "vestry curve objective --lipschitz 1 --smoothness 0.25 --regularisation 1 --at 3 --neighbours add-remove"
    " --delta 1e-5",
)

Orders = Annotated[str, typer.Option(help="Renyi orders, with commas.")]
Epsilons = Annotated[str, typer.Option(help="Epsilons of the profile, with commas.")]
Delta = Annotated[float | None, typer.Option(help="Also print the epsilon at this delta.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw the curves into this file (png, svg or pdf).")]
ORDERS, EPSILONS = "1.5,2,3,5,10,20,50", "0.1,0.25,0.5,1,2,4"


def curve(
    mechanism: str,
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
    orders: Orders = ORDERS,
    epsilons: Epsilons = EPSILONS,
    delta: Delta = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Print a mechanism's Renyi curve and its profile delta(epsilon). An order without a bound prints as inf (null)."""
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
    show(mechanism, parameter, value, event, orders=orders, epsilons=epsilons, delta=delta, plot=plot, json=json)


def show(
    mechanism: str,
    parameter: str,
    value: float,
    event: Event,
    *,
    orders: str,
    epsilons: str,
    delta: float | None,
    plot: Path | None,
    json: bool,
) -> None:
    """Print an event's Renyi curve and profile, and draw them where that is asked for."""
    from vestry.privacy import accountant

    renyi = [{"order": a, "epsilon": _finite(accountant.curve(event)(a))} for a in _list("--orders", orders)]
    profile = [{"epsilon": e, "delta": accountant.delta(event, e)} for e in _list("--epsilons", epsilons)]
    record = {"mechanism": mechanism, "parameter": parameter, "value": value, "renyi": renyi, "profile": profile}
    text = _table(renyi, profile)
    if delta is not None:
        if not 0 < delta < 1:
            raise InvalidParameter("--delta", delta, "between 0 and 1", "--delta 1e-6")
        found = accountant.epsilon(event, delta)
        record["at_delta"] = {"delta": delta, "epsilon": _finite(found)}
        text += f"\n\nepsilon {found:.10g} at delta {delta:g}"
    if plot is not None:
        from vestry.report.plot import privacy_curve

        privacy_curve(event, title=f"{mechanism}, {parameter.replace('_', ' ')} {value:.4g}", path=plot)
    emit(record, text, as_json=json)


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


app = group("Print a mechanism's Renyi curve and its profile delta(epsilon); touches no data.", EXAMPLES)
add_conjugate(app, curve, "Curve")
linear.add_curves(app, show)
