"""How far one unit moves what is collected: random tables and their neighbours, through the real query.

The layout's l1 and l2 bounds are never exceeded, for row and person units, both relations, groups and every policy for
missing values; and a constructed pair attains them. Everything that is public is the same for neighbours.
"""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share import examples

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.conjugate.dirichlet_categorical import DirichletCategorical
from vestry.conjugate.normal_mean import NormalMean
from vestry.data import Table
from vestry.model.request import Request, adjacency_of, counts_publicly
from vestry.pipeline import schema_of
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.table_schema import TableSchema

MODELS = {
    "beta": BetaBernoulli("yes", success="y"),
    "beta by ward": BetaBernoulli("yes", success="y", by="ward"),
    "categories": DirichletCategorical("ward"),
    "categories by yes": DirichletCategorical("ward", by="yes"),
    "mean": NormalMean("days", variance=4.0, prior=(5, 9)),
    "mean by ward": NormalMean("days", variance=4.0, prior=(5, 9), by="ward"),
    "derived by both": BetaBernoulli("late", success=True, by=("ward", "yes")),
}
POLICIES = {
    "never": ("never", "never"),
    "drop": ("drop", "drop"),
    "level": ("level", "never"),
    "value": ({"value": "n"}, {"value": 2.0}),
}
records = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["p", "q", "r"]),
        "yes": st.sampled_from(["y", "n", None, "?"]),
        "ward": st.sampled_from(["A", "B", "C", None]),
        "days": st.sampled_from([0.0, 10.0, 2.5, float("nan"), 1e308, -1e308, float("inf"), 7.25]),
    }
)


def domains(policy: str) -> dict:
    levels, numbers = POLICIES[policy]
    ward = {"value": "A"} if isinstance(levels, dict) else levels
    return {
        "yes": Levels("n", "y", missing=levels),
        "ward": Levels("A", "B", "C", missing=ward),
        "days": Interval(0, 10, numbers),
        "late": Levels(False, True, missing="drop" if levels == "drop" else "never", derived="days / 2 > 2.5"),
    }


def table(rows: list[dict], policy: str, unit: str, relation: str) -> Table:
    frame = pd.DataFrame(rows, columns=["id", "yes", "ward", "days"]).astype({"days": float})
    for column in ("id", "yes", "ward"):
        frame[column] = frame[column].astype("object")
    return Table(frame, domains(policy), unit=unit, neighbours=relation, max_rows=10**6)


def collected(model, made: Table, *, like: Table | None = None) -> tuple[int, ...]:
    """Return the integers that a Laplace release would add noise to."""
    frame = schema_of(like or made)
    tally = Request(model, Guarantee.parse("epsilon=1"), "laplace").prepare(frame, 5).tally
    return reveal(made.collect(tally, row_key="key"))


def bounds(model, made: Table) -> tuple[float, float]:
    frame = schema_of(made)
    found = model.family(frame.domains).layout(adjacency_of(frame, model, 5))
    return found.l1, found.l2


def distances(one, other) -> tuple[float, float]:
    steps = [abs(a - b) for a, b in zip(one, other, strict=True)]
    return sum(steps), math.sqrt(sum(step * step for step in steps))


def neighbour(rows, unit: str, relation: str, change):
    """Return the rows with one unit changed, and whether the two are neighbours."""
    if unit == "row":
        return [*rows[1:], *change[:1]] if relation == "replace" else rows[1:]
    rest = [row for row in rows if row["id"] != "p"]
    return rest if relation == "add-remove" else rest + [{**row, "id": "new"} for row in change]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("unit", ["row", "person=id,rows=2"])
@settings(max_examples=examples(8), deadline=None)
@given(
    rows=st.lists(records, min_size=1, max_size=7),
    change=st.lists(records, min_size=1, max_size=4),
    policy=st.sampled_from(list(POLICIES)),
)
@pytest.mark.long
def test_no_neighbour_is_further_than_the_layout_says(model, relation, unit, rows, change, policy):
    one = table(rows, policy, unit, relation)
    other = table(neighbour(rows, unit, relation, change), policy, unit, relation)
    l1, l2 = distances(collected(model, one), collected(model, other))
    allowed = bounds(model, one)
    assert l1 <= allowed[0]
    assert l2 <= allowed[1] * (1 + 1e-12)


def row(yes="n", ward="A", days=0.0, person="p"):
    return {"id": person, "yes": yes, "ward": ward, "days": days}


# One unit's records before and after: nothing, for an addition.
FARTHEST = {
    "beta": (row("y"), row("n")),
    "beta by ward": (row("y", "A"), row("n", "B")),
    "categories": (row(ward="A"), row(ward="B")),
    "categories by yes": (row("y", "A"), row("n", "B")),
    "mean": (row(days=10.0), row(days=0.0)),
    "mean by ward": (row(days=10.0, ward="A"), row(days=0.0, ward="B")),
    "derived by both": (row(days=10.0, ward="A"), row(days=0.0, ward="B")),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("unit", ["row", "person=id,rows=2"])
def test_the_bounds_are_attained(name, relation, unit):
    model, (before, after) = MODELS[name], FARTHEST[name]
    times = 1 if unit == "row" else 2
    others = [row("y", "C", 5.0, "q"), row("n", "B", 1.0, "r")]
    one = table([before] * times + others, "never", unit, relation)
    changed = [{**after, "id": "new"}] * times if relation == "replace" else []
    other = table(changed + others, "never", unit, relation)
    assert distances(collected(model, one), collected(model, other)) == pytest.approx(bounds(model, one), rel=1e-12)


def test_rows_bounded_after_aggregation_are_caught():
    """The broken twin sums all rows of a person, and only then counts the person as one unit of two rows."""
    unit = "person=id,rows=2"
    rows = [row("y")] * 9 + [row("n", person="q")]
    whole, without = (table(each, "never", "row", "add-remove") for each in (rows, rows[9:]))
    model = MODELS["beta"]
    allowed = bounds(model, table(rows, "never", unit, "add-remove"))
    like = table(rows, "never", unit, "add-remove")
    twin = distances(collected(model, whole, like=like), collected(model, without, like=like))
    assert twin[0] == 9 > allowed[0] == 2
    true = [collected(model, table(each, "never", unit, "add-remove")) for each in (rows, rows[9:])]
    assert distances(*true)[0] == 2


def test_a_dropped_record_makes_the_count_private():
    """With `drop` neighbours under replace may count differently many records; nothing public tells."""
    model = MODELS["beta"]
    rows, changed = [row("y"), row("n")], [row(None), row("n")]
    frames = [schema_of(table(each, "drop", "row", "replace")) for each in (rows, changed)]
    assert not any(counts_publicly(frame, model) for frame in frames)
    assert adjacency_of(frames[0], model, 2) == Adjacency("replace")
    counted = [sum(collected(model, table(each, "drop", "row", "replace"))) for each in (rows, changed)]
    assert counted == [2, 1]  # what the broken twin would print as the public count


@pytest.mark.parametrize(
    ("relation", "unit", "policy", "by", "public"),
    [
        ("replace", "row", "never", None, True),
        ("replace", "row", "value", None, True),
        ("replace", "row", "level", None, True),
        ("replace", "row", "drop", None, False),
        ("replace", "row", "never", "ward", False),
        ("replace", "person=id,rows=2", "never", None, False),
        ("add-remove", "row", "never", None, False),
    ],
)
def test_when_the_count_is_public(relation, unit, policy, by, public):
    made = table([row()], policy, unit, relation)
    frame = TableSchema(made.columns, made.unit, made.neighbours)
    assert counts_publicly(frame, BetaBernoulli("yes", success="y", by=by)) is public
