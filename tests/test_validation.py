"""What the one check for parameters lets through, and in which words it refuses the rest."""

import math
from fractions import Fraction

import numpy as np
import pytest

from vestry.errors import InvalidParameter
from vestry.validation import is_number, is_whole, require_choice, require_number, require_truth, require_whole


@pytest.mark.parametrize("value", [1, 2.5, -3, np.float32(0.5), np.int64(7), Fraction(1, 3), 10**300])
def test_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize(
    "value",
    [True, False, np.bool_(True), math.nan, math.inf, -math.inf, "1", None, 1j, [1], 10**400],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_not_a_number(value):
    assert not is_number(value)
    with pytest.raises(InvalidParameter, match=r"^scale must be a finite number, not .*; write another scale\.$"):
        require_number("scale", value)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, math.nan, np.float64(2)])
def test_what_is_not_whole(value):
    assert not is_whole(value)
    with pytest.raises(InvalidParameter, match=r"^draws must be a whole number of at least 1, not .*; write "):
        require_whole("draws", value)


def test_a_whole_number_may_be_numpys_and_becomes_pythons():
    assert type(require_whole("draws", np.int32(3))) is int


@pytest.mark.parametrize(("value", "fits"), [(0, False), (1, True), (5, True), (6, False)])
def test_the_ends_of_whole_numbers_are_allowed(value, fits):
    if fits:
        assert require_whole("k", value, most=5) == value
        return
    with pytest.raises(InvalidParameter, match=rf"^k must be a whole number from 1 to 5, not {value}; write k=2\.$"):
        require_whole("k", value, "k=2", most=5)


LIMITS = [("above", 1, "above 1"), ("least", 2, "at least 2"), ("below", 1, "below 1"), ("most", 0, "at most 0")]


@pytest.mark.parametrize(("limit", "allowed", "words"), LIMITS)
def test_each_limit_is_allowed_itself_or_not(limit, allowed, words):
    ends = {"above": 1, "least": 2, "below": 1, "most": 0}
    inside = {"above": 1.0000001, "least": 2, "below": 0.9999999, "most": 0}
    outside = {"above": 1, "least": 1.9999999, "below": 1, "most": 1e-300}
    assert require_number("x", inside[limit], **{limit: ends[limit]}) == inside[limit]
    with pytest.raises(InvalidParameter, match=rf"^x must be a number {words} and finite, not .*; write x=7\.$"):
        require_number("x", outside[limit], "x=7", **{limit: allowed})


def test_two_limits_are_said_together():
    with pytest.raises(InvalidParameter, match=r"a number above 0 and below 1, not 1"):
        require_number("delta", 1, above=0, below=1)


def test_a_choice():
    assert require_choice("unit", "row", ("row", "person")) == "row"
    for wrong in ("rows", None, 1, ["row"]):
        with pytest.raises(
            InvalidParameter, match=r'^unit must be one of row, person, not .*; write for example "row"\.$'
        ):
            require_choice("unit", wrong, ("row", "person"))


def test_a_truth_value():
    assert require_truth("intercept", False) is False
    for wrong in (0, 1, "true", None, np.bool_(True)):
        with pytest.raises(InvalidParameter, match=r"^intercept must be true or false, not .*; write int"):
            require_truth("intercept", wrong)
