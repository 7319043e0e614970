"""The command line: `vestry`. One file per command; everything heavy is imported where it is used."""

from __future__ import annotations

import os
import sys

try:
    from typing import Annotated, Any, NoReturn

    import typer
    from typer import Option

    from vestry import __version__
    from vestry.cli import (
        audit_command,
        calibrate_command,
        convert_command,
        curve_command,
        init_command,
        ledger_commands,
        open_command,
        posterior_command,
        study_commands,
    )
    from vestry.cli.output import Commands, examples, first_example, say
    from vestry.errors import Interrupted, VestryError, refusal
except KeyboardInterrupt:  # `main` catches it from here on
    sys.stderr.write("vestry: interrupted; nothing was charged.\n")
    sys.exit(130)


class _Everything(Commands):
    """Lists the commands by what they are for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the panels."""
        return [name for names in _PANELS.values() for name in names]

    def invoke(self, ctx: Any) -> Any:
        """Run a command; of an interrupt that says what it left, what it says is kept."""
        try:
            return super().invoke(ctx)
        except Interrupted as interrupt:
            raise _CommandInterruptedError(str(interrupt)) from None


class _CommandInterruptedError(VestryError):
    """Ends a command as an interrupt does: Typer keeps nothing of an interrupt but its exit code."""

    exit_code = 130


_PANELS: dict[str, dict[str, Any]] = {
    "Study": {
        "init": (init_command.init, init_command.EXAMPLES),
        "check": (study_commands.check, study_commands.CHECK_EXAMPLES),
        "plan": (study_commands.plan, study_commands.PLAN_EXAMPLES),
        "release": (study_commands.release, study_commands.RELEASE_EXAMPLES),
        "report": (study_commands.report, study_commands.REPORT_EXAMPLES),
        "open": (open_command.open_page, open_command.EXAMPLES),
    },
    "Results": {"posterior": (posterior_command.posterior, posterior_command.EXAMPLES)},
    "Budget": {"ledger": ledger_commands.app},
    "Expert": {
        "calibrate": calibrate_command.app,
        "curve": curve_command.app,
        "convert": (convert_command.convert, convert_command.EXAMPLES),
        "audit": audit_command.app,
    },
}
app = typer.Typer(
    help="Differentially private Bayesian data analysis.",
    epilog=examples(
        "vestry init readmissions", "vestry check readmissions/study.toml", "vestry release readmissions/study.toml"
    ),
    cls=_Everything,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, epilog=_command[1], rich_help_panel=_panel)(_command[0])

# What typer raises for a missing or unknown option; it exports the subclass only.
_USAGE: type[Exception] = typer.BadParameter.__mro__[2]
# Options of 0.1.0 that have another name now.
_RENAMED = {"--level": "--prob"}
# The exit code of what was interrupted, which typer returns too.
_INTERRUPTED = 130


def _version(wanted: bool) -> None:
    if wanted:
        say(f"vestry {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Differentially private Bayesian data analysis."""


def main() -> None:
    """Run the command line; errors are one sentence on standard error, with exit code 2, or 3 for a refused budget."""
    try:
        code = app(standalone_mode=False)
    except _USAGE as error:
        _end(_misused(error), 2)
    except typer.Abort:  # at a question, which comes before any charge
        _end("nothing was charged.", _INTERRUPTED)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:  # whoever read has gone away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _end(refusal(error), getattr(error, "exit_code", 2))
    if code == _INTERRUPTED:
        _end(_interrupted(sys.argv[1:]), code)
    sys.exit(code if isinstance(code, int) else 0)


def _end(sentence: str, code: int) -> NoReturn:
    """Say one sentence on one line, and end."""
    say(f"vestry: {' '.join(sentence.split())}", err=True)
    sys.exit(code)


def _misused(error: Exception) -> str:
    """Say what is wrong with a call, and show a right one where the command is known."""
    option = getattr(error, "option_name", None)
    if option in _RENAMED:
        return f"{option} was renamed: write {_RENAMED[option]}; see --help."
    message = getattr(error, "format_message", lambda: "")().rstrip(".") or "the command is not complete"
    said = f"{message} See --help." if message.endswith("?") else f"{message}; see --help."
    command = getattr(getattr(error, "ctx", None), "command", None)
    shown = [] if hasattr(command, "commands") else first_example(getattr(command, "epilog", None))
    return " For example: ".join([said, *shown])


def _interrupted(arguments: list[str]) -> str:
    """Say what an interrupted command may have left: only a release and a ledger's own commands write charges."""
    if "release" in arguments[:1]:
        return "interrupted; run it again: what was charged and not opened is free."
    if "ledger" in arguments[:1]:
        return "interrupted; see what was written with `vestry ledger show`."
    return "interrupted; nothing was charged."
