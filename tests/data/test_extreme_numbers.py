"""Every numeric type at its extreme values, in every reader and in estimators: what an oracle makes of each value."""

from __future__ import annotations

import csv
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from data import oracle_meaning as oracle
from share import cases

from vestry import Interval, Levels, Table
from vestry.estimators.input_checks import features
from vestry.schema.private import reveal
from vestry.schema.statistics import Indicator, Sum, SumQuery

ROWS = 8
LEVELS = ("0", "1", "-1")
HIGH = 5
BITS = (8, 16, 32, 64)
Columns = dict[str, list[Any]]
NARROW = (pa.decimal32(9, 0), pa.decimal64(18, 2), pa.decimal128(1, 0), pa.decimal128(5, -3))
WIDE = (pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal256(76, 0), pa.decimal256(76, 76))


def padded(values: list[Any]) -> list[Any]:
    return values + [None] * (ROWS - len(values))


def signed(bits: int) -> list[int]:
    greatest = 2 ** (bits - 1) - 1
    return [-greatest - 1, greatest, 0, 1, -1]


def unsigned(bits: int) -> list[int]:
    return [2**bits - 1, 0, 1, 2 ** (bits - 1)]


def reals(name: str) -> list[float]:
    limits = np.finfo(name)
    finite = [limits.max, limits.min, limits.tiny, limits.smallest_subnormal]
    return [*map(float, finite), math.inf, -math.inf, math.nan, -0.0]


def of_bits(dtype: pa.DataType, numbers: list[int]) -> pa.Array:
    """Return an array whose values have these bits: Arrow makes none beyond a decimal's declared digits."""
    width = dtype.bit_width // 8
    raw = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    buffers = [None, pa.py_buffer(raw)]
    array = pa.Array.from_buffers(dtype, len(numbers), buffers)
    missing = pa.nulls(ROWS - len(numbers), dtype)
    return pa.concat_arrays([array, missing])


def arrow_columns() -> tuple[dict[str, pa.Array], Columns]:
    """Return a column for each numeric type of Arrow, and its values."""
    arrays: dict[str, pa.Array] = {}
    values: Columns = {}
    for bits in BITS:
        values[f"int{bits}"] = padded(signed(bits))
        values[f"uint{bits}"] = padded(unsigned(bits))
    for bits in BITS[1:]:
        values[f"float{bits}"] = reals(f"float{bits}")
    for name, column in values.items():
        arrays[name] = pa.array(column, name)
    for dtype in (*NARROW, *WIDE):
        numbers = signed(dtype.bit_width)
        name = str(dtype)
        decimals = [Decimal(f"{number}E{-dtype.scale}") for number in numbers]
        values[name] = padded(decimals)
        arrays[name] = of_bits(dtype, numbers)
    return arrays, values


def expected(columns: Columns) -> tuple[int, ...]:
    """Return for each column how many values are each level, and the sum of the numbers from 0 to 5."""
    sums: list[int] = []
    for values in columns.values():
        levels = list(map(oracle.level, values))
        sums += map(levels.count, LEVELS)
        total = 0
        for number in map(oracle.number, values):
            clipped = min(max(number or 0, 0), HIGH)
            total += math.floor(clipped + 0.5)
        sums.append(total)
    return tuple(sums)


def read(data: object, columns: Columns) -> tuple[int, ...]:
    """Read each column under the names `NAME level` and `NAME number`."""
    domains: dict[str, Any] = {}
    terms: list[Any] = []
    for name in columns:
        domains[f"{name} level"] = Levels(*LEVELS, missing="level")
        domains[f"{name} number"] = Interval(0, HIGH)
        terms += [Indicator(f"{name} level", (level,)) for level in LEVELS]
        terms.append(Sum(f"{name} number", 0.0, 1.0))
    table = Table(data, domains, neighbours="add-remove", max_rows=1000)
    query = SumQuery((), tuple(terms))
    table.check(query)
    private = table.collect(query, row_key="k")
    return reveal(private)


def twice(columns: dict[str, Any]) -> dict[str, Any]:
    doubled: dict[str, Any] = {}
    for name, column in columns.items():
        doubled[f"{name} level"] = column
        doubled[f"{name} number"] = column
    return doubled


def same_features(frame: object, columns: Columns) -> bool:
    """Tell whether an estimator reads the same doubles, up to one rounding; what is no number is NaN there."""
    rows = features(frame)
    numbers = [list(map(oracle.number, values)) for values in columns.values()]
    doubles = np.array(numbers, dtype=float)  # None becomes NaN
    return np.allclose(rows, doubles.T, rtol=1e-15, atol=0, equal_nan=True)


# Arrow


def in_parquet(table: pa.Table, folder: Path) -> object:
    pq.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def in_arrow_file(table: pa.Table, folder: Path) -> object:
    with pa.ipc.new_file(str(folder / "a.arrow"), table.schema) as sink:
        sink.write_table(table)
    return folder / "a.arrow"


def in_memory(table: pa.Table, folder: Path) -> object:
    return table


def in_batches(table: pa.Table, folder: Path) -> object:
    return table.to_reader(max_chunksize=3)


def in_a_dataset(table: pa.Table, folder: Path) -> object:
    return ds.dataset(table)


def in_pandas(table: pa.Table, folder: Path) -> object:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


@pytest.mark.parametrize(
    "reader", cases([in_memory, in_batches, in_a_dataset, in_arrow_file, in_pandas], quick=[in_memory, in_pandas])
)
def test_every_numeric_type_of_arrow(reader, tmp_path):
    arrays, values = arrow_columns()
    table = pa.table(twice(arrays))
    data = reader(table, tmp_path)
    assert read(data, values) == expected(values)


def test_every_numeric_type_of_arrow_in_parquet(tmp_path):
    """Parquet has no negative scale, and cuts off bits beyond the declared digits as it is written."""
    arrays, values = arrow_columns()
    for name in ("decimal128(5, -3)", "decimal128(1, 0)"):
        del arrays[name]
        del values[name]
    table = pa.table(twice(arrays))
    data = in_parquet(table, tmp_path)
    assert read(data, values) == expected(values)


def test_every_numeric_type_of_arrow_in_a_dictionary():
    arrays, values = arrow_columns()
    places = pa.array(range(ROWS), pa.int8())
    encoded = {}
    for name, array in arrays.items():
        encoded[name] = pa.DictionaryArray.from_arrays(places, array)
    table = pa.table(twice(encoded))
    assert read(table, values) == expected(values)


def test_every_numeric_type_of_arrow_in_estimators():
    arrays, values = arrow_columns()
    frame = pa.table(arrays).to_pandas(types_mapper=pd.ArrowDtype)
    assert same_features(frame, values)


def test_the_text_of_every_number_in_csv(tmp_path):
    _, values = arrow_columns()
    texts: Columns = {}
    for name, column in values.items():
        texts[name] = [None if value is None else str(value) for value in column]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        written = twice(texts)
        writer.writerow(written)
        records = zip(*written.values(), strict=True)
        writer.writerows(records)
    assert read(tmp_path / "a.csv", texts) == expected(texts)


# Polars, pandas, DuckDB


def test_every_numeric_type_of_polars():
    polars = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")
    columns: Columns = {"Float32": reals("float32"), "Float64": reals("float64")}
    for bits in (*BITS, 128):
        columns[f"Int{bits}"] = padded(signed(bits))
        columns[f"UInt{bits}"] = padded(unsigned(bits))
    series = {}
    for name, values in columns.items():
        series[name] = polars.Series(values, dtype=vars(polars)[name])
    greatest = Decimal("9" * 36 + ".99")
    columns["Decimal"] = padded([greatest, greatest.copy_negate(), Decimal("0.01"), Decimal(1), Decimal(-1)])
    series["Decimal"] = polars.Series(columns["Decimal"], dtype=polars.Decimal(38, 2))
    frame = polars.DataFrame(twice(series))
    assert read(frame, columns) == expected(columns)
    assert read(frame.lazy(), columns) == expected(columns)
    assert same_features(polars.DataFrame(series), columns)


def test_every_numeric_type_of_pandas():
    values: Columns = {}
    dtypes: dict[str, Any] = {}
    for bits in BITS:
        for name, numbers in ((f"Int{bits}", signed(bits)), (f"UInt{bits}", unsigned(bits))):
            values[name] = padded(numbers)
            values[f"plain {name}"] = (numbers * ROWS)[:ROWS]
            dtypes[name] = name
            dtypes[f"plain {name}"] = name.lower()
    for name in ("Float32", "Float64", "float16"):
        values[name] = reals(name.lower())
        values[f"plain {name}"] = values[name]
        dtypes[name] = name
        dtypes[f"plain {name}"] = name.lower()
    huge = [10**5000, -(10**400), Decimal("1E+5000"), Decimal("-0")]
    values["object"] = [*huge, 2**64, -1, True, 1e308]
    dtypes["object"] = object
    series = {name: pd.Series(column, dtype=dtypes[name]) for name, column in values.items()}
    frame = pd.DataFrame(twice(series))
    assert read(frame, values) == expected(values)
    assert same_features(pd.DataFrame(series), values)


def duckdb_columns() -> Columns:
    """Return values of each numeric type of DuckDB, by the type's name."""
    values: Columns = {}
    for name, bits in {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}.items():
        values[name] = padded(signed(bits))
        values[f"U{name}"] = padded(unsigned(bits))
    values["BIGNUM"] = padded([10**99, -(10**99), 0, 1, -1])
    greatest = int("9" * 38)
    values["DECIMAL(38,0)"] = padded([greatest, -greatest, 0, 1, -1])
    values["DECIMAL(38,38)"] = padded([Decimal(f"0.{greatest}"), Decimal("1E-38"), Decimal(0)])
    values["DECIMAL(4,4)"] = padded([Decimal("-0.9999"), Decimal("0.5"), Decimal(0)])
    values["FLOAT"] = reals("float32")
    values["DOUBLE"] = reals("float64")
    return values


def written(value: Any) -> str | None:
    """Return the text of a value; DuckDB reads no decimal with an exponent."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    return None if value is None else str(value)


def test_every_numeric_type_of_duckdb(tmp_path):
    values = duckdb_columns()
    path = tmp_path / "a.db"
    types = {name: name for name in values}
    declared = [f'"{name}" {dtype}' for name, dtype in twice(types).items()]
    marks = ", ".join("?" * len(declared))
    columns = twice(values).values()
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE records ({', '.join(declared)})")
        for row in zip(*columns, strict=True):
            texts = list(map(written, row))
            connection.execute(f"INSERT INTO records VALUES ({marks})", texts)
        assert read(connection.table("records"), values) == expected(values)
    assert read(f"duckdb://{path}/records", values) == expected(values)
    connected = ibis.duckdb.connect(path)
    with pytest.warns(DeprecationWarning, match="fetch_arrow_table"):  # of Ibis's own calls
        records = connected.table("records")
    assert read(records, values) == expected(values)
    connected.disconnect()
