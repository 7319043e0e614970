"""Where a study's releases lie: each file is written whole or not at all, and what was paid for is never deleted.

A new release is first saved under the number and the hash of its charge, `release-7-1f0c5a2e.json`, which is how a
crash before the ledger was told is found and mended: a charge of another ledger has another hash. Then it is moved to
`release.json`; another release that lay there keeps its own number, `release-4.json`, and takes no other's place.

One process at a time in a study's folder, by a lock of the operating system: it ends with the process that holds it.

The lock keeps a release and the files that follow from it together. That nothing is paid twice rests on the ledger,
whose transaction sees every folder and every machine.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vestry.errors import VestryError
from vestry.files import PART, open_regular, read_bytes, synchronise, write_over
from vestry.ledger.entry import Entry
from vestry.release_file import ReleaseFile
from vestry.release_schema import check_facts
from vestry.releases import Release, open_release

RELEASE, CERTIFICATE, POSTERIOR, REPORT = "release.json", "certificate.json", "posterior.nc", "report.html"
RESULTS = "report.csv"

# The cache, and its format: raised when what is cached has another form or follows otherwise from the same release.
CACHE, _FORMAT = ".vestry", 5
# A longer file of the cache, or a longer certificate, was not written here, in bytes.
_LARGEST = 2**26


@dataclass(frozen=True)
class ReleaseStore:
    """A folder with one subfolder per release, and the study's report."""

    path: Path
    _files: dict[str, ReleaseFile] = field(default_factory=dict, repr=False, compare=False)

    @contextmanager
    def keeping_room(self) -> Iterator[None]:
        """Give back, at the end, the room that was made for releases and not used."""
        try:
            yield
        finally:
            for file in self._files.values():
                file.give_back()
            self._files.clear()

    def make_room(self, name: str, size: int) -> None:
        """Take room where a release will lie, before anything is charged: for so many bytes at least."""
        try:
            self._file(name).make_room(size)
        except OSError as error:
            self._files.pop(name).give_back()
            raise unwritable(self.path / name, error) from None

    def sweep(self, names: list[str]) -> None:
        """Remove what processes that were killed left unfinished; only whoever holds the folder may."""
        for folder in (self.path, *(self.path / name for name in names)):
            for part in folder.glob(f"*{PART}"):
                if part.name.startswith(_OWN):
                    with suppress(OSError):
                        part.unlink()

    def release(self, name: str) -> Release | None:
        """Return the release that lies here; None if there is none."""
        path = self.path / name / RELEASE
        return open_release(path) if _exists(path) else None

    def holds_release(self, name: str) -> bool:
        """Tell whether a release lies here."""
        return _exists(self.path / name / RELEASE)

    def holds(self, name: str, sha256: str) -> bool:
        """Tell whether the release file is the one with this hash."""
        return _hash(self.path / name / RELEASE) == sha256

    def stage(self, name: str, charge: Entry, text: str) -> None:
        """Save a new release under its charge, before the ledger is told."""
        try:
            self._file(name).stage(charge, text)
        except OSError as error:
            raise unwritable(self._staging(name, charge), error) from None

    def staged(self, name: str, charge: Entry) -> bytes | None:
        """Return what was saved under a charge, whole; None if nothing was."""
        return self._file(name).staged(charge)

    def find(self, name: str, sha256: str) -> bytes | None:
        """Return the release with this hash, from wherever it lies in the folder; None if it is not there."""
        for path in sorted(self.path.glob("*/release*.json"), key=lambda path: (path.parent.name != name, path.name)):
            if _hash(path) == sha256:
                return read_bytes(path)
        return None

    def promote(self, name: str, charge: Entry, content: bytes, charge_of: Callable[[str], int | None]) -> Path | None:
        """Make this the release that lies here; another one is moved to its own number, which is returned.

        Parameters
        ----------
        name, charge, content
            The release, its charge and its file.
        charge_of
            Returns the charge of a release that the ledger knows, by the hash of its file.
        """
        path, staging, wanted = self.path / name / RELEASE, self._staging(name, charge), _sha256(content)
        moved = None
        try:
            if _hash(path) != wanted:
                moved = self._set_aside(name, charge_of)
            if _hash(staging) != wanted:
                write(path, content)
            else:
                staging.replace(path)
                synchronise(path.parent)
        except OSError as error:
            raise unwritable(path, error) from None
        return moved

    def _set_aside(self, name: str, charge_of: Callable[[str], int | None]) -> Path | None:
        """Move the release that is here to its own name; None if there is none."""
        path = self.path / name / RELEASE
        if not _exists(path):
            return None
        there = _sha256(read_bytes(path))
        number = charge_of(there)
        names = [str(number), f"{number}-{there[:16]}"] if number is not None else [there[:16], there]
        for each in names:
            target = self.path / name / f"release-{each}.json"
            if not _exists(target) or _hash(target) == there:
                path.replace(target)
                return target
        raise VestryError(f"{path} holds another release, and its own name is taken; move it, and try again.")

    def read_certificate(self, name: str) -> dict[str, Any]:
        """Return what was written beside the certificate: the charge's number, what was spent and what was left."""
        try:
            record = json.loads(read_bytes(self.path / name / CERTIFICATE, _LARGEST))
            check_facts(record)
        except (OSError, ValueError, RecursionError):
            return {}
        return dict(record)

    def write_certificate(self, name: str, facts: Mapping[str, Any]) -> None:
        """Write the certificate with what the ledger says."""
        write(self.path / name / CERTIFICATE, (json.dumps(facts, indent=2, sort_keys=True) + "\n").encode())

    def certified(self, name: str) -> str | None:
        """Return the hash of the release that the certificate here is of; None if there is none that can be read."""
        sha256 = self.read_certificate(name).get("release_sha256")
        return sha256 if isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256) else None

    def hash_of(self, name: str, file: str) -> str | None:
        """Return the hash of a release's file; None if it cannot be read."""
        return _hash(self.path / name / file)

    def save_posterior(self, name: str, content: bytes | memoryview | None) -> None:
        """Write the posterior's draws; where there is no such file, none of another release stays."""
        if content is not None:
            write(self.path / name / POSTERIOR, content)
            return
        with suppress(OSError):
            (self.path / name / POSTERIOR).unlink(missing_ok=True)

    def report_hash(self) -> str | None:
        """Return the hash of the report; None if there is none."""
        return _hash(self.path / REPORT)

    def holds_results(self) -> bool:
        """Tell whether the table of results lies here, or another file of its name."""
        return _exists(self.path / RESULTS)

    def write_report(self, html: str, results: str) -> Path:
        """Write the report, and beside it its results as a table; a file of that name that is not one is left alone."""
        if _begins(self.path / RESULTS, results.partition("\n")[0].encode()):
            write(self.path / RESULTS, results.encode())
        path = self.path / REPORT
        write(path, html.encode())
        return path

    def _staging(self, name: str, charge: Entry) -> Path:
        return self._file(name).staging(charge)

    def _file(self, name: str) -> ReleaseFile:
        return self._files.setdefault(name, ReleaseFile(self.path / name / RELEASE))


@dataclass(frozen=True)
class Cache:
    """What was computed from releases, beside them: it may be deleted, and what was changed is not read.

    Each file holds a key, what was computed, and a hash over both. The key names everything that the content follows
    from: the release by its hash (its prior is inside), the version, and what else is told. So a file that was damaged,
    swapped with another or left from before is computed again, and nothing else happens.
    """

    path: Path

    def read(self, name: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what was computed from these facts; None if it is not there whole."""
        path = self._path(name)
        try:
            record = json.loads(read_bytes(path, _LARGEST))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or not isinstance(record.get("content"), dict):
            return None
        key, content = _key(facts), record["content"]
        return content if (record.get("key"), record.get("sha256")) == (key, _salted(key, content)) else None

    def write(self, name: str, facts: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Write down what was computed from these facts. Where there is no room it is computed again next time."""
        key = _key(facts)
        record = {"key": key, "sha256": _salted(key, content), "content": content}
        with suppress(VestryError):
            write(self._path(name), json.dumps(record).encode())

    def _path(self, name: str) -> Path:
        return self.path / CACHE / f"{name}.json"


def _key(facts: Mapping[str, Any]) -> str:
    return _salted(_written_by(), facts)


@cache
def _written_by() -> str:
    return f"{_FORMAT} {version('vestry')}"


def _salted(salt: str, content: Mapping[str, Any]) -> str:
    text = json.dumps([salt, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, content: bytes | memoryview) -> None:
    """Write a file whole, or leave what was there, in a folder that is made if it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_over(path, [content])
    except OSError as error:
        raise unwritable(path, error) from None


# How the names of a study's files begin.
_OWN = ("release", CERTIFICATE, POSTERIOR, REPORT, RESULTS)


def _exists(path: Path) -> bool:
    """Tell whether there is a file; if that cannot be told, say so, and let whoever opens it fail with a sentence."""
    try:
        return path.exists()
    except OSError:
        return True


def _begins(path: Path, head: bytes) -> bool:
    """Tell whether a file begins so, or is not there."""
    try:
        with open_regular(path) as file:
            return file.read(len(head)) == head
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _hash(path: Path) -> str | None:
    """Return the hash of a file; None if it cannot be read."""
    try:
        return _sha256(read_bytes(path))
    except OSError:
        return None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def unwritable(path: Path, error: OSError) -> VestryError:
    """Say that a file could not be written, and why."""
    return VestryError(f"{path} cannot be written ({error.strerror}); make room or name another folder by --output.")


# How long a second process waits before it says so, and how often it looks.
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
