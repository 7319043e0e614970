"""`vestry curve`: from a mechanism's parameter to its privacy curve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from vestry.cli.mechanism_commands import CONJUGATE, LANGEVIN, LINEAR, add, group
from vestry.cli.mechanism_options import MechanismOption
from vestry.cli.options import Plot, numbers, option_name
from vestry.cli.output import Json, emit, examples, working
from vestry.errors import InvalidParameter

if TYPE_CHECKING:
    from vestry.privacy.event import Event

EXAMPLES = examples(
    "vestry curve diffused --family beta-bernoulli --prior 6,12 --n 100 --at 0.5 --orders 2,5,10"
    " --epsilons 0.5,1 --json",
    "vestry curve laplace --family beta-bernoulli --n 100 --scale 10 --plot curve.png",
    "vestry curve objective --lipschitz 1 --smoothness 0.25 --regularisation 1 --at 3 --neighbours add-remove"
    " --delta 1e-5",
)


def curve(
    given: MechanismOption,
    at: Annotated[float | None, Option(help="What calibrate finds; 1 if omitted for direct and langevin.")] = None,
    guarantee: Annotated[str | None, Option(help="Calibrate to this first, instead of --at.")] = None,
    orders: Annotated[str, Option(help="Renyi orders, separated by commas.")] = "1.5,2,3,5,10,20,50",
    epsilons: Annotated[str, Option(help="Epsilons of the profile, separated by commas.")] = "0.1,0.25,0.5,1,2,4",
    delta: Annotated[float | None, Option(help="Also print epsilon at this delta.")] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Print its Renyi curve and its profile delta(epsilon); an order without a bound is inf (null). Reads no data."""
    from vestry.numerics import format_up
    from vestry.privacy import accountant
    from vestry.privacy.guarantee import decimal

    if delta is not None and not 0 < delta < 1:
        raise InvalidParameter("delta", delta, "between 0 and 1", "delta=1e-6")
    with working("computing the curve"):
        value, event = _choose(given, at, guarantee)
        bound = accountant.curve(event)
        renyi = [{"order": a, "epsilon": _finite(bound(a))} for a in numbers("--orders", orders, "2,5,10")]
        profile = [{"epsilon": e, "delta": accountant.delta(event, e)} for e in numbers("--epsilons", epsilons, "1,2")]
        text = _table(renyi, profile)
        record = {"mechanism": given.mechanism, "parameter": given.parameter, "value": value}
        record |= {"renyi": renyi, "profile": profile}
        if delta is not None:
            epsilon = accountant.epsilon(event, delta)
            record["at_delta"] = {"delta": delta, "epsilon": _finite(epsilon)}
            text += f"\n\nepsilon {format_up(epsilon, digits=10)} at delta {decimal(delta)}"
        if plot is not None:
            from vestry.display.plotting import privacy_curve

            privacy_curve(event, title=f"{given.mechanism}, {given.parameter.replace('_', ' ')} {value:.4g}", path=plot)
    emit(record, text, as_json=json)


def _choose(given: MechanismOption, at: float | None, guarantee: str | None) -> tuple[float, Event]:
    """Return the parameter's value and what runs at it: as given, or calibrated."""
    if guarantee is not None:
        if at is not None:
            raise InvalidParameter("--at", at, "omitted where --guarantee is given", "one of the two")
        calibration = given.calibrated(guarantee)
        return calibration.value, calibration.event
    value = given.default_value if at is None else at
    if value is None:
        instead = f"{option_name(given.parameter)} 0.5, or --guarantee epsilon=1,delta=1e-6"
        raise InvalidParameter("--at", None, f"given: the {given.parameter}", instead)
    return value, given.event(value)


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def _table(renyi: list[dict[str, Any]], profile: list[dict[str, Any]]) -> str:
    lines = [f"{'order':>10} {'epsilon':>14}"]
    lines += [f"{row['order']:>10g} {_up(row['epsilon']):>14}" for row in renyi]
    lines += ["", f"{'epsilon':>10} {'delta':>14}"]
    lines += [f"{row['epsilon']:>10g} {_up(row['delta']):>14}" for row in profile]
    return "\n".join(lines)


app = group("Print a mechanism's Renyi curve and its profile delta(epsilon). Reads no data.", EXAMPLES)
add(app, "curve", curve, {**CONJUGATE, **LINEAR, **LANGEVIN}, "{option} {value}")


def _up(bound: float | None) -> str:
    from vestry.numerics import format_up

    return format_up(math.inf if bound is None else bound, digits=8)
