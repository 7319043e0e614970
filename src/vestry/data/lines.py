"""CSV, one record a line: whatever a line holds, it is one record, and it changes no other.

A reader that joins lines inside quotes lets one broken record swallow those after it; one that refuses a broken line
makes an error that tells of it. Here every line that is not blank is a record: fields beyond the named columns are left
out, fields that are not there are missing, bytes that are no text become a sign for that, and an open quote ends with
its line. A line break inside quotes is therefore not supported; Parquet has no such limits, and is faster.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from vestry.errors import InvalidParameter

_BATCH = 50_000

Fields = list[str | None]


def read_lines(file: str, columns: Collection[str] | None) -> Any:
    """Return a stream of the records, the named columns as text; the first line names them all."""
    import pyarrow as pa

    names = _names(file)
    wanted = [place for place, name in enumerate(names) if columns is None or name in columns] or [0]
    schema = pa.schema([(names[place], pa.string()) for place in wanted])

    def batches() -> Iterator[Any]:
        with Path(file).open("rb") as lines:
            next(lines, None)
            while some := [_fields(line, len(names)) for line in islice(lines, _BATCH)]:
                records = [record for record in some if record is not None]
                arrays = [pa.array([record[place] for record in records], pa.string()) for place in wanted]
                yield pa.record_batch(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _names(file: str) -> list[str]:
    """Return the columns' names; one without a name is called by its place."""
    with Path(file).open("rb") as lines:
        first = lines.readline().decode("utf-8-sig")
    names = [name or f"column{place}" for place, name in enumerate(next(csv.reader([first])))]
    if len({name.lower() for name in names}) < len(names):
        raise InvalidParameter("the first line", f"of {file}", "a different name for each column", "a line of names")
    return names


def _fields(line: bytes, size: int) -> Fields | None:
    """Return a line's fields, as many as there are columns; None if it is blank. An empty field is missing."""
    text = line.decode("utf-8", errors="replace").rstrip("\r\n")
    if not text:
        return None
    try:
        found: Fields = [field or None for field in next(csv.reader([text.replace("\r", " ")]), [])]
    except csv.Error:  # a field longer than the reader takes
        found = []
    return found[:size] + [None] * (size - len(found))
