"""Which user of this machine is at the other end of a connection, as Linux says it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# What is returned where the kernel has a table and the connection is not in it.
UNKNOWN = -1


def peer_user(client: tuple[str, int], server: tuple[str, int], tables: tuple[Path, ...] = _TABLES) -> int | None:
    """Return the number of the user whose socket is the client's end; None where the kernel does not say it.

    The client's end has the client's address as its own, and the server's as the other one.
    """
    own, other = _spellings(*client), _spellings(*server)
    any_line = False
    for table in tables:
        for local, remote, user in _lines(table):
            any_line = True
            if local in own and remote in other:
                return user
    return UNKNOWN if any_line else None


def is_another_user(user: int | None) -> bool:
    """Tell whether a connection is not this user's, so far as the kernel says whose it is."""
    return user not in (None, os.getuid())


def _lines(table: Path) -> Iterator[tuple[str, str, int]]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        words = line.split()
        if len(words) > 7 and words[7].isdigit():
            yield words[1].upper(), words[2].upper(), int(words[7])


def _spellings(host: str, port: int) -> tuple[str, ...]:
    """Return an address as the kernel's tables write it: by bytes in the machine's order, as IPv4 and inside IPv6."""
    try:
        plain = socket.inet_aton(host)
    except OSError:
        return ()
    four = _words(plain)
    six = _words(b"\0" * 10 + b"\xff\xff" + plain)
    return f"{four}:{port:04X}", f"{six}:{port:04X}"


def _words(address: bytes) -> str:
    parts = (address[start : start + 4] for start in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(part, sys.byteorder):08X}" for part in parts)
