"""Persons are counted once in each cell where they have a row that counts, the same on every backend."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from data import oracle_meaning as oracle
from data.conftest import pandas_frame
from data.tables import ROWS, TYPES
from hypothesis import given, settings
from share import examples

from vestry.data import Table
from vestry.schema.domain import Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, PersonCount

WARDS = ("a", "b", "c")
DOMAINS = {"ward": Levels(*WARDS, missing="level"), "truth": Levels(False, True, missing="drop")}


def counted(rows: list[dict]) -> list[int]:
    """Return the persons of each cell of ward and truth; wards that are not declared are one."""
    seen = set()
    for row in rows:
        who, ward, truth = oracle.person(row["name"]), oracle.level(row["ward"]), oracle.level(row["truth"])
        if who is not None and truth is not None:
            seen.add((who, ward if ward in WARDS else None, truth))
    named = Counter((ward, truth) for _, ward, truth in seen)
    return [named[ward, truth] for ward in (*WARDS, None) for truth in "01"]


def test_persons_are_counted_once_in_each_cell_of_a_table():
    rng = Random(7)
    values = {"name": ["ann", "Ann", "bo|", "é", "1", None], "ward": [*WARDS, "?"], "truth": [True, False, None]}
    rows = [dict.fromkeys(TYPES) | {name: rng.choice(pool) for name, pool in values.items()} for _ in range(50)]
    table = Table(pandas_frame(rows), DOMAINS, unit="person=name,rows=50", neighbours="add-remove", max_rows=1000)
    numbers = reveal(table.collect(PersonCount(("ward", "truth"), (Count(),)), row_key="k"))
    assert list(numbers) == counted(rows)
    assert max(numbers) > 1


@pytest.mark.long
@settings(max_examples=examples(10), deadline=None)
@given(rows=ROWS)
def test_persons_are_counted_once_in_each_cell(backend, rows):
    table = Table(backend.load(rows), DOMAINS, unit="person=name,rows=50", neighbours="add-remove", max_rows=1000)
    found = reveal(table.collect(PersonCount(("ward", "truth"), (Count(),)), row_key="k"))
    assert list(found) == counted(backend.seen(rows))


@pytest.mark.long
def test_persons_without_groups_are_counted_once(backend):
    rows = [
        {"real": 1.0, "whole": 1, "truth": True, "ward": "a", "Spelled Number": "1", "spelled_truth": "1", "id": 1,
         "name": name, "float_id": 1.0}
        for name in ("ann", "ann", "bo", None, "2", "2.0")
    ]  # fmt: skip
    table = Table(backend.load(rows), DOMAINS, unit="person=name,rows=1", neighbours="add-remove", max_rows=1000)
    assert reveal(table.collect(PersonCount((), (Count(),)), row_key="k")) == (3,)
