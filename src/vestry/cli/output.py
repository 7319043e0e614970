"""What commands print: one JSON object, or text for people. Nothing else of this room prints what it was given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from vestry.errors import VestryError, printable

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def emit(record: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the record as JSON, or the text."""
    if not as_json:
        say(text)
        return
    try:
        say(json.dumps(record, indent=2, allow_nan=False))
    except ValueError:
        raise VestryError("a result is no finite number, so nothing is printed; write more moderate numbers.") from None


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text, of which a terminal obeys nothing: control characters are written as escapes."""
    typer.echo(printable(text), err=err, nl=nl)


def columns(rows: Sequence[tuple[str, ...]], *, names: int | None = None) -> list[str]:
    """Line up cells to the left; after so many names, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = ["<" if names is None or place < names else ">" for place in range(len(widths))]
    layout = "  ".join(f"{{:{mark}{width}}}" for mark, width in zip(marks, widths, strict=True))
    return [layout.format(*row).rstrip() for row in rows]


def examples(*lines: str) -> str:
    """Lay out the examples that end a command's help."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(line.replace("[", "\\[") for line in lines)


def first_example(epilog: str | None) -> list[str]:
    """Return the first of the examples that were laid out, if there are any."""
    return [line.replace("\\[", "[") for line in (epilog or "").split("\n\n")[1:2]]
