"""One query a tally, one scan a query, and nothing left behind."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from backends.test_semantics import EVERY

from vestry.data import Table, connect
from vestry.errors import InvalidParameter
from vestry.statistics.domain import Interval, Levels
from vestry.statistics.tally import Indicator, One, Product, Sum, Tally

DOMAINS = {"ward": Levels("a", "b", missing="drop"), "real": Interval(0, 3), "whole": Interval(0, 3)}
TALLY = Tally(
    ("ward",), (One(), Indicator("ward", ("a",)), Sum("real", 0.0, 1.0), Product(("real", "whole"), (0.0, 0.0), 1.0))
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


@pytest.mark.parametrize("unit", ["row", "person=id,rows=2"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "pandas"])
def test_one_query_and_one_scan(kind, unit, statements, tmp_path):
    from backends.conftest import pandas_frame, parquet, write_csv

    data = {
        "parquet": lambda: parquet(tmp_path)(EVERY),
        "csv": lambda: write_csv(tmp_path / "a.csv", EVERY),
        "pandas": lambda: pandas_frame(EVERY),
    }[kind]()
    table = Table(data, DOMAINS, unit=unit, neighbours="replace")
    table.check(TALLY)
    checked = [statement for statement in statements if reads(statement)]
    assert checked == []
    statements.clear()
    table.collect(TALLY, row_key="k")
    asked = [statement for statement in statements if reads(statement)]
    assert len(asked) == 1
    assert asked[0].upper().count('FROM "') == 1  # every other FROM has a subquery


def test_a_spill_is_private_and_removed(tmp_path):
    from backends.conftest import parquet

    with connect(parquet(tmp_path)(EVERY)) as source:
        found = dict(source.backend.raw_sql("SELECT name, value FROM duckdb_settings()").fetchall())
        folder = Path(found["temp_directory"])
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert found["temp_file_encryption"] == "true"
    assert not folder.exists()


@pytest.mark.parametrize(("more", "shown"), [("", False), ("SET temp_file_encryption = false", True)])
def test_what_is_spilled_cannot_be_read(more, shown, tmp_path):
    with connect(planted(tmp_path, 300_000)) as source:
        connection = source.backend.con
        connection.execute(f"SET memory_limit = '12MB'; SET threads = 1; {more}")
        folder = connection.execute("SELECT current_setting('temp_directory')").fetchone()[0]
        # A table is held, so that what was spilled is there to be looked at.
        connection.execute("SET force_compression = 'uncompressed'")
        connection.execute("CREATE TEMP TABLE held AS SELECT name || '-' || i AS name FROM records")
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
        ({"columns": {}}, "columns must be one or more columns"),
        ({"columns": {"ward": "a"}}, "the column ward must be levels or an interval"),
        ({"columns": {1: Interval(0, 1)}}, "a column's name must be text"),
        ({"largest": 0}, "largest must be a whole number"),
        ({"largest": 2**62}, "largest must be a whole number"),
        ({"largest": True}, "largest must be a whole number"),
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
