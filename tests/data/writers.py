"""Every format and its writers: each puts the same columns where Vestry reads them.

A writer may refuse a value (then it is written as missing, and that is counted) or write the other values of a column
in another way (pandas turns 2^53 + 1 into a float beside a missing value). So each writer says what it handed over, as
Python values: a file of text is read back letter by letter.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from data.columns import WHO, Cells


@dataclass
class Written:
    """Where the records are (`data` hands them over, anew each time), and the values that a reader is given there."""

    data: Callable[[], Any]
    seen: dict[str, list]
    refused: set[str] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)


Made = tuple[Any, list]
Columns = dict[str, Cells]


def carried(columns: Columns, make: Callable[[Cells], Made]) -> tuple[dict[str, Any], dict[str, list], set[str]]:
    """Make each column; one that the writer refuses is made again with the odd value missing."""
    made, seen, refused = {}, {}, set()
    for name, cells in columns.items():
        try:
            made[name], seen[name] = make(cells)
        except Exception:
            if cells.changed is None:
                raise
            refused.add(name)
            made[name], seen[name] = make(cells.without())
    return made, seen, refused


# ---------------------------------------------------------------- text


def spelled(value: Any, rng: Random | None = None) -> str | bytes | None:
    """Write a value as text, in one of the ways that writers have."""
    pick = (lambda *ways: ways[0]) if rng is None else (lambda *ways: rng.choice(ways))
    if value is None or isinstance(value, (str, bytes)):
        return value
    if isinstance(value, bool):
        return pick(str(value).lower(), str(value), str(value).upper(), str(int(value)), f"{int(value)}.0")
    if isinstance(value, int):
        return str(Decimal(value)) if abs(value) < 10**200 else "9" * 5001
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat(pick("T", " "))
    if isinstance(value, (date, time)):
        return value.isoformat()
    return repr(value.total_seconds()) if isinstance(value, timedelta) else str(value)


def as_spelled(cells: Cells) -> Cells:
    return Cells("text", tuple(map(spelled, cells.values)), cells.changed)


def records(raw: bytes, separator: str = ",") -> list[list[bytes]]:
    """Read CSV by RFC 4180, letter by letter: LF or CR LF outside quotes ends a record, and nothing else does."""
    mark, rows, row, cell, quoted, at = ord(separator), [], [], bytearray(), False, 0
    fresh = True
    while at < len(raw):
        byte = raw[at]
        if quoted:
            if byte == 34 and raw[at + 1 : at + 2] == b'"':
                cell.append(34)
                at += 1
            elif byte == 34:
                quoted = False
            else:
                cell.append(byte)
        elif byte == 34 and fresh:
            quoted = True
        elif byte == mark:
            row.append(bytes(cell))
            cell, fresh = bytearray(), True
            at += 1
            continue
        elif byte == 10 or raw[at : at + 2] == b"\r\n":
            at += 1 if byte == 10 else 2
            rows.append([*row, bytes(cell)])
            row, cell, fresh = [], bytearray(), True
            continue
        else:
            cell.append(byte)
        fresh = False
        at += 1
    return [*rows, [*row, bytes(cell)]] if row or cell else rows


def read_back(path: Path, separator: str = ",") -> dict[str, list]:
    raw = path.read_bytes()
    rows = records(gzip.decompress(raw) if path.suffix == ".gz" else raw, separator)
    names = [name.decode() for name in rows[0]]
    kept = [row for row in rows[1:] if row != [b""] or len(names) == 1]
    assert all(len(row) == len(names) for row in kept)
    return {name: [row[at] for row in kept] for at, name in enumerate(names)}


def text_columns(columns: Columns, rng: Random, make: Callable[[list], Any]) -> tuple[dict, set]:
    def one(cells: Cells) -> Made:
        how = Random(rng.random())
        texts = [spelled(value, Random(how.random())) for value in cells.values]
        return make(texts), texts

    made, _, refused = carried(columns, one)
    return made, refused


def writable(texts: list) -> list:
    """Return what Python's csv module can write into a file whose encoding lets any byte through."""
    return [text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text for text in texts]


def python_csv(path: Path, columns: Columns, rng: Random, **how: Any) -> Written:
    made, refused = text_columns(columns, rng, writable)
    text = io.StringIO(newline="")
    writer = csv.writer(text, **how)
    writer.writerow(made)
    writer.writerows(zip(*made.values(), strict=True))
    raw = b"".join(
        letter.encode("utf-8", "surrogateescape" if 0xDC80 <= ord(letter) <= 0xDCFF else "surrogatepass")
        for letter in text.getvalue()
    )
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return Written(lambda: path, read_back(path, how.get("delimiter", ",")), refused)


def csv_plain(folder: Path, columns: Columns, rng: Random) -> Written:
    return python_csv(folder / "a.csv", columns, rng, lineterminator=rng.choice(["\n", "\r\n"]))


def csv_quoted(folder: Path, columns: Columns, rng: Random) -> Written:
    return python_csv(folder / "a.csv", columns, rng, lineterminator=rng.choice(["\n", "\r\n"]), quoting=csv.QUOTE_ALL)


def csv_packed(folder: Path, columns: Columns, rng: Random) -> Written:
    return python_csv(folder / "a.csv.gz", columns, rng, lineterminator="\n")


def csv_tabs(folder: Path, columns: Columns, rng: Random) -> Written:
    return python_csv(folder / "a.tsv", columns, rng, lineterminator="\n", delimiter="\t")


def csv_semicolons(folder: Path, columns: Columns, rng: Random) -> Written:
    made = python_csv(folder / "a.csv", columns, rng, lineterminator="\n", delimiter=";")
    made.options = {"csv": {"separator": ";"}}
    return made


# ---------------------------------------------------------------- pandas


def pythonic(value: Any) -> Any:
    """Return a value of a pandas series as plain Python."""
    import numpy as np
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False)
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta()
    return value.item() if isinstance(value, np.generic) else value


def series(how: str) -> Callable[[Cells], Made]:
    import pandas as pd

    def one(cells: Cells) -> Made:
        given = list(cells.values)
        if how == "objects":
            made = pd.Series(given, dtype=object)
        elif how == "category":
            made = pd.Series(given, dtype="category")
        else:
            made = pd.Series(given)
            made = made.convert_dtypes() if how == "nullable" else made
        return made, [pythonic(value) for value in made]

    return one


def pandas_frame(how: str) -> Callable[[Path, Columns, Random], Written]:
    def write(folder: Path, columns: Columns, rng: Random) -> Written:
        import pandas as pd

        made, seen, refused = carried(columns, series(how))
        frame = pd.DataFrame(made)
        return Written(lambda: frame, seen, refused)

    return write


def pandas_csv(folder: Path, columns: Columns, rng: Random) -> Written:
    import pandas as pd

    how = series(rng.choice(["infer", "nullable", "objects"]))

    def one(cells: Cells) -> Made:
        made, seen = how(cells)
        made.to_csv(io.StringIO())
        assert not any(isinstance(value, int) and abs(value) > 10**4000 for value in seen)
        return made, seen

    made, _, refused = carried(columns, one)
    path = folder / "a.csv"
    pd.DataFrame(made).to_csv(path, index=False, errors="surrogatepass", lineterminator="\n")
    return Written(lambda: path, read_back(path), refused)


def pandas_parquet(folder: Path, columns: Columns, rng: Random) -> Written:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    how = series(rng.choice(["infer", "nullable", "category"]))

    def check(made: Any) -> None:
        table = pa.Table.from_pandas(pd.DataFrame({"a": made}))
        kind = table.schema.field("a").type
        assert not pa.types.is_nested(kind)  # a type that is refused as such
        assert "dictionary<values=extension" not in str(kind)  # pyarrow writes a file that it cannot finish
        assert "dictionary<values=duration" not in str(kind)  # pyarrow writes whole numbers without their unit
        # pyarrow makes a duration of a decimal beside one.
        assert not pa.types.is_duration(kind) or all(isinstance(each, timedelta) for each in made.dropna())
        pq.write_table(table, io.BytesIO())

    one = or_text(lambda cells, _: how(cells), check)
    made, seen, refused = carried(columns, lambda cells: one(cells, rng))
    path = folder / "a.parquet"
    pd.DataFrame(made).to_parquet(path, index=False)
    return Written(lambda: path, seen, refused)


# ---------------------------------------------------------------- Arrow

Convert = Callable[[Any], Any]


def midnight(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def typed(kind: str) -> list[tuple[Any, Convert]]:
    """List the Arrow types that carry this kind of value, and how a value is put into them."""
    import pyarrow as pa

    def exactly(*kinds: type) -> Convert:
        def check(value: Any) -> Any:
            if type(value) not in kinds:
                raise TypeError
            return value

        return check

    whole, real = exactly(int), exactly(float, int)
    stamps = [pa.timestamp(unit) for unit in ("us", "ns", "ms")]
    return {
        "truth": [(pa.bool_(), exactly(bool)), (pa.int8(), int), (pa.float64(), float)],
        "whole": [*((kind, whole) for kind in (pa.int64(), pa.int32(), pa.int16(), pa.float64(), pa.float32())),
                  (pa.decimal128(20, 0), Decimal), (pa.decimal128(20, 2), Decimal)],
        "big": [(pa.int64(), whole), (pa.uint64(), whole), (pa.decimal128(38, 0), Decimal)],
        "real": [(pa.float64(), real)],
        "double": [(pa.float64(), real)],
        "decimal": [(pa.decimal128(10, 2), Decimal), (pa.decimal128(38, 5), Decimal), (pa.float64(), float)],
        "day": [(pa.date32(), exactly(date)), (pa.date64(), exactly(date)), (pa.timestamp("s"), midnight),
                *((kind, midnight) for kind in stamps)],
        "moment": [(kind, exactly(datetime)) for kind in stamps],
        "zoned": [(pa.timestamp(*each), exactly(datetime)) for each in (("us", "UTC"), ("ns", "Europe/Berlin"))],
        "clock": [(pa.time64("us"), exactly(time)), (pa.time64("ns"), exactly(time)), (pa.time32("ms"), exactly(time))],
        "span": [(pa.duration(unit), exactly(timedelta)) for unit in ("us", "ns", "ms")],
    }.get(kind, [])  # fmt: skip


def as_text(cells: Cells, rng: Random, kinds: tuple[str, ...]) -> Made:
    import pyarrow as pa

    texts = [spelled(value, rng) for value in cells.values]
    raw = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
    kind = rng.choice(kinds)
    array = pa.array(raw, pa.large_binary() if kind == "large" else pa.binary())
    array = array if kind == "binary" else array.view(pa.large_string() if kind == "large" else pa.string())
    return array.dictionary_encode() if rng.random() < 0.3 else array, texts


def array_of(cells: Cells, rng: Random, texts: tuple[str, ...] = ("text", "large", "binary")) -> Made:
    """Return a column in a type that carries it: any of its own that takes the odd value, or else text."""
    import pyarrow as pa

    if all(value is None for value in cells.values) and rng.random() < 0.5:
        return pa.nulls(len(cells.values)), list(cells.values)
    ways = typed(cells.kind)
    rng.shuffle(ways)
    for kind, convert in ways:
        try:
            given = [None if value is None else convert(value) for value in cells.values]
            array = pa.array(given, kind)
        except Exception:
            continue
        return array, list(cells.values)
    return as_text(cells, rng, texts)


def clean(cells: Cells, rng: Random) -> Made:
    """Return the same, refusing what is not UTF-8 and writing no bytes."""
    array, seen = array_of(cells, rng, ("text", "large"))
    array.validate(full=True)
    return array, seen


def or_text(make: Callable[[Cells, Random], Made], check: Callable[[Any], object]) -> Callable[[Cells, Random], Made]:
    """Return a maker that writes a column as text where the writer has no way to write its own type."""

    def attempt(cells: Cells, rng: Random) -> Made:
        try:
            made, seen = make(cells, rng)
            check(made)
        except Exception:
            made, seen = make(as_spelled(cells), rng)
            check(made)
        return made, seen

    return attempt


def arrow_columns(columns: Columns, rng: Random, make: Callable[[Cells, Random], Made] = array_of) -> tuple:
    import pyarrow as pa

    made, seen, refused = carried(columns, lambda cells: make(cells, rng))
    return pa.table(made), seen, refused


def arrow_table(folder: Path, columns: Columns, rng: Random) -> Written:
    table, seen, refused = arrow_columns(columns, rng)
    return Written(lambda: table, seen, refused)


def arrow_dataset(folder: Path, columns: Columns, rng: Random) -> Written:
    import pyarrow.dataset as ds

    table, seen, refused = arrow_columns(columns, rng)
    return Written(lambda: ds.dataset(table), seen, refused)


def arrow_reader(folder: Path, columns: Columns, rng: Random) -> Written:
    table, seen, refused = arrow_columns(columns, rng)
    return Written(lambda: table.to_reader(max_chunksize=3), seen, refused)


def parquet(folder: Path, columns: Columns, rng: Random, *, dictionary: bool = False) -> Written:
    import pyarrow.parquet as pq

    table, seen, refused = arrow_columns(columns, rng)
    path = folder / "a.parquet"
    pq.write_table(table, path, row_group_size=rng.choice([2, 100]), use_dictionary=dictionary)
    return Written(lambda: path, seen, refused)


def parquet_dictionary(folder: Path, columns: Columns, rng: Random) -> Written:
    return parquet(folder, columns, rng, dictionary=True)


def ipc(folder: Path, columns: Columns, rng: Random, *, stream: bool = False) -> Written:
    import pyarrow as pa

    table, seen, refused = arrow_columns(columns, rng)
    path = folder / "a.arrow"
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema) as sink:
        sink.write_table(table, max_chunksize=rng.choice([3, 100]))
    return Written(lambda: path, seen, refused)


def ipc_stream(folder: Path, columns: Columns, rng: Random) -> Written:
    return ipc(folder, columns, rng, stream=True)


# ---------------------------------------------------------------- several files


def parts_of(rows: int, rng: Random) -> list[list[int]]:
    """Give each record its part, of three; a part without records is not written."""
    part = [rng.randrange(3) for _ in range(rows)]
    return [found for each in range(3) if (found := [at for at in range(rows) if part[at] == each])]


def joined(parts: list[tuple[list[int], dict[str, list]]]) -> dict[str, list]:
    """Bring what the parts say into the order of the records."""
    names = list(parts[0][1])
    placed = {name: {} for name in names}
    for order, seen in parts:
        for name in names:
            placed[name].update(zip(order, seen[name], strict=True))
    return {name: [found[at] for at in sorted(found)] for name, found in placed.items()}


def part_cells(cells: Cells, order: list[int]) -> Cells:
    changed = order.index(cells.changed) if cells.changed in order else None
    return Cells(cells.kind, tuple(cells.values[at] for at in order), changed)


def files(write: Callable[[Path, Columns, Random], Written]) -> Callable[[Path, Columns, Random], Written]:
    """Write the records into several Parquet files, each by itself, with the types that it takes itself."""

    def several(folder: Path, columns: Columns, rng: Random) -> Written:
        order = list(columns)
        parts, refused = [], set()
        for number, places in enumerate(parts_of(len(columns[WHO].values), rng)):
            rng.shuffle(order)
            made = write(folder, {name: part_cells(columns[name], places) for name in order}, rng)
            (folder / "a.parquet").rename(folder / f"part{number}.parquet")
            parts.append((places, made.seen))
            refused |= made.refused
        return Written(lambda: folder / "part*.parquet", joined(parts), refused)

    return several


HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"


def hive(folder: Path, columns: Columns, rng: Random) -> Written:
    """Write each record below a folder named by its text column `folder`."""
    cells = columns["folder"]
    refused: set[str] = set()
    parts = []
    for at in range(len(cells.values)):
        value = cells.values[at]
        text = "" if value is None else spelled(value)
        named = quote(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"), safe=" ")
        named = HIVE_MISSING if value is None else named
        if len(named) > 200:
            named, value = HIVE_MISSING, None
            refused.add("folder")
        below = folder / f"folder={named}"
        below.mkdir(exist_ok=True)
        rest = {name: part_cells(each, [at]) for name, each in columns.items() if name != "folder"}
        made = parquet(below, rest, rng)
        (below / "a.parquet").rename(below / f"{at}.parquet")
        parts.append(([at], {**made.seen, "folder": [value]}))
        refused |= made.refused
    return Written(lambda: folder / "*" / "*.parquet", joined(parts), refused)


# ---------------------------------------------------------------- DuckDB


def duckdb_columns(connection: Any, columns: Columns, rng: Random) -> tuple[dict[str, list], set[str]]:
    """Register the columns as `given`, those that DuckDB takes."""
    import pyarrow as pa

    def check(array: Any) -> None:
        connection.register("one", pa.table({"a": array}))
        connection.execute("SELECT count(a) FROM one").fetchall()

    make = or_text(clean, check)
    table, seen, refused = arrow_columns(columns, rng, make)
    connection.register("given", table)
    return seen, refused


def duckdb_wrote(path: Path, columns: Columns, rng: Random, statement: str) -> tuple[dict[str, list], set[str]]:
    import duckdb

    with duckdb.connect(str(path) if path.suffix == ".db" else ":memory:") as connection:
        seen, refused = duckdb_columns(connection, columns, rng)
        connection.execute(statement)
    return seen, refused


def duckdb_file(folder: Path, columns: Columns, rng: Random) -> Written:
    path = folder / "a.db"
    seen, refused = duckdb_wrote(path, columns, rng, "CREATE TABLE records AS FROM given")
    return Written(lambda: f"duckdb://{path}/records", seen, refused)


def duckdb_parquet(folder: Path, columns: Columns, rng: Random) -> Written:
    path = folder / "a.parquet"
    # An interval of DuckDB is twelve bytes of Parquet that name no unit, so spans are written as text.
    columns = {name: as_spelled(cells) if cells.kind == "span" else cells for name, cells in columns.items()}
    seen, refused = duckdb_wrote(path, columns, rng, f"COPY given TO '{path}' (FORMAT parquet)")
    return Written(lambda: path, seen, refused)


def duckdb_csv(folder: Path, columns: Columns, rng: Random) -> Written:
    path = folder / "a.csv"
    _, refused = duckdb_wrote(path, columns, rng, f"COPY given TO '{path}' (FORMAT csv, HEADER)")
    return Written(lambda: path, read_back(path), refused)


def duckdb_relation(folder: Path, columns: Columns, rng: Random) -> Written:
    import duckdb

    connection = duckdb.connect()
    seen, refused = duckdb_columns(connection, columns, rng)
    connection.execute("CREATE TABLE records AS FROM given")
    return Written(lambda: connection.table("records"), seen, refused)


# ---------------------------------------------------------------- Polars


def polars_column(cells: Cells, rng: Random) -> Made:
    pl = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")

    if rng.random() < 0.2:
        return pl.Series(list(cells.values), dtype=pl.Object), list(cells.values)
    return polars_plain(cells, rng)


def polars_plain(cells: Cells, rng: Random) -> Made:
    pl = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")

    array, seen = clean(cells, rng)
    return pl.from_arrow(array), seen


def polars_frame_of(columns: Columns, rng: Random, make: Callable[[Cells, Random], Made] = polars_plain) -> tuple:
    pl = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")

    made, seen, refused = carried(columns, lambda cells: make(cells, rng))
    return pl.DataFrame(made), seen, refused


def polars_frame(folder: Path, columns: Columns, rng: Random) -> Written:
    frame, seen, refused = polars_frame_of(columns, rng, polars_column)
    return Written(lambda: frame, seen, refused)


def polars_lazy(folder: Path, columns: Columns, rng: Random) -> Written:
    frame, seen, refused = polars_frame_of(columns, rng)
    return Written(frame.lazy, seen, refused)


def polars_parquet(folder: Path, columns: Columns, rng: Random) -> Written:
    frame, seen, refused = polars_frame_of(columns, rng)
    frame.write_parquet(folder / "a.parquet")
    return Written(lambda: folder / "a.parquet", seen, refused)


def polars_csv(folder: Path, columns: Columns, rng: Random) -> Written:
    pl = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")

    make = or_text(polars_plain, lambda made: pl.DataFrame({"a": made}).write_csv())
    frame, _, refused = polars_frame_of(columns, rng, make)
    path = folder / "a.csv"
    frame.write_csv(path)
    return Written(lambda: path, read_back(path), refused)


Writer = Callable[[Path, Columns, Random], Written]

# What one process reads by itself; the second table holds the ways in that are newer.
WRITERS: dict[str, Writer] = {
    "pandas-frame": pandas_frame("infer"),
    "pandas-objects": pandas_frame("objects"),
    "pandas-nullable": pandas_frame("nullable"),
    "pandas-category": pandas_frame("category"),
    "pandas-csv": pandas_csv,
    "pandas-parquet": pandas_parquet,
    "csv": csv_plain,
    "csv-quoted": csv_quoted,
    "arrow-table": arrow_table,
    "parquet": parquet,
    "parquet-dictionary": parquet_dictionary,
    "arrow-file": ipc,
    "arrow-stream": ipc_stream,
    "parquet-files": files(parquet),
    "pandas-files": files(pandas_parquet),
    "hive": hive,
    "duckdb-file": duckdb_file,
    "duckdb-parquet": duckdb_parquet,
    "duckdb-csv": duckdb_csv,
    "polars-frame": polars_frame,
    "polars-parquet": polars_parquet,
    "polars-csv": polars_csv,
}
NEWER: dict[str, Writer] = {
    "csv-packed": csv_packed,
    "csv-tabs": csv_tabs,
    "csv-semicolons": csv_semicolons,
    "arrow-dataset": arrow_dataset,
    "arrow-reader": arrow_reader,
    "duckdb-relation": duckdb_relation,
    "polars-lazy": polars_lazy,
}


def named() -> Iterator[str]:
    yield from (*WRITERS, *NEWER)
