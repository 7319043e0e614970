"""What a ledger's file must be: one file under one name, and the same one as long as a handle is open.

SQLite finds the journal of an interrupted transaction by the file's name. Under a second name (a hard link, or a mount
of the file itself) it looks for another journal, so that two processes spend the same budget.

Only `os.stat` looks at the file. Opening and closing it in this process would drop the locks that SQLite holds on it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from vestry.errors import LedgerMissing, LedgerUnavailable

_MOUNTS = "/proc/self/mountinfo"


class FileIdentity(NamedTuple):
    """Which file a name leads to: its device and its number there."""

    device: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> FileIdentity:
        """Look where a name leads to now, through symbolic links."""
        found = _stat(path)
        return cls(found.st_dev, found.st_ino)


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
            f" {_mended(path)}."
        )
    if os.fsencode(os.path.realpath(path)) in _mount_points():
        raise LedgerUnavailable(
            f"the ledger at {path} is itself mounted there, so its budget could be spent twice under its other name;"
            " mount the folder that holds it instead."
        )


def _mended(path: Path) -> str:
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
