"""PrivateLinearRegression by moments: least squares with intervals, charged before rows are read."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from vestry import Ledger
from vestry.errors import BudgetExceeded, InvalidParameter, NoInterval
from vestry.estimators import Ball, PrivateLinearRegression

MUCH = {"bounds": (0, 10), "outcome_bounds": (-10, 20), "ledger": None, "neighbours": "replace", "method": "moments"}


def rows(n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (n, 2))
    return x, 3 + x @ [1.0, -0.5] + rng.normal(0, 1, n)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_with_next_to_no_noise_it_is_least_squares(neighbours):
    x, y = rows()
    options = {**MUCH, "neighbours": neighbours, "prior_precision": 1e-6}
    found = PrivateLinearRegression("epsilon=100000", **options).fit(x, y)
    exact = LinearRegression().fit(x, y)
    assert found.coef_ == pytest.approx(exact.coef_, abs=1e-3)
    assert found.intercept_ == pytest.approx(exact.intercept_, abs=1e-2)
    mean, sd = found.predict(x[:5], return_std=True)
    assert mean == pytest.approx(exact.predict(x[:5]), abs=1e-2)
    assert sd == pytest.approx(np.full(5, (y - exact.predict(x)).std()), rel=0.02)
    assert found.predict(x[:5]) == pytest.approx(mean)
    assert found.to_arviz()["posterior"]["coefficient"].shape == (4, 1000, 3)


def test_rows_are_clipped_and_missing_values_are_no_error():
    x, y = rows()
    x[0], y[1] = [np.nan, 1e9], np.nan
    found = PrivateLinearRegression("epsilon=50,delta=1e-6", **MUCH).fit(x, y)
    assert np.isfinite(found.coef_).all()
    assert found.release_.family["outcome_column"] == "y"


def test_a_fit_is_charged_first(tmp_path):
    book = Ledger.create(str(tmp_path / "l"), dataset="d", unit="row", neighbours="replace", budget="epsilon=1")
    x, y = rows()
    model = PrivateLinearRegression("epsilon=0.9", **{**MUCH, "ledger": book, "neighbours": None})
    model.fit(x, y)
    assert model.certificate_.mechanism == "laplace"
    with pytest.raises(BudgetExceeded, match=r"epsilon=0\.1 of epsilon=1 remains"):
        clone(model).fit(x, y)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"bounds": Ball(2)}, "bounds must be a pair"),
        ({"radius": 2.0}, "radius must be omitted for the method moments, not 2.0"),
        ({"fit_intercept": False}, "fit_intercept must be True for the method moments, not False"),
        ({"draws": 3}, "draws must be omitted for the method moments"),
        ({"threshold": 1.0}, "threshold must be omitted"),
        ({"regularisation": 1.0}, "regularisation must be omitted"),
    ],
)
def test_what_belongs_to_rows_is_refused(changed, match):
    with pytest.raises(InvalidParameter, match=match):
        PrivateLinearRegression("epsilon=1", **{**MUCH, **changed}).fit(*rows(50))


def test_return_std_is_for_moments_alone():
    model = PrivateLinearRegression("epsilon=1", **{**MUCH, "method": "output"})
    with pytest.raises(InvalidParameter, match="return_std must be False except for the method moments"):
        model.predict(rows(3)[0], return_std=True)
    with pytest.raises(NotFittedError, match="not fitted"):
        PrivateLinearRegression("epsilon=1", **MUCH).predict(rows(3)[0])


HIDDEN = "the noise hides the Gram matrix of the predictors"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"neighbours": "replace"}, f"nothing was charged: with this many rows there is no interval, because {HIDDEN}"),
        ({"max_rows": 300}, f"nothing was charged: with at most 300 rows there is no interval, because {HIDDEN}"),
        ({"expected_rows": 300}, "nothing was charged: with 300 rows, as expected, there is no interval, because"),
        ({"expected_rows": 300, "max_rows": 10**9}, "with 300 rows, as expected, there is no interval"),
        ({"expected_rows": 0}, "expected_rows must be a whole number of at least 1"),
        ({"expected_rows": 9, "method": "output"}, "expected_rows must be omitted except for the method moments"),
    ],
)
def test_what_is_expected_to_have_no_answer_is_not_charged(changed, reason, tmp_path):
    """Twenty features and little budget."""
    relation = changed.get("neighbours", "add-remove")
    ledger = Ledger.create(tmp_path / "l", dataset="d", unit="row", neighbours=relation, budget="epsilon=1,delta=1e-5")
    rng = np.random.default_rng(1)
    options = {**MUCH, "neighbours": None, **changed, "ledger": ledger}
    model = PrivateLinearRegression("epsilon=0.1", **options)
    with pytest.raises((NoInterval, InvalidParameter), match=reason):
        model.fit(rng.uniform(0, 10, (300, 20)), rng.uniform(0, 10, 300))
    assert [entry.action for entry in ledger.entries()] == ["create"]
    assert not hasattr(model, "release_")


def test_more_rows_than_needed_are_charged():
    """What can be answered with the most rows that there may be is not refused by that number."""
    x, y = rows()
    options = {**MUCH, "neighbours": "add-remove", "max_rows": 10**6}
    assert np.isfinite(PrivateLinearRegression("epsilon=1", **options).fit(x, y).coef_).all()


def test_a_release_without_an_answer_stays_and_says_why(tmp_path):
    """A fit that is charged leaves its release, and every question of the model the reason."""
    budget = "epsilon=1"
    ledger = Ledger.create(tmp_path / "l", dataset="d", unit="row", neighbours="add-remove", budget=budget)
    rng = np.random.default_rng(1)
    options = {**MUCH, "ledger": ledger, "neighbours": None, "expected_rows": 10**9}
    model = PrivateLinearRegression("epsilon=0.1", **options)
    x = rng.uniform(0, 10, (300, 20))
    fitted = model.fit(x, rng.uniform(0, 10, 300))
    assert fitted is model
    assert [entry.action for entry in ledger.entries()] == ["create", "charge", "open", "release"]
    assert model.release_.family["method"] == "moments"
    assert model.certificate_.mechanism == "laplace"
    questions = (
        lambda: model.coef_,
        lambda: model.intercept_,
        lambda: model.coefficients_,
        lambda: model.posterior_,
        lambda: model.predict(x),
        lambda: model.predict(x, return_std=True),
        lambda: model.to_arviz(),
    )
    for question in questions:
        with pytest.raises(NotFittedError, match="There is a release, and no model: there is no interval, because"):
            question()
    model.set_params(guarantee="epsilon=0.9", ledger=None, neighbours="replace")
    x, y = rows()
    assert np.isfinite(model.fit(x, y).predict(x)).all()


@pytest.mark.parametrize("seed", range(5))
def test_what_is_charged_has_an_answer_or_a_reason(seed):
    """Whatever the noise, a fit ends: with coefficients and their uncertainty, or with the reason."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, (50, 2))
    options = {**MUCH, "neighbours": "add-remove"}
    model = PrivateLinearRegression("epsilon=1", **options).fit(x, x[:, 0])
    try:
        mean, sd = model.predict(x, return_std=True)
    except NotFittedError as error:
        assert "there is no interval" in str(error)  # noqa: PT017 - either may happen
    else:
        assert np.isfinite(mean).all()
        assert (sd > 0).all()
        assert len(model.posterior_.rows()) == 5
