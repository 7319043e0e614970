"""What commands print: one JSON object, or text for people."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def emit(record: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the record as JSON, or the text."""
    typer.echo(json.dumps(record, indent=2) if as_json else text)


def examples(*lines: str) -> str:
    """Lay out the examples that end a command's help."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(line.replace("[", "\\[") for line in lines)


def first_example(epilog: str | None) -> list[str]:
    """Return the first of the examples that were laid out, if there are any."""
    return [line.replace("\\[", "[") for line in (epilog or "").split("\n\n")[1:2]]
