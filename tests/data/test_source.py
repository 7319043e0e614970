"""What cannot be reached is refused in a sentence, and no address shows a secret."""

import traceback

import pytest
from data.conftest import arrow, parquet
from data.test_semantics import EVERY, row

from vestry.data import Table, connect
from vestry.errors import InvalidParameter, MissingExtra, VestryError
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Sum, SumQuery


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("records", "data must be a folder, or a file called .parquet, .csv"),
        ("records.xlsx", "data must be a folder, or a file called .parquet, .csv"),
        ("nowhere.parquet", "data must be a file that exists, not 'nowhere.parquet'"),
        ("nowhere*.parquet", "data must be a file that exists"),
        ("nowhere.csv", "data must be a file that exists"),
        ("mysql://a/b/c", r"data must be one of the kinds that Vestry reads, not 'mysql://...'"),
        ("duckdb://records", "data must be a file and a table"),
        ("duckdb://nowhere.db/records", "data must be a file that exists"),
        ("postgresql://user@host", "data must be a database and a table"),
        ("postgresql://user@host/database", "data must be a database and a table"),
        ("postgresql://user@host:port/database/table", "data must be a URL that can be read"),
        ("postgresql://user:hunter2@host/database/table", "data must be free of secrets"),
        ("postgresql://user@host/database/table?password=hunter2", "data must be free of secrets"),
        ("postgresql://user:${VESTRY_NOT_SET}@host/database/table", "VESTRY_NOT_SET"),
        ("pyspark://", "data must be a table of Spark"),
        (b"records.parquet", r"data must be one of the kinds that Vestry reads, not 'a builtins.bytes'"),
        ([1, 2], "data must be one of the kinds that Vestry reads, not 'a builtins.list'"),
    ],
)
def test_what_is_refused(data, message):
    with pytest.raises(InvalidParameter, match=message) as caught:
        connect(data)
    assert caught.value.__context__ is None
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.arrow", "a.feather"])
def test_a_file_that_is_not_what_it_is_called(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe\x00not a table")
    with pytest.raises(InvalidParameter, match="data must be a file that can be read as") as caught:
        connect(tmp_path / name)
    assert caught.value.__context__ is None


def test_a_csv_file_that_names_a_column_twice(tmp_path):
    (tmp_path / "a.csv").write_text("ward,Ward\na,b\n")
    with pytest.raises(InvalidParameter, match="the first line must be a different name for each column"):
        connect(tmp_path / "a.csv")


def test_an_unknown_table_of_a_file(tmp_path):
    import duckdb

    duckdb.connect(str(tmp_path / "a.db")).close()
    with pytest.raises(InvalidParameter, match="data must be a table that can be read"):
        connect(f"duckdb://{tmp_path}/a.db/records")


def asked(data):
    table = Table(data, {"ward": Levels("a", "b", missing="drop")}, neighbours="replace")
    tally = SumQuery(("ward",), (Count(),))
    table.check(tally)
    return reveal(table.collect(tally, row_key=""))


def test_files_of_every_form_hold_the_same(tmp_path):
    import pyarrow as pa
    import pyarrow.feather as feather

    expected = asked(arrow(EVERY))
    folder = tmp_path / "a [b] 'c'"
    folder.mkdir()
    first = parquet(folder)(EVERY)
    assert asked(first) == asked(str(first)) == expected
    feather.write_feather(arrow(EVERY), folder / "a.feather")
    feather.write_feather(arrow(EVERY), folder / "a.arrow", compression="uncompressed")
    with pa.ipc.new_stream(folder / "stream.arrow", arrow(EVERY).schema) as stream:
        stream.write_table(arrow(EVERY))
    assert asked(folder / "a.feather") == asked(folder / "a.arrow") == asked(folder / "stream.arrow") == expected


def test_a_pattern_of_files(tmp_path):
    load = parquet(tmp_path)
    load(EVERY)
    load(EVERY)
    assert asked(tmp_path / "*.parquet") == tuple(2 * count for count in asked(arrow(EVERY)))


def test_a_csv_file_whose_first_column_has_no_name_and_that_begins_with_a_mark(tmp_path):
    (tmp_path / "a.csv").write_text('\ufeffward,,"x, y"\r\na,0,1\r\n"b",1,2\r\na,2,"3\n4"\r\n', newline="")
    assert asked(tmp_path / "a.csv") == (2, 1)


def test_nothing_of_a_csv_file_is_guessed(tmp_path):
    """Records that look like another delimiter, other types or a second header change nothing."""
    (tmp_path / "a.csv").write_text("ward,n\n" + "a;b;c,1\n" * 50 + "ward,n\n'a',1\na,1\n# a,1\n")
    assert asked(tmp_path / "a.csv") == (1, 0)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12 on DuckDB 2
def test_a_table_of_ibis():
    import ibis

    assert asked(ibis.memtable(arrow(EVERY))) == asked(arrow(EVERY))
    own = ibis.duckdb.connect(disabled_optimizers="join_order")
    assert asked(own.create_table("records", arrow(EVERY))) == asked(arrow(EVERY))
    assert own.raw_sql("SELECT current_setting('disabled_optimizers')").fetchone() == ("join_order",)
    own.disconnect()
    with pytest.raises(InvalidParameter, match="data must be a table that a backend holds"):
        connect(ibis.table({"ward": "string"}, name="unbound"))


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12 on DuckDB 2
def test_a_connection_of_someone_else_believes_no_file_either(tmp_path):
    import ibis

    values = [1.0, float("nan"), 2.0]
    path = parquet(tmp_path)([row(real=value) for value in values])
    own = ibis.duckdb.connect()
    table = Table(own.read_parquet(path), {"real": Interval(0, 3)}, neighbours="replace")
    assert reveal(table.collect(SumQuery((), (Sum("real", 0.0, 1.0),)), row_key="")) == (3,)
    own.disconnect()


@pytest.mark.parametrize(
    ("package", "data", "line"),
    [
        ("psycopg", "postgresql://user@host/database/table", r"pip install 'vestry\[postgres\]'"),
        ("pyspark", "pyspark://table", r"pip install 'vestry\[spark\]'"),
    ],
)
def test_a_driver_that_is_not_installed(package, data, line, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingExtra, match=line):
        connect(data)


@pytest.mark.slow
def test_a_server(postgresql, server, monkeypatch):
    address = postgresql.load(EVERY)
    name = address.partition("?")[0].rpartition("/")[2]
    assert asked(address) == asked(arrow(EVERY))
    assert asked(address.replace(f"/{name}", f"/public.{name}")) == asked(arrow(EVERY))
    monkeypatch.setenv("WHERE", str(server))
    assert asked(f"postgresql://postgres@/postgres/{name}?host=${{WHERE}}") == asked(arrow(EVERY))
    with connect(address) as source, pytest.raises(Exception, match="read-only transaction"):
        source.backend.raw_sql("CREATE TABLE mine (a int)")
    with pytest.raises(InvalidParameter, match="data must be a table that this user can read"):
        connect(address.replace(name, "nowhere"))
    with pytest.raises(InvalidParameter, match="data must be a PostgreSQL database that can be reached") as caught:
        connect(address.replace("/postgres/", "/nowhere/"))
    assert caught.value.__context__ is None


@pytest.mark.slow
def test_a_table_that_this_user_may_not_read(postgresql, server):
    import psycopg

    address = postgresql.load(EVERY)
    with psycopg.connect(f"postgresql://postgres@/postgres?host={server}", autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    with pytest.raises(VestryError, match="the query could not be prepared"):
        asked(address.replace("postgres@", "stranger@"))


@pytest.mark.slow
def test_a_table_of_spark(pyspark, spark):
    address = pyspark.load(EVERY)
    spark.read.parquet(address.removeprefix("pyspark://")).createOrReplaceTempView("records")
    assert asked("pyspark://records") == asked(arrow(EVERY))
    with pytest.raises(InvalidParameter, match="data must be a table or path that Spark can read"):
        connect("pyspark://nowhere")
