"""Intervals of rates, and of mean and variance, have their nominal coverage; see test_coverage.py for the method.

A check rejects if a two-sided binomial p-value is below 1e-9; there are fewer than 400 checks, so a false alarm in the
whole file has probability below 1e-6. Noise taken 10 % too small or too large, and the plug-in posterior, are rejected.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom
from share import cases

from vestry.conjugate import normal_inverse_gamma_posterior as mean_variance
from vestry.conjugate.gamma import one_gamma as plugged_in
from vestry.conjugate.gamma_exponential import exponential_posterior
from vestry.conjugate.gamma_poisson import poisson_posterior
from vestry.conjugate.normal_inverse_gamma import MeanVariance
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace

pytestmark = pytest.mark.statistical

LEVELS = (0.5, 0.9, 0.99)
ALARM = 1e-9
LAWS = {"laplace": Laplace, "gaussian": DiscreteGaussian}
FAST = [(100, 0.3, "laplace"), (1000, 0.1, "gaussian")]
CELLS = list(itertools.product((50, 100, 1000), (0.1, 0.3, 1.0), LAWS))
SLOW = [pytest.param(*cell, marks=pytest.mark.slow) for cell in CELLS if cell not in FAST]
each_cell = pytest.mark.parametrize(("n", "epsilon", "kind"), FAST + SLOW)


def noisy(law, values, rng):
    values = np.asarray(values, float)
    if isinstance(law, Laplace):
        p = -math.expm1(-1 / law.scale)
        return np.rint(values) + rng.geometric(p, values.shape) - rng.geometric(p, values.shape)
    return np.rint(np.rint(values) + rng.normal(0, law.scale, values.shape))


def p_values(pits: np.ndarray) -> list[float]:
    found = []
    for level, column in itertools.product(LEVELS, pits.T):
        inside = int(np.sum((column > (1 - level) / 2) & (column < (1 + level) / 2)))
        tail = binom.cdf(inside, len(column), level), binom.sf(inside - 1, len(column), level)
        found.append(min(1.0, 2 * min(tail)))
    return found


def assert_covers(pits):
    assert min(p_values(pits)) > ALARM, pits.mean(axis=0)


def assert_rejected(pits):
    assert min(p_values(pits)) < ALARM


HIGH = 20


def poisson(n, law, size, rng, *, factor=1.0, plugged=False, units=None):
    """Rates around 4, so that no count is clipped at 20."""
    shape, rate = 8.0, 2.0
    theta = rng.gamma(shape, 1 / rate, size)
    z = noisy(law, rng.poisson(n * theta), rng)
    wrong = type(law)(law.scale * factor)
    found = []
    for value, each in zip(z, theta, strict=True):
        if plugged:
            made = plugged_in(shape + max(value, 0), rate + n)
        else:
            made = poisson_posterior(value, count=n, shape=shape, rate=rate, noise=wrong)
        found.append(float(made.cdf(each)))
    return np.array(found)[:, None]


def exponential(n, law, size, rng, *, factor=1.0):
    shape, rate, grid, middle = 6.0, 3.0, 30 / 2**20, 15.01
    theta = rng.gamma(shape, 1 / rate, size)
    z = noisy(law, (rng.gamma(n, 1 / theta) - n * middle) / grid, rng)
    wrong = type(law)(law.scale * factor)
    numbers = {"grid": grid, "middle": middle, "count": n, "shape": shape, "rate": rate, "noise": wrong}
    found = [float(exponential_posterior(value, **numbers).cdf(each)) for value, each in zip(z, theta, strict=True)]
    return np.array(found)[:, None]


UNITS = 2**19


def spread(n, law, size, rng, *, factor=1.0, private=False):
    prior, middle, reach = MeanVariance(3.0, 2.0, 6.0, 20.0), 5.0, 20.0
    wrong, found = type(law)(law.scale * factor), []
    for _ in range(size):
        v = prior.scale / rng.gamma(prior.shape)
        m = rng.normal(prior.location, math.sqrt(v / prior.weight))
        y = (rng.normal(m, math.sqrt(v), n) - middle) / reach
        z = noisy(law, [y.sum() * UNITS, (y * y).sum() * UNITS, n * UNITS / 4], rng)
        counted = {"count": z[2], "count_units": UNITS // 4} if private else {"count": n}
        made = mean_variance.posterior(
            (z[0], z[1]), prior=prior, noise=wrong, unit=1 / UNITS, middle=middle, reach=reach, **counted
        )
        found.append([float(made.marginal(0).cdf(m)), float(made.marginal(1).cdf(v))])
    return np.array(found)


@pytest.mark.parametrize(("n", "epsilon", "kind"), cases(FAST, quick=FAST[:1]) + SLOW)
@pytest.mark.long
def test_rates_of_counts_cover(n, epsilon, kind):
    size = 2000 if (n, epsilon, kind) not in FAST else 1000
    assert_covers(poisson(n, LAWS[kind](HIGH / epsilon), size, np.random.default_rng(1)))


@pytest.mark.long
@each_cell
def test_rates_of_times_cover(n, epsilon, kind):
    size = 2000 if (n, epsilon, kind) not in FAST else 800
    assert_covers(exponential(n, LAWS[kind](2**20 / epsilon), size, np.random.default_rng(2)))


@pytest.mark.long
@each_cell
def test_means_and_variances_cover(n, epsilon, kind):
    size = 2000 if (n, epsilon, kind) not in FAST else 400
    assert_covers(spread(n, LAWS[kind](2.25 * UNITS / epsilon), size, np.random.default_rng(3)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAWS)
def test_means_and_variances_cover_where_the_count_is_private(kind):
    assert_covers(spread(300, LAWS[kind](2.25 * UNITS / 0.5), 2000, np.random.default_rng(4), private=True))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_noise_misjudged_by_a_tenth_is_rejected(factor):
    assert_rejected(poisson(1000, Laplace(HIGH / 0.1), 12_000, np.random.default_rng(5), factor=factor))


@pytest.mark.long
def test_the_plug_in_posterior_is_rejected():
    assert_rejected(poisson(100, Laplace(HIGH / 0.1), 2000, np.random.default_rng(6), plugged=True))
    assert_rejected(poisson(100, Laplace(HIGH / 0.1), 3000, np.random.default_rng(7), factor=0.5))
