"""Parquet files, each read by its own types: no file's types rule another's, and folder names are text.

A writer infers types from the values of one file. Files are grouped by the types of the columns that are read, each
group is one part of the table, and the parts are united after they were encoded. What a file lacks is missing there.
Everything is decoded here and not by DuckDB, which fails on bytes that are not UTF-8 and quotes them.

A writer also chooses how a column is encoded by its values: DuckDB and Polars write a dictionary as long as few texts
differ. Arrow decodes every encoding into plain values, and only some into a dictionary of its own. So no dictionary is
asked for, and the Arrow schema that several writers store in a file, which may ask for one, is set aside.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vestry.data.arrow_values import of_arrow
from vestry.data.source import Selection, Source, parquet_files
from vestry.errors import InvalidParameter

_BATCH = 2**17
# Stands for the columns of a table of which none is read: without a column it would have no records. No column is
# called so: names are text without control characters.
NOTHING = "\x1frecords"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# The mark at both ends of a file, and at the end four bytes before it that say how long the footer is.
_MARK = b"PAR1"
_TAIL = 8
# The name under which a writer stores an Arrow schema, as the footer has it: field 1, text, of 12 bytes.
_STORED_SCHEMA = b"\x18\x0cARROW:schema"
_SET_ASIDE = b"\x18\x0cArrow:schema"
# A moment of twelve bytes is read in microseconds: nanoseconds of 64 bits begin in 1677 and end in 2262.
_TWELVE_BYTES = "us"
_COMPRESSIONS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4")


@dataclass(frozen=True)
class ParquetFile:
    """A file of Parquet, or some of its row groups.

    Attributes
    ----------
    open
        Opens its bytes.
    folders
        What the names of its folders say, by name.
    row_groups
        Those that are read; None for all.
    """

    open: Callable[[], Any]
    folders: Mapping[str, str | None]
    row_groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Group:
    """Files whose columns have the same types.

    Attributes
    ----------
    schema
        The columns that are read, as the files have them, and then the names of folders.
    files
        The files.
    """

    schema: Any
    files: tuple[ParquetFile, ...]

    def batches(self) -> Iterator[Any]:
        """Yield the records of every file."""
        for file in self.files:
            columns = [name for name in self.schema.names if name not in file.folders]
            with file.open() as stream, _opened(stream) as parquet:
                yield from self._records(parquet, file, columns)

    def _records(self, parquet: Any, file: ParquetFile, columns: list[str]) -> Iterator[Any]:
        if columns:
            for batch in parquet.iter_batches(_BATCH, row_groups=file.row_groups, columns=columns):
                yield self._completed(file.folders, batch.num_rows, batch)
            return
        metadata = parquet.metadata
        row_groups = range(metadata.num_row_groups) if file.row_groups is None else file.row_groups
        for row_group in row_groups:
            size = metadata.row_group(row_group).num_rows
            for start in range(0, size, _BATCH):
                yield self._completed(file.folders, min(_BATCH, size - start), None)

    def _completed(self, folders: Mapping[str, str | None], size: int, batch: Any) -> Any:
        """Return records with the names of their folders; `batch` has the file's own columns, where any are read."""
        read = set() if batch is None else set(batch.schema.names)
        arrays = []
        for field in self.schema:
            if field.name not in read:
                array = _constant(folders.get(field.name), size)
            elif pa.types.is_duration(field.type):
                array = batch.column(field.name).view(field.type)
            else:
                array = batch.column(field.name)
            arrays.append(array)
        return pa.record_batch(arrays, schema=self.schema)


def open_parquet(path: str, selection: Selection) -> Source:
    """Open a file, a folder of files or those that a pattern matches."""
    root = Path(path).expanduser()
    files = []
    for name in parquet_files(path):
        folders = _folders(name, root, selection.columns)
        files.append(ParquetFile(partial(pa.OSFile, name), folders))
    return of_arrow("parquet", [(group.schema, group.batches()) for group in groups(files, selection)], selection)


def groups(files: Sequence[ParquetFile], selection: Selection) -> list[Group]:
    """Return the files by the types of the columns that are read; a file's own column counts before a folder's name."""
    members: dict[Any, list[ParquetFile]] = {}
    schemas = {}
    for file in files:
        schema = _schema(file, selection)
        folders = {name: value for name, value in file.folders.items() if name not in schema.names}
        if not (folders or len(schema)):
            folders = {NOTHING: None}
        for name in folders:
            schema = schema.append(pa.field(name, pa.dictionary(pa.int32(), pa.string())))
        key = tuple((field.name, str(field.type)) for field in schema)
        schemas[key] = schema
        members.setdefault(key, []).append(ParquetFile(file.open, folders, file.row_groups))
    return [Group(schemas[key], tuple(members[key])) for key in schemas]


def _schema(file: ParquetFile, selection: Selection) -> Any:
    """Return the columns that are read, by Parquet's own types."""
    with file.open() as stream, _opened(stream) as parquet:
        stored = pq.read_schema(pa.BufferReader(_footer(stream)))
        fields = {name: parquet.schema_arrow.field(name) for name in selection.pick(parquet.schema_arrow.names)}
        _check_compression(parquet.metadata, fields)
    # Parquet has no type for a duration: its unit is all that is taken from the stored schema.
    units = {field.name: field for field in stored if pa.types.is_duration(field.type)}
    return pa.schema(
        [units[name] if name in units and pa.types.is_int64(field.type) else field for name, field in fields.items()]
    )


def _check_compression(metadata: Any, names: Collection[str]) -> None:
    """Refuse a file whose columns are compressed in a way that Arrow does not know."""
    for row_group in range(metadata.num_row_groups):
        chunks = metadata.row_group(row_group)
        for place in range(metadata.num_columns):
            chunk = chunks.column(place)
            if chunk.path_in_schema in names and chunk.compression not in _COMPRESSIONS:
                allowed = "compressed with Snappy, gzip, Brotli, Zstandard or LZ4, or not at all"
                raise InvalidParameter("data", f"compressed with {chunk.compression}", allowed, "the file again")


def _opened(stream: Any) -> Any:
    """Return a reader of a file that takes every column as Parquet's own schema has it."""
    footer = _footer(stream).replace(_STORED_SCHEMA, _SET_ASIDE)
    metadata = pq.read_metadata(pa.BufferReader(footer))
    return pq.ParquetFile(stream, metadata=metadata, coerce_int96_timestamp_unit=_TWELVE_BYTES)


def _footer(stream: Any) -> bytes:
    """Return the footer of a file, as that of a file without records."""
    size = stream.size()
    tail = stream.read_at(_TAIL, size - _TAIL)
    length = int.from_bytes(tail[:4], "little")
    footer: bytes = stream.read_at(length + _TAIL, size - length - _TAIL)
    return _MARK + footer


def _folders(file: str, root: Path, columns: Collection[str] | None) -> dict[str, str | None]:
    """Return what the names of folders say, as text: `ward=A/part.parquet` has a column ward."""
    folders: dict[str, str | None] = {}
    for part in Path(file).parent.parts[len(_fixed(root).parts) :]:
        name, equals, value = part.partition("=")
        if equals and name and (columns is None or unquote(name) in columns):
            folders[unquote(name)] = None if value == _NO_VALUE else unquote(value, errors="replace")
    return folders


def _fixed(root: Path) -> Path:
    """Return the part of a path before the first mark of a pattern; a file's own folders have no names."""
    if root.is_dir():
        return root
    if root.is_file():
        return root.parent
    fixed = [part for index, part in enumerate(root.parts) if not any(map(glob.has_magic, root.parts[: index + 1]))]
    return Path(*fixed) if fixed else Path()


def _constant(value: str | None, size: int) -> Any:
    indices = pa.array(np.zeros(size, np.int32), pa.int32(), mask=np.full(size, value is None))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value or ""], pa.string()))
