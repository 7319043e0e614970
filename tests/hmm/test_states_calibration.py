"""Cells are right in their state as often as they are called sure, over 100 logs of `quality/coverage/states.py`.

False alarms: the difference is held to .03 and five standard errors (6e-7). The plug-in posterior of the same logs must
be outside by as much.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.statistical

SCRIPT = Path(__file__).parents[2] / "quality" / "coverage" / "states.py"


@pytest.mark.long
def test_calls_are_right_as_often_as_they_are_sure(monkeypatch):
    spec = importlib.util.spec_from_file_location("coverage_of_states", SCRIPT)
    states = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, states)
    spec.loader.exec_module(states)
    cell = states.CELLS["private cells, 5 to 25 entries"]
    sums = {}
    for each in range(100):
        states.add(sums, states.study(cell, [7, each]))
    found = states.summary(sums)
    for part in ("all", "above .9"):
        row, twin = (found[method][part] for method in states.METHODS)
        assert abs(row["right"] - row["sure"]) < states.WITHIN + 5 * row["standard_error"]
        assert twin["sure"] - twin["right"] > states.WITHIN + 5 * twin["standard_error"]
