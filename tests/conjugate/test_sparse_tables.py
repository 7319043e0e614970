"""Tables of levels by default: what is recorded, what stays as it was, and what a declared prior does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from seeded_noise import SeededNoise

import vestry
from vestry.conjugate import dirichlet_posterior
from vestry.conjugate.dirichlet_categorical import DirichletCategorical, swamping
from vestry.conjugate.sparse_dirichlet import SparseDirichlet, SparsePrior, sparse_dirichlet
from vestry.errors import InvalidParameter
from vestry.model.request import Request
from vestry.naive_bayes.naive_bayes_model import NaiveBayes
from vestry.naive_bayes.naive_bayes_posterior import size_weights
from vestry.planning import Forecast, compare_mechanisms
from vestry.posterior.discrete_noise import Laplace
from vestry.posterior.mixture import DirichletMixture
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Certificate, NoisyStatistics, Release, open_release
from vestry.schema.domain import Levels
from vestry.schema.table_schema import TableSchema

CLAIM = Certificate({"epsilon": 0.2}, {"kind": "pure", "count": 1}, "laplace", "scale", 5.0, "", "row", {})
FLAT = (1.0, 1.0, 1.0, 1.0)
COUNTS = (812, 95, -3, 4)


def schema(levels: int = 4, relation: str = "add-remove") -> TableSchema:
    domains = {"x": Levels(*map(str, range(levels))), "y": Levels("n", "y")}
    return TableSchema(domains, Unit(), Neighbours.parse(relation))


def release(prior: tuple[float, ...], values: tuple[int, ...] = COUNTS) -> Release:
    noisy = NoisyStatistics(tuple(map(str, range(len(values)))), values, "discrete-laplace", 5.0)
    return Release({"name": "dirichlet-categorical", "categories": len(values)}, prior, {"all": noisy}, CLAIM)


def request(model, **more) -> Request:
    return Request(model, PureDP(0.2), "laplace", **more)


def test_a_table_without_a_prior_is_released_as_a_sparse_one(tmp_path):
    assert request(DirichletCategorical("x")).prepare(schema(), None).numbers == ()
    made = release(())
    assert isinstance(made.posterior().distributions["all"], SparseDirichlet)
    (tmp_path / "release.json").write_text(made.text())
    found = open_release(tmp_path / "release.json").posterior()
    assert found.rows() == made.posterior().rows()


def test_a_declared_prior_stays_a_fixed_one():
    assert request(DirichletCategorical("x", prior=FLAT)).prepare(schema(), None).numbers == FLAT
    assert isinstance(release(FLAT).posterior().distributions["all"], DirichletMixture)


def test_another_prior_is_free():
    assert release(FLAT).posterior(prior="sparse").rows() == release(()).posterior().rows()
    assert release(()).posterior(prior=FLAT).rows() == release(FLAT).posterior().rows()
    with pytest.raises(InvalidParameter, match=r"^prior must be one of sparse, not 'flat'"):
        release(()).posterior(prior="flat")


def test_no_numbers_are_not_a_prior():
    with pytest.raises(InvalidParameter, match=r"^prior must be a list of numbers"):
        DirichletCategorical("x", prior=()).check(schema().domains)


def test_two_levels_are_a_proportion_as_before():
    assert request(DirichletCategorical("y")).prepare(schema(), None).numbers == (1.0, 1.0)


def test_draws_come_from_a_fixed_prior():
    spend = Guarantee.parse("epsilon=1,delta=1e-6")
    made = Request(DirichletCategorical("x"), spend, "diffused", draws=1)
    assert made.prepare(schema(relation="replace"), 100).numbers == FLAT
    tables = Request(NaiveBayes(("x",)), PureDP(1.0), "ops", draws=1, truncation=0.01)
    assert tables.prepare(schema(), None).numbers == (1.0,)


@pytest.mark.parametrize(
    ("model", "definition"),
    [
        (DirichletCategorical("x"), "400d08773d42012b52c3ea35f37ffdba61dee7270dc90feadaa21ea202329838"),
        (NaiveBayes(("x",), "y"), "4b7acc3a70a442f6886f780934b433ba60838bcc6d4fbea1ab49ba9f2f7ab639"),
    ],
)
def test_a_question_without_a_prior_has_the_hash_that_0_1_0_gave_it(model, definition):
    assert request(model).definition(schema()) == definition


def test_naive_bayes_without_a_prior_is_recorded_as_sparse():
    assert request(NaiveBayes(("x",), "y")).prepare(schema(), None).numbers == ()
    assert request(NaiveBayes(("x",), "y", prior=1.0)).prepare(schema(), None).numbers == (1.0,)


def naive(prior, contents, levels=8):
    names = [str(place) for place in range(levels)]
    family = {"name": "naive-bayes", "target": "y", "classes": list(contents), "features": ["x"], "levels": [names]}
    made = {group: NoisyStatistics(tuple(names), values, "discrete-laplace", 5.0) for group, values in contents.items()}
    return Release(family, prior, made, CLAIM, "y", ("this y", *names))


@pytest.mark.long
def test_tables_of_naive_bayes_are_sparse():
    contents = {"n": (500, 100, 3, -4, 2, 0, 6, -1), "y": (90, 310, -2, 5, 0, 1, -6, 3)}
    aware, flat = naive((), contents).posterior(), naive((1.0,), contents).posterior()
    assert isinstance(aware.distributions["n"].parts[1], SparseDirichlet)
    assert isinstance(flat.distributions["n"].parts[1], DirichletMixture)
    low = aware.interval()["low"]
    assert np.all(low.loc["n"].to_numpy()[3:] == 0)  # levels without records
    assert aware.classify({"x": "1"})["y"] > 0.7


def test_a_record_that_no_class_may_have_is_classified_by_the_classes_alone():
    contents = {"n": (900, 300, -60, -40, 0, 0, 0, 0), "y": (300, 100, -60, -40, 0, 0, 0, 0)}
    found = naive((), contents).posterior().classify({"x": "2"})
    assert sum(found.values()) == pytest.approx(1)


def test_the_size_of_a_class_is_that_of_its_table():
    """A table of two used levels of forty: the sum of the used ones, within their noise."""
    z = np.array([700.0, 200.0, *SeededNoise(3).discrete_laplace([0] * 38, scale=5.0)])
    noise = Laplace(5.0)
    counts, logs = size_weights([z], alpha=1.0, noise=noise, sparse=[sparse_dirichlet(z, noise=noise)])
    weights = np.exp(logs - logs.max())
    mean = weights @ counts / weights.sum()
    deviation = math.sqrt(weights @ (counts - mean) ** 2 / weights.sum())
    assert 9 < deviation < 25
    assert abs(mean - 900) < 3 * deviation
    flat_counts, flat_logs = size_weights([z], alpha=1.0, noise=noise)
    assert flat_counts[np.argmax(flat_logs)] > 1000  # every empty level is credited with a noise scale


def test_draws_of_the_prior_are_tables_of_which_some_levels_never_occur():
    drawn = SparsePrior(40).draw(np.random.default_rng(1), 300)
    assert drawn.sum(axis=1) == pytest.approx(np.ones(300))
    assert np.all(drawn.max(axis=1) > 0)
    # a share of levels that is uniform never occurs
    assert abs((drawn == 0).mean() - 0.5) < 6 * math.sqrt(1 / 12 / 300)


@pytest.mark.long
def test_a_plan_simulates_sparse_tables():
    (found,) = compare_mechanisms(request(DirichletCategorical("x")), schema(12), expected_rows=1000)
    assert found.kl is None
    assert 0.5 < found.width / found.exact_width < 3
    (wide,) = compare_mechanisms(
        replace(request(DirichletCategorical("x")), guarantee=PureDP(0.02)), schema(12), expected_rows=1000
    )
    assert wide.width > 2 * found.width


def test_a_plan_warns_where_a_declared_prior_swamps_the_data():
    def note(model, levels=80, rows=5000):
        return model.caution(request(model).prepare(schema(levels), None), schema(levels), rows)

    words = "if most levels are empty, this prior puts about 479 of 5000 records on them; omit prior"
    assert note(DirichletCategorical("x", prior=(1.0,) * 80)) == words
    assert note(NaiveBayes(("x",), prior=1.0)) == words
    assert note(DirichletCategorical("x")) == ""
    assert note(NaiveBayes(("x",))) == ""
    assert note(DirichletCategorical("x", prior=(0.01,) * 80)) == ""
    assert note(DirichletCategorical("y", prior=(1.0, 1.0)), rows=20) == ""


@pytest.mark.long
def test_a_caution_stands_in_the_note_of_a_forecast():
    assert Forecast("laplace", "scale", 5.0, 0.3, 0.1, caution="omit prior").note == (
        "privacy more than doubles the width; omit prior"
    )
    (found,) = compare_mechanisms(request(DirichletCategorical("y", prior=(1.0, 1.0))), schema(), expected_rows=1000)
    assert found.note == ""


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "alpha", "swamps"), [(80, 1.0, True), (80, 0.05, False), (6, 1.0, False)])
def test_what_swamps_covers_less_than_half(levels, alpha, swamps):
    """One level with half of 5,000 records and one with the rest: its interval, over 40 tables.

    By chance fewer than 21 of 40 cover where .9 do, or more where less than .05 do: below 1e-6.
    """
    rng, noise, covered = np.random.default_rng(5), Laplace(5.0), 0
    assert bool(swamping((alpha,) * levels, 5.0 * math.sqrt(2), 5000)) == swamps
    for _ in range(40):
        z = np.zeros(levels) + rng.geometric(1 - math.exp(-0.2), levels) - rng.geometric(1 - math.exp(-0.2), levels)
        first = rng.binomial(5000, 0.5)
        z[:2] += [first, 5000 - first]
        found = dirichlet_posterior.private_count(z, alphas=np.full(levels, alpha), noise=noise)
        low, high = found.marginal(0).interval(0.9)
        covered += low <= 0.5 <= high
    assert (covered <= 20) == swamps


@pytest.mark.long
def test_a_release_from_python_is_sparse(tmp_path):
    import pandas as pd

    ledger = vestry.Ledger.create(
        tmp_path / "a.ledger", dataset="a", unit="row", neighbours="add-remove", budget="epsilon=1"
    )
    frame = pd.DataFrame({"x": ["0"] * 60 + ["1"] * 40})
    table = vestry.Table(frame, {"x": Levels(*map(str, range(30)))}, unit="row", neighbours="add-remove")
    found = vestry.release(DirichletCategorical("x"), table, guarantee=PureDP(1.0), ledger=ledger)
    high = found.interval()["high"].to_numpy()
    assert np.all(high[2:] < 0.1)
    assert found.interval()["low"].to_numpy()[2:] == pytest.approx(np.zeros(28), abs=0.02)
