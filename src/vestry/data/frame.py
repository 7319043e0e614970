"""Frames in memory, as Arrow tables. Columns of Python objects become text, so that no value is an error."""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Collection, Iterable
from typing import Any

FRAMES = ("pandas", "polars", "pyarrow")


def to_arrow(data: Any, kind: str, columns: Collection[str] | None) -> Any:
    """Return the named columns that are there, as an Arrow table of as many rows."""
    import pyarrow as pa

    present = list(data.column_names if kind == "pyarrow" else data.columns)
    wanted = [name for name in present if isinstance(name, str) and (columns is None or name in columns)]
    read = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_pyarrow}[kind]
    arrays = {name: _plain(read(data, name)) for name in wanted}
    if not arrays:  # a table without columns would have no rows
        return pa.table({"records": pa.nulls(len(data), pa.bool_())})
    return pa.table(arrays)


def _of_pyarrow(data: Any, name: str) -> Any:
    return data.column(name)


def _of_polars(data: Any, name: str) -> Any:
    series = data.get_column(name)
    return _text_array(series.to_list()) if str(series.dtype).startswith("Object") else series.to_arrow()


def _of_pandas(data: Any, name: str) -> Any:
    import pyarrow as pa

    series = data[name]
    if series.dtype == object:
        return _text_array(series)
    if hasattr(series, "cat") and series.cat.categories.dtype == object:
        return pa.DictionaryArray.from_arrays(
            pa.array(series.cat.codes, mask=(series.cat.codes < 0).to_numpy()), _text_array(series.cat.categories)
        ).dictionary_decode()
    array = pa.Array.from_pandas(series)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _plain(array: Any) -> Any:
    """Turn types that engines read differently into one: no dictionaries, no halves, no column of nulls alone."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    return array.cast(pa.float32()) if pa.types.is_float16(array.type) else array


def _text_array(values: Iterable[Any]) -> Any:
    import pyarrow as pa

    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    """Write a Python object as text; None if it is missing, or nothing that a column may contain."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if type(value).__name__ in ("bool", "bool_"):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return None if value != value else repr(float(value))
    if isinstance(value, decimal.Decimal):
        return str(value)
    return value.isoformat() if type(value) is datetime.date else None
