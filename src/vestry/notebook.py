"""How a thing shows itself in a notebook: a small table of names and texts, all of them escaped."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from vestry.errors import printable


def html_table(caption: str, rows: Mapping[str, str]) -> str:
    """Return a table of two columns; a text may come from a file of anyone, and is shown as it stands."""
    lines = (f"<tr><th>{escape(printable(name))}</th><td>{escape(printable(rows[name]))}</td></tr>" for name in rows)
    return f"<table><caption>{escape(printable(caption))}</caption>{''.join(lines)}</table>"
