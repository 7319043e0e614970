"""Tables in memory, and what streams records: each as Arrow, column by column, no type guessed from values.

A column of Python objects becomes text that has each object's meaning, so that one odd value changes no other.

Streams that can be read once: a second reading would find no record, and is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any

from vestry.data.parquet_files import NOTHING
from vestry.errors import InvalidParameter
from vestry.schema.meaning import carrier_text

# How Vestry calls a class of a package. A subclass is read as what it is made from.
FRAMES = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("polars", "LazyFrame"): "polars-lazy",
    ("pyarrow", "Table"): "pyarrow",
    ("pyarrow", "RecordBatch"): "pyarrow-batch",
    ("pyarrow", "RecordBatchReader"): "pyarrow-reader",
    ("pyarrow", "Dataset"): "pyarrow-dataset",
    ("duckdb", "DuckDBPyRelation"): "duckdb-relation",
    ("deltalake", "DeltaTable"): "delta",
}
# Records in memory that are handed on at once.
_BATCH = 2**17


def frame_kind(data: Any) -> str | None:
    """Name what was given, by its class or one that it comes from; None if it is none of these."""
    for each in type(data).__mro__:
        if (kind := FRAMES.get((each.__module__.split(".")[0], each.__name__))) is not None:
            return kind
    return None


# Columns of a schema, and the records of which they are.
Stream = tuple[Any, Iterator[Any]]


def frame_streams(data: Any, kind: str, columns: Collection[str] | None, exact: Collection[str]) -> list[Stream]:
    """Return the named columns that are there: for each part its schema and its records. Nothing is read yet."""
    if kind == "pyarrow-dataset":
        return _dataset(data, columns)
    if kind == "delta":
        return [_scanned(data.to_pyarrow_dataset(), columns)]
    return [_READERS[kind](data, columns, exact)]


def _named(present: Collection[Any], columns: Collection[str] | None) -> list[str]:
    names = [name for name in present if isinstance(name, str) and (columns is None or name in columns)]
    if len(set(names)) < len(names):
        raise InvalidParameter("data", "a table with a name twice", "a different name for each column", "other names")
    return names


def _whole(arrays: dict[str, Any], size: int) -> Stream:
    """Return columns in memory as a schema and batches; a table without columns still has its records."""
    import pyarrow as pa

    table = pa.table(arrays or {NOTHING: pa.nulls(size, pa.bool_())})
    return table.schema, iter(table.to_batches(max_chunksize=_BATCH))


def _pandas(data: Any, columns: Collection[str] | None, exact: Collection[str]) -> Stream:
    names = _named(data.columns, columns)
    return _whole({name: _pandas_column(data[name], name in exact) for name in names}, len(data))


def _pandas_column(series: Any, exact: bool) -> Any:
    import pyarrow as pa

    if hasattr(series, "cat"):
        codes = series.cat.codes.to_numpy()
        values = pa.array(_texts(series.cat.categories, exact), pa.string())
        indices = pa.array(codes.astype("int32"), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, values)
    if series.dtype == object or series.dtype.kind not in "biufMmTSO" or hasattr(series, "sparse"):
        return pa.array(_texts(series, exact), pa.string())
    try:
        return pa.Array.from_pandas(series)
    except Exception:  # a type that Arrow does not know; each value still has a meaning, or none
        return pa.array(_texts(series, exact), pa.string())


def _texts(values: Any, exact: bool) -> list[str | None]:
    if not exact:
        return [carrier_text(value) for value in values]
    return [_encodable(value) if isinstance(value, str) else carrier_text(value) for value in values]


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _polars(data: Any, columns: Collection[str] | None, exact: Collection[str]) -> Stream:
    names = _named(data.columns, columns)
    return _whole({name: _polars_column(data.get_column(name), name in exact) for name in names}, data.height)


def _polars_column(series: Any, exact: bool) -> Any:
    import pyarrow as pa

    kind = str(series.dtype)
    if kind.startswith("Object"):
        return pa.array(_texts(series.to_list(), exact), pa.string())
    if kind.startswith(("Int128", "UInt128")):
        return series.cast(type(series)([""]).dtype).to_arrow()
    return series.to_arrow()


def _polars_lazy(data: Any, columns: Collection[str] | None, exact: Collection[str]) -> Stream:
    """Read the plan's records when they are asked for, and the named columns alone."""
    schema = data.collect_schema()
    names = _named(schema.names(), columns)
    frame = data.select(names) if names else data
    empty, _ = _polars(schema.to_frame().select(names), columns, exact)

    def batches() -> Iterator[Any]:
        for part in frame.collect_batches(chunk_size=_BATCH):
            yield from _polars(part, columns, exact)[1]

    return empty, batches()


def _pyarrow(data: Any, columns: Collection[str] | None, exact: Collection[str]) -> Stream:
    names = _named(data.schema.names, columns)
    return _whole({name: data.column(name) for name in names}, data.num_rows)


def _reader(data: Any, columns: Collection[str] | None, exact: Collection[str]) -> Stream:
    import pyarrow as pa

    names = _named(data.schema.names, columns)
    schema = pa.schema([data.schema.field(name) for name in names]) if names else _nothing()

    def batches() -> Iterator[Any]:
        for batch in data:
            yield batch.select(names) if names else _records(batch.num_rows)

    return schema, batches()


def _scanned(data: Any, columns: Collection[str] | None) -> Stream:
    """Read a dataset by the schema that its maker gave it."""
    import pyarrow as pa

    names = _named(data.schema.names, columns)
    schema = pa.schema([data.schema.field(name) for name in names]) if names else _nothing()

    def batches() -> Iterator[Any]:
        for batch in data.to_batches(columns=names, batch_size=_BATCH):
            yield batch if names else _records(batch.num_rows)

    return schema, batches()


def _dataset(data: Any, columns: Collection[str] | None) -> list[Stream]:
    """Read the files of a dataset by their own types; one that is filtered or in memory, by its schema."""
    filtered = getattr(data, "_scan_options", {"filter": True}).get("filter") is not None
    if filtered or type(data).__name__ != "FileSystemDataset":
        return [_scanned(data, columns)]
    found: dict[Any, list[tuple[Any, dict[str, Any]]]] = {}
    for fragment in data.get_fragments():
        own = {name: fragment.physical_schema.field(name) for name in _named(fragment.physical_schema.names, columns)}
        folders = _folders(fragment, columns, own)
        key = (tuple((name, str(field.type)) for name, field in own.items()), tuple(folders))
        found.setdefault(key, []).append((fragment, folders))
    return [_fragments(members, columns) for members in found.values()] or [_scanned(data, columns)]


def _folders(fragment: Any, columns: Collection[str] | None, own: Collection[str]) -> dict[str, Any]:
    """Return what the names of folders say of a file, where it does not say it itself."""
    from pyarrow.dataset import get_partition_keys

    said = get_partition_keys(fragment.partition_expression)
    return {name: value for name, value in said.items() if name not in own and (columns is None or name in columns)}


def _fragments(members: list[tuple[Any, dict[str, Any]]], columns: Collection[str] | None) -> Stream:
    import pyarrow as pa

    first, folders = members[0]
    names = _named(first.physical_schema.names, columns)
    fields = [first.physical_schema.field(name) for name in names]
    schema = pa.schema([*fields, *(pa.field(name, pa.string()) for name in folders)])

    def batches() -> Iterator[Any]:
        for fragment, values in members:
            for batch in fragment.to_batches(schema=fragment.physical_schema, columns=names, batch_size=_BATCH):
                said = [pa.array([carrier_text(value)] * batch.num_rows, pa.string()) for value in values.values()]
                arrays = [*(batch.column(name) for name in names), *said]
                yield pa.record_batch(arrays, schema=schema) if arrays else _records(batch.num_rows)

    return schema if len(schema) else _nothing(), batches()


def _relation(data: Any, columns: Collection[str] | None, exact: Collection[str]) -> Stream:
    """Run a relation of DuckDB on its own connection when its records are asked for."""
    names = _named(data.columns, columns)
    wanted = data.select(*(_column(name) for name in names)) if names else data
    schema = wanted.limit(0).to_arrow_table().schema if names else _nothing()

    def batches() -> Iterator[Any]:
        for batch in wanted.to_arrow_reader(_BATCH):
            yield batch if names else _records(batch.num_rows)

    return schema, batches()


def _column(name: str) -> Any:
    import duckdb

    return duckdb.ColumnExpression(name)


def _nothing() -> Any:
    import pyarrow as pa

    return pa.schema([(NOTHING, pa.bool_())])


def _records(size: int) -> Any:
    import pyarrow as pa

    return pa.record_batch([pa.nulls(size, pa.bool_())], schema=_nothing())


_READERS: dict[str, Callable[..., Stream]] = {
    "pandas": _pandas,
    "polars": _polars,
    "polars-lazy": _polars_lazy,
    "pyarrow": _pyarrow,
    "pyarrow-batch": _pyarrow,
    "pyarrow-reader": _reader,
    "duckdb-relation": _relation,
}

_READ: weakref.WeakSet[Any] = weakref.WeakSet()


def check_unread(data: Any, *, counted: bool = False) -> None:
    """Refuse a stream that was read already, or that would have to be counted before it is read."""
    if frame_kind(data) == "pyarrow-reader" and (counted or data in _READ):
        allowed = "read once" + (", so that its records cannot be counted first" if counted else "")
        raise InvalidParameter("data", "a RecordBatchReader", allowed, "data=reader.read_all(), a table")


def mark_read(data: Any) -> None:
    """Refuse a stream that was read already; remember that it is read now."""
    check_unread(data)
    if frame_kind(data) == "pyarrow-reader":
        _READ.add(data)
