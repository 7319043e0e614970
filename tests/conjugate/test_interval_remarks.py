"""Which intervals say of themselves, in their own row, that they may not be calibrated."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from report.example import laplace, result, story
from scipy.stats import norm
from typer.testing import CliRunner

from vestry.cli import app
from vestry.conjugate.family import family_from
from vestry.conjugate.interval_family import RESTS_ON_PRIOR, rests_on_prior
from vestry.conjugate.normal_inverse_gamma import MeanVariance, NormalInverseGamma
from vestry.conjugate.normal_inverse_gamma_posterior import MeanVarianceMixture
from vestry.conjugate.normal_mean import NormalMean
from vestry.conjugate.sparse_dirichlet import FAINT
from vestry.model.request import Request
from vestry.privacy.guarantee import PureDP
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import NoisyStatistics, Release
from vestry.report.page import page
from vestry.schema.domain import Interval
from vestry.schema.table_schema import TableSchema

CLAIM = laplace(0.2)
COUNTS = (812, 95, -3, 24, 25)


def table(prior=(), counts=COUNTS, **more) -> Release:
    names = tuple(f"code {place}" for place in range(len(counts)))
    noisy = NoisyStatistics(names, counts, "discrete-laplace", 5.0)
    family = {"name": "dirichlet-categorical", "categories": len(counts)}
    return Release(family, prior, {"all": noisy}, CLAIM, labels=names, **more)


def notes(posterior) -> list[str]:
    return [row.get("note", "") for row in posterior.rows()]


@functools.cache
def sparse():
    return table().posterior()


def test_levels_below_five_noise_scales_say_so():
    posterior = sparse()
    assert notes(posterior) == ["", "", FAINT, FAINT, ""]
    assert list(posterior.summary()["note"]) == notes(posterior)


def test_the_tree_of_draws_says_it_too():
    attributes = sparse().to_arviz(np.random.default_rng(1), chains=1, draws=2).attrs
    assert json.loads(attributes["remarks"]) == {FAINT: ["probability[code 2]", "probability[code 3]"]}
    many = table(counts=(812, *(0,) * 120)).posterior().to_arviz(np.random.default_rng(1), chains=1, draws=2).attrs
    (named,) = json.loads(many["remarks"]).values()
    assert len(named) == 101
    assert named[-1] == "and 20 more"


def test_no_other_table_says_it():
    assert notes(table((1.0,) * 5).posterior()) == [""] * 5
    assert notes(table().posterior(method="plug-in")) == [""] * 5
    assert notes(table((1.0, 1.0), (3, 4)).posterior()) == ["", ""]
    assert "remarks" not in table((1.0,) * 5).posterior().to_arviz(np.random.default_rng(1), chains=1, draws=2).attrs


def test_tables_of_naive_bayes_say_it():
    family = {"name": "naive-bayes", "features": ["x", "y"], "levels": [["a", "b", "c"], ["n", "y"]],
              "target": None, "classes": []}  # fmt: skip
    noisy = NoisyStatistics(tuple("abcny"), (600, 24, 300, 3, 900), "discrete-laplace", 5.0)
    assert notes(Release(family, (), {"all": noisy}, CLAIM).posterior()) == ["", FAINT, "", "", ""]


@pytest.mark.long
def test_terminal_and_report_show_it_in_the_level_s_row(tmp_path):
    made = table()
    (tmp_path / "release.json").write_text(made.text())
    shown = CliRunner().invoke(app, ["posterior", str(tmp_path / "release.json")]).output
    assert [FAINT in line for line in shown.splitlines() if "code" in line] == [False, False, True, True, False]
    assert page(story(result("codes", "Which code?", made))).count(FAINT) == 2


def released(model, epsilon: float, n: int) -> Release:
    """Return a release of n records of mean 20 and variance 16 whose noise came out as 0."""
    schema = TableSchema({"x": Interval(0, 60)}, Unit(), Neighbours.REPLACE)
    made = Request(model, PureDP(epsilon), "laplace").prepare(schema, n)
    family, mechanism = family_from(made.described), made.mechanism
    sums = [20.0 * n, 416.0 * n][: len(mechanism.layout.names)]
    units = family.to_units(mechanism.layout, sums, n)
    noisy = NoisyStatistics(
        mechanism.layout.names, tuple(units), "discrete-laplace", mechanism.value, mechanism.layout.grid, count=n
    )
    return Release(dict(made.described), made.numbers, {"all": noisy}, CLAIM)


@pytest.mark.parametrize(
    ("scale", "n", "says"),
    [
        (100.0, 1_000, True),  # measured: 90 % intervals cover .83
        (25.0, 1_000, False),
        (100.0, 20_000, False),
    ],
)
def test_a_variance_says_that_its_prior_is_far_off(scale, n, says):
    model = NormalInverseGamma("x", prior=(30.0, 0.1, 2.0, scale))
    assert notes(released(model, 1.0, n).posterior()) == ["", RESTS_ON_PRIOR if says else ""]


@pytest.mark.parametrize(("spread", "says"), [(0.05, True), (900.0, False)])
def test_a_mean_says_that_its_prior_is_far_off(spread, says):
    posterior = released(NormalMean("x", variance=16.0, prior=(30.0, spread)), 1.0, 1_000).posterior()
    assert notes(posterior) == [RESTS_ON_PRIOR if says else ""]


@pytest.mark.parametrize("index", [0, 1])
def test_slopes_are_those_of_the_prior_s_log_density(index):
    numbers, step = (30.0, 0.1, 2.0, 100.0), 1e-4
    prior = MeanVariance(*numbers)
    alone = MeanVarianceMixture(np.ones(1), *(np.array([each]) for each in numbers)).marginal(index)
    for x in (3.0, 16.0, 70.0):
        low, high = alone.log_density(np.array([x - step, x + step]))
        assert prior.slope(index, x) == pytest.approx((high - low) / (2 * step), rel=1e-5)


def test_what_is_said_begins_where_an_interval_covers_less_than_87_percent():
    for moved in (0.3, 0.44, 0.46, 0.67):
        covers = norm.cdf(norm.ppf(0.95) - moved) - norm.cdf(-norm.ppf(0.95) - moved)
        assert bool(rests_on_prior([-moved / 2, moved / 4], 2.0)) == (covers < 0.8655)
