"""Releases that are killed, and that find no room, no leave, a locked ledger or no records: nothing is drawn twice."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from closed_engines import closed_engines
from study.fault_study import actions, ledger_of, records, study_in, vestry

from vestry.data import Table
from vestry.ledger.ledger import OpenCharge
from vestry.mechanisms.additive_noise import Additive
from vestry.pipeline import charge_for, prepare
from vestry.releases import open_release
from vestry.study import Study
from vestry.study.storage import ReleaseStore

WORKER = Path(__file__).with_name("fault_worker.py")
LOST = (
    "readmission was opened by entry 1 and its release was lost, unless another process is making it in another folder;"
    " noise is never drawn twice for one charge; to pay again write: vestry release study.toml readmission"
    " --again, or leave it out."
)
CYCLE = ["charge", "open", "release"]


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(autouse=True)
def _quick_page(monkeypatch):
    monkeypatch.setattr(
        "vestry.study.report_data.page", lambda story, write=None: f"<html>{len(story.results)} releases</html>"
    )


# Killed


def work(mode: str, folder: Path, twin: str, *rest: object) -> list[dict]:
    done = subprocess.run(
        [sys.executable, str(WORKER), mode, str(folder), twin, *map(str, rest)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "error"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_whole(fact: dict) -> None:
    """After a kill the ledger verifies and nothing is out of place; going on costs nothing, or is refused."""
    found, then, *rest = fact["then"]
    assert [each["wrong"] for each in fact["then"]] == [[]] * len(fact["then"]), fact
    before = found["actions"]
    saved = any(name.startswith("readmission/release") and name.endswith(".json") for name in found["files"])
    if before == ["charge", "open"] and not saved:
        assert then["code"] == 2
        assert then["out"] == ""
        assert then["err"].strip().splitlines()[-1] == f"vestry: {LOST}"
        assert then["actions"] == before
        again = rest.pop(0)
        assert again["code"] == 0
        assert again["actions"] == [*before, *CYCLE]
        assert again["out"].startswith("readmission: released\n")
    else:
        assert then["code"] == 0, then
        assert then["actions"] == CYCLE
        done = {0: "released", 1: "resumed, at no new cost"}.get(len(before), "released before, free")
        assert then["out"].startswith(f"readmission: {done}\n")
    (last,) = rest
    assert last["code"] == 0
    assert last["out"].startswith("readmission: released before, free\n")
    names = {name.partition("/")[2] for name in last["files"] if name.startswith("readmission/")}
    assert {"release.json", "certificate.json", "posterior.nc"} <= names
    assert {name for name in names if not name.endswith(".part")} == {
        "release.json",
        "certificate.json",
        "posterior.nc",
    }


FEW = ["after charge", "half release.json 2", "after save", "after tell"]
EACH = [
    f"{when} {step}"
    for step in ("try", "charge", "collect", "open", "draw", "save", "tell", "settle", "posterior", "certify", "page")
    for when in ("before", "after")
]
MANY = [
    moment
    for moment in [*EACH, "half release.json", "half posterior", "half certificate", "half report"]
    if moment not in FEW
]


def killed_at(folder: Path, moments: list[str]) -> None:
    facts = work("stepped", folder, "sound", *moments)
    assert [fact["moment"] for fact in facts] == moments
    for fact in facts:
        assert fact["killed"] == []  # it died before it could tell anything
        assert_whole(fact)


@pytest.mark.long
def test_kills_between_the_steps(tmp_path):
    killed_at(tmp_path, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_kill_at_every_step(tmp_path, part):
    killed_at(tmp_path, MANY[part::3])


@pytest.mark.slow
def test_a_kill_while_an_old_release_makes_room(tmp_path):
    (fact,) = work("stepped", tmp_path, "sound", "moving")
    found, then, last = fact["then"]
    assert [each["wrong"] for each in fact["then"]] == [[]] * 3
    assert "readmission/release.json" not in found["files"]
    assert any(name.startswith("readmission/release-4-") for name in found["files"])
    assert "readmission/release-1.json" in found["files"]
    assert [then["code"], last["code"]] == [0, 0]
    assert last["actions"] == CYCLE * 2
    assert {"readmission/release-1.json", "readmission/release.json"} <= set(last["files"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_one_hundred_kills_at_random_moments(tmp_path, seed):
    """Twenty-five for each seed, the next stretch between two steps each time, at a random moment of it."""
    facts = work("killed", tmp_path, "sound", 25, seed)
    assert len(facts) == 25
    for fact in facts:
        assert_whole(fact)
    # The kills fell in the middle of things.
    states = [tuple(fact["then"][0]["actions"]) for fact in facts]
    assert {(), ("charge",), ("charge", "open"), ("charge", "open", "release")} <= set(states)
    assert sum(not isinstance(fact["killed"][-1], dict) for fact in facts) >= 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("twin", "moment", "told"),
    [
        ("does not open", "after save", "release-1.json has no opened charge"),
        ("saves late", "after tell", "has its release already|was not saved|not opened yet"),
        ("writes in place", "never", r"release-1\S*\.json' *; write|must be JSON"),
    ],
)
def test_the_broken_twin_is_found_by_the_same_look(tmp_path, twin, moment, told):
    (fact,) = work("stepped", tmp_path, twin, moment)
    assert re.search(told, " ".join(fact["then"][0]["wrong"])), fact["then"][0]


# No room


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def crowded(monkeypatch):
    """Let the disk be full for files whose name begins like this; return a way to make room."""

    def crowd(name: str, *, way: str) -> pytest.MonkeyPatch:
        patch = pytest.MonkeyPatch()
        fsync, replace = os.fsync, Path.replace

        def full(handle: int) -> None:
            if Path(f"/proc/self/fd/{handle}").resolve().name.startswith(name):
                no_room()
            fsync(handle)

        def fixed(source: Path, target: Path) -> Path:
            if source.name.startswith(name):
                no_room()
            return replace(source, target)

        if way == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(Path, "replace", fixed)
        patches.append(patch)
        return patch

    patches: list[pytest.MonkeyPatch] = []
    yield crowd
    for patch in patches:
        patch.undo()


def assert_no_room(done, path: Path) -> None:
    assert (done.code, done.out) == (2, "")
    assert done.err.strip() == (
        f"vestry: {path} cannot be written (No space left on device); make room or name another folder by --output."
    )


def parts(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.suffix == ".part"]


def draws_counted(monkeypatch) -> list[int]:
    """Count how often noise is drawn, by charge."""
    drawn: list[int] = []
    draw = Additive.release

    def counted(self, private, opened, noise):
        drawn.append(opened.charge.sequence)
        return draw(self, private, opened, noise)

    monkeypatch.setattr(Additive, "release", counted)
    return drawn


def test_no_room_before_the_charge(tmp_path, crowded):
    study = study_in(tmp_path)
    crowded("release.json", way="fsync")
    assert_no_room(vestry("release", study, "--yes", "--json"), tmp_path / "readmission")
    assert actions(tmp_path) == []
    assert not (tmp_path / "readmission").exists()


def test_a_release_that_cannot_be_written_anywhere_is_lost_and_not_drawn_twice(tmp_path, crowded, monkeypatch):
    study = study_in(tmp_path)
    drawn = draws_counted(monkeypatch)
    monkeypatch.setattr("vestry.release_file.tempfile", SimpleNamespace(gettempdir=lambda: str(tmp_path / "nowhere")))
    patch = crowded("release", way="replace")
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(
        r"vestry: .+/readmission/release-1-[0-9a-f]{8}\.json cannot be written \(No space left on device\); make room"
        r" or name another folder by --output\. What was drawn for readmission is lost, and entry 1 stays spent; to pay"
        r" again write: vestry release study\.toml readmission --again, or leave it out\.",
        done.err.strip(),
    )
    assert actions(tmp_path) == ["charge", "open"]
    assert not (tmp_path / "readmission").exists()
    patch.undo()
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.err.strip()) == (2, f"vestry: {LOST}")
    assert vestry("release", study, "readmission", "--yes", "--again").code == 0
    assert drawn == [1, 3]
    assert parts(tmp_path) == []


def test_a_release_that_was_lost_does_not_hold_up_the_others(tmp_path):
    study = study_in(tmp_path, "readmission", "wards")
    config = Study.open(study)
    runner, _ = config.runner()
    (spec,) = config.choose(("readmission",))
    prepared = prepare(spec.request, runner.table, runner.ledger)
    definition = spec.request.definition(config.config.schema)
    charge_for(prepared.mechanism, runner.ledger, "lost", definition).open()
    done = vestry("release", study, "--yes")
    assert done.code == 2
    assert done.err.strip().splitlines()[-1] == f"vestry: {LOST}"
    assert done.out.startswith("wards: released\n")
    assert actions(tmp_path) == ["charge", "open", *CYCLE]
    open_release(tmp_path / "wards" / "release.json")
    assert (tmp_path / "report.html").exists()


def test_a_release_that_cannot_be_written_there_is_saved_elsewhere(tmp_path, crowded, monkeypatch):
    study = study_in(tmp_path)
    drawn = draws_counted(monkeypatch)
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr("vestry.release_file.tempfile", SimpleNamespace(gettempdir=lambda: str(other)))
    patch = crowded("release", way="replace")
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    (saved,) = other.iterdir()
    target = tmp_path / "readmission" / saved.name
    assert done.err.strip() == (
        f"vestry: {target} cannot be written (No space left on device), so what was drawn is saved as {saved}; move it"
        f" to {target}, and run this again: it is free."
    )
    patch.undo()
    target.parent.mkdir(exist_ok=True)
    shutil.move(saved, target)
    done = vestry("release", study, "--json")
    assert done.code == 0, done.err
    assert actions(tmp_path) == CYCLE
    assert drawn == [1]


@pytest.mark.parametrize("name", ["posterior.nc", "certificate.json", "report.html"])
@pytest.mark.long
def test_no_room_for_what_follows_costs_nothing(tmp_path, crowded, monkeypatch, name):
    study, drawn = study_in(tmp_path), draws_counted(monkeypatch)
    patch = crowded(name, way="fsync")
    path = tmp_path / name if name == "report.html" else tmp_path / "readmission" / name
    assert_no_room(vestry("release", study, "--yes", "--json"), path)
    assert actions(tmp_path) == CYCLE
    assert not path.exists()
    content = (tmp_path / "readmission" / "release.json").read_bytes()
    patch.undo()
    done = vestry("release", study, "--json")
    assert done.code == 0, done.err
    assert path.exists()
    assert (tmp_path / "readmission" / "release.json").read_bytes() == content
    assert drawn == [1]
    assert parts(tmp_path) == []


def test_a_disk_that_is_really_full(tmp_path):
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only the super-user mounts a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        study = study_in(tmp_path)
        (disk / "filling").write_bytes(b"\0" * 40_000)
        assert_no_room(vestry("release", study, "--yes", "--json", "--output", disk), disk / "readmission")
        assert actions(tmp_path) == []
        assert [path.name for path in disk.iterdir()] == ["filling"]
        subprocess.run(["mount", "-o", "remount,size=128k", disk], check=True)  # room for the release alone
        done = vestry("release", study, "--yes", "--json", "--output", disk)
        assert_no_room(done, disk / "readmission" / "posterior.nc")
        assert actions(tmp_path) == CYCLE
        assert sorted(path.name for path in (disk / "readmission").iterdir()) == ["certificate.json", "release.json"]
        open_release(disk / "readmission" / "release.json")
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        assert vestry("release", study, "--json", "--output", disk).code == 0
        assert actions(tmp_path) == CYCLE
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        done = vestry("release", study, "readmission", "--yes", "--again", "--json", "--output", disk)
        assert (done.code, done.out) == (2, "")
        assert f"{disk / 'readmission'} cannot be written (Read-only file system); make room or name" in done.err
        assert actions(tmp_path) == CYCLE
    finally:
        subprocess.run(["umount", disk], check=True)


# A locked ledger

HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(monkeypatch):
    """Let another process hold a ledger; return a way to let go."""
    monkeypatch.setattr("vestry.ledger.database.PATIENCE_S", 0.2)
    held = []

    def hold(ledger: Path):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(ledger)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        held.append(process)
        assert process.stdout.readline() == "held\n"

        def let_go() -> None:
            process.communicate()

        return let_go

    yield hold
    for process in held:
        process.kill()
        process.communicate()


LOCKED = "people.ledger is in use and stayed locked for 0.2 s; try again."


def test_a_locked_ledger_before_the_charge(tmp_path, lock):
    study = study_in(tmp_path)
    let_go = lock(tmp_path / "people.ledger")
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.strip() == f"vestry: the ledger at {tmp_path / LOCKED}"
    assert not (tmp_path / "readmission").exists()
    let_go()
    assert actions(tmp_path) == []


@pytest.mark.parametrize(
    ("owner", "name", "found", "then"),
    [
        (Table, "collect", ["charge"], "resumed, at no new cost"),
        (ReleaseStore, "stage", ["charge", "open"], "released before, free"),
    ],
)
@pytest.mark.long
def test_a_ledger_that_is_locked_midway(tmp_path, lock, monkeypatch, owner, name, found, then):
    study, drawn = study_in(tmp_path), draws_counted(monkeypatch)
    real, release = getattr(owner, name), []

    def locking(*given, **named):
        made = real(*given, **named)
        release.append(lock(tmp_path / "people.ledger"))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, locking)
        done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.strip() == f"vestry: the ledger at {tmp_path / LOCKED}"
    release[0]()
    assert actions(tmp_path) == found
    assert not (tmp_path / "readmission" / "release.json").exists()
    done = vestry("release", study, "--yes", "--json")
    assert json.loads(done.out)["releases"][0]["done"] == then
    assert actions(tmp_path) == CYCLE
    assert drawn == [1]
    ledger_of(tmp_path).verify()


# Lost records, and charges of before


def test_records_that_are_lost_between_the_check_and_the_sum(tmp_path, monkeypatch):
    study, drawn = study_in(tmp_path), draws_counted(monkeypatch)
    whole = (tmp_path / "people.csv").read_text()
    collect = Table.collect

    def losing(self, tally, *, row_key):
        (tmp_path / "people.csv").unlink()
        return collect(self, tally, row_key=row_key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "collect", losing)
        done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert "data must be a file that exists" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert actions(tmp_path) == ["charge"]
    assert not (tmp_path / "readmission").exists()
    (tmp_path / "people.csv").write_text(whole)
    done = vestry("release", study, "--json")
    assert json.loads(done.out)["releases"][0]["done"] == "resumed, at no new cost"
    assert actions(tmp_path) == CYCLE
    assert drawn == [1]


def test_again_resumes_a_charge_that_was_not_opened(tmp_path, monkeypatch):
    study = study_in(tmp_path)
    opened = Study.open(study)
    (asked,) = opened.config.releases
    prepared = prepare(asked.request, opened.table, opened.ledger)
    charge_for(prepared.mechanism, opened.ledger, "a test", asked.request.definition(opened.config.schema))
    assert vestry("release", study, "readmission", "--yes", "--again").code == 0
    assert actions(tmp_path) == CYCLE


@pytest.mark.long
def test_a_charge_for_another_count_is_not_resumed(tmp_path):
    """The price of a draw depends on the count where it is public; what was paid for is what is drawn, or nothing."""
    study = study_in(tmp_path, "draws", neighbours="replace")
    study.write_text(
        study.read_text().replace("spend = { epsilon = 0.4, delta = 1e-8 }", "spend = { order = 3.0, epsilon = 0.05 }")
    )
    opened = Study.open(study)
    (asked,) = opened.config.releases
    prepared = prepare(asked.request, opened.table, opened.ledger)
    charge_for(prepared.mechanism, opened.ledger, "a test", asked.request.definition(opened.config.schema))
    (tmp_path / "people.csv").write_text("\n".join(["patient_id,ward,readmitted,stay_days,note", *records(150)]) + "\n")
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.strip() == (
        "vestry: draws was charged by entry 1 for another number of records or another calibration than would run now;"
        " to pay again write: vestry release study.toml draws --again, or leave it out."
    )
    assert actions(tmp_path) == ["charge"]
    assert vestry("release", study, "draws", "--yes", "--again").code == 0
    assert actions(tmp_path) == ["charge", *CYCLE]


def test_a_saved_release_of_another_question_is_not_taken(tmp_path, monkeypatch):
    """Two crashes: one after the save of one question, one after the opening of another of the same name."""
    study = study_in(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenCharge, "released", no_room)
        with pytest.raises(OSError, match="No space left"):
            Study.open(study).release()
    assert actions(tmp_path) == ["charge", "open"]
    turned = 'column = "ward"\nsuccess = "A"\nby = "readmitted"'
    study.write_text(study.read_text().replace('column = "readmitted"\nsuccess = "yes"\nby = "ward"', turned))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReleaseStore, "stage", no_room)
        with pytest.raises(OSError, match="No space left"):
            Study.open(study).release()
    assert actions(tmp_path) == ["charge", "open"] * 2
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.err.strip()) == (2, f"vestry: {LOST.replace('entry 1', 'entry 3')}")
    assert actions(tmp_path) == ["charge", "open"] * 2


def test_a_saved_release_that_was_changed_is_refused(tmp_path):
    study = study_in(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenCharge, "released", no_room)
        with pytest.raises(OSError, match="No space left"):
            Study.open(study).release()
    (saved,) = (tmp_path / "readmission").glob("release-1-*.json")
    saved.write_text(saved.read_text().replace('"epsilon": 0.3', '"epsilon": 0.2'))
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert "a release must be as it was written, not 'one that was changed'" in done.err
    assert actions(tmp_path) == ["charge", "open"]
    assert vestry("release", study, "readmission", "--yes", "--again").code == 0
    assert actions(tmp_path) == ["charge", "open", *CYCLE]
