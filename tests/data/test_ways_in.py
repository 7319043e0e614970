"""Each way in, on real files and frames: the same sums as the same records in an Arrow table."""

from __future__ import annotations

import datetime
import gzip
from decimal import Decimal

import ibis
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from vestry import Interval, Levels, Table
from vestry.errors import InvalidParameter
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Sum, SumQuery

DAYS = (datetime.date(2020, 1, 1), datetime.date(2020, 12, 31))
DOMAINS = {
    "ward": Levels("A", "B", missing="level"),
    "stay": Interval(0, 60, missing={"value": 30}),
    "visit": Interval(*DAYS, missing="drop"),
}
TALLY = SumQuery(("ward",), (Count(), Sum("stay", 0.0, 0.5), Sum("visit", 0.0, 1.0)))
WARDS = ["A", "B", None, "C", "B", " A"]
STAYS = [1.5, 2.0, None, 75.0, 0.25, 12.0]
VISITS = [datetime.date(2020, 1, day) for day in (1, 2, 3, 4)] + [None, datetime.date(2031, 1, 1)]
RECORDS = pa.table({"ward": WARDS, "stay": STAYS, "visit": pa.array(VISITS, pa.date32()), "other": ["x"] * 6})
# By ward A, B, missing: count, half days from 0, days after 2020-01-01. The fifth has no visit.
EXPECTED = (2, 27, 365, 1, 4, 1, 2, 180, 5)


def sums(data, tally=TALLY, domains=DOMAINS, **more):
    table = Table(data, domains, neighbours="add-remove", **more)
    table.check(tally)
    return reveal(table.collect(tally, row_key="k"))


def test_the_oracle_is_right():
    assert sums(RECORDS) == EXPECTED


def lazy(folder):
    polars = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")
    return polars.from_arrow(RECORDS).lazy().filter(polars.col("other") == "x")


def relation(folder):
    import duckdb

    connection = duckdb.connect()
    connection.register("given", RECORDS)
    connection.execute("CREATE TABLE kept AS FROM given")
    return connection.table("kept")


def delta(folder):
    deltalake = pytest.importorskip("deltalake", reason="pip install deltalake")
    deltalake.write_deltalake(str(folder / "delta"), RECORDS)
    return deltalake.DeltaTable(str(folder / "delta"))


def files(folder):
    for part in range(3):
        pq.write_table(RECORDS.slice(2 * part, 2), folder / f"part-{part}.parquet")
    return folder


def text(separator=",", decimal="."):
    def field(value):
        return "" if value is None else str(value).replace(".", decimal)

    rows = [("ward", "stay", "visit"), *zip(WARDS, STAYS, VISITS, strict=True)]
    return "".join(separator.join(map(field, row)) + "\n" for row in rows)


def packed(folder):
    (folder / "a.csv.gz").write_bytes(gzip.compress(text().encode()))
    return folder / "a.csv.gz"


def tabs(folder):
    (folder / "a.tsv").write_text(text("\t"))
    return folder / "a.tsv"


def stream(folder):
    with pa.OSFile(str(folder / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, RECORDS.schema) as writer:
        writer.write_table(RECORDS)
    return folder / "a.arrow"


def dataset(folder):
    return ds.dataset(str(files(folder)))


WAYS = [lazy, relation, delta, files, packed, tabs, stream, dataset]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_in(way, tmp_path):
    assert sums(way(tmp_path)) == EXPECTED


def test_a_reader_of_record_batches_is_read_once():
    reader = RECORDS.to_reader(max_chunksize=2)
    assert sums(reader) == EXPECTED
    with pytest.raises(InvalidParameter, match=r"read once, not 'a RecordBatchReader'; write data=reader.read_all"):
        sums(reader)
    with pytest.raises(InvalidParameter, match="cannot be counted first"):
        Table(RECORDS.to_reader(), DOMAINS, neighbours="replace").count()


def test_a_filter_on_a_dataset_holds(tmp_path):
    kept = ds.dataset(str(files(tmp_path))).filter(ds.field("ward") == "B")
    assert sums(kept) == (0, 0, 0, 1, 4, 1, 0, 0, 0)


def test_separators_and_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text(text(";", ","))
    assert sums(tmp_path / "a.csv", csv={"separator": ";", "decimal": ","}) == EXPECTED
    with pytest.raises(InvalidParameter, match="decimal must be"):
        sums(tmp_path / "a.csv", csv={"decimal": "x"})


def test_folder_names_are_text(tmp_path):
    for day, ward in (("2024-1-1", "A"), ("7", "B"), ("__HIVE_DEFAULT_PARTITION__", "B")):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"ward": [ward]}), tmp_path / f"day={day}" / "part.parquet")
    pq.write_table(pa.table({"ward": ["A"]}), tmp_path / "outside.parquet")
    domains = {"day": Levels("2024-1-1", "7", missing="level"), "ward": Levels("A", "B")}
    assert sums(tmp_path, SumQuery(("day",), (Count(),)), domains) == (1, 1, 2)
    one_more = tmp_path / "day=word"
    one_more.mkdir()
    pq.write_table(pa.table({"ward": ["A"]}), one_more / "part.parquet")
    assert sums(tmp_path, SumQuery(("day",), (Count(),)), domains) == (1, 1, 3)


def test_each_file_has_types_of_its_own(tmp_path):
    pq.write_table(pa.table({"x": [1, 0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [0.4, 2.5]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"x": ["2", "word"]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"x": pa.nulls(3)}), tmp_path / "d.parquet")
    pq.write_table(pa.table({"y": [1]}), tmp_path / "e.parquet")
    pq.write_table(pa.table({"x": [Decimal("1.25")]}), tmp_path / "f.parquet")
    tally = SumQuery((), (Count(), Sum("x", 0.0, 0.05)))
    # 1 + 0 + 0.4 + 2.5 + 2 + 1.25 in steps of 0.05, and five missing ones of 3.
    assert sums(tmp_path, tally, {"x": Interval(0, 3, missing={"value": 3})}) == (11, 143 + 5 * 60)


@pytest.mark.parametrize(
    ("dtype", "values", "days"),
    [
        (pa.timestamp("ns"), [0, 86_400_000_000_000, 2**63 - 1, -(2**63) + 1], 1 + 10),
        (pa.timestamp("s"), [0, 86_400, 2**63 - 1, -(2**63)], 1 + 10),
        (pa.timestamp("us", "Europe/Berlin"), [-1, 86_400_000_000], 1),
        (pa.date64(), [0, 86_400_000], 1),
        (pa.date32(), [0, 1, 2**31 - 1, -(2**31)], 1 + 10),
    ],
    ids=str,
)
def test_times_at_the_ends_of_their_types(dtype, values, days):
    array = pa.array(values, pa.int32() if dtype == pa.date32() else pa.int64()).view(dtype)
    domains = {"day": Interval(datetime.date(1970, 1, 1), datetime.date(1970, 1, 11))}
    tally = SumQuery((), (Count(), Sum("day", 0.0, 1.0)))
    assert sums(pa.table({"day": array}), tally, domains) == (len(values), days)


def test_times_durations_and_levels_of_dates():
    table = pa.table(
        {
            "at": pa.array([datetime.time(13, 45), datetime.time(0, 0, 1), None], pa.time64("us")),
            "took": pa.array([90, 1, None], pa.duration("s")),
            "day": pa.array([datetime.datetime(2024, 1, 31), datetime.datetime(2024, 1, 31, 1), None]),
        }
    )
    domains = {
        "at": Interval(0, 86_400),
        "took": Levels("90", "1", missing="level"),
        "day": Levels(datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), missing="level"),
    }
    tally = SumQuery(("took",), (Count(), Sum("at", 0.0, 1.0)))
    assert sums(table, tally, domains) == (1, 49_500, 1, 1, 1, 0)
    assert sums(table, SumQuery(("day",), (Count(),)), domains) == (1, 0, 2)
    timed = {"day": Levels("2024-01-31 01:00", "2024-01-31", missing="level")}
    assert sums(table, SumQuery(("day",), (Count(),)), timed) == (1, 1, 1)


def test_dates_in_a_format():
    table = pa.table({"day": ["3.1.2020", "03.01.2020", "2020-01-03", "31.2.2020", "1.1.2019", "43833"]})
    domains = {"day": Interval(*DAYS, missing="drop", format="%d.%m.%Y")}
    assert sums(table, SumQuery((), (Count(), Sum("day", 0.0, 1.0))), domains) == (3, 4)


def test_exact_levels_keep_white_space_and_spelling():
    table = pa.table({"code": ["a", " a", "1", "1.0", "true"]})
    tally = SumQuery(("code",), (Count(),))
    assert sums(table, tally, {"code": Levels("a", "1", missing="level")}) == (2, 3, 0)
    exact = {"code": Levels("a", " a", "1.0", missing="level", exact=True)}
    assert sums(table, tally, exact) == (1, 1, 1, 2)


def test_a_table_of_ibis_on_an_engine_that_no_test_covers_is_refused(tmp_path):
    """SQLite lets each value have a type of its own: bytes in a column of text would fail once they are read."""
    sqlite = ibis.sqlite.connect(tmp_path / "a.sqlite")
    kept = sqlite.create_table("kept", RECORDS.select(["ward", "stay"]))
    with pytest.raises(
        InvalidParameter, match=r"a table of Ibis on DuckDB.*, not 'on sqlite'; write data=pandas.read_sql"
    ):
        sums(kept)
    sqlite.disconnect()


def test_a_table_of_ibis_on_polars_is_refused():
    pytest.importorskip("polars", reason="polars is not installed")
    polars = ibis.polars.connect({"kept": RECORDS})
    with pytest.raises(InvalidParameter, match=r"not 'on polars'; write data=table.to_pandas\(\), a frame"):
        sums(polars.table("kept"))


def test_decimals_without_a_digit_before_the_point():
    table = pa.table({"x": pa.array([Decimal("0.25"), Decimal("-0.25"), Decimal("0.50")], pa.decimal128(2, 2))})
    domains = {"x": Levels("0.25", "-0.25", "0.5", missing="level")}
    assert sums(table, SumQuery(("x",), (Count(),)), domains) == (1, 1, 1, 0)


def test_columns_of_a_file_that_differ_in_case_alone(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1.5], "A": [7], "a": [3]}), tmp_path / "2.parquet")
    assert sums(tmp_path, SumQuery((), (Count(), Sum("a", 0.0, 1.0))), {"a": Interval(0, 9)}) == (3, 6)


@pytest.mark.parametrize("exact", [False, True])
def test_a_column_of_levels_that_also_names_persons(exact, tmp_path):
    table = pa.table({"who": pa.array(["a", "a", " a", "b", None]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    domains = {"who": Levels("a", "b", missing="level", exact=exact)}
    tally = SumQuery(("who",), (Count(),))
    found = {sums(data, tally, domains, unit="person=who,rows=1") for data in (table, tmp_path / "a.parquet")}
    # Of person a one row is kept, by the key: under exact levels it may be the one that is no level.
    assert found <= ({(1, 1, 0), (0, 1, 1)} if exact else {(1, 1, 0)})
