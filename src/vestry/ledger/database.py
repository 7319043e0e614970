"""Where a ledger is kept: one SQLite file, or one PostgreSQL database, through the same statements."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from vestry.errors import LedgerCorrupt, LedgerExists, LedgerMissing, LedgerUnavailable, MissingExtra, VestryError
from vestry.ledger.entry import hash_line
from vestry.ledger.sqlite import (
    SCHEMA,
    Address,
    FileIdentity,
    connect,
    is_writable,
    keep_one_file,
    new_file,
    require_one_name,
    require_same_file,
    require_sound,
    writes_one_file,
)
from vestry.ledger.statements import (
    HASH_OF,
    HEAD,
    INSERT_HEAD,
    INSERT_LINE,
    LINES,
    LOCKED_HEAD,
    METADATA,
    READ_HEAD,
    Head,
)
from vestry.server_address import ServerAddress

FORMAT = 2
# Of a copy, which every version refuses to charge.
COPY_FORMAT = 1001
PATIENCE_S = 60.0
# Lines that are read at once.
PAGE = 500


class Session:
    """Runs statements inside one transaction, on the driver's own cursor.

    They are compiled once for each dialect. Going through the toolkit for each would cost as much as the commit.
    """

    def __init__(self, connection: sql.Connection) -> None:
        self.driver: Any = connection.connection.driver_connection
        self.appended: tuple[int, str] | None = None  # the number and hash of the line that was added
        self._dialect = connection.dialect

    def run(self, statement: sql.Executable, **values: Any) -> Any:
        """Execute a statement and return the cursor."""
        text, fixed = _compile(statement, self._dialect)
        cursor = self.driver.cursor()
        cursor.execute(text, {**fixed, **values})
        return cursor

    def one(self, statement: sql.Executable, **values: Any) -> tuple[Any, ...] | None:
        """Return the first row, if there is one."""
        return self.run(statement, **values).fetchone()  # type: ignore[no-any-return]


def _compile(statement: Any, dialect: sql.Dialect) -> tuple[str, dict[str, Any]]:
    """Compile a statement once for each kind of database, not for each connection."""
    known = _COMPILED.get((dialect.name, statement))
    if known is None:
        compiled = statement.compile(dialect=dialect)
        fixed = {key: value for key, value in compiled.params.items() if value is not None}
        known = (str(compiled), fixed)
        _COMPILED[dialect.name, statement] = known
    return known


_COMPILED: dict[tuple[str, Any], tuple[str, dict[str, Any]]] = {}


class Database:
    """Connections to one ledger. A transaction holds the ledger for itself until it commits.

    It remembers the newest line it has seen, and refuses a ledger that no longer has it.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine: sql.Engine | None = None
        self._process = 0
        self._opened: FileIdentity | None = None
        self._seen: tuple[int, str] | None = None

    @contextmanager
    def transaction(self, *, of_copy: bool = False) -> Iterator[tuple[Session, Head]]:
        """Hold the ledger, read its head, commit at the end; a copy only where it is made a ledger."""
        seen = self._seen
        with self._translate_errors(), self._writable() as connection:
            with connection.begin():
                session = Session(connection)
                self._require_one_file(session)
                head = self._read_head(session, LOCKED_HEAD, seen)
                if head.format == COPY_FORMAT and not of_copy:
                    raise LedgerUnavailable(_IS_A_COPY.format(address=self.address))
                yield session, head
            self._remember(*(session.appended or (head.sequence, head.hash)))

    @contextmanager
    def reading(self) -> Iterator[tuple[Session, Head]]:
        """See one moment of the ledger and its head. Charges wait for the end of it, so let it be short."""
        seen = self._seen
        with self._translate_errors(), self._connected().connect() as connection:
            options: dict[str, Any] = {_READING: True}
            if self.address.server is not None:
                options["isolation_level"] = "REPEATABLE READ"
            with connection.execution_options(**options).begin():
                session = Session(connection)
                self._require_same_file()
                head = self._read_head(session, READ_HEAD, seen)
                yield session, head
            self._remember(head.sequence, head.hash)
            if self.address.path is not None and not writes_one_file(session.driver):
                connection.invalidate()  # whoever holds a write-ahead log open keeps others from converting it

    def pages(self, statement: Any, *, start: int = 0, end: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield rows whose first column is the line's number, from `start` to `end`, in many short readings."""
        while end is None or start <= end:
            with self.reading() as (session, head):
                if end is None:
                    end = head.sequence
                rows = session.run(statement, start=start, end=end, size=PAGE).fetchall()
            yield from rows
            if len(rows) < PAGE:
                return
            start = _after(rows, start)

    def line_pages(self, start: int, end: int) -> Iterator[tuple[Any, ...]]:
        """Yield the lines from `start` to `end`, in many short readings."""
        return self.pages(LINES, start=start, end=end)

    def require_sound(self) -> None:
        """Refuse a file whose pages, index or schema were changed. A server looks after its own."""
        with self._translate_errors(), self._connected().connect() as connection:
            if self.address.path is not None:
                driver: Any = connection.connection.driver_connection
                require_sound(driver, self.address.path, PATIENCE_S)

    def create(self, head: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> None:
        """Make the tables with their first rows, all or nothing, where no ledger was."""
        with self._translate_errors():
            if self.address.path is not None:
                with new_file(self.address.path) as temporary:
                    engine = _sqlite_engine(lambda: connect(temporary, PATIENCE_S))
                    with engine.begin() as connection:
                        for text in SCHEMA.values():
                            connection.exec_driver_sql(text)
                        _fill(connection, head, lines)
                    engine.dispose()
                return
            with self._connected().begin() as connection:
                if sql.inspect(connection).has_table(HEAD.name):
                    raise LedgerExists(
                        f"there is a ledger at {self.address} already; nothing was changed: open it, or name another."
                    )
                METADATA.create_all(connection, checkfirst=False)
                _fill(connection, head, lines)

    def _read_head(self, session: Session, statement: sql.Executable, seen: tuple[int, str] | None) -> Head:
        """Read the head; refuse what is none, what another version wrote, and what lacks a line that was seen."""
        row = session.one(statement)
        if row is None:
            raise LedgerCorrupt("it has no head")
        head = Head(*row)
        if head.format not in (FORMAT, COPY_FORMAT):
            raise LedgerUnavailable(
                f"the ledger at {self.address} has format {head.format}, and this version of vestry reads format"
                f" {FORMAT}; open it with the version that wrote it."
            )
        if [type(value) for value in head] != [int, int, str, str, str, str]:
            raise LedgerCorrupt("its head cannot be read")
        if hash_line(head.sequence, head.content, head.state) != head.hash:
            raise LedgerCorrupt("its head was changed", head.sequence)
        if seen is not None and seen != (head.sequence, head.hash) and session.one(HASH_OF, number=seen[0]) != seen[1:]:
            raise LedgerCorrupt("it lacks a line that was there before, so an older copy was put in its place", seen[0])
        return head

    def _remember(self, sequence: int, hash_: str) -> None:
        if self._seen is None or sequence > self._seen[0]:
            self._seen = sequence, hash_

    @contextmanager
    def _writable(self) -> Iterator[sql.Connection]:
        """Yield a connection that commits to one place: on SQLite to the file itself, never to a log beside it."""
        with self._connected().connect() as connection:
            if self.address.path is not None:
                self._require_no_log(connection.connection.driver_connection)
            yield connection

    def _require_no_log(self, driver: Any) -> None:
        """Undo a write-ahead log that another program gave the file, or refuse to write."""
        if writes_one_file(driver):
            return
        if self.address.path is None or not is_writable(self.address.path):
            raise LedgerUnavailable(_READ_ONLY.format(address=self.address))
        with suppress(sqlite3.OperationalError):  # that program has it open
            keep_one_file(driver)
        if not writes_one_file(driver):
            raise LedgerUnavailable(_HELD.format(address=self.address))

    def _require_one_file(self, session: Session) -> None:
        """Refuse a file that was deleted or replaced, has another name, or was given a write-ahead log just now."""
        if self.address.path is None:
            return
        self._require_same_file()
        require_one_name(self.address.path)
        if not writes_one_file(session.driver):
            raise LedgerUnavailable(_HELD.format(address=self.address))

    def _require_same_file(self) -> None:
        if self.address.path is not None and self._opened is not None:
            require_same_file(self.address.path, self._opened)

    def _connected(self) -> sql.Engine:
        if self._engine is None or self._process != os.getpid():
            # A connection must not cross a fork: the child makes its own.
            self._engine = self._engine_for()
            self._process = os.getpid()
            weakref.finalize(self, _close, self._engine, self._process)
        return self._engine

    def _engine_for(self) -> sql.Engine:
        if self.address.server is not None:
            return _server_engine(self.address.server)
        assert self.address.path is not None  # noqa: S101 - an address is a path or a server
        if self._opened is None:
            self._opened = FileIdentity.at(self.address.path)
        # Not a method: the engine must not hold what is waited for before the engine is closed.
        return _sqlite_engine(partial(_connect, self.address.path, self._opened))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn the database's exceptions into Vestry's, without their statements."""
        try:
            yield
        except VestryError:
            raise
        except Exception as error:
            cause = (error.orig or error) if isinstance(error, sql.exc.DBAPIError) else error
            if not (isinstance(cause, _KNOWN) or type(cause).__module__.startswith("psycopg")):
                raise
            self._require_same_file()  # which may be why
            raise _translate(cause, self.address) from None


def pages_of(session: Session, statement: Any, start: int, end: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows whose first column is the line's number, page by page, inside one transaction."""
    while start <= end:
        rows = session.run(statement, start=start, end=end, size=PAGE).fetchall()
        yield from rows
        if len(rows) < PAGE:
            return
        start = _after(rows, start)


def _after(rows: list[tuple[Any, ...]], start: int) -> int:
    """Return the number after a page's last line."""
    last: int = rows[-1][0]
    if last < start:
        raise LedgerCorrupt("its lines are out of order")
    return last + 1


def _connect(path: Path, opened: FileIdentity) -> sqlite3.Connection:
    """Connect to the file that was opened first, or refuse."""
    require_same_file(path, opened)
    connection = connect(path, PATIENCE_S)
    try:
        require_same_file(path, opened)
    except BaseException:
        connection.close()
        raise
    return connection


def _close(engine: sql.Engine, process: int) -> None:
    """Close the connections when the database is no longer used, in the process that made them."""
    if os.getpid() == process:
        engine.dispose()


def _translate(error: BaseException, address: Address) -> VestryError:
    text = " ".join(str(error).split())
    if isinstance(error, FileExistsError) or "already exists" in text:  # the second from a server
        return LedgerExists(f"there is something at {address} already; nothing was changed: name another place.")
    if any(sign in text for sign in _DAMAGE):
        return LedgerCorrupt(f"{address} is damaged or is not a ledger")
    if 'relation "vestry_head" does not exist' in text:
        return LedgerMissing(f"there is no ledger at {address}; make one with `vestry ledger create`.")
    if "locked" in text or type(error).__name__ == "LockNotAvailable":  # the second from a server, in any language
        return LedgerUnavailable(
            f"the ledger at {address} is in use and stayed locked for {PATIENCE_S:g} s; try again."
        )
    reason = getattr(error, "strerror", None) or text or type(error).__name__
    if address.server is not None:
        reason = address.server.reason(reason)
    return LedgerUnavailable(f"the ledger at {address} cannot be used ({reason}); mend that and try again.")


def _server_engine(server: ServerAddress) -> sql.Engine:
    """Connect by what the environment holds now; the filled address lives in the connection alone."""
    server.fill()  # names a variable that is not set
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("a ledger on PostgreSQL", "postgres") from None

    def connect() -> Any:
        parameters: dict[str, Any] = {"connect_timeout": "10", **server.fill()}
        own = parameters.get("options", "")
        patience_ms = round(1000 * PATIENCE_S)
        parameters["options"] = f"{own} -csynchronous_commit=on -clock_timeout={patience_ms}"
        return psycopg.connect(**parameters)

    return sql.create_engine("postgresql+psycopg://", creator=connect, isolation_level="READ COMMITTED")


def _fill(connection: sql.Connection, head: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> None:
    session = Session(connection)
    for line in lines:
        session.run(INSERT_LINE, **line)
    session.run(INSERT_HEAD, **head)


def _sqlite_engine(creator: Callable[[], sqlite3.Connection]) -> sql.Engine:
    """Begin every transaction that writes with BEGIN IMMEDIATE.

    The driver's own transactions begin as readers: eight processes were seen to be turned away with them.
    """
    engine = sql.create_engine("sqlite://", creator=creator, poolclass=sql.pool.QueuePool, paramstyle="named")

    @sql.event.listens_for(engine, "begin")
    def _begin(connection: sql.Connection) -> None:
        reads = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


_KNOWN = (sqlite3.Error, sql.exc.DBAPIError, OSError, UnicodeError, OverflowError)
_DAMAGE = (
    "not a database", "malformed", "no such table", "no such column", "decode to UTF-8", "unsupported file format",
)  # fmt: skip
_READING = "vestry_reading"
_IS_A_COPY = (
    "{address} is a copy, and charging it would spend again what the ledger has spent; charge the ledger itself, or, if"
    " that is lost, make a new one of the copy with `vestry ledger restore`."
)
_READ_ONLY = (
    "the ledger at {address} is read-only here, so nothing was written; use it where its folder can be written."
)
_HELD = (
    "another program gave the ledger at {address} a write-ahead log, and has it open; end that program and try again."
)
