"""Sums at their edges: of no records, of no levels, and of columns that are read by another name."""

from __future__ import annotations

import pandas as pd
import pytest

from vestry.data import Table
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Indicator, PersonQuery, Sum, SumQuery, Within

DOMAINS = {
    "ward": Levels("a", "b", "c", missing="drop"),
    "stay": Interval(0, 7, missing="drop"),
}
FRAME = pd.DataFrame(
    {
        "ward": ["a", "a", "b", "c", "c", "c", None],
        "stay": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        "id": [1, 1, 2, 2, 3, 3, 3],
    }
)


def summed(query, frame=FRAME, domains=DOMAINS, unit="row"):
    table = Table(frame, domains, unit=unit, neighbours="replace", max_rows=1000)
    table.check(query)
    return reveal(table.collect(query, row_key="k"))


@pytest.mark.parametrize("frame", [FRAME[:0], FRAME.assign(stay=None)], ids=["no row", "none that counts"])
@pytest.mark.parametrize("keys", [(), ("ward",)])
def test_sums_of_no_records_are_0(frame, keys):
    query = SumQuery(keys, (Count(), Sum("stay", 0.0, 1.0)))
    assert set(summed(query, frame)) == {0}


def test_an_indicator_of_no_level_is_0_and_of_several_counts_each():
    levels = [(), ("a",), ("b",), ("c",), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    terms = tuple(Indicator("ward", chosen) for chosen in levels)
    counts = {"a": 2, "b": 1, "c": 3}
    assert summed(SumQuery((), terms)) == tuple(sum(counts[level] for level in chosen) for chosen in levels)


def test_every_level_beside_the_others():
    """Where all levels are counted, the first is what the others leave."""
    every = tuple(Indicator("ward", (level,)) for level in "abc")
    assert summed(SumQuery((), every)) == (2, 1, 3)
    assert summed(SumQuery((), every[:2])) == (2, 1)
    assert summed(SumQuery((), (*every[1:], Indicator("ward", ("a", "b"))))) == (1, 3, 3)


def test_a_person_has_nothing_of_no_level():
    """Of a term that no row has: s = 0, and f^2 is the whole weight."""
    none = PersonQuery((), (Indicator("ward", ()),), 3600, (1,))
    every = PersonQuery((), (Indicator("ward", ("a", "b", "c")),), 3600, (1,))
    assert summed(none, unit="person=id,rows=3") == (0, 0, 3 * 3600)
    assert summed(every, unit="person=id,rows=3") == (3 * 3600, 0, 0)


def test_a_count_is_in_its_units_and_what_lies_within_levels_is_summed_there_alone():
    stay = Sum("stay", 0.0, 1.0)
    terms = (Count(7), stay, Within((("ward", "c"),), Count(5)), Within((("ward", "a"),), stay))
    assert summed(SumQuery((), terms)) == (7 * 6, 21, 5 * 3, 3)
    assert summed(SumQuery(("ward",), terms[:2])) == (14, 3, 7, 3, 21, 15)


def test_exact_levels_of_one_name_do_not_change_how_another_column_is_read():
    frame = pd.DataFrame({"first": [" A ", "B"], "second": ["A", " B"]})
    domains = {
        "x": Levels("A", "B", missing="level", derived="first"),
        "y": Levels("A", "B", missing="level", exact=True, derived="second"),
    }
    wanted = {("A", "A"): 1, ("B", "missing"): 1}
    cells = [(x, y) for x in ("A", "B", "missing") for y in ("A", "B", "missing")]
    assert summed(SumQuery(("x", "y"), (Count(),)), frame, domains) == tuple(wanted.get(cell, 0) for cell in cells)
