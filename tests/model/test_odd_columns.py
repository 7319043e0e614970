"""Columns of any name and number: a posterior's file holds them, a ledger's line names them, a mistake is told."""

from __future__ import annotations

import numpy as np
import pytest

import vestry
from vestry.conjugate.normal_mean import NormalMean
from vestry.errors import InvalidParameter
from vestry.hmm.hmm_model import HiddenMarkovModel
from vestry.model.request import purpose_of
from vestry.naive_bayes.naive_bayes_model import NaiveBayes
from vestry.posterior import Posterior
from vestry.posterior.arviz_tree import Names
from vestry.regression.logistic_model import LogisticRegression
from vestry.releases import Certificate, NoisyStatistics, Release

CLAIM = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", 1.0, "", "row", {})
NAMES = ["a/b", "/", ".", "a_level", "chain", "draw", " a", "é\t漢", "class_probability", "a" * 500, "x:y", "a\\b", "%"]


def classes(features, target="class", levels=("4", "5")):
    """Make a release of naive Bayes with two levels for each feature."""
    family = {"name": "naive-bayes", "target": target, "classes": ["x", "y"], "features": features,
              "levels": [list(levels) for _ in features]}  # fmt: skip
    values = tuple(range(20, 20 + 2 * len(features)))
    counts = NoisyStatistics(tuple(map(str, values)), values, "discrete-laplace", 2.0)
    labels = (f"this {target}", *(f"{f}: {level}" for f in features for level in levels))
    return Release(family, (1.0,), {"x": counts, "y": counts}, CLAIM, target, labels)


@pytest.mark.parametrize("target", ["class", "a/b", "a_level", "chain", "draw"])
@pytest.mark.long
def test_a_posterior_file_holds_columns_of_any_name(target, tmp_path):
    features = [name for name in ["a", *NAMES] if name != target]
    posterior = Posterior.from_release(classes(features, target), method="plug-in")
    tree = posterior.to_arviz(np.random.default_rng(1), draws=5)
    tree.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    assert len(tree["posterior"].data_vars) == len(features) + 1


def test_names_are_given_once():
    named = Names("chain")
    assert [named(name) for name in ("a/b", "a_b", "chain", "", ".x")] == ["a_b", "a_b_", "chain_", "_", "_.x"]


@pytest.mark.parametrize("level", [4, "4", 4.0, np.int64(4), np.float64(4)])
def test_a_level_is_found_as_it_was_declared(level):
    posterior = Posterior.from_release(classes(["bbin"]), method="plug-in")
    found = posterior.classify({"bbin": level})
    assert found == posterior.classify({"bbin": "4"})


@pytest.mark.parametrize("level", [True, np.True_])
def test_a_truth_value_is_a_level(level):
    posterior = Posterior.from_release(classes(["bbin"], levels=("false", "true")), method="plug-in")
    assert set(posterior.classify({"bbin": level})) == {"x", "y"}
    with pytest.raises(InvalidParameter, match="a level of bbin must be one of false, true, not 1"):
        posterior.classify({"bbin": 1})


MANY = tuple(f"column {place}" for place in range(298))


@pytest.mark.parametrize(
    "model",
    [
        NaiveBayes(MANY, "class"),
        HiddenMarkovModel({"region": "r", "time": "t"}, MANY),
        LogisticRegression(outcome="o", predictors=MANY),
        NormalMean(MANY, 1.0, (0.0, 1.0)),
    ],
    ids=lambda model: model.name,
)
def test_a_question_about_many_columns_is_one_line(model):
    assert "286 more" in model.question()
    assert len(model.question()) < 400


def test_a_purpose_is_one_line_that_a_ledger_can_write():
    assert purpose_of("The probability that a\tb is c\x1b") == "The probability that a b is c"
    assert len(purpose_of("é" * 5000)) == 900


@pytest.fixture
def table(tmp_path):
    (tmp_path / "answers.csv").write_text("a,b\n" + "yes,no\n" * 20)
    two = vestry.Levels("no", "yes")
    return vestry.Table(str(tmp_path / "answers.csv"), {"a": two, "b": two}, neighbours="add-remove")


@pytest.mark.parametrize(
    ("model", "fragment"),
    [
        (
            vestry.BetaBernoulli("a", success="yes", by=["b", "b"]),
            r"by must be a column, or a list of columns, each once, not \['b', 'b'\]",
        ),
        (vestry.BetaBernoulli(["a"], success="yes"), "a column must be its name, not"),
        (vestry.BetaBernoulli(7, success="yes"), "a column must be its name, not 7"),
        (HiddenMarkovModel({"region": "a"}, ("b",)), "a model must be one whose columns are named"),
        ("beta-bernoulli", "a model must be one whose columns are named, not 'str'"),
    ],
)
def test_a_model_with_odd_columns_is_told(model, fragment, table, tmp_path):
    ledger = vestry.Ledger.create(
        str(tmp_path / "d.ledger"), dataset="d", unit="row", neighbours="add-remove", budget="epsilon=1"
    )
    with pytest.raises(InvalidParameter, match=fragment):
        vestry.release(model, table, guarantee="epsilon=1", ledger=ledger)
    assert not list(ledger.charges())
