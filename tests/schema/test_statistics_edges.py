"""Tallies and rows at the edges of what is declared."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vestry.errors import InvalidParameter
from vestry.ledger.sqlite import Address
from vestry.schema.design_matrix import RowEncoder
from vestry.schema.domain import Interval, Levels
from vestry.schema.statistics import Count, Indicator, Product, Sum, SumQuery

DOMAINS = {"ward": Levels("A", "B", missing="drop"), "ill": Levels("no", "yes"), "age": Interval(0, 100)}


def test_a_tally_has_a_cell_for_each_combination_of_levels():
    tally = SumQuery(("ward", "ill"), (Count(),))
    assert list(tally.cells(DOMAINS)) == [("A", "no"), ("A", "yes"), ("B", "no"), ("B", "yes")]


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
    rows, zeros = np.array([[3.0, 4.0], [0.3, 0.4]]), np.zeros(2)
    encoder = RowEncoder(zeros, np.full(2, 5.0), zeros, math.sqrt(2), None, False)
    assert encoder.encode(rows).tolist() == [[0.6, 0.8], [0.06, 0.08]]
    short = replace(encoder, radius=0.5).encode(rows)
    assert np.allclose(short, [[0.3, 0.4], [0.06, 0.08]], rtol=1e-5)
    assert math.hypot(*short[0]) <= 0.5
    for radius in (0.0, math.inf):
        with pytest.raises(InvalidParameter, match="radius must be a number above 0"):
            replace(encoder, radius=radius)


def test_an_address_reads_as_itself():
    address = Address.parse("trial.ledger")
    assert Address.parse(address) is address
