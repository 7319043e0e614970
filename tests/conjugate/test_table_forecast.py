"""What a plan expects of tables of levels: sums by hand, simulated noise, and the posteriors themselves.

Means over simulated noise are held to six standard errors, and reject a tenth more or less. Posteriors are compared at
the tables that the plan made up, so that what differs between tables cancels: these leave 2 % of error, and 15 % are
allowed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from vestry.conjugate import table_forecast
from vestry.conjugate.dirichlet_posterior import private_count
from vestry.conjugate.sparse_dirichlet import SparsePrior, sparse_dirichlet
from vestry.conjugate.table_forecast import released_width, table_widths
from vestry.model.request import Request
from vestry.naive_bayes.naive_bayes_model import NaiveBayes
from vestry.posterior.discrete_noise import Laplace
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Levels
from vestry.schema.table_schema import TableSchema
from vestry.tables.contingency_table import ContingencyTable

pytestmark = pytest.mark.oracle
DOMAINS = {
    "yes": Levels("n", "y"),
    "ward": Levels("A", "B", "C"),
    "kind": Levels(*(f"k{place}" for place in range(9))),
}


def schema(relation: str = "add-remove") -> TableSchema:
    return TableSchema(DOMAINS, Unit(), Neighbours.parse(relation))


def prepared(model, spend: str = "epsilon=0.5", mechanism: str = "laplace", relation: str = "add-remove", **more):
    asked = Request(model, Guarantee.parse(spend, neighbours=relation), mechanism, **more)
    return asked.prepare(schema(relation), 1000)


def planned(model, n: int = 1000, **more) -> tuple[float, float]:
    made = prepared(model, **more)
    return model.forecast(made, schema(more.get("relation", "add-remove")), n, np.random.default_rng(1))[:2]


def test_without_noise_it_is_the_mean_over_the_prior(monkeypatch):
    """With two levels and alpha 1 every number of successes is equally probable."""
    monkeypatch.setattr(table_forecast, "_MOST", 20_000)
    s = np.arange(51)
    widths = beta.ppf(0.95, 1 + s, 51 - s) - beta.ppf(0.05, 1 + s, 51 - s)
    found = table_widths(2, 1.0, 0.0, 50, np.random.default_rng(2), public=True)
    assert found == pytest.approx((widths.mean(),) * 2, rel=6 * widths.std() / widths.mean() / np.sqrt(20_000))


@pytest.mark.parametrize("public", [False, True])
def test_the_noise_on_a_share_is_that_of_noisy_counts(public):
    counts, rng = np.array([[500.0, 300.0, 150.0, 50.0]]), np.random.default_rng(3)
    noisy = counts + rng.normal(0, 4.0, (40_000, 4))
    if public:
        noisy -= (noisy.sum(axis=1, keepdims=True) - 1000) / 4  # the nearest counts that sum to n
    squares = (noisy / noisy.sum(axis=1, keepdims=True) - counts / 1000) ** 2
    expected = table_forecast._added(counts, 4.0, 1.0, 1000, public=public)[0]
    error = 6 * squares.std(axis=0) / np.sqrt(len(noisy)) + 0.01 * expected
    assert (abs(squares.mean(axis=0) - expected) < error).all()
    assert (abs(squares.mean(axis=0) - 1.2 * expected) > error).all()


def test_of_two_levels_with_a_public_total_one_is_counted():
    assert table_forecast._added(np.array([[40.0, 60.0]]), 5.0, 1.0, 100, public=True)[0, 0] == pytest.approx(0.05**2)


def test_an_empty_level_hides_less():
    counts = np.array([[0.0, 1000.0]])
    left = table_forecast._added(counts, 10.0, 0.25, 1000, public=False)
    assert left[0, 0] == pytest.approx(0.25 * 10.0**2 / 1000**2)


def test_nothing_but_the_prior_and_nothing_but_the_noise():
    assert released_width(0.5, 0.5, 0.1) == 0.5
    assert released_width(0.0, 1e9, 0.1) == pytest.approx(0.1)
    assert released_width(np.array([0.3, 0.4]), 1e6, 0.0) == pytest.approx([0.3, 0.4])


@pytest.mark.long
@pytest.mark.parametrize(
    ("levels", "alpha", "scale", "n", "size"),
    [(6, None, 10.0, 1000, 24), (30, None, 8.0, 1500, 24), (5, 0.5, 10.0, 1000, 8)],
)
def test_widths_are_those_of_posteriors(monkeypatch, levels, alpha, scale, n, size):
    rng = np.random.default_rng(4)
    prior = SparsePrior(levels)
    tables = prior.draw(rng, size) if alpha is None else rng.dirichlet([alpha] * levels, size)
    monkeypatch.setattr(table_forecast, "_MOST", size)
    monkeypatch.setattr(table_forecast, "_draw", lambda *_: tables)
    noise = Laplace(scale)
    width, exact = table_widths(levels, alpha, scale * np.sqrt(2), n, np.random.default_rng(5), public=False)
    assert exact < width
    found = []
    for table in tables:
        counts = rng.multinomial(n, table)
        noisy = counts + rng.geometric(1 - np.exp(-1 / scale), levels) - rng.geometric(1 - np.exp(-1 / scale), levels)
        if alpha is None:
            posterior = sparse_dirichlet(noisy.astype(float), noise=noise, count=None)
            looked = [place for place in np.argsort(-counts)[:4] if counts[place] > 0]
        else:
            posterior = private_count(noisy.astype(float), alphas=np.full(levels, alpha), noise=noise)
            looked = list(range(4))
        found.append(np.mean([np.ptp(posterior.marginal(int(place)).interval(0.9)) for place in looked]))
    assert width == pytest.approx(np.mean(found), rel=0.15)


def test_naive_bayes_is_the_mean_over_its_features():
    model = NaiveBayes(("ward", "kind"), prior=1.0)
    made, rng = prepared(model), np.random.default_rng(1)
    each = [table_widths(size, 1.0, made.mechanism.deviation, 1000, rng, public=False) for size in (3, 9)]
    assert planned(model) == pytest.approx(np.mean(each, axis=0))


@pytest.mark.parametrize("model", [NaiveBayes(("ward", "kind"), target="yes"), ContingencyTable(("ward", "kind"))])
def test_less_noise_and_more_records_give_shorter_intervals(model):
    (little, exact), (much, same) = planned(model), planned(model, spend="epsilon=0.05")
    assert exact < little < much
    assert same == exact
    assert planned(model, n=8000)[0] < little


def test_draws_of_naive_bayes_are_wider_than_the_posterior():
    model = NaiveBayes(("ward",), target="yes")
    drawn, exact = planned(model, mechanism="ops", draws=1, truncation=0.01)
    assert drawn > 1.5 * exact


def test_cells_that_cannot_occur_are_not_looked_at():
    """With three of six cells ruled out, the table is one of three."""
    zeros = tuple((ward, "n") for ward in ("A", "B", "C"))
    model = ContingencyTable(("ward", "yes"), zeros=zeros, prior=1.0)
    deviation = prepared(model).mechanism.deviation
    expected = table_widths(3, 1.0, deviation, 1000, np.random.default_rng(1), public=False)
    assert planned(model) == expected
