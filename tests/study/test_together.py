"""Several processes that release one study at once; ledgers that are lost, made again or shared; folders that move."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from closed_engines import closed_engines
from study.fault_study import RELEASES, actions, create_arguments, ledger_of, records, study_in, vestry

from vestry import pipeline
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.data import Table
from vestry.errors import AskedBefore, DeclarationMismatch
from vestry.ledger import Ledger
from vestry.pipeline import release
from vestry.schema.domain import Levels
from vestry.study.storage import ReleaseStore, locked, write

WORKER = Path(__file__).with_name("together_worker.py")
CYCLE = ["charge", "open", "release"]
TWO = ["charge", "charge", "open", "release", "open", "release"]


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(autouse=True)
def _quick_page(monkeypatch):
    monkeypatch.setattr(
        "vestry.study.report_data.page", lambda story, write=None: f"<html>{len(story.results)} releases</html>"
    )


# At the same time


def together(folder: Path, rounds: int, twin: str = "sound", where: str = "beside") -> list[dict]:
    done = subprocess.run(
        [sys.executable, str(WORKER), str(folder), twin, str(rounds), where],
        capture_output=True,
        text=True,
        timeout=3600,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_one_of_three(fact: dict) -> None:
    assert (fact["wrong"], fact["left"]) == ([], [])
    assert fact["actions"] == TWO
    assert [end["code"] for end in fact["ends"]] == [0, 0, 0], fact["ends"]
    dones = [[each["done"] for each in json.loads(end["out"])["releases"]] for end in fact["ends"]]
    assert sorted(dones) == [["released"] * 2, *[["released before, free"] * 2] * 2]


@pytest.mark.long
def test_of_three_processes_one_pays_and_all_end_well(tmp_path):
    (fact,) = together(tmp_path, 1)
    assert_one_of_three(fact)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_two_hundred_times_of_three_processes_one_pays(tmp_path, part):
    """Fifty times a part."""
    facts = together(tmp_path, 50)
    assert len(facts) == 50
    for fact in facts:
        assert_one_of_three(fact)


@pytest.mark.slow
def test_processes_with_folders_of_their_own_pay_once(tmp_path):
    """The lock of a folder says nothing of another folder: there the ledger finds that the question was asked."""
    for fact in together(tmp_path, 10, where="apart"):
        assert fact["wrong"] == []
        assert len(fact["asked"]) == len(set(fact["asked"])) <= 2
        assert 0 in [end["code"] for end in fact["ends"]] or "run it again" in str(fact["ends"])


@pytest.mark.slow
def test_the_broken_twin_pays_twice(tmp_path):
    facts = together(tmp_path, 10, twin="neither", where="apart")
    assert any(len(fact["asked"]) > len(set(fact["asked"])) for fact in facts)


def test_who_waits_says_so_after_two_seconds_and_then_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("vestry.study.storage.PATIENCE_S", 0.1)
    said: list[str] = []
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(tmp_path, said.append):
            held.set()
            over.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)

    def waits(line: str) -> None:
        said.append(line)
        over.set()

    with locked(tmp_path, waits):
        holder.join(30)
        assert not holder.is_alive()
    assert said == [f"another process writes releases into {tmp_path}; waiting for it to end."]


def test_a_killed_process_holds_no_folder(tmp_path):
    text = (
        "import fcntl, os, sys\nhandle = os.open(sys.argv[1], os.O_RDONLY)\nfcntl.flock(handle, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], stdin=-1, stdout=-1, text=True)
    assert holder.stdout.readline() == "held\n"
    handle = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(BlockingIOError, match="unavailable"):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)
    holder.kill()
    holder.communicate()
    said: list[str] = []
    with locked(tmp_path, said.append):
        assert said == []


def test_a_file_system_without_locks_of_folders_locks_a_file(tmp_path, monkeypatch):
    flock = fcntl.flock

    def on_files(handle: int, how: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(9, "Bad file descriptor")
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", on_files)
    with locked(tmp_path, lambda said: None):
        handle = os.open(tmp_path / ".vestry-lock", os.O_RDWR)
        with pytest.raises(BlockingIOError, match="unavailable"):
            flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)


def test_unfinished_files_have_names_of_their_own_and_are_swept(tmp_path, monkeypatch):
    names: list[str] = []
    opened = Path.open

    def noted(path: Path, *given, **named):
        names.append(path.name)
        return opened(path, *given, **named)

    monkeypatch.setattr(Path, "open", noted)
    for _ in range(2):
        write(tmp_path / "a.json", b"1")
    assert len(set(names)) == 2
    assert all(name.startswith("a.json.") and name.endswith(".part") for name in names)
    (tmp_path / "readmission").mkdir()
    (tmp_path / "readmission" / "release.json.1-0.part").write_text("half")
    (tmp_path / "readmission" / "notes.txt").write_text("mine")
    ReleaseStore(tmp_path).sweep(["readmission"])
    assert [path.name for path in (tmp_path / "readmission").iterdir()] == ["notes.txt"]


def test_a_question_that_was_charged_meanwhile_is_taken_up(tmp_path, monkeypatch):
    """Between the look at the ledger and the charge another process charges the same; it dies before it opens it."""
    study = study_in(tmp_path)
    real, charged = Ledger.charge_together, []

    def late(ledger, asks, **named):
        if not charged:
            charged.append(real(ledger, asks))
        return real(ledger, asks, **named)

    monkeypatch.setattr(Ledger, "charge_together", late)
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["releases"][0]["done"] == "resumed, at no new cost"
    assert actions(tmp_path) == CYCLE


def test_the_ledger_refuses_a_question_twice_in_its_own_transaction(tmp_path):
    study_in(tmp_path)
    ledger = ledger_of(tmp_path)
    ledger.charge("epsilon=0.1", purpose='"definition":"b"', definition="a", once=True)
    with pytest.raises(AskedBefore, match=r"^the same was charged before, by entry 1; resume that charge"):
        ledger.charge("epsilon=0.1", purpose="again", definition="a", once=True)
    ledger.charge("epsilon=0.1", purpose="another", definition="b", once=True)
    ledger.charge("epsilon=0.1", purpose="again", definition="a")
    assert actions(tmp_path) == ["charge"] * 3


def test_python_pays_once_too(tmp_path, monkeypatch):
    study_in(tmp_path)
    table = Table(
        tmp_path / "people.csv",
        {"readmitted": Levels("no", "yes"), "ward": Levels("A", "B", "C")},
        neighbours="add-remove",
    )
    model = BetaBernoulli("readmitted", success="yes", by="ward")
    release(model, table, guarantee="epsilon=0.3", ledger=ledger_of(tmp_path))
    find, looks = pipeline.ChargeIndex.find_charge, []

    def early(index, definition):
        looks.append(definition)
        return pipeline.PastCharge() if len(looks) == 1 else find(index, definition)

    monkeypatch.setattr(pipeline.ChargeIndex, "find_charge", early)
    with pytest.raises(DeclarationMismatch, match=r"but it is released before, by entry 1 in the ledger"):
        release(model, table, guarantee="epsilon=0.3", ledger=ledger_of(tmp_path))
    assert len(looks) == 2
    assert actions(tmp_path) == CYCLE


# Lost, made again, shared and moved


def test_a_lost_ledger_is_said_in_those_words(tmp_path):
    study = study_in(tmp_path, "readmission", "stay")
    assert vestry("release", study, "--yes").code == 0
    (tmp_path / "people.ledger").unlink()
    for command in ("release", "check"):
        done = vestry(command, study)
        assert (done.code, done.out) == (2, "")
        assert done.err.strip() == (
            f"vestry: study.toml, line 7, study.ledger: the ledger at {tmp_path / 'people.ledger'} is lost: readmission"
            " and stay were paid for from it, and a new one would not know what was spent; put it back from where it"
            " was moved to, or from a backup."
        )


def test_what_another_ledger_paid_for_is_not_overwritten(tmp_path):
    study = study_in(tmp_path)
    assert vestry("release", study, "--yes").code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "readmission").iterdir()}
    (tmp_path / "people.ledger").unlink()
    terms = '"row"', "add-remove", "{ epsilon = 4.0, delta = 1e-6 }"
    assert vestry(*create_arguments(tmp_path, *terms)).code == 0
    for more in ([], ["readmission", "--again"]):
        done = vestry("release", study, "--yes", "--json", *more)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("vestry: readmission was paid for by entry 1 of a ledger, and the ledger at ")
        assert "or it was lost and made again" in done.err
    assert actions(tmp_path) == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "readmission").iterdir()} == before
    done = vestry("release", study, "--yes", "--json", "--output", tmp_path / "new")
    assert done.code == 0, done.err


def test_a_release_without_its_certificate_is_moved_and_that_is_said(tmp_path):
    """What an old ledger's charge 1 paid for is never taken for, nor overwritten by, the new ledger's charge 1."""
    study = study_in(tmp_path)
    assert vestry("release", study, "--yes").code == 0
    folder = tmp_path / "readmission"
    first = (folder / "release.json").read_bytes()
    (folder / "certificate.json").unlink()
    shutil.copy(folder / "release.json", folder / "release-1.json")
    (tmp_path / "people.ledger").unlink()
    assert vestry(*create_arguments(tmp_path, '"row"', "add-remove", "{ epsilon = 4.0, delta = 1e-6 }")).code == 0
    done = vestry("release", study, "--yes")
    assert done.code == 0, done.err
    aside = folder / f"release-{hashlib.sha256(first).hexdigest()[:16]}.json"
    assert f"another release was in its place; it is now {aside}" in done.out
    assert aside.read_bytes() == (folder / "release-1.json").read_bytes() == first
    assert (folder / "release.json").read_bytes() != first


def test_two_study_files_on_one_ledger_share_its_budget_and_keep_each_others_releases(tmp_path):
    study = study_in(tmp_path, budget="{ epsilon = 1.0 }")
    other = tmp_path / "other.toml"
    other.write_text(study.read_text().replace("epsilon = 0.3", "epsilon = 0.5"))
    assert vestry("release", study, "--yes").code == 0
    first = (tmp_path / "readmission" / "release.json").read_bytes()
    done = vestry("release", other, "--yes")
    assert done.code == 0, done.err
    assert f"another release was in its place; it is now {tmp_path / 'readmission' / 'release-1.json'}" in done.out
    assert (tmp_path / "readmission" / "release-1.json").read_bytes() == first
    assert "Remaining of the budget epsilon=1: epsilon=0.2" in done.out
    done = vestry("release", study)  # free, and found
    assert "readmission: released before, free\n" in done.out
    assert (tmp_path / "readmission" / "release.json").read_bytes() == first
    assert actions(tmp_path) == CYCLE * 2


def test_changed_data_are_not_read_again_and_that_is_said(tmp_path):
    study = study_in(tmp_path)
    assert vestry("release", study, "--yes").code == 0
    content = (tmp_path / "readmission" / "release.json").read_bytes()
    (tmp_path / "people.csv").write_text("patient_id,ward,readmitted,stay_days,note\n" + "\n".join(records(90, seed=9)))
    done = vestry("release", study)
    assert done.code == 0, done.err
    assert (
        "note: readmission describes the records as they were then; to pay for the records as they are now write:"
        " vestry release study.toml readmission --again." in done.err
    )
    assert (tmp_path / "readmission" / "release.json").read_bytes() == content
    assert actions(tmp_path) == CYCLE


def test_a_moved_folder_is_the_same_study(tmp_path):
    study = study_in(tmp_path / "here")
    assert vestry("release", study, "--yes").code == 0
    shutil.move(tmp_path / "here", tmp_path / "there")
    done = vestry("release", tmp_path / "there" / "study.toml")
    assert done.code == 0, done.err
    assert done.out.startswith("readmission: released before, free\n")
    assert actions(tmp_path / "there") == CYCLE
    (tmp_path / "alone").mkdir()  # the study file alone was moved
    shutil.move(tmp_path / "there" / "study.toml", tmp_path / "alone")
    done = vestry("release", tmp_path / "alone" / "study.toml", "--yes")
    assert "there is no ledger at" in done.err


def test_a_clock_that_is_set_back_is_said_and_decides_nothing(tmp_path, monkeypatch):
    study = study_in(tmp_path, "readmission", "stay")
    monkeypatch.setattr("vestry.ledger.ledger._now", lambda: "2999-01-01T00:00:00.000+00:00")
    assert vestry("release", study, "readmission", "--yes").code == 0
    monkeypatch.undo()
    monkeypatch.setattr(
        "vestry.study.report_data.page", lambda story, write=None: f"<html>{len(story.results)} releases</html>"
    )
    done = vestry("release", study, "--yes")
    assert done.code == 0, done.err
    assert (
        "note: the ledger's last line bears a later time (2999-01-01T00:00:00.000+00:00) than this machine's clock has;"
        " lines are in the order of their numbers, and nothing is decided by the time: set the clock." in done.err
    )
    assert done.out.startswith("readmission: released before, free\n")
    assert actions(tmp_path) == CYCLE * 2
    ledger_of(tmp_path).verify()


# What check says


def test_check_says_what_fits(tmp_path):
    study = study_in(tmp_path, "readmission", "stay", budget="{ epsilon = 0.4 }")
    done = vestry("check", study)
    assert done.code == 0
    assert done.out.startswith("study.toml is valid: 2 releases, budget epsilon=0.4,")
    assert (
        "\nRemaining of the budget epsilon=0.4: epsilon=0.4. stay does not fit, so all of them together are refused."
        f" Spend less, or raise the budget with vestry ledger amend, or release what fits: vestry"
        f" release {study} readmission.\n"
    ) in done.out
    assert vestry("release", study, "--yes").code == 3  # as check said
    assert vestry("release", study, "readmission", "--yes").code == 0
    done = vestry("check", study, "--json")  # what is left to be made does not fit
    assert (done.code, json.loads(done.out)["fits"]) == (3, False)


@pytest.mark.parametrize("ledger", [True, False])
def test_a_study_of_which_nothing_fits_is_not_sound(tmp_path, ledger):
    study = study_in(tmp_path, "readmission", "stay", budget="{ epsilon = 0.1 }", ledger=ledger)
    done = vestry("check", study)
    assert done.code == 3
    assert done.out.startswith(
        "study.toml can be read, and no release fits the budget: 2 releases, budget epsilon=0.1,"
    )
    assert "is valid" not in done.out
    assert done.out.count("does not fit the budget") == 2


@pytest.mark.long
def test_check_says_so_if_all_fits(tmp_path):
    done = vestry("check", study_in(tmp_path, *RELEASES))
    assert (done.code, "is valid" in done.out, "fit" in done.out) == (0, True, False)
