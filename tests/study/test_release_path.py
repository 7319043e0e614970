"""One path from a question to its release: what was asked before, and how often anything is done for one command."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from closed_engines import closed_engines
from study.fault_study import actions, ledger_of, study_in, vestry

import vestry as front
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.errors import DeclarationMismatch
from vestry.ledger import Ledger
from vestry.ledger.entry import State
from vestry.model.request import Request
from vestry.pipeline import CHARGED, NEW, OPENED, RELEASED, ChargeIndex
from vestry.posterior import Posterior
from vestry.schema.domain import Levels

CYCLE = ["charge", "open", "release"]
MODEL = BetaBernoulli("readmitted", success="yes", by="ward")


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture
def counts(monkeypatch):
    """How often a command does what should be done once."""
    seen: Counter[str] = Counter()

    def counted(owner, name):
        real = getattr(owner, name)

        def call(*given, **named):
            seen[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((Ledger, "open"), (Ledger, "journal"), (State, "read"), (Request, "prepare")):
        counted(owner, name)
    counted(Posterior, "from_release")
    monkeypatch.setattr("vestry.study.report_data.page", lambda content, write=None: "<html></html>")
    return seen


def test_a_release_opens_the_ledger_calibrates_and_computes_once(tmp_path, counts):
    study = study_in(tmp_path)
    counts.clear()
    assert vestry("release", study, "--yes").code == 0
    # Of the state: opening, the study's agreement, the charge, its opening, its release, and what is left then. Of all
    # lines: before the folder is locked, to show what would be done, and after.
    assert counts == {"open": 1, "read": 6, "journal": 2, "prepare": 1, "from_release": 1}


def test_a_check_opens_the_ledger_once(tmp_path, counts):
    study = study_in(tmp_path, "readmission", "wards")
    counts.clear()
    assert vestry("check", study).code == 0
    assert (counts["open"], counts["journal"], counts["prepare"]) == (1, 1, 2)


@pytest.mark.long
def test_several_releases_are_calibrated_once_each(tmp_path, counts):
    study = study_in(tmp_path, "readmission", "wards", "stay")
    counts.clear()
    assert vestry("release", study, "--yes").code == 0
    assert counts["open"] == 1
    assert counts["prepare"] == counts["from_release"] == 3
    assert counts["journal"] == 2


@pytest.mark.long
def test_what_is_shown_before_the_prompt_is_what_runs(tmp_path, counts):
    """Where the number of records is public, a draw is calibrated to it: to 200, and not to the 1,000 of a plan."""
    study = study_in(tmp_path, "draws", neighbours="replace")
    counts.clear()
    done = vestry("release", study, "--yes")
    assert done.code == 0, done.err
    (shown,) = re.findall(r"likelihood_power (\S+)", done.err)
    certificate = json.loads((tmp_path / "draws" / "certificate.json").read_text())["certificate"]
    assert shown == f"{certificate['value']:.6g}"
    assert counts["prepare"] == 1
    assert shown not in vestry("check", study).out


@pytest.fixture
def table(tmp_path):
    study_in(tmp_path)
    columns = {"readmitted": Levels("no", "yes"), "ward": Levels("A", "B", "C")}
    return front.Table(tmp_path / "people.csv", columns, neighbours="add-remove")


def test_the_states_of_a_question(tmp_path, table):
    ledger = ledger_of(tmp_path)
    assert ChargeIndex.of(ledger).find_charge("a").state == NEW
    first = ledger.charge("epsilon=0.1", purpose="one", definition="a")
    ledger.charge("epsilon=0.1", purpose="another", definition="b")
    past = ChargeIndex.of(ledger).find_charge("a")
    assert (past.state, past.entry.sequence, past.release_sha256) == (CHARGED, 1, None)
    opened = first.open()
    assert ChargeIndex.of(ledger).find_charge("a").state == OPENED
    opened.released(b"content")
    index = ChargeIndex.of(ledger)
    past = index.find_charge("a")
    assert past.state == RELEASED
    assert index.charge_of_release(past.release_sha256) == 1
    ledger.charge("epsilon=0.1", purpose="paid again", definition="a")
    past = ChargeIndex.of(ledger).find_charge("a")
    assert (past.state, past.entry.sequence) == (CHARGED, 5)


@pytest.mark.long
def test_python_resumes_the_newest_charge_and_refuses_what_it_cannot(tmp_path, table, monkeypatch):
    def release(**more):
        return front.release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger_of(tmp_path), **more)

    def dies(*given, **named):
        raise KeyboardInterrupt

    def killed(where):
        with monkeypatch.context() as patch:
            patch.setattr(where, dies)
            with pytest.raises(KeyboardInterrupt, match=r"^$"):
                release(again=True)

    release()
    with pytest.raises(DeclarationMismatch, match=r"but it is released before, by entry 1 in the ledger"):
        release()
    for _ in range(2):  # the second finds the charge of the first
        killed("vestry.pipeline.run")
    assert actions(tmp_path) == [*CYCLE, "charge"]
    release()
    assert actions(tmp_path) == [*CYCLE, "charge", "open", "release"]
    killed("vestry.mechanisms.additive_noise.Additive.release")
    with pytest.raises(DeclarationMismatch, match=r"but it is opened, and its release lost, before, by entry 7"):
        release()
    assert actions(tmp_path) == [*CYCLE, *CYCLE, "charge", "open"]


def study_of_twins(folder):
    """Two releases that ask the same."""
    study = study_in(folder)
    text = study.read_text()
    study.write_text(text + text[text.index("[release.readmission]") :].replace("readmission]", "twin]"))
    return study


@pytest.mark.long
def test_a_charge_that_was_not_opened_pays_for_one_of_two_twins(tmp_path, monkeypatch):
    study = study_of_twins(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("vestry.study.runner.run", lambda *given, **named: (_ for _ in ()).throw(OSError(28, "no room")))
        assert vestry("release", study, "--yes").code == 2
    assert actions(tmp_path) == ["charge"]
    done = vestry("release", study, "readmission", "twin", "--again", "--yes", "--json")
    assert done.code == 0, done.err
    assert [each["done"] for each in json.loads(done.out)["releases"]] == ["resumed, at no new cost", "released"]
    assert actions(tmp_path) == [*CYCLE, *CYCLE]


@pytest.mark.long
def test_a_question_twice_in_one_study_is_paid_once(tmp_path):
    study = study_of_twins(tmp_path)
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 0, done.err
    assert [each["done"] for each in json.loads(done.out)["releases"]] == ["released", "released before, free"]
    assert actions(tmp_path) == CYCLE
