"""Tables of databases: DuckDB's files, PostgreSQL, Spark, and whatever Ibis connects to."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ibis

from vestry.data.quiet_reading import quietly, shared_change
from vestry.data.source import UNTRUSTED, Expression, Selection, Source, file_and_table, of_duckdb
from vestry.errors import InvalidParameter, MissingExtra
from vestry.server_address import ServerAddress, parse_address

_POSTGRES = "postgresql://USER:${VARIABLE}@HOST/DATABASE/TABLE"
# Nothing is written, and values have one text, whatever the server or the user prefers.
_SESSION = "-c default_transaction_read_only=on -c datestyle=ISO -c timezone=UTC -c extra_float_digits=1"


def open_ibis(table: Expression, selection: Selection) -> Source:
    """Open a table of someone else's connection, which is left open and as it was."""
    allowed, instead = "a table that a backend holds", 'connection.table("records")'
    failure = InvalidParameter("data", "a table of no backend", allowed, instead)
    backend = quietly(table.get_backend, failure)
    if backend.name != "duckdb":
        return Source("ibis", (table,), backend, close=lambda: None)
    untrusting = shared_change(backend.con, _untrusting)
    return Source("ibis", (table,), backend, close=lambda: None, around=lambda: untrusting)


@contextmanager
def _untrusting(connection: Any) -> Iterator[None]:
    """Do without the untrusted steps of the planner for a while."""
    before = connection.execute("SELECT current_setting('disabled_optimizers')").fetchone()[0]
    together = ",".join(filter(None, (before, UNTRUSTED)))
    connection.execute(f"SET disabled_optimizers = '{together}'")
    try:
        yield
    finally:
        connection.execute(f"SET disabled_optimizers = '{before}'")


def open_duckdb(address: str, selection: Selection) -> Source:
    """Open a table of a file of DuckDB. Nothing is written to it."""
    path, name = file_and_table(address)
    return of_duckdb("duckdb", lambda backend: [_table(backend, name)], path)


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
