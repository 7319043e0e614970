"""The statistic of regressions by table: sums by one query, sensitivities by brute force over neighbours, an audit."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pandas as pd
import pytest

from vestry import Interval, Levels, Table
from vestry.audit.builtin import audit_shipped
from vestry.mechanisms.additive_noise import calibrate_noise
from vestry.noise import SystemNoise
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moments import LevelColumn
from vestry.regression.outcome_table import OutcomeTable
from vestry.schema.private import reveal

pytestmark = pytest.mark.oracle

PREDICTORS = (LevelColumn("sex", ("f", "m")), LevelColumn("ward", ("A", "B", "C")))
LEVELS = OutcomeTable(PREDICTORS, "y", (("not yes", ("no", "unknown")), ("yes", ("yes",))))
CLASSES = OutcomeTable(PREDICTORS[:1], "y", tuple((each, (each,)) for each in ("no", "unknown", "yes")))
COUNTS = OutcomeTable(PREDICTORS[:1], "visits", high=5)
DOMAINS = {"sex": Levels("f", "m"), "ward": Levels("A", "B", "C"), "y": Levels("no", "unknown", "yes"),
           "visits": Interval(0, 5)}  # fmt: skip
TABLES = {"levels": LEVELS, "classes": CLASSES, "counts": COUNTS}


def contributions(table: OutcomeTable) -> list[np.ndarray]:
    """Return what every possible record adds, from the declaration alone."""
    found = []
    cells = list(product(*(each.levels for each in table.predictors)))
    for cell in range(len(cells)):
        kinds = range(6) if table.high else range(len(table.classes))
        for outcome in kinds:
            own = np.zeros((len(cells), 2 if table.high else len(table.classes)), dtype=int)
            if table.high:
                own[cell] = [table.units, outcome]
            else:
                own[cell, outcome] = 1
            found.append(own.ravel())
    return found


def farthest(table: OutcomeTable, neighbours: str, rows: int) -> tuple[float, float]:
    """Return the greatest l1 and l2 distance over all that a unit of up to so many records can do."""
    records = contributions(table)
    units = [sum(each) for each in combinations_with_replacement(records, rows)]
    fewer = [sum(each) for k in range(1, rows) for each in combinations_with_replacement(records, k)]
    nothing = np.zeros_like(records[0])
    every = [nothing, *fewer, *units]
    pairs = product(every, every if neighbours == "replace" else [nothing])
    gaps = np.array([one - other for one, other in pairs])
    return float(np.abs(gaps).sum(axis=1).max()), float(np.sqrt((gaps**2).sum(axis=1)).max())


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", TABLES)
def test_sensitivities_are_those_of_brute_force(name, neighbours, rows):
    table = TABLES[name]
    layout = table.layout(Adjacency(neighbours, rows))
    assert (layout.l1, layout.l2) == pytest.approx(farthest(table, neighbours, rows), rel=1e-12)


def test_the_query_counts_every_record_once():
    rng = np.random.default_rng(3)
    n = 80
    frame = pd.DataFrame({
        "sex": rng.choice(["f", "m"], n), "ward": rng.choice(["A", "B", "C"], n),
        "y": rng.choice(["no", "unknown", "yes"], n), "visits": rng.integers(-1, 8, n),
    })  # fmt: skip
    table = Table(frame, DOMAINS, neighbours="add-remove")
    by_hand = [
        ((frame.sex == s) & (frame.ward == w) & ((frame.y == "yes") == yes)).sum()
        for s in "fm" for w in "ABC" for yes in (False, True)
    ]  # fmt: skip
    assert list(reveal(table.collect(LEVELS.query, row_key="k"))) == by_hand
    visits = frame.visits.clip(0, 5)
    sums = [x for s in "fm" for x in (2 * (frame.sex == s).sum(), visits[frame.sex == s].sum())]
    assert list(reveal(table.collect(COUNTS.query, row_key="k"))) == sums


def test_features_are_products_of_indicators():
    terms = (("sex",), ("ward",), ("sex", "ward"))
    names = ("sex[m]", "ward[B]", "ward[C]", "sex[m]:ward[B]", "sex[m]:ward[C]", "intercept")
    assert LEVELS.feature_names(terms) == names
    assert LEVELS.features(terms, [("m", "C"), ("f", "B")]).tolist() == [[1, 0, 1, 0, 1, 1], [0, 1, 0, 0, 0, 1]]
    assert OutcomeTable.from_dict(LEVELS.to_dict()) == LEVELS
    assert OutcomeTable.from_dict(COUNTS.to_dict()) == COUNTS


@pytest.mark.long
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", TABLES)
def test_an_audit_passes_and_refutes_a_twin_that_forgets_a_part(name, neighbours):
    """The twin has half the noise: it forgets that records are counted beside outcomes, or the cell that one leaves."""
    table, adjacency = TABLES[name], Adjacency(neighbours)
    guarantee = Guarantee.parse("epsilon=1")
    mechanism = calibrate_noise("discrete-laplace", table.layout(adjacency), adjacency, guarantee)
    given = {"noise": SystemNoise(), "trials": 100_000, "releases": 0, "claim": guarantee.under(neighbours)}
    assert not audit_shipped(mechanism, table, **given).refuted
    twin = replace(mechanism, scale=mechanism.scale / 2)
    assert audit_shipped(twin, table, **given).refuted
