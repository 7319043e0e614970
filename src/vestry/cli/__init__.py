"""The command line: `vestry`. One file per command; everything heavy is imported where it is used."""

from __future__ import annotations

import os
import sys

try:
    from typing import Annotated, NoReturn

    import typer

    from vestry import __version__
    from vestry.cli import (
        audit_command,
        calibrate_command,
        convert_command,
        curve_command,
        init_command,
        ledger_commands,
        posterior_command,
        reproduce_command,
        study_commands,
    )
    from vestry.cli.output import Commands, examples, first_example, refusal, say
except KeyboardInterrupt:  # `main` catches it from here on
    sys.stderr.write("vestry: interrupted; nothing was charged.\n")
    sys.exit(130)

app = typer.Typer(
    help="Differentially private Bayesian data analysis.",
    epilog=examples(
        "vestry init readmissions", "vestry check readmissions/study.toml", "vestry release readmissions/study.toml"
    ),
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init", epilog=init_command.EXAMPLES)(init_command.init)
app.command("check", epilog=study_commands.CHECK_EXAMPLES)(study_commands.check)
app.command("plan", epilog=study_commands.PLAN_EXAMPLES)(study_commands.plan)
app.command("release", epilog=study_commands.RELEASE_EXAMPLES)(study_commands.release)
app.command("report", epilog=study_commands.REPORT_EXAMPLES)(study_commands.report)
app.command("convert", epilog=convert_command.EXAMPLES)(convert_command.convert)
app.add_typer(calibrate_command.app, name="calibrate")
app.add_typer(curve_command.app, name="curve")
app.command("posterior", epilog=posterior_command.EXAMPLES)(posterior_command.posterior)
app.add_typer(audit_command.app, name="audit")
app.command("reproduce", epilog=reproduce_command.EXAMPLES)(reproduce_command.reproduce)
app.add_typer(ledger_commands.app, name="ledger")

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
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
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
