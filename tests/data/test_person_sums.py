"""What persons add, each with the weight of one record: the same integers on every backend, and the oracle's."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from data import person_oracle as oracle
from data.tables import REALS, TYPES
from share import cases

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Indicator, PersonProducts, PersonQuery, Sum

pytestmark = pytest.mark.oracle

DOMAINS = {
    "ward": Levels("a", "b", "c", missing="drop"),
    "truth": Levels(False, True, missing="never"),
    "real": Interval(-1, 3, "drop"),
    "whole": Interval(0, 7, {"value": 2}),
}
REAL, WHOLE, YES = Sum("real", -1.0, 4 / 2**20), Sum("whole", 0.0, 1.0), Indicator("truth", ("true",))
TALLIES = {
    "proportion": PersonQuery((), (YES,), 3600, (1,)),
    "proportion by ward": PersonQuery(("ward",), (YES,), 3600, (1,)),
    "mean by ward": PersonQuery(("ward",), (REAL,), 2**20, (2**20,)),
    "two means": PersonQuery((), (REAL, WHOLE), 1_047_600, (2**20, 7)),
    "rate by truth": PersonQuery(("truth",), (WHOLE,), 2**20, (7,)),
    "categories": PersonQuery(("ward",), (), 3600, within=True),
    "categories by truth": PersonQuery(("truth", "ward"), (), 1_000_003, within=True),
}


def table(rng: Random, rows: int) -> list[dict]:
    pools = {"ward": ["a", "b", "c", "a", "b", None, "?"], "truth": [True, False, None], "real": REALS,
             "whole": [None, 0, 1, 2, 5, 7, 11, -1], "id": [1, 2, 3, 4, None]}  # fmt: skip
    return [{name: rng.choice(pools[name]) if name in pools else None for name in TYPES} for _ in range(rows)]


@pytest.mark.parametrize("name", cases(TALLIES, quick=["mean by ward"]))
@pytest.mark.long
def test_every_backend_has_the_oracles_sums(name, backend):
    tally, rows = TALLIES[name], table(Random(name), 40)
    made = Table(backend.load(rows), DOMAINS, unit="person=id,rows=6", neighbours="add-remove", max_rows=1000)
    made.check(tally)
    found = reveal(made.collect(tally, row_key="k"))
    assert found == oracle.sums(backend.seen(rows), tally, DOMAINS, unit="id", keep=6, key="k")
    assert any(found)


@pytest.mark.long
def test_every_backend_has_the_oracles_products(backend):
    terms = Sum("real", 1.0, 2 / 2**19), Sum("whole", 3.5, 3.5 / 2**19)
    tally = PersonProducts((), terms, 2**19, ((0, 1), (1, 1), (1, 2), (2, 2), (0, 0)))
    rows = table(Random("products"), 40)
    made = Table(backend.load(rows), DOMAINS, unit="person=id,rows=6", neighbours="add-remove", max_rows=1000)
    made.check(tally)
    found = reveal(made.collect(tally, row_key="k"))
    assert found == oracle.products(backend.seen(rows), tally, DOMAINS, unit="id", keep=6, key="k")
    assert found[-1] == 2**19 * 4


@pytest.mark.parametrize("name", cases(TALLIES, quick=["categories"]))
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_the_sum_of_all_is_the_weight_of_all_persons(name, rows):
    """Every person weighs exactly as much as one record, where her weight has units enough for her rows."""
    import pandas as pd

    tally = TALLIES[name]
    records = [
        {"ward": "a", "truth": place % 2 == 0, "real": 0.3 * place, "whole": 3, "id": place % 7} for place in range(60)
    ]
    made = Table(pd.DataFrame(records), DOMAINS, unit=f"person=id,rows={rows}", neighbours="replace", max_rows=1000)
    found = sum(reveal(made.collect(tally, row_key="k"))) / max(1, len(tally.terms))
    assert found == pytest.approx(7 * tally.units, abs=7 * rows)
    assert found <= 7 * tally.units
    if tally.units % 3600 == 0 and rows < 20:
        assert found == 7 * tally.units


def test_no_row_counts_for_more_than_its_share():
    """Three rows of one person, one of them dropped: the two that count weigh a half each."""
    import pandas as pd

    rows = pd.DataFrame({"id": [1, 1, 1], "ward": ["a", "b", None], "truth": [True, False, True]})
    made = Table(rows, DOMAINS, unit="person=id,rows=5", neighbours="add-remove")
    found = reveal(made.collect(TALLIES["proportion by ward"], row_key="k"))
    quarter = Fraction(3600, 4)
    assert found == (quarter, 0, 0, quarter, 0, 0, 0, quarter, 0, quarter, 0, 0, 0, 0, 0)


def test_units_that_64_bits_cannot_sum_are_refused():
    made = Table("none.parquet", DOMAINS, unit="person=id,rows=3", neighbours="replace", max_rows=10**17)
    with pytest.raises(
        InvalidParameter, match="max_rows must be at most 1281023894007607 for averages over persons, not 1"
    ):
        made.collect(TALLIES["proportion"], row_key="k")
