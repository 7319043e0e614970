"""Starts the page on this machine, hands it to a browser by a private file, and ends it when nobody uses it."""

from __future__ import annotations

import asyncio
import html
import os
import shutil
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from vestry.errors import InvalidParameter
from vestry.interrupts import HeldInterrupts
from vestry.page.file_choice import FileChoice
from vestry.page.guard import PageAddress
from vestry.page.routes import application
from vestry.page.slow_requests import PatientProtocol
from vestry.page.visit import Desk

LOOPBACK = "127.0.0.1"
# How long the last page may fetch what it shows, in seconds.
_LAST_S = 1.0
# The page ends after so many seconds without a request.
IDLE_S = 3600.0
# How often that is looked at, and how many connections there may be.
_LOOK_S, _CONNECTIONS = 1.0, 64


def serve(
    study: Path,
    folders: Sequence[Path],
    *,
    port: int = 0,
    browser: bool = True,
    announce: Callable[[str, Path], None] = lambda origin, file: None,
    say: Callable[[str], None] = lambda text: None,
    idle: float = IDLE_S,
) -> None:
    """Serve the page until it is closed, idle for an hour, or interrupted; a release that runs is finished first."""
    listening = _listen(port)
    address = PageAddress.at(listening.getsockname()[1])
    desk = Desk(_study_path(study), FileChoice.of(_study_path(study).parent, *folders))
    door = PrivateFile(address, desk)
    last = [time.monotonic()]

    def used() -> None:
        last[0] = time.monotonic()

    server = _server(application(replace(desk, close=lambda: _end(server)), address, on_request=used))
    try:
        door.write()
        announce(address.origin, door.path)
        if browser:
            webbrowser.open(door.path.as_uri())
        with suppress(KeyboardInterrupt), HeldInterrupts() as held:

            def in_use() -> bool:
                return not held.came and (desk.job.running or time.monotonic() - last[0] < idle)

            asyncio.run(_run(server, listening, in_use, door))
            if desk.job.running:
                say("Finishing the release that runs.")
            desk.job.wait()
    finally:
        door.remove()
        listening.close()


class PrivateFile:
    """The file by which a browser is let in: only this user can read it, and its token works once.

    A browser's arguments can be read by every user of the machine; a file of mode 0600 cannot.
    """

    def __init__(self, address: PageAddress, desk: Desk) -> None:
        self._address, self._desk, self._token = address, desk, ""
        base = os.environ.get("XDG_RUNTIME_DIR")
        usable = base if base and os.access(base, os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="vestry-", dir=usable))
        self.path = self.folder / "open-vestry.html"

    def write(self) -> None:
        """Write the token that works now; each that was used has another one after it."""
        token = self._desk.entrance.token
        if token == self._token:
            return
        self._token = token
        text = _DOOR.format(action=html.escape(f"{self._address.origin}/enter"), key=html.escape(token))
        part = self.path.with_suffix(".part")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        part.replace(self.path)

    def remove(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder, ignore_errors=True)


# The one page with a script inside it: it lies on the disk, and sends its form at once.
_DOOR = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Vestry</title>
<meta name="referrer" content="no-referrer"></head>
<body><form id="door" method="post" action="{action}">
<input type="hidden" name="key" value="{key}">
<p><button>Open Vestry</button></p></form>
<script>document.getElementById("door").submit()</script></body></html>
"""


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen(_CONNECTIONS)  # a browser that comes at once waits
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or "not a port"
        raise InvalidParameter("--port", port, f"a free port of this machine ({reason})", "no --port") from None
    return listening


def _study_path(study: Path) -> Path:
    try:
        return study.resolve()
    except (OSError, RuntimeError, ValueError):
        raise InvalidParameter("a study file", str(study), "a path", "another path") from None


def _server(app: Any) -> Any:
    config = uvicorn.Config(
        app, http=PatientProtocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        date_header=False, proxy_headers=False, limit_concurrency=_CONNECTIONS, timeout_keep_alive=5,
        h11_max_incomplete_event_size=16384, timeout_graceful_shutdown=5,
    )  # fmt: skip
    return uvicorn.Server(config)


def _end(server: Any) -> None:
    """End in a moment: the last page still fetches its style sheet."""
    threading.Timer(_LAST_S, setattr, (server, "should_exit", True)).start()


async def _run(server: Any, listening: socket.socket, in_use: Callable[[], bool], door: PrivateFile) -> None:
    """Serve; keep the private file's token fresh, and end when nobody uses the page."""
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    while not serving.done():
        await asyncio.wait([serving], timeout=_LOOK_S)
        door.write()
        if not in_use():
            _end(server)
    await serving
