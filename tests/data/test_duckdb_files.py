"""Files of DuckDB hold records and nothing else: what they define is not run, and what they name is not opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vestry import Interval, Levels, Table
from vestry.data.source import connect
from vestry.errors import InvalidParameter
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Sum, SumQuery

QUERY = SumQuery(("ward",), (Count(), Sum("stay", 0.0, 1.0)))
DOMAINS = {"ward": Levels("A", "B", missing="level"), "stay": Interval(0, 60)}
ROWS = "SELECT * FROM (VALUES ('A', 1.5), ('B', 75), (NULL, 2)) AS rows(ward, stay)"
# By ward A, B, missing: how many, and their days.
EXPECTED = (1, 2, 1, 60, 1, 2)
VIEW = "data must be a table that holds its records itself, not 'a view'; write CREATE TABLE stored AS FROM name"


def database(folder: Path, *statements: str) -> Path:
    path = folder / "it's a.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE records AS {ROWS}")
        for statement in statements:
            connection.execute(statement)
    return path


def sums(path: Path, name: str = "records", **more: str) -> tuple[int, ...]:
    table = Table(f"duckdb://{path}/{name}", DOMAINS, neighbours="add-remove", **more)
    table.check(QUERY)
    private = table.collect(QUERY, row_key="k")
    return reveal(private)


@pytest.mark.parametrize(
    "macro",
    [
        "sum(x) AS 7",
        "floor(x) AS 1e15 * x",
        "list_position(a, b) AS 1",
        "greatest(a, b) AS 9",
        "md5(x) AS 'a'",
        "trim(a, b) AS 'A'",
        "regexp_matches(a, b) AS error('what the record holds: ' || a)",
    ],
)
def test_a_function_that_a_file_defines_is_not_called(macro, tmp_path):
    """It would decide what a record adds: nothing, or without a bound."""
    path = database(tmp_path, f"CREATE MACRO {macro}")
    assert sums(path) == EXPECTED
    assert sums(path, unit="person=ward,rows=1") == (1, 2, 1, 60, 0, 0)


@pytest.mark.parametrize(
    "view",
    [
        "SELECT * FROM records",
        "SELECT * FROM '{folder}/other.parquet'",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT ward, error(ward) AS stay FROM records",
        "SELECT * FROM other_rows()",
    ],
)
def test_a_view_is_refused(view, tmp_path):
    pq.write_table(pa.table({"ward": ["A"], "stay": [1.0]}), tmp_path / "other.parquet")
    (tmp_path / "secret.csv").write_text("ward,stay\nA,1\n")
    macro = f"CREATE MACRO other_rows() AS TABLE SELECT * FROM '{tmp_path}/other.parquet'"
    path = database(tmp_path, macro, f"CREATE VIEW wards AS {view.format(folder=tmp_path)}")
    for name in ("wards", "WARDS", "main.wards"):
        with pytest.raises(InvalidParameter, match=VIEW):
            sums(path, name)


def test_computed_columns_are_refused_where_they_are_read(tmp_path):
    table = "CREATE TABLE computed (ward VARCHAR, text VARCHAR, stay DOUBLE AS (CAST(text AS DOUBLE)))"
    path = database(tmp_path, table, "INSERT INTO computed VALUES ('A', '2')")
    with pytest.raises(InvalidParameter, match="not 'one with computed columns'; write CREATE TABLE stored AS"):
        sums(path, "computed")
    counts = SumQuery(("ward",), (Count(),))
    kept = Table(f"duckdb://{path}/computed", {"ward": DOMAINS["ward"]}, neighbours="add-remove")
    assert reveal(kept.collect(counts, row_key="k")) == (1, 0, 0)


def test_nothing_but_the_file_is_open_to_a_query(tmp_path):
    path = database(tmp_path)
    (tmp_path / "other.csv").write_text("x\n1\n")
    with connect(f"duckdb://{path}/records") as source:
        run = source.backend.con.execute
        for statement in (
            f"SELECT * FROM '{tmp_path}/other.csv'",
            f"COPY (SELECT 1) TO '{tmp_path}/written.csv'",
            f"ATTACH '{tmp_path}/new.db'",
            "INSTALL httpfs",
            "LOAD sqlite",
        ):
            with pytest.raises(duckdb.Error, match=r"disabled (by|through) configuration"):
                run(statement)
        with pytest.raises(duckdb.Error, match="the configuration has been locked"):
            run("SET enable_external_access = true")
        with pytest.raises(duckdb.Error, match="read-only"):
            run("DELETE FROM data_file.records")
        loads = run("SELECT value FROM duckdb_settings() WHERE name = 'autoload_known_extensions'").fetchone()
    assert loads == ("false",)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["it's a.db", "other.csv"]


def test_tables_of_a_schema(tmp_path):
    path = database(tmp_path, "CREATE SCHEMA clinic", 'CREATE TABLE clinic."Rows" AS FROM records')
    assert sums(path, "clinic.Rows") == sums(path, "main.records") == EXPECTED


def test_a_file_of_sqlite_is_refused(tmp_path):
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE records (ward TEXT, stay REAL)")
    connection.close()
    with pytest.raises(InvalidParameter, match="data must be a file of DuckDB, not 'a file of SQLite'; write a CSV"):
        sums(path)
