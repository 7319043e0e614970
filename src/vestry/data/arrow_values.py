"""Arrow columns made safe for an engine: every value keeps its meaning, and none can make reading fail.

Text that is not UTF-8 has its wrong bytes replaced, and white space at its ends taken off; times beyond what an engine
holds come back to its ends; types that an engine does not know become ones that it does. Each value is treated alone.

A column of text of which levels are declared becomes a column of whole numbers here: the places among these levels, by
the same relation as in SQL (`vestry.schema.meaning`). Each different text of a batch is looked up once. Exact levels
are left to SQL.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vestry.data.source import PLACED, Expression, Selection, Source, of_duckdb, register
from vestry.schema.domain import Levels
from vestry.schema.meaning import carrier_text, level_text

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
    """Return a stream of batches whose columns are safe; places of levels for columns of text that have them.

    Parameters
    ----------
    schema
        The columns as they are.
    batches
        Record batches of that schema.
    levels
        What is declared of columns of levels; white space is kept where they are exact.
    """
    columns = [_column(field, levels.get(field.name)) for field in schema]
    named = pa.schema([column.field for column in columns])

    def cleaned() -> Iterator[Any]:
        for batch in batches:
            arrays = [column.read(array) for column, array in zip(columns, batch.columns, strict=True)]
            yield pa.record_batch(arrays, schema=named)

    return pa.RecordBatchReader.from_batches(named, cleaned())


@dataclass(frozen=True)
class _Column:
    """What a column becomes, and how."""

    field: Any
    read: Callable[[Any], Any]


def _column(field: Any, domain: Levels | None) -> _Column:
    safe = safe_type(field.type)
    if domain is None or domain.exact or not (_is_text(safe) or pa.types.is_dictionary(safe)):
        keep = domain is not None and domain.exact
        return _Column(pa.field(field.name, safe), partial(clean_array, keep=keep))
    return _Column(pa.field(field.name + PLACED, pa.int32()), _Places(domain).read)


class _Places:
    """Turns text into places among declared levels; the last dictionary is remembered."""

    def __init__(self, domain: Levels) -> None:
        self._missing = -1 if domain.missing_place is None else domain.missing_place
        self._known = {text: place for place, text in enumerate(domain.texts)}
        self._texts = pa.array(domain.texts, pa.large_string())
        self._places = np.array([*range(len(domain.texts)), self._missing], dtype=np.int32)
        self._dictionary: Any = None
        self._table = np.zeros(0, dtype=np.int32)

    def read(self, array: Any) -> Any:
        """Return the places of an array, null where the record is dropped."""
        text = clean_array(array, keep=False)
        if not pa.types.is_dictionary(text.type):
            text = text.dictionary_encode()
        if self._dictionary is None or not text.dictionary.equals(self._dictionary):
            self._dictionary = text.dictionary
            self._table = np.append(self._places_of(text.dictionary), np.int32(self._missing))
        indices = text.indices.fill_null(len(self._table) - 1).to_numpy(zero_copy_only=False)
        places = self._table[indices]
        return pa.array(places, pa.int32(), mask=places < 0)

    def _places_of(self, texts: Any) -> np.ndarray:
        """Return the places of different texts: of most at once, of those that may be written otherwise one by one."""
        found = pc.index_in(texts, self._texts)
        places: np.ndarray = self._places[np.asarray(found.fill_null(len(self._texts)))]
        doubtful = pc.and_(found.is_null(), pc.match_substring_regex(texts, _DOUBTFUL).fill_null(False))
        for index in np.flatnonzero(np.asarray(doubtful)):
            own = level_text(texts[index].as_py())
            places[index] = self._missing if own is None else self._known.get(own, self._missing)
        return places


# Text of another class than its own text: a truth word, -0, or what may be a decimal, a date or a time.
_DOUBTFUL = "^(true|True|TRUE|false|False|FALSE|-0|-?[0-9]+[.][0-9]+|[0-9]+[-:].*)$"


def safe_type(dtype: Any) -> Any:
    """Return the type that a column of this type becomes."""
    return clean_array(pa.nulls(0, dtype), keep=True).type


def clean_array(array: Any, *, keep: bool) -> Any:
    """Return an array of a type that an engine holds; `keep` keeps white space."""
    kinds, dtype = pa.types, array.type
    if isinstance(dtype, pa.BaseExtensionType):
        return _extension(array, keep)
    if kinds.is_dictionary(dtype):
        return _dictionary(array, keep)
    if kinds.is_run_end_encoded(dtype):
        return clean_array(pc.run_end_decode(array), keep=keep)
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
        return _decimal(array)
    if kinds.is_date(dtype):
        return _within(array, _DAY if kinds.is_date64(dtype) else 0, pa.date32())
    if kinds.is_timestamp(dtype):
        return _within(array, _PER_SECOND[dtype.unit], pa.timestamp("us", "UTC" if dtype.tz else None))
    if kinds.is_time(dtype):
        return _times(array, _PER_SECOND[dtype.unit])
    return _seconds(array, _PER_SECOND[dtype.unit]) if kinds.is_duration(dtype) else array


def _text(array: Any, keep: bool) -> Any:
    """Return text with offsets of 64 bits, which no replacement of wrong bytes overflows."""
    try:
        text = array.cast(pa.large_string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        binary = array.cast(pa.large_binary()).to_pylist()
        decoded = [None if raw is None else raw.decode("utf-8", "replace") for raw in binary]
        text = pa.array(decoded, pa.large_string())
    return text if keep else pc.ascii_trim_whitespace(text)


def _decimal(array: Any) -> Any:
    """Return decimals as text without an exponent: engines hold fewer digits than Arrow lets a value have."""
    dtype = array.type
    if not 0 <= dtype.scale <= dtype.precision:  # Arrow does not write all of these
        return pa.array([_scaled(digits, dtype.scale) for digits in _digits(array).to_pylist()], pa.large_string())
    text = array.cast(pa.large_string())
    short = pc.match_substring(text, "E").fill_null(False)
    if not short.true_count:
        return text
    written = [carrier_text(Decimal(number)) for number in text.filter(short).to_pylist()]
    return pc.replace_with_mask(text, short, pa.array(written, pa.large_string()))


def _digits(array: Any) -> Any:
    """Return the whole numbers that decimals hold before their scale, as text."""
    dtype = array.type
    widths = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}
    whole = widths[dtype.bit_width](dtype.precision, 0)
    return pa.Array.from_buffers(whole, len(array), array.buffers(), offset=array.offset).cast(pa.large_string())


def _scaled(digits: str | None, scale: int) -> str | None:
    return None if digits is None else carrier_text(Decimal(f"{digits}E{-scale}"))


def _dictionary(array: Any, keep: bool) -> Any:
    """Treat the few values of a dictionary, where they are text; others are written out."""
    if not _is_text(array.type.value_type):
        return clean_array(array.dictionary_decode(), keep=keep)
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), _text(array.dictionary, keep))


def _extension(array: Any, keep: bool) -> Any:
    if array.type.extension_name != "arrow.uuid":
        return clean_array(array.storage, keep=keep)
    texts = [None if raw is None else str(uuid.UUID(bytes=raw)) for raw in array.storage.to_pylist()]
    return pa.array(texts, pa.string())


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
