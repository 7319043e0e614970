"""Every backend that Vestry reads, each loading the same rows."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from data.tables import TYPES
from postgres_server import running_server

SLOW = pytest.mark.slow


@dataclass(frozen=True)
class Backend:
    """A way to hold rows: `load` puts them there, `seen` says what they are once there."""

    name: str
    load: Callable[[list[dict]], Any]
    seen: Callable[[list[dict]], list[dict]] = lambda rows: rows


def arrow(rows: list[dict], types: dict[str, str] = TYPES):
    import pyarrow as pa

    known = {"double": pa.float64(), "long": pa.int64(), "boolean": pa.bool_(), "text": pa.string()}
    return pa.table({name: pa.array([row[name] for row in rows], known[kind]) for name, kind in types.items()})


def parquet(folder: Path) -> Callable[[list[dict]], Path]:
    numbers = count()

    def load(rows):
        import pyarrow.parquet as pq

        path = folder / f"{next(numbers)}.parquet"
        pq.write_table(arrow(rows), path, row_group_size=3)  # claims of few values each
        return path

    return load


def as_text(rows: list[dict]) -> list[dict]:
    """Return what a CSV file holds: text, and nothing where a field is empty."""

    def text(value):
        if value is None or value == "":
            return None
        return str(value).lower() if isinstance(value, bool) else str(value)

    return [{name: text(value) for name, value in row.items()} for row in rows]


def write_csv(path: Path, rows: list[dict]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(TYPES)
        writer.writerows([[row[name] for name in TYPES] for row in as_text(rows)])
    return str(path)


def pandas_frame(rows: list[dict]):
    import pandas as pd

    kinds = {"double": "float64", "long": "Int64", "boolean": "object", "text": "object"}
    columns = {
        name: pd.Series([row[name] for row in rows], dtype=kinds[kind], name=name) for name, kind in TYPES.items()
    }
    columns["ward"] = columns["ward"].astype("category")
    # Pandas 2.2 writes a missing text out, as "None".
    names = columns["name"].astype("str").where(columns["name"].notna(), None)
    return pd.DataFrame({**columns, "truth": columns["truth"].astype("boolean"), "name": names})


def polars_frame(rows: list[dict]):
    polars = pytest.importorskip("polars", reason="pip install polars")
    kinds = {"double": polars.Float64, "long": polars.Int64, "boolean": polars.Boolean, "text": polars.String}
    frame = polars.DataFrame(rows, schema={name: kinds[kind] for name, kind in TYPES.items()}, strict=True)
    return frame.with_columns(frame["ward"].cast(polars.Categorical))


@pytest.fixture(
    params=["parquet", "csv", "arrow", "pandas", "polars", "duckdb"]
    + [pytest.param(name, marks=SLOW) for name in ("postgresql", "pyspark")],
    scope="session",
)
def backend(request, tmp_path_factory) -> Backend:
    name, folder = request.param, tmp_path_factory.mktemp("backend")
    match name:
        case "parquet":
            return Backend(name, parquet(folder))
        case "csv":
            return Backend(name, lambda rows: write_csv(folder / "rows.csv", rows), as_text)
        case "arrow":
            return Backend(name, arrow)
        case "pandas":
            return Backend(name, pandas_frame)
        case "polars":
            return Backend(name, polars_frame)
        case "duckdb":
            return Backend(name, duckdb_file(folder))
        case "postgresql":
            return request.getfixturevalue("postgresql")
        case _:
            return request.getfixturevalue("pyspark")


def duckdb_file(folder: Path) -> Callable[[list[dict]], str]:
    numbers = count()

    def load(rows):
        import duckdb

        path = folder / f"{next(numbers)}.db"
        with duckdb.connect(str(path)) as connection:
            connection.register("given", arrow(rows))
            connection.execute("CREATE TABLE records AS FROM given")
        return f"duckdb://{path}/records"

    return load


@pytest.fixture(scope="session")
def server():
    """The folder of a PostgreSQL server's socket."""
    with running_server() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgresql(server) -> Backend:
    psycopg = pytest.importorskip("psycopg", reason="pip install 'vestry[postgres]'")
    kinds = {"double": "float8", "long": "bigint", "boolean": "boolean", "text": "text"}
    numbers = count()

    def load(rows):
        name = f"Records{next(numbers)}"
        columns = ", ".join(f'"{column}" {kinds[kind]}' for column, kind in TYPES.items())
        with psycopg.connect(f"postgresql://postgres@/postgres?host={server}", autocommit=True) as connection:
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            if rows:
                holes = ", ".join(["%s"] * len(TYPES))
                filled = [[row[column] for column in TYPES] for row in rows]
                connection.cursor().executemany(f'INSERT INTO "{name}" VALUES ({holes})', filled)
        return f"postgresql://postgres@/postgres/{name}?host={server}"

    return Backend("postgresql", load)


# Where Spark's own files are: one Java serves all tests of this process, whichever folder they are in.
SPARK_FOLDER = pytest.StashKey[Path]()


@pytest.fixture(scope="session")
def spark_folder(request, tmp_path_factory) -> Path:
    """The folder of what Spark's own process writes: its standard error, and the files that it works with."""
    stash = request.config.stash
    if SPARK_FOLDER not in stash:
        stash[SPARK_FOLDER] = tmp_path_factory.mktemp("spark")
    return stash[SPARK_FOLDER]


@pytest.fixture(scope="session")
def spark_log(spark_folder) -> Path:
    """The file that receives what Spark's own process writes to standard error."""
    return spark_folder / "stderr"


@pytest.fixture(scope="session")
def spark(spark_folder, spark_log):
    """Start Spark in this machine's Java, its standard error going to a file."""
    sql = pytest.importorskip("pyspark.sql", reason="pip install 'vestry[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17")
    builder = sql.SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": str(spark_folder / "local"),
        "spark.sql.warehouse.dir": str(spark_folder / "warehouse"),
        "spark.shuffle.compress": "false",  # what a test looks for would not be found
    }.items():
        builder = builder.config(name, value)
    own = os.dup(2)
    with spark_log.open("a") as log:
        os.dup2(log.fileno(), 2)
        try:
            session = builder.getOrCreate()
        finally:
            os.dup2(own, 2)
            os.close(own)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def pyspark(spark, tmp_path_factory) -> Backend:
    load = parquet(tmp_path_factory.mktemp("spark"))
    return Backend("pyspark", lambda rows: f"pyspark://{load(rows)}")
