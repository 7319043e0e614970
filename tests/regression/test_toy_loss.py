"""The guide to a new loss, run as it is printed: one class and one line, and everything else works with it."""

import contextlib
import io
import math
import re
from pathlib import Path

import pytest
from regression import test_gradient_rounding as rounding
from regression import test_losses as conformance

from vestry.errors import InvalidParameter
from vestry.estimators import PrivateLinearRegression
from vestry.registry import LOSSES
from vestry.regression.losses import robust_losses
from vestry.validation import require_choice

pytest.importorskip("numba", reason="the extra `glm` is not installed")

GUIDE = (Path(__file__).parents[2] / "docs" / "extending" / "loss.md").read_text()
PROGRAM, PRINTED = (re.search(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL).group(1) for kind in ("python", "text"))
LINE = "LOSSES[Fair.name] = Fair"


@pytest.fixture
def fair():
    """Define the guide's class, and take its one line back at the end."""
    names = {}
    exec(PROGRAM[: PROGRAM.index(LINE)] + LINE, names)
    yield names["Fair"]
    del LOSSES["fair"]


@pytest.mark.long
def test_check_plan_release_and_audit_work_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(PROGRAM, {})
    finally:
        LOSSES.pop("fair", None)
    assert printed.getvalue() == PRINTED


def test_it_is_one_class_and_one_line(fair):
    assert PROGRAM.count("LOSSES[") == 1
    assert robust_losses() == ("huber", "pseudo-huber", "fair")
    with pytest.raises(InvalidParameter, match=r"threshold must be a number above 0 .*, not -1"):
        fair(-1)


def test_the_conformance_tests_of_losses_hold_for_it(fair):
    conformance.test_the_gradient_is_that_of_the_values(fair(0.7))
    conformance.test_slope_and_curvature_bound_a_dense_search_and_are_approached(fair(0.03))
    conformance.test_the_compiled_gradient_is_that_of_numpy(fair(0.7))
    conformance.test_the_derivative_in_jax_is_that_of_numpy(fair(0.7))


@pytest.mark.parametrize("lie", ["slope", "curvature", "derivative"])
def test_they_find_a_false_constant_and_a_false_derivative(fair, lie):
    class False_(fair):
        slope = property(lambda self: self.threshold / (2 if lie == "slope" else 1))
        curvature = 0.5 if lie == "curvature" else 1.0

        def derivative(self, arithmetic):
            true = super().derivative(arithmetic)
            return (lambda eta, y: 0.9 * true(eta, y)) if lie == "derivative" else true

    with pytest.raises(AssertionError):
        conformance.test_slope_and_curvature_bound_a_dense_search_and_are_approached(False_(0.03))


@pytest.mark.parametrize("kind", ["plain", "cancelling"])
def test_the_bound_on_rounding_holds_for_it(fair, kind, monkeypatch):
    mp = rounding.mp
    monkeypatch.setitem(
        rounding.EXACT, "fair", lambda loss, eta, y: (eta - y) / (1 + mp.fabs(eta - y) / loss.threshold)
    )
    rounding.test_no_data_are_further_off_than_the_bound(fair(0.7), kind)


def test_estimators_offer_it(fair):
    rows = [[math.sin(place)] for place in range(400)]
    model = PrivateLinearRegression(
        "epsilon=1e3,delta=1e-2", bounds=(-1, 1), outcome_bounds=(-1, 1), loss="fair", ledger=None,
        neighbours="replace", method="output",
    ).fit(rows, [row[0] for row in rows])  # fmt: skip
    assert model.release_.family["loss"] == {"name": "fair", "threshold": 0.25}
    assert abs(model.coef_[0] - 1) < 0.3


def test_without_its_line_it_is_not_known():
    with pytest.raises(InvalidParameter, match="loss must be one of huber, pseudo-huber, not 'fair'"):
        require_choice("loss", "fair", robust_losses())
