"""Numbers that round against us, against mpmath and fractions."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp, mpf

from vestry.numerics import (
    SLACK,
    ceil_units,
    exact,
    exp_remainder,
    floor_units,
    format_up,
    largest,
    log_cosh,
    log_sinhc,
    log_sinhc_step,
    minimum,
    outward,
    ratio_up,
    root,
    sinh_remainder,
    smallest,
    total,
    up,
)

positive = st.floats(1e-300, 1e300)
fractions = st.fractions(min_value=0).filter(lambda x: x > 0)


def read(x: float) -> Fraction:
    return Fraction(repr(x))


# Reading and rounding


def test_floats_are_read_as_decimals():
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1e-7) == Fraction(1, 10**7)
    assert exact(3) == 3
    assert ratio_up(0.3, 0.1) == 3


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
@example(1.0, 0.7)  # the double is below seven tenths
@example(0.1, 1.0)  # the double is above one tenth
def test_a_ratio_is_never_below_that_of_the_doubles_or_of_the_decimals(x, y):
    assert ratio_up(x, y) >= max(Fraction(x) / Fraction(y), exact(x) / exact(y))
    assert ratio_up(x, y) <= exact(x) / exact(y) * (1 + Fraction(1, 2**50))


@given(st.floats(1e-300, 1e300), st.integers(1, 15))
@example(0.30000000000000004, 3)
@example(0.99999, 4)
@example(1.2341, 4)
def test_what_is_written_up_is_never_less(x, digits):
    """And not more than one unit of its last digit: nearest fails the first, one digit fewer the second."""
    shown = Fraction(format_up(x, digits=digits))
    assert exact(x) <= shown
    assert shown - exact(x) <= exact(x) * Fraction(10) ** (1 - digits)


def test_what_is_written_up_is_short():
    given = (0.30000000000000004, 0.1, 1e-6, 1.0, 12345.0, Fraction(1, 3), math.inf, 0.0)
    shown = ["0.3001", "0.1", "1e-6", "1", "1.235e4", "0.3334", "inf", "0"]
    assert [format_up(x, digits=4) for x in given] == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_outward_is_further_out(x):
    assert outward(x) >= x
    assert outward(x) <= x + abs(x) * SLACK * (1 + 1e-3) + sys.float_info.min


@given(st.fractions())
@example(Fraction(1, 3))
@example(Fraction(-1, 3))
@example(Fraction(1, 10**400))
@example(Fraction(10**400))
def test_up_is_the_next_float(x):
    above = up(x)
    assert above == math.inf or read(above) >= x
    below = math.nextafter(above, -math.inf)
    assert above == math.inf or below == -math.inf or read(below) < x


def test_up_leaves_floats_alone():
    assert up(0.1) == 0.1
    assert up(math.inf) == math.inf
    assert up(Fraction(1, 10)) == 0.1
    assert up(Fraction(10**400)) == math.inf


@given(fractions)
@example(Fraction(2))
@example(Fraction(1, 3))
def test_root_is_not_below(x):
    found = root(x)
    assert Fraction(found) ** 2 >= x
    assert Fraction(found) ** 2 <= x * (1 + Fraction(4, 10**12))
    assert root(x * x) == x
    assert isinstance(root(x * x), Fraction)


@given(positive)
def test_root_of_a_float(x):
    assert mpf(x) <= mpf(root(x)) ** 2 <= mpf(x) * (1 + 4 * mpf(SLACK))


def test_root_of_the_ends():
    assert root(Fraction(0)) == 0
    assert root(math.inf) == math.inf


# Units


@given(st.one_of(st.fractions(min_value=0, max_value=10**6), st.floats(0, 1e6)), st.sampled_from([1, 3, 10**12, 2**64]))
def test_units_enclose_the_value(x, per_one):
    covering, fitting = ceil_units(x, per_one=per_one), floor_units(x, per_one=per_one)
    units = Fraction(x) * per_one
    assert covering - 1 < units <= covering
    assert fitting <= units < fitting + 1
    assert isinstance(covering, int)
    assert isinstance(fitting, int)


def test_units_at_whole_values():
    assert ceil_units(Fraction(3, 10), per_one=10) == floor_units(Fraction(3, 10), per_one=10) == 3
    assert (ceil_units(Fraction(1, 3), per_one=10), floor_units(Fraction(1, 3), per_one=10)) == (4, 3)
    assert ceil_units(math.inf, per_one=10) is None
    assert ceil_units(Fraction(0), per_one=10) == floor_units(Fraction(0), per_one=10) == 0


def test_total_multiplies_and_stays_exact():
    assert total([]) == 0
    assert total([(Fraction(1, 10), 3), (Fraction(1, 5), 1)]) == Fraction(1, 2)
    assert total([(Fraction(1, 10), 3), (0.5, 2)]) == pytest.approx(1.3)
    assert total([(Fraction(1, 10), 3), (math.inf, 1)]) == math.inf


# Functions without cancellation


def close(found: float, truth: mpf, rel: float = 2e-15) -> bool:
    return abs(mpf(found) - truth) <= rel * abs(truth)


arguments = st.one_of(st.floats(-700, 700), st.floats(-1.1, 1.1), st.floats(-1e-6, 1e-6)).filter(
    lambda x: abs(x) > 1e-90
)
either_side_of_one = [math.nextafter(1.0, 0), 1.0, math.nextafter(1.0, 2), -1.0, -math.nextafter(1.0, 2)]


def at_the_seam(test):
    for x in either_side_of_one:
        test = example(x)(test)
    return test


@at_the_seam
@given(arguments)
def test_exp_remainder(x):
    with mp.workdps(350):
        assert close(exp_remainder(x), mp.exp(mpf(x)) - 1 - mpf(x))


@at_the_seam
@given(arguments)
def test_sinh_remainder(x):
    with mp.workdps(350):
        assert close(sinh_remainder(x), mp.sinh(mpf(x)) - mpf(x))


@at_the_seam
@given(arguments)
@example(1e5)
def test_log_sinhc(x):
    with mp.workdps(350):
        assert close(log_sinhc(x), mp.log(mp.sinh(mpf(x)) / mpf(x)))


@at_the_seam
@given(arguments)
@example(1e5)
def test_log_cosh(x):
    """Right to an absolute 3e-16 near 0, where it is small, and relatively elsewhere."""
    with mp.workdps(350):
        truth = mp.log(mp.cosh(mpf(x)))
        assert abs(mpf(log_cosh(x)) - truth) <= 3e-16 * max(1, truth)


@given(st.one_of(st.floats(1e-12, 1e6), st.floats(0, 2)), st.one_of(st.floats(1e-12, 1e6), st.floats(1e-9, 2)))
@example(0.0, 1.0)
@example(0.3, 1e-12)
@example(9.0, 1.0)
@example(8.999, 1.0001)
@example(math.nextafter(9.0, 10), 1.0)
@example(0.29999, 0.00002)
@example(50.0, 5.5)
def test_log_sinhc_step(x, d):
    def log_sinhc_of(t: mpf) -> mpf:
        return mp.log(mp.sinh(t) / t) if t else mpf(0)

    with mp.workdps(60):
        # Their difference may be 1e-24 of their size, and each is known to 60 digits.
        truth = log_sinhc_of(mpf(x) + mpf(d)) - log_sinhc_of(mpf(x))
        assert close(log_sinhc_step(x, d), truth, rel=SLACK / 4)


def test_functions_at_zero():
    assert exp_remainder(0.0) == sinh_remainder(0.0) == log_sinhc(0.0) == 0
    assert abs(log_cosh(0.0)) < 3e-16


# Search


@given(positive, positive, positive)
def test_smallest_and_largest_meet_at_the_threshold(a, b, c):
    low, threshold, high = sorted((a, b, c))
    found = smallest(lambda x: x >= threshold, low=low, high=high)
    assert found == threshold
    if low < threshold:
        assert largest(lambda x: x < threshold, low=low, high=high) == math.nextafter(threshold, 0)
    assert largest(lambda x: x <= threshold, low=low, high=high) == threshold


def test_search_at_its_ends():
    assert smallest(lambda x: True, low=0.0, high=1.0) == 0.0
    assert largest(lambda x: True, low=0.0, high=1.0) == 1.0
    assert smallest(lambda x: x >= 1, low=0.0, high=1.0) == 1.0
    assert largest(lambda x: x <= 0, low=0.0, high=1.0) == 0.0
    assert smallest(lambda x: x > 0, low=0.0, high=1.0) == 5e-324
    assert smallest(lambda x: x >= 1e-200, low=0.0, high=1.0) == 1e-200


def test_search_is_quick_over_wide_ranges():
    tries = []

    def holds(x: float) -> bool:
        tries.append(x)
        return x >= 1.5e-80

    assert smallest(holds, low=1e-100, high=1e100) == 1.5e-80
    assert len(tries) < 80


@given(positive, positive, positive, st.floats(1e-12, 0.1))
def test_search_to_a_tolerance_stays_on_its_side(a, b, c, tolerance):
    low, threshold, high = sorted((a, b, c))
    found = smallest(lambda x: x >= threshold, low=low, high=high, tolerance=tolerance)
    assert threshold <= found <= threshold * (1 + 2 * tolerance)
    found = largest(lambda x: x <= threshold, low=low, high=high, tolerance=tolerance)
    assert threshold * (1 - 2 * tolerance) <= found <= threshold


@given(st.floats(1e-3, 1e7), st.floats(0.1, 4))
def test_minimum_of_a_valley(bottom, power):
    """The valley is |log(x/bottom)|^(1 + power), whose least value is 0."""
    found = minimum(lambda x: 3 + abs(math.log(x / bottom)) ** (1 + power), low=1e-4, high=1e8)
    assert 3 <= found <= 3 + 1e-8


@pytest.mark.parametrize("wall", [2e-4, 0.9, 1.0, 77.0, 1e7])
def test_minimum_beside_a_wall(wall):
    """Falling up to a wall: the least value is at the wall itself, which golden sections approach."""
    found = minimum(lambda x: 1 / x if x < wall else math.inf, low=1e-4, high=1e8)
    assert 1 / wall <= found <= 1 / wall * (1 + 1e-6)


def test_minimum_at_the_ends():
    assert minimum(lambda x: x, low=0.5, high=8) == 0.5
    assert minimum(lambda x: -x, low=0.5, high=8) == pytest.approx(-8, rel=1e-9)
    assert minimum(lambda x: math.inf, low=0.5, high=8) == math.inf
