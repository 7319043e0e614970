"""Files of records: Parquet, CSV and Arrow."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from vestry.data.arrow_values import clean_stream
from vestry.data.connection import Source, of_arrow, of_duckdb, quietly, register
from vestry.data.csv_reader import Dialect, read_csv
from vestry.data.dataframes import Stream, frame_streams
from vestry.data.parquet_files import Group, groups, parquet_files
from vestry.data.text_value import Expression
from vestry.errors import InvalidParameter
from vestry.schema.domain import Levels

SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def file_kind(path: str) -> str | None:
    """Name what a path leads to: by its suffix, or Parquet if it is a folder; None if neither says."""
    lower = path.lower()
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if lower.endswith(suffix):
            return SUFFIXES[suffix]
    return "parquet" if path.endswith(("/", "/**")) or Path(path).expanduser().is_dir() else None


def open_file(
    kind: str,
    path: str,
    *,
    columns: Collection[str] | None,
    levels: Mapping[str, Levels],
    dialect: Dialect,
) -> Source:
    """Open a file, a folder of Parquet files or those that a pattern matches; the named columns of it.

    Parameters
    ----------
    kind, path
        What it is, and where.
    columns
        Those that will be read; None for all.
    levels
        What is declared of columns of levels.
    dialect
        How a CSV file is written.
    """
    files = files_at(kind, path)
    if not files:
        raise InvalidParameter("data", path, "a file that exists", "the path of the records, or move them there")
    whole = "the path of one that is whole" + (", text in UTF-8 below a line of names" if kind == "csv" else "")
    failure = InvalidParameter("data", path, f"a file that can be read as {kind}", whole)

    def opened() -> Source:
        if kind == "parquet":
            return _parquet(groups(files, Path(path).expanduser(), columns, levels), levels)
        exact = [name for name, domain in levels.items() if domain.exact]
        streams = _csv(files[0], columns, dialect) if kind == "csv" else _arrow(files[0], columns, exact)
        return of_arrow(kind, streams, levels)

    return quietly(opened, failure)


def files_at(kind: str, path: str) -> list[str]:
    """Return the file at a path, or every Parquet file of a folder or pattern; none if there is none."""
    given = Path(path).expanduser()
    if kind == "parquet":
        return parquet_files(given)
    return [str(given)] if given.is_file() else []


def _parquet(parts: list[Group], levels: Mapping[str, Levels]) -> Source:
    """Let DuckDB read files of numbers alone, and hand it the records of others."""

    def expressions(backend: Any) -> Iterator[Expression]:
        for part in parts:
            if part.plain:
                yield _numbers(backend, part)
            else:
                yield register(backend, clean_stream(part.schema, part.batches(), levels))

    return of_duckdb("parquet", lambda backend: list(expressions(backend)), clean=True)


def _numbers(backend: Any, part: Group) -> Expression:
    # DuckDB takes a column for free of NaN unless told otherwise, because a file's statistics do not count them.
    files = [glob.escape(file) for file in part.files]
    table = backend.read_parquet(files, can_have_nan=True, hive_partitioning=False)
    return table.select(*part.schema.names)


def _csv(file: str, columns: Collection[str] | None, dialect: Dialect) -> list[Stream]:
    reader = read_csv(file, columns, dialect)
    return [(reader.schema, reader)]


def _arrow(file: str, columns: Collection[str] | None, exact: Collection[str]) -> list[Stream]:
    """Return a file of the Arrow format, or a stream of it, in pieces."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    with Path(file).open("rb") as opened:
        in_pieces = opened.read(6) == b"ARROW1"
    if in_pieces:
        return frame_streams(ds.dataset(file, format="ipc"), "pyarrow-dataset", columns, exact)
    return frame_streams(pa.ipc.open_stream(pa.OSFile(file)), "pyarrow-reader", columns, exact)
