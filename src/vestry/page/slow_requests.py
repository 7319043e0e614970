"""Connections that do not get on with it are closed, and those of another user at once."""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vestry.page.peer_user import is_another_user, peer_user

# How long the first lines of a request may take to arrive, in seconds.
PATIENCE_S = 10.0


class PatientProtocol(H11Protocol):  # type: ignore[misc]
    """HTTP whose requests must arrive in time: a half-sent one would hold a connection permanently.

    A connection of another user takes no place among those that there may be, even if nothing is ever sent on it.
    """

    _late: Any = None
    _is_strange = False

    def connection_made(self, transport: Any) -> None:
        """Start the clock, or end what another user has begun."""
        client = transport.get_extra_info("peername")
        server = transport.get_extra_info("sockname")
        self._is_strange = not client or is_another_user(peer_user(client[:2], server[:2]))
        if self._is_strange:
            transport.abort()
            return
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the clock when a request's first lines are there, and start it where more are awaited."""
        if self._is_strange:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._late is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        if self._is_strange:
            return
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._late = self.loop.call_later(PATIENCE_S, self._close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()
