"""One query a tally, one scan a query, and nothing left behind."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from data.conftest import SLOW, duckdb_file
from data.test_semantics import EVERY

import vestry
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.data import Table, connect
from vestry.errors import InvalidParameter
from vestry.ledger import Ledger
from vestry.schema.domain import Interval, Levels
from vestry.schema.statistics import Count, Indicator, PersonQuery, Product, Sum, SumQuery

DOMAINS = {"ward": Levels("a", "b", missing="drop"), "real": Interval(0, 3), "whole": Interval(0, 3)}
TALLY = SumQuery(
    ("ward",), (Count(), Indicator("ward", ("a",)), Sum("real", 0.0, 1.0), Product(("real", "whole"), (0.0, 0.0), 1.0))
)


@pytest.fixture
def statements(monkeypatch) -> list[str]:
    """Record every statement that Ibis sends to DuckDB."""
    from ibis.backends.duckdb import Backend

    sent = []

    class Recorder:
        def __init__(self, connection):
            self.connection = connection

        def __getattr__(self, name):
            found = getattr(self.connection, name)
            if name not in ("execute", "sql", "query", "executemany"):
                return found

            def recorded(statement, *args, **kwargs):
                sent.append(str(statement))
                return found(statement, *args, **kwargs)

            return recorded

    connect_to = Backend.do_connect

    def recording(self, *args, **kwargs):
        connect_to(self, *args, **kwargs)
        self.con = Recorder(self.con)

    monkeypatch.setattr(Backend, "do_connect", recording)
    return sent


def reads(statement: str) -> bool:
    start = statement.lstrip().upper()
    return start.startswith(("SELECT", "WITH", "FROM", "COPY", "TABLE")) and "DUCKDB_" not in start


PERSONS = PersonQuery(("ward",), (Sum("real", 0.0, 1.0),), 3600, (3,))


@pytest.mark.parametrize(
    ("unit", "tally"),
    [("row", TALLY), ("person=id,rows=2", TALLY), ("person=id,rows=2", PERSONS)],
    ids=["rows", "of persons", "persons"],
)
@pytest.mark.parametrize("kind", ["parquet", "csv", "pandas"])
def test_one_query_and_one_scan(kind, unit, tally, statements, tmp_path):
    from data.conftest import pandas_frame, parquet, write_csv

    data = {
        "parquet": lambda: parquet(tmp_path)(EVERY),
        "csv": lambda: write_csv(tmp_path / "a.csv", EVERY),
        "pandas": lambda: pandas_frame(EVERY),
    }[kind]()
    table = Table(data, DOMAINS, unit=unit, neighbours="replace")
    table.check(tally)
    checked = [statement for statement in statements if reads(statement)]
    assert checked == []
    statements.clear()
    table.collect(tally, row_key="k")
    asked = [statement for statement in statements if reads(statement)]
    assert len(asked) == 1
    assert asked[0].upper().count('FROM "') == 1  # every other FROM has a subquery


# A release, counted where the records are


def scans_of_postgresql(server, name: str) -> tuple[int, int]:
    """Return how many scans of a table the server has begun, and how many records it has read, by its own account."""
    import psycopg

    ended = "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
    found = "SELECT seq_scan + coalesce(idx_scan, 0), seq_tup_read FROM pg_stat_user_tables WHERE relname = %s"
    with psycopg.connect(f"postgresql://postgres@/postgres?host={server}", autocommit=True) as connection:
        for _ in range(200):  # a connection tells its statistics as it ends
            if connection.execute(ended).fetchone()[0]:
                return connection.execute(found, [name]).fetchone()
            time.sleep(0.05)
    raise AssertionError("a connection was left open")


def executions_of_spark(spark) -> list:
    """Return what Spark has executed, and remembers."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(place) for place in range(found.size())]


def scans_of_spark(spark, known: set[int]) -> tuple[int, int]:
    """Return how many new queries scanned Parquet files, and how many records they read, by Spark's own account."""
    store = spark._jsparkSession.sharedState().statusStore()
    ran, read = 0, 0
    for execution in executions_of_spark(spark):
        if execution.executionId() in known:
            continue
        nodes = store.planGraph(execution.executionId()).allNodes()
        scans = [node for node in map(nodes.apply, range(nodes.size())) if node.name().startswith("Scan parquet")]
        if execution.jobs().isEmpty() or not scans:
            continue  # what is only planned runs no job
        ran += 1
        said = store.executionMetrics(execution.executionId())
        for node in scans:
            counted = map(node.metrics().apply, range(node.metrics().size()))
            numbers = [each.accumulatorId() for each in counted if each.name() == "number of output rows"]
            read += sum(int(said.apply(number).replace(",", "")) for number in numbers)
    return ran, read


@pytest.fixture(params=["duckdb", pytest.param("postgresql", marks=SLOW), pytest.param("pyspark", marks=SLOW)])
def counted(request, tmp_path) -> tuple[str, Callable[[], tuple[int, int | None]]]:
    """An address with records, and what has been asked of it so far: queries, and records read where it is known."""
    if request.param == "duckdb":
        sent = request.getfixturevalue("statements")
        return duckdb_file(tmp_path)(EVERY), lambda: (len([each for each in sent if reads(each)]), None)
    address = request.getfixturevalue(request.param).load(EVERY)
    if request.param == "postgresql":
        server, name = request.getfixturevalue("server"), address.partition("?")[0].rpartition("/")[2]
        return address, lambda: scans_of_postgresql(server, name)
    spark = request.getfixturevalue("spark")
    known = {execution.executionId() for execution in executions_of_spark(spark)}
    return address, lambda: scans_of_spark(spark, known)


def asked_by(action: Callable[[], object], so_far: Callable[[], tuple[int, int | None]]) -> tuple[int, int | None]:
    before = so_far()
    action()
    after = so_far()
    return after[0] - before[0], None if after[1] is None else after[1] - before[1]


def released(address: str, path: Path, *, unit: str, neighbours: str, missing: str) -> None:
    columns = {"ward": Levels("a", "b", missing=missing), "real": Interval(0, 3)}
    table = Table(address, columns, unit=unit, neighbours=neighbours)
    ledger = Ledger.create(path, dataset="records", unit=unit, neighbours=neighbours, budget="epsilon=1")
    vestry.release(BetaBernoulli("ward", success="a"), table, guarantee="epsilon=0.5", ledger=ledger)


CASES = [
    ("row", "add-remove", "drop", 1),
    ("person=id,rows=2", "add-remove", "drop", 1),
    ("person=id,rows=2", "replace", "drop", 1),
    ("row", "replace", "drop", 1),
    ("row", "replace", "level", 2),  # where the number of records is public it is asked for before the charge
]


@pytest.mark.parametrize(("unit", "neighbours", "missing", "queries"), CASES)
def test_one_query_a_release(counted, tmp_path, unit, neighbours, missing, queries):
    address, so_far = counted
    kind = {"unit": unit, "neighbours": neighbours, "missing": missing}
    asked, read = asked_by(lambda: released(address, tmp_path / "a.ledger", **kind), so_far)
    assert asked == queries
    assert read in (None, queries * len(EVERY))


def test_a_release_that_collects_twice_is_counted_as_two(counted, tmp_path, monkeypatch):
    """The broken twin: the count is not blind."""
    address, so_far = counted
    collect = Table.collect

    def twice(self, tally, *, row_key):
        collect(self, tally, row_key=row_key)
        return collect(self, tally, row_key=row_key)

    monkeypatch.setattr(Table, "collect", twice)
    kind = {"unit": "row", "neighbours": "add-remove", "missing": "drop"}
    asked, read = asked_by(lambda: released(address, tmp_path / "a.ledger", **kind), so_far)
    assert asked == 2
    assert read in (None, 2 * len(EVERY))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Spark, about Pandas
@pytest.mark.parametrize("counted", ["postgresql", "pyspark"], indirect=True)
def test_a_query_that_scans_twice_reads_every_record_twice(counted):
    """The other broken twin: one query, two scans."""
    address, so_far = counted

    def joined():
        with connect(address) as source:
            sides = [source.parts[0].aggregate(**{name: source.parts[0][name].max().cast("string")})
                     for name in ("real", "whole")]  # fmt: skip
            source.rows(sides[0].cross_join(sides[1]))

    assert asked_by(joined, so_far)[1] == 2 * len(EVERY)


def test_a_spill_is_private_and_removed(tmp_path):
    from data.conftest import parquet

    with connect(parquet(tmp_path)(EVERY)) as source:
        found = dict(source.backend.raw_sql("SELECT name, value FROM duckdb_settings()").fetchall())
        folder = Path(found["temp_directory"])
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert found["temp_file_encryption"] == "true"
    assert not folder.exists()


@pytest.mark.parametrize(("more", "shown"), [("", False), ("SET temp_file_encryption = false", True)])
@pytest.mark.long
def test_what_is_spilled_cannot_be_read(more, shown, tmp_path, monkeypatch):
    monkeypatch.setattr("vestry.data.source.LOCK", "SELECT 1")
    with connect(planted(tmp_path, 300_000)) as source:
        connection = source.backend.con
        connection.execute(f"SET memory_limit = '12MB'; SET threads = 1; {more}")
        folder = connection.execute("SELECT current_setting('temp_directory')").fetchone()[0]
        # A table is held, so that what was spilled is there to be looked at.
        connection.execute("SET force_compression = 'uncompressed'")
        connection.execute("CREATE TEMP TABLE held AS SELECT name || '-' || i AS name FROM data_file.records")
        spilled = b"".join(path.read_bytes() for path in Path(folder).iterdir())
        assert len(spilled) > 1_000_000
        assert (b"canary" in spilled) is shown


def planted(folder, rows):
    import duckdb

    path = folder / "planted.db"
    with duckdb.connect(str(path)) as connection:
        names = f"SELECT i, 'canary-' || md5(i::text) || md5((i * 7)::text) AS name FROM range({rows}) t(i)"
        connection.execute(f"CREATE TABLE records AS {names}")
    return f"duckdb://{path}/records"


def test_importing_the_room_is_cheap():
    code = "import sys, vestry.data; print({'ibis', 'duckdb', 'pandas', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("unit", "neighbours"), [("row", "add-remove"), ("person=id,rows=1", "replace"), ("person=id,rows=1", "add-remove")]
)
def test_the_count_is_refused_where_it_is_private(unit, neighbours):
    table = Table("records.parquet", DOMAINS, unit=unit, neighbours=neighbours)
    with pytest.raises(InvalidParameter, match="the number of records must be private unless a row is replaced"):
        table.count()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {"ward": "a"}}, "the column ward must be levels or an interval"),
        ({"columns": {1: Interval(0, 1)}}, "a column's name must be text"),
        ({"max_rows": 0}, "max_rows must be a whole number"),
        ({"max_rows": 2**62}, "max_rows must be a whole number"),
        ({"max_rows": True}, "max_rows must be a whole number"),
        ({"unit": "person"}, "unit must be"),
        ({"neighbours": "both"}, "neighbours must be"),
    ],
)
def test_a_table_that_cannot_be(change, message):
    columns = change.pop("columns", DOMAINS)
    with pytest.raises(InvalidParameter, match=message):
        Table("records.parquet", columns, **{"neighbours": "replace", **change})


def test_a_table_does_not_change():
    table = Table("records.parquet", DOMAINS, neighbours="replace")
    with pytest.raises(AttributeError, match="cannot assign to field 'unit'"):
        table.unit = "row"
    with pytest.raises(TypeError, match="does not support item assignment"):
        table.columns["ward"] = Levels("c", "d")


def test_a_key_that_is_no_text():
    with pytest.raises(InvalidParameter, match="row_key must be text"):
        Table("records.parquet", DOMAINS, neighbours="replace").collect(TALLY, row_key=b"secret")
