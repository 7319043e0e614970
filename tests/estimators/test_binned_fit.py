"""PrivateLogisticRegression by table: probabilities of cells with intervals, charged before rows are read.

At epsilon 200 there is no noise: 20,000 rows give a cell's share to 0.02, six of its standard deviations.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")

from sklearn.base import clone

from vestry import Ledger
from vestry.errors import InvalidParameter
from vestry.estimators import PrivateLogisticRegression
from vestry.estimators.binned_fit import BinEncoder, read_bins

BINS = [[0, 40, 65, 120], [0, 1, 2]]
GIVEN = {"classes": ("no", "yes"), "bins": BINS, "method": "table", "ledger": None, "neighbours": "add-remove"}


def rows(n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.uniform(0, 120, n), rng.integers(0, 2, n) + 0.5])
    eta = -0.5 + 0.9 * (x[:, 0] >= 65) - 0.6 * (x[:, 1] >= 1)
    return x, np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")


@pytest.mark.long
def test_a_fit_has_the_shares_of_the_cells_and_intervals(tmp_path):
    x, y = rows()
    book = Ledger.create(str(tmp_path / "l.ledger"), dataset="d", unit="row", neighbours="add-remove",
                         budget="epsilon=300")  # fmt: skip
    model = PrivateLogisticRegression("epsilon=200", **{**GIVEN, "ledger": book, "neighbours": None}).fit(x, y)
    old = (x[:, 0] >= 65) & (x[:, 1] >= 1)
    assert model.predict_proba([[80, 1.5]])[0, 1] == pytest.approx((y[old] == "yes").mean(), abs=0.02)
    assert model.predict([[100, 0.2], [3, 1.5]]).tolist() == ["yes", "no"]
    assert np.sign(model.decision_function([[100, 0.2]])) == [1.0]
    assert model.coef_.shape == (1, 3)
    assert model.coef_[0] == pytest.approx([0, 0.9, -0.6], abs=0.3)
    assert model.posterior_.parameters[0] == "coefficient[x0[40 to <65]]"
    assert model.to_arviz().posterior["coefficient"].shape[-1] == 4
    assert model.release_.family["method"] == "table"
    assert model.spent_.epsilon == 200


def test_rows_lie_in_the_bins_of_their_own_values():
    encoder = BinEncoder(read_bins(BINS, 2))
    odd = np.array([[-5, 0.5], [40, 1], [np.nan, np.inf], [64.9, 0.999], [np.inf, np.nan]])
    assert encoder.cells(odd).tolist() == [0, 3, 1, 2, 4]


@pytest.mark.parametrize(("wrong", "words"), [
    ({"bins": None}, "edges for each of the 2 features"),
    ({"bins": [[0, 1, 2]]}, "edges for each of the 2 features"),
    ({"bins": [[0, 1], [0, 1, 2]]}, "three edges or more"),
    ({"bins": [[0, 2, 1], [0, 1, 2]]}, "increasing"),
    ({"bins": [["a", "b", "c"], [0, 1, 2]]}, "an edge of bins must be"),
    ({"bounds": (0, 10)}, "bounds must be omitted for the method table"),
    ({"draws": 3}, "draws must be omitted for the method table"),
    ({"prior_precision": -1.0}, "prior_precision must be"),
    ({"method": "objective", "bounds": (0, 10), "max_rows": 100}, "bins must be omitted except for the method table"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_is_charged(wrong, words):
    x, y = rows(20)
    with pytest.raises(InvalidParameter, match=words):
        PrivateLogisticRegression("epsilon=1", **{**GIVEN, **wrong}).fit(x, y)


def test_a_copy_has_the_same_bins():
    assert clone(PrivateLogisticRegression("epsilon=1", **GIVEN)).bins == BINS
