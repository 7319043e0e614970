"""Whose record it is, and which of a person's records count, follows from that person's records alone."""

from __future__ import annotations

import math
import tempfile
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from uuid import UUID

import pandas as pd
import pytest
from data import oracle_meaning as oracle
from data.columns import ODD, WHO, Cells, who, who_declared
from data.laws import shown
from data.writers import NEWER, WRITERS, Writer, Written
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from share import examples

from vestry.data import Table
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, SumQuery

EVERY = {**WRITERS, **NEWER}
ROWS = 24

# Persons as each kind of column names them.
NAMES = {
    "whole": [1, 2, 7, 10**6],
    "big": [2**53 + 1, 2**53 + 3, 10**17, 5],
    "real": [1.0, 2.0, 2.5, 7.0],
    "decimal": [Decimal("1.00"), Decimal("2.00"), Decimal("7.50")],
    "text": ["ann", "bo", "007", "0x1", "é"],
    "uuid": [UUID(int=at) for at in (1, 2, 0xABC << 100)],
    "truth": [True, False],
    "day": [date(2024, 1, 31), date(2020, 2, 29), date(1999, 12, 31)],
    "span": [timedelta(seconds=90), timedelta(days=1), timedelta(seconds=1)],
}


def kept(written: Written, rows: int) -> dict[str, int]:
    """Return how often each record counts, if at most `rows` of each person do."""
    table = Table(written.data(), {WHO: who_declared(ROWS).domain}, unit=f"person=id,rows={rows}",
                  neighbours="add-remove", **written.options)  # fmt: skip
    found = reveal(table.collect(SumQuery((WHO,), (Count(),)), row_key="k"))
    return dict(zip([*who(ROWS).values, None], found, strict=True))


def write(writer: Writer, folder: Path, ids: Cells, rng: Random, order: list[int]) -> Written:
    folder.mkdir()
    columns = {WHO: who(ROWS), "id": ids, "folder": Cells("text", ("a",) * ROWS)}
    return writer(folder, {name: each.ordered(order) for name, each in columns.items()}, rng)


def others_keep(writer: Writer, folder: Path, rng: Random) -> int:
    """Change one record's person, and compare the records of everybody else; return how many were compared."""
    kind = rng.choice(list(NAMES))
    values = tuple(rng.choice(NAMES[kind]) for _ in range(ROWS))
    at, odd = rng.randrange(ROWS), rng.choice(ODD)
    after = (*values[:at], odd, *values[at + 1 :])
    rows = rng.choice([1, 2, 3])
    orders = [list(range(ROWS)), rng.sample(range(ROWS), ROWS)]
    sides = [write(writer, folder / "before", Cells(kind, values), rng, orders[0]),
             write(writer, folder / "after", Cells(kind, after, at), rng, orders[1])]  # fmt: skip
    found = [kept(side, rows) for side in sides]
    names = [[oracle.person(side.seen["id"][order.index(place)]) for place in range(ROWS)]
             for side, order in zip(sides, orders, strict=True)]  # fmt: skip
    touched = {side[at] for side in names}
    # A writer that wrote another id of the same person in another way split or merged that person itself.
    touched |= {name for pair in zip(*names, strict=True) if len(set(pair)) == 2 for name in pair}
    compared = [place for place in range(ROWS) if names[0][place] not in touched]
    for place in compared:
        assert found[0][f"r{place}"] == found[1][f"r{place}"], (
            f"{kind}: {values[place]!r} counts otherwise once another record is of {shown(odd)}"
        )
    for side, each in zip(found, names, strict=True):
        check_chosen(side, each, rows)
    return len(compared)


def check_chosen(found: dict[str, int], names: list[str | None], rows: int) -> None:
    """Every person has as many records as allowed, and a record of nobody is left out."""
    for name in set(names):
        own = [found[f"r{place}"] for place in range(ROWS) if names[place] == name]
        assert sum(own) == (0 if name is None else min(rows, len(own))), f"a person called {shown(name)}"


def held(writer: Writer, count: int) -> None:
    compared = []

    @settings(max_examples=count, phases=[Phase.explicit, Phase.generate])
    @given(seed=st.integers(0, 2**32 - 1))
    def law(seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            compared.append(others_keep(writer, Path(folder), Random(seed)))

    law()
    assert sum(compared) >= 0.1 * ROWS * len(compared)


# One scan of many: what the other formats share is tried by them.
QUICK = ["pandas-frame", "pandas-csv", "parquet", "parquet-files", "duckdb-file", "polars-frame"]


@pytest.mark.examples
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.long
def test_no_person_changes_another(name):
    held(EVERY[name], examples(2))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_no_person_changes_another_in_many_tables(name):
    held(EVERY[name], 40)


ONE_PERSON = [
    [7, 7.0, "7", "007", "+7", " 7 ", "7.0", "7.", Decimal("7"), Decimal("7.00"), "7e0", "\t7\r\n"],
    [True, "true", "True", "TRUE", 1, "1", 1.0, "01"],
    [0, -0.0, "-0", "0", False, "false", "000", "-0.0"],
    [1.5, "1.5", "1.50", Decimal("1.5"), "15e-1", "+1.5"],
    [UUID(int=0xABC << 100), str(UUID(int=0xABC << 100)), str(UUID(int=0xABC << 100)).upper()],
    [date(2024, 1, 31), "2024-01-31", " 2024-01-31 ", "2024-01-31 10:00", "2024-01-31T11:30:15.5"],
    ["2024-01-31T10:00Z", "2023-06-30 11:30:15+02:00"],
    ["9007199254740993", 2**53 + 1, "09007199254740993"],
    ["-12", -12, -12.0, "-012"],
    ["Ann", " Ann", "Ann\n"],
]
NOBODY = [None, "", " \t", math.nan, math.inf, -math.inf, 2.0**53, -1e300, "x" * 101, 10**101, 10**5000, [1], object()]
APART = ["ann", "Ann", "7", "7.1", "-7", "x7", "70", "1e400", "inf", "nan", "7,0", "0x7", "yes", "2024-1-31"]
APART += ["2024-01-30", "2024-01-31 10:00", "2024-01-31T10:00Z", "9007199254740992e0", "9007199254740992.5", "x" * 100]


def persons_of(values: list, dtype: str = "object") -> list[int]:
    """Return how many records count if each person has one, and if each has all."""
    frame = pd.DataFrame({"id": pd.Series(values, dtype=dtype)})
    frame["x"] = "a"
    from vestry.schema.domain import Levels

    def asked(rows: int) -> int:
        table = Table(frame, {"x": Levels("a", "b")}, unit=f"person=id,rows={rows}", neighbours="add-remove")
        return reveal(table.collect(SumQuery((), (Count(),)), row_key="k"))[0]

    return [asked(1), asked(len(values))]


@pytest.mark.parametrize("values", ONE_PERSON, ids=lambda values: str(values[0]))
def test_one_person_by_many_names(values):
    assert len({oracle.person(value) for value in values}) == 1
    assert persons_of(values) == [1, len(values)]


def test_nobody():
    assert {oracle.person(value) for value in NOBODY} == {None}
    assert persons_of(NOBODY) == [0, 0]


def test_persons_that_are_not_one():
    assert len({oracle.person(value) for value in APART}) == len(APART)
    assert persons_of(APART) == [len(APART), len(APART)]


def test_doubles_name_persons_below_2_to_the_53_and_nobody_from_there_on():
    largest = 2.0**53 - 1
    somebody = [largest, largest, -largest, 0.0, -0.0, 0.5]
    nobody = [2.0**53, -(2.0**53), 2.0**54, math.inf, math.nan]
    assert {oracle.person(value) for value in nobody} == {None}
    names = {oracle.person(value) for value in somebody}
    assert persons_of([*somebody, *nobody], "float64") == [len(names), len(somebody)]
