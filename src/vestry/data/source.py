"""Where records are, and what answers a query: DuckDB in this process, or the database that holds the table.

A new way in is a function that takes what was given and a `Selection`, and returns a `Source`; `registry.SOURCES` names
it. What may fail on a value runs so that nothing of the failure shows.
"""

from __future__ import annotations

import glob
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from vestry.data.quiet_reading import SharedChange, quietly
from vestry.errors import InvalidParameter, VestryError
from vestry.registry import SOURCES
from vestry.schema.domain import Domain, Levels, underlying
from vestry.validation import require_choice

# An expression of Ibis, which carries no types.
Expression = Any
# What is added to the name of a column of places. No column is called so: names are text without control characters.
PLACED = "\x1fplace"
UNPREPARED = (
    "the query could not be prepared, and nothing was read; what the backend said is not shown. "
    "Check that the table can be read by this user."
)
_NOT_SEPARATORS = "\"' \r\n-+._"


@dataclass(frozen=True)
class Dialect:
    """How a file is written: what separates fields (None: a tab in .tsv, a comma elsewhere), and the decimal mark."""

    separator: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.separator is not None and not _may_separate(self.separator):
            allowed = "one ASCII character that is not a quote, line end, space, letter, digit or one of - + . _"
            raise InvalidParameter("csv.separator", self.separator, allowed, 'for example separator = ";"')
        if self.decimal not in (".", ","):
            raise InvalidParameter("csv.decimal", self.decimal, '"." or ","', 'decimal = "," or omit it')
        if self.separator == self.decimal:
            raise _same_mark(self.separator)

    def resolve(self, path: str) -> Dialect:
        """Return the dialect with the separator that the file's name implies, where none is declared."""
        if self.separator is not None:
            return self
        separator = "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ","
        if separator == self.decimal:
            raise _same_mark(separator)
        return Dialect(separator, self.decimal)


def dialect_from(given: Mapping[str, Any] | None) -> Dialect:
    """Return the dialect that a study's table `csv` declares."""
    instead = 'csv = { separator = ";", decimal = "," }'
    if given is not None and not isinstance(given, Mapping):
        raise InvalidParameter("csv", given, "a table of separator and decimal", instead)
    for key in given or {}:
        require_choice("a key of csv", key, ("separator", "decimal"), instead)
    return Dialect(**(given or {}))


def _may_separate(mark: Any) -> bool:
    one = isinstance(mark, str) and len(mark) == 1 and mark.isascii()
    return one and not mark.isalnum() and mark not in _NOT_SEPARATORS


def _same_mark(mark: str) -> InvalidParameter:
    instead = 'csv = { separator = ";", decimal = "," } if that is how the file is written'
    return InvalidParameter("csv.separator", mark, "another character than csv.decimal", instead)


@dataclass(frozen=True)
class Selection:
    """What is read of a table.

    Attributes
    ----------
    columns
        The columns that will be read; None for all.
    levels
        What is declared of columns of levels.
    dialect
        How a CSV file is written.
    """

    columns: tuple[str, ...] | None = None
    levels: Mapping[str, Levels] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def exact(self) -> set[str]:
        """The columns whose text counts as it stands, white space included."""
        return {name for name, domain in self.levels.items() if domain.exact}

    def pick(self, names: Iterable[Any]) -> list[str]:
        """Return those of a table's columns that are read, in its order; refuse a name that it has twice."""
        picked = [name for name in names if isinstance(name, str) and (self.columns is None or name in self.columns)]
        if len(set(picked)) < len(picked):
            given, allowed = "a table with a name twice", "a different name for each column"
            raise InvalidParameter("data", given, allowed, "other names")
        return picked


def connect(data: Any, *, columns: Mapping[str, Domain | None] | None = None, dialect: Dialect | None = None) -> Source:
    """Reach the records without reading one. Use it in a `with` statement: leaving it closes what was opened.

    Parameters
    ----------
    data
        A path to `.parquet` (or a folder or pattern of such paths), `.csv`, `.tsv` (each also with `.gz`), `.arrow`,
        `.feather` or `.ipc`; a pandas DataFrame; a Polars DataFrame or LazyFrame; a pyarrow Table, RecordBatch,
        RecordBatchReader (which can be read once) or Dataset; a relation of DuckDB; a Delta table; `duckdb://FILE/TABLE`;
        `postgresql://USER:${VARIABLE}@HOST:PORT/DATABASE/TABLE`; `pyspark://TABLE` or `pyspark://FILE.parquet`; or a
        table expression of Ibis on DuckDB.
    columns
        Those that will be read, with their domains (None for a person's); None for all columns.
    dialect
        How a CSV file is written.

    Raises
    ------
    InvalidParameter
        If there is nothing there, or nothing that can be read as a table.
    MissingExtra
        If the driver is not installed.
    """
    way = find_way(data)
    given = os.fspath(data) if isinstance(data, (str, os.PathLike)) else data
    if _is_missing(way, given):
        raise InvalidParameter("data", given, "a file that exists", "the path of the records, or move them there")
    read = {name: domain and underlying(domain) for name, domain in (columns or {}).items()}
    levels = {name: domain for name, domain in read.items() if isinstance(domain, Levels)}
    selection = Selection(None if columns is None else tuple(columns), levels, dialect or Dialect())
    opener: Callable[[Any, Selection], Source] = SOURCES[way]
    return quietly(lambda: opener(given, selection), _unreadable(way, given))


def find_way(data: Any) -> str:
    """Return the name in `SOURCES` of what was given."""
    if not isinstance(data, (str, os.PathLike)):
        classes = [f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(data).__mro__]
        way = next((name for name in classes if name in SOURCES), None)
        return way or _refuse_way(f"a {classes[0]}", "one of the kinds that Vestry reads")
    text = os.fspath(data)
    scheme, mark, _ = str(text).partition("://")
    if mark:
        way = next((name for name in SOURCES if name.startswith(f"{scheme}://")), None)
        return way or _refuse_way(f"{scheme}://...", "one of the kinds that Vestry reads")
    suffixes = [name for name in SOURCES if name.startswith(".")]
    way = max((name for name in suffixes if str(text).lower().endswith(name)), key=len, default=None)
    if way is None and (str(text).endswith(("/", "/**")) or Path(str(text)).expanduser().is_dir()):
        return ".parquet"
    return way or _refuse_way(str(text), f"a folder, or a file called {', '.join(suffixes)}")


def kind_of(data: Any) -> str:
    """Return what was given, in a word: csv, pandas.DataFrame, postgresql, ..."""
    return find_way(data).partition("://")[0].lstrip(".")


def is_missing(address: str) -> bool:
    """Tell whether a file of records is not where it should be. Nothing is opened, and a server is not asked."""
    return _is_missing(find_way(address), address)


def _is_missing(way: str, given: Any) -> bool:
    if way == ".parquet":
        return not parquet_files(given)
    if "://FILE" in way:
        return not Path(file_and_table(given)[0]).is_file()
    return way.startswith(".") and not Path(given).expanduser().is_file()


def file_and_table(address: str) -> tuple[str, str]:
    """Return FILE and TABLE of an address SCHEME://FILE/TABLE, or refuse one that lacks either."""
    scheme, _, rest = address.partition("://")
    path, _, table = rest.rpartition("/")
    if not path or not table:
        raise InvalidParameter("data", address, "a file and a table", f"{scheme}://FILE/TABLE")
    return path, table


def parquet_files(given: str) -> list[str]:
    """Return the file at a path, every Parquet file below a folder, or those that a pattern matches."""
    path = Path(given).expanduser()
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        return sorted(str(file) for file in path.rglob("*.parquet") if file.is_file())
    return sorted(glob.glob(str(path), recursive=True)) if glob.has_magic(str(path)) else []  # noqa: PTH207 - anchored or not


def _refuse_way(given: str, allowed: str) -> NoReturn:
    addresses = [f'"{name}"' for name in SOURCES if "://" in name]
    files = '"records.parquet", a folder of such files, "records.csv", "records.arrow"'
    frames = "a pandas or Polars DataFrame, a table of Arrow"
    instead = f"{files}, {frames}, {', '.join(addresses[:-1])} or {addresses[-1]}"
    raise InvalidParameter("data", given, allowed, instead)


def _unreadable(way: str, given: Any) -> InvalidParameter:
    """Return the refusal of a table that is there and cannot be opened; what its engine said is not shown."""
    if way.startswith("."):
        return InvalidParameter("data", given, f"a file that can be read as {way[1:]}", "the path of one that is whole")
    scheme, mark, _ = way.partition("://")
    if mark:
        return InvalidParameter("data", f"{scheme}://...", "a table that can be read", way)
    return InvalidParameter("data", f"a {way}", "one whose columns can be read as values", "another table")


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """A table that can be asked, and the connection to it.

    Attributes
    ----------
    kind
        What it is: parquet, pandas, postgresql and so on.
    parts
        The records, in one or more parts, each with its own types, as expressions that nothing has been asked of.
    backend
        What answers.
    close
        Closes the connection.
    around
        What holds while a query runs: an engine's own log is silent, its planner believes no file.
    clean
        Whether text was trimmed before the engine sees it, except in columns of exact levels.
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
        """Let the engine plan the query and do nothing."""

        def plan() -> None:
            with _UNFUSED, self.around():
                query = self.backend.compile(expression)
                cursor = self.backend.raw_sql(f"EXPLAIN {query}")
            if self.kind == "postgresql":
                cursor.close()

        quietly(plan, VestryError(UNPREPARED))

    def compile(self, expression: Expression) -> str:
        """Return the query as the engine's own text."""
        with _UNFUSED:
            return str(self.backend.compile(expression))

    def rows(self, expression: Expression) -> list[dict[str, Any]]:
        """Run one query and return its rows."""
        with _UNFUSED, self.around():
            rows: list[dict[str, Any]] = self.backend.to_pyarrow(expression).to_pylist()
        return rows

    def columns(self, expression: Expression) -> Iterator[dict[str, Any]]:
        """Run one query and yield its columns, as numpy arrays, in batches."""
        with _UNFUSED, self.around():
            table = self.backend.to_pyarrow(expression)
        for batch in table.to_batches(max_chunksize=_BATCH):
            columns = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: column.to_numpy(zero_copy_only=False) for name, column in columns}


# Steps of DuckDB's planner to do without. The first believes what a Parquet file claims of its values: its least
# and greatest value leave NaN out by definition, and DuckDB 2.0 concludes from them that nothing is NaN or beyond an
# end, so that a record would be summed unclipped (duckdb issue 25521). The second rewrites "at most k rows per person",
# and keeps one too few in DuckDB 2.0 if filters are not pushed down first: a precaution.
# From here on nothing that is read can change how it is read.
LOCK = "SET lock_configuration = true"
UNTRUSTED = "statistics_propagation,top_n_window_elimination"
# Records that are handed on at once.
_BATCH = 2**16


def of_duckdb(kind: str, parts: Callable[[Any], Sequence[Expression]], *, clean: bool = False) -> Source:
    """Return a table that DuckDB reads in this process.

    It works in memory. An aggregation that does not fit is spilled to a folder that only this user may enter, encrypted
    with a key that lives in this process, and the folder is removed at the end. DuckDB itself calls the randomness of
    this built-in encryption unsafe, so a disk that may be stolen needs its own encryption.

    Once the parts are there, DuckDB opens no other file, address or extension, whatever they ask for.
    """
    import ibis

    folder = tempfile.mkdtemp(prefix="vestry-")
    opened = ExitStack()
    opened.callback(shutil.rmtree, folder, ignore_errors=True)
    try:
        backend = ibis.duckdb.connect(
            temp_directory=folder,
            temp_file_encryption=True,
            force_mbedtls_unsafe=True,
            autoinstall_known_extensions=False,
            allow_persistent_secrets=False,
            preserve_insertion_order=False,
            disabled_optimizers=UNTRUSTED,
            TimeZone="UTC",
        )
        opened.callback(backend.disconnect)
        backend.con.execute("SET autoload_known_extensions = false")
        tables = tuple(parts(backend))
        backend.con.execute("SET enable_external_access = false")
        backend.con.execute(LOCK)
        return Source(kind, tables, backend, close=opened.close, clean=clean)
    except BaseException:
        opened.close()
        raise


def register(backend: Any, stream: Any) -> Expression:
    """Give DuckDB a stream of records under a name that no other has."""
    name = f"records{next(_NUMBERS)}"
    backend.con.register(name, stream)
    return backend.table(name)


_NUMBERS = itertools.count()


@contextmanager
def _steps_apart() -> Iterator[None]:
    import ibis

    before = ibis.options.sql.fuse_selects
    ibis.options.sql.fuse_selects = False
    try:
        yield
    finally:
        ibis.options.sql.fuse_selects = before


# Each step of a query stays a subquery of its own, since merging would repeat every expression where it is used.
_UNFUSED = SharedChange(_steps_apart)


def call(name: str, result: type, *arguments: Any) -> Expression:
    """Return what a function that the engine itself has makes of its arguments; Ibis only writes it down."""
    return _builtin(name, result, len(arguments))(*arguments)


@cache
def _builtin(name: str, result: type, arity: int) -> Any:
    import ibis

    def written(one: Any, two: Any, three: Any) -> Any: ...

    return ibis.udf.scalar.builtin(written, name=name, signature=((None,) * arity, result))


def usable(dtype: Any) -> bool:
    """Tell whether a column of this type holds single values, each of which has a meaning or is missing."""
    # A type that Ibis does not know is read as its text.
    kinds = ("string", "numeric", "boolean", "temporal", "interval", "uuid", "null", "unknown")
    return any(getattr(dtype, f"is_{kind}")() for kind in kinds)


def check_column(schema: Mapping[str, Any], column: str) -> None:
    """Refuse a column that is not in the schema, or whose type holds no single values."""
    if column not in schema:
        instead = "its name as the table spells it, a CSV file in its first line"
        raise InvalidParameter("a column", column, "one of the table's", instead)
    if not usable(schema[column]):
        allowed, instead = "text, numbers, truth values, dates or times", "another column, or a view that has one"
        raise InvalidParameter(f"the column {column}", str(schema[column]), allowed, instead)
