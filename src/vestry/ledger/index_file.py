"""Where a ledger's index lies: beside the ledger's file, or for a ledger on a server in the user's cache folder.

It may be deleted at any time. Another process may write it at the same moment: each writes a file of its own and moves
it into place, so that the file is always one that somebody wrote whole. What a crash has torn has no valid digest.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from vestry.ledger.journal_index import ROW, JournalIndex
from vestry.ledger.sqlite import Address

# What an index may take beside its rows, in bytes: the state is a few thousand.
_LARGEST_HEADER = 2**20
_PART = ".part"
# What is left of writing and older than this was left by a process that was killed, in seconds.
_ABANDONED_S = 3600.0


class IndexFile:
    """The file of one ledger's index, private to its owner.

    Attributes
    ----------
    path
        Where it is; None where this machine has no folder for it.
    """

    def __init__(self, address: Address) -> None:
        self.path = _path_for(address)

    def read(self, *, most_lines: int) -> JournalIndex | None:
        """Return the index if it is there, whole, this user's own, and covers at most so many lines."""
        written = None if self.path is None else _read_private(self.path, _LARGEST_HEADER + ROW.itemsize * most_lines)
        index = None if written is None else JournalIndex.from_bytes(written)
        return index if index is not None and index.count <= most_lines else None

    def write(self, index: JournalIndex) -> bool:
        """Put the index in its place, whole; return whether there was room and permission."""
        if self.path is None:
            return False
        part: Path | None = None
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", suffix=_PART, dir=self.path.parent)
            part = Path(name)
            with os.fdopen(handle, "wb") as file:
                file.write(index.to_bytes())
            part.replace(self.path)
        except OSError:
            if part is not None:
                with suppress(OSError):
                    part.unlink()
            return False
        self._sweep()
        return True

    def _sweep(self) -> None:
        """Remove what processes that were killed left unfinished."""
        assert self.path is not None  # noqa: S101 - called after a file was written
        for part in self.path.parent.glob(f".{self.path.name}.*{_PART}"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > _ABANDONED_S:
                    part.unlink()


def _path_for(address: Address) -> Path | None:
    """Return where the index of a ledger belongs."""
    try:
        if address.path is not None:
            real = address.path.resolve()
            return real.with_name(f"{real.name}.index")
        caches = os.environ.get("XDG_CACHE_HOME")
        folder = Path(caches) if caches else Path.home() / ".cache"
    except (OSError, RuntimeError):
        return None
    name = hashlib.sha256(str(address).encode()).hexdigest()
    return folder / "vestry" / f"{name[:32]}.ledger.index"


def _read_private(path: Path, most: int) -> bytes | None:
    """Return the content of a plain file that only this user can write; None if it is none, or larger than `most`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if not (stat.S_ISREG(status.st_mode) and is_private and status.st_size <= most):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(most + 1)
    except OSError:
        return None
    finally:
        os.close(handle)
