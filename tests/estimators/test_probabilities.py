"""What both classifiers say of probabilities: one set of numbers in three forms."""

import numpy as np
import pytest
from scipy.special import logsumexp

from vestry.estimators import PrivateLogisticRegression, PrivateNaiveBayes

EDGES = [0, 2, 4, 6, 8, 10]
UNCHARGED = {"ledger": None, "neighbours": "add-remove"}


def estimators(classes):
    """Return a classifier of each kind."""
    linear = {**UNCHARGED, "bounds": (0, 10), "max_rows": 300, "classes": classes}
    binned = {**UNCHARGED, "bins": EDGES, "classes": classes}
    guarantee = "epsilon=20,delta=1e-6"
    yield PrivateLogisticRegression(guarantee, method="output", **linear)
    yield PrivateLogisticRegression(guarantee, method="posterior", draws=3, **linear)
    yield PrivateLogisticRegression(guarantee, method="table", **binned)
    yield PrivateNaiveBayes(guarantee, **binned)


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")], ids=["two", "three"])
def test_probabilities_their_logs_and_decisions_agree(kind, classes):
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 10, (200, 2))
    thirds = np.minimum(rows[:, 0] * len(classes) / 10, len(classes) - 1).astype(int)
    labels = np.array(classes)[thirds]
    model = list(estimators(classes))[kind].fit(rows, labels)
    chances = model.predict_proba(rows)
    logs = model.predict_log_proba(rows)
    scores = model.decision_function(rows)
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(rows)))
    assert logs == pytest.approx(np.log(chances), abs=1e-9)
    if len(classes) == 2:
        assert scores.shape == (len(rows),)
        assert scores == pytest.approx(np.log(chances[:, 1] / chances[:, 0]), abs=1e-9)
        assert np.array_equal(model.predict(rows), model.classes_[(scores > 0).astype(int)])
    else:
        # Linear predictors of one draw are log probabilities up to a constant.
        assert scores - logsumexp(scores, axis=1, keepdims=True) == pytest.approx(logs, abs=1e-9)
        assert np.array_equal(model.predict(rows), model.classes_[scores.argmax(axis=1)])


def test_the_log_of_a_probability_that_underflows_is_exact():
    eta = np.array([[[800.0, -800.0]]])
    logs = PrivateLogisticRegression._log_chances(eta)
    assert logs == pytest.approx(np.array([[-800.0, 0.0], [0.0, -800.0]]), abs=1e-300)
