"""Groups that learn from each other: in Python, in study files and by command; free, and not a new question."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from closed_engines import closed_engines
from study.fault_study import actions, study_in, vestry

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.conjugate.gamma_poisson import GammaPoisson
from vestry.conjugate.normal_mean import NormalMean
from vestry.conjugate.pooled_gamma import pooled_gamma
from vestry.errors import InvalidParameter
from vestry.model.request import Request
from vestry.persons.person_average import PersonAverage
from vestry.posterior.discrete_noise import Laplace
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Certificate, Draws, NoisyStatistics, Release
from vestry.schema.domain import Interval, Levels
from vestry.schema.table_schema import TableSchema

CLAIM = Certificate({"epsilon": 0.5}, {"kind": "pure", "count": 1}, "laplace", "scale", 2.0, "", "row", {})
PAIRS = {"A": (6, 20), "B": (1, 1), "C": (3, 9), "D": (4, 11), "E": (9, 18), "F": (30, 6)}
DOMAINS = {"ill": Levels("no", "yes"), "ward": Levels("A", "B"), "stay": Interval(0, 20), "days": Interval(-10, 10)}


def noisy(values, **more):
    return NoisyStatistics(("first", "second"), tuple(values), "discrete-laplace", 2.0, **more)


def proportions(pairs=PAIRS):
    contents = {group: noisy(values) for group, values in pairs.items()}
    return Release({"name": "beta-bernoulli"}, (1.0, 1.0), contents, CLAIM, "ward")


def means():
    family = {"name": "normal-mean", "variance": 4.0, "low": -10.0, "high": 10.0, "dimension": 1}
    sums = {"A": (300, 120), "B": (-150, 60), "C": (40, 30), "D": (500, 200)}
    contents = {group: noisy(values, grid=0.1, count_grid=0.25) for group, values in sums.items()}
    return Release(family, (0.0, 100.0), contents, CLAIM, "ward")


def rates():
    sums = {"A": (60, 120), "B": (15, 40), "C": (9, 30), "D": (80, 200)}
    contents = {group: noisy(values, count_grid=0.25) for group, values in sums.items()}
    return Release({"name": "gamma-poisson", "high": 9}, (1.0, 1.0), contents, CLAIM, "ward")


@pytest.fixture(scope="module")
def pooled():
    return proportions().posterior(pool=True)


def width(found):
    interval = found.interval()
    return (interval["high"] - interval["low"]).to_numpy()


@pytest.mark.long
def test_small_groups_learn_most():
    made = proportions({"A": (6, 20), "B": (1, 1), "C": (8, 25), "D": (4, 16), "E": (9, 30), "F": (5, 14)})
    shorter = width(made.posterior(pool=True)) / width(made.posterior())
    assert shorter[1] == shorter.min() < 0.6  # two noisy records
    assert np.all(shorter < 1)


def test_a_pooled_posterior_says_so(pooled):
    assert pooled.label == "pooled noise-aware"
    assert repr(pooled) == "<pooled noise-aware posterior: probability in 6 groups by ward>"


@pytest.mark.parametrize("make", [means, rates])
def test_means_and_rates_are_pooled_towards_each_other(make):
    found, alone = make().posterior(pool=True), make().posterior()
    ours, theirs = (each.summary()["mean"].to_numpy() for each in (found, alone))
    assert np.ptp(ours) < np.ptp(theirs)
    assert list(found.population().columns) == ["mean", "sd", "low", "high"]


def test_means_are_counted_from_the_middle_of_the_interval():
    """The same records on an interval that lies 50 higher: every mean is 50 higher."""
    low, made = means(), means()
    high = replace(made, family={**made.family, "low": 40.0, "high": 60.0}, prior=(50.0, 100.0))
    ours, theirs = (each.posterior(pool=True) for each in (high, low))
    difference = ours.summary()["mean"] - theirs.summary()["mean"]
    assert difference.to_numpy() == pytest.approx(np.full(4, 50.0))
    centres = [each.population().loc["mean", "mean"] for each in (ours, theirs)]
    assert centres[0] - centres[1] == pytest.approx(50.0)


def test_a_count_in_fractions_is_read_in_records():
    found = rates().posterior(pool=True).reader.groups
    ours = pooled_gamma([60, 15, 9, 80], [30, 10, 7.5, 50], noise=Laplace(2.0), exposure_noise=Laplace(0.5))
    assert found.means == pytest.approx(ours.means)
    assert found.weights == pytest.approx(ours.weights)


def test_a_group_without_records_has_the_population():
    """Its exposure is nothing, so that its rate is that of a new group, but for what its noisy count allows."""
    found = pooled_gamma([90, 110, 100, 0], [50, 50, 50, -9], noise=Laplace(2.0), exposure_noise=Laplace(0.5))
    new = found.member(0, 0)
    assert found.group(3).mean() == pytest.approx(new.mean(), rel=0.1)
    assert found.group(3).variance() > 2 * found.group(0).variance()


def test_the_population_is_shown(pooled):
    found = pooled.population()
    assert list(found.index) == ["mean", "concentration", "rho", "shape", "size"]
    row = found.loc["mean"]
    assert 0 < row["low"] < row["mean"] < row["high"] < 1
    weights, values = (pooled.reader.population()[key] for key in ("weight", "mean"))
    assert row["mean"] == pytest.approx(weights @ values)
    assert weights[values < row["low"]].sum() == pytest.approx(0.05, abs=0.02)


def test_groups_depend_on_each_other():
    """Two groups without records rise and fall together with the population's mean."""
    found = proportions({"A": (2, 3), "B": (3, 2), "C": (-2, -3), "D": (-3, -2)}).posterior(pool=True)
    drawn = found.sample(4000, np.random.default_rng(1))
    assert np.corrcoef(drawn["C"][:, 0], drawn["D"][:, 0])[0, 1] > 0.15
    difference = found.contrast("C", "D", rng=np.random.default_rng(2), draws=4000)["sd"].iloc[0]
    assert difference < 0.95 * np.hypot(drawn["C"].std(), drawn["D"].std())


def test_ranks_have_probabilities(pooled):
    found = pooled.ranks(rng=np.random.default_rng(1), draws=2000).droplevel("parameter")
    assert found["prob_largest"].sum() == pytest.approx(1)
    assert found["prob_smallest"].sum() == pytest.approx(1)
    assert found["mean"].mean() == pytest.approx(3.5)
    assert found["mean"].idxmin() == "F"
    assert found.loc["F", "prob_largest"] > 0.7
    assert (found["low"] <= found["mean"]).all()


def test_ranks_count_draws(monkeypatch):
    draws = np.array([[0.3, 0.1, 0.2], [0.3, 0.2, 0.1], [0.1, 0.2, 0.3], [0.3, 0.1, 0.2]])
    found = proportions({"A": (1, 1), "B": (1, 1), "C": (1, 1)}).posterior()
    monkeypatch.setattr(
        type(found), "_sample", lambda self, groups, size, rng: dict(zip("ABC", draws.T[:, :, None], strict=True))
    )
    ranks = found.ranks()
    assert ranks["mean"].tolist() == [1.5, 2.5, 2.0]
    assert ranks["prob_largest"].tolist() == [0.75, 0, 0.25]
    assert ranks["prob_smallest"].tolist() == [0.25, 0.5, 0.25]


def test_what_cannot_be_pooled_is_refused():
    with pytest.raises(InvalidParameter, match=r"^pool must be asked of noisy statistics by group"):
        replace(proportions({"all": (3, 4)}), by=None).posterior(pool=True)
    draws = replace(proportions(), contents={group: Draws(((0.5,),), 2.0**-40) for group in "AB"})
    with pytest.raises(InvalidParameter, match=r"^pool must be asked of noisy statistics by group, not 'draws'"):
        draws.posterior(pool=True)
    tables = Release(
        {"name": "dirichlet-categorical", "categories": 3},
        (),
        {group: NoisyStatistics(("a", "b", "c"), (1, 2, 3), "discrete-laplace", 2.0) for group in "AB"},
        CLAIM,
        "ward",
    )
    with pytest.raises(InvalidParameter, match=r"^pool must be asked of beta-bernoulli, normal-mean or gamma-poisson"):
        tables.posterior(pool=True)
    for more in ({"prior": (2.0, 2.0)}, {"method": "plug-in"}):
        with pytest.raises(InvalidParameter, match=r"^pool must be alone: the population is learnt"):
            proportions().posterior(pool=True, **more)
    with pytest.raises(InvalidParameter, match=r"^population must be asked of pooled groups"):
        proportions().posterior().population()
    loud = {group: replace(noisy((900, 2000)), scale=301.0) for group in "AB"}
    for made in (replace(proportions(), contents=loud), replace(rates(), contents=loud)):
        with pytest.raises(InvalidParameter, match=r"^pool must be asked where it is at most 300, not 'noise of scale"):
            made.posterior(pool=True)
    mixed = replace(proportions(), contents={"A": noisy((1, 2)), "B": replace(noisy((1, 2)), scale=3.0)})
    with pytest.raises(InvalidParameter, match=r"^pool must be groups of one noise"):
        mixed.posterior(pool=True)


SCHEMA = TableSchema(DOMAINS, Unit(), Neighbours.parse("add-remove"))
MODELS = (
    BetaBernoulli("ill", success="yes", by="ward"),
    GammaPoisson("stay", by="ward"),
    NormalMean("days", variance=4.0, prior=(0.0, 9.0), by="ward"),
)


@pytest.mark.parametrize("model", MODELS)
def test_pooling_is_not_part_of_the_question(model):
    asked, pooled = (Request(each, PureDP(0.5), "laplace") for each in (model, replace(model, pool=True)))
    assert asked.definition(SCHEMA) == pooled.definition(SCHEMA)
    assert asked.prepare(SCHEMA, None).numbers == pooled.prepare(SCHEMA, None).numbers
    assert "differ as the prior says; pooled" in replace(model, pool=True).caution(None, SCHEMA, 10)
    assert model.caution(None, SCHEMA, 10) == ""


@pytest.mark.parametrize(
    "model",
    [
        BetaBernoulli("ill", success="yes", pool=True),
        BetaBernoulli("ill", success="yes", by="ward", pool="yes"),
        NormalMean(("days", "stay"), variance=4.0, prior=(0.0, 9.0), by="ward", pool=True),
    ],
)
def test_pool_stands_beside_by(model):
    with pytest.raises(InvalidParameter, match=r"^pool must be true beside by, for one column, or false"):
        model.check(DOMAINS)
    with pytest.raises(InvalidParameter, match=r"^pool must be true beside by, for one column, or false"):
        Request(model, PureDP(0.5), "laplace").prepare(SCHEMA, None)


def test_draws_and_persons_are_not_pooled():
    model = BetaBernoulli("ill", success="yes", by="ward", pool=True)
    with pytest.raises(InvalidParameter, match=r"^pool must be omitted for draws"):
        Request(model, Guarantee.parse("epsilon=1,delta=1e-6"), "diffused", draws=1).prepare(SCHEMA, None)
    with pytest.raises(InvalidParameter, match=r"^pool must be omitted for averages over persons"):
        PersonAverage(model)


# Studies and the command line


@pytest.mark.long
def test_the_command_prints_population_and_ranks(tmp_path):
    file = tmp_path / "release.json"
    file.write_text(proportions().text())
    done = vestry("posterior", file, "--pool")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "pooled: groups learn from each other; a group unlike all others is drawn towards them."
    assert "the population:" in lines
    assert "ranks, 1 the largest:" in lines
    found = json.loads(vestry("posterior", file, "--pool", "--json").out)
    assert found["posterior"] == "pooled noise-aware"
    assert {row["parameter"] for row in found["population"]} == {"mean", "concentration", "rho", "shape", "size"}
    assert [row["group"] for row in found["ranks"]] == list(PAIRS)


@pytest.mark.long
def test_a_study_pools_later_for_free(tmp_path):
    """Released alone, then `pool = true` is written into the file: nothing is charged, and the page says it."""
    with closed_engines():
        study = study_in(tmp_path)
        head = study.read_text().partition("[release.")[0]
        body = '[release.stay]\nmodel = "beta-bernoulli"\ncolumn = "readmitted"\nsuccess = "yes"\nby = "ward"\n'
        study.write_text(head + body + "spend = { epsilon = 0.1 }\n")
        first = json.loads(vestry("release", study, "--yes", "--json").out)
        before = actions(tmp_path)
        page = (tmp_path / "report.html").read_text()
        assert "What the groups have in common" not in page
        study.write_text(head + body + "spend = { epsilon = 0.1 }\npool = true\n")
        second = json.loads(vestry("release", study, "--json").out)
        assert actions(tmp_path) == before
        assert second["releases"][0]["done"] == "released before, free"
        ours, theirs = (each["releases"][0]["summary"] for each in (second, first))
        assert ours != theirs
        page = (tmp_path / "report.html").read_text()
        for words in ("What the groups have in common", "The groups learn from each other", "P(largest)"):
            assert words in page
        study.write_text(head + body + "spend = { epsilon = 0.1 }\n")
        third = json.loads(vestry("release", study, "--json").out)
        assert third["releases"][0]["summary"] == theirs
