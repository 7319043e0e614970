"""A command of several mechanisms, each with its own options: `vestry calibrate MECHANISM ...`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from vestry.cli.conjugate_options import Conjugate
from vestry.cli.mechanism_options import MechanismOption
from vestry.cli.options import expand_dataclass_options, option_name
from vestry.cli.output import Commands, examples
from vestry.cli.regression_options import Gibbs, Glm, Langevin, Objective, Output
from vestry.errors import InvalidParameter


@dataclass(frozen=True)
class Listing:
    """A mechanism in words, its options, and an example of them, of a guarantee and of its parameter's value.

    Options that play no part in it are `idle`.
    """

    words: str
    options: type[MechanismOption]
    example: str
    guarantee: str
    parameter: str
    value: str
    idle: tuple[str, ...] = ()


_BETA = "--family beta-bernoulli --prior 6,12 --n 100"
_BOTH = "epsilon=1,delta=1e-5"
_NOISE, _DRAWN = ("draws", "truncation", "analysis"), ("truncation", "grid")
CONJUGATE = {
    "laplace": Listing("integer noise P(k) ~ exp(-|k|/scale) on the statistics",
                     Conjugate, "--family beta-bernoulli --n 100", "epsilon=1", "scale", "10", _NOISE),
    "gaussian": Listing("integer noise round(N(0, scale^2)) on the statistics",
                      Conjugate, "--family beta-bernoulli --n 100", "mu=0.2", "scale", "5", _NOISE),
    "discrete-gaussian": Listing("integer noise P(k) ~ exp(-k^2/(2 scale^2)) on the statistics",
                      Conjugate, "--family beta-bernoulli --n 100", "rho=0.02", "scale", "5", _NOISE),
    "direct": Listing("draws from the posterior itself",
                    Conjugate, _BETA, "order=2,epsilon=0.2", "likelihood_power", "1", _DRAWN),
    "diffused": Listing("draws from the posterior with the likelihood to a power",
                      Conjugate, _BETA, _BOTH, "likelihood_power", "0.5", _DRAWN),
    "concentrated": Listing("draws from the posterior with the prior to a power",
                          Conjugate, _BETA, _BOTH, "prior_scale", "0.3", _DRAWN),
    "ops": Listing("draws from the truncated posterior at a temperature",
                 Conjugate, f"{_BETA} --truncation 0.2", "epsilon=1", "temperature", "2.8", ("analysis", "grid")),
}  # fmt: skip
_GLM = "--n 1000 --norm 1 --prior-precision 0.001"
GLM = {
    "glm-concentrated": Listing("draws from a linear model's posterior, by its prior precision (algorithm 4)",
                              Glm, _GLM, _BOTH, "prior_precision", "0.05"),
    "glm-diffused": Listing("draws from a linear model's posterior, the likelihood to a power up to 1 (algorithm 5)",
                          Glm, _GLM, _BOTH, "likelihood_power", "0.5"),
}  # fmt: skip
LANGEVIN = {
    "langevin": Listing("a Langevin chain of finitely many steps", Langevin,
                      "--lipschitz 1 --strong-convexity 1 --smoothness 10 --steps 10 --step-size 0.1",
                      "", "likelihood_power", "1"),
}  # fmt: skip
LINEAR = {
    "gibbs": Listing("draws from a Gibbs posterior with the likelihood to a power",
                   Gibbs, "--lipschitz 1 --strong-convexity 100", _BOTH, "likelihood_power", "0.5"),
    "objective": Listing("the minimum of losses with a random linear term of standard deviation scale",
                       Objective, "--lipschitz 1 --smoothness 0.25 --regularisation 10", _BOTH, "scale", "5"),
    "output": Listing("the minimum of losses plus noise of standard deviation scale",
                    Output, "--lipschitz 1 --regularisation 10", _BOTH, "scale", "0.5"),
}  # fmt: skip


class Mechanisms(Commands):
    """Names the mechanisms it knows when it is given another one."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a mechanism's command, or refuse with the names there are."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            raise InvalidParameter("MECHANISM", cmd_name, "one of " + ", ".join(self.commands), "for example laplace")
        return command


def group(help_: str, epilog: str) -> typer.Typer:
    """Return a command that has mechanisms below it."""
    return typer.Typer(help=help_, epilog=epilog, cls=Mechanisms, no_args_is_help=True, rich_markup_mode="rich")


def add(app: typer.Typer, verb: str, command: Callable[..., None], entries: Mapping[str, Listing], ending: str) -> None:
    """Add one command for each mechanism, from a function of its options; `ending` ends its example.

    An option `at`, its parameter's value, is also called by its parameter.
    """
    for name, entry in entries.items():
        end = ending.format(**vars(entry), option=option_name(entry.parameter))
        line = f"vestry {verb} {name} {entry.example} {end}".rstrip()
        description = f"{verb.capitalize()}: {entry.words}.\n\n{inspect.getdoc(command)}"
        known = {"mechanism": name, "parameter": entry.parameter}
        run = expand_dataclass_options(command, entry.options, known, idle=entry.idle, also={"at": entry.parameter})
        app.command(name, help=description, epilog=examples(line))(run)
