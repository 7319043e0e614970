"""Files of records: Parquet, CSV and Arrow, read by DuckDB where they are."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from vestry.data.csv_reader import read_csv
from vestry.data.engine import Source, of_arrow, of_duckdb
from vestry.data.expression import Expression
from vestry.data.quiet import quietly
from vestry.errors import InvalidParameter

SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def open_file(kind: str, path: str, columns: Collection[str] | None) -> Source:
    """Open a file, or every Parquet file that a pattern matches; of a CSV file the named columns."""
    files = files_at(kind, path)
    if not files:
        raise InvalidParameter("data", path, "a file that exists", "the path of the records, or move them there")
    whole = "the path of one that is whole" + (", text in UTF-8 below a line of names" if kind == "csv" else "")
    failure = InvalidParameter("data", path, f"a file that can be read as {kind}", whole)
    readers: dict[str, Callable[[], Source]] = {
        "parquet": lambda: of_duckdb(kind, lambda backend: _parquet(backend, files)),
        "csv": lambda: of_arrow(kind, read_csv(files[0], columns)),
        "arrow": lambda: of_arrow(kind, _arrow(files[0])),
    }
    return quietly(readers[kind], failure)


def files_at(kind: str, path: str) -> list[str]:
    """Return the file at a path, or every Parquet file that a pattern matches; none if there is none."""
    given = Path(path).expanduser()
    if given.is_file():
        return [str(given)]
    return sorted(glob.glob(str(given))) if kind == "parquet" and glob.has_magic(path) else []  # noqa: PTH207 - anchored or not


def _parquet(backend: Any, files: list[str]) -> Expression:
    # DuckDB takes a column for free of NaN unless told otherwise, because a file's statistics do not count them.
    return backend.read_parquet([glob.escape(file) for file in files], can_have_nan=True)


def _arrow(file: str) -> Any:
    """Return a file of the Arrow format that is read in pieces, or else a stream of it, read at once."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    with Path(file).open("rb") as opened:
        in_pieces = opened.read(6) == b"ARROW1"
    if in_pieces:
        return ds.dataset(file, format="ipc")
    with pa.OSFile(file) as opened:
        return pa.ipc.open_stream(opened).read_all()
