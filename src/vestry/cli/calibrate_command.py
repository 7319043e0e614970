"""`vestry calibrate`: from a guarantee to a mechanism's parameter."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from vestry.cli.mechanism_commands import CONJUGATE, GLM, LANGEVIN, LINEAR, add, group
from vestry.cli.mechanism_options import CalibrationOption, MechanismOption
from vestry.cli.options import Wanted
from vestry.cli.output import Json, emit, examples, working
from vestry.cli.regression_options import Langevin

EXAMPLES = examples(
    "vestry calibrate diffused --family beta-bernoulli --prior 6,12 --n 100 --guarantee epsilon=1,delta=1e-5 --json",
    "vestry calibrate laplace --family dirichlet-categorical --prior 1,1,1 --neighbours add-remove"
    " --guarantee epsilon=0.5",
    "vestry calibrate gibbs --lipschitz 1 --strong-convexity 100 --guarantee epsilon=1,delta=1e-5",
)


def calibrate(given: MechanismOption, guarantee: Wanted, json: Json = False) -> None:
    """Find the parameter at which it meets the guarantee, rounded to the private side. Reads no data."""
    with working("calibrating"):
        calibration = given.calibrated(guarantee)
    _show(given.mechanism, given.parameter, calibration, as_json=json)


def price(
    given: Langevin,
    likelihood_power: Annotated[float, Option(help="The power of the likelihood.")] = 1.0,
    json: Json = False,
) -> None:
    """Find the exact mu of a chain; of several draws, each takes as many steps. Reads no data."""
    _show(given.mechanism, "mu", given.find_mu(likelihood_power), as_json=json)


def _show(mechanism: str, parameter: str, calibration: CalibrationOption, *, as_json: bool) -> None:
    from vestry.privacy import pld
    from vestry.privacy.guarantee import decimal

    with working("pricing"):
        spent = pld.price(calibration.event, calibration.guarantee)
    record = {
        "mechanism": mechanism,
        "parameter": parameter,
        "value": calibration.value,
        **calibration.details,
        "guarantee": calibration.guarantee.to_dict(),
        "spent": spent.to_dict(),
        "event": calibration.event.to_dict(),
        "theorem": calibration.theorem,
    }
    claim = f"meets {calibration.guarantee} under {calibration.guarantee.neighbours}"
    emit(record, f"{parameter} = {decimal(calibration.value)}\n{claim}", as_json=as_json)


app = group("Find the parameter at which a mechanism meets a guarantee. Reads no data.", EXAMPLES)
add(app, "calibrate", calibrate, {**CONJUGATE, **LINEAR, **GLM}, "--guarantee {guarantee}")
add(app, "calibrate", price, LANGEVIN, "")
