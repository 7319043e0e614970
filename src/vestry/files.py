"""The door of every file: read whole up to a bound, and written whole or not at all.

Only a regular file is read: a device may never end, and a pipe may never begin. What is written is a new file beside
the old one, on the disk before it takes the name, so that neither a crash nor a full disk leaves half of it. A symbolic
link that has the name is replaced, never followed; a device, a pipe or a folder is never replaced.

All of it raises `OSError` with a reason in `strerror`; who asked knows what the file was to be.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# The longest file that is read whole, in bytes: a text that a person wrote, and what Vestry wrote itself.
MOST_TEXT = 2**24
MOST_WRITTEN = 2**31

# How the name of a file ends that is not whole yet.
PART = ".part"

_NOT_REGULAR = "not a regular file but a device, a pipe or a socket"
# Opening a pipe waits for a writer, and opening a terminal may take hold of it.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NUMBERS: Iterator[int] = itertools.count()


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read its bytes; refuse what is not a regular file.

    What was opened is looked at, and not what has the name a moment before or after.
    """
    handle = os.open(path, _READ)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, _NOT_REGULAR, str(path))
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_bytes(path: Path, most: int = MOST_WRITTEN) -> bytes:
    """Return what a regular file holds; refuse one that is longer than `most` bytes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most // 2**20} MiB", str(path))
    return content


def read_text(path: Path, most: int = MOST_TEXT, *, encoding: str = "utf-8") -> str:
    """Return the text that a regular file holds, with each end of a line as one sign."""
    text = read_bytes(path, most).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_over(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file whole, in the place of one that has the name; or leave what was there."""
    with suppress(FileNotFoundError):
        _require_replaceable(path)
    with _part(path, pieces) as part:
        part.replace(path)
        synchronise(path.parent)


def write_new(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a new file whole; raise `FileExistsError` if anything has the name, a link that leads nowhere included."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with _part(path, pieces) as part:
        os.link(part, path)
        synchronise(path.parent)


def _require_replaceable(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, _NOT_REGULAR, str(path))


@contextmanager
def _part(path: Path, pieces: Iterable[bytes | memoryview]) -> Iterator[Path]:
    """Yield a file beside another that holds the pieces and is on the disk; it is removed if it was not moved."""
    file = open_part(path)
    part = Path(file.name)
    try:
        with file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def open_part(path: Path) -> BinaryIO:
    """Open a new file beside another, under a name that no process has."""
    for number in _NUMBERS:
        part = path.with_name(f"{path.name}.{os.getpid()}-{number}{PART}")
        with suppress(FileExistsError):
            return part.open("xb")
    raise AssertionError("numbers do not end")


def synchronise(folder: Path) -> None:
    """Commit to disk which names a folder has."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
