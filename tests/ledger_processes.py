"""Runs `ledger/worker.py`, and work in a forked child, for the tests of many processes and of other users."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).parent / "ledger" / "worker.py"
PROCESSES = 8


def work(mode: str, address: object, *rest: object, patience_s: float = 300) -> object:
    """Run the worker in one of its modes and return what it found."""
    done = subprocess.run(
        [sys.executable, str(WORKER), mode, str(address), *map(str, rest)],
        capture_output=True,
        text=True,
        timeout=patience_s,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sequences(accepted: list[list]) -> list[int]:
    """What the processes were told, all in one list; errors would stand out as mappings."""
    everything = [fact for facts in accepted for fact in facts]
    assert [fact for fact in everything if not isinstance(fact, int)] == []
    return sorted(everything)


def asked(task) -> list:
    """Run `task(tell)` in a forked child and return what it told."""
    spec = importlib.util.spec_from_file_location("ledger_worker", WORKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.asked(task)
