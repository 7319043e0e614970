"""Counts: how far one unit moves them, their posterior by enumeration, exact coverage, and an audit with its twin."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeded_noise import SeededNoise
from share import cases, examples

import vestry
from vestry.audit import audit_shipped
from vestry.errors import InvalidParameter
from vestry.model.counted_cells import CountedCells
from vestry.model.request import Request
from vestry.pipeline import schema_of
from vestry.planning import budget_for_width
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency, Neighbours, Unit
from vestry.releases import NoisyStatistics
from vestry.schema.domain import Levels
from vestry.schema.private import reveal
from vestry.schema.table_schema import TableSchema
from vestry.tables.count_posterior import CountReader, count_posterior
from vestry.tables.record_count import RecordCount

WARDS = ("A", "B", "C")
DOMAINS = {"ward": Levels(*WARDS, missing="drop"), "sex": Levels("f", "m")}
rows = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["p", "q", "r"]),
        "ward": st.sampled_from([*WARDS, None]),
        "sex": st.sampled_from(["f", "m", "?"]),
    }
)


def contributions(cells: int, k: int, of: str) -> set[tuple[int, ...]]:
    """Return everything that one unit of up to k records may add, nothing included: the definition."""
    placed = {places for size in range(k + 1) for places in product(range(cells), repeat=size)}
    added = {tuple(places.count(cell) for cell in range(cells)) for places in placed}
    return {tuple(map(bool, each)) for each in added} if of == "persons" else added


@pytest.mark.parametrize("of", ["records", "persons"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("cells", [1, 2, 3, 5])
def test_sensitivities_are_the_diameters(cells, k, relation, of):
    units = contributions(cells, k, of)
    nothing = (0,) * cells
    pairs = product(units, units) if relation == "replace" else ((one, nothing) for one in units)
    steps = [[abs(a - b) for a, b in zip(one, other, strict=True)] for one, other in pairs]
    l1, l2 = CountedCells((), of).sensitivities(Adjacency(Neighbours.parse(relation), k), cells)
    assert l1 == max(map(sum, steps))
    assert l2 == pytest.approx(max(math.hypot(*each) for each in steps), rel=1e-15)


def collected(model: RecordCount, given: list[dict], unit: str, relation: str):
    frame = pd.DataFrame(given, columns=["id", "ward", "sex"]).astype(object)
    table = vestry.Table(frame, DOMAINS, unit=unit, neighbours=relation, max_rows=1000)
    prepared = Request(model, Guarantee.parse("epsilon=1"), "laplace").prepare(schema_of(table), None)
    return prepared, reveal(prepared.collect(table, row_key="key"))


CASES = [
    (RecordCount("ward"), "row"), (RecordCount(("ward", "sex")), "row"), (RecordCount("ward"), "person=id,rows=2"),
    (RecordCount(("ward", "sex"), of="persons"), "person=id,rows=2"), (RecordCount(of="persons"), "person=id,rows=2"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("model", "unit"), CASES, ids=lambda case: str(case)[:60])
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


@pytest.mark.long
def test_persons_and_records_are_counted_in_each_group():
    given_rows = [{"id": who, "ward": ward, "sex": "f"} for who, ward in zip("ppqqr", "AABAC", strict=True)]
    given_rows.append({"id": "s", "ward": None, "sex": "m"})
    assert collected(RecordCount("ward"), given_rows, "row", "replace")[1] == (3, 1, 1)
    assert collected(RecordCount(), given_rows, "row", "add-remove")[1] == (6,)
    assert collected(RecordCount("ward", of="persons"), given_rows, "person=id,rows=2", "replace")[1] == (2, 1, 1)
    assert collected(RecordCount(of="persons"), given_rows, "person=id,rows=2", "add-remove")[1] == (4,)
    assert collected(RecordCount("ward"), given_rows, "person=id,rows=2", "add-remove")[1] == (3, 1, 1)


def law(noise: str, scale: float, k: int) -> float:
    """Return P(noise = k) up to a constant: the definition."""
    return math.exp(-abs(k) / scale) if noise == "discrete-laplace" else math.exp(-(k**2) / (2 * scale**2))


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("z", [-9, -2, 0, 1, 7, 400])
def test_the_posterior_is_that_of_enumeration(noise, z):
    scale = 3.7
    weights = {n: law(noise, scale, z - n) for n in range(700)}
    total = math.fsum(weights.values())
    found = count_posterior(NoisyStatistics(("records",), (z,), noise, scale))
    mean = math.fsum(n * w for n, w in weights.items()) / total
    assert found.mean() == pytest.approx(mean, rel=1e-9, abs=1e-12)
    spread = math.fsum((n - mean) ** 2 * w for n, w in weights.items()) / total
    assert found.variance() == pytest.approx(spread, rel=1e-9, abs=1e-12)
    for x in (0, 1, 5.5, 402):
        assert found.cdf(x) == pytest.approx(math.fsum(w for n, w in weights.items() if n <= x) / total, abs=1e-12)
    low, high = found.interval(0.9)
    inside = math.fsum(w for n, w in weights.items() if low <= n <= high) / total
    assert inside >= 0.9
    # Without the least probable of them, at one end or at both, it is below.
    least = min(weights[low], weights[high])
    dropped = math.fsum(weights[n] for n in {low, high} if weights[n] <= least * (1 + 1e-9))
    assert inside - dropped / total < 0.9


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("scale", cases([2.0, 10.0, 100.0], quick=[2.0]))
def test_coverage_is_near_nominal_for_every_count(noise, scale):
    """Exact: summed over the noise. Counts near 0 are held more often, those of about three scales less."""
    reach = int(12 * scale)
    step = max(1, int(scale / 20))
    ks = np.arange(-reach, reach + 1, step)
    weights = np.array([law(noise, scale, int(k)) for k in ks])
    for count in (0, int(scale / 2), int(2 * scale), int(3 * scale), int(50 * scale)):
        held = []
        for k in ks:
            low, high = count_posterior(NoisyStatistics(("records",), (count + int(k),), noise, scale)).interval(0.9)
            held.append(low <= count <= high)
        assert 0.86 <= weights @ np.array(held) / weights.sum() <= 0.965


def test_draws_are_of_the_posterior():
    found = count_posterior(NoisyStatistics(("records",), (3,), "discrete-laplace", 2.0))
    drawn = found.draw(np.random.default_rng(1), 200_000)
    assert drawn.shape == (200_000, 1)
    assert abs(drawn.mean() - found.mean()) < 6 * math.sqrt(found.variance() / 200_000)


def test_what_cannot_be_counted_is_refused():
    schema = TableSchema(DOMAINS, Unit(), Neighbours.REPLACE)
    asked = Guarantee.parse("epsilon=1")
    with pytest.raises(InvalidParameter, match="under replace the number of rows is public"):
        Request(RecordCount(), asked, "laplace").prepare(schema, 5)
    with pytest.raises(InvalidParameter, match="of must be records where the unit is a row"):
        Request(RecordCount("ward", of="persons"), asked, "laplace").prepare(schema, 5)
    with pytest.raises(InvalidParameter, match='of must be "records" or "persons"'):
        RecordCount(of="rows").check(DOMAINS)
    with pytest.raises(InvalidParameter, match="predict must be asked of a model of records"):
        CountReader("records").predict(np.zeros((1, 1)), 3, np.random.default_rng(1))


def test_a_plan_finds_the_budget_of_a_count():
    """An interval of a Laplace posterior far from 0 is 2 scale log(10) wide; here it is to be 30."""
    schema = TableSchema(DOMAINS, Unit(), Neighbours.ADD_REMOVE)
    request = Request(RecordCount("ward"), Guarantee.parse("epsilon=1"), "laplace")
    found = budget_for_width(request, schema, expected_rows=3000, width=30)
    assert found.epsilon == pytest.approx(2 * math.log(10) / 30, rel=0.05)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("relation", Neighbours, ids=str)
@pytest.mark.parametrize("by", [None, "ward"])
def test_the_noise_is_not_refuted_and_half_of_it_is(by, relation):
    """False alarms: at most 1e-6 a test."""
    model, schema = RecordCount(by), TableSchema(DOMAINS, Unit("id", 3), relation)
    made = Request(model, Guarantee.parse("epsilon=1", neighbours=relation), "laplace").prepare(schema, None).mechanism
    how = {"noise": SeededNoise(5), "trials": 40_000, "releases": 0}
    assert not audit_shipped(made, CountedCells(model.columns), **how).refuted
    twin = replace(made, scale=made.scale / 2)
    assert audit_shipped(twin, CountedCells(model.columns), claim=(made.event, made.guarantee), **how).refuted


@pytest.mark.long
def test_a_release_of_counts_is_read(tmp_path):
    frame = pd.DataFrame([{"ward": "A"}] * 300 + [{"ward": "B"}] * 20)
    table = vestry.Table(frame, {"ward": Levels("A", "B", "C")}, neighbours="add-remove")
    ledger = vestry.Ledger.create(
        str(tmp_path / "d.ledger"), dataset="d", unit="row", neighbours="add-remove", budget="epsilon=8"
    )
    kept = tmp_path / "r.json"
    posterior = vestry.release(RecordCount("ward"), table, guarantee="epsilon=8", ledger=ledger, path=kept)
    again = vestry.open_release(kept).posterior()
    assert again.summary().equals(posterior.summary())
    assert list(again.distributions) == ["A", "B", "C"]
    assert again.interval().columns.name == "noise summed out, shortest interval"
    assert abs(posterior.summary()["mean"].iloc[0] - 300) < 10
    assert again.to_arviz(np.random.default_rng(1), draws=20)["posterior"]["count"].shape == (4, 20, 3)
