"""One process at a time in a study's folder, by a lock of the operating system: it ends with the process that holds it.

The lock keeps a release and the files that follow from it together. That nothing is paid twice rests on the ledger,
whose transaction sees every folder and every machine.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vestry.errors import VestryError
from vestry.study.storage import unwritable

# How long a second process on_wait before it says so, and how often it looks.
PATIENCE_S, _LOOK_S = 2.0, 0.05
# Where a file system locks no folders (NFS), this file in it is locked instead.
_FILE = ".vestry-lock"


@contextmanager
def locked(folder: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold a folder, which is made if it is not there; `on_wait` is called if another process holds it for long."""
    handle = _acquire(folder, on_wait)
    try:
        yield
    finally:
        os.close(handle)


def _acquire(folder: Path, on_wait: Callable[[str], None]) -> int:
    """Return a handle that holds the folder which has this name now: another may have been put in its place."""
    while True:
        handle = _open_folder(folder)
        try:
            _lock(handle, folder, on_wait)
            if _is_same(handle, folder):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _open_folder(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return handle
        except OSError:
            os.close(handle)
            return os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o666)
    except FileExistsError:
        raise unwritable(folder, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    return handle


def _lock(handle: int, folder: Path, on_wait: Callable[[str], None]) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_S)
        except OSError as error:
            raise VestryError(
                f"{folder} cannot be locked ({error.strerror}); name a folder on a local disk by --output."
            ) from None
        else:
            return
    on_wait(f"another process writes releases into {folder}; waiting for it to end.")
    fcntl.flock(handle, fcntl.LOCK_EX)


def _is_same(handle: int, folder: Path) -> bool:
    """Tell whether the handle is of what has the folder's name, or of the file in it."""
    mine = os.fstat(handle)
    try:
        return any(os.path.samestat(mine, each.stat()) for each in (folder, folder / _FILE) if each.exists())
    except OSError:
        return False
