"""Reading the rows of a fit: numbers of any precision, and nothing said of them."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from share import cases
from sklearn.base import clone

from vestry import Ledger
from vestry.errors import VestryError
from vestry.estimators import PrivateLinearRegression, PrivateLogisticRegression, PrivateNaiveBayes
from vestry.estimators.bounds import encoder_of

UNCHARGED = {"ledger": None, "neighbours": "replace"}
LINEAR = {"bounds": (0, 1), "outcome_bounds": (0, 1), **UNCHARGED}
LOGISTIC = {"bounds": (0, 1), "classes": (0, 1), **UNCHARGED}
BINNED = {"bins": [0, 0.25, 0.5, 0.75, 1], "classes": (0, 1), **UNCHARGED}
GUARANTEE = "epsilon=1000,delta=1e-6"
ESTIMATORS = {
    "linear, posterior": PrivateLinearRegression(GUARANTEE, method="posterior", **LINEAR),
    "linear, objective": PrivateLinearRegression(GUARANTEE, method="objective", **LINEAR),
    "linear, output": PrivateLinearRegression(GUARANTEE, method="output", **LINEAR),
    "linear, moments": PrivateLinearRegression(GUARANTEE, method="moments", **LINEAR),
    "logistic, posterior": PrivateLogisticRegression(GUARANTEE, method="posterior", **LOGISTIC),
    "logistic, objective": PrivateLogisticRegression(GUARANTEE, method="objective", **LOGISTIC),
    "logistic, output": PrivateLogisticRegression(GUARANTEE, method="output", **LOGISTIC),
    "logistic, table": PrivateLogisticRegression(GUARANTEE, method="table", **BINNED),
    "naive Bayes": PrivateNaiveBayes(GUARANTEE, **BINNED),
}
BEYOND_DOUBLES = np.longdouble("1e400")
CARRIERS = {
    "array": lambda values: values,
    "objects": lambda values: values.astype(object),
    "list": lambda values: values.tolist(),
    "pandas": lambda values: pd.Series(values) if values.ndim == 1 else pd.DataFrame(values),
    "pandas objects": lambda values: CARRIERS["pandas"](values.astype(object)),
}


def wide_rows():
    """Rows of extended precision, each number within the doubles or beyond them."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 1, (60, 2)).astype(np.longdouble)
    labels = (rows[:, 0] > 0.5).astype(np.longdouble)
    rows[::7, 0] = BEYOND_DOUBLES
    rows[3::7, 1] = -BEYOND_DOUBLES
    labels[::9] = BEYOND_DOUBLES
    return rows, labels


@pytest.mark.parametrize("carrier", cases(CARRIERS, quick=["array"]))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_numbers_beyond_doubles_are_clipped_without_a_word(name, carrier, caplog):
    if not np.isfinite(BEYOND_DOUBLES):
        pytest.skip("long doubles are doubles here")
    caplog.set_level(logging.WARNING)
    carry = CARRIERS[carrier]
    rows, labels = wide_rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(ESTIMATORS[name]).fit(carry(rows), carry(labels))
        predicted = model.predict(carry(rows))
        clipped = model.predict(np.clip(rows, -1e9, 1e9).astype(np.float64))
    assert np.array_equal(predicted, clipped)
    assert not caplog.text


def test_rows_that_cannot_be_read_say_nothing(tmp_path, monkeypatch, capfd, caplog):
    """A reading that fails, after the charge and with a value in its message, is one sentence of ours."""
    caplog.set_level(logging.DEBUG)
    budget = "epsilon=1,delta=1e-5"
    ledger = Ledger.create(tmp_path / "l", dataset="d", unit="row", neighbours="replace", budget=budget)
    options = {**LINEAR, "ledger": ledger, "neighbours": None, "method": "output"}
    model = PrivateLinearRegression("epsilon=1,delta=1e-6", **options)

    def fail(self, rows, dtype):
        warnings.warn("canary4711", UserWarning, stacklevel=1)
        raise ValueError("canary4711")

    encoder = type(encoder_of((0, 1), None, features=2, intercept=True))
    monkeypatch.setattr(encoder, "encode", fail)
    rows, labels = wide_rows()
    with pytest.raises(VestryError, match="the rows could not be read, and nothing was drawn") as caught:
        model.fit(rows, labels)
    assert caught.value.__context__ is None
    assert "canary4711" not in "".join([*capfd.readouterr(), caplog.text])
