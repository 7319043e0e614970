"""Where a ledger is: a file, or a PostgreSQL server whose password never shows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import URL, make_url

from vestry.errors import InvalidParameter


@dataclass(frozen=True)
class Address:
    """A ledger's place: a file path, or a server's URL whose password never shows."""

    path: Path | None = None
    url: URL | None = None

    @classmethod
    def parse(cls, given: object) -> Address:
        """Read a path, `sqlite:///PATH` or `postgresql://USER:${VARIABLE}@HOST/DATABASE`."""
        if isinstance(given, Address):
            return given
        text = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
        if not isinstance(text, str) or not text or "\0" in text:
            raise InvalidParameter("a ledger's address", given, "a path or a URL", _WAYS)
        if "://" not in text:
            return cls(path=Path(text).absolute())
        scheme, _, rest = text.partition("://")
        if scheme == "sqlite":
            return cls(path=Path(rest.removeprefix("/")).absolute())
        if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
            return cls(url=_server(rest))
        raise InvalidParameter("a ledger's address", scheme + "://...", "a path or a postgresql:// URL", _WAYS)

    def __str__(self) -> str:
        return str(self.path) if self.url is None else self.url.render_as_string(hide_password=True)

    __repr__ = __str__


def _server(rest: str) -> URL:
    try:
        url = make_url("postgresql+psycopg://" + rest)
    except (sql.exc.ArgumentError, ValueError):
        raise InvalidParameter("a ledger's address", "postgresql://...", "a URL that can be read", _WAYS) from None
    secrets = [url.password, *(url.query.get(key) for key in ("password", "sslpassword"))]
    if any(secret is not None and not _VARIABLE.fullmatch(str(secret)) for secret in secrets):
        raise InvalidParameter(
            "a ledger's address",
            "one with a password in it",
            "free of secrets",
            "postgresql://USER:${VARIABLE}@HOST/DATABASE and set VARIABLE in the environment",
        )
    return URL.create(
        url.drivername,
        username=_filled(url.username),
        password=_filled(url.password),
        host=_filled(url.host),
        port=url.port,
        database=_filled(url.database),
        query={key: _filled(value) if isinstance(value, str) else value for key, value in url.query.items()},
    )


def _filled(text: str | None) -> Any:
    """Replace ${VARIABLE} by what the environment holds."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InvalidParameter("the environment variable", match[1], "set", f"export {match[1]}=... first")
        return os.environ[match[1]]

    return None if text is None else _VARIABLE.sub(value, text)


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WAYS = "patients.ledger, or postgresql://USER:${VARIABLE}@HOST/DATABASE"
