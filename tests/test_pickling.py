"""A release of every model in the registry, and its posterior, survive pickling."""

import pickle

import numpy as np
import pandas as pd
import pytest

from vestry import Interval, Ledger, Levels, Table, open_release, release
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.conjugate.dirichlet_categorical import DirichletCategorical
from vestry.conjugate.gamma_exponential import GammaExponential
from vestry.conjugate.gamma_poisson import GammaPoisson
from vestry.conjugate.normal_inverse_gamma import NormalInverseGamma
from vestry.conjugate.normal_mean import NormalMean
from vestry.conjugate.statistical_query import StatisticalQuery
from vestry.data_quality.quality_model import Quality
from vestry.hmm.hmm_model import HiddenMarkovModel
from vestry.levels.level_discovery import LevelDiscovery
from vestry.naive_bayes.naive_bayes_model import NaiveBayes
from vestry.registry import MODELS
from vestry.regression.linear_model import LinearRegression
from vestry.regression.logistic_model import LogisticRegression
from vestry.regression.moment_posterior import LinearisedFittedValues, SampledFittedValues
from vestry.regression.moment_reader import MomentReader
from vestry.regression.moments import Moments, NumberColumn
from vestry.regression.poisson_model import PoissonRegression
from vestry.releases import NoisyStatistics
from vestry.schema.design_matrix import HALF
from vestry.tables.contingency_table import ContingencyTable
from vestry.tables.histogram import Histogram
from vestry.tables.quantiles import Quantiles
from vestry.tables.record_count import RecordCount

ROWS = 400
DOMAINS = {
    "ill": Levels("no", "yes"),
    "ward": Levels("A", "B"),
    "week": Levels("1", "2", "3"),
    "age": Interval(0, 100),
    "stay": Interval(1, 10),
    "falls": Interval(0, 5),
    "share": Interval(0, 1),
}
DIFFUSED = {"mechanism": "diffused", "draws": 1}
# Of each model what is asked, and how. Regressions have a case for each kind of posterior.
CASES = {
    "beta-bernoulli": (BetaBernoulli("ill", success="yes", by="ward"), {}),
    "beta-bernoulli, pooled": (BetaBernoulli("ill", success="yes", by="ward", pool=True), {}),
    "beta-bernoulli, drawn": (BetaBernoulli("ill", success="yes", prior=(8.0, 8.0)), DIFFUSED),
    "dirichlet-categorical": (DirichletCategorical("ward"), {}),
    "normal-mean": (NormalMean("age", variance=400.0, prior=(50.0, 900.0)), {}),
    "gamma-poisson": (GammaPoisson("falls"), {}),
    "gamma-exponential": (GammaExponential("stay"), {}),
    "normal-inverse-gamma": (NormalInverseGamma("age", prior=(50.0, 1.0, 2.0, 400.0)), {}),
    "statistical-query": (StatisticalQuery("share", prior=(8.0, 8.0)), DIFFUSED),
    "logistic": (LogisticRegression(outcome="ill", success="yes", predictors=("age",), method="output"), {}),
    "logistic, table": (LogisticRegression(outcome="ill", success="yes", predictors=("ward",), method="table"), {}),
    "poisson": (PoissonRegression(outcome="falls", predictors=("ward",)), {}),
    "linear": (LinearRegression(outcome="stay", predictors=("age",)), {}),
    "linear, output": (LinearRegression(outcome="stay", predictors=("age",), method="output"), {}),
    "naive-bayes": (NaiveBayes(("ward",), "ill"), {}),
    "hmm": (HiddenMarkovModel({"region": "ward", "time": "week"}, ("ill",)), {}),
    "quality": (Quality(("ward", "age")), {}),
    "count": (RecordCount(by="ward"), {}),
    "table": (ContingencyTable(("ward", "ill")), {}),
    "histogram": (Histogram("age", bins=5), {}),
    "quantile": (Quantiles("age", bins=5), {}),
    "levels": (LevelDiscovery("free"), {}),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {
        "ill": rng.choice(["no", "yes"], ROWS),
        "ward": rng.choice(["A", "B"], ROWS),
        "week": rng.choice(["1", "2", "3"], ROWS),
        "age": rng.uniform(0, 100, ROWS),
        "stay": rng.uniform(1, 10, ROWS),
        "falls": rng.integers(0, 5, ROWS),
        "share": rng.uniform(0, 1, ROWS),
        "free": rng.choice(["x", "y"], ROWS),
    }
    return Table(pd.DataFrame(columns), DOMAINS, neighbours="replace")


def unpickled(value):
    return pickle.loads(pickle.dumps(value))


def check_same_draws(first, second):
    """Check that two posteriors give the same draws for the same seed."""
    expected = second.sample(rng=np.random.default_rng(1))
    drawn = first.sample(rng=np.random.default_rng(1))
    assert drawn.keys() == expected.keys()
    for group, values in drawn.items():
        assert np.array_equal(values, expected[group])


def test_every_model_has_a_case():
    assert {model.name for model, _ in CASES.values()} == set(MODELS)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_releases_and_posteriors_survive_pickling(name, table, tmp_path):
    model, options = CASES[name]
    budget = "epsilon=1000,delta=1e-3"
    ledger = Ledger.create(tmp_path / "ledger", dataset="d", unit="row", neighbours="replace", budget=budget)
    path = tmp_path / "release.json"
    posterior = release(model, table, guarantee="epsilon=100,delta=1e-6", ledger=ledger, path=path, **options)
    assert unpickled(open_release(path)) == open_release(path)
    check_same_draws(unpickled(posterior), posterior)


@pytest.mark.parametrize(("sd", "kind"), [(0.1, LinearisedFittedValues), (20.0, SampledFittedValues)])
def test_each_computation_of_a_linear_regression_survives_pickling(sd, kind):
    """The closed form, and draws of the Gram matrix where the noise is not small beside it."""
    moments = Moments((NumberColumn("age", 0.0, 1.0), NumberColumn("stay", 0.0, 2.0)))
    reader = MomentReader(moments, "stay", ("age",), 1.0)
    sums = (20, 10, 133, 60, 50)  # of age, stay and their products, over 400 records
    values = tuple(HALF * number for number in sums)
    statistics = NoisyStatistics(moments.names[:-1], values, "discrete-gaussian", sd * HALF, grid=1 / HALF, count=400)
    posterior = reader.noise_aware(statistics)
    assert isinstance(posterior.fitted, kind)
    again = unpickled(posterior)
    draws = posterior.draw(np.random.default_rng(1), 50)
    assert np.array_equal(again.draw(np.random.default_rng(1), 50), draws)
    assert again.marginal(-1).mean() == posterior.marginal(-1).mean()
