"""The command line: `vestry`. One file per command; everything heavy is imported where it is used."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

try:
    from typing import Annotated, Any

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
    if sys.stderr is not None:
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
# The exit code of what was interrupted, which typer returns too.
_INTERRUPTED = 130
_STANDARD_ERROR = 2
# The exit code of what nobody reads: that of a program which the system's own signal for it ended.
_UNREAD = 141


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
        _open_closed_streams()
        sentence, code = _run()
        if sentence:
            say(f"vestry: {' '.join(sentence.split())}", err=True)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = _UNREAD
    except OSError as error:
        code = 2
        with suppress(OSError):
            say(f"vestry: what this command prints cannot be written ({error.strerror}).", err=True)
    finally:
        _drop_unwritable()
    sys.exit(code)


def _run() -> tuple[str, int]:
    """Run the command; return what is to be said of how it ended, and the exit code."""
    try:
        code = app(standalone_mode=False)
    except _USAGE as error:
        return _misused(error), 2
    except typer.Abort:  # at a question, which comes before any charge
        return "nothing was charged.", _INTERRUPTED
    except KeyboardInterrupt:
        return _interrupted(sys.argv[1:]), _INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as end:  # by which Typer ends where whoever read has gone away
        if isinstance(end.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    except Exception as error:
        return refusal(error), getattr(error, "exit_code", 2)
    if code == _INTERRUPTED:
        return _interrupted(sys.argv[1:]), code
    return "", code if isinstance(code, int) else 0


def _open_closed_streams() -> None:
    """Let nothing else take the place of a standard stream that is closed: a ledger could be opened in it.

    Of a closed output it is said before anything is done; whoever is told nothing by a closed error has the exit code.
    """
    handle = 0
    while handle <= _STANDARD_ERROR:  # the system gives the lowest number that is free
        handle = os.open(os.devnull, os.O_RDWR)
    os.close(handle)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, "r", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
        say("vestry: standard output is closed, and nothing was done; write >/dev/null if nobody reads it.", err=True)
        raise BrokenPipeError


def _drop_unwritable() -> None:
    """Drop what cannot be written: Python would try again at its end, and complain."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None or stream.closed:
            continue
        try:
            stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)


def _misused(error: Exception) -> str:
    """Say what is wrong with a call, and show a right one where the command is known."""
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
