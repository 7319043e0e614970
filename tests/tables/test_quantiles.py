"""Numbers in bins: one record moves one bin, the Polya tree by enumeration, intervals to the edges, an audit."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rounded_law import rounded_log_mass
from scipy.stats import beta, betabinom
from seeded_noise import SeededNoise
from share import examples

import vestry
from vestry.audit import audit_shipped
from vestry.errors import ExtremeNumbers, InvalidParameter, VestryError
from vestry.model.counted_cells import CountedCells
from vestry.model.request import Request
from vestry.pipeline import schema_of
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Certificate, NoisyStatistics, Release
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.table_schema import TableSchema
from vestry.tables.bin_posterior import BinPosterior
from vestry.tables.binned_column import bins_of
from vestry.tables.histogram import Histogram
from vestry.tables.polya_tree import CONCENTRATIONS, BinDraws, polya_tree
from vestry.tables.quantiles import Quantiles

DOMAINS = {
    "age": Interval(0, 100, missing="drop"),
    "score": Interval(0, 4).bins(0, 1, 2, 4, missing="level"),
    "ward": Levels("A", "B"),
}
rows = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["p", "q", "r"]),
        "age": st.sampled_from([-5.0, 0.0, 19.5, 20.0, 60.0, 100.0, 250.0, None]),
        "score": st.sampled_from([0.0, 1.0, 3.0, None]),
        "ward": st.sampled_from(["A", "B"]),
    }
)
MODELS = [Histogram("age", (0, 20, 60, 100), "ward"), Quantiles("age", bins=5), Quantiles("score", (0.2, 0.5))]


def collected(model, given_rows, unit="row", relation="add-remove"):
    frame = pd.DataFrame(given_rows, columns=["id", "age", "score", "ward"]).astype(object)
    table = vestry.Table(frame, DOMAINS, unit=unit, neighbours=relation, max_rows=1000)
    prepared = Request(model, Guarantee.parse("epsilon=1"), "laplace").prepare(schema_of(table), 5)
    prepared.check(table)
    return prepared, reveal(prepared.collect(table, row_key="key"))


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name + model.column)
@pytest.mark.parametrize("unit", ["row", "person=id,rows=2"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@settings(max_examples=examples(4), deadline=None)
@given(given_rows=st.lists(rows, min_size=1, max_size=7), change=st.lists(rows, min_size=1, max_size=4))
def test_no_neighbour_is_further_than_the_layout_says(model, unit, relation, given_rows, change):
    if unit == "row":
        other = [*given_rows[1:], *change[:1]] if relation == "replace" else given_rows[1:]
    else:
        rest = [row for row in given_rows if row["id"] != "p"]
        other = rest if relation == "add-remove" else rest + [{**row, "id": "new"} for row in change]
    prepared, one = collected(model, given_rows, unit, relation)
    _, two = collected(model, other, unit, relation)
    steps = [abs(a - b) for a, b in zip(one, two, strict=True)]
    assert sum(steps) <= prepared.mechanism.layout.l1
    assert math.hypot(*steps) <= prepared.mechanism.layout.l2 * (1 + 1e-12)


def test_one_record_moves_one_bin_and_one_that_is_replaced_two():
    one, two = [{"id": "p", "age": 5.0, "ward": "A"}], [{"id": "p", "age": 99.0, "ward": "B"}]
    model = MODELS[0]
    prepared, first = collected(model, one, relation="replace")
    _, second = collected(model, two, relation="replace")
    steps = [abs(a - b) for a, b in zip(first, second, strict=True)]
    assert (sum(steps), math.hypot(*steps)) == (prepared.mechanism.layout.l1, prepared.mechanism.layout.l2)
    prepared, _ = collected(model, one)
    assert sum(first) == prepared.mechanism.layout.l1 == 1


def test_clipped_values_lie_in_the_outer_bins_and_missing_ones_where_they_are_declared():
    given_rows = [{"age": value} for value in (-5.0, 0.0, 20.0, 59.9, 60.0, 100.0, 250.0, None)]
    _, counts = collected(Histogram("age", (0, 20, 60, 100)), given_rows)
    assert list(counts) == [2, 2, 3]
    _, counts = collected(Quantiles("score"), [{"score": value} for value in (0.0, 1.0, 2.0, 4.0, None, None)])
    assert list(counts) == [1, 1, 2, 2]


def halves(counts, alpha):
    """Yield the two sums of each node with the parameters of its share, as the docstring defines them."""
    size = len(counts)
    if size == 1:
        return
    left = size // 2
    yield sum(counts[:left]), sum(counts[left:]), 2 * alpha * left / size, 2 * alpha * (size - left) / size
    yield from halves(counts[:left], alpha)
    yield from halves(counts[left:], alpha)


def enumerated(z, log_noise, alphas, totals) -> Counter:
    """Return the probability of each table and concentration, every table of every total written out."""
    found = Counter()
    for alpha, counts in product(alphas, product(range(max(totals) + 1), repeat=len(z))):
        if sum(counts) in totals:
            prior = math.prod(betabinom.pmf(low, low + high, *shapes) for low, high, *shapes in halves(counts, alpha))
            found[alpha, counts] = prior * math.exp(sum(log_noise(a - s) for a, s in zip(z, counts, strict=True)))
    total = math.fsum(found.values())
    return Counter({key: weight / total for key, weight in found.items()})


ORACLES = {
    "public": ((3, -1, 2, 1), Laplace(1.3), lambda k: -abs(k) / 1.3, (1.0,), 6),
    "odd": ((2, 0, 4), DiscreteGaussian(1.1), lambda k: -(k**2) / (2 * 1.1**2), (0.5,), 5),
    "rounded": ((2, 0, 4), RoundedGaussian(0.7), partial(rounded_log_mass, 0.7), (0.5,), 5),
    "unknown": ((4, -1, 1), Laplace(0.8), lambda k: -abs(k) / 0.8, CONCENTRATIONS, 7),
    "private": ((3, 0, 1), Laplace(0.5), lambda k: -abs(k) / 0.5, (0.7,), None),
}


@pytest.mark.parametrize("name", ORACLES)
def test_the_posterior_is_that_of_enumeration(name):
    """Each of fewer than 60 shares is more than six standard errors off by chance once in 1e7."""
    z, noise, log_noise, alphas, count = ORACLES[name]
    weights = enumerated(z, log_noise, alphas, range(17) if count is None else (count,))
    declared = alphas[0] if len(alphas) == 1 else None
    drawn = polya_tree(np.array(z, dtype=float), noise, count=count, alpha=declared)
    size = len(drawn.counts)
    for at in range(len(z)):
        expected = Counter()
        for (_, counts), weight in weights.items():
            expected[counts[at]] += weight
        for value, share in expected.items():
            found = (drawn.counts[:, at] == value).mean()
            assert abs(found - share) <= 6 * math.sqrt(share * (1 - share) / size) + 1 / size, (at, value)
    left = len(z) // 2
    mean = sum(
        weight * (sum(counts[:left]) + 2 * alpha * left / len(z)) / (sum(counts) + 2 * alpha)
        for (alpha, counts), weight in weights.items()
    )
    first = drawn.shares[:, :left].sum(axis=1)
    assert abs(first.mean() - mean) < 6 * first.std() / math.sqrt(size)


def test_shares_of_exact_counts_are_betas():
    """Kolmogorov's distance of 4096 draws is above 0.045 by chance less than once in 1e6."""
    drawn = polya_tree(np.array([3.0, 9.0]), None, count=None, alpha=0.5)
    ordered, size = np.sort(drawn.shares[:, 0]), len(drawn.shares)
    assert np.abs(beta.cdf(ordered, 3.5, 9.5) - np.arange(size) / size).max() < 0.045
    assert np.abs(beta.cdf(ordered, 3.5, 10.5) - np.arange(size) / size).max() > 0.045
    assert drawn.shares.sum(axis=1) == pytest.approx(1)


def test_counts_in_steps_are_as_good():
    z = np.array([400_000.0, 250_000.0, 350_000.0])
    coarse = polya_tree(z, Laplace(20_000.0), count=None, alpha=0.5)
    assert np.diff(np.unique(coarse.counts[:, 0])).min() > 1
    assert coarse.shares.mean(axis=0) == pytest.approx([0.4, 0.25, 0.35], abs=0.02)
    with pytest.raises(ExtremeNumbers, match="do not go together"):
        polya_tree(np.array([5.0, 5.0]), Laplace(0.1), count=100, alpha=0.5)


def posterior_of_draws(shares, counts, edges=(0.0, 10.0, 20.0, 40.0)) -> BinPosterior:
    return BinPosterior(np.array(edges), BinDraws(np.array(counts, dtype=float), np.array(shares)))


def test_a_quantile_lies_where_the_distribution_function_reaches_it():
    found = posterior_of_draws([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [[1, 1, 1]] * 2)
    assert found.quantile(0.5).values == pytest.approx([10.0, 20 + 20 * 0.1 / 0.6])
    assert found.places(0.5).tolist() == [0, 2]
    assert found.quantile(0.9).lows.tolist() == [20.0, 20.0]
    assert found.below(2).values == pytest.approx([0.75, 0.4])
    assert found.below(0).mean() == 0
    assert found.below(3).mean() == 1


def test_an_interval_reaches_to_the_edges_and_leaves_out_no_more_than_its_tails():
    # Of 100 draws the median is 5 times in the first bin, 90 times in the second and 5 times in the third.
    shares = [[0.6, 0.2, 0.2]] * 5 + [[0.3, 0.4, 0.3]] * 90 + [[0.2, 0.2, 0.6]] * 5
    found = posterior_of_draws(shares, [[1, 1, 1]] * 100).quantile(0.5)
    assert found.interval(0.9) == (10, 20)
    assert found.interval(0.91) == (0, 40)
    assert found.mean() == pytest.approx(found.values.mean())
    assert found.cdf(10) == 0.05


def test_a_share_that_may_be_0_has_an_interval_from_0_on():
    shares = np.full((100, 2), 0.5)
    counts = np.array([[0, 7]] * 5 + [[3, 4]] * 95)
    found = posterior_of_draws(shares, counts, (0.0, 1.0, 2.0))
    assert found.marginal(0).interval(0.9) == (0.5, 0.5)
    assert found.marginal(0).interval(0.88) == (0.5, 0.5)
    counts[5] = [0, 7]
    assert posterior_of_draws(shares, counts, (0.0, 1.0, 2.0)).marginal(0).interval(0.9) == (0, 0.5)
    assert posterior_of_draws(shares, counts, (0.0, 1.0, 2.0)).marginal(1).interval(0.9) == (0.5, 1)


@pytest.mark.parametrize("inside", [0.0, 0.5, 1 - 1e-9], ids=["low", "middle", "high"])
def test_the_interval_holds_the_quantile_wherever_values_lie_in_their_bins(inside):
    rng = np.random.default_rng(3)
    edges = np.array([0.0, 1.0, 5.0, 7.0, 20.0])
    at = rng.choice(4, 4000, p=[0.1, 0.3, 0.35, 0.25])
    values = edges[at] + inside * np.diff(edges)[at]
    exact = polya_tree(np.bincount(at, minlength=4).astype(float), None, count=None, alpha=None)
    found = BinPosterior(edges, exact)
    for q in (0.05, 0.25, 0.5, 0.9):
        low, high = found.quantile(q).interval(0.9)
        assert low <= np.quantile(values, q, method="inverted_cdf") <= high


CLAIM = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", 2.0, "", "row", {})
DESCRIBED = {"name": "quantile", "column": "age", "edges": [0, 10, 20, 40], "since": None, "missing": False}


def release_of(values, *, name="quantile", by=None, quantiles=(0.5,), scale=2.0, **described):
    contents = {
        group: NoisyStatistics(("a", "b", "c"), tuple(each), "discrete-laplace", scale)
        for group, each in values.items()
    }
    own = {"quantiles": list(quantiles)} if name == "quantile" else {}
    return Release({**DESCRIBED, "name": name, **own, **described}, (), contents, CLAIM, by)


def test_groups_are_compared_from_edge_to_edge():
    release = release_of({"A": (900, 50, 50), "B": (50, 50, 900)}, by="ward")
    posterior = release.posterior()
    row = posterior.contrast("A", "B", rng=np.random.default_rng(1)).iloc[0]
    assert (row["low"], row["high"], row["prob_positive"]) == (0 - 40, 10 - 20, 0)
    assert posterior.interval().to_dict("list") == {"low": [0, 20], "high": [10, 40]}
    assert posterior.parameters == ("median",)
    assert posterior.interval_method == "noise summed out, to the edges of bins: conservative"


def test_a_histogram_has_the_same_quantiles_and_distribution_function():
    posterior = release_of({"all": (300, 500, 200)}, name="histogram").posterior()
    assert posterior.quantiles(0.1, 0.5)[["low", "high"]].to_numpy().tolist() == [[0, 10], [10, 20]]
    function = posterior.distribution_function()
    assert function["mean"].to_list() == pytest.approx([0, 0.3, 0.8, 1], abs=0.02)
    assert function.columns.name == "noise summed out"
    assert posterior.quantiles(0.5).columns.name.endswith("conservative")
    assert posterior.predict(100, np.random.default_rng(1))["all"].sum(axis=1).tolist() == [100.0] * 1000
    with pytest.raises(InvalidParameter, match="a quantile must be"):
        posterior.quantiles(1.5)
    assert release_of({"all": (300, 500, 200)}, name="histogram").likelihood("all") is not None


def test_other_models_have_no_bins():
    noisy = {"all": NoisyStatistics(("records",), (3,), "discrete-laplace", 1.0)}
    other = Release({"name": "count", "of": "records"}, (), noisy, CLAIM).posterior()
    with pytest.raises(InvalidParameter, match="bins must be asked of numbers in bins"):
        other.distribution_function()
    with pytest.raises(InvalidParameter, match="predict must be asked of a model of records"):
        release_of({"all": (1, 2, 3)}).posterior().predict(5)


def test_missing_values_with_their_own_level_are_counted_and_not_looked_at():
    noisy = NoisyStatistics(("a", "b", "c", "missing"), (300, 500, 200, 9000), "discrete-laplace", 2.0)
    release = Release({**DESCRIBED, "name": "histogram", "missing": True}, (), {"all": noisy}, CLAIM)
    plain = release_of({"all": (300, 500, 200)}, name="histogram")
    assert release.posterior().rows() == plain.posterior().rows()
    with pytest.raises(InvalidParameter, match="the number of noisy statistics must be 3, not 4"):
        Release({**DESCRIBED, "name": "histogram"}, (), {"all": noisy}, CLAIM).posterior()
    prepared, _ = collected(Quantiles("score"), [{"score": 1.0}] * 5, relation="replace")
    assert prepared.mechanism.layout.count is None
    domains = {"age": Interval(0, 100)}
    schema = TableSchema(domains, Unit(), Neighbours.parse("replace"))
    request = Request(Quantiles("age", bins=4), Guarantee.parse("epsilon=1"), "laplace")
    assert request.prepare(schema, 5).mechanism.layout.count == 5


def test_two_releases_of_the_same_people_are_one():
    a, b = (release_of({"all": each}, scale=60.0) for each in ((310, 480, 205), (295, 510, 196)))
    both = vestry.combine(a, b, same_people=True)
    alone, together = (each.reader.binned(each.distributions["all"]) for each in (a.posterior(), both))
    assert together.marginal(0).mean() == pytest.approx(0.3, abs=0.02)
    assert together.marginal(0).variance() < 0.8 * alone.marginal(0).variance()


@pytest.mark.parametrize(
    ("described", "sentence"),
    [({"edges": [0, 10, 10, 40]}, "family.edges"), ({"quantiles": [1.0]}, "family.quantiles"), ({"since": 3}, "since")],
)
def test_a_broken_file_is_refused(described, sentence, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(release_of({"all": (1, 2, 3)}, **described).text())
    with pytest.raises(VestryError, match=sentence):
        vestry.open_release(path)


def test_bins_of_equal_width_are_those_that_are_written_out():
    assert bins_of(DOMAINS, "age", 4).edges == (0, 25, 50, 75, 100)
    assert bins_of({"x": Interval(0, 1)}, "x", 10).names[2] == "0.2 to <0.3"
    dates = {"day": Interval(datetime.date(2024, 1, 1), datetime.date(2024, 12, 31))}
    assert bins_of(dates, "day", 2).names == ("2024-01-01 to <2024-07-01", "2024-07-01 to 2024-12-31")
    model = Histogram("day", [datetime.date(2024, 1, 1), datetime.date(2024, 6, 1), datetime.date(2024, 12, 31)])
    assert model.to_dict()["bins"] == ["2024-01-01", "2024-06-01", "2024-12-31"]
    assert bins_of(dates, "day", model.bins).edges == (0, 152, 365)


REFUSED = [
    (Histogram("age"), "bins must be given here, or declared of the column"),
    (Histogram("age", bins=1), "bins must be a whole number"),
    (Histogram("age", bins=(0, 50, 90)), "bins must be three edges or more, increasing from 0"),
    (Histogram("ward", bins=4), "the column ward must be an interval"),
    (Histogram("score", by="score"), "by must be another column"),
    (Histogram("age", bins=4, prior=0), "prior must be a number"),
    (Quantiles("age", (0.5, 1), bins=4), "quantiles must be"),
    (Quantiles("age", (0.5, 0.5), bins=4), "quantiles must be one or more, each once"),
    (Quantiles("height", bins=4), "a column must be one that is declared"),
]


@pytest.mark.parametrize(("model", "sentence"), REFUSED, ids=[each[1][:34] for each in REFUSED])
def test_what_is_not_in_bins_is_refused(model, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        model.check(DOMAINS)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("relation", Neighbours, ids=str)
@pytest.mark.parametrize("unit", [Unit(), Unit("id", 3)], ids=str)
def test_the_noise_is_not_refuted_and_half_of_it_is(unit, relation):
    """False alarms: at most 1e-6 a test."""
    model, schema = MODELS[1], TableSchema(DOMAINS, unit, relation)
    made = Request(model, Guarantee.parse("epsilon=1", neighbours=relation), "laplace").prepare(schema, 50).mechanism
    how = {"noise": SeededNoise(5), "trials": 40_000, "releases": 0}
    assert not audit_shipped(made, CountedCells(model.columns), **how).refuted
    twin = replace(made, scale=made.scale / 2)
    assert audit_shipped(twin, CountedCells(model.columns), claim=(made.event, made.guarantee), **how).refuted
