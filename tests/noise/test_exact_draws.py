"""Exact draws have the law they claim, and the fast path has the same.

False alarms: a law is rejected at p < 1e-8 of the Kolmogorov-Smirnov test, of one sample or of two. So far out its
limit is rough, and the rate we state is at most 1e-6 for each test. The noise is seeded, so that a test that passes
goes on passing. Each sample of one parameter must be rejected against a parameter that is off by 10 %; a component of a
Dirichlet by 15 %, and a truncated Dirichlet by what its test says. Rounding puts the mass below 2^-41 at 0: 0.4 % for
the smallest shape, 0.2, where 1 % is what 100,000 draws reject. The oracles are scipy's distribution functions,
quadrature, and rejection in doubles: they share no code with the samplers.
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

from vestry.conjugate.beta_bernoulli import Beta
from vestry.conjugate.dirichlet_categorical import Dirichlet
from vestry.conjugate.gamma import Gamma
from vestry.conjugate.normal_mean import Normal
from vestry.noise import SystemNoise, exact_sampling
from vestry.noise.bits import Bits
from vestry.noise.dirichlet import ScaledGammas, TiltedSimplex

pytestmark = pytest.mark.statistical

REJECT = 1e-8
GRID = 2.0**-40
FEW, MANY = 20_000, 100_000
each_size = pytest.mark.parametrize("size", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])


def fit(sample: np.ndarray, law) -> float:
    return float(stats.kstest(sample, law.cdf).pvalue)


def on_grid(sample: np.ndarray) -> bool:
    return bool((np.ldexp(sample, 40) == np.rint(np.ldexp(sample, 40))).all())


# --- laws of one parameter --------------------------------------------------------------------------------------------

# name: (exact draws, the law, laws off by 10 %: the first two are seen in a few draws)
LAWS = {
    **{
        f"beta {a:g}, {b:g}": (
            lambda bits, size, a=a, b=b: exact_sampling.beta(bits, a, b, grid=GRID, size=size),
            stats.beta(a, b),
            [stats.beta(factor * a, b) for factor in (0.9, 1.1)],
        )
        for a, b in ((0.3, 0.7), (5.0, 8.0), (44.0, 74.0), (1e6, 2e6), (1e8, 1e8), (2.0, 1e8))
    },
    **{
        f"gamma {shape:g}": (
            lambda bits, size, shape=shape: exact_sampling.gamma(bits, shape, 2.5, grid=GRID, size=size),
            stats.gamma(shape, scale=0.4),
            [stats.gamma(factor * shape, scale=0.4) for factor in (0.9, 1.1)]
            + [stats.gamma(shape, scale=0.4 * factor) for factor in (0.9, 1.1)],
        )
        for shape in (0.3, 1.0, 7.0, 1e6, 1e8)
    },
    "normal": (
        lambda bits, size: exact_sampling.normal(bits, 3.0, 4.0, grid=GRID, size=size),
        stats.norm(3.0, 0.5),
        [stats.norm(3.0, 0.45), stats.norm(3.0, 0.55), stats.norm(3.05, 0.5)],
    ),
    "normal, precise": (
        lambda bits, size: exact_sampling.normal(bits, -3.0, 1e8, grid=GRID, size=size),
        stats.norm(-3.0, 1e-4),
        [stats.norm(-3.0, 0.9e-4), stats.norm(-3.0, 1.1e-4)],
    ),
}


QUICK = {"beta 0.3, 0.7", "beta 44, 74", "gamma 0.3", "gamma 7", "normal"}


@pytest.mark.parametrize("name", cases(LAWS, quick=QUICK))
@each_size
@pytest.mark.long
def test_exact_draws_have_their_law(name, size):
    draw, law, others = LAWS[name]
    sample = np.array(draw(Bits(SeededNoise(41)), size))
    assert on_grid(sample)
    assert fit(sample, law) > REJECT
    for other in others if size == MANY else others[:2]:
        assert fit(sample, other) < REJECT


@pytest.mark.long
def test_the_systems_bits_give_the_same_law():
    sample = np.array(exact_sampling.beta(Bits(SystemNoise()), 5.0, 8.0, grid=GRID, size=FEW))
    assert fit(sample, stats.beta(5, 8)) > REJECT


@pytest.mark.long
def test_successive_draws_are_independent():
    sample = np.array(exact_sampling.normal(Bits(SeededNoise(42)), 0.0, 1.0, grid=GRID, size=FEW))
    correlation = np.corrcoef(sample[:-1], sample[1:])[0, 1]
    assert 2 * stats.norm.sf(abs(correlation) * math.sqrt(FEW)) > REJECT


MEMBERS = {
    "beta": (Beta(3.0, 0.6), lambda bits, n: [(x,) for x in exact_sampling.beta(bits, 3.0, 0.6, grid=GRID, size=n)]),
    "dirichlet": (
        Dirichlet((0.4, 2.0, 9.0, 1.0)),
        lambda bits, n: exact_sampling.dirichlet(bits, (0.4, 2.0, 9.0, 1.0), grid=GRID, size=n),
    ),
    "gamma": (
        Gamma(30.0, 7.0),
        lambda bits, n: [(x,) for x in exact_sampling.gamma(bits, 30.0, 7.0, grid=GRID, size=n)],
    ),
    "normal": (
        Normal((1.0,), 9.0),
        lambda bits, n: [(x,) for x in exact_sampling.normal(bits, 1.0, 9.0, grid=GRID, size=n)],
    ),
}


@pytest.mark.parametrize("name", cases(MEMBERS, quick=["beta", "normal"]))
@pytest.mark.long
def test_exact_and_fast_path_agree(name):
    member, draw = MEMBERS[name]
    slowly, fast = np.array(draw(Bits(SeededNoise(43)), FEW)), member.draw(np.random.default_rng(44), FEW)
    assert slowly.shape == fast.shape
    for i in range(member.dimension):
        assert stats.ks_2samp(slowly[:, i], fast[:, i], method="asymp").pvalue > REJECT
        shifted = fast[:, i] + 0.1 * fast[:, i].std()
        assert stats.ks_2samp(slowly[:, i], shifted, method="asymp").pvalue < REJECT


@pytest.mark.slow
@pytest.mark.parametrize("alphas", [(0.3, 0.7, 0.2), (5.0, 8.0, 2.0, 1.0), (1e6, 2e6, 3e6), (1e8, 1e8)], ids=str)
@each_size
def test_dirichlet_marginals(alphas, size):
    sample, total = np.array(exact_sampling.dirichlet(Bits(SeededNoise(45)), alphas, grid=GRID, size=size)), sum(alphas)
    assert on_grid(sample)
    assert np.abs(sample.sum(axis=1) - 1).max() <= len(alphas) * GRID
    for i, alpha in enumerate(alphas):
        assert fit(sample[:, i], stats.beta(alpha, total - alpha)) > REJECT
        assert fit(sample[:, i], stats.beta(1.15 * alpha, total - alpha)) < REJECT


# --- truncated laws ---------------------------------------------------------------------------------------------------


class Quadrature:
    """A law by trapezes of its log-density, on points that are fine towards the end where its mass is."""

    def __init__(self, log_density, low: float, high: float, near_low: bool) -> None:
        even = (np.arange(200_001) / 200_000) ** 3
        self.points = low + (high - low) * even if near_low else (high - (high - low) * even)[::-1]
        logs = log_density(self.points)
        density = np.exp(logs - logs.max())
        total = np.concatenate([[0.0], np.cumsum(np.diff(self.points) * (density[1:] + density[:-1]) / 2)])
        self.levels = total / total[-1]

    def cdf(self, x):
        return np.interp(x, self.points, self.levels)


def beta_law(a: float, b: float, low: float, high: float) -> Quadrature:
    return Quadrature(
        lambda x: (a - 1) * np.log(x) + (b - 1) * np.log1p(-x), low, high, near_low=a / (a + b) < (low + high) / 2
    )


BETAS = {  # the last three have no mass left in doubles
    "middle": (8.0, 5.0, 0.2, 0.8),
    "tail": (3.0, 60.0, 0.2, 0.8),
    "other tail": (60.0, 3.0, 0.2, 0.8),
    "both ends": (0.3, 0.4, 0.05, 0.95),
    "many": (1e6, 2e6, 0.333, 0.334),
    "far": (2.0, 5000.0, 0.2, 0.8),
    "far, many of both": (1500.0, 9000.0, 0.4, 0.6),
    "far, 1e8": (1e8, 2e8, 0.1, 0.2),
}


@pytest.mark.parametrize("name", cases(BETAS, quick=["middle", "far"]))
@each_size
@pytest.mark.long
def test_truncated_beta(name, size):
    a, b, low, high = BETAS[name]
    sample = np.array(exact_sampling.beta(Bits(SeededNoise(46)), a, b, grid=GRID, size=size, low=low, high=high))
    assert on_grid(sample)
    assert sample.min() >= low
    assert sample.max() <= high
    if name == "far, 1e8":  # so steep that it is an exponential: (a-1)/p - (b-1)/(1-p) at p = 0.2
        slope = (a - 1) / high - (b - 1) / (1 - high)
        assert fit(high - sample, stats.expon(scale=1 / slope)) > REJECT
        assert fit(high - sample, stats.expon(scale=1.1 / slope)) < REJECT
        return
    assert fit(sample, beta_law(a, b, low, high)) > REJECT
    if name != "both ends":
        larger = (a * 1.1, b) if a > b else (a, b * 1.1)
        assert fit(sample, beta_law(*larger, low, high)) < REJECT


@pytest.mark.parametrize(("low", "high"), [(0.5, 2.0), (5.0, 50.0), (0.0, 0.3)])
@pytest.mark.long
def test_truncated_gamma(low, high):
    sample = np.array(exact_sampling.gamma(Bits(SeededNoise(47)), 3.0, 2.0, grid=GRID, size=FEW, low=low, high=high))
    assert low <= sample.min() < sample.max() <= high

    def law(shape: float, rate: float) -> Quadrature:
        start = max(low, 1e-12)
        return Quadrature(lambda x: (shape - 1) * np.log(x) - rate * x, start, high, near_low=low > 1)

    assert fit(sample, law(3.0, 2.0)) > REJECT
    assert fit(sample, law(3.6, 2.0) if high < 1 else law(3.0, 2.3)) < REJECT


def by_rejection(alphas: tuple[float, ...], low: float, size: int) -> np.ndarray:
    """The truncated Dirichlet in doubles, from the definition."""
    rng, kept = np.random.default_rng(48), []
    while sum(map(len, kept)) < size:
        rows = rng.dirichlet(alphas, size=200_000)
        kept.append(rows[(rows >= low).all(axis=1)])
    return np.concatenate(kept)[:size]


DIRICHLETS = {
    "two": ((8.0, 5.0), 0.2),
    "even": ((2.0, 2.0, 2.0), 0.1),
    "flat": ((1.0, 1.0, 1.0), 0.2),
    "uneven": ((20.0, 8.0, 1.5), 0.1),
    "crowded": ((30.0, 10.0, 1.0), 0.15),
    "four": ((5.0, 3.0, 1.0, 0.5), 0.1),
    "five": ((9.0, 3.0, 2.0, 1.0, 0.7), 0.07),
    "small": ((0.4, 0.6, 0.8), 0.05),
    "small, four": ((0.2, 0.3, 0.4, 0.9), 0.02),
}


@cache
def reference(name: str) -> np.ndarray:
    return by_rejection(*DIRICHLETS[name], 2 * FEW)


def worst(sample: np.ndarray, other: np.ndarray) -> float:
    """The least p of each component, of the smallest of a row and of the sum of logarithms, times their number."""
    views = [*range(sample.shape[1]), lambda x: x.min(axis=1), lambda x: np.log(x).sum(axis=1)]

    def seen(x: np.ndarray, view) -> np.ndarray:
        return view(x) if callable(view) else x[:, view]

    found = [stats.ks_2samp(seen(sample, view), seen(other, view), method="asymp").pvalue for view in views]
    return len(views) * float(min(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", DIRICHLETS)
@pytest.mark.parametrize("way", [ScaledGammas, TiltedSimplex])
def test_each_way_to_a_truncated_dirichlet(name, way):
    alphas, low = DIRICHLETS[name]
    made, bits = way(alphas, Fraction(low)), Bits(SeededNoise(49))
    rows = []
    for _ in range(FEW // 8):
        row = made.draw(bits)
        rows.append([float(row.ball(i, made.precision)) for i in range(len(alphas))])
    assert worst(np.array(rows), reference(name)) > REJECT


@pytest.mark.parametrize("name", cases(DIRICHLETS, quick=["two", "small"]))
@pytest.mark.parametrize("size", [FEW // 4, pytest.param(FEW, marks=pytest.mark.slow)])
@pytest.mark.long
def test_truncated_dirichlet(name, size):
    alphas, low = DIRICHLETS[name]
    sample = np.array(exact_sampling.dirichlet(Bits(SeededNoise(50)), alphas, grid=GRID, size=size, low=low))
    assert on_grid(sample)
    assert sample.min() >= low
    assert np.abs(sample.sum(axis=1) - 1).max() <= len(alphas) * GRID
    assert worst(sample, reference(name)) > REJECT


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "even", "uneven", "crowded", "five"])
def test_a_truncated_dirichlet_of_other_parameters_is_rejected(name):
    """A tenth more on the largest alpha; a fifth or a third where truncation leaves little of a tenth to be seen."""
    alphas, low = DIRICHLETS[name]
    which, factor = int(np.argmax(alphas)), {"even": 1.33, "two": 1.2, "five": 1.2}.get(name, 1.1)
    other = tuple(factor * a if i == which else a for i, a in enumerate(alphas))
    sample = np.array(exact_sampling.dirichlet(Bits(SeededNoise(51)), other, grid=GRID, size=FEW, low=low))
    assert worst(sample, reference(name)) < REJECT


@pytest.mark.long
def test_a_truncated_dirichlet_of_large_parameters_is_the_plain_one_where_nothing_is_cut():
    sample = np.array(exact_sampling.dirichlet(Bits(SeededNoise(52)), (1e8, 2e8, 3e8), grid=GRID, size=FEW, low=0.1))
    for i, alpha in enumerate((1e8, 2e8, 3e8)):
        assert fit(sample[:, i], stats.beta(alpha, 6e8 - alpha)) > REJECT
        assert fit(sample[:, i], stats.beta(1.0001 * alpha, 6e8 - alpha)) < REJECT
