"""Where a PostgreSQL server is: an address that every eye sees as it was typed, and that only a connection sees filled.

    postgresql://USER:${VARIABLE}@HOST:PORT/DATABASE?KEY=VALUE&...      a ledger
    postgresql://USER:${VARIABLE}@HOST:PORT/DATABASE/TABLE?KEY=VALUE    a table of records

A secret is written as `${VARIABLE}` and nothing else. What a variable holds is read when a connection is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from vestry.errors import InvalidParameter

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")

# The server's own parameters that an address may name, whatever their case.
_NAMES = (
    "host port user dbname password passfile options connect_timeout application_name target_session_attrs sslmode"
    " sslrootcert sslcert sslkey sslpassword sslcrl sslnegotiation channel_binding require_auth gssencmode krbsrvname"
)
KEYS = frozenset(_NAMES.split())
SECRETS = frozenset({"password", "sslpassword"})
# What a study file may fill in, and how the variables' names begin.
CREDENTIALS = SECRETS | {"user"}
OWN_VARIABLES = "VESTRY_"
# The variable that libpq sends to any server that asks for a password.
_AMBIENT = "PGPASSWORD"


@dataclass(frozen=True, repr=False)
class ServerAddress:
    """A server's place as it was typed.

    Attributes
    ----------
    shown
        The text as it was typed; it holds no secret, so it may stand in messages, certificates and journals.
    parameters
        The server's parameters by name, decoded, with each ${VARIABLE} as it was typed.
    table
        What follows the database, if anything does.
    """

    shown: str
    parameters: tuple[tuple[str, str], ...]
    table: str | None = None

    def fill(self) -> dict[str, str]:
        """Return the connection's parameters, by libpq's names, with what each ${VARIABLE} holds. Never show them."""
        return {key: _VARIABLE.sub(_read_variable, value) for key, value in self.parameters}

    @property
    def has_variables(self) -> bool:
        """Whether anything is filled in, so that a server's own message may repeat what must not show."""
        return any(_VARIABLE.search(value) for _, value in self.parameters)

    @property
    def public(self) -> str:
        """Which server and database it is, and which table: nothing of who connects, or how."""
        parts = dict(self.parameters)
        host = parts.get("host", "")
        named = f"[{host}]" if ":" in host else quote(host, safe="$,")
        port = f":{parts['port']}" if "port" in parts else ""
        table = f"/{quote(self.table)}" if self.table else ""
        return f"postgresql://{named}{port}/{quote(parts.get('dbname', ''))}{table}"

    def require_harmless(self, name: str, instead: str) -> None:
        """Refuse an address of someone else's making if it fills in more than a user's name or password.

        It names the server, so whatever it filled in would be told to whom it likes. Variables that begin with VESTRY_
        were set for this.
        """
        for key, value in self.parameters:
            for variable in _VARIABLE.findall(value):
                if key not in CREDENTIALS or not variable.startswith(OWN_VARIABLES):
                    allowed = f"without variables, but for {OWN_VARIABLES}... as user or password"
                    raise InvalidParameter(name, f"one with {variable} as {key}", allowed, instead)

    def require_typed_password(self, name: str, instead: str) -> None:
        """Refuse to send someone else's server what the environment holds for another one."""
        parts = dict(self.parameters)
        if "password" not in parts and "host" in parts and _AMBIENT in os.environ:
            raise InvalidParameter(
                name, f"one without a password while {_AMBIENT} is set", f"free of {_AMBIENT}", instead
            )

    def reason(self, message: str) -> str:
        """Say why a server cannot be used, in its own words only where nothing was filled in that they could repeat."""
        if not self.has_variables:
            return message
        return next((known for known in _KNOWN if known in message), "the server's own log says why")

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"ServerAddress({self.shown!r})"


def parse_address(
    text: str, *, name: str = "an address", instead: str = "postgresql://USER:${VARIABLE}@HOST/DATABASE"
) -> ServerAddress:
    """Read a PostgreSQL address; refuse one that holds a secret, or a key that is not known, without repeating it.

    Parameters
    ----------
    text
        The address as it was typed.
    name, instead
        What it is the address of, and how to write it, for messages.
    """

    def refused(given: str, allowed: str, more: str = "") -> InvalidParameter:
        return InvalidParameter(name, given, allowed, instead + more)

    scheme, mark, rest = text.partition("://")
    base, _, query = rest.partition("?")
    if not mark or scheme not in SCHEMES or not text.isprintable() or "#" in text:
        raise refused("postgresql://...", "a URL that can be read")
    typed = [(key.lower(), value) for key, value in [*_place(base, refused), *_pairs(query)] if value]
    given = [key for key, _ in typed]
    if any(key in SECRETS and not _VARIABLE.fullmatch(value) for key, value in typed):
        raise refused("one with a password in it", "free of secrets", " and set VARIABLE in the environment")
    if not KEYS.issuperset(given):
        raise refused("one with another key", "one whose keys are connection parameters (host, sslmode, options, ...)")
    if len(set(given)) < len(given):
        raise refused("one that names a key twice", "one that names each key once")
    table = _path(base)[1]
    return ServerAddress(text, tuple(typed), unquote(table) if table else None)


def _place(base: str, refused: Callable[[str, str], InvalidParameter]) -> Iterator[tuple[str, str]]:
    """Yield user, password, host, port and database of what stands before the question mark."""
    before, at, _ = base.rpartition("@")
    user, _, password = before.partition(":")
    if password and not _VARIABLE.fullmatch(password):
        yield "password", password  # it may hold any mark, so what follows means nothing
        return
    match = _PLACE.fullmatch(base.removeprefix(before + at))
    if match is None or "/" in user:
        raise refused("postgresql://...", "a URL that can be read")
    yield "user", unquote(user)
    yield "password", password
    yield "host", unquote(match["six"] or match["host"])
    yield "port", match["port"] or ""
    yield "dbname", unquote(_path(base)[0])


def _path(base: str) -> tuple[str, str]:
    """Return database and table of what stands before the question mark, as they are encoded."""
    database, _, table = base.rpartition("@")[2].partition("/")[2].partition("/")
    return database, table


def _pairs(query: str) -> Iterator[tuple[str, str]]:
    for pair in filter(None, query.split("&")):
        key, _, value = pair.partition("=")
        yield unquote_plus(key), unquote_plus(value)


def _read_variable(match: re.Match[str]) -> str:
    if match[1] not in os.environ:
        raise InvalidParameter("the environment variable", match[1], "set", f"export {match[1]}=... first")
    return os.environ[match[1]]


_NAME = r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
_VARIABLE = re.compile(_NAME)
_HOST = r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>\$\{[^}]*\}|[^:/\[\]]*))"
_PLACE = re.compile(rf"{_HOST}(?::(?P<port>[0-9]*|{_NAME}))?(?:/[^/]*){{0,2}}")
# What servers say when a connection fails, and what does not repeat anything that was filled in.
_KNOWN = (
    "password authentication failed",
    "no password supplied",
    "Connection refused",
    "could not translate host name",
    "failed to resolve host",
    "connection timeout expired",
    "timeout expired",
    "No such file or directory",
    "no pg_hba.conf entry",
    "does not support SSL",
    "certificate verify failed",
    "permission denied",
    "does not exist",
    "too many connections",
    "remaining connection slots are reserved",
    "terminating connection",
    "server closed the connection unexpectedly",
    "the connection is closed",
    "read-only transaction",
)
