"""Tables in memory, and what streams records: each as Arrow, column by column, no type guessed from values.

A column of Python objects becomes text that has each object's meaning, so that one odd value changes no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from vestry.data.arrow_values import Stream, of_arrow
from vestry.data.parquet_files import NOTHING, ParquetFile, groups
from vestry.data.source import Selection, Source
from vestry.errors import InvalidParameter
from vestry.schema.meaning import carrier_text

_AS_TABLE = "data=dataset.to_table()"
# Records in memory that are handed on at once.
_BATCH = 2**17


def of_rows(kind: str, names: Sequence[str], rows: Iterable[Sequence[Any]], selection: Selection) -> Source:
    """Return records that come as rows of Python values, each of which is read by its own meaning.

    Parameters
    ----------
    kind
        What holds them, in a word.
    names
        The columns, as `Selection.pick` gives them.
    rows
        One sequence per record, in the order of the names. They are asked for when the table is read, and once.
    selection
        What is read.
    """

    def table_of(part: list[Sequence[Any]]) -> Any:
        columns = zip(names, zip(*part, strict=True) if part else [()] * len(names), strict=False)
        return _table({name: _text_array(values, name in selection.exact) for name, values in columns}, len(part))

    def batches() -> Iterator[Any]:
        stream = iter(rows)
        while part := list(islice(stream, _BATCH)):
            yield from table_of(part).to_batches()

    return of_arrow(kind, [(table_of([]).schema, batches())], selection)


def open_pandas(data: Any, selection: Selection) -> Source:
    """Open a frame of pandas; a column of objects is read object by object."""
    exact, names = selection.exact, selection.pick(data.columns)
    columns = {name: _pandas_column(data[name], name in exact) for name in names}
    return of_arrow("pandas", [_in_memory(columns, len(data))], selection)


def _pandas_column(series: Any, exact: bool) -> Any:
    if hasattr(series, "cat"):
        codes = series.cat.codes.to_numpy()
        values = _text_array(series.cat.categories, exact)
        indices = pa.array(codes.astype("int32"), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, values)
    if series.dtype == object or series.dtype.kind not in "biufMmTSO" or hasattr(series, "sparse"):
        return _text_array(series, exact)
    try:
        return pa.Array.from_pandas(series)
    except Exception:  # a type that Arrow does not know; each value still has a meaning, or none
        return _text_array(series, exact)


def _text_array(values: Iterable[Any], exact: bool) -> Any:
    """Return objects as text that has the meaning of each; exact text as it stands."""
    write = _exact_text if exact else carrier_text
    return pa.array([write(value) for value in values], pa.string())


def _exact_text(value: Any) -> str | None:
    return _encodable(value) if isinstance(value, str) else carrier_text(value)


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def open_polars(data: Any, selection: Selection) -> Source:
    """Open a frame of Polars."""
    return of_arrow("polars", [_polars(data, selection)], selection)


def open_polars_lazy(data: Any, selection: Selection) -> Source:
    """Open a lazy frame of Polars: its plan runs when records are asked for, for the columns that are read."""
    schema = data.collect_schema()
    names = selection.pick(schema.names())
    frame = data.select(names) if names else data

    def batches() -> Iterator[Any]:
        for part in frame.collect_batches(chunk_size=_BATCH):
            yield from _polars(part, selection)[1]

    empty, _ = _polars(schema.to_frame().select(names), selection)
    return of_arrow("polars", [(empty, batches())], selection)


def _polars(data: Any, selection: Selection) -> Stream:
    exact, names = selection.exact, selection.pick(data.columns)
    return _in_memory({name: _polars_column(data.get_column(name), name in exact) for name in names}, data.height)


def _polars_column(series: Any, exact: bool) -> Any:
    kind = str(series.dtype)
    if kind.startswith("Object"):
        return _text_array(series.to_list(), exact)
    if kind.startswith(("Int128", "UInt128")):
        return series.cast(type(series)([""]).dtype).to_arrow()
    return series.to_arrow()


def open_arrow_table(data: Any, selection: Selection) -> Source:
    """Open a table or record batch of Arrow."""
    columns = {name: data.column(name) for name in selection.pick(data.schema.names)}
    return of_arrow("pyarrow", [_in_memory(columns, data.num_rows)], selection)


def open_arrow_reader(data: Any, selection: Selection) -> Source:
    """Open a stream of Arrow, which can be read once."""
    return of_arrow("pyarrow", [_streamed(data.schema, selection, lambda names: data)], selection)


def open_arrow_dataset(data: Any, selection: Selection) -> Source:
    """Open a dataset of Arrow: files by their own types; one that is filtered or in memory, by its schema."""
    return of_arrow("pyarrow", _dataset(data, selection), selection)


def open_delta(data: Any, selection: Selection) -> Source:
    """Open a table of Delta Lake."""
    return of_arrow("delta", _dataset(data.to_pyarrow_dataset(), selection), selection)


def _dataset(data: Any, selection: Selection) -> list[Stream]:
    """Return the parts of a dataset: those of its own parts, or its files by their types."""
    if isinstance(data, ds.InMemoryDataset):
        return [_scanned(data, selection)]
    filtered = data._scan_options.get("filter") is not None  # no public name says so
    if isinstance(data, ds.UnionDataset) and not filtered:
        return [stream for child in data.children for stream in _dataset(child, selection)]
    if not isinstance(data, ds.FileSystemDataset):
        raise InvalidParameter("data", "a filtered union of datasets", "a dataset of files, or a table", _AS_TABLE)
    if not isinstance(data.format, (ds.ParquetFileFormat, ds.IpcFileFormat)):
        allowed = "a dataset of Parquet or Arrow files: others have types that were guessed from values"
        raise InvalidParameter("data", f"one of {data.format.default_extname} files", allowed, "the path of the files")
    if filtered:
        _check_types(data)
        return [_scanned(data, selection)]
    return _files(data, selection) or [_scanned(data, selection)]


def _check_types(data: Any) -> None:
    """Refuse a filtered dataset whose files have other types than its own, or whose reading depends on an encoding.

    Arrow would convert each value, and fail where the other type does not hold it. It also makes dictionaries of some
    encodings of Parquet only.
    """
    for file in data.files:
        for field in data.format.inspect(file, data.filesystem):
            dictionary = isinstance(data.format, ds.ParquetFileFormat) and pa.types.is_dictionary(field.type)
            same = field.name not in data.schema.names or data.schema.field(field.name).type == field.type
            if dictionary or not same:
                given = "filtered, and its files have categories or other types than it"
                raise InvalidParameter("data", given, "a dataset without a filter, or a table", _AS_TABLE)


def _files(data: Any, selection: Selection) -> list[Stream]:
    """Return the files of a dataset by their types."""
    files = []
    others: dict[Any, list[tuple[Any, dict[str, str | None]]]] = {}
    for fragment in data.get_fragments():
        folders = _folders(fragment, selection)
        if isinstance(fragment, ds.ParquetFileFragment):
            row_groups = tuple(row_group.id for row_group in fragment.row_groups)
            files.append(ParquetFile(fragment.open, folders, row_groups))
            continue
        schema = fragment.physical_schema
        own = {name: schema.field(name) for name in selection.pick(schema.names)}
        folders = {name: value for name, value in folders.items() if name not in own}
        key = (tuple((name, str(field.type)) for name, field in own.items()), tuple(folders))
        others.setdefault(key, []).append((fragment, folders))
    streams = [(group.schema, group.batches()) for group in groups(files, selection)]
    return streams + [_fragments(members, selection) for members in others.values()]


def open_arrow_file(path: str, selection: Selection) -> Source:
    """Open a file of the Arrow format, or a stream of it, in pieces."""
    file = Path(path).expanduser()
    with file.open("rb") as opened:
        in_pieces = opened.read(6) == b"ARROW1"
    if in_pieces:
        return open_arrow_dataset(ds.dataset(str(file), format="ipc"), selection)
    return open_arrow_reader(pa.ipc.open_stream(pa.OSFile(str(file))), selection)


def open_relation(data: Any, selection: Selection) -> Source:
    """Open a relation of DuckDB, which runs on its own connection when its records are asked for."""
    names = selection.pick(data.columns)
    types = {name: str(dtype) for name, dtype in zip(data.columns, data.types, strict=True)}
    columns = []
    for name in names:
        column = duckdb.ColumnExpression(name)
        columns.append(column.cast("VARCHAR").alias(name) if types[name] in _NOT_OF_ARROW else column)
    relation = data.select(*columns) if columns else data
    schema = relation.limit(0).to_arrow_table().schema
    stream = _streamed(schema, selection, lambda names: relation.to_arrow_reader(_BATCH))
    return of_arrow("duckdb", [stream], selection)


# Types of DuckDB that Arrow lacks; DuckDB would hand over a number of fewer digits, bytes, or a time without its zone.
_NOT_OF_ARROW = ("HUGEINT", "UHUGEINT", "BIGNUM", "BIT", "TIME WITH TIME ZONE")


def _scanned(data: Any, selection: Selection) -> Stream:
    """Read a dataset by the schema that its maker gave it."""
    return _streamed(data.schema, selection, lambda names: data.to_batches(columns=names, batch_size=_BATCH))


def _streamed(schema: Any, selection: Selection, batches_of: Callable[[list[str]], Iterable[Any]]) -> Stream:
    """Return the columns of a stream of batches that are read; without any it still has its records."""
    names = selection.pick(schema.names)

    def batches() -> Iterator[Any]:
        for batch in batches_of(names):
            yield batch.select(names) if names else _records(batch.num_rows)

    return pa.schema([schema.field(name) for name in names]) if names else _nothing(), batches()


def _folders(fragment: Any, selection: Selection) -> dict[str, str | None]:
    """Return what the names of folders say of a file, as text."""
    values = ds.get_partition_keys(fragment.partition_expression)
    return {name: carrier_text(values[name]) for name in selection.pick(values)}


def _fragments(members: list[tuple[Any, dict[str, Any]]], selection: Selection) -> Stream:
    """Return files of the same types, with the names of their folders as text."""
    first, folders = members[0]
    names = selection.pick(first.physical_schema.names)
    fields = [first.physical_schema.field(name) for name in names]
    schema = pa.schema([*fields, *(pa.field(name, pa.string()) for name in folders)])

    def batches() -> Iterator[Any]:
        for fragment, values in members:
            for batch in fragment.to_batches(schema=fragment.physical_schema, columns=names, batch_size=_BATCH):
                said = [pa.array([value] * batch.num_rows, pa.string()) for value in values.values()]
                arrays = [*(batch.column(name) for name in names), *said]
                yield pa.record_batch(arrays, schema=schema) if arrays else _records(batch.num_rows)

    return schema if len(schema) else _nothing(), batches()


def _in_memory(columns: Mapping[str, Any], size: int) -> Stream:
    table = _table(columns, size)
    return table.schema, table.to_batches(max_chunksize=_BATCH)


def _table(columns: Mapping[str, Any], size: int) -> Any:
    """Return columns as a table of Arrow; without any it still has its records."""
    return pa.table(dict(columns) or {NOTHING: pa.nulls(size, pa.bool_())})


def _nothing() -> Any:
    return pa.schema([(NOTHING, pa.bool_())])


def _records(size: int) -> Any:
    return pa.record_batch([pa.nulls(size, pa.bool_())], schema=_nothing())
