"""Rounded normals: the number that a uniform number stands for, whichever way it is found, and their distribution.

The oracle is mpmath's normal distribution function in 40 digits and more. Statistical tests hold p-values to 1e-8: two
tests, so a false alarm in at most 2e-8 of the runs; the same draws are rejected at 0.9 and 1.1 times their scale.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from share import cases

from vestry.noise import SystemNoise
from vestry.noise.rounded_normal import rounded_normal

REJECT = 1e-8


class FixedBytes:
    """A noise source whose bytes are these, in order, and then the same one for ever."""

    def __init__(self, content: bytes, further: int) -> None:
        self.content = content
        self.further = bytes([further])

    def random_bytes(self, count: int) -> bytes:
        taken = self.content[:count]
        self.content = self.content[count:]
        return taken.ljust(count, self.further)


def chance_of_reaching(m: int, scale: float) -> mpf:
    """Return P(|k| >= m) in the digits of the moment, for m >= 1."""
    return mp.erfc((2 * mpf(m) - 1) / (2 * mpf(scale) * mp.sqrt(2)))


def masses(scale: float) -> dict[int, mpf]:
    """Return P(k) in 40 digits, from the lower tail, up to where both tails together are below 1e-12."""
    with mp.workdps(40):
        reach = math.ceil(7.5 * scale + 1)
        cut = [chance_of_reaching(m, scale) / 2 for m in range(1, reach + 2)]
        table = {0: 1 - 2 * cut[0]}
        for m in range(1, reach + 1):
            table[m] = cut[m - 1] - cut[m]
            table[-m] = table[m]
        return table


def drawn(first_digits: list[int], scale: float, *, further: int = 0, size: int | None = None) -> list[int]:
    """Return the numbers of uniform numbers with these first 64 digits; bytes `further` come after them."""
    size = size or len(first_digits)
    padded = first_digits + [2**63] * (size - len(first_digits))
    signs = bytes(math.ceil(size / 8))
    content = b"".join(digits.to_bytes(8, "little") for digits in padded) + signs
    return rounded_normal(FixedBytes(content, further), scale, size)[: len(first_digits)]


@pytest.mark.oracle
@pytest.mark.parametrize("scale", [1e-3, 0.03, 0.3, 1.0, 17.25, 1234.5, 1e9, 1e15, 1e40, 1.7e308])
def test_each_uniform_number_stands_for_its_rounded_normal(scale):
    """The m with P(|k| >= m + 1) < u < P(|k| >= m), u between 64 digits and the next."""
    rng = np.random.default_rng(3)
    all_digits = [1, 2**20, 2**64 - 1, *rng.integers(1, 2**64, 25, dtype=np.uint64).tolist()]
    with mp.workdps(700):
        for digits, m in zip(all_digits, drawn(all_digits, scale, further=0x35), strict=True):
            first = mpf(digits) / 2**64
            u = first + mpf(0x35) / 255 / 2**64
            assert u > chance_of_reaching(m + 1, scale)
            assert m == 0 or u < chance_of_reaching(m, scale)


@pytest.mark.oracle
@pytest.mark.parametrize("scale", [0.05, 0.4, 1.0, 9.5])
def test_the_table_and_single_draws_agree(scale):
    """At random and around every entry of the table; so many draws are looked up, so few are not."""
    entries = []
    with mp.workdps(60):
        while not entries or entries[-1] > 0:
            entries.append(int(mp.floor(chance_of_reaching(len(entries) + 1, scale) * 2**64)))
    near = [digits + offset for digits in entries for offset in (-1, 0, 1) if digits + offset > 0]
    near += np.random.default_rng(4).integers(0, 2**64, 50, dtype=np.uint64).tolist()
    for further in (0x00, 0xFF):
        looked_up = drawn(near, scale, further=further, size=100 + 20 * len(near))
        assert looked_up == [drawn([digits], scale, further=further)[0] for digits in near]


@pytest.mark.oracle
@pytest.mark.parametrize("size", [1, 4000])
@pytest.mark.parametrize("m", [1, 2, 7, 30])
def test_what_the_first_digits_leave_open_further_ones_decide(size, m):
    """A uniform number that shares the first 64 digits of P(|k| >= m), and then is less, or more."""
    scale = 4.0
    with mp.workdps(60):
        digits = int(mp.floor(chance_of_reaching(m, scale) * 2**64))
    assert drawn([digits], scale, further=0x00, size=size) == [m]
    assert drawn([digits], scale, further=0xFF, size=size) == [m - 1]


@pytest.mark.statistical
@pytest.mark.parametrize("single", [True, False], ids=["single", "table"])
@pytest.mark.parametrize("scale", cases([0.5, 1.0, 20.0], quick=[1.0]))
def test_draws_have_their_distribution(scale, single):
    draws = []
    noise = SystemNoise()
    size = 4 if single else 20_000
    while len(draws) < 20_000:
        draws += noise.rounded_gaussian([0] * size, scale=scale)
    assert p_value(draws, masses(scale)) > REJECT
    assert p_value(draws, masses(0.9 * scale)) < REJECT
    assert p_value(draws, masses(1.1 * scale)) < REJECT


def p_value(draws: list[int], table: dict[int, mpf]) -> float:
    """Compare draws with a distribution by chi-squared; what is expected less than 25 times is taken together."""
    seen = Counter(draws)
    large = [k for k, mass in table.items() if mass * len(draws) >= 25]
    counts = [seen[k] for k in large]
    means = [float(table[k]) * len(draws) for k in large]
    rest = len(draws) - sum(means)
    if rest >= 5:
        counts.append(len(draws) - sum(counts))
        means.append(rest)
    else:
        means[0] += rest
        counts[0] += len(draws) - sum(counts)
    return float(stats.chisquare(counts, means).pvalue)


def test_the_law_is_that_of_a_rounded_normal_and_its_lower_tail():
    """The upper tail in doubles is 0 from k = 9 on at scale 1; the deviation is 1.041, and 1 of the normal."""
    table = masses(1.0)
    assert float(sum(table.values())) == pytest.approx(1, abs=1e-12)
    assert math.sqrt(sum(k * k * float(mass) for k, mass in table.items())) == pytest.approx(1.0408, abs=1e-4)
    assert 1e-17 < float(table[8]) < 1e-13


def test_both_signs_are_equally_likely_and_values_are_kept():
    noise = SystemNoise()
    noisy = np.array(noise.rounded_gaussian([1000] * 20_000, scale=3.0))
    above, below = (noisy > 1000).sum(), (noisy < 1000).sum()
    assert stats.binomtest(int(above), int(above + below)).pvalue > REJECT


def test_numbers_take_the_bits_that_their_rounding_needs():
    class Counting:
        taken = 0

        def random_bytes(self, count):
            self.taken += count
            return SystemNoise().random_bytes(count)

    noise = Counting()
    rounded_normal(noise, 5.0, 800)
    assert noise.taken == 800 * 8 + 100  # but once in 1e16 runs
