"""A running `vestry open`, for tests that need its process."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import page.extra  # noqa: F401 - skips, if it is not there

COMMAND = [sys.executable, "-c", "from vestry.cli import main; main()"]


class Running:
    """The process, its address, and the private file that lets a browser in."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [*COMMAND, "open", str(folder), "--no-browser", "--json", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("}"):
                break
        if not said:
            raise RuntimeError(self.process.communicate()[1])
        record = json.loads(said)
        self.address, self.file = record["address"], Path(record["file"])

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def end(self, signal: int) -> int:
        """Send a signal, and wait."""
        self.process.send_signal(signal)
        self.said = self.process.communicate(timeout=30)
        return self.process.returncode


@contextmanager
def opened(folder: Path, *arguments: str):
    """Yield a running page, which is ended in any case."""
    running = Running(folder, *arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
        for stream in (running.process.stdout, running.process.stderr):
            stream.close()
