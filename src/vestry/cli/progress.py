"""What long work shows while it runs: its name and how long it has taken, on a terminal's standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vestry.errors import printable


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
