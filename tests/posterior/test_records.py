"""Many records at once say the same as one by one; no refusal shows a record's value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vestry.errors import InvalidParameter
from vestry.posterior.posterior import contrast_rows
from vestry.posterior.records import column_numbers, level_places


def test_places_of_levels_as_they_were_declared():
    levels = ("4", "5", "true")
    given = pd.Series([4, "5", 4.0, None, "true", np.nan], dtype=object)
    assert level_places("a", given, levels).tolist() == [0, 1, 0, -1, 2, -1]
    assert level_places("a", pd.Series([5, 4]), levels).tolist() == [1, 0]
    assert level_places("a", pd.Categorical(["5", "4", "5"]), levels).tolist() == [1, 0, 1]


def test_a_wrong_level_is_shown_only_if_it_stands_alone():
    with pytest.raises(InvalidParameter, match="a level of ward must be one of A, B, not 'C'"):
        level_places("ward", ["C"], ("A", "B"))
    with pytest.raises(InvalidParameter, match="not 'another level'") as caught:
        level_places("ward", ["A", "secret"], ("A", "B"))
    assert "secret" not in str(caught.value)


def test_numbers_of_any_kind_of_column():
    assert column_numbers("x", [1, 2.5], "0").tolist() == [1.0, 2.5]
    assert column_numbers("x", np.array([1, np.float64(2)], dtype=object), "0").tolist() == [1.0, 2.0]
    for wrong in ([1.0, np.nan], ["a", 1], [None, 2], [True, "b"]):
        with pytest.raises(InvalidParameter, match="the value of x must be a number"):
            column_numbers("x", wrong, "0")


def test_a_ratio_of_two_groups_by_hand():
    a, b = np.array([[0.2], [0.4], [0.3]]), np.array([[0.1], [0.5], [0.3]])
    (ratio,) = contrast_rows(("A", "B"), (a, b), ["p"], 0.05, "ratio")
    assert ratio["contrast"] == "A / B"
    assert ratio["mean"] == pytest.approx((2 + 0.8 + 1) / 3)
    assert ratio["prob_positive"] == pytest.approx(1 / 3)
    (odds,) = contrast_rows(("A", "B"), (a, b), ["p"], 0.05, "odds ratio")
    assert odds["mean"] == pytest.approx((9 / 4 + 2 / 3 + 1) / 3)
    with pytest.raises(InvalidParameter, match="asked of what is above 0"):
        contrast_rows(("A", "B"), (a - 0.3, b), ["p"], 0.05, "ratio")
    with pytest.raises(InvalidParameter, match="asked of probabilities"):
        contrast_rows(("A", "B"), (a + 1, b), ["p"], 0.05, "odds ratio")
