"""Normals in bulk: each within the stated distance of an exact one, whatever the random words are, and of their law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from seeded_noise import SeededNoise

from vestry.noise import bounded_error_normals
from vestry.noise.bounded_error_normals import ERROR, normals

mpmath = pytest.importorskip("mpmath", reason="the extra `test` is not installed")


class Words:
    """A stream that gives chosen words: an array first, then one at a time."""

    def __init__(self, words, more=()):
        self.words, self.more, self.asked = np.array(words, dtype=np.uint64), list(more), 0

    def integers(self, low, high, size=None, dtype=None):
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        if size is not None:
            return self.words.copy()
        self.asked += 1
        return np.uint64(self.more.pop(0))


def holds(drawn: float, low, high, *, error: float = ERROR) -> bool:
    """Say whether every z with low <= P(Z > |z|) <= high lies within the error of |drawn|; 60 digits."""
    with mpmath.workdps(60):
        z = mpmath.mpf(abs(float(drawn)))
        nearer, further = mpmath.ncdf(-(z - mpmath.mpf(error))), mpmath.ncdf(-(z + mpmath.mpf(error)))
        return further <= low and high <= nearer


def cell(k: int, more: list[int]):
    """The interval of v that the bits of k and of the words below it leave open."""
    bits, places = k, 64
    for word in more:
        bits, places = (bits << 64) | word, places + 64
    with mpmath.workdps(400):
        unit = mpmath.mpf(2) ** -places
        return bits * unit, (bits + 1) * unit


def drawn_from(k: int, more=(), sign: int = 0) -> float:
    return float(normals(Words([2 * k + sign], more), 1)[0])


MIDDLE = [2**63 - 1, 2**63 - 2, 2**62, 2**62 + 1, 3 * 2**61 + 12345, 2**60 - 1, 2**55 + 7]
TAILS = [2**48, 2**48 + 1, 2**49 - 1, 2**50 + 3, 2**53 + 1]


@pytest.mark.parametrize("k", MIDDLE + TAILS)
def test_the_middle_and_the_tails_are_within_the_error(k):
    stream = Words([2 * k])
    found = float(normals(stream, 1)[0])
    assert stream.asked == 0
    assert holds(found, *cell(k, []))
    assert drawn_from(k, sign=1) == -found


REFINED = [
    (2**48 - 1, [0]), (2**48 - 1, [2**64 - 1]), (1, [0]), (1, [12345]), (1, [2**64 - 1]), (0, [2**64 - 1]),
    (0, [2**48]), (0, [1, 0]), (0, [2**48 - 1, 7]), (0, [0, 2**63]), (0, [0, 0, 1, 2**60]), (0, [*[0] * 10, 1, 99]),
]  # fmt: skip


@pytest.mark.parametrize(("k", "more"), REFINED)
def test_tiny_words_are_refined_until_they_are_known(k, more):
    stream = Words([2 * k], more)
    found = float(normals(stream, 1)[0])
    assert not stream.more, "all words were used"
    assert holds(found, *cell(k, more))
    assert abs(found) < 39


def test_words_of_zero_without_end_give_a_finite_number():
    """Once in 2^960; then no bound holds, and none is needed."""
    stream = Words([0], [0] * 20)
    assert 36 < float(normals(stream, 1)[0]) < 39
    assert stream.asked == 14


def test_random_words_are_within_the_error():
    rng = np.random.default_rng(7)
    ks = [int(rng.integers(2**48, 2**63)) for _ in range(150)] + [int(2 ** rng.uniform(48, 63)) for _ in range(150)]
    found = normals(Words([2 * k for k in ks]), len(ks))
    assert all(holds(z, *cell(k, [])) for z, k in zip(found, ks, strict=True))


def test_the_error_is_not_a_thousand_times_too_large_and_a_smaller_one_is_refuted():
    """The widest cell of all, and numbers near 39: somewhere 2^-50 of error is exceeded."""
    cases = [(2**48, []), *REFINED]
    assert not all(holds(drawn_from(k, list(more)), *cell(k, list(more)), error=2.0**-50) for k, more in cases)


def test_without_refinement_the_bound_is_refuted(monkeypatch):
    monkeypatch.setattr(bounded_error_normals, "_TINY", np.uint64(0))
    found = drawn_from(5)
    assert not holds(found, *cell(5, []))


def test_shapes():
    stream = np.random.default_rng(1)
    assert normals(stream, 5).shape == (5,)
    assert normals(stream, (3, 4)).shape == (3, 4)
    assert normals(stream, (0, 4)).shape == (0, 4)


def test_the_law_is_normal_and_a_tenth_more_or_less_is_rejected():
    """Kolmogorov and Smirnov's test at a false-alarm rate of 1e-7; the same numbers times 0.9 or 1.1 are rejected."""
    drawn = normals(SeededNoise(11).stream(), 100_000)
    assert stats.kstest(drawn, "norm").pvalue > 1e-7
    assert all(stats.kstest(factor * drawn, "norm").pvalue < 1e-7 for factor in (0.9, 1.1))
    # Signs and sizes are independent, and so are neighbours: correlations within 5 of their deviations, 1e-6.
    assert abs(np.corrcoef(np.sign(drawn), np.abs(drawn))[0, 1]) < 5 / np.sqrt(len(drawn))
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 5 / np.sqrt(len(drawn))
