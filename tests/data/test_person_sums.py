"""What persons add, each with the weight of one record: the same integers on every backend, and the oracle's."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from data import person_oracle as oracle
from data.conftest import pandas_frame
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


TERMS = Sum("real", 1.0, 2 / 2**19), Sum("whole", 3.5, 3.5 / 2**19)
PRODUCTS = PersonProducts((), TERMS, 2**19, ((0, 1), (1, 1), (1, 2), (2, 2), (0, 0)))


def table(rng: Random, rows: int, persons: int = 4) -> list[dict]:
    pools = {"ward": ["a", "b", "c", "a", "b", None, "?"], "truth": [True, False, None], "real": REALS,
             "whole": [None, 0, 1, 2, 5, 7, 11, -1], "id": [*range(1, persons + 1), None]}  # fmt: skip
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
    rows = table(Random("products"), 40)
    made = Table(backend.load(rows), DOMAINS, unit="person=id,rows=6", neighbours="add-remove", max_rows=1000)
    made.check(PRODUCTS)
    found = reveal(made.collect(PRODUCTS, row_key="k"))
    assert found == oracle.products(backend.seen(rows), PRODUCTS, DOMAINS, unit="id", keep=6, key="k")
    assert found[-1] == 2**19 * 4


def pandas_table(rows: list[dict], max_rows_of_person: int) -> Table:
    """Return a table whose engine is DuckDB; the expression is the same on every engine."""
    unit = f"person=id,rows={max_rows_of_person}"
    return Table(pandas_frame(rows), DOMAINS, unit=unit, neighbours="add-remove", max_rows=1000)


@pytest.mark.parametrize("name", TALLIES)
@pytest.mark.parametrize("max_rows_of_person", [3, 20])
def test_every_cell_has_the_oracles_sums(name, max_rows_of_person):
    """Each number is compared by itself: the last of a cell is what remains of its weight, and hides the others."""
    tally = TALLIES[name]
    rows = table(Random(f"{name} {max_rows_of_person}"), 90, persons=12)
    made = pandas_table(rows, max_rows_of_person)
    numbers = reveal(made.collect(tally, row_key="k"))
    expected = oracle.sums(rows, tally, DOMAINS, unit="id", keep=max_rows_of_person, key="k")
    assert numbers == expected
    numbers_of_cell = zip(*[iter(numbers)] * tally.sums, strict=True)
    columns = list(zip(*numbers_of_cell, strict=True))
    assert all(any(column) for column in columns)  # so that no part of a cell is compared with zeros alone


@pytest.mark.parametrize("max_rows_of_person", [1, 20])
def test_every_pair_has_the_oracles_products(max_rows_of_person):
    rows = table(Random(f"products {max_rows_of_person}"), 90, persons=12)
    numbers = reveal(pandas_table(rows, max_rows_of_person).collect(PRODUCTS, row_key="k"))
    assert numbers == oracle.products(rows, PRODUCTS, DOMAINS, unit="id", keep=max_rows_of_person, key="k")
    assert all(numbers)


@pytest.mark.parametrize("name", TALLIES)
def test_a_person_has_the_weight_of_one_record(name):
    """The oracle alone: its sums over all cells are one record's weight, or less by the units that rounding cut off."""
    tally = TALLIES[name]
    rows = [row | {"id": 1} for row in table(Random(name), 12)]
    numbers = oracle.sums(rows, tally, DOMAINS, unit="id", keep=7, key="k")
    weight = Fraction(sum(numbers), max(1, len(tally.terms)))
    assert min(numbers) >= 0
    assert tally.units - 7 < weight <= tally.units


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
