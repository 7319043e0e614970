"""Tables: one record moves one cell, the posterior by enumeration, answers that agree, structural zeros, an audit."""

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
from share import examples

import vestry
from vestry.audit import audit_shipped
from vestry.errors import InvalidParameter
from vestry.model.counted_cells import CountedCells
from vestry.model.request import Request
from vestry.pipeline import schema_of
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Certificate, NoisyStatistics, Release
from vestry.schema.domain import Levels
from vestry.schema.private import reveal
from vestry.schema.table_schema import TableSchema
from vestry.tables.contingency_table import ContingencyTable, contingency_reader
from vestry.tables.joint_table import JointTable

DOMAINS = {"ward": Levels("A", "B", "C", missing="level"), "sex": Levels("f", "m"), "ill": Levels(False, True)}
rows = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["p", "q", "r"]),
        "ward": st.sampled_from(["A", "B", "C", None]),
        "sex": st.sampled_from(["f", "m"]),
        "ill": st.sampled_from([True, False]),
    }
)
MODELS = [ContingencyTable(("ward", "sex")), ContingencyTable(("sex", "ill", "ward"), zeros=(("f", "true", "A"),))]


def collected(model, given_rows, unit, relation):
    frame = pd.DataFrame(given_rows, columns=["id", "ward", "sex", "ill"]).astype(object)
    table = vestry.Table(frame, DOMAINS, unit=unit, neighbours=relation, max_rows=1000)
    prepared = Request(model, Guarantee.parse("epsilon=1"), "laplace").prepare(schema_of(table), 5)
    return prepared, reveal(prepared.collect(table, row_key="key"))


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS, ids=["two", "three"])
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


DESCRIBED = {
    "name": "table",
    "columns": [{"name": "a", "levels": ["x", "y"]}, {"name": "b", "levels": ["no", "yes"]}],
    "zeros": [],
}
ALPHA, SCALE, DRAWS = 1.5, 1.2, 100_000


def posterior_of(z, *, zeros=(), count=None):
    claim = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", SCALE, "", "row", {})
    noisy = NoisyStatistics(("",) * 4, tuple(z), "discrete-laplace", SCALE, count=count)
    return Release({**DESCRIBED, "zeros": list(zeros)}, (ALPHA,), {"all": noisy}, claim).posterior()


def enumerated(z, count: int, kept: list[int]) -> dict[tuple[int, ...], float]:
    """Return the probability of every table of so many records, by the Dirichlet-multinomial and the noise."""
    found = {}
    for cells in product(range(count + 1), repeat=len(kept)):
        if sum(cells) == count:
            prior = sum(math.lgamma(s + ALPHA) - math.lgamma(s + 1) for s in cells)
            noise = -sum(abs(z[at] - s) for at, s in zip(kept, cells, strict=True)) / SCALE
            found[cells] = math.exp(prior + noise)
    total = math.fsum(found.values())
    return {cells: weight / total for cells, weight in found.items()}


def close(found, mean: float, sd: float) -> bool:
    """Tell whether a mean of draws is within six standard errors: once in 5e8 it is not by chance."""
    return abs(found - mean) < 6 * sd / math.sqrt(DRAWS)


def test_margins_and_conditionals_are_those_of_enumeration():
    z, count = (4, -1, 2, 3), 7
    weights = enumerated(z, count, [0, 1, 2, 3])
    table = posterior_of(z, count=count).table(DRAWS, np.random.default_rng(5))
    whole = count + 4 * ALPHA
    margin = sum(w * (s[0] + s[1] + 2 * ALPHA) / whole for s, w in weights.items())
    found = table.margin("a").loc["x"]
    assert close(found["mean"], margin, found["sd"])
    share = sum(w * (s[1] + ALPHA) / (s[0] + s[1] + 2 * ALPHA) for s, w in weights.items())
    found = table.conditional("b", "a").loc[("x", "yes")]
    assert close(found["mean"], share, found["sd"])
    other = sum(w * (s[3] + ALPHA) / (s[2] + s[3] + 2 * ALPHA) for s, w in weights.items())
    found = table.difference("b", "yes", "a", "y", "x").iloc[0]
    assert close(found["mean"], other - share, found["sd"])
    # The same draws would be far off for a prior of another concentration.
    wrong = sum(w * (s[1] + 1) / (s[0] + s[1] + 2) for s, w in weights.items())
    assert not close(table.conditional("b", "a").loc[("x", "yes")]["mean"], wrong, found["sd"])


def test_a_structural_zero_has_the_probability_0_and_is_not_counted():
    posterior = posterior_of((4, 30, 2, 3), zeros=[1])
    assert posterior.reader.dimension == 3
    table = posterior.table(20_000, np.random.default_rng(5))
    assert table.margin("a", "b").loc[("x", "yes"), "high"] == 0
    assert table.conditional("b", "a").loc[("x", "yes"), "mean"] == 0
    assert table.margin("a").loc["x", "mean"] < 0.8
    drawn = np.array([[[0.0, 0.0], [0.5, 0.5]], [[0.0, 0.0], [0.2, 0.8]]])
    never = JointTable(("a", "b"), (("x", "y"), ("no", "yes")), drawn, "")
    assert list(never.conditional("b", "a").index) == [("y", "no"), ("y", "yes")]
    with pytest.raises(InvalidParameter, match="a comparison must be of levels that may occur"):
        never.ratio("b", "yes", "a", "x", "y")
    # Where a level occurs in one draw, what is said is given that it does.
    drawn[1] = [[0.1, 0.3], [0.2, 0.4]]
    assert never.conditional("b", "a").loc[("x", "yes"), "mean"] == pytest.approx(0.75)


def test_answers_agree_because_they_come_from_the_same_draws():
    cells = np.random.default_rng(1).dirichlet(np.ones(12), 500).reshape(500, 2, 3, 2)
    table = JointTable(("a", "b", "c"), (("x", "y"), ("p", "q", "r"), ("no", "yes")), cells, "made")
    whole = table.margin("a", "b", "c")["mean"]
    assert whole.sum() == pytest.approx(1)
    assert table.margin("b")["mean"].to_dict() == pytest.approx(whole.groupby("b").sum().to_dict())
    turned = table.margin("c", "a")
    assert turned.index.names == ["c", "a"]
    assert turned.loc[("yes", "x"), "mean"] == pytest.approx(cells[:, 0, :, 1].sum(axis=1).mean())
    given_two = table.conditional("c", ("a", "b"))["mean"]
    assert given_two.groupby(["a", "b"]).sum().to_list() == pytest.approx([1.0] * 6)
    one = table.ratio("c", "yes", "a", "x", "y").iloc[0]
    other = table.ratio("c", "yes", "a", "y", "x").iloc[0]
    assert one["low"] == pytest.approx(1 / other["high"], rel=0.05)


def test_association_is_cramers_v():
    def v_of(cells) -> float:
        table = JointTable(("a", "b"), (("x", "y"), ("p", "q", "r")), np.array([cells]), "made")
        return table.association("a", "b")["mean"].iloc[0]

    assert v_of(np.outer([0.3, 0.7], [0.2, 0.5, 0.3])) == pytest.approx(0, abs=1e-8)
    assert v_of([[0.4, 0.0, 0.0], [0.0, 0.1, 0.5]]) == pytest.approx(1)
    counts = np.array([[10.0, 20, 30], [20, 10, 10]])
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / 100
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert v_of(counts / 100) == pytest.approx(math.sqrt(chi_squared / 100))


REFUSED = [
    ({"columns": ("ward",)}, "columns must be two or three columns of levels"),
    ({"columns": ("ward", "ward")}, "columns must be each column once"),
    ({"columns": ("ward", "sex"), "zeros": (("f", "A"),)}, "zeros must be lists of one level of ward, sex each"),
    ({"columns": ("ward", "sex"), "zeros": "A"}, "zeros must be lists of one level"),
    ({"columns": ("sex", "ill"), "zeros": (("f", "true"), ("m", "true"))}, "so few that 3 cells remain"),
    ({"columns": ("ward", "sex"), "prior": 0}, "prior must be a number"),
]


@pytest.mark.parametrize(("keys", "sentence"), REFUSED, ids=[each[1][:30] for each in REFUSED])
def test_what_is_not_a_table_is_refused(keys, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        ContingencyTable(**keys).check(DOMAINS)


def test_what_is_not_in_a_table_is_refused():
    table = JointTable(("a", "b"), (("x", "y"), ("p", "q")), np.full((1, 2, 2), 0.25), "made")
    for asked, sentence in {
        lambda: table.margin("c"): "a column must be",
        lambda: table.margin(): "one or more, each once",
        lambda: table.ratio("a", "z", "b", "p", "q"): "a level of a must be",
        lambda: table.difference("a", "x", "b", "p", "p"): "of two levels",
        lambda: table.association("a", "a"): "of two columns",
    }.items():
        with pytest.raises(InvalidParameter, match=sentence):
            asked()
    with pytest.raises(InvalidParameter, match="one number, or none"):
        contingency_reader(DESCRIBED, (1.0, 2.0))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("relation", Neighbours, ids=str)
@pytest.mark.parametrize("unit", [Unit(), Unit("id", 3)], ids=str)
def test_the_noise_is_not_refuted_and_half_of_it_is(unit, relation):
    """False alarms: at most 1e-6 a test."""
    model, schema = MODELS[0], TableSchema(DOMAINS, unit, relation)
    made = Request(model, Guarantee.parse("epsilon=1", neighbours=relation), "laplace").prepare(schema, 50).mechanism
    how = {"noise": SeededNoise(5), "trials": 40_000, "releases": 0}
    assert not audit_shipped(made, CountedCells(model.columns), **how).refuted
    twin = replace(made, scale=made.scale / 2)
    assert audit_shipped(twin, CountedCells(model.columns), claim=(made.event, made.guarantee), **how).refuted


@pytest.mark.long
def test_a_release_of_a_table_is_read(tmp_path):
    frame = pd.DataFrame([{"sex": "f", "ill": True}] * 300 + [{"sex": "m", "ill": False}] * 300)
    table = vestry.Table(frame, DOMAINS, neighbours="add-remove")
    ledger = vestry.Ledger.create(
        str(tmp_path / "d.ledger"), dataset="d", unit="row", neighbours="add-remove", budget="epsilon=8"
    )
    kept = tmp_path / "r.json"
    posterior = vestry.release(ContingencyTable(("sex", "ill")), table, guarantee="epsilon=8", ledger=ledger, path=kept)
    again = vestry.open_release(kept).posterior()
    assert again.labels == ("f, false", "f, true", "m, false", "m, true")
    assert again.summary().equals(posterior.summary())
    assert again.table(2000, np.random.default_rng(1)).association("sex", "ill")["low"].iloc[0] > 0.9
    noisy = dict.fromkeys(("A", "B"), NoisyStatistics(("records",), (3,), "discrete-laplace", 1.0))
    other = Release({"name": "count", "of": "records"}, (), noisy, again.certificate).posterior()
    with pytest.raises(InvalidParameter, match="table must be asked of a table of several columns"):
        other.table()


def test_two_cells_of_one_name_are_refused():
    domains = {"a": Levels("x, y", "x"), "b": Levels("z", "y, z")}
    with pytest.raises(InvalidParameter, match="columns whose levels tell the cells apart"):
        ContingencyTable(("a", "b")).check(domains)


def sparse_table(cells: int, records: int):
    """Return joint draws of a table of two columns with so many records in each cell, give or take one."""
    names = [f"l{place}" for place in range(cells // 2)]
    described = {
        "name": "table",
        "columns": [{"name": "a", "levels": names}, {"name": "b", "levels": ["no", "yes"]}],
        "zeros": [],
    }
    claim = Certificate({"epsilon": 0.5}, {"kind": "pure", "count": 1}, "laplace", "scale", 2.0, "", "row", {})
    values = tuple(records + place % 3 - 1 for place in range(cells))
    noisy = NoisyStatistics(("",) * cells, values, "discrete-laplace", 2.0)
    return Release(described, (), {"all": noisy}, claim).posterior().table(200, np.random.default_rng(1))


def test_margins_that_lean_on_the_prior_say_so():
    """Cells that are alike leave open how even the others are: a prior that weighs 0.1 or more pulls margins."""
    few, many = sparse_table(24, 12), sparse_table(24, 1000)
    words = "margins lean towards even ones: not calibrated"
    assert words in few.margin("a").columns.name
    assert words in few.margin_words
    assert words not in few.margin("a", "b").columns.name
    assert words not in few.conditional("b", "a").columns.name
    assert words not in many.margin("a").columns.name
    assert many.margin_words == ""
