"""Sparse tables against sums of 40 digits, and against brute force over hyperparameters, levels that occur and counts.

The oracles write the model down again, level by level and count by count, and use nothing of what they check.
"""

from __future__ import annotations

import functools
import itertools

import mpmath as mp
import numpy as np
import pytest
from rounded_law import exact_mass
from scipy.special import expit
from scipy.stats import nbinom
from share import cases

from vestry.conjugate.sparse_dirichlet import NoisyLevels, hyperparameters, sparse_dirichlet
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian

pytestmark = pytest.mark.oracle

LAWS = {"laplace": Laplace, "gaussian": DiscreteGaussian, "rounded": RoundedGaussian}


def noise_weight(kind, scale, k):
    if kind == "rounded":
        return exact_mass(scale, k)
    return (
        mp.exp(-abs(k) / mp.mpf(scale)) if kind == "laplace" else mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(scale) ** 2))
    )


def exact_evidence(z, kind, scale, alpha, mu):
    """Equation (1), one level, relative to the noise at the count nearest to z."""
    a, m = mp.mpf(alpha), mp.mpf(mu)

    def mass(n):
        return mp.gamma(n + a) / (mp.gamma(a) * mp.factorial(n)) * (a / (a + m)) ** a * (m / (a + m)) ** n

    top = max(z, 0) + int(45 * scale) + 20
    total = mp.fsum(mass(n) * noise_weight(kind, scale, z - n) for n in range(top))
    return total / noise_weight(kind, scale, z - max(z, 0))


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize(("alpha", "mu"), [(0.05, 3.0), (1.0, 20.0), (30.0, 0.4)])
def test_evidence_of_one_level_to_ten_digits(kind, alpha, mu):
    values = np.array([-7.0, 0.0, 4.0, 33.0])
    (found,) = NoisyLevels.of(values, LAWS[kind](2.0)).evidence(alpha, np.array([mu]))
    with mp.workdps(40):
        exact = [float(exact_evidence(int(z), kind, 2, alpha, mu)) for z in values]
    assert found[:, 0] == pytest.approx(exact, rel=1e-10)


def test_likelihood_mixes_levels_that_occur_with_levels_that_never_do():
    values, alpha, mu, pi = np.array([-3.0, 0.0, 0.0, 9.0]), 0.4, 6.0, 0.3
    found = NoisyLevels.of(values, Laplace(2.0)).log_likelihood(
        np.array([alpha]), np.array([[mu]]), np.array([[[np.log(pi / (1 - pi))]]])
    )
    with mp.workdps(40):
        exact = mp.mpf(0)
        for z in map(int, values):
            absent = noise_weight("laplace", 2, z) / noise_weight("laplace", 2, z - max(z, 0))
            exact += mp.log(pi * exact_evidence(z, "laplace", 2, alpha, mu) + (1 - pi) * absent)
    assert found[0, 0, 0] == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.long
def test_with_p_of_n_as_1_over_n_the_model_is_the_dirichlet_multinomial():
    """Summed over log mu, counts n_1 ... n_K have Gamma(N) Gamma(Ka)/Gamma(N + Ka) prod A_a(n_j), up to a constant.

    So no information is lost by taking levels for independent given the hyperparameters.
    """
    alpha, tables = 0.7, [(5, 0, 2), (1, 1, 5), (7, 0, 0)]
    with mp.workdps(30):
        a = mp.mpf(alpha)

        def poissonised(counts):
            def at(t):
                m = mp.e**t
                return mp.fprod(
                    mp.gamma(n + a) / (mp.gamma(a) * mp.factorial(n)) * (a / (a + m)) ** a * (m / (a + m)) ** n
                    for n in counts
                )

            return mp.quad(at, [-60, -10, 0, 5, 20, 60])

        def dirichlet_multinomial(counts):
            own = mp.fprod(mp.gamma(n + a) / (mp.gamma(a) * mp.factorial(n)) for n in counts)
            total, all_ = sum(counts), len(counts) * a
            return own * mp.gamma(total) * mp.gamma(all_) / mp.gamma(total + all_)

        ratios = [float(poissonised(each) / dirichlet_multinomial(each)) for each in tables]
    assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-8)


def brute_force(z, kind, scale, *, count=None, size=(24, 44, 40)):
    """Mean, sd and probability of never occurring of each level: sums over everything, on a plain grid."""
    z, levels = np.asarray(z, float), len(z)
    most = 20 * (np.maximum(z, 0).sum() + scale * np.sqrt(levels) + 1)
    n = np.arange(0, int(max(z.max(), 0) + (16 if kind == "laplace" else 7) * scale) + 1)
    weights = [np.exp(-np.abs(v - n) / scale if kind == "laplace" else -((v - n) ** 2) / (2 * scale**2)) for v in z]
    pi = expit(np.linspace(-11, 13, size[2]))
    moments, total = np.zeros((3, levels)), 0.0
    log_alphas = np.log(0.03) + (np.arange(size[0]) + 0.5) / size[0] * np.log(1000)
    means = np.exp(np.linspace(np.log(0.5 / levels) - 10, np.log(most) + 10, size[1]))
    for alpha, mu in itertools.product(np.exp(log_alphas), means):
        occurs = [nbinom.pmf(n, alpha, alpha / (alpha + mu)) * w for w in weights]
        expected = levels * pi * mu
        prior = expected / (expected + 0.5) / (1 + expected / most) * pi * (1 - pi)
        for used in itertools.product([False, True], repeat=levels):
            chosen = [j for j in range(levels) if used[j]]
            if not chosen:
                continue
            share = (prior * pi ** len(chosen) * (1 - pi) ** (levels - len(chosen))).sum()
            share *= np.prod([weights[j][0] for j in range(levels) if not used[j]])
            grid = np.ix_(*[n] * len(chosen))
            joint = share * functools.reduce(np.multiply, np.ix_(*[occurs[j] for j in chosen]))
            records = sum(grid)
            joint = joint if count is None else np.where(records == count, joint, 0.0)
            mass = joint.sum()
            total += mass
            shape = records + alpha * len(chosen)
            for place, j in enumerate(chosen):
                own = grid[place] + alpha
                moments[0, j] += (joint * own / shape).sum()
                moments[1, j] += (joint * own * (own + 1) / (shape * (shape + 1))).sum()
            moments[2] += mass * ~np.array(used)
    mean, square, never = moments / total
    return mean, np.sqrt(square - mean**2), never


CASES = [
    ((5, 0), "laplace", 1.0, None),
    ((3, 1), "gaussian", 1.5, None),
    ((6, -1), "laplace", 1.0, 6),
    ((0, 0), "laplace", 1.0, None),
    ((6, 1, -1), "laplace", 1.0, None),
    ((2, 3, 3), "gaussian", 1.5, 8),
]


@pytest.mark.long
@pytest.mark.parametrize(("z", "kind", "scale", "count"), CASES)
def test_posterior_against_brute_force(z, kind, scale, count):
    """A mixture stands for 16,384 even draws: probabilities are right to a few thousandths."""
    mean, deviation, never = brute_force(z, kind, scale, count=count)
    posterior = sparse_dirichlet(z, noise=LAWS[kind](scale), count=count)
    marginals = [posterior.marginal(index) for index in range(len(z))]
    assert posterior.mean() == pytest.approx(mean, abs=0.005)
    assert np.sqrt(posterior.variance()) == pytest.approx(deviation, abs=0.005)
    assert [each.never for each in marginals] == pytest.approx(never, abs=0.01)
    draws = posterior.draw(np.random.default_rng(0), 20_000)
    assert draws.sum(axis=1) == pytest.approx(np.ones(20_000))
    assert np.abs(draws.mean(axis=0) - mean).max() < 6 * 0.5 / np.sqrt(20_000) + 0.004
    assert (draws == 0).mean(axis=0) == pytest.approx(never, abs=0.025)


@pytest.mark.parametrize("kind", cases(LAWS, quick=["gaussian"]))
def test_hyperparameters_against_a_plain_grid(kind):
    z, scale = np.array([4.0, 0.0, -1.0, 1.0]), 1.5
    most = 20 * (5 + scale * 2 + 1)
    log_alpha = np.log(0.03) + (np.arange(30) + 0.5) / 30 * np.log(1000)
    log_mu, odds = np.linspace(np.log(0.125) - 10, np.log(most) + 10, 70), np.linspace(-12, 13, 60)
    n, pi = np.arange(60), expit(np.linspace(-12, 13, 60))
    weights = [np.exp(-np.abs(v - n) / scale if kind == "laplace" else -((v - n) ** 2) / (2 * scale**2)) for v in z]
    density = np.zeros((30, 70, 60))
    for i, j in itertools.product(range(30), range(70)):
        alpha, mu = np.exp(log_alpha[i]), np.exp(log_mu[j])
        mass, expected = nbinom.pmf(n, alpha, alpha / (alpha + mu)), 4 * pi * mu
        density[i, j] = expected / (expected + 0.5) / (1 + expected / most) * pi * (1 - pi)
        for each in weights:
            density[i, j] *= pi * (mass @ each) + (1 - pi) * each[0]
    density /= density.sum()
    grid = hyperparameters(z, LAWS[kind](scale))
    exact = [density.sum(axis=(1, 2)) @ log_alpha, density.sum(axis=(0, 2)) @ log_mu, density.sum(axis=(0, 1)) @ odds]
    assert grid.weights @ grid.points == pytest.approx(exact, abs=0.02)
    assert grid.heaviest < 0.05


def test_a_marginal_is_a_distribution_with_a_jump_at_0():
    share = sparse_dirichlet([40, 1, 0, -2], noise=Laplace(2.0)).marginal(1)
    assert share.never > 0.1
    assert share.cdf([-1e-9, 0.0, 1.0]) == pytest.approx([0.0, share.never, 1.0])
    p = np.array([0.01, share.never + 0.05, share.never + 0.1, 0.98])
    q = share.quantile(p)
    assert q[0] == 0.0
    assert share.cdf(q[1:]) == pytest.approx(p[1:], abs=1e-9)
    t = np.linspace(-600, 0, 6001)[:-1]  # the density has a pole at 0
    assert np.trapezoid(np.exp(share.log_density(np.exp(t)) + t), t) == pytest.approx(1 - share.never, abs=0.01)
    draws = share.draw(np.random.default_rng(1), 40_000)[:, 0]
    assert draws.mean() == pytest.approx(share.mean(), abs=6 * np.sqrt(share.variance() / 40_000))


def test_public_totals_make_intervals_shorter():
    noisy = [130, 95, 60, 15]
    alone = sparse_dirichlet(noisy, noise=Laplace(6.0))
    known = sparse_dirichlet(noisy, noise=Laplace(6.0), count=300)
    assert known.variance().sum() < alone.variance().sum()


@pytest.mark.long
def test_large_tables_take_other_levels_as_one_number_and_agree(monkeypatch):
    noisy = np.concatenate([[200, 90, 40, 22], np.random.default_rng(3).integers(-6, 7, 36)])
    together = sparse_dirichlet(noisy, noise=Laplace(2.0))
    known = sparse_dirichlet(noisy, noise=Laplace(2.0), count=350)
    pairs = [(together, None), (known, 350)]
    means = [[each.marginal(i).mean() for i in range(5)] for each, _ in pairs]
    ends = [[each.marginal(i).interval(0.9) for i in range(4)] for each, _ in pairs]
    monkeypatch.setattr("vestry.conjugate.sparse_dirichlet.EXPLICIT", 10)
    for (_, count), mean, end in zip(pairs, means, ends, strict=True):
        apart = sparse_dirichlet(noisy, noise=Laplace(2.0), count=count)
        assert [apart.marginal(i).mean() for i in range(5)] == pytest.approx(mean, abs=0.003)
        assert np.array([apart.marginal(i).interval(0.9) for i in range(4)]) == pytest.approx(np.array(end), abs=0.012)
        assert apart.draw(np.random.default_rng(0), 500).mean(axis=0)[:4] == pytest.approx(mean[:4], abs=0.01)


@pytest.mark.long
def test_many_values_share_their_levels_between_neighbours(monkeypatch):
    rng = np.random.default_rng(5)
    noisy = np.concatenate([rng.integers(20, 3000, 300), rng.integers(-15, 16, 200)]).astype(float)
    whole = hyperparameters(noisy, Laplace(5.0))
    monkeypatch.setattr("vestry.conjugate.sparse_dirichlet._VALUES", 100)
    levels = NoisyLevels.of(noisy, Laplace(5.0))
    assert levels.values.size < 260
    assert levels.shares.sum() == pytest.approx(500)
    shared = hyperparameters(noisy, Laplace(5.0))
    assert shared.weights @ shared.points == pytest.approx(whole.weights @ whole.points, abs=0.03)


EXTREME = [
    ([12], None),
    ([-60, -30, -2], None),
    ([5 * 10**8, 10**6, 200, 0], None),
    ([50, 3, 0], 90),
    ([40, 30, 9], 10),
]


@pytest.mark.parametrize(("noisy", "count"), EXTREME)
@pytest.mark.parametrize("kind", LAWS)
def test_extreme_tables_have_a_posterior(noisy, count, kind):
    posterior = sparse_dirichlet(noisy, noise=LAWS[kind](2.0), count=count)
    assert sum(posterior.mean()) == pytest.approx(1, abs=0.01)
    assert posterior.draw(np.random.default_rng(0), 3).sum(axis=1) == pytest.approx(np.ones(3))


def test_the_posterior_is_a_function_of_the_release():
    first, second = (sparse_dirichlet([12, 3, 0, 0, -1], noise=Laplace(2.0)).interval(0.9) for _ in range(2))
    assert first == second
