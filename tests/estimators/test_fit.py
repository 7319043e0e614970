"""What a fit finds: the truth when epsilon is large, in the units of the data; and how it is read."""

import json

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")
pytest.importorskip("numba", reason="the extra `glm` is not installed")

from scipy.special import expit
from seeded_noise import SeededNoise
from sklearn.linear_model import HuberRegressor, LogisticRegression

from vestry import Posterior
from vestry.estimators import Ball, PrivateLinearRegression, PrivateLogisticRegression
from vestry.privacy import accountant
from vestry.privacy.guarantee import ApproxDP, Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.regression import default_penalty
from vestry.regression.losses import Huber, Logistic
from vestry.regression.problem import LinearProblem

LARGE = "epsilon=1000,delta=1e-6"
LOW, HIGH = np.array([0.0, -50.0, 100.0]), np.array([10.0, 50.0, 300.0])
METHODS = ("posterior", "objective", "output")


@pytest.fixture(autouse=True)
def _seeded(monkeypatch):
    """Tests of what is found are repeatable; those of privacy are elsewhere."""
    monkeypatch.setattr("vestry.estimators.private_fit.SystemNoise", lambda: SeededNoise(1))


def rows(count, seed=0):
    return np.random.default_rng(seed).uniform(LOW, HIGH, (count, 3))


def classes(count=4000):
    X = rows(count)
    eta = X @ [0.5, -0.04, 0.01] - 4.0
    return X, (np.random.default_rng(1).random(count) < expit(eta)).astype(int)


def numbers(count=2000):
    X = rows(count)
    noise = np.random.default_rng(1).normal(0, 1.0, count)
    return X, X @ [2.0, 0.1, -0.05] + 10.0 + noise


def logistic(method="objective", **options):
    common = {"guarantee": LARGE, "bounds": (LOW, HIGH), "classes": (0, 1), "ledger": None, "neighbours": "add-remove",
              "max_rows": 4000, "method": method, "draws": 10 if method == "posterior" else 1}  # fmt: skip
    return PrivateLogisticRegression(**{**common, **options})


def line(method="objective", **options):
    common = {"guarantee": LARGE, "bounds": (LOW, HIGH), "outcome_bounds": (-20, 40), "ledger": None,
              "neighbours": "add-remove", "max_rows": 3000, "method": method,
              "draws": 10 if method == "posterior" else 1}  # fmt: skip
    return PrivateLinearRegression(**{**common, **options})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.long
def test_logistic_coefficients_come_back_in_their_units(method):
    X, y = classes(4000)
    # Output perturbation weighs its noise by the penalty: a smaller one lets a huge epsilon show.
    options = {"output": {"guarantee": "mu=1e5"}, "posterior": {"prior_precision": 2.0}}.get(method, {})
    model, exact = logistic(method, **options).fit(X, y), LogisticRegression(C=1e6, max_iter=10_000).fit(X, y)
    scale = (HIGH - LOW) / 2
    assert model.coef_ * scale == pytest.approx(exact.coef_ * scale, abs=0.1)
    assert model.intercept_ == pytest.approx(exact.intercept_, abs=0.35)
    assert np.abs(exact.coef_ * scale).min() > 0.5, "zero would not pass"


@pytest.mark.parametrize("loss", ["huber", "pseudo-huber"])
@pytest.mark.parametrize("method", METHODS)
def test_linear_coefficients_come_back_in_their_units(method, loss):
    X, y = numbers()
    y[:20] = 1e6  # clipped, and of bounded weight
    options = {"guarantee": "mu=1e5"} if method == "output" else {}
    model = line(method, loss=loss, **options).fit(X, y)
    scale = (HIGH - LOW) / 2
    assert model.coef_ * scale == pytest.approx(np.array([2.0, 0.1, -0.05]) * scale, abs=0.6)
    inside = X[100:]
    assert model.predict(inside) == pytest.approx(inside @ model.coef_ + model.intercept_, abs=1e-9)
    assert model.score(inside, y[100:]) > 0.9


def test_huber_agrees_with_the_peer():
    X, y = numbers()
    scaled = (X - (LOW + HIGH) / 2) / ((HIGH - LOW) / 2)
    peer = HuberRegressor(epsilon=1.35, alpha=0.0, max_iter=10_000, tol=1e-9).fit(scaled, y)
    ours = line(threshold=1.35 * peer.scale_, guarantee="epsilon=1e5,delta=1e-6", regularisation=0.05).fit(X, y)
    assert ours.coef_ * (HIGH - LOW) / 2 == pytest.approx(peer.coef_, abs=0.02)


def test_without_an_intercept_the_line_goes_through_zero():
    X, y = rows(2000), rows(2000) @ [2.0, 0.1, 0.05]
    model = line(fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0
    assert model.predict(np.zeros((1, 3))) == pytest.approx([0.0])
    assert model.coef_ == pytest.approx([2.0, 0.1, 0.05], abs=0.05)


@pytest.mark.slow
def test_draws_have_the_spread_of_the_posterior():
    """Against the Laplace approximation: 400 draws know a spread to 3.5 %, and the chain is right to 5 %."""
    X, y = classes(1000)
    model = logistic("posterior", prior_precision=1.0, draws=400, guarantee="mu=1e4", max_rows=1000).fit(X, y)
    scaled = np.column_stack([(X - (LOW + HIGH) / 2) / ((HIGH - LOW) / 2), np.ones(len(X))])
    draws = np.column_stack([model.coefficients_[:, 0] * (HIGH - LOW) / 2, np.zeros(400)])[:, :3]
    centre = np.append(draws.mean(axis=0), model.intercept_[0] + model.coef_[0] @ ((LOW + HIGH) / 2))
    chance = expit(scaled @ centre)
    information = (scaled.T * (chance * (1 - chance))) @ scaled + np.eye(4)
    expected = np.sqrt(np.diag(np.linalg.inv(information)))[:3]
    assert draws.std(axis=0) == pytest.approx(expected, rel=0.15)


def test_several_draws_are_averaged_in_probability():
    X, y = classes(500)
    model = logistic("posterior", guarantee="epsilon=1,delta=1e-6", draws=5).fit(X, y)
    assert model.coefficients_.shape == (5, 1, 3)
    assert model.intercepts_.shape == (5, 1)
    eta = X @ model.coefficients_[:, 0].T + model.intercepts_[:, 0]
    chance = expit(eta).mean(axis=1)
    assert model.predict_proba(X) == pytest.approx(np.column_stack([1 - chance, chance]))
    assert expit(model.decision_function(X)) == pytest.approx(chance)
    assert np.array_equal(model.predict(X), (chance > 0.5).astype(int))
    assert np.abs(chance - expit(eta.mean(axis=1))).max() > 1e-3, "averaging predictors would be another thing"
    assert model.coef_ == pytest.approx(model.coefficients_.mean(axis=0))


def test_draws_cost_more_and_listen_less():
    X, y = classes(500)
    powers = []
    for draws in (1, 4):
        model = logistic("posterior", guarantee="epsilon=1,delta=1e-6", draws=draws).fit(X, y)
        powers.append(model.certificate_.value)
        assert model.spent_.epsilon == pytest.approx(1, rel=1e-3)
        assert model.certificate_.event["count"] == draws
    assert powers[0] == pytest.approx(2 * powers[1], rel=0.01)


@pytest.mark.parametrize(
    ("method", "penalty"), [("posterior", {"prior_precision": 20.0}), ("output", {"regularisation": 20.0})]
)
def test_several_classes(method, penalty):
    rng = np.random.default_rng(0)
    centres = {"a": (0, 2), "b": (2, -1), "c": (-2, -1)}
    y = rng.choice(list(centres), 1000)
    X = rng.normal(0, 0.6, (1000, 2)) + [centres[label] for label in y]
    model = PrivateLogisticRegression(
        "mu=50", bounds=Ball(4), classes=("b", "c", "a"), ledger=None, neighbours="replace", method=method, **penalty
    ).fit(X, y)
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.coef_.shape == (3, 2)
    assert model.intercept_.shape == (3,)
    assert model.score(X, y) > 0.9
    assert model.decision_function(X).shape == (1000, 3)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(1000))
    for place, centre in enumerate(centres.values()):
        assert model.predict([centre])[0] == model.classes_[place]
    tree = model.to_arviz()
    assert tree.posterior["coefficient"].dims == ("chain", "draw", "class", "feature")
    assert list(tree.posterior["class"].values) == ["a", "b", "c"]


def test_a_released_tree_names_its_dimensions_and_holds_no_data():
    pandas = pytest.importorskip("pandas")
    X, y = classes(300)
    frame = pandas.DataFrame(X, columns=["age", "change", "weight"])
    model = logistic("posterior", guarantee="epsilon=1,delta=1e-6", draws=3).fit(frame, y)
    tree = model.to_arviz()
    assert set(tree.children) == {"posterior"}
    assert dict(tree.posterior.sizes) == {"chain": 1, "draw": 3, "class": 1, "feature": 3}
    assert list(tree.posterior["feature"].values) == ["age", "change", "weight"]
    assert json.loads(tree.attrs["certificate"])["mechanism"] == "posterior"
    assert model.release_.labels == ("age", "change", "weight", "intercept")
    tree = line().fit(*numbers()).to_arviz()
    assert tree.posterior["coefficient"].dims == ("chain", "draw", "feature")
    assert tree.posterior["intercept"].dims == ("chain", "draw")


@pytest.mark.parametrize("method", METHODS)
def test_a_release_meets_what_was_asked_for(method):
    X, y = classes(300)
    model = logistic(method, guarantee="epsilon=1,delta=1e-6", draws=1).fit(X, y)
    assert model.certificate_.guarantee == {"epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove"}
    assert model.spent_ == ApproxDP(model.spent_.epsilon, 1e-6, neighbours="add-remove")
    assert 0.9 < model.spent_.epsilon <= 1


@pytest.mark.parametrize("intercept", [True, False])
def test_a_posterior_reads_the_release(intercept):
    """The release alone gives the coefficients back, in their units."""
    for model in (
        logistic("posterior", guarantee="epsilon=1,delta=1e-6", draws=2, fit_intercept=intercept).fit(*classes(300)),
        line(fit_intercept=intercept).fit(*numbers(300)),
    ):
        found = Posterior.from_release(model.release_).sample()["all"]
        own = model.coefficients_.reshape(len(found), -1)
        expected = np.column_stack([own, model.intercepts_]) if intercept else own
        assert found == pytest.approx(expected)


def problem(neighbours="add-remove", max_rows=1000, loss=None):
    return LinearProblem(loss or Logistic(), 11, 2.0, Adjacency(neighbours), max_rows)


@pytest.mark.parametrize(
    ("neighbours", "loss", "records"),
    [("add-remove", Logistic(), 1), ("replace", Logistic(), 1), ("replace", Huber(0.25), 2)],
)
def test_the_rule_gives_the_jacobian_a_quarter(neighbours, loss, records):
    given = problem(neighbours, loss=loss)
    found = default_penalty.regularisation(given, Guarantee.parse("epsilon=1,delta=1e-6"), "objective")
    assert records * np.log1p(given.smoothness / found) == pytest.approx(0.25)


def test_the_rule_bounds_how_noise_on_coefficients_moves_a_predictor():
    lam = default_penalty.regularisation(problem(), Guarantee.parse("epsilon=1,delta=1e-6"), "output")
    made = event("gaussian", sensitivity=2.0 / lam, scale=(1 / 3) / 2.0)
    assert accountant.epsilon(made, 1e-6) == pytest.approx(1, rel=1e-3)


def test_the_rule_bounds_the_number_of_steps():
    for method in ("objective", "output"):
        lam = default_penalty.regularisation(problem(max_rows=10**6), Guarantee.parse("epsilon=1e4,delta=0.1"), method)
        assert lam == pytest.approx(10**6 * problem().smoothness / 10_000)
    assert default_penalty.prior_precision(problem()) == pytest.approx(11 / 20)
    assert default_penalty.prior_precision(problem(max_rows=10**6)) == pytest.approx(100.0)
    assert default_penalty.prior_precision(problem(loss=Huber(0.25))) == pytest.approx(11)
