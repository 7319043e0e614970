"""CSV as writers make it (RFC 4180): whatever a record holds, reading it is no error.

A quoted field may hold commas, quotes and line breaks, so that a text of several lines is still one record. Fields
beyond the named columns are left out, fields that are not there are missing, and bytes that are no text become a sign
for that. A quote that is never closed swallows what follows it; no CSV writer leaves one. Parquet has no such limits,
and is faster.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from vestry.errors import InvalidParameter

_BATCH = 50_000
# A field may be as long as it likes: a limit would be an error that tells of it.
_LONGEST = 2**31 - 1
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_csv(file: str, columns: Collection[str] | None) -> Any:
    """Return a stream of the records, the named columns as text; the first record names them all."""
    import pyarrow as pa

    names = _names(file)
    if columns and not set(columns) & set(names):
        _check_commas(file, names)
    wanted = [place for place, name in enumerate(names) if columns is None or name in columns] or [0]
    schema = pa.schema([(names[place], pa.string()) for place in wanted])

    def batches() -> Iterator[Any]:
        records = _records(file)
        next(records, None)
        while some := list(islice(records, _BATCH)):
            arrays = [pa.array([_field(record, place) for record in some], pa.string()) for place in wanted]
            yield pa.record_batch(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _records(file: str) -> Iterator[list[str]]:
    """Yield the fields of every record; a blank line is none."""
    csv.field_size_limit(_LONGEST)
    with Path(file).open(encoding="utf-8-sig", errors="replace", newline="") as text:
        yield from filter(None, csv.reader(text))


def _names(file: str) -> list[str]:
    """Return the columns' names; one without a name is called by its place."""
    with Path(file).open("rb") as lines:
        lines.readline().decode("utf-8")  # a file that is no text is refused by its first line
    first: list[str] = next(_records(file), [])
    names = [name or f"column{place}" for place, name in enumerate(first)]
    if len({name.lower() for name in names}) < len(names):
        raise InvalidParameter("the first line", f"of {file}", "a different name for each column", "a line of names")
    return names


def _check_commas(file: str, names: list[str]) -> None:
    """Refuse a file with another separator. Its first line is not shown: without a line of names it is a record."""
    for mark, named in _SEPARATORS.items():
        if len(names) == 1 and mark in names[0]:
            allowed = f"a file whose fields are separated by commas (its first line has {named} and no comma)"
            raise InvalidParameter("data", file, allowed, "the file again with commas, or as Parquet")


def _field(record: list[str], place: int) -> str | None:
    """Return a field; None where it is empty or not there."""
    return record[place] or None if place < len(record) else None
