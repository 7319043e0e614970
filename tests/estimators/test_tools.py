"""The estimators among scikit-learn's tools: pipelines, clones, pickles, processes, cross-validation."""

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")
pytest.importorskip("numba", reason="the extra `glm` is not installed")

from joblib import Parallel, delayed
from seeded_noise import SeededNoise
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from vestry import Ledger
from vestry.errors import UnpaidRelease
from vestry.estimators import Ball, PrivateLinearRegression, PrivateLogisticRegression
from vestry.estimators.private_fit import REQUIRED, _warn

X = np.random.default_rng(0).uniform(0, 10, (200, 2))
Y = (X[:, 0] > 5).astype(int)
OPTIONS = {"method": "output", "bounds": (0, 10), "classes": (0, 1), "max_rows": 300}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(
        tmp_path / "a.ledger", dataset="made up", unit="row", neighbours="add-remove", budget="epsilon=50,delta=1e-4"
    )


def charges(ledger):
    return sum(entry.action == "charge" for entry in ledger.entries())


def test_a_clone_is_unfitted_and_charges_the_same_ledger(ledger):
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS).fit(X, Y)
    copy = clone(model)
    assert copy.ledger is ledger
    assert set(vars(copy)) == set(model.get_params())
    copy.fit(X, Y)
    assert charges(ledger) == 2


def test_an_undeclared_ledger_survives_clone_and_pickle():
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", **OPTIONS)
    for copy in (clone(model), pickle.loads(pickle.dumps(model))):
        assert copy.ledger is REQUIRED
        assert copy.get_params() == model.get_params()


def test_parameters_are_set_and_checked_at_the_fit(ledger):
    model = PrivateLogisticRegression().set_params(guarantee="epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS)
    assert model.fit(X, Y).get_params()["max_rows"] == 300
    with pytest.raises(ValueError, match="Invalid parameter 'epsilon'"):
        model.set_params(epsilon=1)


def test_a_pickle_keeps_the_release_and_the_address(ledger):
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.ledger == ledger.address
    assert copy.release_ == model.release_
    assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
    copy.fit(X, Y)
    assert charges(ledger) == 2


@pytest.mark.filterwarnings("ignore::vestry.errors.UnpaidRelease")
def test_a_pipeline_of_declared_steps(ledger, monkeypatch):
    monkeypatch.setattr("vestry.mechanisms.release.SystemNoise", lambda: SeededNoise(0))
    rows = np.column_stack([X[:, 0], np.where(X[:, 1] > 5, 1.0, 2.0)])
    declared = OneHotEncoder(categories=[[1.0, 2.0]], sparse_output=False, handle_unknown="ignore")
    encode = FunctionTransformer(
        lambda given: np.column_stack([given[:, 0] / 5 - 1, declared.fit_transform(given[:, 1:])])
    )
    options = {**OPTIONS, "bounds": Ball(np.sqrt(2)), "guarantee": "epsilon=30,delta=1e-6"}
    pipeline = make_pipeline(encode, PrivateLogisticRegression(ledger=ledger, **options)).fit(rows, Y)
    assert pipeline.score(rows, Y) > 0.9
    assert pipeline[-1].coef_.shape == (1, 3)
    assert charges(ledger) == 1


def test_the_text_of_an_estimator_shows_parameters_alone(ledger):
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS)
    before = repr(model), model._repr_html_()
    model.fit(X, Y)
    assert repr(model) == before[0]
    assert "epsilon=1,delta=1e-6" in before[0]


@pytest.fixture
def unsaid():
    """As if nothing had been said in this process."""
    _warn.cache_clear()
    yield
    _warn.cache_clear()


@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize(
    ("kind", "own"), [(PrivateLogisticRegression, {}), (PrivateLinearRegression, {"outcome_bounds": (0, 1)})]
)
def test_the_first_score_beside_a_ledger_says_that_it_is_not_paid_for(kind, own, ledger):
    options = {name: value for name, value in OPTIONS.items() if name != "classes" or not own} | own
    model = kind("epsilon=1,delta=1e-6", ledger=ledger, **options).fit(X, Y)
    with pytest.warns(UnpaidRelease, match="no ledger is charged for; score on public rows") as said:
        assert model.score(X, Y) == model.score(X, Y)
    assert [each.filename for each in said] == [__file__]
    assert charges(ledger) == 1


@pytest.mark.usefixtures("unsaid")
def test_a_score_beside_no_ledger_says_nothing():
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=None, neighbours="add-remove", **OPTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y).score(X, Y)


@pytest.mark.usefixtures("unsaid")
def test_as_an_error_it_is_one_every_time(ledger):
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS).fit(X, Y)
    for _ in range(2):
        with pytest.raises(UnpaidRelease, match="no ledger is charged for"):
            model.score(X, Y)


@pytest.mark.usefixtures("unsaid")
def test_cross_validation_charges_every_fold_and_says_once_that_scores_are_not_paid_for(ledger):
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS)
    with pytest.warns(UnpaidRelease, match="no ledger is charged for") as said:
        cross_val_score(model, X, Y, cv=3)
    assert len(said) == 1
    assert charges(ledger) == 3


def _fitted(model):
    return model.fit(X, Y).coef_


@pytest.mark.slow
def test_processes_charge_one_ledger(ledger):
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS)
    found = Parallel(n_jobs=2)(delayed(_fitted)(clone(model)) for _ in range(4))
    assert len({tuple(each.ravel()) for each in found}) == 4
    assert charges(ledger) == 4
    ledger.verify()


def test_threads_charge_one_ledger(ledger):
    model = PrivateLogisticRegression("epsilon=1,delta=1e-6", ledger=ledger, **OPTIONS)
    found = Parallel(n_jobs=2, prefer="threads")(delayed(_fitted)(clone(model)) for _ in range(4))
    assert len({tuple(each.ravel()) for each in found}) == 4
    assert charges(ledger) == 4
    ledger.verify()
