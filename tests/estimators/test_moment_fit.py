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
        ({"radius": 2.0}, "bounds must be a pair"),
        ({"fit_intercept": False}, "bounds must be a pair"),
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


def test_where_there_is_no_interval_the_release_stays():
    """Twenty features and little budget: no sampler was measured there."""
    rng = np.random.default_rng(1)
    model = PrivateLinearRegression("epsilon=0.1", **MUCH)
    with pytest.raises(NoInterval, match="measured for at most 4 coefficients"):
        model.fit(rng.uniform(0, 10, (300, 20)), rng.uniform(0, 10, 300))
    assert model.release_.family["method"] == "moments"
