"""What could fail after the charge fails before it: noise is drawn on trial, of zeros, and thrown away."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from closed_engines import closed_engines
from study.fault_study import RELEASES, actions, ledger_of, study_in, vestry

import vestry as front
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.errors import VestryError
from vestry.mechanisms import release as publishing
from vestry.schema.domain import Levels

SENTENCE = "noise cannot be drawn, since opendp.measurements cannot be imported; nothing was charged: install vestry"


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture
def broken_opendp(monkeypatch):
    """Let OpenDP be installed so that it cannot be imported."""
    from vestry.noise import system_noise

    system_noise._opendp.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp.measurements", None)
    yield
    system_noise._opendp.cache_clear()


def test_a_broken_installation_costs_nothing(tmp_path, broken_opendp):
    study = study_in(tmp_path)
    columns = {"readmitted": Levels("no", "yes")}
    table = front.Table(tmp_path / "people.csv", columns, neighbours="add-remove")
    model = BetaBernoulli("readmitted", success="yes")
    with pytest.raises(VestryError, match=SENTENCE):
        front.release(model, table, guarantee="epsilon=.1", ledger=ledger_of(tmp_path))
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"vestry: {SENTENCE}")
    assert actions(tmp_path) == []


@pytest.mark.long
def test_a_broken_installation_costs_no_fit(tmp_path, broken_opendp):
    from vestry.estimators import PrivateLinearRegression

    study_in(tmp_path)
    learner = PrivateLinearRegression(
        "epsilon=3",
        ledger=ledger_of(tmp_path),
        bounds=(-1, 1),
        outcome_bounds=(-1, 1),
        max_rows=10**6,
        method="moments",
    )
    with pytest.raises(VestryError, match=SENTENCE):
        learner.fit(np.zeros((5, 2)), np.zeros(5))
    assert actions(tmp_path) == []


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_no_longer_than_was_tried(tmp_path, monkeypatch, name):
    monkeypatch.setattr("vestry.study.report_data.page", lambda content, write=None: "<html></html>")
    tried = []
    rehearse = publishing.rehearse

    def noted(mechanism, **named):
        tried.append(rehearse(mechanism, **named))
        return tried[-1]

    monkeypatch.setattr("vestry.pipeline.rehearse", noted)
    study = study_in(tmp_path, name)
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 0, done.err
    size = (tmp_path / name / "release.json").stat().st_size
    assert len(tried) == 1
    assert size <= tried[0] <= 4 * size
