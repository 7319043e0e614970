"""Where a study's releases lie: each file is written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vestry.errors import VestryError
from vestry.posterior import Posterior
from vestry.release import Release, open_release

RELEASE, CERTIFICATE, POSTERIOR, REPORT = "release.json", "certificate.json", "posterior.nc", "report.html"


@dataclass(frozen=True)
class Folder:
    """A folder with one subfolder a release, and the study's report."""

    path: Path

    def try_writing(self, names: list[str]) -> None:
        """Make the folders and try to write into them: before anything is charged."""
        for name in names:
            folder = self.path / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
                probe = folder / ".probe"
                probe.write_bytes(b"")
                probe.unlink()
            except OSError as error:
                raise _unwritable(folder, error) from None

    def release(self, name: str) -> Release | None:
        """Return the release that lies here; None if there is none."""
        path = self.path / name / RELEASE
        return open_release(path) if path.exists() else None

    def content(self, name: str) -> bytes:
        """Return the release file's bytes, of which the ledger keeps the hash."""
        return (self.path / name / RELEASE).read_bytes()

    def facts(self, name: str) -> dict[str, Any]:
        """Return what was written beside the certificate: the charge's number, what was spent and what was left."""
        try:
            found = json.loads((self.path / name / CERTIFICATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def keep(self, name: str, text: str) -> None:
        """Write the release."""
        write(self.path / name / RELEASE, text.encode())

    def certify(self, name: str, facts: Mapping[str, Any]) -> None:
        """Write the certificate with what the ledger says."""
        write(self.path / name / CERTIFICATE, (json.dumps(facts, indent=2, sort_keys=True) + "\n").encode())

    def save_posterior(self, name: str, posterior: Posterior, seed: str) -> None:
        """Write the posterior as an ArviZ tree; its draws are a function of the release."""
        rng = np.random.default_rng(list(bytes.fromhex(seed)))
        tree = posterior.to_arviz(rng)
        path = self.path / name / POSTERIOR
        part = path.with_suffix(".part")
        try:
            tree.to_netcdf(part, engine="h5netcdf")
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise _unwritable(path, error) from None

    def report(self, html: str) -> Path:
        """Write the report."""
        path = self.path / REPORT
        write(path, html.encode())
        return path


def write(path: Path, content: bytes) -> None:
    """Write a file whole, or leave what was there: a part is written, synchronised and moved."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> VestryError:
    return VestryError(f"{path} cannot be written ({error.strerror}); make room or name another folder by --output.")
