"""What answers a query: DuckDB in this process, or the database that holds the table.

Runs what may fail on a value, so that nothing of the failure shows.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from vestry.data.arrow_values import clean_stream
from vestry.data.level_index import PLACED
from vestry.data.text_value import Expression
from vestry.errors import VestryError
from vestry.schema.domain import Levels

UNPREPARED = (
    "the query could not be prepared, and nothing was read; what the backend said is not shown. "
    "Check that the table can be read by this user."
)


# Steps of DuckDB's planner to do without. The first believes what a Parquet file claims of its values: its least
# and greatest value leave NaN out by definition, and DuckDB 2.0 concludes from them that nothing is NaN or beyond an
# end, so that a record would be summed unclipped (duckdb issue 25521). The second rewrites "at most k rows a person",
# and keeps one too few in DuckDB 2.0 if filters are not pushed down first: a precaution.
_UNTRUSTED = "statistics_propagation,top_n_window_elimination"


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """A table that can be asked, and the connection to it.

    Attributes
    ----------
    kind
        What it is: parquet, pandas, postgresql and so on.
    parts
        The records, in one or more parts with types of their own, as expressions that nothing has been asked of.
    backend
        What answers.
    close
        Closes the connection.
    around
        What holds while a query runs: an engine's own log is silent, its planner believes no file.
    clean
        Whether text was trimmed before the engine sees it, but for columns of exact levels.
    """

    kind: str
    parts: tuple[Expression, ...]
    backend: Any
    close: Callable[[], None]
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    clean: bool = False

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # a connection that was lost is closed
            self.close()

    def __repr__(self) -> str:
        return f"Source({self.kind})"

    @property
    def schema(self) -> Mapping[str, Any]:
        """The columns' names and types; of several parts the first type that holds single values, if there is one."""
        types: dict[str, Any] = {}
        for part in self.parts:
            for given, dtype in part.schema().items():
                name = given.removesuffix(PLACED)
                types[name] = dtype if name not in types or types[name].is_nested() else types[name]
        return types

    def explain(self, expression: Expression) -> None:
        """Let the engine plan the query and do nothing. A table of Ibis is only compiled: it may need more to run."""

        def plan() -> None:
            with _unfused(), self.around():
                query = self.backend.compile(expression)
                if self.kind == "ibis":
                    return
                cursor = self.backend.raw_sql(f"EXPLAIN {query}")
            if self.kind == "postgresql":
                cursor.close()

        quietly(plan, VestryError(UNPREPARED))

    def rows(self, expression: Expression) -> list[dict[str, Any]]:
        """Run one query and return its rows."""
        with _unfused(), self.around():
            found: list[dict[str, Any]] = self.backend.to_pyarrow(expression).to_pylist()
        return found

    def columns(self, expression: Expression) -> Iterator[dict[str, Any]]:
        """Run one query and yield its columns, as numpy arrays, in batches."""
        with _unfused(), self.around():
            found = self.backend.to_pyarrow(expression)
        for batch in found.to_batches(max_chunksize=_BATCH):
            columns = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: column.to_numpy(zero_copy_only=False) for name, column in columns}


# Records that are handed on at once.
_BATCH = 2**16


def of_duckdb(
    kind: str, parts: Callable[[Any], Sequence[Expression]], path: str = ":memory:", *, clean: bool = False
) -> Source:
    """Return a table that DuckDB reads in this process.

    It works in memory. An aggregation that does not fit is spilled to a folder that only this user may enter, encrypted
    with a key that lives in this process, and the folder is removed at the end. DuckDB itself calls the randomness of
    this built-in encryption unsafe, so a disk that may be stolen needs encryption of its own.
    """
    import ibis

    folder = tempfile.mkdtemp(prefix="vestry-")
    opened = ExitStack()
    opened.callback(shutil.rmtree, folder, ignore_errors=True)
    try:
        backend = ibis.duckdb.connect(
            path,
            read_only=path != ":memory:",
            temp_directory=folder,
            temp_file_encryption=True,
            force_mbedtls_unsafe=True,
            autoinstall_known_extensions=False,
            preserve_insertion_order=False,
            disabled_optimizers=_UNTRUSTED,
            TimeZone="UTC",
        )
        opened.callback(backend.disconnect)
        return Source(kind, tuple(parts(backend)), backend, close=opened.close, clean=clean)
    except BaseException:
        opened.close()
        raise


def of_ibis(kind: str, table: Expression) -> Source:
    """Return a table of someone else's connection, which is left open and as it was."""
    backend = table.get_backend()
    around = partial(_untrusting, backend) if backend.name == "duckdb" else nullcontext
    return Source(kind, (table,), backend, close=lambda: None, around=around)


def of_arrow(kind: str, streams: Sequence[tuple[Any, Any]], levels: Mapping[str, Levels]) -> Source:
    """Return records that come as Arrow, each part a schema and batches, made safe on the way."""

    def parts(backend: Any) -> list[Expression]:
        return [register(backend, clean_stream(schema, batches, levels)) for schema, batches in streams]

    return of_duckdb(kind, parts, clean=True)


def register(backend: Any, stream: Any) -> Expression:
    """Give DuckDB a stream of records under a name of its own."""
    name = f"records{next(_NUMBERS)}"
    backend.con.register(name, stream)
    return backend.table(name)


_NUMBERS = itertools.count()


@contextmanager
def _untrusting(backend: Any) -> Iterator[None]:
    """Do without the untrusted steps of the planner for a while."""
    before = backend.con.execute("SELECT current_setting('disabled_optimizers')").fetchone()[0]
    together = ",".join(filter(None, (before, _UNTRUSTED)))
    backend.con.execute(f"SET disabled_optimizers = '{together}'")
    try:
        yield
    finally:
        backend.con.execute(f"SET disabled_optimizers = '{before}'")


@contextmanager
def _unfused() -> Iterator[None]:
    """Keep each step of a query a subquery of its own, since merging would repeat every expression where it is used."""
    import ibis

    before = ibis.options.sql.fuse_selects
    ibis.options.sql.fuse_selects = False
    try:
        yield
    finally:
        ibis.options.sql.fuse_selects = before


T = TypeVar("T")

# Their log lines quote statements, answers or values.
_TALKATIVE = (
    "duckdb",
    "ibis",
    "polars",
    "psycopg",
    "py4j",
    "pyspark",
    "DataFrameQueryContextLogger",
    "SQLQueryContextLogger",
)


def quietly(action: Callable[[], T], failure: VestryError) -> T:
    """Return what the action returns; if anything but Vestry's own errors leaves it, raise the failure alone.

    The failure is raised outside the handler: its context is empty, and no traceback quotes the backend.
    """
    try:
        with _silence():
            return action()
    except VestryError:
        raise
    except Exception:  # noqa: S110 - what it says may quote a value
        pass
    raise failure


@contextmanager
def _silence() -> Iterator[None]:
    """Mute the backends' warnings and loggers, of these names or below them, and then let them speak again.

    Loggers that are there are switched off: making one would give it a class that its owner does not expect. One that
    is made meanwhile is held back by the level below which nothing is logged in this process.
    """
    held = logging.root.manager.disable
    known = [name for name in list(logging.root.manager.loggerDict) if name.split(".")[0] in _TALKATIVE]
    loggers = [logging.getLogger(name) for name in known]
    before = [logger.disabled for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.disabled = True
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(held)
            for logger, disabled in zip(loggers, before, strict=True):
                logger.disabled = disabled
