"""Where records are: a file, a frame in memory, or a table of a database."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from vestry.data.engine import Source, of_arrow, of_ibis
from vestry.data.file import SUFFIXES, files_at, open_file
from vestry.data.frame import FRAMES, to_arrow
from vestry.data.quiet import quietly
from vestry.data.server import SCHEMES, open_table
from vestry.errors import InvalidParameter

WAYS = (
    '"records.parquet", "records.csv", "records.arrow", a pandas or Polars DataFrame, a pyarrow Table, '
    '"duckdb://FILE/TABLE", "postgresql://USER:${VARIABLE}@HOST/DATABASE/TABLE" or "pyspark://TABLE"'
)


def connect(data: Any, *, columns: Collection[str] | None = None) -> Source:
    """Reach the records without reading one. Use it in a `with` statement: leaving it closes what was opened.

    Parameters
    ----------
    data
        A path to `.parquet` (or a pattern of such paths), `.csv` or `.arrow`, `.feather`, `.ipc`; a pandas or Polars
        DataFrame; a pyarrow Table; `duckdb://FILE/TABLE`; `postgresql://USER:${VARIABLE}@HOST:PORT/DATABASE/TABLE`;
        `pyspark://TABLE` or `pyspark://FILE.parquet`; or a table expression of Ibis, on a backend that these tests may
        never have seen.
    columns
        Those that will be read, of a frame in memory; None for all. A file or a database sees to that itself.

    Raises
    ------
    InvalidParameter
        If there is nothing there, or nothing that can be read as a table.
    MissingExtra
        If the driver is not installed.
    """
    kind = kind_of(data)
    if kind in FRAMES:
        failure = InvalidParameter("data", f"a table of {kind}", "one whose columns can be read as values", WAYS)
        return quietly(lambda: of_arrow(kind, to_arrow(data, kind, columns)), failure)
    if kind == "ibis":
        failure = InvalidParameter("data", "a table of no backend", "a table that a backend holds", WAYS)
        return quietly(lambda: of_ibis(kind, data), failure)
    text = os.fspath(data)
    if kind in SCHEMES:
        return open_table(kind, text)
    return open_file(kind, text, columns)


def is_missing(address: str) -> bool:
    """Tell whether a file of records is not where it should be. Nothing is opened, and a server is not asked."""
    kind = kind_of(address)
    if kind == "duckdb":
        return not Path(address.partition("://")[2]).parent.is_file()
    return kind not in SCHEMES and not files_at(kind, address)


def kind_of(data: Any) -> str:
    """Name what was given: parquet, csv, arrow, pandas, polars, pyarrow, duckdb, postgresql, pyspark or ibis."""
    if isinstance(data, (str, os.PathLike)):
        text = os.fspath(data)
        if isinstance(text, str) and "://" in text:
            scheme = text.partition("://")[0]
            if scheme in SCHEMES:
                return scheme
            raise InvalidParameter("data", f"{scheme}://...", "one of the kinds that Vestry reads", WAYS)
        suffix = Path(text).suffix.lower() if isinstance(text, str) else ""
        if suffix in SUFFIXES:
            return SUFFIXES[suffix]
        raise InvalidParameter("data", str(text), "a file called " + ", ".join(SUFFIXES), WAYS)
    package, name = type(data).__module__.split(".")[0], type(data).__name__
    if (package, name) in {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}:
        return package
    if package == "ibis" and hasattr(data, "get_backend") and hasattr(data, "schema"):
        return package
    raise InvalidParameter("data", f"a {package}.{name}", "one of the kinds that Vestry reads", WAYS)
