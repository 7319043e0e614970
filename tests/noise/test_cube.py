"""Noise that is uniform on a random cube: exactly its distribution, and what it keeps.

Statistical: p-values are held to 1e-8, and the same sample is rejected against a scale that is off by a tenth.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from seeded_noise import SeededNoise

from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.statistic_family import Layout
from vestry.noise import SystemNoise
from vestry.noise.bits import Bits
from vestry.noise.cube import _below, _ladder, cube_noise
from vestry.privacy.guarantee import PureDP
from vestry.privacy.neighbours import Adjacency


def masses(size: int, scale: float, reach: int) -> dict[tuple[int, ...], float]:
    """Return exp(-max |k_i|/scale), normalised, of every vector up to a reach."""
    points = itertools.product(range(-reach, reach + 1), repeat=size)
    found = {point: math.exp(-max(map(abs, point)) / scale) for point in points}
    total = sum(found.values())
    return {point: mass / total for point, mass in found.items()}


def p_value(draws: list[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Compare draws with a distribution; what is expected less than ten times is taken together."""
    seen = Counter(draws)
    large = [point for point, mass in expected.items() if mass * len(draws) >= 10]
    counts = [seen[point] for point in large]
    means = [expected[point] * len(draws) for point in large]
    rest = len(draws) - sum(means)
    return stats.chisquare([*counts, len(draws) - sum(counts)], [*means, rest]).pvalue


@pytest.mark.statistical
@pytest.mark.long
@pytest.mark.parametrize(("size", "scale", "draws"), [(2, 1.5, 20_000), (3, 0.6, 20_000)])
def test_draws_have_their_distribution(size, scale, draws):
    noise = SeededNoise(11)
    drawn = [tuple(cube_noise(noise, size, scale)) for _ in range(draws)]
    assert p_value(drawn, masses(size, scale, 30 if size == 2 else 12)) > 1e-8
    assert p_value(drawn, masses(size, 1.1 * scale, 30 if size == 2 else 12)) < 1e-8


def test_half_the_edge_of_a_large_cube_has_its_distribution():
    """In 25 dimensions the largest coordinate tells m, and its moments are sums of weights."""
    m = np.arange(2000)
    logs = 25 * np.log(2 * m + 1) - m / 10.0
    exact = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    sums, total = _ladder(25, 10.0, 128)
    ladder = np.array([float((each / total).mid()) for each in sums[:400]])
    assert ladder == pytest.approx(np.cumsum(exact)[:400], abs=1e-12)


def test_the_loss_is_at_most_one_over_the_scale_where_every_count_moves():
    """All counts move by 1 together: exp(1/scale), and more than that for noise of the same scale on each alone."""
    scale, known = 2.0, masses(3, 2.0, 12)
    inside = [point for point in known if max(map(abs, point)) < 12]
    losses = [
        math.log(known[point] / known[tuple(a - b for a, b in zip(point, step, strict=True))])
        for step in itertools.product((-1, 0, 1), repeat=3)
        for point in inside
    ]
    assert max(losses) == pytest.approx(1 / scale, rel=1e-9)


def test_the_system_s_noise_draws_it():
    drawn = cube_noise(SystemNoise(), 8, 1e-3)
    assert drawn == [0] * 8
    assert max(map(abs, cube_noise(SystemNoise(), 8, 50.0))) > 20  # but once in 1e17 runs


def test_whole_numbers_below_another_are_equally_likely():
    bits = Bits(SeededNoise(3))
    counts = np.bincount([_below(bits, 5) for _ in range(20_000)], minlength=5)
    assert counts.size == 5
    assert stats.chisquare(counts).pvalue > 1e-8


@pytest.mark.parametrize(("size", "scale", "within"), [(1, 2.0, 0.01), (2, 3.0, 1e-4), (8, 5.0, 1e-9)])
def test_the_deviation_is_that_of_one_count(size, scale, within):
    """The variance of a whole number between -m and m is m (m + 1)/3; m is summed over its distribution."""
    weights = [(2 * m + 1) ** size * math.exp(-m / scale) for m in range(int(60 * scale * (size + 2)))]
    variance = sum(weight * m * (m + 1) / 3 for m, weight in enumerate(weights)) / sum(weights)
    names = tuple(map(str, range(size)))
    mechanism = Additive("discrete-cube", scale, Layout(names, size, size**0.5), Adjacency("replace"), PureDP(1))
    assert mechanism.deviation == pytest.approx(math.sqrt(variance), rel=within)
