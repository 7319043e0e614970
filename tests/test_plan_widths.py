"""The script that compares plans with releases: its cases and its verdict."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from vestry.registry import MODELS

SCRIPT = Path(__file__).parents[1] / "quality" / "plan_widths.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("plan_widths", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["plan_widths"] = module  # its data classes ask for their module
    spec.loader.exec_module(module)
    return module


def test_every_model_with_an_interval_has_a_case(script):
    assert {case.asked.model.name for case in script.CASES.values()} == set(MODELS) - {"hmm"}


@pytest.mark.parametrize(
    ("ratio", "releases", "code", "words"),
    [
        (1.1, 200, 0, ": 0 more than 15% off, 0 with fewer than 200 releases"),
        (1.2, 200, 1, ": 1 more than 15% off, 0 with fewer than 200 releases"),
        (0.8, 200, 1, ": 1 more than 15% off, 0 with fewer than 200 releases"),
        (float("nan"), 200, 1, ": 1 more than 15% off, 0 with fewer than 200 releases"),
        (1.0, 199, 1, ": 0 more than 15% off, 1 with fewer than 200 releases"),
    ],
)
def test_it_ends_with_a_verdict(script, monkeypatch, capsys, ratio, releases, code, words):
    monkeypatch.setattr(script, "planned", lambda case: (2.0,))
    kept = {name: [[2.0]] * 200 for name in script.CASES}
    kept["mean; epsilon=1, replace"] = [[2.0 * ratio]] * releases
    assert script.show(kept) == code
    assert capsys.readouterr().out.splitlines()[-1].endswith(words)


def test_a_width_of_a_release_is_measured(script, tmp_path):
    (width,) = script.released("count by ward; epsilon=1, replace", 0, tmp_path)
    assert width == pytest.approx(10, abs=2)
