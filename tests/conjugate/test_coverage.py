"""Intervals have their nominal coverage: datasets from the model, noise added, posterior computed, truth looked up.

An equal-tailed interval of level L covers the truth if and only if the posterior's distribution function at the truth
lies between (1 - L)/2 and (1 + L)/2, so each dataset costs one evaluation. Over datasets drawn from the prior the
number that are covered is binomial with exactly that level, as the posterior is exact. A check rejects if a two-sided
binomial p-value is below 2e-9; there are fewer than 500 checks here, so a false alarm in the whole file has probability
below 1e-6. What it must reject is tried too: noise taken 10 % too small or too large, and the plug-in posterior.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi2
from share import cases

from vestry.conjugate import beta_bernoulli, dirichlet_posterior, normal_posterior
from vestry.conjugate.beta_bernoulli import plug_in_beta
from vestry.conjugate.dirichlet_categorical import plug_in_dirichlet
from vestry.conjugate.normal_mean import plug_in_normal
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace

pytestmark = pytest.mark.statistical

LEVELS = (0.5, 0.9, 0.99)
ALARM = 2e-9
COUNTS, EPSILONS = (50, 100, 1000), (0.1, 0.3, 1.0)
LAWS = {"laplace": Laplace, "gaussian": DiscreteGaussian}


def noise(law, size, rng):
    """Integer noise, drawn apart from the package."""
    if isinstance(law, Laplace):
        p = -math.expm1(-1 / law.scale)
        return (rng.geometric(p, size) - rng.geometric(p, size)).astype(float)
    if law.scale > 2000:  # rounding cannot be told from the discrete law: exp(-2 pi^2 scale^2)
        return np.rint(rng.normal(0, law.scale, size))
    k = np.arange(-math.ceil(12 * law.scale), math.ceil(12 * law.scale) + 1)
    mass = np.exp(-(k**2) / (2 * law.scale**2))
    return rng.choice(k, size, p=mass / mass.sum()).astype(float)


def misjudged(law, factor):
    return type(law)(law.scale * factor)


# One dataset each: the posterior's distribution function at the truth


def beta_public(n, law, size, rng, *, prior=(1.0, 1.0), factor=1.0, plugged=False):
    theta = rng.beta(*prior, size)
    z = rng.binomial(n, theta) + noise(law, size, rng)
    found = np.empty(size)
    for value in np.unique(z):
        same = z == value
        if plugged:
            posterior = plug_in_beta(np.array([value]), count=n, alpha=prior[0], beta=prior[1])
        else:
            posterior = beta_bernoulli.public_count(
                int(value), count=n, alpha=prior[0], beta=prior[1], noise=misjudged(law, factor)
            )
        found[same] = posterior.cdf(theta[same])
    return found[:, None]


def beta_private(law, size, rng, *, prior=(1.0, 1.0), factor=1.0, most=60, seen=24):
    """The count is uniform on 0 ... most. Only datasets that look smaller are kept.

    The posterior's uniform prior has no end; on what is kept, the end at `most` is too far away to matter, and the
    posterior is calibrated given anything that the statistics alone decide.
    """
    kept = []
    while len(kept) < size:
        n, theta = rng.integers(0, most + 1), rng.beta(*prior)
        s = rng.binomial(n, theta)
        z = np.array([s, n - s]) + noise(law, 2, rng)
        if z.sum() <= seen:
            kept.append((theta, z))
    found = [
        float(
            beta_bernoulli.private_count(
                int(z[0]), int(z[1]), alpha=prior[0], beta=prior[1], noise=misjudged(law, factor)
            ).cdf(theta)
        )
        for theta, z in kept
    ]
    return np.array(found)[:, None]


PRIOR = np.array([1.0, 2.0, 0.5])


def dirichlet_data(n, law, size, rng):
    theta = rng.dirichlet(PRIOR, size)
    counts = rng.multinomial(n, theta)
    return theta, counts + noise(law, counts.shape, rng)


def dirichlet_public(n, law, size, rng, *, factor=1.0, plugged=False):
    found = np.empty((size, 3))
    for row, (theta, z) in enumerate(zip(*dirichlet_data(n, law, size, rng), strict=True)):
        if plugged:
            posterior = plug_in_dirichlet(z, count=n, alphas=PRIOR)
        else:
            posterior = dirichlet_posterior.public_count(z, count=n, alphas=PRIOR, noise=misjudged(law, factor))
        found[row] = [float(posterior.marginal(i).cdf(each)) for i, each in enumerate(theta)]
    return found


def dirichlet_private(law, size, rng, *, most=60, seen=24):
    """As for two counts, with three."""
    found = []
    while len(found) < size:
        n, theta = rng.integers(0, most + 1), rng.dirichlet(PRIOR)
        z = rng.multinomial(n, theta) + noise(law, 3, rng)
        if z.sum() <= seen:
            posterior = dirichlet_posterior.private_count(z, alphas=PRIOR, noise=law)
            found.append([float(posterior.marginal(i).cdf(each)) for i, each in enumerate(theta)])
    return np.array(found)


MODEL = normal_posterior.NormalModel(variance=1.0, prior_mean=0.4, prior_variance=0.5)
WIDTH, GRID = 8.0, 8.0 / 2**16


def normal_data(n, law, size, rng):
    theta = rng.normal(MODEL.prior_mean, math.sqrt(MODEL.prior_variance), size)
    sums = rng.normal(n * theta, math.sqrt(n * MODEL.variance))
    return theta, np.rint(sums / GRID) + noise(law, size, rng)


def normal_public(n, law, size, rng, *, factor=1.0, plugged=False):
    """All datasets at once, as the coordinates of one release."""
    theta, z = normal_data(n, law, size, rng)
    if plugged:
        posterior = plug_in_normal(z * GRID, count=n, model=MODEL, reach=WIDTH / 2)
    else:
        posterior = normal_posterior.public_count(z, count=n, model=MODEL, noise=misjudged(law, factor), grid=GRID)
    inside = ndtr((theta[:, None] - posterior.means[0]) / np.sqrt(posterior.variances[0]))
    return (posterior.weights[0] * inside).sum(axis=1)[:, None]


def normal_private(law, size, rng, *, most=60, seen=24):
    found = []
    while len(found) < size:
        n, theta = rng.integers(0, most + 1), rng.normal(MODEL.prior_mean, math.sqrt(MODEL.prior_variance), 2)
        sums = rng.normal(n * theta, math.sqrt(n * MODEL.variance)) if n else np.zeros(2)
        count_grid = GRID
        z, z_count = np.rint(sums / GRID) + noise(law, 2, rng), np.rint(n / count_grid) + noise(law, 1, rng)[0]
        if z_count * count_grid <= seen:
            posterior = normal_posterior.private_count(
                z, z_count, model=MODEL, noise=law, grid=GRID, count_grid=count_grid
            )
            found.append([float(posterior.marginal(i).cdf(each)) for i, each in enumerate(theta)])
    return np.array(found)


# The scales that a guarantee of epsilon needs, replace-one: sensitivity / epsilon


def beta_law(kind, epsilon):
    return LAWS[kind](1 / epsilon)


def dirichlet_law(kind, epsilon):
    return LAWS[kind]((2 if kind == "laplace" else math.sqrt(2)) / epsilon)


def normal_law(kind, epsilon):
    return LAWS[kind](WIDTH / GRID / epsilon)


# The check


def p_values(pits):
    """Return the two-sided binomial p-value of each parameter's coverage at each level."""
    size = len(pits)
    found = []
    for level, pit in itertools.product(LEVELS, pits.T):
        covered = int(((pit >= (1 - level) / 2) & (pit <= (1 + level) / 2)).sum())
        found.append(min(1.0, 2 * min(binom.cdf(covered, size, level), binom.sf(covered - 1, size, level))))
    return found


def assert_covers(pits):
    assert min(p_values(pits)) >= ALARM, coverage(pits)


def assert_rejected(pits):
    assert min(p_values(pits)) < ALARM, coverage(pits)


def coverage(pits, level=None):
    if level is None:
        return {each: coverage(pits, each) for each in LEVELS}
    return float(((pits >= (1 - level) / 2) & (pits <= (1 + level) / 2)).mean())


def generator(*facts):
    return np.random.default_rng(
        [len(facts), *[round(10 * each) if not isinstance(each, str) else sum(map(ord, each)) for each in facts]]
    )


GRID_OF_CELLS = list(itertools.product(COUNTS, EPSILONS, LAWS))
FAST = [(50, 0.1, "laplace"), (50, 0.3, "gaussian"), (100, 1.0, "laplace"), (1000, 0.1, "gaussian")]
SLOW = [pytest.param(*cell, marks=pytest.mark.slow) for cell in GRID_OF_CELLS if cell not in FAST]
each_cell = pytest.mark.parametrize(("n", "epsilon", "kind"), cases(FAST, quick=FAST[:3]) + SLOW)


@each_cell
def test_beta_intervals_cover(n, epsilon, kind):
    assert_covers(beta_public(n, beta_law(kind, epsilon), 10_000, generator("beta", n, epsilon, kind)))


@pytest.mark.slow
@each_cell
def test_beta_intervals_cover_under_another_prior(n, epsilon, kind):
    rng = generator("jeffreys", n, epsilon, kind)
    assert_covers(beta_public(n, beta_law(kind, epsilon), 5_000, rng, prior=(0.5, 1.5)))


@pytest.mark.parametrize(("n", "epsilon", "kind"), GRID_OF_CELLS)
def test_normal_intervals_cover(n, epsilon, kind):
    assert_covers(normal_public(n, normal_law(kind, epsilon), 4_000, generator("normal", n, epsilon, kind)))


DIRICHLET_FAST = [(50, 0.3, "laplace"), (100, 0.1, "gaussian")]
DIRICHLET_SLOW = [pytest.param(*cell, marks=pytest.mark.slow) for cell in GRID_OF_CELLS if cell not in DIRICHLET_FAST]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "kind"), DIRICHLET_FAST + DIRICHLET_SLOW)
def test_dirichlet_intervals_cover(n, epsilon, kind):
    assert_covers(dirichlet_public(n, dirichlet_law(kind, epsilon), 2_000, generator("dirichlet", n, epsilon, kind)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAWS)
def test_beta_intervals_cover_where_the_count_is_private(kind):
    assert_covers(beta_private(LAWS[kind](1.5), 3_000, generator("private", kind)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAWS)
def test_dirichlet_intervals_cover_where_the_count_is_private(kind, monkeypatch):
    monkeypatch.setattr(dirichlet_posterior, "_MOST", 4096)  # an error of 0.005 in a probability does not show here
    assert_covers(dirichlet_private(LAWS[kind](1.5), 1_000, generator("private three", kind)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAWS)
def test_normal_intervals_cover_where_the_count_is_private(kind):
    assert_covers(normal_private(LAWS[kind](1.5 / GRID), 2_000, generator("private normal", kind)))


# What the check must reject


@pytest.mark.long
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_noise_misjudged_by_a_tenth_is_rejected(kind, factor):
    assert_rejected(beta_public(50, beta_law(kind, 0.1), 40_000, generator("wrong beta", kind), factor=factor))
    assert_rejected(normal_public(1000, normal_law(kind, 0.1), 40_000, generator("wrong normal", kind), factor=factor))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_dirichlet_noise_misjudged_by_a_tenth_is_rejected(factor):
    rng = generator("wrong dirichlet")
    assert_rejected(dirichlet_public(1000, dirichlet_law("laplace", 0.1), 20_000, rng, factor=factor))


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.long
def test_the_plug_in_posterior_is_rejected(kind):
    rng = generator("plug-in", kind)
    assert_rejected(beta_public(100, beta_law(kind, 0.3), 2_000, rng, plugged=True))
    assert_rejected(dirichlet_public(100, dirichlet_law(kind, 0.3), 2_000, rng, plugged=True))
    assert_rejected(normal_public(100, normal_law(kind, 0.3), 2_000, rng, plugged=True))


@pytest.mark.parametrize(("n", "epsilon", "figure"), [(100, 0.1, 0.45), (1000, 0.1, 0.73), (200, 0.3, 0.79)])
def test_what_the_plug_in_posterior_covers(n, epsilon, figure):
    """Nominal 90 % intervals, theta uniform, prior Beta(1, 1), Laplace noise of scale 1/epsilon on the successes."""
    pits = beta_public(n, beta_law("laplace", epsilon), 40_000, generator("figure", n, epsilon), plugged=True)
    # Six standard errors of 40,000 datasets are 0.015; the figures are rounded to 0.005.
    assert coverage(pits, 0.9) == pytest.approx(figure, abs=0.02)


# The shortcut, and draws


def test_the_interval_covers_when_the_distribution_function_is_central():
    rng = generator("shortcut")
    for _ in range(60):
        theta, z = rng.beta(1, 1), int(rng.integers(-20, 80))
        mixture = beta_bernoulli.public_count(z, count=50, alpha=1, beta=1, noise=Laplace(10))
        for level in LEVELS:
            low, high = mixture.interval(level)
            pit = float(mixture.cdf(theta))
            assert (low <= theta <= high) == ((1 - level) / 2 <= pit <= (1 + level) / 2)
    theta, z = normal_data(50, Laplace(8e4), 5, rng)
    joint = normal_posterior.public_count(z, count=50, model=MODEL, noise=Laplace(8e4), grid=GRID)
    inside = (joint.weights[0] * ndtr((theta[:, None] - joint.means[0]) / np.sqrt(joint.variances[0]))).sum(axis=1)
    assert inside == pytest.approx([float(joint.marginal(i).cdf(theta[i])) for i in range(5)], abs=1e-12)


def rank_statistic(ranks, draws):
    """Chi-squared of ranks 0 ... draws in 16 equal bins."""
    seen = np.bincount(ranks * 16 // (draws + 1), minlength=16)
    expected = len(ranks) / 16
    return ((seen - expected) ** 2 / expected).sum()


RANK_LIMIT = chi2.isf(1e-8, 15)


def beta_ranks(rng, *, factor=1.0):
    theta = rng.beta(1, 1, 4000)
    z = rng.binomial(50, theta) + noise(Laplace(10), 4000, rng)
    laws = {
        v: beta_bernoulli.public_count(int(v), count=50, alpha=1, beta=1, noise=Laplace(10 * factor))
        for v in np.unique(z)
    }
    return np.array([(laws[v].draw(rng, 63)[:, 0] < t).sum() for t, v in zip(theta, z, strict=True)])


def dirichlet_ranks(rng, size, *, factor=1.0):
    """Ranks of a probability, and of a product of two, which joint draws alone get right."""
    found = []
    for theta, z in zip(*dirichlet_data(50, Laplace(6), size, rng), strict=True):
        posterior = dirichlet_posterior.public_count(z, count=50, alphas=PRIOR, noise=Laplace(6 * factor))
        draws = posterior.draw(rng, 63)
        products = draws[:, 0] * draws[:, 1]
        found.append([(draws[:, 1] < theta[1]).sum(), (products < theta[0] * theta[1]).sum()])
    return np.array(found).T


def normal_ranks(rng, *, factor=1.0):
    """Two coordinates, the count private: ranks of the first and of the difference."""
    found = []
    while len(found) < 2000:
        n, theta = rng.integers(0, 61), rng.normal(MODEL.prior_mean, math.sqrt(MODEL.prior_variance), 2)
        sums = rng.normal(n * theta, math.sqrt(n * MODEL.variance)) if n else np.zeros(2)
        law = Laplace(1.5 / GRID)
        z, z_count = np.rint(sums / GRID) + noise(law, 2, rng), np.rint(n / GRID) + noise(law, 1, rng)[0]
        if z_count * GRID <= 24:
            posterior = normal_posterior.private_count(
                z, z_count, model=MODEL, noise=misjudged(law, factor), grid=GRID, count_grid=GRID
            )
            draws = posterior.draw(rng, 63)
            found.append([(draws[:, 0] < theta[0]).sum(), (draws[:, 0] - draws[:, 1] < theta[0] - theta[1]).sum()])
    return np.array(found).T


@pytest.mark.long
def test_ranks_of_the_truth_among_draws_are_uniform():
    """Simulation-based calibration: chi-squared with 15 degrees of freedom, false-alarm rate 1e-8 each."""
    assert rank_statistic(beta_ranks(generator("ranks")), 63) < RANK_LIMIT
    for ranks in dirichlet_ranks(generator("joint ranks"), 1500):
        assert rank_statistic(ranks, 63) < RANK_LIMIT


@pytest.mark.slow
def test_ranks_are_uniform_where_the_count_is_private():
    for ranks in normal_ranks(generator("normal ranks")):
        assert rank_statistic(ranks, 63) < RANK_LIMIT


@pytest.mark.slow
def test_ranks_of_a_misjudged_posterior_are_rejected():
    assert rank_statistic(beta_ranks(generator("wrong ranks"), factor=0.5), 63) > RANK_LIMIT
    assert any(rank_statistic(r, 63) > RANK_LIMIT for r in dirichlet_ranks(generator("wrong joint"), 1500, factor=0.4))
