"""No flipped bit changes unnoticed what a ledger says, or what it answers later."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from vestry.ledger import Ledger

SCRIPT = Path(__file__).with_name("flips.py")


@pytest.fixture
def twenty(tmp_path) -> Path:
    """A ledger of twenty entries, with charges in every state."""
    path = tmp_path / "twenty.ledger"
    ledger = Ledger.create(path, dataset="patients", unit="row", neighbours="add-remove", budget="epsilon=1", who="Ann")
    for number in range(6):
        ledger.charge("epsilon=0.1", purpose=f"question {number}", who="Ann").open().released(b"%d" % number)
    ledger.charge("epsilon=0.1", purpose="waits", who="Ann")
    assert ledger.verify().entries == 20
    return path


@pytest.fixture
def memory():
    """A folder that is synchronised for free, where there is one."""
    shared = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="vestry-flips-", dir=shared if os.access(shared, os.W_OK) else None)
    yield folder
    shutil.rmtree(folder)


def flipped(path: Path, folder: str, bits: int) -> dict:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), folder, str(bits), str(os.cpu_count() or 1), "15"],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_noticed_or_harmless(result: dict, bits: int) -> None:
    assert result["good"] == {"open": "opened", "again": ["refused"] * 2}
    assert result["tried"] == bits
    assert result["faults"] == []
    assert result["refused"] > bits // 10
    assert result["harmless"] > bits // 10


@pytest.mark.long
def test_a_thousand_flipped_bits_are_refused_or_change_nothing(twenty, memory):
    assert_noticed_or_harmless(flipped(twenty, memory, 1000), 1000)


@pytest.mark.slow
def test_every_flipped_bit_is_refused_or_changes_nothing(twenty, memory):
    assert_noticed_or_harmless(flipped(twenty, memory, 0), 8 * twenty.stat().st_size)
