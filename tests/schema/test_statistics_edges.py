"""Tallies and rows at the edges of what is declared."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vestry.errors import InvalidParameter
from vestry.ledger.sqlite import Address
from vestry.schema.design_matrix import clip
from vestry.schema.domain import Interval, Levels
from vestry.schema.statistics import Count, Indicator, Product, Sum, SumQuery

DOMAINS = {"ward": Levels("A", "B", missing="drop"), "ill": Levels("no", "yes"), "age": Interval(0, 100)}


def test_a_tally_has_a_cell_for_each_combination_of_levels():
    tally = SumQuery(("ward", "ill"), (Count(),))
    assert list(tally.cells(DOMAINS)) == [("A", "no"), ("A", "yes"), ("B", "no"), ("B", "yes")]
    assert tally.drops(DOMAINS)
    assert not SumQuery(("ill",), (Sum("age", 0.0, 1.0),)).drops(DOMAINS)


@pytest.mark.parametrize(
    ("tally", "message"),
    [
        (SumQuery(("sex",), (Count(),)), "one that is declared"),
        (SumQuery(("age",), (Count(),)), "the column age must be levels"),
        (SumQuery((), (Indicator("ill", ("maybe",)),)), "a level of ill must be one of no, yes"),
        (SumQuery((), (Indicator("age", ("no",)),)), "the column age must be levels"),
        (SumQuery((), (Sum("ill", 0.0, 1.0),)), "the column ill must be an interval"),
        (SumQuery((), (Product(("age", "ward"), (0.0, 0.0), 1.0),)), "the column ward must be an interval"),
    ],
)
def test_a_tally_of_what_is_not_declared_is_refused(tally, message):
    with pytest.raises(InvalidParameter, match=message):
        tally.check(DOMAINS)


def test_a_row_is_shortened_to_the_radius_and_never_stretched():
    rows = np.array([[3.0, 4.0], [0.3, 0.4]])
    clip(rows, None)
    assert rows.tolist() == [[3.0, 4.0], [0.3, 0.4]]
    clip(rows, 1.0)
    assert np.allclose(rows, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    assert math.hypot(*rows[0]) <= 1
    for radius in (0.0, math.inf):
        with pytest.raises(InvalidParameter, match="radius must be a number above 0"):
            clip(rows, radius)


def test_an_address_reads_as_itself():
    address = Address.parse("trial.ledger")
    assert Address.parse(address) is address
