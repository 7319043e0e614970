"""A disk that is full at each write of a release: nothing is lost, and nothing is paid twice or for nothing."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from closed_engines import closed_engines
from share import SHARE
from study.fault_study import actions, ledger_of, study_in, vestry

import vestry as front
import vestry.files as files
import vestry.ledger.ledger as journal
import vestry.release_file as release_file
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.errors import VestryError
from vestry.releases import open_release
from vestry.schema.domain import Levels

CYCLE = ["charge", "open", "release"]
# Of the writes of a release every one is tried in `make check`, and one in so many in `make test`.
STRIDE = 1 if SHARE == 1 else 7
MODEL = BetaBernoulli("readmitted", success="yes")


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(autouse=True)
def _quick_page(monkeypatch):
    monkeypatch.setattr("vestry.study.report_data.page", lambda content, write=None: "<html></html>")


class Disk:
    """Counts what is asked of a disk, and refuses it at one time, or from then on.

    A disk that stays full refuses what takes new room: files, links and lines of the ledger. It takes what is written
    over room that a file has already.
    """

    def __init__(self, patch: pytest.MonkeyPatch, at: int | None, *, stays: bool) -> None:
        self.asked = 0
        self._at = at
        self._stays = stays
        for owner in (files, release_file):
            self._watch(patch, owner, "open_part")
        self._watch(patch, os, "link")
        self._watch(patch, Path, "mkdir")
        self._watch(patch, journal, "_append", sqlite3.OperationalError("database or disk is full"))
        if not stays:
            self._watch(patch, os, "fsync")
            self._watch(patch, Path, "replace")

    def _watch(self, patch: pytest.MonkeyPatch, owner: Any, name: str, refusal: Exception | None = None) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def asked(*arguments: Any, **named: Any) -> Any:
            self.asked += 1
            if self._at is not None and (self.asked == self._at or (self._stays and self.asked > self._at)):
                raise refusal or OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **named)

        patch.setattr(owner, name, asked)


def run_on(at: int | None, action: Callable[[], Any], *, stays: bool) -> tuple[int, Any]:
    """Run an action on a disk that is full at one time; return what was asked of the disk, and its result or error."""
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, at, stays=stays)
        try:
            result = action()
        except VestryError as error:
            result = error
    return disk.asked, result


def release_a_study(folder: Path, at: int | None, *, stays: bool) -> int:
    study = study_in(folder, "readmission", "wards")
    asked, done = run_on(at, lambda: vestry("release", study, "--yes", "--json"), stays=stays)
    if at is None:
        assert done.code == 0, done.err
        return asked
    assert done.code in (0, 2), done
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 0, (at, done.err)
    assert sorted(actions(folder)) == sorted(CYCLE * 2), at
    for name in ("readmission", "wards"):
        open_release(folder / name / "release.json")
    assert list(folder.rglob("*.part")) == []
    return asked


def release_by_a_call(folder: Path, at: int | None, *, stays: bool) -> int:
    study_in(folder)
    table = front.Table(folder / "people.csv", {"readmitted": Levels("no", "yes")}, neighbours="add-remove")
    path = folder / "mine" / "release.json"
    path.parent.mkdir()

    def call() -> Any:
        return front.release(MODEL, table, guarantee="epsilon=.1", ledger=ledger_of(folder), path=path)

    asked, result = run_on(at, call, stays=stays)
    if at is None:
        assert not isinstance(result, VestryError), result
        return asked
    if not path.exists():
        assert isinstance(result, VestryError), at
        call()
    assert actions(folder) == CYCLE, at
    open_release(path)
    assert list(path.parent.iterdir()) == [path], at
    return asked


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("release", [release_by_a_call, pytest.param(release_a_study, marks=pytest.mark.long)])
@pytest.mark.examples
def test_a_disk_is_full_at_each_write(tmp_path, release, stays):
    asked = release(tmp_path / "whole", None, stays=stays)
    assert asked > 5
    for at in range(1, asked + 1, STRIDE):
        release(tmp_path / str(at), at, stays=stays)


def test_no_room_for_a_file_is_noticed_before_the_charge(tmp_path):
    study_in(tmp_path)
    table = front.Table(tmp_path / "people.csv", {"readmitted": Levels("no", "yes")}, neighbours="add-remove")
    options = {"guarantee": "epsilon=.1", "ledger": ledger_of(tmp_path)}
    path = tmp_path / "release.json"
    error = run_on(1, lambda: front.release(MODEL, table, path=path, **options), stays=True)[1]
    assert "path must be a new file that can be written (No space left on device)" in str(error)
    assert actions(tmp_path) == []
    path.write_text("mine")
    with pytest.raises(VestryError, match=r"path must be a new file that can be written \(File exists\)"):
        front.release(MODEL, table, path=path, **options)
    assert actions(tmp_path) == []
    assert path.read_text() == "mine"
