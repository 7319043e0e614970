"""PrivateNaiveBayes: tables of bins by class, charged before rows are read.

At epsilon 2000 there is no noise (a count is wrong with probability below 1e-400), so counts are those of the rows.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")

from sklearn.base import clone

from vestry import Ledger
from vestry.errors import BudgetExceeded, InvalidParameter
from vestry.estimators import PrivateNaiveBayes

BINS = [[0, 40, 65, 120], [0, 1, 2]]
GIVEN = {"classes": ("no", "yes"), "bins": BINS, "prior": 1.0, "ledger": None, "neighbours": "add-remove"}


def rows(n=3000):
    rng = np.random.default_rng(2)
    y = rng.random(n) < 0.3
    age = np.where(y, rng.uniform(30, 120, n), rng.uniform(0, 80, n))
    x = np.column_stack([age, rng.random(n) + y * rng.random(n)])
    return x, np.where(y, "yes", "no")


def by_hand(x, y, point):
    """Count, add 1, multiply, divide."""
    found = {}
    for name in ("no", "yes"):
        own = x[y == name]
        chance = (len(own) + 1) / (len(x) + 2)
        for k, edges in enumerate(BINS):
            inside = np.searchsorted(edges[1:-1], point[k], side="right")
            counts = np.bincount(np.searchsorted(edges[1:-1], own[:, k], side="right"), minlength=len(edges) - 1)
            chance *= (counts[inside] + 1) / (counts.sum() + len(edges) - 1)
        found[name] = chance
    return found["yes"] / sum(found.values())


def test_without_noise_it_is_naive_bayes_by_hand():
    x, y = rows()
    model = PrivateNaiveBayes("epsilon=2000", **GIVEN).fit(x, y)
    points = [[20, 0.3], [70, 1.5], [119, 1.9], [50, 0.1]]
    wanted = [by_hand(x, y, point) for point in points]
    assert model.predict_proba(points)[:, 1] == pytest.approx(wanted, abs=1e-6)
    assert model.predict(points).tolist() == ["yes" if each > 0.5 else "no" for each in wanted]


def test_a_fit_is_charged_and_read_with_its_noise(tmp_path):
    x, y = rows()
    book = Ledger.create(str(tmp_path / "l.ledger"), dataset="d", unit="row", neighbours="add-remove",
                         budget="epsilon=1.5")  # fmt: skip
    model = PrivateNaiveBayes("epsilon=1", **{**GIVEN, "ledger": book, "neighbours": None}).fit(x, y)
    statistics = model.release_.contents["yes"]
    assert statistics.scale == 2.0  # a row moves a count of each of two features
    assert len(statistics.values) == 5
    assert model.spent_.epsilon == 1
    assert model.posterior_.label == "noise-aware"
    assert [entry.action for entry in book.entries()].count("charge") == 1
    with pytest.raises(BudgetExceeded, match="epsilon"):
        clone(model).fit(x, y)


def test_the_noise_of_replace_is_twice_as_large():
    x, y = rows(100)
    model = PrivateNaiveBayes("epsilon=1", **{**GIVEN, "neighbours": "replace"}).fit(x, y)
    assert model.release_.contents["no"].scale == 4.0


def test_no_value_is_an_error():
    x = np.array([[np.nan, np.inf], [-5, 300], [50, 0.5]])
    model = PrivateNaiveBayes("epsilon=2000", **GIVEN).fit(x, ["no", "unheard of", None])
    assert model.release_.contents["no"].values == (2, 1, 0, 1, 2)
    assert model.release_.contents["yes"].values == (0, 0, 0, 0, 0)
    assert np.isfinite(model.predict_proba([[np.nan, -np.inf]])).all()


@pytest.mark.parametrize(("wrong", "words"), [
    ({"bins": None}, "edges for each of the 2 features"),
    ({"bins": [[0, 1], [0, 1, 2]]}, "three edges or more"),
    ({"classes": ("no",)}, "classes must be two or more"),
    ({"prior": 0}, "prior must be"),
    ({"neighbours": None}, "neighbours must be declared"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_is_charged(wrong, words):
    x, y = rows(20)
    with pytest.raises(InvalidParameter, match=words):
        PrivateNaiveBayes("epsilon=1", **{**GIVEN, **wrong}).fit(x, y)


def test_one_list_of_edges_is_for_every_feature():
    x, y = rows(50)
    model = PrivateNaiveBayes("epsilon=5", **{**GIVEN, "bins": [0, 40, 120]}).fit(x, y)
    assert len(model.release_.contents["no"].values) == 4
    assert model.to_arviz().posterior["probability_x0"].shape[-1] == 2
