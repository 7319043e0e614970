"""Questions read from noisy integers: one price for all readings, right numbers, and intervals that cover."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from seeded_noise import SeededNoise

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.ledger import Ledger
from vestry.models.categories import Categories
from vestry.models.law_per_integer import LawPerInteger
from vestry.models.mean import Mean
from vestry.models.proportion import Proportion
from vestry.models.read import read, release
from vestry.noise_inversion.noise_sum import NoiseSum
from vestry.posterior.discrete_noise import Laplace, RoundedGaussian
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.purchases.noisy import Noisy, Observation
from vestry.schema.domain import Interval, Levels
from vestry.schema.table_schema import TableSchema
from vestry.statistics.axis import BinAxis, LevelAxis
from vestry.statistics.cell_counts import CellCounts

COLUMNS = {"ward": Levels("A", "B", "C"), "ill": Levels("no", "yes"), "stay": Interval(0, 10)}


@dataclass
class Shop:
    table: Table
    ledger: Ledger

    def ask(self, model, spend="epsilon=1"):
        guarantee = Guarantee.parse(spend, neighbours=self.table.neighbours)
        return release(model, self.table, self.ledger, guarantee, noise=SeededNoise(5))

    def read(self, model):
        return read(model, self.table.declared, self.ledger)

    @property
    def spent(self):
        return self.ledger.state().spent.totals[0] / 1e12


def shop_of(tmp_path, neighbours, rows=400):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "ward": rng.choice(["A", "B", "C"], rows, p=[0.5, 0.3, 0.2]),
            "ill": rng.choice(["no", "yes"], rows, p=[0.8, 0.2]),
            "stay": rng.uniform(0, 10, rows),
        }
    )
    address = str(tmp_path / f"{neighbours}.ledger")
    ledger = Ledger.create(address, dataset="visits", budget="epsilon=9", unit="row", neighbours=neighbours)
    return Shop(Table(frame, COLUMNS, neighbours=neighbours), ledger)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_other_priors_and_other_models_of_one_statistic_are_free(tmp_path, neighbours):
    shop = shop_of(tmp_path, neighbours)
    first = shop.ask(Proportion("ill", "yes"))
    others = [
        Proportion("ill", "yes", prior=(2, 8)),
        Categories("ill"),
        Proportion("ill", "no"),
        Proportion("ill", "yes"),
    ]
    for model in others:
        answer = shop.ask(model)
        assert (answer.charge, answer.is_new) == (first.charge, False)
    assert shop.spent == 1
    means = [shop.ask(model).posterior.estimates().rows[0].mean for model in others]
    assert means[0] != first.posterior.estimates().rows[0].mean
    assert means[3] == first.posterior.estimates().rows[0].mean
    assert means[1] == pytest.approx(1 - means[3], abs=1e-9)


def test_sums_of_what_was_bought_are_read_free_and_say_so(tmp_path):
    shop = shop_of(tmp_path, "add-remove")
    table = shop.ask(Categories("ill", by="ward"))
    for model in (
        Categories("ward"),
        Proportion("ward", "A"),
        Proportion("ill", "yes"),
        Proportion("ill", "yes", by="ward"),
    ):
        answer = shop.read(model)
        assert answer.charge == table.charge
        assert answer.is_derived == (model != Proportion("ill", "yes", by="ward"))
    assert shop.spent == 1
    with pytest.raises(InvalidParameter, match="the mean of stay must be bought before"):
        shop.read(Mean("stay"))
    direct = shop.ask(Proportion("ill", "yes"))
    assert direct.is_new
    # Of two answers the more precise one is read: its noise is that of one cell, not of eight.
    assert shop.read(Proportion("ill", "yes")).charge == direct.charge


def test_a_mean_is_read_from_means_by_group(tmp_path):
    shop = shop_of(tmp_path, "add-remove")
    by_ward = shop.ask(Mean("stay", by="ward"))
    whole = shop.read(Mean("stay"))
    assert whole.is_derived
    assert whole.charge == by_ward.charge
    groups = by_ward.posterior.estimates()
    assert min(row.mean for row in groups) < whole.posterior.estimates().rows[0].mean < max(row.mean for row in groups)
    difference = by_ward.posterior.contrast(("A",), ("B",))
    assert difference.lower < groups.row("mean of stay", ["A"]).mean - groups.row("mean of stay", ["B"]).mean
    variance = by_ward.posterior.variances()[("A",)]
    assert variance.interval.lower <= variance.value <= variance.interval.upper


def exact_posterior_mean(noisy, laws, prior):
    """Sum Bayes' rule over all pairs of hidden counts, with a uniform prior of their total."""
    counts = range(80)
    top, bottom = 0.0, 0.0
    alpha, other = prior
    for s in counts:
        for f in counts:
            k = np.array([noisy[0] - s, noisy[1] - f], dtype=float)
            likelihood = math.exp(laws[0].log_mass(k[:1])[0] + laws[1].log_mass(k[1:])[0])
            # The Beta-binomial weight of s of s + f.
            logs = math.lgamma(s + f + 1) - math.lgamma(s + 1) - math.lgamma(f + 1)
            logs += math.lgamma(s + alpha) + math.lgamma(f + other) - math.lgamma(s + f + alpha + other)
            weight = likelihood * math.exp(logs)
            top += weight * (s + alpha) / (s + f + alpha + other)
            bottom += weight
    return top / bottom


@pytest.mark.oracle
def test_each_count_is_read_with_its_own_law():
    schema = TableSchema(COLUMNS, Unit(), Neighbours.ADD_REMOVE)
    model = Proportion("ill", "yes", prior=(2.0, 3.0))
    statistic = model.statistics(schema)[0]
    laws = (NoiseSum.of([Laplace(1.5)]), NoiseSum.of([RoundedGaussian(2.0)] * 4))
    for values in ((20, 9), (7, 7), (2, -3)):
        noisy = Noisy(statistic.names, (Observation(np.array([*values, 0, 0]), laws, np.array([0, 1, 0, 0])),), 1)
        found = model.read(noisy, schema).estimates().rows[0].mean
        # Blocks stand in canonical order: no, yes.
        expected = exact_posterior_mean(values, laws, (3.0, 2.0))
        assert found == pytest.approx(1 - expected, abs=2e-6)


def test_labels_tell_equal_values_apart():
    laws = [NoiseSum.of([Laplace(1.0)]), NoiseSum.of([Laplace(5.0)])]
    noise, labels = LawPerInteger.of([4, 4], laws)
    s = np.array([[0.0, 3.0], [0.0, 3.0]])
    weights = noise.log_weight(s, labels[:, None], np.array([[4.0], [4.0]]))
    assert weights[0] == pytest.approx(laws[0].log_weight(s[0], np.array([4.0]), np.array([4.0])))
    assert weights[1] == pytest.approx(laws[1].log_weight(s[1], np.array([4.0]), np.array([4.0])))


KINDS = {
    "one level of a table": (Proportion("ward", "A"), CellCounts, ("ward", "ill")),
    "a margin": (Categories("ward"), CellCounts, ("ward", "ill")),
    "one level against the rest": (Proportion("ward", "B"), CellCounts, ("ward",)),
    "fewer groups": (Proportion("ill", "yes"), CellCounts, ("ward", "ill")),
}


def table_of(schema, columns):
    return CellCounts.of(*(LevelAxis.of_levels(schema, column) for column in columns))


def simulated(statistic, probabilities, rows, law, rng):
    """Return noisy counts of records drawn from the cells."""
    counts = rng.multinomial(rows, probabilities)
    values = np.zeros(len(statistic.names), dtype=np.int64)
    declared = [i for i, name in enumerate(statistic.names) if all(type(c).__name__ == "LevelBlock" for c in name)]
    values[declared] = counts
    noise = law.parts[0][0].draw(rng, (len(values),))
    return Noisy(statistic.names, (Observation(values + noise, (law,), np.zeros(len(values), dtype=np.int64)),), 1)


def coverage_of(kind, law, rows, studies):
    model, _, columns = KINDS[kind]
    schema = TableSchema(COLUMNS, Unit(), Neighbours.ADD_REMOVE)
    bought = table_of(schema, columns)
    wanted = model.statistics(schema)[0]
    matrix = bought.derive(wanted)
    rng = np.random.default_rng(17)
    sizes = [len(COLUMNS[column].values) for column in sorted(columns)]
    hits = 0
    for _ in range(studies):
        shares = rng.dirichlet(np.ones(math.prod(sizes))).reshape(sizes)
        noisy = simulated(bought, shares.ravel(), rows, law, rng).sum_by(matrix)
        row = model.read(noisy, schema).estimates().rows[0]
        axis = sorted(columns).index(model.column)
        margin = shares.sum(axis=tuple(i for i in range(len(sizes)) if i != axis))
        levels = sorted(COLUMNS[model.column].values)
        level = getattr(model, "success", levels[0])
        hits += row.lower <= margin[levels.index(level)] <= row.upper
    return hits / studies


LAWS = {"laplace": NoiseSum.of([Laplace(2.0)]), "gaussian": NoiseSum.of([RoundedGaussian(4.0)])}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rows", [60, 600])
def test_readings_of_sums_cover(kind, law, rows):
    # The truth is drawn from a Dirichlet law of the table's cells, whose margins are not the reading's uniform prior.
    assert 0.85 <= coverage_of(kind, LAWS[law], rows, 300) <= 0.95


def test_bins_are_derived_and_not_bought_again(tmp_path):
    schema = TableSchema(COLUMNS, Unit(), Neighbours.ADD_REMOVE)
    fine = CellCounts.of(BinAxis.of_width(schema, "stay", 20))
    coarse = CellCounts.of(BinAxis.of_width(schema, "stay", 5))
    noisy = Noisy(fine.names, (Observation(np.arange(22), (LAWS["laplace"],), np.zeros(22, dtype=np.int64)),), 1)
    summed = noisy.sum_by(fine.derive(coarse))
    assert summed.only.values.tolist() == [6, 22, 38, 54, 70, 20, 21]
    assert [law.parts[0][1] for law in (summed.only.laws[i] for i in summed.only.law_of_integer)] == [4] * 5 + [1, 1]
    assert coarse.names.tables[0].axes[0].edges[1] == Fraction(2)


def test_a_single_number_with_a_public_total_is_the_exact_posterior_without_noise():
    schema = TableSchema(COLUMNS, Unit(), Neighbours.REPLACE)
    model = Proportion("ill", "yes")
    statistic = model.statistics(schema)[0]
    law = NoiseSum.of([Laplace(0.02)])
    noisy = Noisy(statistic.names, (Observation(np.array([70]), (law,), np.array([0])),), 1, total=100)
    row = model.read(noisy, schema).estimates().rows[0]
    assert [row.lower, row.upper] == pytest.approx(beta(31, 71).ppf([0.05, 0.95]), abs=1e-6)
