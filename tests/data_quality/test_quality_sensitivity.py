"""How far one unit moves the counts of conditions: brute force, the real query, an audit at the worst neighbours."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from seeded_noise import SeededNoise

from vestry.audit import audit
from vestry.audit.bulk_simulation import log_ratio
from vestry.audit.release_runs import run_release
from vestry.data import Table
from vestry.data_quality.quality_model import Quality
from vestry.errors import InvalidParameter
from vestry.events import pure
from vestry.mechanisms.additive_noise import NOISE_OF, event_of
from vestry.model.request import Request
from vestry.model.worst_pair import Pair
from vestry.numerics import ratio_up, up
from vestry.pipeline import schema_of
from vestry.planning import choose_mechanism
from vestry.privacy.guarantee import Guarantee
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import CONDITIONS

pytestmark = pytest.mark.oracle

COLUMNS = {"smoker": Levels("no", "yes", missing="drop"), "stay": Interval(0, 60), "ward": Levels("A", "B")}
# Values of each column, one for each condition.
VALUES = {"smoker": ["no", None, "No"], "stay": ["5", None, "1,5", "99"], "ward": ["A", "", "b"]}
RECORDS = list(itertools.product(*VALUES.values()))
UNITS = {"row": 1, "person=id,rows=2": 2}


def table(rows, unit, relation, columns=tuple(COLUMNS)):
    frame = pd.DataFrame(rows, columns=["id", *COLUMNS], dtype=object)
    domains = {name: COLUMNS[name] for name in columns}
    return Table(frame, domains, unit=unit, neighbours=relation, max_rows=10**6)


def prepared(made, mechanism="laplace", spend="epsilon=1"):
    return Request(Quality(tuple(made.columns)), Guarantee.parse(spend), mechanism).prepare(schema_of(made), 9)


def collected(made):
    return np.array(reveal(prepared(made).collect(made, row_key="key")))


def contributions(names):
    """Return what every record adds, as unit vectors side by side."""
    sizes = [len(VALUES[name]) for name in names]
    return [
        np.concatenate([np.eye(size)[place] for size, place in zip(sizes, chosen, strict=True)])
        for chosen in itertools.product(*map(range, sizes))
    ]


@pytest.mark.parametrize("names", [("smoker",), ("stay",), ("smoker", "stay"), ("smoker", "stay", "ward")])
@pytest.mark.parametrize(("unit", "rows"), UNITS.items())
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_brute_force(names, unit, rows, relation):
    """Every contribution of a unit against every other, or against nothing: the exact diameter."""
    single = contributions(names)
    some = [np.zeros_like(single[0])]
    some += [sum(each) for k in range(1, rows + 1) for each in itertools.combinations_with_replacement(single, k)]
    units = np.unique(np.array(some), axis=0)
    steps = units[:, None] - (units[None] if relation == "replace" else np.zeros_like(units[:1])[None])
    layout = prepared(table([], unit, relation, names)).mechanism.layout
    assert layout.l1 == np.abs(steps).sum(axis=-1).max() == rows * len(names) * (1 + (relation == "replace"))
    assert layout.l2**2 == pytest.approx((steps**2).sum(axis=-1).max(), rel=1e-12)


@pytest.mark.parametrize(("unit", "rows"), UNITS.items())
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.long
def test_the_real_query_attains_the_bounds_and_never_more(unit, rows, relation):
    others = [("q", *RECORDS[7]), ("r", *RECORDS[20])]
    layout = prepared(table(others, unit, relation)).mechanism.layout
    before = collected(table([("p", *RECORDS[0])] * rows + others, unit, relation))
    far = []
    for record in [*RECORDS[::9], RECORDS[-1]]:
        gone = [("new", *record)] * rows if relation == "replace" else []
        moved = np.abs(before - collected(table(gone + others, unit, relation)))
        assert moved.sum() <= layout.l1
        assert math.sqrt((moved**2).sum()) <= layout.l2 * (1 + 1e-12)
        far.append(moved.sum())
    assert max(far) == layout.l1


def test_one_condition_in_each_column():
    made = table([("p", *record) for record in RECORDS], "row", "add-remove")
    found = collected(made)
    assert [found[:3].sum(), found[3:7].sum(), found[7:].sum()] == [len(RECORDS)] * 3
    assert prepared(made).mechanism.layout.names[:4] == (
        "smoker=fits",
        "smoker=missing",
        "smoker=unmatched",
        "stay=fits",
    )


@pytest.mark.parametrize(("mechanism", "spend"), [("laplace", "epsilon=0.1"), ("gaussian", "rho=0.005")])
@pytest.mark.parametrize(("relation", "steps"), [("add-remove", 3), ("replace", 6)])
def test_the_charge_is_that_of_the_declared_bound(mechanism, spend, relation, steps):
    found = prepared(table([], "row", relation), mechanism, spend).mechanism
    wanted = steps / 0.1 if mechanism == "laplace" else math.sqrt(steps) / math.sqrt(2 * 0.005)
    assert found.scale == pytest.approx(wanted, rel=1e-6)
    assert found.event == event_of(NOISE_OF[mechanism], found.layout, found.scale).under(relation)


@pytest.mark.long
def test_a_cube_is_charged_for_the_most_that_one_count_moves():
    made = table([("p", *RECORDS[0]), ("q", *RECORDS[7])], "row", "replace")
    found = prepared(made, "cube", "epsilon=0.1")
    mechanism = found.mechanism
    assert mechanism.layout.names == tuple(
        f"{name}={each}" for name, values in VALUES.items() for each in CONDITIONS[1 : len(values)]
    )
    assert mechanism.scale == pytest.approx(10.0, rel=1e-9)
    assert mechanism.event == pure(epsilon=up(ratio_up(1, mechanism.scale))).under("replace")
    before = np.array(reveal(found.collect(made, row_key="key")))
    moved = [
        np.abs(before - np.array(reveal(found.collect(table([("p", *record), ("q", *RECORDS[7])], "row", "replace"),
                                                      row_key="key")))).max()
        for record in [*RECORDS[::9], RECORDS[-1]]
    ]  # fmt: skip
    assert max(moved) == mechanism.layout.largest == 1


@pytest.mark.parametrize(
    ("unit", "relation", "spend", "wanted"),
    [
        ("row", "replace", "epsilon=0.1", "cube"),
        ("row", "replace", "epsilon=0.1,delta=1e-6", "cube"),
        ("row", "add-remove", "epsilon=0.1", "laplace"),
        ("person=id,rows=2", "replace", "epsilon=0.1", "laplace"),
        ("row", "replace", "rho=0.005", "gaussian"),
        ("row", "replace", "epsilon=1e-6", "laplace"),
    ],
)
def test_auto_takes_the_least_noise(unit, relation, spend, wanted):
    schema = schema_of(table([], unit, relation))
    request = Request(Quality(tuple(COLUMNS)), Guarantee.parse(spend))
    assert choose_mechanism(request, schema, 1000).mechanism == wanted


def test_a_cube_is_refused_where_the_number_of_records_is_private():
    with pytest.raises(InvalidParameter, match="laplace or gaussian where the number of records is private"):
        prepared(table([], "row", "add-remove"), "cube")


def worst(relation):
    """Return two tables of three columns: everything fits, and one more record, or another one, that fits nowhere."""
    fits, nowhere = [9, 0, 0, 9, 0, 0, 0, 9, 0, 0], [0, 0, 1, 0, 0, 1, 0, 0, 0, 1]
    if relation == "add-remove":
        return Pair("one record more", tuple(fits), tuple(a + b for a, b in zip(fits, nowhere, strict=True)))
    one_less = [8 if value else 0 for value in fits]
    return Pair("another record", tuple(fits), tuple(a + b for a, b in zip(one_less, nowhere, strict=True)))


def audited(mechanism, relation):
    pair, claim = worst(relation), (mechanism.event, mechanism.guarantee)
    run, ratio = partial(run_release, mechanism), log_ratio(mechanism, pair)
    return audit(run, pair.datasets, claim, source=SeededNoise(5), trials=40_000, alarm=1e-6, log_ratio=ratio)


@pytest.mark.long
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_an_audit_at_the_worst_neighbours_does_not_refute(relation):
    assert not audited(prepared(table([], "row", relation)).mechanism, relation).refuted


CUBE_PAIR = Pair("another record", (0,) * 7, (0, 1, 0, 1, 0, 0, 1))


@pytest.mark.long
@pytest.mark.parametrize(("share", "refuted"), [(1.0, False), (0.5, True)])
def test_an_audit_of_the_cube(share, refuted):
    """One record goes from fitting everywhere to nowhere; the twin has half the scale."""
    made = prepared(table([], "row", "replace"), "cube").mechanism
    tried = replace(made, scale=share * made.scale)
    run, ratio = partial(run_release, tried), log_ratio(tried, CUBE_PAIR)
    found = audit(
        run, CUBE_PAIR.datasets, made.guarantee, source=SeededNoise(5), trials=20_000, alarm=1e-6, log_ratio=ratio
    )
    assert found.refuted == refuted


@pytest.mark.long
def test_the_price_of_one_column_is_refuted():
    """The twin pays for one column and counts three."""
    alone = prepared(table([], "row", "add-remove", ("smoker",))).mechanism
    made = prepared(table([], "row", "add-remove")).mechanism
    twin = type(made)(made.noise, alone.scale, made.layout, made.adjacency, made.guarantee)
    pair = worst("add-remove")
    run, claim = partial(run_release, twin), made.guarantee
    found = audit(
        run, pair.datasets, claim, source=SeededNoise(5), trials=40_000, alarm=1e-6, log_ratio=log_ratio(twin, pair)
    )
    assert found.refuted
