"""Files of records: Parquet, CSV and Arrow, read by DuckDB where they are."""

from __future__ import annotations

import csv
import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vestry.data.engine import Source, of_arrow, of_duckdb
from vestry.data.expression import Expression
from vestry.data.quiet import quietly
from vestry.errors import InvalidParameter

SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def open_file(kind: str, path: str) -> Source:
    """Open a file, or every Parquet file that a pattern matches."""
    files = _files(kind, path)
    failure = InvalidParameter("data", path, f"a file that can be read as {kind}", "the path of one that is whole")
    readers: dict[str, Callable[[], Source]] = {
        "parquet": lambda: of_duckdb(kind, lambda backend: _parquet(backend, files)),
        "csv": lambda: of_duckdb(kind, lambda backend: _csv(backend, files[0])),
        "arrow": lambda: of_arrow(kind, _arrow(files[0])),
    }
    return quietly(readers[kind], failure)


def _files(kind: str, path: str) -> list[str]:
    given = Path(path).expanduser()
    if given.is_file():
        return [str(given)]
    found = sorted(glob.glob(str(given))) if kind == "parquet" and glob.has_magic(path) else []  # noqa: PTH207 - anchored or not
    if not found:
        raise InvalidParameter("data", path, "a file that exists", "the path of the records, or move them there")
    return found


def _parquet(backend: Any, files: list[str]) -> Expression:
    # DuckDB takes a column for free of NaN unless told otherwise, because a file's statistics do not count them.
    return backend.read_parquet([glob.escape(file) for file in files], can_have_nan=True)


def _csv(backend: Any, file: str) -> Expression:
    """Read every column as text, with commas and double quotes; the first line names the columns.

    Nothing is guessed from the records: a guess would depend on them. An empty field is missing.
    """
    with Path(file).open("rb") as lines:
        first = lines.readline().decode("utf-8-sig")
    names = [name or f"column{place}" for place, name in enumerate(next(csv.reader([first])))]
    if len({name.lower() for name in names}) < len(names):
        raise InvalidParameter("the first line", f"of {file}", "a different name for each column", "a line of names")
    return backend.read_csv(
        glob.escape(file),
        auto_detect=False,
        header=True,
        columns=dict.fromkeys(names, "VARCHAR"),
        delim=",",
        quote='"',
        escape='"',
        nullstr="",
    )


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
