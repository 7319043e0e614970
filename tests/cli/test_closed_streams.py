"""Standard streams that are closed, or that nobody reads: a command ends quietly, or with a sentence."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
from study.fault_study import actions, study_in

RUN = f"{shlex.quote(sys.executable)} -c 'from vestry.cli import main; main()'"
CLOSED = "vestry: standard output is closed, and nothing was done; write >/dev/null if nobody reads it.\n"


FULL = (
    "vestry: the system refused (No space left on device); change what is asked, or run it again: what was charged and"
    " not opened is free.\n"
)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "500"}
    command = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("--version >&-", 141, CLOSED),
        ("--version >&- 2>&-", 141, ""),
        ("--version 2>&-", 0, ""),
        ("nothing 2>&-", 2, ""),
        ("--version <&-", 0, ""),
        ("--help | (exec <&-; sleep 1)", 141, ""),
        ("--version >/dev/full", 2, FULL),
        ("nothing 2>/dev/full", 2, ""),
    ],
)
@pytest.mark.long
def test_a_closed_stream(arguments, code, told):
    done = shell(f"{RUN} {arguments}")
    assert (done.returncode, done.stderr) == (code, told)


@pytest.mark.long
def test_nothing_is_charged_where_nobody_would_read(tmp_path):
    study = study_in(tmp_path)
    done = shell(f"{RUN} release {shlex.quote(str(study))} --yes >&-")
    assert (done.returncode, done.stderr) == (141, CLOSED)
    assert actions(tmp_path) == []


@pytest.mark.long
def test_a_release_with_a_closed_error_is_made(tmp_path):
    study = study_in(tmp_path)
    done = shell(f"{RUN} release {shlex.quote(str(study))} --yes --json 2>&- <&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert actions(tmp_path) == ["charge", "open", "release"]
