"""What commands print: one JSON object, or text for people. Nothing else of this room prints what it was given.

What long work shows while it runs: its name and how long it has taken, on a terminal's standard error.

One sentence for whatever went wrong: of what was not foreseen, the kind and the place, and never a value.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from vestry.errors import VestryError, printable

# The narrowest column that is broken at words.
_NARROWEST = 10
Json = Annotated[bool, Option("--json", help="Print one JSON object.")]


def emit(record: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the record as JSON, or the text."""
    if not as_json:
        say(text)
        return
    try:
        typer.echo(printable(json.dumps(record, indent=2, allow_nan=False)))
    except ValueError:
        reason = "a result is not a finite number, so nothing is printed; write more moderate numbers."
        raise VestryError(reason) from None


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print sentences, broken at words in a terminal, which obeys nothing of them: control characters are escaped.

    A line that begins with a space is laid out already, or is a command to copy, and stays as it is.
    """
    width = _width(sys.stderr if err else sys.stdout)
    lines = [line for each in printable(text).split("\n") for line in _broken(each, width)]
    typer.echo("\n".join(lines), err=err, nl=nl)


def _width(stream: Any) -> int | None:
    """Return how wide a terminal is, or COLUMNS if that is set; None where lines may be of any length."""
    if "COLUMNS" in os.environ or stream.isatty():
        return max(2 * _NARROWEST, shutil.get_terminal_size().columns)
    return None


def _broken(line: str, width: int | None) -> list[str]:
    if width is None or len(line) <= width or line.startswith(" "):
        return [line]
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)


def columns(rows: Sequence[tuple[str, ...]], *, names: int | None = None, indent: int = 0) -> list[str]:
    """Line up cells to the left; after so many names, numbers to the right. The last cell is broken in a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = ["<" if names is None or place < names else ">" for place in range(len(widths))]
    layout = "  ".join(f"{{:{mark}{width}}}" for mark, width in zip(marks, widths, strict=True))
    start, whole = indent + sum(widths[:-1]) + 2 * (len(widths) - 1), _width(sys.stdout)
    room = None if whole is None or whole - start < _NARROWEST else whole - start
    lines = []
    for row in rows:
        first, *more = _broken(row[-1], room)
        lines += [layout.format(*row[:-1], first), *(" " * (start - indent) + piece for piece in more)]
    return [" " * indent + line.rstrip() for line in lines]


def short(value: float, digits: int = 4) -> str:
    """Write a number to so many digits; a large one to its last whole digit, since a count is read as one."""
    return f"{value:.0f}" if 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"


def interval_note(row: dict[str, Any]) -> str:
    """Say what is wrong with one interval, beside it; nothing if all is well."""
    from vestry.posterior.reader import NOT_CALIBRATED

    wrong = NOT_CALIBRATED if NOT_CALIBRATED in row["interval_method"] else ""
    return "; ".join(filter(None, (wrong, row.get("note", ""))))


def examples(*lines: str) -> str:
    """Lay out the examples that end a command's help."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(line.replace("[", "\\[") for line in lines)


def first_example(epilog: str | None) -> list[str]:
    """Return the first of the examples that were laid out, if there are any."""
    return [line.replace("\\[", "[") for line in (epilog or "").split("\n\n")[1:2]]


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show what runs; what is yielded renames it. Never how many rows, and nothing where no terminal looks on."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(what), total=None)
        yield lambda what: bar.update(task, description=printable(what))


class Commands(TyperGroup):
    """Shows each option with a word for its value, in its own help and in that of the commands below it."""

    def get_params(self, ctx: Any) -> Any:
        """Return its own options."""
        return _worded(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command below it; each paragraph of its help is one line, which a terminal breaks."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _worded(command.get_params(ctx))
            command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
        return command


# What to write for an option; a number where nothing is said.
_WORDS = {
    "guarantee": "GUARANTEE", "budget": "GUARANTEE", "to": "GUARANTEE", "neighbours": "NEIGHBOURS",
    "to_neighbours": "NEIGHBOURS", "unit": "UNIT", "family": "FAMILY", "dataset": "NAME", "who": "NAME",
    "analysis": "NAME", "count": "NAME", "purpose": "SENTENCE", "reason": "SENTENCE", "head": "HASH",
    "prior": "NUMBERS", "orders": "NUMBERS", "epsilons": "NUMBERS", "steps": "NUMBERS", "step_size": "NUMBERS",
    "plot": "FILE", "output": "FOLDER", "data": "FOLDER",
}  # fmt: skip


def _usage(argument: Any, ctx: Any) -> list[str]:
    """Return an argument as a line of usage has it, without the braces of those that are required."""
    return [each.replace("{", "").replace("}", "") for each in type(argument).get_usage_pieces(argument, ctx)]


def _worded(options: Any) -> Any:
    for each in options:
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None  # its name says what it is
            each.get_usage_pieces = partial(_usage, each)
        elif getattr(each, "is_flag", False):
            each.metavar = ""
        elif each.metavar is None:
            each.metavar = _WORDS.get(each.name, "NUMBER")
    return options
