"""How far one person moves what is collected: every set of few rows, and random tables through the real query.

The brute force has the theory's parts in fractions, and shares no code with the package.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share import cases, examples

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.conjugate.dirichlet_categorical import DirichletCategorical
from vestry.conjugate.gamma_poisson import GammaPoisson
from vestry.conjugate.normal_mean import NormalMean
from vestry.data import Table
from vestry.model.averaging import person_units
from vestry.model.request import Request
from vestry.persons.person_average import PersonAverage
from vestry.pipeline import schema_of
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal

pytestmark = pytest.mark.oracle

DROPPED = None


def number_parts(rows, groups) -> tuple[Fraction, ...]:
    """Return (s^2, 2 s f, f^2, s (1 - w), f (1 - w)) of each group; a row is a group and a number from 0 to 1."""
    kept = [row for row in rows if row is not DROPPED]
    found = []
    for group in range(groups):
        own = [value for at, value in kept if at == group]
        s, w = sum(own, Fraction(0)) / max(1, len(kept)), Fraction(len(own), max(1, len(kept)))
        f = w - s
        found += [s * s, 2 * s * f, f * f, s * (1 - w), f * (1 - w)]
    return tuple(found)


def level_parts(rows, groups, levels) -> tuple[Fraction, ...]:
    """Return (q^2, q (w - q), q (1 - w)) of each group and level; a row is a group and a level."""
    kept = [row for row in rows if row is not DROPPED]
    m, found = max(1, len(kept)), []
    for group, level in itertools.product(range(groups), range(levels)):
        q, w = (
            Fraction(sum(test), m)
            for test in ([row == (group, level) for row in kept], [row[0] == group for row in kept])
        )
        found += [q * q, q * (w - q), q * (1 - w)]
    return tuple(found)


def sets_of(values, rows):
    for size in range(rows + 1):
        yield from itertools.combinations_with_replacement(values, size)


def farthest(vectors) -> dict[str, tuple[float, float]]:
    """Return the largest l1 and l2 distance from nothing, and between any two."""
    points = np.array(sorted({tuple(map(float, each)) for each in vectors}))
    l1 = np.abs(points[:, None] - points[None]).sum(axis=2).max()
    l2 = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2).max())
    return {
        "add-remove": (np.abs(points).sum(axis=1).max(), np.sqrt((points**2).sum(axis=1).max())),
        "replace": (l1, l2),
    }


HALVES = [Fraction(0), Fraction(1, 2), Fraction(1)]
DOMAINS = {
    "yes": Levels("n", "y", missing="drop"),
    "ward": Levels("A", "B", "C", missing="drop"),
    "sex": Levels("f", "m"),
    "days": Interval(0, 10, "drop"),
    "visits": Interval(0, 4),
}
# A model, and every vector that a person of at most three rows may add.
NUMBER = [(0, value) for value in HALVES]
CASES = {
    "proportion": (BetaBernoulli("yes", success="y"),
                   lambda: (number_parts(rows, 1) for rows in sets_of([(0, 0), (0, 1), DROPPED], 3))),
    "proportion by sex": (BetaBernoulli("yes", success="y", by="sex"),
                          lambda: (number_parts(rows, 2) for rows in
                                   sets_of([*itertools.product(range(2), range(2)), DROPPED], 3))),
    "mean": (NormalMean("days", variance=4.0, prior=(5, 9)),
             lambda: (number_parts(rows, 1) for rows in sets_of([*NUMBER, DROPPED], 3))),
    "rate by sex": (GammaPoisson("visits", by="sex"),
                    lambda: (number_parts(rows, 2) for rows in
                             sets_of([*NUMBER, *((1, value) for value in HALVES), DROPPED], 3))),
    "categories": (DirichletCategorical("ward"),
                   lambda: (level_parts(rows, 1, 3) for rows in sets_of([*((0, at) for at in range(3)), DROPPED], 3))),
    "categories by sex": (DirichletCategorical("ward", by="sex"),
                          lambda: (level_parts(rows, 2, 3) for rows in
                                   sets_of([*itertools.product(range(2), range(3)), DROPPED], 3))),
}  # fmt: skip


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("name", CASES)
def test_the_layout_is_the_brute_forces(name, relation):
    model, vectors = CASES[name]
    layout = PersonAverage(model).parts(DOMAINS).layout(Adjacency(relation, 3, groups=2 if model.by else 1))
    l1, l2 = farthest(vectors())[relation]
    units = person_units(3)
    assert layout.grid == 1 / units
    assert layout.l1 == pytest.approx(units * l1, rel=1e-15)
    assert layout.l2 == pytest.approx(units * l2, rel=1e-15)


def test_two_means_move_as_far_as_two_records():
    model = PersonAverage(NormalMean(("days", "days2"), variance=4.0, prior=(5, 9)))
    domains = {"days": Interval(0, 10), "days2": Interval(0, 10)}
    pairs = [
        number_parts(one, 1) + number_parts(two, 1)
        for one in sets_of(NUMBER, 2)
        for two in sets_of(NUMBER, len(one))
        if len(one) == len(two)
    ]
    for relation, (l1, l2) in farthest([*pairs, (Fraction(0),) * 10]).items():
        layout = model.parts(domains).layout(Adjacency(relation, 2))
        assert (layout.l1 * layout.grid, layout.l2 * layout.grid) == pytest.approx((l1, l2), rel=1e-12)


def test_a_mean_of_her_own_in_every_group_costs_more():
    """The broken twin weighs a person's rows in each group by themselves: she moves as much as groups have her."""
    rows = [(0, 1), (1, 1)]
    assert sum(sum(number_parts([row], 2)) for row in rows) == 2
    assert sum(number_parts(rows, 2)) == 1


SIZES = {1: 2**20, 2: 2**20, 3: 29127 * 36, 6: 291 * 3600, 8: 705600, 10: 416 * 2520, 16: 720720, 17: 2**20}


@pytest.mark.parametrize(("rows", "units"), [*SIZES.items(), (10**9, 2**20)])
def test_units_are_multiples_of_what_makes_weights_whole(rows, units):
    assert person_units(rows) == units


# Random tables, through the real query

MODELS = {
    **{name: model for name, (model, _) in CASES.items()},
    "mean by ward": NormalMean("days", variance=4.0, prior=(5, 9), by="ward"),
    "proportion by ward": BetaBernoulli("yes", success="y", by="ward"),
}
records = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["p", "q", "r"]),
        "yes": st.sampled_from(["y", "n", None, "?"]),
        "ward": st.sampled_from(["A", "B", "C", None]),
        "sex": st.sampled_from(["f", "m"]),
        "days": st.sampled_from([0.0, 10.0, 2.5, float("nan"), 1e308, float("-inf"), 7.25]),
        "visits": st.sampled_from([0.0, 1.0, 4.0, 9.0, float("nan")]),
    }
)


def table(rows: list[dict], unit: str, relation: str) -> Table:
    frame = pd.DataFrame(rows, columns=["id", *DOMAINS]).astype({"days": float, "visits": float})
    for column in ("id", "yes", "ward", "sex"):
        frame[column] = frame[column].astype("object")
    return Table(frame, DOMAINS, unit=unit, neighbours=relation, max_rows=10**6)


def collected(model, made: Table):
    prepared = Request(PersonAverage(model), Guarantee.parse("epsilon=1"), "laplace").prepare(schema_of(made), None)
    return reveal(made.collect(prepared.tally, row_key="key")), prepared.mechanism.layout


def distances(one, other) -> tuple[float, float]:
    steps = [abs(a - b) for a, b in zip(one, other, strict=True)]
    return sum(steps), math.sqrt(sum(step * step for step in steps))


QUICK = ("proportion by ward",)


@pytest.mark.examples
@pytest.mark.parametrize("name", cases(MODELS, quick=QUICK))
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@settings(max_examples=examples(10), deadline=None)
@given(
    rows=st.lists(records, min_size=1, max_size=9),
    change=st.lists(records, min_size=1, max_size=5),
    keep=st.sampled_from([2, 3, 9, 17]),
)
@pytest.mark.long
def test_no_neighbour_is_further_than_the_layout_says(name, relation, rows, change, keep):
    model = MODELS[name]
    rest = [row for row in rows if row["id"] != "p"]
    other = rest if relation == "add-remove" else rest + [{**row, "id": "new"} for row in change]
    unit = f"person=id,rows={keep}"
    one, layout = collected(model, table(rows, unit, relation))
    two, _ = collected(model, table(other, unit, relation))
    l1, l2 = distances(one, two)
    assert min(*one, *two) >= 0
    assert l1 <= layout.l1
    assert l2 <= layout.l2 * (1 + 1e-12)


def row(yes="n", ward="A", days=0.0, sex="f", visits=0.0, person="p"):
    return {"id": person, "yes": yes, "ward": ward, "sex": sex, "days": days, "visits": visits}


@pytest.mark.parametrize("name", cases(MODELS, quick=QUICK))
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_bounds_are_attained(name, relation):
    model = MODELS[name]
    others = [row("y", "C", 5.0, "m", 2.0, "q"), row("n", "B", 1.0, "f", 1.0, "r")]
    before, after = [row("y", "A", 10.0, "f", 4.0)] * 3, [row("n", "B", 0.0, "m", 0.0, "new")] * 3
    one, layout = collected(model, table(before + others, "person=id,rows=3", relation))
    two, _ = collected(model, table((after if relation == "replace" else []) + others, "person=id,rows=3", relation))
    assert distances(one, two) == pytest.approx((layout.l1, layout.l2), rel=1e-12)
