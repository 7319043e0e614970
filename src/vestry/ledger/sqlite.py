"""Connections to a ledger in one SQLite file: what was acknowledged is in that file, whatever is killed.

A rollback journal (`PERSIST`), synchronised at each commit (`EXTRA`): when a commit returns, the file holds it. While a
transaction runs, `NAME-journal` beside it holds what the file had before; whoever opens the ledger next rolls back
what was interrupted. Between transactions that journal is empty, though the file stays.

Another program may give the file a write-ahead log. A connection that is alone and is about to write undoes that;
SQLite takes an exclusive lock for it and first moves into the file what the log holds.

A ledger must be one file under one name, and the same one as long as a handle is open. SQLite finds the journal of an
interrupted transaction by the file's name. Under a second name (a hard link, or a mount of the file itself) it looks
for another journal, so that two processes spend the same budget.

Only `os.stat` looks at the file. Opening and closing it in this process would drop the locks that SQLite holds on it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from vestry.errors import InvalidParameter, LedgerCorrupt, LedgerExists, LedgerMissing, LedgerUnavailable
from vestry.server_address import SCHEMES, ServerAddress, parse_address

# The schema as every ledger has it, apart from white space.
SCHEMA = {
    "vestry_head": "CREATE TABLE vestry_head ( id INTEGER NOT NULL, format INTEGER NOT NULL, sequence BIGINT NOT NULL,"
    " hash TEXT NOT NULL, content TEXT NOT NULL, state TEXT NOT NULL, row_key TEXT NOT NULL, PRIMARY KEY (id) )",
    "vestry_journal": "CREATE TABLE vestry_journal ( sequence INTEGER NOT NULL, action TEXT NOT NULL, target INTEGER,"
    " body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (sequence) )",
    "vestry_journal_once": "CREATE UNIQUE INDEX vestry_journal_once ON vestry_journal (target, action)"
    " WHERE target IS NOT NULL",
}
_KINDS = {"vestry_head": "table", "vestry_journal": "table", "vestry_journal_once": "index"}
_BESIDE = ("-journal", "-wal")


def connect(path: Path, patience_s: float) -> sqlite3.Connection:
    """Open a file that exists: to write where file and folder allow it, otherwise to read."""
    if not is_writable(path):
        return _read_only(path, patience_s)
    _require_locks(path.parent)
    connection = _open(path, "mode=rw", patience_s)
    try:
        connection.execute("PRAGMA synchronous=EXTRA")
        with suppress(sqlite3.OperationalError):  # another program has it open with a write-ahead log
            if _journal_mode(connection) != "wal":
                keep_one_file(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _require_locks(folder: Path) -> None:
    """Refuse a folder in which the operating system locks nothing. SQLite would wait and then call it in use.

    What is locked is a file without a name: closing a handle of the ledger's own file would drop SQLite's locks.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.ENOLCK:
            return  # whatever it is, it will show when the ledger is written
        raise LedgerUnavailable(
            f"no file can be locked in {folder} ({error.strerror}), so a ledger there could be charged twice at once;"
            " start the lock service of its file server, or keep the ledger on a local disk."
        ) from None


def is_writable(path: Path) -> bool:
    """Tell whether this user may write the file and, beside it, the journal."""
    return os.access(path, os.W_OK) and os.access(path.resolve().parent, os.W_OK)


def writes_one_file(connection: sqlite3.Connection) -> bool:
    """Tell whether what is committed here is in the file itself, and not in a log beside it."""
    return _journal_mode(connection) == "persist"


def keep_one_file(connection: sqlite3.Connection) -> None:
    """Keep what a transaction may undo in a journal beside the file, and what it commits in the file."""
    connection.execute("PRAGMA journal_mode=PERSIST")


def _journal_mode(connection: sqlite3.Connection) -> str:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return str(mode)


def require_sound(connection: sqlite3.Connection, path: Path, patience_s: float) -> None:
    """Refuse a file whose header, pages, index or schema are not as they must be."""
    if is_writable(path):
        _require_writable_header(path, patience_s)
    objects = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
    expected = {(name, _KINDS[name], text) for name, text in SCHEMA.items()}
    if {(name, kind, " ".join(str(text).split())) for name, kind, text in objects} != expected or len(objects) != 3:
        raise LedgerCorrupt("its schema was changed")
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise LedgerCorrupt("its pages or its index were changed")


def _require_writable_header(path: Path, patience_s: float) -> None:
    """Refuse a file that SQLite only reads, because its header names a later version though its pages are as before.

    A connection finds that out when it begins to write before it has read anything, so it must be a new one.
    """
    with closing(_open(path, "mode=rw", patience_s)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise
            raise LedgerCorrupt("its header was changed") from None


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file to fill, and then link it to its name: whole or not at all, and over nothing."""
    _require_nothing(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.link(temporary, path)
    finally:
        for leftover in (temporary, *(Path(name + end) for end in _BESIDE)):
            leftover.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _require_nothing(path: Path) -> None:
    """Refuse a name that is taken, or beside which lies what would be played into the new file."""
    for taken, is_there in ((path, os.path.lexists), *((Path(f"{path}{end}"), _pending) for end in _BESIDE)):
        if is_there(taken):
            raise LedgerExists(f"there is something at {taken} already; nothing was changed: name another place.")


def _read_only(path: Path, patience_s: float) -> sqlite3.Connection:
    """Open to read. What a killed process left to be rolled back, or in a log, cannot be read so."""
    connection = _open(path, "mode=ro", patience_s)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        pending = [path.name + end for end in _BESIDE if _pending(Path(f"{path}{end}"))]
        if pending:
            raise LedgerUnavailable(
                f"the ledger at {path} cannot be read where nothing can be written, because {pending[0]} holds a part"
                " of it; copy both to a folder that you can write, and open the copy."
            ) from None
        if not any(sign in str(error) for sign in ("unable to open", "readonly")):
            raise
        # Its write-ahead log is gone, so nobody has it open, and nobody can write it here.
        return _open(path, "mode=ro&immutable=1", patience_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _open(path: Path, options: str, patience_s: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?{options}",
        uri=True,
        timeout=patience_s,
        isolation_level=None,
        check_same_thread=False,
    )


def _pending(path: Path) -> bool:
    """Tell whether a journal or log holds anything that SQLite would play back."""
    try:
        with path.open("rb") as file:
            return any(file.read(28))
    except FileNotFoundError:
        return False


_MOUNTS = "/proc/self/mountinfo"


class FileIdentity(NamedTuple):
    """Which file a name leads to: its device and its number there."""

    device: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> FileIdentity:
        """Look where a name leads to now, through symbolic links."""
        status = _stat(path)
        return cls(status.st_dev, status.st_ino)


def require_same_file(path: Path, opened: FileIdentity) -> None:
    """Refuse to go on if the file that was opened was deleted or replaced since."""
    if not path.exists():
        raise LedgerMissing(
            f"the ledger at {path} was moved or deleted while it was open, and nothing was written; put it back and"
            " open it again."
        )
    if FileIdentity.at(path) != opened:
        raise LedgerUnavailable(
            f"the ledger at {path} was replaced by another file while it was open, and nothing was written; put the"
            " newest one in its place and open it again."
        )


def require_one_name(path: Path) -> None:
    """Refuse a file with another name, by a hard link or because it is itself mounted."""
    if (names := _stat(path).st_nlink) != 1:
        raise LedgerUnavailable(
            f"the ledger at {path} has {names} names (hard links), under which its budget could be spent twice;"
            f" {_remedy(path)}."
        )
    if os.fsencode(os.path.realpath(path)) in _mount_points():
        raise LedgerUnavailable(
            f"the ledger at {path} is itself mounted there, so its budget could be spent twice under its other name;"
            " mount the folder that holds it instead."
        )


def _remedy(path: Path) -> str:
    """Say which name to remove: what a killed creation left, or whatever `find` finds."""
    opened = FileIdentity.at(path)
    for other in path.parent.glob(f".{path.name}.*.new"):
        if FileIdentity.at(other) == opened:
            return f"remove {other}, which was left as its creation was killed"
    return f"remove the others, which `find FOLDER -samefile {path}` lists"


def _mount_points() -> set[bytes]:
    """Return every path at which something is mounted, as the kernel's table says; empty where there is none."""
    try:
        table = os.open(_MOUNTS, os.O_RDONLY)
    except OSError:
        return set()
    try:
        content = b"".join(iter(lambda: os.read(table, 1 << 16), b""))
    finally:
        os.close(table)
    return {_ESCAPE.sub(lambda code: bytes([int(code[1], 8)]), line.split(b" ")[4]) for line in content.splitlines()}


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerMissing(f"there is no ledger at {path}; make one with `vestry ledger create`.") from None


_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, repr=False)
class Address:
    """A ledger's place: a file path, or a server's address as it was typed."""

    path: Path | None = None
    server: ServerAddress | None = None

    @classmethod
    def parse(cls, given: object) -> Address:
        """Read a path, `sqlite:///PATH` or `postgresql://USER:${VARIABLE}@HOST/DATABASE`."""
        if isinstance(given, Address):
            return given
        text = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
        if not isinstance(text, str) or not text or "\0" in text:
            raise InvalidParameter(_NAME, given, "a path or a URL", _WAYS)
        if "://" not in text:
            return cls(path=Path(text).absolute())
        scheme, _, rest = text.partition("://")
        if scheme == "sqlite":
            return cls(path=Path(rest.removeprefix("/")).absolute())
        if scheme not in SCHEMES:
            shown = f"{scheme}://..." if scheme.isalnum() else "://..."
            raise InvalidParameter(_NAME, shown, "a path or a postgresql:// URL", _WAYS)
        server = parse_address(text, name=_NAME, instead=_SERVER)
        if server.table is not None:
            raise InvalidParameter(_NAME, "postgresql://...", "a database without a table", _SERVER)
        return cls(server=server)

    def __str__(self) -> str:
        return str(self.path) if self.server is None else self.server.shown

    __repr__ = __str__


_NAME = "a ledger's address"
_SERVER = "postgresql://USER:${VARIABLE}@HOST/DATABASE"
_WAYS = f"patients.ledger, or {_SERVER}"
