"""What was computed from releases, kept beside them: it may be deleted, and what was changed is not read.

Each file holds a key, what was computed, and a hash over both. The key names everything that the content follows from:
the release by its hash (its prior is inside), the version, and what else is told. So a file that was damaged, swapped
with another or left from before is computed again, and nothing else happens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vestry.errors import VestryError
from vestry.study.storage import write

FOLDER = ".vestry"
# Raised when what is kept has another form or follows otherwise from the same release.
_FORMAT = 1
# A longer file was not written here, in bytes.
_LARGEST = 2**26


@dataclass(frozen=True)
class Cache:
    """A study's folder of what was computed."""

    path: Path

    def read(self, name: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what was computed from these facts; None if it is not there whole."""
        path = self._path(name)
        try:
            if path.stat().st_size > _LARGEST:
                return None
            found = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or not isinstance(found.get("content"), dict):
            return None
        key, content = _key(facts), found["content"]
        return content if (found.get("key"), found.get("sha256")) == (key, _hash(key, content)) else None

    def keep(self, name: str, facts: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Keep what was computed from these facts. Where there is no room it is computed again next time."""
        key = _key(facts)
        record = {"key": key, "sha256": _hash(key, content), "content": content}
        with suppress(VestryError):
            write(self._path(name), json.dumps(record).encode())

    def _path(self, name: str) -> Path:
        return self.path / FOLDER / f"{name}.json"


def _key(facts: Mapping[str, Any]) -> str:
    return _hash(_made_by(), facts)


@cache
def _made_by() -> str:
    return f"{_FORMAT} {version('vestry')}"


def _hash(salt: str, content: Mapping[str, Any]) -> str:
    text = json.dumps([salt, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
