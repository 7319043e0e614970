"""Where a study's releases lie: each file is written whole or not at all, and what was paid for is never deleted.

A new release is first saved under the number of its charge, `release-7.json`, which is how a crash before the ledger
was told is found and mended. Then it is moved to `release.json`; another release that lay there keeps its own number.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vestry.certificate import Release, open_release
from vestry.errors import MissingExtra, VestryError
from vestry.posterior import Posterior
from vestry.release_schema import check_facts

RELEASE, CERTIFICATE, POSTERIOR, REPORT = "release.json", "certificate.json", "posterior.nc", "report.html"

# What is written on trial: more than a release takes, so that a full disk shows before anything is charged.
_TRIAL = b"\0" * 65536


@dataclass(frozen=True)
class Folder:
    """A folder with one subfolder a release, and the study's report."""

    path: Path

    def try_writing(self, names: list[str]) -> None:
        """Try to write where the releases will lie, before anything is charged; leave nothing behind."""
        for name in names:
            folder = self.path / name
            made = not _exists(folder)
            probe = folder / ".probe"
            try:
                write(probe, _TRIAL)
            except VestryError as error:
                raise VestryError(str(error).replace(str(probe), str(folder))) from None
            finally:
                with suppress(OSError):
                    probe.unlink(missing_ok=True)
                    if made:
                        folder.rmdir()

    def release(self, name: str) -> Release | None:
        """Return the release that lies here; None if there is none."""
        path = self.path / name / RELEASE
        return open_release(path) if _exists(path) else None

    def holds(self, name: str, sha256: str) -> bool:
        """Tell whether the release file is the one with this hash."""
        return _hash(self.path / name / RELEASE) == sha256

    def keep(self, name: str, entry: int, text: str) -> None:
        """Save a new release under its charge's number, before the ledger is told."""
        write(self._numbered(name, entry), text.encode())

    def saved(self, name: str, entry: int) -> bytes | None:
        """Return what was saved under a charge's number, whole; None if nothing was."""
        path = self._numbered(name, entry)
        if not _exists(path):
            return None
        open_release(path)  # refuses a file that was changed
        return path.read_bytes()

    def find(self, name: str, sha256: str) -> bytes | None:
        """Return the release with this hash, from wherever it lies in the folder; None if it is not there."""
        for path in sorted(self.path.glob("*/release*.json"), key=lambda path: (path.parent.name != name, path.name)):
            if _hash(path) == sha256:
                return path.read_bytes()
        return None

    def settle(self, name: str, entry: int, content: bytes, entries: Mapping[str, int]) -> None:
        """Make this the release that lies here; another one is moved to its own number.

        Parameters
        ----------
        name, entry, content
            The release, its charge and its file.
        entries
            The charge of each release that the ledger knows, by the hash of its file.
        """
        path, numbered = self.path / name / RELEASE, self._numbered(name, entry)
        there = _hash(path)
        try:
            if there is not None and there != hashlib.sha256(content).hexdigest():
                path.replace(self._numbered(name, entries.get(there, there[:16])))
            if _hash(numbered) != hashlib.sha256(content).hexdigest():
                write(path, content)
            else:
                numbered.replace(path)
                _synchronise(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from None

    def facts(self, name: str) -> dict[str, Any]:
        """Return what was written beside the certificate: the charge's number, what was spent and what was left."""
        try:
            found = json.loads((self.path / name / CERTIFICATE).read_text(encoding="utf-8"))
            check_facts(found)
        except (OSError, ValueError, RecursionError):
            return {}
        return dict(found)

    def certify(self, name: str, facts: Mapping[str, Any]) -> None:
        """Write the certificate with what the ledger says."""
        write(self.path / name / CERTIFICATE, (json.dumps(facts, indent=2, sort_keys=True) + "\n").encode())

    def has_posterior(self, name: str) -> bool:
        """Tell whether there is a posterior."""
        return _exists(self.path / name / POSTERIOR)

    def save_posterior(self, name: str, posterior: Posterior, seed: str) -> None:
        """Write the posterior as an ArviZ tree; its draws are a function of the release.

        Where an extra is missing that samples it (hidden states), it is left out: a later run writes it.
        """
        rng = np.random.default_rng(list(bytes.fromhex(seed)))
        with suppress(MissingExtra):
            write(self.path / name / POSTERIOR, posterior.to_arviz(rng).to_netcdf(engine="h5netcdf"))

    def report(self, html: str) -> Path:
        """Write the report."""
        path = self.path / REPORT
        write(path, html.encode())
        return path

    def _numbered(self, name: str, number: int | str) -> Path:
        return self.path / name / f"release-{number}.json"


def write(path: Path, content: bytes | memoryview) -> None:
    """Write a file whole, or leave what was there: a part is written, synchronised and moved."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _synchronise(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _synchronise(folder: Path) -> None:
    """Commit to disk which names a folder has."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exists(path: Path) -> bool:
    """Tell whether there is a file; if that cannot be told, say so, and let whoever opens it fail with a sentence."""
    try:
        return path.exists()
    except OSError:
        return True


def _hash(path: Path) -> str | None:
    """Return the hash of a file; None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _unwritable(path: Path, error: OSError) -> VestryError:
    return VestryError(f"{path} cannot be written ({error.strerror}); make room or name another folder by --output.")
