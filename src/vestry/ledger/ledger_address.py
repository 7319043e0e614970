"""Where a ledger is: a file, or a PostgreSQL server whose password never shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vestry.errors import InvalidParameter
from vestry.server_address import SCHEMES, ServerAddress, parse_address


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
