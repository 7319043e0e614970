"""Ctrl-C at a hundred points between the opening of a charge and its release: nothing is lost, nothing paid twice."""

from __future__ import annotations

import hashlib
import signal
from contextlib import nullcontext

import numpy as np
import pytest
from closed_engines import closed_engines
from share import SHARE
from sklearn.base import clone
from study.fault_study import actions, ledger_of, study_in, vestry
from study.interrupting import interrupt, spread

import vestry as front
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.errors import DeclarationMismatch, Interrupted
from vestry.mechanisms.additive_noise import Additive
from vestry.pipeline import NewFile, NoFile
from vestry.releases import open_release
from vestry.schema.domain import Levels
from vestry.study.runner import summarise

CYCLE = ["charge", "open", "release"]
POINTS = 120 // SHARE
MODEL = BetaBernoulli("readmitted", success="yes")


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(autouse=True)
def _ctrl_c():
    """Answer Ctrl-C as Python does: a shell lets what it runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _quick_page(monkeypatch):
    monkeypatch.setattr("vestry.study.report_data.page", lambda content, write=None: "<html></html>")


def table_in(folder):
    study_in(folder)
    columns = {"readmitted": Levels("no", "yes")}
    return front.Table(folder / "people.csv", columns, neighbours="add-remove")


def told(folder) -> list[str]:
    """Return the hashes of the releases that the ledger was told of."""
    lines = ledger_of(folder).entries()
    return [line.facts["release_sha256"] for line in lines if line.action == "release"]


def interrupt_a_call(folder, step: int | None, path=None, end=None) -> int:
    """Release, interrupted at a step, and look at what is left; return how many steps there were."""
    table = table_in(folder)
    ledger = ledger_of(folder)
    options = {"guarantee": "epsilon=.1", "ledger": ledger, "path": path}
    outcome = interrupt(lambda: front.release(MODEL, table, **options), step, end=end)
    error = outcome.interrupt
    if step is None or outcome.is_dropped or outcome.taken < step:  # how many depends on imports and on the noise
        assert error is None
        return outcome.taken
    assert error is not None, step
    done = actions(folder)
    if done == ["charge"]:
        front.release(MODEL, table, **options)
        assert actions(folder) == CYCLE
        return outcome.taken
    assert done == CYCLE, step
    assert isinstance(error, Interrupted), step
    assert told(folder) == [hashlib.sha256(error.release.text().encode()).hexdigest()]
    if path is not None:
        assert path.read_text() == error.release.text()
        assert str(error) == f"interrupted; entry 1 was released first, and its release is saved in {path}."
    return outcome.taken


def test_a_call_is_interrupted_at_many_points(tmp_path):
    end = NewFile.give_back.__code__
    for number in range(2):  # the first imports what is used
        folder = tmp_path / f"whole {number}"
        taken = interrupt_a_call(folder, None, folder / "release.json", end)
    assert taken > 1000
    for step in spread(taken, POINTS):
        folder = tmp_path / str(step)
        interrupt_a_call(folder, step, folder / "release.json", end)


@pytest.mark.long
def test_a_call_without_a_file_hands_its_release_over(tmp_path):
    end = NoFile.give_back.__code__
    for number in range(2):  # the first imports what is used
        taken = interrupt_a_call(tmp_path / f"whole {number}", None, None, end)
    for step in spread(taken, POINTS):
        interrupt_a_call(tmp_path / str(step), step, None, end)


def test_the_broken_twin_that_holds_nothing_back_loses_what_was_paid_for(tmp_path, monkeypatch):
    monkeypatch.setattr("vestry.mechanisms.release.HeldInterrupts", nullcontext)
    table = table_in(tmp_path)
    drawing = Additive.release.__code__
    ledger = ledger_of(tmp_path)
    outcome = interrupt(lambda: front.release(MODEL, table, guarantee="epsilon=.1", ledger=ledger), 3, begin=drawing)
    assert type(outcome.interrupt) is KeyboardInterrupt
    assert actions(tmp_path) == ["charge", "open"]


def interrupt_a_study(folder, step: int | None) -> int:
    """Run `vestry release`, interrupted at a step, and look at what is left."""
    study = study_in(folder, "readmission", "wards")
    end = summarise.__code__
    outcome = interrupt(lambda: vestry("release", study, "--yes", "--json"), step, end=end)
    done = outcome.returned
    if step is None or outcome.is_dropped or outcome.taken < step:
        assert done.code == 0, done.err
        return outcome.taken
    assert done.code == 130, (step, done)
    sentence = " ".join(done.err.strip().splitlines())
    assert sentence.startswith("vestry: interrupted; ")
    lines = list(ledger_of(folder).entries())[1:]
    assert [line.action for line in lines[:2]] == ["charge", "charge"]
    opened = [line.target for line in lines if line.action == "open"]
    assert [line.target for line in lines if line.action == "release"] == opened, step
    for number, name in ((1, "readmission"), (2, "wards")):
        words = "released and saved" if number in opened else "charged and not opened"
        assert any(part.startswith(words) and name in part for part in sentence.split("; ")), step
    again = vestry("release", study, "--json")
    assert again.code == 0, again.err
    assert actions(folder).count("charge") == 2
    assert actions(folder).count("open") == 2
    for name in ("readmission", "wards"):
        open_release(folder / name / "release.json")
    return outcome.taken


@pytest.mark.long
def test_a_study_is_interrupted_at_many_points(tmp_path):
    taken = interrupt_a_study(tmp_path / "whole", None)
    for step in spread(taken, 120):
        interrupt_a_study(tmp_path / str(step), step)


@pytest.mark.long
def test_a_fit_that_is_interrupted_is_fitted(tmp_path):
    from vestry.estimators import PrivateLogisticRegression

    study_in(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(50, 2))
    outcomes = (rows[:, 0] > 0).astype(int)
    learner = PrivateLogisticRegression(
        "epsilon=.1,delta=1e-8", ledger=ledger_of(tmp_path), bounds=(-1, 1), classes=[0, 1], max_rows=100
    )
    for _ in range(2):  # the first compiles
        outcome = interrupt(lambda: clone(learner).fit(rows, outcomes))
    for step in spread(outcome.taken - 300, 24):
        again = clone(learner)
        outcome = interrupt(lambda again=again: again.fit(rows, outcomes), step)
        assert outcome.interrupt is not None or outcome.is_dropped
        assert told(tmp_path)[-1] == hashlib.sha256(again.release_.text().encode()).hexdigest()
    assert actions(tmp_path) == CYCLE * 26


def test_what_was_released_once_is_not_again(tmp_path):
    table = table_in(tmp_path)
    ledger = ledger_of(tmp_path)
    outcome = interrupt(lambda: front.release(MODEL, table, guarantee="epsilon=.1", ledger=ledger), 5)
    assert str(outcome.interrupt).endswith("is `release` of this exception.")
    with pytest.raises(DeclarationMismatch, match="released before"):
        front.release(MODEL, table, guarantee="epsilon=.1", ledger=ledger_of(tmp_path))
