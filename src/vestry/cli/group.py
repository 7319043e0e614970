"""A command of several mechanisms, each with its own options: `vestry calibrate MECHANISM ...`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from vestry.errors import InvalidParameter

# Those that share the options of conjugate families.
CONJUGATE = {
    "laplace": "integer noise P(k) ~ exp(-|k|/scale) on the statistics",
    "gaussian": "integer noise P(k) ~ exp(-k^2/(2 scale^2)) on the statistics",
    "direct": "draws from the posterior itself",
    "diffused": "draws from the posterior with the likelihood to a power",
    "concentrated": "draws from the posterior with the prior to a power",
    "ops": "draws from the truncated posterior at a temperature",
}


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


def add_conjugate(app: typer.Typer, command: Callable[..., None], verb: str) -> None:
    """Add one command for each mechanism of conjugate families, from a function that takes the mechanism's name."""
    signature = inspect.signature(command, eval_str=True)
    given = [each for name, each in signature.parameters.items() if name != "mechanism"]
    for name, words in CONJUGATE.items():

        def run(_name: str = name, **options: Any) -> None:
            command(mechanism=_name, **options)

        run.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in given}
        app.command(name, help=f"{verb}: {words}.\n\n{inspect.getdoc(command)}")(run)
