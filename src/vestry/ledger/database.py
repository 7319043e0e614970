"""Where a ledger is kept: one SQLite file, or one PostgreSQL database, through the same statements."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import URL, make_url

from vestry.errors import (
    InvalidParameter,
    LedgerCorrupt,
    LedgerExists,
    LedgerMissing,
    LedgerUnavailable,
    MissingExtra,
    VestryError,
)

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
    sql.UniqueConstraint("target", "action"),
)


@dataclass(frozen=True)
class Address:
    """A ledger's place: a file path, or a server's URL whose password never shows."""

    path: Path | None = None
    url: URL | None = None

    @classmethod
    def parse(cls, given: object) -> Address:
        """Read a path, `sqlite:///PATH` or `postgresql://USER:${VARIABLE}@HOST/DATABASE`."""
        if isinstance(given, Address):
            return given
        text = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
        if not isinstance(text, str) or not text or "\0" in text:
            raise InvalidParameter("a ledger's address", given, "a path or a URL", _WAYS)
        if "://" not in text:
            return cls(path=Path(text).absolute())
        scheme, _, rest = text.partition("://")
        if scheme == "sqlite":
            return cls(path=Path(rest.removeprefix("/")).absolute())
        if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
            return cls(url=_server(text, rest))
        raise InvalidParameter("a ledger's address", scheme + "://...", "a path or a postgresql:// URL", _WAYS)

    def __str__(self) -> str:
        return str(self.path) if self.url is None else self.url.render_as_string(hide_password=True)

    __repr__ = __str__


def _server(text: str, rest: str) -> URL:
    try:
        url = make_url("postgresql+psycopg://" + rest)
    except (sql.exc.ArgumentError, ValueError):
        raise InvalidParameter("a ledger's address", "postgresql://...", "a URL that can be read", _WAYS) from None
    secrets = [url.password, *(url.query.get(key) for key in ("password", "sslpassword"))]
    if any(secret is not None and not _VARIABLE.fullmatch(str(secret)) for secret in secrets):
        raise InvalidParameter(
            "a ledger's address",
            "one with a password in it",
            "free of secrets",
            "postgresql://USER:${VARIABLE}@HOST/DATABASE and set VARIABLE in the environment",
        )
    return URL.create(
        url.drivername,
        username=_filled(url.username),
        password=_filled(url.password),
        host=_filled(url.host),
        port=url.port,
        database=_filled(url.database),
        query={key: _filled(value) if isinstance(value, str) else value for key, value in url.query.items()},
    )


def _filled(text: str | None) -> Any:
    """Replace ${VARIABLE} by what the environment holds."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InvalidParameter("the environment variable", match[1], "set", f"export {match[1]}=... first")
        return os.environ[match[1]]

    return None if text is None else _VARIABLE.sub(value, text)


class Database:
    """Connections to one ledger. A transaction holds the ledger for itself until it commits."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine: sql.Engine | None = None
        self._process = 0

    @contextmanager
    def transaction(self) -> Iterator[tuple[sql.Connection, Any]]:
        """Hold the ledger, read its head, commit at the end; database errors become sentences."""
        with self._sentences(), self._connected().begin() as connection:
            yield connection, self._checked(connection.execute(_LOCKED_HEAD).one_or_none())

    @contextmanager
    def reading(self) -> Iterator[tuple[sql.Connection, Any]]:
        """See one moment of the ledger and its head, without holding up those who charge."""
        with self._sentences(), self._connected().connect() as connection:
            options: dict[str, Any] = {_READING: True}
            if self.address.url is not None:
                options["isolation_level"] = "REPEATABLE READ"
            with connection.execution_options(**options).begin():
                yield connection, self._checked(connection.execute(_HEAD).one_or_none())

    def create(self, rows: dict[sql.Table, dict[str, Any]]) -> None:
        """Make the tables with their first rows, all or nothing, where no ledger was."""
        with self._sentences():
            if self.address.path is not None:
                _create_file(self.address.path, rows)
                return
            with self._connected().begin() as connection:
                if sql.inspect(connection).has_table(HEAD.name):
                    raise LedgerExists(f"there is a ledger at {self.address} already; nothing was changed.")
                _fill(connection, rows)

    def _checked(self, row: Any) -> Any:
        if row is None:
            raise LedgerCorrupt("it has no head")
        if row.format != FORMAT:
            raise LedgerUnavailable(
                f"the ledger at {self.address} has format {row.format} and this version of vestry reads"
                f" format {FORMAT}; open it with the version that wrote it."
            )
        return row

    def _connected(self) -> sql.Engine:
        if self._engine is None or self._process != os.getpid():
            # A connection must not cross a fork: the child makes its own.
            self._engine, self._process = self._engine_for(), os.getpid()
        return self._engine

    def _engine_for(self) -> sql.Engine:
        if self.address.url is not None:
            try:
                import psycopg  # noqa: F401
            except ImportError:
                raise MissingExtra("a ledger on PostgreSQL", "postgres") from None
            return sql.create_engine(
                self.address.url,
                isolation_level="READ COMMITTED",
                hide_parameters=True,
                connect_args={"connect_timeout": 10, "options": "-csynchronous_commit=on"},
            )
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
        except (sqlite3.Error, OSError) as error:
            raise _translated(error, self.address) from None


def _translated(error: BaseException, address: Address) -> VestryError:
    text = " ".join(str(error).split())
    if isinstance(error, FileExistsError):
        return LedgerExists(f"there is something at {address} already; nothing was changed.")
    if any(
        sign in text for sign in ("not a database", "malformed", "no such table", "no such column", "UndefinedTable")
    ):
        return LedgerCorrupt(f"{address} is damaged or is no ledger")
    if 'relation "vestry_head" does not exist' in text:
        return LedgerMissing(f"there is no ledger at {address}; make one with `vestry ledger create`.")
    if "locked" in text:
        return LedgerUnavailable(
            f"the ledger at {address} is in use and stayed locked for {PATIENCE_S:g} s; try again."
        )
    reason = getattr(error, "strerror", None) or text.partition("\n")[0] or type(error).__name__
    return LedgerUnavailable(f"the ledger at {address} cannot be used ({reason}); nothing was charged.")


def _create_file(path: Path, rows: dict[sql.Table, dict[str, Any]]) -> None:
    """Fill a temporary file and link it to its name, so that a ledger is there whole or not at all."""
    if path.exists():
        raise LedgerExists(f"there is something at {path} already; nothing was changed.")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
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
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    engine = sql.create_engine("sqlite://", creator=connect, poolclass=sql.pool.QueuePool, hide_parameters=True)

    @sql.event.listens_for(engine, "begin")
    def _begin(connection: sql.Connection) -> None:
        reads = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


_HEAD = sql.select(HEAD).where(HEAD.c.id == 1)
_LOCKED_HEAD = _HEAD.with_for_update()
_READING = "vestry_reading"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WAYS = "patients.ledger, or postgresql://USER:${VARIABLE}@HOST/DATABASE"
