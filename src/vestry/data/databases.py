"""Tables of databases: DuckDB's files and connections, PostgreSQL, Spark."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis

from vestry.data.dataframes import open_relation
from vestry.data.quiet_reading import quietly, shared_change
from vestry.data.source import Expression, Selection, Source, file_and_table, of_duckdb
from vestry.errors import InvalidParameter, MissingExtra
from vestry.server_address import ServerAddress, parse_address

_POSTGRES = "postgresql://USER:${VARIABLE}@HOST/DATABASE/TABLE"
# Nothing is written, and values have one text, whatever the server or the user prefers.
_SESSION = "-c default_transaction_read_only=on -c datestyle=ISO -c timezone=UTC -c extra_float_digits=1"


def open_ibis(table: Expression, selection: Selection) -> Source:
    """Open a table of someone else's connection to DuckDB, which is left open and as it was."""
    allowed, instead = "a table that a backend holds", 'connection.table("records")'
    failure = InvalidParameter("data", "a table of no backend", allowed, instead)
    backend = quietly(table.get_backend, failure)
    if backend.name != _IBIS_ENGINE:
        advice = _IBIS_ADVICE.get(backend.name, "data=table.to_pandas(), a frame")
        allowed = "a table of Ibis on DuckDB, the one engine of Ibis on which every value is known to be read"
        raise InvalidParameter("data", f"on {backend.name}", allowed, advice)
    names = selection.pick(table.columns)
    chosen = table.select(*names) if names else table
    backend.to_pyarrow(chosen.limit(0))  # gives DuckDB the tables in memory that the expression holds
    return open_relation(backend.con.sql(str(backend.compile(chosen))), selection)


_IBIS_ENGINE = "duckdb"
# What to write for a table of another engine: SQLite lets each value have a type of its own, and Ibis one per column.
_IBIS_ADVICE = {
    "sqlite": "data=pandas.read_sql(...), a frame, or a table that was copied to DuckDB or Parquet",
    "postgres": '"postgresql://USER:${VARIABLE}@HOST/DATABASE/TABLE"',
    "pyspark": '"pyspark://TABLE"',
}


def open_duckdb(address: str, selection: Selection) -> Source:
    """Open a table of a file of DuckDB. Nothing is written to it.

    The file is attached and not opened as the database in which the query runs: a function that a file defines would
    there stand in for one of DuckDB's own, such as `sum`.
    """
    path, name = file_and_table(address)
    with Path(path).open("rb") as file:
        if file.read(len(_SQLITE_MARK)) == _SQLITE_MARK:
            raise InvalidParameter("data", "a file of SQLite", "a file of DuckDB", _SQLITE_ADVICE)
    return of_duckdb("duckdb", lambda backend: [_attached(backend, path, name, selection)])


_SQLITE_MARK = b"SQLite format 3\x00"
_SQLITE_ADVICE = "a CSV, Parquet or DuckDB file of the table: SQLite lets each value have a type of its own"


def _attached(backend: Any, path: str, name: str, selection: Selection) -> Expression:
    """Return a table of a file, which holds its records itself: a view may read another file, or fail on a value."""
    quoted = path.replace("'", "''")
    backend.con.execute(f"ATTACH '{quoted}' AS {_FILE} (TYPE duckdb, READ_ONLY)")
    backend.con.execute("SET enable_external_access = false")  # before anything of the file is looked at
    schema, _, table = name.rpartition(".")
    where = (_FILE, schema or "main", table)
    allowed = "a table that holds its records itself"
    if backend.con.execute(_VIEWS, where).fetchall():
        raise InvalidParameter("data", "a view", allowed, _STORED)
    computed = [column for (column,) in backend.con.execute(_COMPUTED_COLUMNS, where).fetchall()]
    if selection.pick(computed):
        raise InvalidParameter("data", "one with computed columns", allowed, _STORED)
    return backend.table(table, database=where[:2])


_FILE = "data_file"
_VIEWS = """
    SELECT view_name FROM duckdb_views()
    WHERE database_name = ? AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)
"""
_COMPUTED_COLUMNS = """
    SELECT column_name FROM duckdb_columns()
    WHERE is_generated AND database_name = ? AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)
"""
_STORED = "CREATE TABLE stored AS FROM name, and the table stored"


def open_postgresql(address: str, selection: Selection) -> Source:
    """Open a table of a PostgreSQL server. Nothing is written to it."""
    server = parse_address(address, name="data", instead=_POSTGRES)
    if server.table is None or "dbname" not in dict(server.parameters):
        raise InvalidParameter("data", "postgresql://...", "a database and a table", _POSTGRES)
    server.fill()  # names a variable that is not set
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtra("data in PostgreSQL", "postgres")
    unreachable = InvalidParameter("data", "postgresql://...", "a PostgreSQL database that can be reached", _POSTGRES)
    backend = quietly(lambda: _connected(server), unreachable)
    unknown = InvalidParameter("data", "postgresql://...", "a table that this user can read", _POSTGRES)
    name = server.table
    try:
        table = quietly(lambda: _table(backend, name), unknown)
    except BaseException:
        backend.disconnect()
        raise
    return Source("postgresql", (table,), backend, close=backend.disconnect)


def _connected(server: ServerAddress) -> Any:
    """Connect by what the environment holds now; what is filled in lives in the connection alone."""
    filled = server.fill()
    # Nothing is written, whatever the user may do.
    options = f"{filled.pop('options', '')} {_SESSION}".strip()
    place = {"port": "5432", "connect_timeout": "10", **filled, "options": options, "database": filled["dbname"]}
    backend = ibis.postgres.connect(**{key: value for key, value in place.items() if key != "dbname"})
    # Ibis would keep what it was given, to connect again and to tell one server from another.
    backend._con_args, backend._con_kwargs, backend._can_reconnect = (server.shown,), {}, False
    return backend


def open_pyspark(address: str, selection: Selection) -> Source:
    """Open a table of Spark, or Parquet files that it reads. Nothing is written."""
    name = address.partition("://")[2]
    if not name:
        raise InvalidParameter("data", address, "a table of Spark, or a path of Parquet files", "pyspark://TABLE")
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtra("data in Spark", "spark")
    failure = InvalidParameter("data", address, "a table or path that Spark can read", "pyspark://TABLE")

    def opened() -> Source:
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession

        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(logger)  # or the first failure would make it after all others are muted
        session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        backend = ibis.pyspark.connect(session)
        around = shared_change(session, _around_spark)
        with around:
            of_files = "/" in name or name.endswith(".parquet")
            table = _spark_parquet(session, backend, name) if of_files else _table(backend, name)
        # Bytes are text here: Spark reads text of Parquet files as bytes where a file does not call it text.
        texts = {column: table[column].cast("string") for column, kind in table.schema().items() if kind.is_binary()}
        table = table.mutate(**texts) if texts else table
        return Source("pyspark", (table,), backend, close=lambda: None, around=lambda: around)

    return quietly(opened, failure)


def _spark_parquet(session: Any, backend: Any, path: str) -> Any:
    """Return the files at a path, names of folders as text: Spark would guess a type from all of them."""
    with _spark_setting(session, "spark.sql.sources.partitionColumnTypeInference.enabled", "false"):
        return backend.read_parquet(path)


@contextmanager
def _spark_setting(session: Any, name: str, value: str) -> Iterator[None]:
    """Change a setting of the session, and then change it back."""
    before = session.conf.get(name)
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.set(name, before)


@contextmanager
def _around_spark(session: Any) -> Iterator[None]:
    """Quote no value, and have Java compile what reads the records.

    Java leaves methods of more than 8,000 bytes uncompiled. Spark makes one method of all that a record goes through,
    for twenty columns a longer one; with this limit it makes several.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):  # its log and its Java are the server's
        yield
        return
    methods = _spark_setting(session, "spark.sql.codegen.hugeMethodLimit", "8000")
    with _muted_spark(session), methods, _same_interpreter(session.sparkContext):
        yield


# What Spark runs on executors where nobody chose an interpreter, before the session was started.
_UNCHOSEN_INTERPRETER = "python3"


@contextmanager
def _same_interpreter(context: Any) -> Iterator[None]:
    """Have executors on this machine run the interpreter of this process, unless another was chosen; then undo that.

    The first Python on the path need not have Vestry, nor be of this version. Executors elsewhere may lack this file.
    """
    before = context.pythonExec
    if context.master.startswith("local") and before == _UNCHOSEN_INTERPRETER and sys.executable:
        context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


@contextmanager
def _muted_spark(session: Any) -> Iterator[None]:
    """Turn off the log of Spark's own process, which quotes values where a task fails, and then turn it on again.

    Each logger's level is set by itself: `setLogLevel` would also drop the threshold of Spark's shell for good.
    """
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    loggers = list(context.getConfiguration().getLoggers().values())
    levels = [logger.getLevel() for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(log4j.Level.OFF)
        context.updateLoggers()
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        context.updateLoggers()


def _table(backend: Any, name: str) -> Any:
    """Return TABLE, or TABLE of a schema if it is written SCHEMA.TABLE."""
    schema, _, table = name.rpartition(".")
    return backend.table(table, database=schema or None)
