"""Naive Bayes: noisy tables against enumeration, class probabilities, predictions, and draws that keep their price."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln

import vestry
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.errors import InvalidParameter, LedgerStateError
from vestry.mechanisms.table_sample import TableSample, calibrate_tables
from vestry.model.request import Request
from vestry.naive_bayes.naive_bayes_model import NaiveBayes
from vestry.naive_bayes.naive_bayes_posterior import size_weights
from vestry.noise import SystemNoise
from vestry.pipeline import charge_for, run, schema_of
from vestry.posterior import Posterior
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Certificate, NoisyStatistics, Release
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal

COLUMNS = {"ill": Levels("no", "yes"), "age": Levels("low", "middle", "high"), "smoker": Levels("no", "yes")}
TABLES = {"no": ((0.5, 0.3, 0.2), (0.8, 0.2)), "yes": ((0.1, 0.3, 0.6), (0.4, 0.6))}
CLAIM = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", 1.0, "", "row", {})


def records(n: int, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.choice(["no", "yes"], p=[0.7, 0.3], size=n)
    age = [rng.choice(COLUMNS["age"].names, p=TABLES[each][0]) for each in ill]
    smoker = [rng.choice(COLUMNS["smoker"].names, p=TABLES[each][1]) for each in ill]
    return pd.DataFrame({"ill": ill, "age": age, "smoker": smoker}).astype("object")


def table(n: int = 400, neighbours: str = "replace", unit: str = "row") -> vestry.Table:
    return vestry.Table(records(n), COLUMNS, unit=unit, neighbours=neighbours)


def ledger(tmp_path, neighbours="replace", budget="epsilon=100,delta=1e-5"):
    address = tmp_path / "a.ledger"
    return vestry.Ledger.create(address, dataset="a", unit="row", neighbours=neighbours, budget=budget)


def release_of(contents, *, target="ill", scale=1.0, prior=(1.0,), count=None):
    levels = [["low", "middle", "high"], ["no", "yes"]]
    family = {"name": "naive-bayes", "target": target, "features": ["age", "smoker"], "levels": levels,
              "classes": list(contents) if target else []}  # fmt: skip
    made = {
        group: NoisyStatistics(
            tuple(map(str, range(len(values)))), tuple(values), "discrete-laplace", scale, count=count
        )
        for group, values in contents.items()
    }
    labels = ("this ill",) * (target is not None) + ("low", "middle", "high", "no", "yes")
    return Release(family, prior, made, CLAIM, target, labels)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("z", [((3, 1), (2, 3)), ((0, -2, 4), (1, 2)), ((-3, -4), (-1, -2))])
def test_the_size_of_a_class_by_enumeration(z, alpha):
    """Sum over every pair or triple of counts that adds up to n, for each feature; the product over features."""
    noise = Laplace(1.3)
    counts, logs = size_weights([np.array(each, float) for each in z], alpha=alpha, noise=noise)
    found = np.exp(logs - logs.max())
    found /= found.sum()
    top = 60
    wanted = np.ones(top)
    for each in z:
        mass = np.zeros(top)
        for s in itertools.product(range(top), repeat=len(each)):
            if sum(s) < top:
                log = sum(gammaln(k + alpha) - gammaln(k + 1) - abs(k - x) / 1.3 for k, x in zip(s, each, strict=True))
                mass[sum(s)] += math.exp(log + gammaln(sum(s) + 1) - gammaln(sum(s) + len(each) * alpha))
        wanted *= mass
    wanted /= wanted.sum()
    assert counts[0] == 0
    assert found[:40] == pytest.approx(wanted[:40], abs=1e-9)


def test_all_tables_tell_of_a_class_s_size():
    """Ten features leave the size about sqrt(10) times as sure as one."""
    noise = DiscreteGaussian(20.0)

    def spread(features):
        counts, logs = size_weights([np.array([300.0, 200.0])] * features, alpha=1.0, noise=noise)
        weights = np.exp(logs - logs.max())
        mean = weights @ counts / weights.sum()
        return math.sqrt(weights @ (counts - mean) ** 2 / weights.sum())

    assert spread(1) == pytest.approx(20 * math.sqrt(2), rel=0.02)
    assert spread(1) / spread(10) == pytest.approx(math.sqrt(10), rel=0.03)


def test_next_to_no_noise_gives_the_conjugate_posterior():
    contents = {"no": (500, 300, 200, 800, 200), "yes": (40, 120, 240, 160, 240)}
    post = Posterior.from_release(release_of(contents, scale=0.02))
    assert post.parameters[:2] == ("probability[this ill]", "probability[low]")
    assert post.distributions["no"].marginal(0).mean() == pytest.approx(1001 / 1402, abs=1e-4)
    high, p, n = post.distributions["yes"].marginal(3), 241 / 403, 403
    assert high.mean() == pytest.approx(p, abs=1e-4)
    assert high.variance() == pytest.approx(p * (1 - p) / (n + 1), rel=0.01)
    chance = post.classify({"age": "high", "smoker": "yes"})
    wanted = {"no": 0.714 * 0.201 * 0.2006, "yes": 0.286 * 0.598 * 0.5995}
    assert chance["yes"] == pytest.approx(wanted["yes"] / sum(wanted.values()), abs=0.01)
    assert sum(chance.values()) == pytest.approx(1)
    assert post.classify({})["yes"] == pytest.approx(0.286, abs=0.005)


def test_the_probabilities_of_two_classes_differ_together():
    """p - (1 - p) = 2 p - 1: twice the deviation of one. Drawn apart it would be sqrt(2) times. Six standard errors."""
    contents = {"no": (50, 30, 20, 80, 20), "yes": (4, 12, 24, 16, 24)}
    post = Posterior.from_release(release_of(contents, scale=3.0))
    row = post.contrast("no", "yes", rng=np.random.default_rng(1), draws=20_000).iloc[0]
    own = math.sqrt(post.distributions["no"].marginal(0).variance())
    assert row["sd"] == pytest.approx(2 * own, rel=6 / math.sqrt(2 * 20_000))


def test_the_plug_in_is_the_papers():
    contents = {"no": (500, 300, 200, 800, 200), "yes": (40, 120, -7, 160, 240)}
    post = Posterior.from_release(release_of(contents, scale=9.0), method="plug-in")
    assert post.distributions["yes"].marginal(3).mean() == pytest.approx(1 / 163)
    assert post.label == "plug-in"


@pytest.mark.long
def test_noise_widens_what_is_known():
    contents = {"no": (50, 30, 20, 80, 20), "yes": (4, 12, 24, 16, 24)}
    wide, narrow = (Posterior.from_release(release_of(contents, scale=scale)) for scale in (8.0, 0.05))
    for index in range(6):
        assert (
            wide.distributions["yes"].marginal(index).variance()
            > narrow.distributions["yes"].marginal(index).variance()
        )


@pytest.mark.parametrize("target", ["ill", None])
@pytest.mark.parametrize(("mechanism", "spend"), [("laplace", "epsilon=4"), ("gaussian", "rho=2")])
@pytest.mark.long
def test_a_release_of_counts(target, mechanism, spend, tmp_path):
    features = ("age", "smoker") if target else ("age", "smoker", "ill")
    model, made = NaiveBayes(features, target=target), ledger(tmp_path)
    post = vestry.release(model, table(), guarantee=spend, ledger=made, mechanism=mechanism)
    assert post.label == "noise-aware"
    tree = post.to_arviz(np.random.default_rng(1), chains=2, draws=50)["posterior"].dataset
    for feature in features:
        dims = ("chain", "draw", *((target,) if target else ()), f"{feature}_level")
        assert tree[f"probability_{feature}"].dims == dims
        assert tree[f"probability_{feature}"].sum(f"{feature}_level").values == pytest.approx(1)
    assert list(tree["age_level"].values) == ["low", "middle", "high"]
    if target:
        assert tree["class_probability"].sum("ill").values == pytest.approx(1)
    truth = records(400)
    chosen = truth[truth.ill == "yes"] if target else truth
    place = post.parameters.index("probability[age: high]")
    found = post.distributions["yes" if target else "all"].marginal(place).mean()
    # Noise of scale 1 moves a count of 109 by 20 once in 1e8 releases.
    assert found == pytest.approx((chosen.age == "high").mean(), abs=0.2)
    assert set(post.predict(10, np.random.default_rng(1), draws=3)) == set(post.distributions)


def test_the_number_of_records_is_used_where_it_is_public(tmp_path):
    """Without classes, under replace: a feature of two levels is one count beside the public number."""
    made = Request(NaiveBayes(("age", "smoker")), Guarantee.parse("epsilon=1"), "laplace")
    layout = made.prepare(schema_of(table()), 400).mechanism.layout
    assert layout.names == ("age=low", "age=middle", "age=high", "smoker=no")
    assert (layout.l1, layout.count) == (3, 400)
    private = made.prepare(schema_of(table(neighbours="add-remove")), None).mechanism.layout
    assert (len(private.names), private.l1, private.count) == (5, 2, None)


def test_released_tables_are_draws(tmp_path):
    model, made = NaiveBayes(("age", "smoker"), target="ill"), ledger(tmp_path)
    post = vestry.release(
        model, table(), guarantee="epsilon=20", ledger=made, mechanism="ops", draws=40, truncation=0.05
    )
    drawn = post.sample()
    assert drawn["no"].shape == (40, 6)
    assert drawn["no"][:, 0] + drawn["yes"][:, 0] == pytest.approx(1)
    for each in drawn.values():
        assert each.min() >= 0.05 - 1e-9
        assert each[:, 1:4].sum(axis=1) == pytest.approx(1)
        assert each[:, 4:].sum(axis=1) == pytest.approx(1)
    assert post.label == "released draws"
    assert post.classify({"age": "high"})["yes"] > 0.3
    assert post.to_arviz()["posterior"].dataset["probability_age"].dims == ("chain", "draw", "ill", "age_level")
    both = [each["yes"] for each in map(post.classify, ({"age": "high", "smoker": "yes"}, {"age": "low"}))]
    frame = pd.DataFrame({"smoker": ["yes", None], "age": ["high", "low"], "other": [1, 2]})
    assert post.classify(frame)["yes"].tolist() == pytest.approx(both)
    products = {each: drawn[each][:, 0] * drawn[each][:, 3] * drawn[each][:, 5] for each in drawn}
    assert both[0] == pytest.approx(products["yes"].sum() / (products["yes"].sum() + products["no"].sum()))
    with pytest.raises(InvalidParameter, match="of all features"):
        post.classify(frame[["age"]])
    with pytest.raises(InvalidParameter, match="a feature must be one of age, smoker, not 'sex'"):
        post.classify({"sex": "m"})
    with pytest.raises(InvalidParameter, match="a level of age must be one of low, middle, high, not 'old'"):
        post.classify({"age": "old"})


@pytest.mark.long
def test_tables_are_drawn_from_their_own_counts(tmp_path):
    """At a power of 1 and many records, draws lie near the shares of each class and level."""
    truth, made = records(4000), ledger(tmp_path)
    model, wide = NaiveBayes(("age", "smoker"), target="ill"), table(4000)
    post = vestry.release(model, wide, guarantee="epsilon=60", ledger=made, mechanism="ops", draws=1, truncation=0.01)
    for group, (row,) in post.sample().items():
        chosen = truth[truth.ill == group]
        wanted = [len(chosen) / 4000]
        wanted += [
            (chosen[feature] == level).mean() for feature in ("age", "smoker") for level in COLUMNS[feature].names
        ]
        assert row == pytest.approx(wanted, abs=0.08)


def test_draws_count_the_records_that_noise_counts():
    """One query: a record without a value for a feature that drops it counts for no table, and in no class."""
    found = records(60).assign(smoker=lambda frame: frame.smoker.where(frame.index % 5 > 0, None))
    columns = {**COLUMNS, "smoker": Levels("no", "yes", missing="drop")}
    made = vestry.Table(found, columns, unit="row", neighbours="replace")
    whole, wanted = found.dropna(), []
    for group in ("no", "yes"):
        chosen = whole[whole.ill == group]
        levels = [(chosen[feature] == level).sum() for feature in ("age", "smoker") for level in columns[feature].names]
        wanted.append([len(chosen), *levels])
    model, spend = NaiveBayes(("age", "smoker"), target="ill"), Guarantee.parse("epsilon=1")
    drawn = Request(model, spend, "ops", draws=1, truncation=0.05).prepare(schema_of(made), None)
    noisy = Request(model, spend, "laplace").prepare(schema_of(made), None)
    assert reveal(drawn.collect(made, row_key="key")) == (*wanted[0], *wanted[1])
    assert reveal(noisy.collect(made, row_key="key")) == (*wanted[0][1:], *wanted[1][1:])


SIZES = [3, 2]
LOW = 0.1
SPAN = sum(math.log((1 - (size - 1) * LOW) / LOW) for size in SIZES)


def drawn(relation="replace", rows=1, spend="epsilon=1", draws=1, classes=False) -> TableSample:
    adjacency = Adjacency(relation, rows, groups=2 if classes else 1)
    return calibrate_tables(
        DirichletCategoricalFamily, SIZES, 1.0, adjacency, Guarantee.parse(spend), truncation=LOW, draws=draws
    )


def test_the_ranges_of_all_tables_add_up():
    """D = sum over features of log((1 - (K - 1) a)/a); T = 2 k D/epsilon under replace, half that under add-remove."""
    assert drawn().temperature == pytest.approx(2 * SPAN)
    assert drawn("add-remove").temperature == pytest.approx(SPAN)
    assert drawn(rows=3).temperature == pytest.approx(6 * SPAN)
    assert drawn(draws=2).temperature > drawn().temperature
    own = math.log((1 - LOW) / LOW)
    assert drawn(classes=True).temperature == pytest.approx(2 * (SPAN + own))
    assert 1 <= drawn(spend="epsilon=99").temperature == pytest.approx(1)


def worst_loss(temperature: float, counts=(3, 1, 2)) -> float:
    """Return the largest privacy loss of a draw of one table of three levels, by sums over a fine grid."""
    grid = np.array([(a, b, 1 - a - b) for a in np.linspace(0.1, 0.8, 141) for b in np.linspace(0.1, 0.8, 141)])
    inside = np.log(grid[grid.min(axis=1) >= LOW - 1e-12])
    logs = []
    for moved in (0, 1):
        tempered = (np.array(counts) + np.eye(3)[moved]) / temperature
        log = inside @ tempered
        logs.append(log - np.log(np.exp(log - log.max()).sum()) - log.max())
    return float(np.abs(logs[0] - logs[1]).max())


def test_a_forgotten_temperature_is_caught():
    """One table of three levels, calibrated to epsilon = 1: the twin draws from the posterior as it is."""
    single = calibrate_tables(
        DirichletCategoricalFamily, [3], 1.0, Adjacency("replace", 1), Guarantee.parse("epsilon=1"), truncation=LOW
    )
    assert worst_loss(single.temperature) <= 1
    assert worst_loss(1.0) > 1
    claim = dict(single.event.parameters)["epsilon"]
    assert claim <= 1
    twin = replace(single, temperature=1.0)
    assert dict(twin.event.parameters)["epsilon"] > 1


@pytest.mark.long
def test_one_charge_pays_for_one_release(tmp_path):
    """The twin that draws again for every sweep is stopped by the ledger's leave."""
    made = ledger(tmp_path)
    for mechanism, options in (("laplace", {}), ("ops", {"draws": 1, "truncation": 0.05})):
        request = Request(
            NaiveBayes(("age",), target="ill"), Guarantee.parse("epsilon=2", neighbours="replace"), mechanism, **options
        )
        prepared = request.prepare(schema_of(table()), None)
        charge = charge_for(prepared.mechanism, made, "a test")
        opened = charge.open()
        private = prepared.collect(table(), row_key="key")
        prepared.mechanism.release(private, opened, SystemNoise())
        with pytest.raises(LedgerStateError, match="was drawn already"):
            prepared.mechanism.release(private, opened, SystemNoise())
        with pytest.raises(LedgerStateError):
            run(prepared, table(), charge)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (NaiveBayes(("age", "stay")), "features must be columns of levels, not 'stay'"),
        (NaiveBayes(("age", "sex")), "features must be declared columns of levels"),
        (NaiveBayes(("age", "age")), "features must be each column once"),
        (NaiveBayes(()), r"features must be a list of columns of levels, not \(\)"),
        (NaiveBayes(("age",), target="age"), "target must be no feature"),
        (NaiveBayes(("age",), prior=-1), "prior must be a number"),
        (NaiveBayes(("age",), prior=True), "prior must be a number"),
    ],
)
def test_bad_models_are_refused(model, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        model.check({**COLUMNS, "stay": Interval(0, 60)})


def test_a_list_is_a_list():
    assert NaiveBayes(["age"]).features == ("age",)


@pytest.mark.slow
def test_class_probabilities_cover():
    """Nominal 90 % intervals of a class's probability and of a level's hold the truth in 90 % of repetitions."""
    rng, hits, repeats = np.random.default_rng(5), np.zeros(2, int), 300
    for _ in range(repeats):
        shares = rng.dirichlet([1, 1])
        theta = {group: (rng.dirichlet([1, 1, 1]), rng.dirichlet([1, 1])) for group in ("no", "yes")}
        sizes = rng.multinomial(150, shares)
        stop = -math.expm1(-1 / 6)
        contents = {}
        for size, group in zip(sizes, theta, strict=True):
            exact = np.concatenate([rng.multinomial(size, each) for each in theta[group]])
            noise = rng.geometric(stop, len(exact)) - rng.geometric(stop, len(exact))
            contents[group] = tuple(int(x) for x in exact + noise)
        laws = Posterior.from_release(release_of(contents, scale=6.0)).distributions
        for place, (index, truth) in enumerate([(0, shares[1]), (2, theta["yes"][0][1])]):
            low, high = laws["yes"].marginal(index).interval(0.9)
            hits[place] += low <= truth <= high
    # Exact binomial tests at 4e-7 each: 80 % of the repetitions would be too few, 98 % too many.
    assert min(stats.binomtest(int(each), repeats, 0.9).pvalue for each in hits) > 4e-7
