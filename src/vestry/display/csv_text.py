"""Tables as CSV: numbers with all of their digits, and texts that a spreadsheet shows and never runs.

A spreadsheet takes a cell for a formula if it begins with `=`, `+`, `-` or `@`, quoted or not. It may divide a line at
other marks than we do, so what follows such a mark counts as a beginning too. A text like that gets an apostrophe
before it, by which spreadsheets mark text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from vestry.errors import printable

Cell = str | float

# A mark that begins a formula, in its full width too, where a cell begins or may begin.
_FORMULA = re.compile(r"(\A|[;|])(\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


def csv_text(rows: Iterable[Sequence[Cell]]) -> str:
    """Return rows as lines of CSV."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerows([_cell(cell) for cell in row] for row in rows)
    return written.getvalue()


def _cell(cell: Cell) -> str:
    """Return a number as it is, and a text on one line, without what a terminal or a spreadsheet would obey."""
    if not isinstance(cell, str):
        return repr(float(cell))
    line = printable(cell).replace("\n", r"\n")
    return _FORMULA.sub(r"\1\2'", line)
