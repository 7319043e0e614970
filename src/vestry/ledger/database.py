"""Where a ledger is kept: one SQLite file, or one PostgreSQL database, through the same statements."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sql

from vestry.address import ServerAddress
from vestry.errors import LedgerCorrupt, LedgerExists, LedgerMissing, LedgerUnavailable, MissingExtra, VestryError
from vestry.ledger.address import Address

FORMAT = 1
PATIENCE_S = 60.0

_metadata = sql.MetaData()

HEAD = sql.Table(
    "vestry_head",
    _metadata,
    sql.Column("id", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("format", sql.Integer, nullable=False),
    sql.Column("sequence", sql.BigInteger, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
    sql.Column("content", sql.Text, nullable=False),
    sql.Column("state", sql.Text, nullable=False),
    sql.Column("row_key", sql.Text, nullable=False),
)
# A charge is opened once and released once: the database itself refuses a second line.
JOURNAL = sql.Table(
    "vestry_journal",
    _metadata,
    sql.Column("sequence", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sql.Column("action", sql.Text, nullable=False),
    sql.Column("target", sql.BigInteger().with_variant(sql.Integer, "sqlite")),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("previous", sql.Text, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
)
_NOT_NULL = JOURNAL.c.target.is_not(None)
sql.Index(
    "vestry_journal_once",
    JOURNAL.c.target,
    JOURNAL.c.action,
    unique=True,
    sqlite_where=_NOT_NULL,
    postgresql_where=_NOT_NULL,
)


class Head(NamedTuple):
    """The one row that points at the last line, and keeps what the lines add up to."""

    format: int
    sequence: int
    hash: str
    content: str
    state: str
    row_key: str


class Session:
    """Runs statements inside one transaction, on the driver's own cursor.

    They are compiled once for each dialect. Going through the toolkit for each would cost as much as the commit.
    """

    def __init__(self, connection: sql.Connection) -> None:
        self._driver: Any = connection.connection.driver_connection
        self._dialect = connection.dialect

    def run(self, statement: sql.Executable, **values: Any) -> Any:
        """Execute a statement and return the cursor."""
        text, fixed = _compiled(statement, self._dialect)
        cursor = self._driver.cursor()
        cursor.execute(text, {**fixed, **values})
        return cursor

    def one(self, statement: sql.Executable, **values: Any) -> tuple[Any, ...] | None:
        """Return the first row, if there is one."""
        row: tuple[Any, ...] | None = self.run(statement, **values).fetchone()
        return row


@lru_cache(maxsize=64)
def _compiled(statement: Any, dialect: sql.Dialect) -> tuple[str, dict[str, Any]]:
    compiled = statement.compile(dialect=dialect)
    return str(compiled), {key: value for key, value in compiled.params.items() if value is not None}


class Database:
    """Connections to one ledger. A transaction holds the ledger for itself until it commits."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine: sql.Engine | None = None
        self._process = 0

    @contextmanager
    def transaction(self) -> Iterator[tuple[Session, Head]]:
        """Hold the ledger, read its head, commit at the end; database errors become sentences."""
        with self._sentences(), self._connected().begin() as connection:
            session = Session(connection)
            yield session, self._checked(session.one(_LOCKED_HEAD))

    @contextmanager
    def reading(self) -> Iterator[tuple[Session, Head]]:
        """See one moment of the ledger and its head, without holding up those who charge."""
        with self._sentences(), self._connected().connect() as connection:
            options: dict[str, Any] = {_READING: True}
            if self.address.server is not None:
                options["isolation_level"] = "REPEATABLE READ"
            with connection.execution_options(**options).begin():
                session = Session(connection)
                yield session, self._checked(session.one(_HEAD))

    def create(self, rows: dict[sql.Table, dict[str, Any]]) -> None:
        """Make the tables with their first rows, all or nothing, where no ledger was."""
        with self._sentences():
            if self.address.path is not None:
                _create_file(self.address.path, rows)
                return
            with self._connected().begin() as connection:
                if sql.inspect(connection).has_table(HEAD.name):
                    raise LedgerExists(
                        f"there is a ledger at {self.address} already; nothing was changed: open it, or name another."
                    )
                _fill(connection, rows)

    def _checked(self, row: tuple[Any, ...] | None) -> Head:
        if row is None:
            raise LedgerCorrupt("it has no head")
        head = Head(*row)
        if head.format != FORMAT:
            raise LedgerUnavailable(
                f"the ledger at {self.address} has format {head.format} and this version of vestry reads"
                f" format {FORMAT}; open it with the version that wrote it."
            )
        return head

    def _connected(self) -> sql.Engine:
        if self._engine is None or self._process != os.getpid():
            # A connection must not cross a fork: the child makes its own.
            self._engine, self._process = self._engine_for(), os.getpid()
            weakref.finalize(self, _close, self._engine, self._process)
        return self._engine

    def _engine_for(self) -> sql.Engine:
        if self.address.server is not None:
            return _server_engine(self.address.server)
        path = self.address.path
        assert path is not None  # noqa: S101 - an address is a path or a URL
        if not path.exists():
            raise LedgerMissing(f"there is no ledger at {path}; make one with `vestry ledger create`.")
        return _sqlite_engine(path)

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turn the database's exceptions into Vestry's, without their statements."""
        try:
            yield
        except VestryError:
            raise
        except sql.exc.DBAPIError as error:
            raise _translated(error.orig or error, self.address) from None
        except Exception as error:
            if isinstance(error, (sqlite3.Error, OSError)) or type(error).__module__.startswith("psycopg"):
                raise _translated(error, self.address) from None
            raise


def _close(engine: sql.Engine, process: int) -> None:
    """Close the connections when the database is no longer used, in the process that made them."""
    if os.getpid() == process:
        engine.dispose()


def _translated(error: BaseException, address: Address) -> VestryError:
    text = " ".join(str(error).split())
    if isinstance(error, FileExistsError) or "already exists" in text:  # the second from a server
        return LedgerExists(f"there is something at {address} already; nothing was changed: name another place.")
    if any(sign in text for sign in _DAMAGE):
        return LedgerCorrupt(f"{address} is damaged or is no ledger")
    if 'relation "vestry_head" does not exist' in text:
        return LedgerMissing(f"there is no ledger at {address}; make one with `vestry ledger create`.")
    if "locked" in text:
        return LedgerUnavailable(
            f"the ledger at {address} is in use and stayed locked for {PATIENCE_S:g} s; try again."
        )
    reason = getattr(error, "strerror", None) or text or type(error).__name__
    if address.server is not None:
        reason = address.server.reason(reason)
    return LedgerUnavailable(f"the ledger at {address} cannot be used ({reason}); mend that and try again.")


def _server_engine(server: ServerAddress) -> sql.Engine:
    """Connect by what the environment holds now; the filled address lives in the connection alone."""
    server.filled()  # names a variable that is not set
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("a ledger on PostgreSQL", "postgres") from None

    def connect() -> Any:
        asked = {"connect_timeout": "10", **server.filled()}
        asked["options"] = f"{asked.get('options', '')} -csynchronous_commit=on"
        return psycopg.connect(**asked)  # type: ignore[arg-type]

    return sql.create_engine("postgresql+psycopg://", creator=connect, isolation_level="READ COMMITTED")


def _create_file(path: Path, rows: dict[sql.Table, dict[str, Any]]) -> None:
    """Fill a temporary file and link it to its name, so that a ledger is there whole or not at all."""
    for taken in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        # A log that an old ledger left behind would be played into the new one.
        if taken.exists():
            raise LedgerExists(f"there is something at {taken} already; nothing was changed: name another place.")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        _keep_a_write_ahead_log(temporary)
        engine = _sqlite_engine(temporary)
        with engine.begin() as connection:
            _fill(connection, rows)
        engine.dispose()
        os.link(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    finally:
        for leftover in (temporary, Path(name + "-wal"), Path(name + "-shm")):
            leftover.unlink(missing_ok=True)


def _keep_a_write_ahead_log(path: Path) -> None:
    """Set the journal mode, outside of any transaction; the file keeps it."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    finally:
        connection.close()
    if mode != "wal":
        raise LedgerUnavailable(f"a ledger in {path.parent} cannot have a write-ahead log; choose a local disk.")


def _fill(connection: sql.Connection, rows: dict[sql.Table, dict[str, Any]]) -> None:
    _metadata.create_all(connection, checkfirst=False)
    for table, row in rows.items():
        connection.execute(sql.insert(table).values(**row))


def _sqlite_engine(path: Path) -> sql.Engine:
    """Connect with a write-ahead log, a full sync at each commit, and BEGIN IMMEDIATE.

    The driver's own transactions begin as readers: eight processes were seen to overspend with them.
    """

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sql.create_engine("sqlite://", creator=connect, poolclass=sql.pool.QueuePool, paramstyle="named")

    @sql.event.listens_for(engine, "begin")
    def _begin(connection: sql.Connection) -> None:
        reads = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


_DAMAGE = ("not a database", "malformed", "no such table", "no such column", "decode to UTF-8")
_HEAD = sql.select(*(HEAD.c[name] for name in Head._fields)).where(HEAD.c.id == 1)
_LOCKED_HEAD = _HEAD.with_for_update()
_READING = "vestry_reading"
