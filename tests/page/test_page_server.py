"""The page as a process: its private file, slow and endless requests, and how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from page.browser import Browser
from page.running import opened
from study.fault_study import vestry

from vestry.page import slow_requests
from vestry.page.page_server import PrivateFile, _listen, _run, _server

pytestmark = pytest.mark.long


def test_the_file_is_private_and_is_renewed(tmp_path):
    browser = Browser(tmp_path, let_in=False)
    door = PrivateFile(browser.address, browser.desk)
    try:
        door.write()
        assert stat.S_IMODE(door.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(door.folder.stat().st_mode) == 0o700
        (key,) = re.findall(r'value="([0-9a-f]{64})"', door.path.read_text())
        assert browser.enter(key).status_code == 200
        door.write()
        assert key not in door.path.read_text()
        assert stat.S_IMODE(door.path.stat().st_mode) == 0o600
    finally:
        door.remove()
    assert not door.folder.exists()


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


class Serving:
    """A page in this process, until it is idle."""

    def __init__(self, folder, idle=1.0):
        browser = Browser(folder, let_in=False)
        self.listening, self.idle = _listen(0), idle
        self.server = _server(browser.app)
        self.door = PrivateFile(browser.address, browser.desk)

    def during(self, act):
        """Run the page while `act` is at work in a thread, and return what it returned."""

        async def both():
            running = asyncio.ensure_future(_run(self.server, self.listening, lambda: True, self.door))
            try:
                return await asyncio.to_thread(act, self.listening.getsockname())
            finally:
                self.server.should_exit = True
                await running

        try:
            return asyncio.run(both())
        finally:
            self.door.remove()


def test_half_a_request_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(slow_requests, "PATIENCE_S", 0.3)

    def act(address):
        answers = []
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /"):
            with socket.create_connection(address, timeout=20) as connection:
                connection.sendall(sent)
                answers.append(read_all(connection))
        return answers

    nothing, half, second = Serving(tmp_path).during(act)
    assert nothing == half == b""
    assert second.startswith(b"HTTP/1.1 421")  # the first is answered, and the second is not waited for


REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# More than may be open at a time.
MANY = 100


def is_over(connection: socket.socket) -> bool:
    """Tell whether the other side has ended a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def statuses(address, count: int) -> list[bytes]:
    answers = []
    for _ in range(count):
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(REQUEST)
            answers.append(read_all(connection)[9:12])
    return answers


def test_silent_connections_of_another_user_take_no_place(tmp_path, monkeypatch):
    """The kernel says of a hundred connections that they are somebody else's."""
    strangers = set()
    monkeypatch.setattr(
        slow_requests, "peer_user", lambda client, server: os.getuid() + (client[1] in strangers), raising=True
    )

    def act(address):
        silent = []
        for _ in range(MANY):
            connection = socket.socket()
            connection.bind(("127.0.0.1", 0))
            strangers.add(connection.getsockname()[1])
            connection.settimeout(20)
            connection.connect(address)
            silent.append(connection)
        try:
            return statuses(address, 18), [is_over(connection) for connection in silent]
        finally:
            for connection in silent:
                connection.close()

    answers, ended = Serving(tmp_path).during(act)
    assert answers == [b"421"] * 18
    assert all(ended)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="the kernel does not tell whose a connection is")
def test_another_user_of_this_machine_is_kept_out(tmp_path):
    script = (
        "import encodings.idna, os, socket, sys\nos.setuid(65534)\n"
        f"held = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range({MANY})]\n"
        "print('there', flush=True)\nsys.stdin.read()\n"
    )

    def act(address):
        command = [sys.executable, "-c", script, str(address[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") as stranger:
            assert stranger.stdout.readline() == b"there\n"
            answers = statuses(address, 18)
            stranger.stdin.close()
        return answers

    assert Serving(tmp_path).during(act) == [b"421"] * 18


def test_what_is_no_request_is_refused(tmp_path):
    def act(address):
        answers = []
        for sent in (b"\x16\x03\x01\x02\x00\x01" * 9 + b"\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 40000,
                     b"POST /release HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n"):  # fmt: skip
            with socket.create_connection(address, timeout=20) as connection:
                connection.sendall(sent)
                try:
                    answers.append(read_all(connection))
                except ConnectionResetError:
                    answers.append(b"HTTP/1.1 400")
        return answers

    for answer in Serving(tmp_path).during(act):
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421")), answer
        assert b"Traceback" not in answer
        assert b"server:" not in answer.lower()


def test_a_process_says_where_it_is_and_ends_by_a_signal(tmp_path):
    with opened(tmp_path) as running:
        assert re.fullmatch(r"http://[0-9a-f]{32}\.localhost:\d+", running.address)
        assert stat.S_IMODE(running.file.stat().st_mode) == 0o600
        if os.path.exists("/proc/net/tcp"):  # on the loopback address alone
            assert f"0100007F:{running.port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()
        with opened(tmp_path) as other:
            assert (other.address, other.file) != (running.address, running.file)
        taken = vestry("open", tmp_path, "--no-browser", "--port", running.port)
        assert (taken.code, "must be a free port" in taken.err) == (2, True)
        assert running.end(signal.SIGINT) == 0
        assert running.said[1] == ""
        assert not running.file.parent.exists()


def test_an_idle_page_ends(tmp_path, monkeypatch):
    from vestry.page import page_server

    monkeypatch.setattr(page_server, "_LOOK_S", 0.05)
    start = time.monotonic()
    page_server.serve(tmp_path / "study.toml", (), browser=False, idle=0.2)
    assert time.monotonic() - start < 20


def test_the_browser_is_given_a_file_and_no_secret(tmp_path, monkeypatch):
    from vestry.page import page_server

    given = []
    monkeypatch.setattr(page_server.webbrowser, "open", given.append)
    monkeypatch.setattr(page_server, "_LOOK_S", 0.05)
    page_server.serve(tmp_path / "study.toml", (), idle=0.2)
    assert len(given) == 1
    assert given[0].startswith("file:///")
    assert not re.search("[0-9a-f]{16}", given[0])


TERMINATED = """
import signal, sys
from pathlib import Path
import vestry.page.page_server as page_server
from vestry.page.release_job import ReleaseJob

async def end(*given):
    signal.raise_signal(signal.SIGTERM)

page_server._run = end
ReleaseJob.wait = lambda self: print("the release is finished", flush=True)
page_server.serve(Path(sys.argv[1]), [], browser=False)
"""


def test_a_page_that_is_terminated_finishes_its_release_first(tmp_path):
    done = subprocess.run([sys.executable, "-c", TERMINATED, tmp_path], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "the release is finished\n", "")
