"""A number that was guessed in doubles may be anything: truncated draws end, and have their distribution.

Cells of the first and of the smallest component are counted in 300 draws, against integration. Each of the two
chi-square tests of a case fails by chance with probability 1e-8; there are less than a hundred. Draws of a truncation
at 0.06 instead of 0.1 fail.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats
from seeded_noise import SeededNoise
from share import cases

from vestry.noise import dirichlet, exact_sampling
from vestry.noise.bits import Bits
from vestry.noise.densities import LogGamma
from vestry.noise.grid import PROBABILITY_GRID as GRID
from vestry.noise.log_concave import LogConcaveSampler

FALSE_ALARM = 1e-8
DRAWS = 300
CELLS = 8
LOW = 0.1
GUESSES = [0.0, 5e-324, 1e-9, 1.0, 1e9, 1e300, math.inf, -1.0, math.nan]
ALPHAS = {
    "none of a record": (1e-9, 1e-9, 1e-9),
    "below 1": (0.6, 0.9, 0.7),
    "one above 1": (3.0, 0.5, 1e-9),
    "above 1": (50.0, 80.0, 20.0),
}


@cache
def law(alphas: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the truncated simplex, the middles of small squares, and their probabilities."""
    steps = LOW + (1 - 3 * LOW) * (np.arange(1200) + 0.5) / 1200
    x, y = np.meshgrid(steps, steps)
    z = 1 - x - y
    inside = z >= LOW
    points = np.stack([x[inside], y[inside], z[inside]])
    logs = (np.array(alphas)[:, None] - 1) * np.log(points)
    weights = np.exp(logs.sum(axis=0) - logs.sum(axis=0).max())
    return points, weights / weights.sum()


def probability_of_more(alphas: tuple[float, ...], rows: np.ndarray) -> float:
    """Return the smaller of two p-values, of the first and of the smallest component."""
    points, weights = law(alphas)
    found = []
    for expected, seen in ((points[0], rows[:, 0]), (points.min(axis=0), rows.min(axis=1))):
        order = np.argsort(expected)
        below = np.cumsum(weights[order])
        edges = expected[order][np.searchsorted(below, np.arange(1, CELLS) / CELLS)]
        shares = np.bincount(np.searchsorted(edges, expected), weights, minlength=CELLS)
        counts = np.bincount(np.searchsorted(edges, seen), minlength=CELLS)
        found.append(float(stats.chisquare(counts, len(rows) * shares).pvalue))
    return min(found)


def drawn(alphas: tuple[float, ...], low: float, size: int = DRAWS) -> np.ndarray:
    return np.array(exact_sampling.dirichlet(Bits(SeededNoise(71)), alphas, grid=GRID, size=size, low=low))


@pytest.mark.statistical
@pytest.mark.parametrize("guess", cases(GUESSES, quick=[0.0, 1e300, math.nan]))
@pytest.mark.parametrize("name", ALPHAS)
def test_a_wrong_guess_costs_time_and_never_the_draw(name, guess, monkeypatch):
    monkeypatch.setattr(dirichlet, "best_tilt", lambda *_: guess)
    monkeypatch.setattr(dirichlet, "best_scale", lambda *_: guess)
    rows = drawn(ALPHAS[name], LOW)
    assert rows.min() >= LOW
    assert probability_of_more(ALPHAS[name], rows) > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["none of a record", "below 1"])
def test_another_truncation_is_seen(name):
    assert probability_of_more(ALPHAS[name], drawn(ALPHAS[name], 0.06)) < FALSE_ALARM


@pytest.mark.parametrize("guess", cases(GUESSES, quick=[0.0, 1e300, math.nan]))
@pytest.mark.parametrize(
    ("alphas", "low"),
    [
        ((1e-30, 1e-30, 1e-30), 0.3),
        ((0.2, 1e-30, 1e-30), 1e-3),
        ((1e20, 2e20, 1e-30), 0.1),
        ((1e-3,) * 10, 0.1 - 1e-12),
        ((0.5,) * 30, 1e-10),
    ],
)
def test_extreme_draws_end_from_a_wrong_guess(alphas, low, guess, monkeypatch):
    monkeypatch.setattr(dirichlet, "best_tilt", lambda *_: guess)
    monkeypatch.setattr(dirichlet, "best_scale", lambda *_: guess)
    rows = drawn(alphas, low, size=1)
    assert rows.min() >= low - GRID


class Counted(LogConcaveSampler):
    """A sampler of gammas that counts the numbers drawn."""

    count = 0

    def draw(self, source):
        Counted.count += 1
        return super().draw(source)


@pytest.mark.parametrize("low", [1e-10, 1e-3, 0.5])
@pytest.mark.parametrize("alpha", [1e-30, 1e-3, 0.5, 0.99, 1.0, 30.0])
@pytest.mark.parametrize("d", cases([2, 5, 30, 300], quick=[5]))
def test_few_vectors_are_rejected(d, alpha, low, monkeypatch):
    """Of twenty draws at most 99 of 100 attempts: a rate of acceptance of 0.03 has that with probability 1e-10."""
    monkeypatch.setattr(dirichlet, "LogConcaveSampler", Counted)
    sampler = dirichlet.choose_sampler((alpha,) * d, Fraction(low) / d)
    bits = Bits(SeededNoise(72))
    Counted.count = 0
    draws = 20
    for _ in range(draws):
        sampler.draw(bits)
    assert Counted.count <= 100 * d * draws


@pytest.mark.parametrize("rate", [1e-300, 1.0, 1e30, 1e300])
def test_a_gamma_far_from_its_bound_ends(rate):
    """A density that falls by e^-1 within 1e-300 of its bound needs a thousand digits for its envelope."""
    density = LogGamma(3.0, rate, Fraction(1), Fraction(2))
    sampler = LogConcaveSampler(density)
    bits = Bits(SeededNoise(73))
    for _ in range(10):
        value = density.value(sampler.draw(bits).ball(96))
        assert 1 - 1e-12 <= float(value.mid()) <= 2 + 1e-12
