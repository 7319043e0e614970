"""Parquet files, each read by its own types: no file's types rule another's, and folder names are text.

A writer infers types from the values of one file. Files are grouped by the types of the columns that are read, each
group is one part of the table, and the parts are united after they were encoded. What a file lacks is missing there.
Text is decoded here and not by DuckDB, which fails on bytes that are not UTF-8 and quotes them.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from vestry.data.arrow_values import clean_stream
from vestry.data.source import Expression, Selection, Source, of_duckdb, parquet_files, register
from vestry.errors import InvalidParameter

_BATCH = 2**17
# Stands for the columns of a table of which none is read: without a column it would have no records.
NOTHING = "records"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_parquet(path: str, selection: Selection) -> Source:
    """Open a file, a folder of files or those that a pattern matches; DuckDB reads files of numbers alone itself."""
    parts = groups(parquet_files(path), Path(path).expanduser(), selection.columns, selection.levels)

    def expressions(backend: Any) -> Iterator[Expression]:
        for part in parts:
            if part.plain:
                yield _numbers(backend, part)
            else:
                yield register(backend, clean_stream(part.schema, part.batches(), selection.levels))

    return of_duckdb("parquet", lambda backend: list(expressions(backend)), clean=True)


def _numbers(backend: Any, part: Group) -> Expression:
    # DuckDB takes a column to be free of NaN unless this is set, because a file's statistics do not count them.
    files = [glob.escape(file) for file in part.files]
    table = backend.read_parquet(files, can_have_nan=True, hive_partitioning=False)
    return table.select(*part.schema.names)


@dataclass(frozen=True)
class Group:
    """Files whose columns have the same types.

    Attributes
    ----------
    files
        Their paths.
    schema
        The columns that are read, as the files have them, and then the names of folders.
    folders
        For each file the values of its folders, by name.
    clash
        Whether two columns of a file differ in case alone, which DuckDB cannot tell apart.
    """

    files: tuple[str, ...]
    schema: Any
    folders: tuple[dict[str, str | None], ...]
    clash: bool

    @property
    def plain(self) -> bool:
        """Whether every column is a number or a truth value, which DuckDB reads as it is."""
        kinds = (pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean)
        return not self.clash and all(any(kind(field.type) for kind in kinds) for field in self.schema)

    def batches(self) -> Iterator[Any]:
        """Yield the records of every file."""
        for file, folders in zip(self.files, self.folders, strict=True):
            own = [name for name in self.schema.names if name not in folders and self.schema.names != [NOTHING]]
            texts = [name for name in own if pa.types.is_dictionary(self.schema.field(name).type)]
            with pq.ParquetFile(file, read_dictionary=texts or None, pre_buffer=True) as opened:
                size = opened.metadata.num_rows
                for batch in opened.iter_batches(batch_size=_BATCH, columns=own) if own else ():
                    yield self._completed(folders, batch.num_rows, batch)
                for start in range(0, 0 if own else size, _BATCH):
                    yield self._completed(folders, min(_BATCH, size - start))

    def _completed(self, folders: dict[str, str | None], size: int, batch: Any = None) -> Any:
        """Return records with the names of their folders; `batch` has the file's own columns, where any are read."""
        own = () if batch is None else batch.schema.names
        arrays = [
            batch.column(field.name).cast(field.type) if field.name in own else _constant(folders.get(field.name), size)
            for field in self.schema
        ]
        return pa.record_batch(arrays, schema=self.schema)


def groups(files: Sequence[str], root: Path, columns: Collection[str] | None, texts: Collection[str]) -> list[Group]:
    """Return the files by the types of the columns that are read.

    Parameters
    ----------
    files
        Their paths.
    root
        The folder, or the pattern, that was asked for: folders below its fixed part have names.
    columns
        Which columns are read; None for all.
    texts
        Columns of few different texts, which are read with their dictionaries.
    """
    members: dict[Any, list[tuple[str, dict[str, str | None]]]] = {}
    schemas = {}
    for file in files:
        (schema, clash), folders = _schema(file, columns, texts), _folders(file, root, columns)
        folders = {name: value for name, value in folders.items() if name not in schema.names}
        key = (tuple((field.name, str(field.type)) for field in schema), tuple(folders), clash)
        schemas[key] = _extended(schema, folders)
        members.setdefault(key, []).append((file, folders))
    return [
        Group(tuple(file for file, _ in parts), schemas[key], tuple(folders for _, folders in parts), key[-1])
        for key, parts in members.items()
    ]


def _schema(file: str, columns: Collection[str] | None, texts: Collection[str]) -> tuple[Any, bool]:
    """Return the columns that are read, and whether two columns of the file differ in case alone."""
    whole = pq.read_schema(file).remove_metadata()
    if len(set(whole.names)) < len(whole.names):
        raise InvalidParameter("data", file, "a file that names each column once", "the file again, with other names")
    fields = [field for field in whole if columns is None or field.name in columns]
    clash = len({name.lower() for name in whole.names}) < len(whole.names)
    return pa.schema([(field.name, _read_as(field, texts)) for field in fields]), clash


def _read_as(field: Any, texts: Collection[str]) -> Any:
    if field.name in texts and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
        return pa.dictionary(pa.int32(), pa.string())
    return field.type


def _extended(schema: Any, folders: dict[str, str | None]) -> Any:
    names = [*folders] if len(schema) or folders else [NOTHING]
    return pa.schema([*schema, *(pa.field(name, pa.dictionary(pa.int32(), pa.string())) for name in names)])


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
    fixed = [part for place, part in enumerate(root.parts) if not any(map(glob.has_magic, root.parts[: place + 1]))]
    return Path(*fixed) if fixed else Path()


def _constant(value: str | None, size: int) -> Any:
    import numpy as np

    indices = pa.array(np.zeros(size, np.int32), pa.int32(), mask=np.full(size, value is None))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value or ""], pa.string()))
