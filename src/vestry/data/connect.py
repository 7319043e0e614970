"""Where records are: a file, a frame in memory, or a table of a database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vestry.data.connection import Source, of_arrow, of_ibis
from vestry.data.csv_reader import Dialect
from vestry.data.databases import SCHEMES, open_table
from vestry.data.dataframes import FRAMES, frame_kind, frame_streams
from vestry.data.files import SUFFIXES, file_kind, files_at, open_file
from vestry.data.redaction import quietly
from vestry.errors import InvalidParameter
from vestry.schema.domain import Domain, Levels

WAYS = (
    '"records.parquet", a folder of such files, "records.csv", "records.arrow", a pandas or Polars DataFrame, a table '
    'of Arrow, "duckdb://FILE/TABLE", "postgresql://USER:${VARIABLE}@HOST/DATABASE/TABLE" or "pyspark://TABLE"'
)


def connect(data: Any, *, columns: Mapping[str, Domain | None] | None = None, dialect: Dialect | None = None) -> Source:
    """Reach the records without reading one. Use it in a `with` statement: leaving it closes what was opened.

    Parameters
    ----------
    data
        A path to `.parquet` (or a folder or pattern of such paths), `.csv`, `.tsv` (each also with `.gz`), `.arrow`,
        `.feather` or `.ipc`; a pandas DataFrame; a Polars DataFrame or LazyFrame; a pyarrow Table, RecordBatch,
        RecordBatchReader (which can be read once) or Dataset; a relation of DuckDB; a Delta table; `duckdb://FILE/TABLE`;
        `postgresql://USER:${VARIABLE}@HOST:PORT/DATABASE/TABLE`; `pyspark://TABLE` or `pyspark://FILE.parquet`; or a
        table expression of Ibis, on a backend that these tests may never have seen.
    columns
        Those that will be read, with their domains (None for a person's); None for all columns.
    dialect
        How a CSV file is written.

    Raises
    ------
    InvalidParameter
        If there is nothing there, or nothing that can be read as a table.
    MissingExtra
        If the driver is not installed.
    """
    kind = kind_of(data)
    named = None if columns is None else tuple(columns)
    levels = {name: domain for name, domain in (columns or {}).items() if isinstance(domain, Levels)}
    exact = [name for name, domain in levels.items() if domain.exact]
    if kind in FRAMES.values():
        failure = InvalidParameter("data", f"a table of {kind}", "one whose columns can be read as values", WAYS)
        return quietly(lambda: of_arrow(kind, frame_streams(data, kind, named, exact), levels), failure)
    if kind == "ibis":
        failure = InvalidParameter("data", "a table of no backend", "a table that a backend holds", WAYS)
        return quietly(lambda: of_ibis(kind, data), failure)
    text = os.fspath(data)
    if kind in SCHEMES:
        return open_table(kind, text)
    return open_file(kind, text, columns=named, levels=levels, dialect=dialect or Dialect())


def is_missing(address: str) -> bool:
    """Tell whether a file of records is not where it should be. Nothing is opened, and a server is not asked."""
    kind = kind_of(address)
    if kind == "duckdb":
        return not Path(address.partition("://")[2]).parent.is_file()
    return kind not in SCHEMES and not files_at(kind, address)


def kind_of(data: Any) -> str:
    """Name what was given: parquet, csv, arrow, pandas, polars, pyarrow, duckdb, postgresql, pyspark, ibis, ..."""
    if isinstance(data, (str, os.PathLike)):
        text = os.fspath(data)
        if isinstance(text, str) and "://" in text:
            scheme = text.partition("://")[0]
            if scheme in SCHEMES:
                return scheme
            raise InvalidParameter("data", f"{scheme}://...", "one of the kinds that Vestry reads", WAYS)
        kind = file_kind(text) if isinstance(text, str) else None
        if kind is not None:
            return kind
        raise InvalidParameter("data", str(text), "a folder, or a file called " + ", ".join(SUFFIXES), WAYS)
    frame = frame_kind(data)
    if frame is not None:
        return frame
    package, name = type(data).__module__.split(".")[0], type(data).__name__
    if package == "ibis" and hasattr(data, "get_backend") and hasattr(data, "schema"):
        return package
    raise InvalidParameter("data", f"a {package}.{name}", "one of the kinds that Vestry reads", WAYS)
