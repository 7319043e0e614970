"""What 64-bit sums and doubles cannot hold is refused from the declarations alone, with a grid that they can."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share import examples

from vestry.data.table import check_bound
from vestry.errors import InvalidParameter
from vestry.schema.domain import Interval, Levels
from vestry.schema.statistics import Count, Product, Sum, SumQuery

DOMAINS = {"x": Interval(-10, 20), "y": Interval(0, 1e29), "huge": Interval(0, 1e31), "id": Levels(1, 2**53 + 1)}


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Count(2**61), "units must be a whole number from 1 to 4611686018427$"),
        (Count(0), "units must be a whole number"),
        (Sum("x", 0.0, 1e-9), "grid must be coarse enough for 1e.06 records to sum below 2.62, not 1e-09; write grid="),
        (Sum("x", 0.0, 0.0), "grid must be a number at least 1e-30 and at most 1e.60"),
        (Sum("x", 0.0, -1.0), "grid must be a number at least 1e-30 and at most 1e.60"),
        (Sum("x", 0.0, float("nan")), "grid must be a number at least 1e-30 and at most 1e.60"),
        (Sum("x", float("inf"), 1.0), "origin must be 0 or from"),
        (Sum("x", 1e-90, 1.0), "origin must be 0 or from"),
        (Sum("huge", 0.0, 1e20), "the interval of huge must be within 1e.30 of 0"),
        (Product(("y", "y"), (0.0, 0.0), 1.0), "grid must be coarse enough"),
    ],
)
def test_what_is_refused(term, message):
    max_rows = 10**6 if not isinstance(term, Sum) or term.grid != 1e-9 else 10**12
    with pytest.raises(
        InvalidParameter, match=message.replace("1e.06", "1e.12" if max_rows > 10**6 else "1e.06").rstrip("$")
    ):
        check_bound(SumQuery((), (term,)), DOMAINS, max_rows)


def test_whole_levels_that_doubles_do_not_tell_apart():
    with pytest.raises(InvalidParameter, match=r"a level of id must be at most 2\^53"):
        check_bound(SumQuery(("id",), (Count(),)), DOMAINS, 1)


@settings(max_examples=examples(200))
@given(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30), st.floats(1e-30, 1e60), st.integers(1, 2**61), st.booleans())
def test_the_grid_that_is_advised_is_enough_and_what_passes_holds(one, other, grid, max_rows, squared):
    if one == other:
        return
    low, high = sorted((one, other))
    domains = {"x": Interval(low, high)}

    def tally(grid):
        return SumQuery((), (Product(("x", "x"), (0.0, 0.0), grid) if squared else Sum("x", 0.0, grid),))

    try:
        check_bound(tally(grid), domains, max_rows)
    except InvalidParameter as refused:
        advised = re.search(r"write grid=(\S+) or more", str(refused))
        if advised:
            check_bound(tally(float(advised[1])), domains, max_rows)
    else:
        widest = max(abs(low), abs(high)) ** (2 if squared else 1)
        assert (widest / grid) * max_rows < 2**62
