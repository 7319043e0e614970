"""Arrow columns made safe for an engine: every value keeps its meaning, and none can make reading fail.

Text that is not UTF-8 has its wrong bytes replaced, and white space at its ends taken off; times beyond what an engine
holds come back to its ends; types that an engine does not know become ones that it does. Each value is treated alone.

An expression over a dictionary of Arrow's takes seven times as long as over one of DuckDB's own. So a column of text
that has a dictionary becomes a column of whole numbers here, the places among declared levels, by the same relation as
in SQL (`vestry.schema.meaning`). Exact levels are left to SQL.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from vestry.data.source import PLACED, Expression, Selection, Source, of_duckdb, register
from vestry.schema.domain import Levels
from vestry.schema.meaning import level_text

# Years that DuckDB holds in every unit, and writes as text.
_YEARS = 200_000
_SECONDS = _YEARS * 365 * 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400


# Columns of a schema, and the record batches of which they are.
Stream = tuple[Any, Iterable[Any]]


def of_arrow(kind: str, streams: Sequence[Stream], selection: Selection) -> Source:
    """Return records that come as Arrow, each part a schema and batches, made safe on the way."""

    def parts(backend: Any) -> list[Expression]:
        return [register(backend, clean_stream(schema, batches, selection.levels)) for schema, batches in streams]

    return of_duckdb(kind, parts, clean=True)


def clean_stream(schema: Any, batches: Iterable[Any], levels: Mapping[str, Levels]) -> Any:
    """Return a stream of batches whose columns are safe; places of levels for text that comes with a dictionary.

    Parameters
    ----------
    schema
        The columns as they are.
    batches
        Record batches of that schema.
    levels
        What is declared of columns of levels; white space is kept where they are exact.
    """
    exact = {name for name, domain in levels.items() if domain.exact}
    safe = pa.schema([(field.name, safe_type(field.type)) for field in schema])
    placed = {
        field.name: _Places(levels[field.name])
        for field in safe
        if field.name in levels and field.name not in exact and pa.types.is_dictionary(field.type)
    }
    named = [pa.field(field.name + PLACED, pa.int32()) if field.name in placed else field for field in safe]

    def cleaned() -> Iterator[Any]:
        for batch in batches:
            arrays = [
                clean_array(column, keep=field.name in exact)
                for field, column in zip(schema, batch.columns, strict=True)
            ]
            arrays = [
                placed[field.name].of(array) if field.name in placed else array
                for field, array in zip(schema, arrays, strict=True)
            ]
            yield pa.record_batch(arrays, schema=pa.schema(named))

    return pa.RecordBatchReader.from_batches(pa.schema(named), cleaned())


class _Places:
    """Turns dictionary arrays of text into places among declared levels; the last dictionary is remembered."""

    def __init__(self, domain: Levels) -> None:
        self._missing = domain.missing_place
        self._known = {text: place for place, text in enumerate(domain.texts)}
        self._dictionary: Any = None
        self._table = np.zeros(0, dtype=np.int32)

    def of(self, array: Any) -> Any:
        """Return the places of an array of cleaned text, null where the record is dropped."""
        if self._dictionary is None or not array.dictionary.equals(self._dictionary):
            self._dictionary = array.dictionary
            texts = array.dictionary.to_pylist()
            self._table = np.array([self._place(text) for text in (*texts, None)], dtype=np.int32)
        indices = array.indices.fill_null(len(self._table) - 1).to_numpy(zero_copy_only=False)
        places = self._table[indices]
        return pa.array(places, pa.int32(), mask=places < 0 if self._missing is None else None)

    def _place(self, text: str | None) -> int:
        own = None if text is None else level_text(text)
        missing = -1 if self._missing is None else self._missing
        return missing if own is None else self._known.get(own, missing)


def safe_type(dtype: Any) -> Any:
    """Return the type that a column of this type becomes."""
    return clean_array(pa.array([], dtype), keep=True).type


def clean_array(array: Any, *, keep: bool) -> Any:
    """Return an array of a type that an engine holds; `keep` keeps white space."""
    kinds, dtype = pa.types, array.type
    if isinstance(dtype, pa.BaseExtensionType):
        return _extension(array, keep)
    if kinds.is_dictionary(dtype):
        return _dictionary(array, keep)
    if kinds.is_run_end_encoded(dtype):
        return clean_array(pa.compute.run_end_decode(array), keep=keep)
    if _is_text(dtype):
        return _text(array, keep)
    if kinds.is_null(dtype):
        return pa.nulls(len(array), pa.string())
    return _number(array)


def _is_text(dtype: Any) -> bool:
    kinds = pa.types
    checks = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_binary, kinds.is_large_binary)
    return any(check(dtype) for check in (*checks, kinds.is_binary_view, kinds.is_fixed_size_binary))


def _number(array: Any) -> Any:
    kinds, dtype = pa.types, array.type
    if kinds.is_float16(dtype):
        return array.cast(pa.float32())
    if kinds.is_decimal(dtype):
        small = kinds.is_decimal32(dtype) or kinds.is_decimal64(dtype)
        return array.cast(pa.decimal128(dtype.precision, dtype.scale)) if small else _decimal(array)
    if kinds.is_date(dtype):
        return _within(array, _DAY if kinds.is_date64(dtype) else 0, pa.date32())
    if kinds.is_timestamp(dtype):
        return _within(array, _PER_SECOND[dtype.unit], pa.timestamp("us", "UTC" if dtype.tz else None))
    if kinds.is_time(dtype):
        return _times(array, _PER_SECOND[dtype.unit])
    return _seconds(array, _PER_SECOND[dtype.unit]) if kinds.is_duration(dtype) else array


def _text(array: Any, keep: bool) -> Any:
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    target = pa.large_string() if large else pa.string()
    try:
        text = array.cast(target)
        text.validate(full=True)
    except pa.ArrowInvalid:
        binary = array.cast(pa.large_binary() if large else pa.binary()).to_pylist()
        text = pa.array([None if each is None else each.decode("utf-8", "replace") for each in binary], target)
    return text if keep else pa.compute.ascii_trim_whitespace(text)


def _dictionary(array: Any, keep: bool) -> Any:
    """Treat the few values of a dictionary, where they are text; others are written out."""
    if not _is_text(array.type.value_type):
        return clean_array(array.dictionary_decode(), keep=keep)
    values = _text(array.dictionary, keep)
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), values.cast(pa.string()))


def _extension(array: Any, keep: bool) -> Any:
    if array.type.extension_name != "arrow.uuid":
        return clean_array(array.storage, keep=keep)
    texts = [None if each is None else str(uuid.UUID(bytes=each)) for each in array.storage.to_pylist()]
    return pa.array(texts, pa.string())


def _decimal(array: Any) -> Any:
    return array.cast(pa.string()) if pa.types.is_decimal256(array.type) else array


def _integers(array: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers of an array of times, and where there is none."""
    narrow = array.type.bit_width == 32
    whole = array.view(pa.int32() if narrow else pa.int64()).cast(pa.int64())
    missing = np.asarray(array.is_null())
    return np.asarray(whole.fill_null(0)), missing


def _within(array: Any, unit: int, target: Any) -> Any:
    """Return dates as days (unit 0 or a day in milliseconds) or instants as microseconds, rounded down."""
    values, missing = _integers(array)
    if pa.types.is_date32(target):
        days = values // (_DAY * 1000) if unit else values
        limit = _SECONDS // _DAY
        return pa.array(np.clip(days, -limit, limit).astype(np.int32), pa.int32(), mask=missing).view(target)
    clipped = np.clip(values, -_SECONDS * unit, _SECONDS * unit) if unit < 10**9 else values
    micros = clipped * (10**6 // unit) if unit <= 10**6 else clipped // (unit // 10**6)
    return pa.array(micros, pa.int64(), mask=missing).view(target)


def _times(array: Any, unit: int) -> Any:
    values, missing = _integers(array)
    clipped = np.clip(values, 0, _DAY * unit - 1)
    micros = clipped * (10**6 // unit) if unit <= 10**6 else clipped // (unit // 10**6)
    return pa.array(micros, pa.int64(), mask=missing).view(pa.time64("us"))


def _seconds(array: Any, unit: int) -> Any:
    values, missing = _integers(array)
    return pa.array(values / unit, pa.float64(), mask=missing)
