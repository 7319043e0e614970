"""Parquet files by how they are encoded: no encoding, and no value by which it is chosen, changes a reading."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from share import cases

from vestry import Interval, Levels, Table
from vestry.data.arrow_values import clean_stream
from vestry.data.parquet_files import ParquetFile, groups
from vestry.data.source import Selection
from vestry.errors import InvalidParameter
from vestry.schema.domain import Domain
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Sum, SumQuery

LEVELS = ("A", "B", "1.5")
DOMAIN = Levels(*LEVELS, missing="level")
ROWS = 240
ONE_VALUE_A_RECORD = ("PLAIN", "BYTE_STREAM_SPLIT")
TEXT_ENCODINGS = ("RLE_DICTIONARY", "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
WHOLE_ENCODINGS = ("RLE_DICTIONARY", *ONE_VALUE_A_RECORD, "DELTA_BINARY_PACKED")
REAL_ENCODINGS = ("RLE_DICTIONARY", *ONE_VALUE_A_RECORD)
BYTES_ENCODINGS = (*REAL_ENCODINGS, "DELTA_BYTE_ARRAY")
DISTINCT = (1, 2, 3, 4, 50, ROWS)
TEXT = pa.string()
DICTIONARIES = {
    "dictionary": pa.dictionary(pa.int32(), TEXT),
    "large dictionary": pa.dictionary(pa.int64(), pa.large_string()),
    "uint8": pa.dictionary(pa.uint8(), pa.binary()),
}
Texts = list[str | None]
Write = Callable[[Path, Texts], None]


def texts_of(distinct: int) -> Texts:
    """Return texts of which so many differ: levels in several spellings, others, and missing ones."""
    different = ["A", "B", "1.50", " A ", "1.5"]
    different += [f"other {number}" for number in range(ROWS)]
    texts: Texts = [different[row % distinct] for row in range(ROWS)]
    texts[6::7] = [None] * len(texts[6::7])
    return texts


def expected(texts: Texts) -> tuple[int, ...]:
    """Return how many records have each level, and how many none."""
    classes = {"A": "A", " A ": "A", "B": "B", "1.50": "1.5", "1.5": "1.5"}
    read = [classes.get(text) for text in texts]
    counted = map(read.count, (*LEVELS, None))
    return tuple(counted)


def collected(data: object, column: str, domain: Domain, query: SumQuery) -> tuple[int, ...]:
    table = Table(data, {column: domain}, neighbours="add-remove")
    table.check(query)
    private = table.collect(query, row_key="k")
    return reveal(private)


def counts(data: object) -> tuple[int, ...]:
    query = SumQuery(("x",), (Count(),))
    return collected(data, "x", DOMAIN, query)


def total(data: object, domain: Interval) -> int:
    query = SumQuery((), (Sum("x", 0.0, 1.0),))
    (summed,) = collected(data, "x", domain, query)
    return summed


def places(path: Path) -> tuple[int, ...]:
    """Return the same counts as the file's own reader hands them on, without a query."""
    levels = {"x": DOMAIN}
    file = ParquetFile(partial(pa.OSFile, str(path)), {})
    (group,) = groups([file], Selection(("x",), levels))
    stream = clean_stream(group.schema, group.batches(), levels)
    column = stream.read_all().column(0)
    counted = np.bincount(column.to_numpy(), minlength=len(LEVELS) + 1)
    return tuple(counted.tolist())


def encodings(path: Path) -> set[str]:
    metadata = pq.read_metadata(path)
    names: set[str] = set()
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(0)
        names.update(chunk.encodings)
    return names


def by_arrow(path: Path, array: pa.Array, encoding: str, **more: object) -> None:
    more["use_dictionary"] = encoding == "RLE_DICTIONARY"
    if not more["use_dictionary"]:
        more["column_encoding"] = {"x": encoding}
    pq.write_table(pa.table({"x": array}), path, **more)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", TEXT_ENCODINGS)
@pytest.mark.parametrize("carrier", cases(["string", "large_string", "binary", *DICTIONARIES], quick=["string"]))
def test_text_of_every_encoding_by_arrow(carrier, encoding, version, tmp_path):
    """Also where the Arrow schema that the file stores asks for a dictionary."""
    path = tmp_path / "a.parquet"
    for distinct in DISTINCT:
        texts = texts_of(distinct)
        array = pa.array(texts).cast(DICTIONARIES.get(carrier, carrier))
        by_arrow(path, array, encoding, data_page_version=version, row_group_size=100)
        assert encoding in encodings(path)
        assert places(path) == expected(texts)
    assert counts(path) == expected(texts)


@pytest.mark.parametrize("encoding", TEXT_ENCODINGS)
def test_text_of_every_encoding_in_a_dataset(encoding, tmp_path):
    texts = texts_of(50)
    array = pa.array(texts).dictionary_encode()
    by_arrow(tmp_path / "a.parquet", array, encoding)
    assert counts(ds.dataset(tmp_path)) == expected(texts)


CHOSEN = {"V1": {"PLAIN_DICTIONARY", "PLAIN"}, "V2": {"RLE_DICTIONARY", "DELTA_LENGTH_BYTE_ARRAY"}}


@pytest.mark.parametrize("version", CHOSEN)
def test_text_of_every_encoding_by_duckdb(version, tmp_path):
    """DuckDB writes a dictionary as long as few texts differ; beyond, plain or delta-encoded text."""
    chosen = set()
    path = tmp_path / "a.parquet"
    for distinct in DISTINCT:
        texts = texts_of(distinct)
        write_duckdb(path, texts, version)
        chosen |= encodings(path)
        assert places(path) == expected(texts)
    assert counts(path) == expected(texts)
    assert chosen == CHOSEN[version]


@pytest.mark.parametrize("carrier", ["String", "Categorical", "Enum"])
def test_text_of_every_encoding_by_polars(carrier, tmp_path):
    polars = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")
    path = tmp_path / "a.parquet"
    dtypes = {"String": polars.String, "Categorical": polars.Categorical}
    for distinct in DISTINCT:
        texts = texts_of(distinct)
        different = sorted(set(texts) - {None})
        series = polars.Series("x", texts, dtype=dtypes.get(carrier, polars.Enum(different)))
        series.to_frame().write_parquet(path, row_group_size=100)
        assert places(path) == expected(texts)
    assert counts(path) == expected(texts)


@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        (pa.int64(), WHOLE_ENCODINGS),
        (pa.int32(), WHOLE_ENCODINGS),
        (pa.uint64(), WHOLE_ENCODINGS),
        (pa.float64(), REAL_ENCODINGS),
        (pa.float32(), REAL_ENCODINGS),
        (pa.float16(), BYTES_ENCODINGS),
        (pa.decimal128(20, 2), BYTES_ENCODINGS),
        (pa.bool_(), ("PLAIN", "RLE")),
    ],
    ids=str,
)
def test_numbers_of_every_encoding(dtype, names, tmp_path):
    most = 2 if pa.types.is_boolean(dtype) else 50
    numbers = np.arange(ROWS) % most
    missing = np.arange(ROWS) % 7 == 6
    doubles = pa.array(numbers.astype(float), mask=missing)
    array = doubles.cast(dtype)
    stand_ins = np.where(missing, 60, numbers)
    for encoding in names:
        path = tmp_path / f"{encoding}.parquet"
        by_arrow(path, array, encoding, data_page_version="2.0")
        assert encoding in encodings(path)
        assert total(path, Interval(0, 60, missing={"value": 60})) == stand_ins.sum()


def test_a_filtered_dataset_is_read_only_by_types_that_hold_every_value(tmp_path):
    """Arrow makes a dictionary of some encodings only, and converts values to the type of the dataset."""
    first = tmp_path / "a.parquet"
    second = tmp_path / "b.parquet"
    array = pa.array(texts_of(3)).dictionary_encode()
    by_arrow(first, array, "DELTA_BYTE_ARRAY")
    everything = ds.field("x").is_valid() | ds.field("x").is_null()
    refused = "must be a dataset without a filter, or a table, not 'filtered, and its files have categories"
    categories = ds.dataset(first).filter(everything)
    with pytest.raises(InvalidParameter, match=refused):
        counts(categories)
    pq.write_table(pa.table({"x": [1, 2]}), second)
    narrow = pa.schema({"x": pa.int8()})
    narrowed = ds.dataset(second, schema=narrow).filter(everything)
    with pytest.raises(InvalidParameter, match=refused):
        counts(narrowed)
    unchanged = ds.dataset(second).filter(everything)
    assert counts(unchanged) == (0, 0, 0, 2)


def test_a_dataset_of_files_whose_types_are_guessed_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    guessed = ds.dataset(tmp_path / "a.csv", format="csv")
    with pytest.raises(InvalidParameter, match=r"a dataset of Parquet or Arrow files.*not 'one of csv files'"):
        counts(guessed)


def test_some_row_groups_of_a_dataset(tmp_path):
    texts = texts_of(50)
    by_arrow(tmp_path / "a.parquet", pa.array(texts), "PLAIN", row_group_size=100)
    whole = ds.dataset(tmp_path)
    (fragment,) = whole.get_fragments()
    subset = fragment.subset(row_group_ids=[1])
    chosen = ds.FileSystemDataset([subset], whole.schema, whole.format)
    assert counts(chosen) == expected(texts[100:200])


def test_a_column_that_is_called_records(tmp_path):
    pq.write_table(pa.table({"records": ["A", "B", "A"]}), tmp_path / "a.parquet")
    query = SumQuery(("records",), (Count(),))
    assert collected(tmp_path, "records", DOMAIN, query) == (2, 1, 0, 0)


def test_what_a_stored_schema_says_of_other_types_is_set_aside(tmp_path):
    """A duration keeps its unit, which Parquet has no word for; a text that is said to be one stays text."""
    first = tmp_path / "a.parquet"
    second = tmp_path / "b.parquet"
    spans = pa.array([90, None], pa.duration("s"))
    pq.write_table(pa.table({"x": spans}), first)
    assert total(first, Interval(0, 100, missing={"value": 7})) == 97
    stored = pq.read_metadata(first).metadata[b"ARROW:schema"]
    schema = pa.schema({"x": TEXT}, metadata={"ARROW:schema": stored})
    texts = pa.table({"x": ["A", "B"]}, schema=schema)
    pq.write_table(texts, second, store_schema=False)
    assert counts(second) == (1, 1, 0, 0)


def test_moments_of_twelve_bytes(tmp_path):
    """Spark wrote them for years; nanoseconds of 64 bits end in 2262."""
    path = tmp_path / "a.parquet"
    moments = [datetime.datetime(year, 1, 2) for year in (1600, 2024, 9999)]
    array = pa.array([*moments, None], pa.timestamp("us"))
    pq.write_table(pa.table({"x": array}), path, use_deprecated_int96_timestamps=True, store_schema=False)
    first = datetime.date(2024, 1, 1)
    stand_in = datetime.date(2024, 1, 6)
    domain = Interval(first, datetime.date(2024, 1, 11), missing={"value": stand_in})
    assert total(path, domain) == 0 + 1 + 10 + 5


# Neighbours whose encodings differ


@cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def write_duckdb(path: Path, texts: Texts, version: str = "V2") -> None:
    table = pa.table({"x": texts})
    connection().register("records", table)
    connection().execute(f"COPY records TO '{path}' (PARQUET_VERSION {version}, DICTIONARY_SIZE_LIMIT 3)")


def encoding_for(texts: Texts, other: str) -> str:
    """Choose an encoding by the number of different texts, as writers do."""
    different = set(texts) - {None}
    return other if len(different) > 3 else "RLE_DICTIONARY"


def write_arrow(path: Path, texts: Texts) -> None:
    encoding = encoding_for(texts, "DELTA_LENGTH_BYTE_ARRAY")
    by_arrow(path, pa.array(texts, TEXT), encoding)


def write_stored(path: Path, texts: Texts) -> None:
    """Write the same; the stored schema asks for a dictionary."""
    encoding = encoding_for(texts, "DELTA_BYTE_ARRAY")
    array = pa.array(texts, TEXT).dictionary_encode()
    by_arrow(path, array, encoding)


WRITERS = (write_duckdb, write_arrow, write_stored)


def neighbours(rng: Random, rows: int) -> Iterator[Texts]:
    """Yield tables, each of which differs from the one before in one record: a new text comes, and goes again."""
    values = ["A", "B", "1.50"]
    texts: Texts = (values * rows)[:rows]
    while True:
        yield list(texts)
        repeated = [row for row, text in enumerate(texts) if texts.count(text) > 1]
        row = rng.choice(repeated)
        number = rng.randrange(10**6)
        texts[row] = rng.choice([" A ", "1.5", f"other {number}", "x" * 200])
        yield list(texts)
        texts[row] = rng.choice([*values, None])


def differing_pairs(write: Write, files: int, path: Path, read: Callable[[Path], tuple[int, ...]]) -> int:
    """Read a chain of neighbours, and return how many pairs of them have other encodings."""
    differing = 0
    before: set[str] = set()
    chain = neighbours(Random(files), 12)
    for texts in islice(chain, files):
        write(path, texts)
        assert read(path) == expected(texts)
        own = encodings(path)
        differing += own != before
        before = own
    return differing - 1  # the first file has none before it


@pytest.mark.parametrize("write", WRITERS)
def test_neighbours_whose_encodings_differ(write, tmp_path):
    path = tmp_path / "a.parquet"
    assert differing_pairs(write, 5, path, counts) == 4
    assert differing_pairs(write, 101, path, places) == 100


@pytest.mark.long
@pytest.mark.parametrize("write", WRITERS)
def test_10_000_neighbours_whose_encodings_differ(write, tmp_path):
    path = tmp_path / "a.parquet"
    assert differing_pairs(write, 3_351, path, places) == 3_350
