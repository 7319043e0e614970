"""A command of several mechanisms, each with its own options: `vestry calibrate MECHANISM ...`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperGroup

from vestry.cli.conjugate import Conjugate
from vestry.cli.linear import Gibbs, Glm, Langevin, Objective, Output
from vestry.cli.mechanism import Mechanism
from vestry.cli.option import spread
from vestry.cli.output import examples
from vestry.errors import InvalidParameter


@dataclass(frozen=True)
class Entry:
    """A mechanism in words, its options, and an example of them, of a guarantee and of its parameter's value."""

    words: str
    options: type[Mechanism]
    example: str
    guarantee: str
    value: str


_BETA = "--family beta-bernoulli --prior 6,12 --n 100"
_BOTH = "epsilon=1,delta=1e-5"
CONJUGATE = {
    "laplace": Entry("integer noise P(k) ~ exp(-|k|/scale) on the statistics",
                     Conjugate, "--family beta-bernoulli --n 100", "epsilon=1", "10"),
    "gaussian": Entry("integer noise P(k) ~ exp(-k^2/(2 scale^2)) on the statistics",
                      Conjugate, "--family beta-bernoulli --n 100", "rho=0.02", "5"),
    "direct": Entry("draws from the posterior itself", Conjugate, _BETA, "order=2,epsilon=0.2", "1"),
    "diffused": Entry("draws from the posterior with the likelihood to a power", Conjugate, _BETA, _BOTH, "0.5"),
    "concentrated": Entry("draws from the posterior with the prior to a power", Conjugate, _BETA, _BOTH, "0.3"),
    "ops": Entry("draws from the truncated posterior at a temperature",
                 Conjugate, f"{_BETA} --truncation 0.2", "epsilon=1", "2.8"),
}  # fmt: skip
_GLM = "--n 1000 --norm 1 --prior-precision 0.001"
GLM = {
    "glm-concentrated": Entry("draws from a linear model's posterior, by its prior precision (algorithm 4)",
                              Glm, _GLM, _BOTH, "0.05"),
    "glm-diffused": Entry("draws from a linear model's posterior, the likelihood to a power up to 1 (algorithm 5)",
                          Glm, _GLM, _BOTH, "0.5"),
}  # fmt: skip
LANGEVIN = {
    "langevin": Entry("a Langevin chain of finitely many steps", Langevin,
                      "--lipschitz 1 --strong-convexity 1 --smoothness 10 --steps 10 --step-size 0.1", "", "1"),
}  # fmt: skip
LINEAR = {
    "gibbs": Entry("draws from a Gibbs posterior with the likelihood to a power",
                   Gibbs, "--lipschitz 1 --strong-convexity 100", _BOTH, "0.5"),
    "objective": Entry("the minimum of losses with a random linear term of standard deviation scale",
                       Objective, "--lipschitz 1 --smoothness 0.25 --regularisation 10", _BOTH, "5"),
    "output": Entry("the minimum of losses plus noise of standard deviation scale",
                    Output, "--lipschitz 1 --regularisation 10", _BOTH, "0.5"),
}  # fmt: skip


class Mechanisms(TyperGroup):
    """Names the mechanisms it knows when it is given another one."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a mechanism's command, or refuse with the names there are."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            raise InvalidParameter("MECHANISM", cmd_name, "one of " + ", ".join(self.commands), "for example laplace")
        return found


def group(help_: str, epilog: str) -> typer.Typer:
    """Return a command that has mechanisms below it."""
    return typer.Typer(help=help_, epilog=epilog, cls=Mechanisms, no_args_is_help=True, rich_markup_mode="rich")


def add(app: typer.Typer, verb: str, command: Callable[..., None], entries: Mapping[str, Entry], ending: str) -> None:
    """Add one command for each mechanism, from a function of its options; `ending` ends its example."""
    for name, entry in entries.items():
        line = f"vestry {verb} {name} {entry.example} {ending.format(**vars(entry))}".rstrip()
        told = f"{verb.capitalize()}: {entry.words}.\n\n{inspect.getdoc(command)}"
        app.command(name, help=told, epilog=examples(line))(spread(command, entry.options, mechanism=name))
