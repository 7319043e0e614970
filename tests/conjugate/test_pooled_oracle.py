"""Groups that learn from each other, against sums of 40 digits and brute force over all four hyperparameters.

The oracles write the model down again and use nothing of what they check. Golden numbers are those of the model with
flat totals at a = 3, b = 7: zs = 3, zf = 5, Laplace noise of scale 2.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import betabinom, nbinom, norm
from share import cases

from vestry.conjugate.pooled_beta import GroupEvidence, PooledBeta, Populations, pooled_beta
from vestry.conjugate.pooled_gamma import Cells, pooled_gamma
from vestry.conjugate.pooled_normal import pooled_normal
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace

pytestmark = pytest.mark.oracle

LAWS = {"laplace": Laplace, "gaussian": DiscreteGaussian}


def weight(kind, scale, k):
    return (
        mp.exp(-abs(k) / mp.mpf(scale)) if kind == "laplace" else mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(scale) ** 2))
    )


def rising(n, a):
    return mp.gamma(n + a) / (mp.gamma(a) * mp.factorial(n))


def exact_group(zs, zf, kind, scale, a, b, *, shape=None, size=None, reach=None):
    """Evidence and posterior mean of one group, relative to the noise at the counts nearest to z."""
    a, b, reach = mp.mpf(a), mp.mpf(b), reach or (60 if kind == "laplace" else 14) * scale
    total = mean = mp.mpf(0)
    succeed = [rising(s, a) * weight(kind, scale, zs - s) for s in range(int(max(zs, 0) + reach))]
    fail = [rising(f, b) * weight(kind, scale, zf - f) for f in range(int(max(zf, 0) + reach))]
    couple = []
    for n in range(len(succeed) + len(fail)):
        value = 1 / rising(n, a + b)
        if shape is not None:
            r, m = mp.mpf(shape), mp.mpf(size)
            value *= rising(n, r) * (r / (r + m)) ** r * (m / (r + m)) ** n
        couple.append(value)
    for (s, x), (f, y) in itertools.product(enumerate(succeed), enumerate(fail)):
        each = x * y * couple[s + f]
        total += each
        mean += each * (a + s) / (a + b + s + f)
    anchor = weight(kind, scale, zs - max(zs, 0)) * weight(kind, scale, zf - max(zf, 0))
    return total / anchor, mean / total


def one(mean, concentration, shape, size):
    """Return a single population."""
    shape = None if shape is None else np.array([shape])
    return Populations(np.array([mean]), np.array([concentration]), shape, np.array([size]))


def means_of(posterior):
    """Return every group's mean, without draws.

    (a + s)/(k + N) BetaBinomial(s; N, a, b) = (a/k) BetaBinomial(s; N, a + 1, b), so that given the population the
    mean is mu times the ratio of the evidence at a + 1 and at a.
    """
    evidence, found = GroupEvidence(posterior.noisy, posterior.noise), np.zeros(posterior.dimension)
    for place, weight in enumerate(posterior.weights):
        each = posterior.populations.at(np.array([place]))
        k = each.concentration
        more = Populations((each.mean * k + 1) / (k + 1), k + 1, each.shape, each.size)
        found += weight * each.mean * np.exp((evidence.log_evidence(more) - evidence.log_evidence(each))[0])
    return found


def test_golden_numbers_of_one_group():
    population = one(0.3, 10.0, None, 1.0)
    noisy = np.array([[3.0, 5.0]])
    assert GroupEvidence(noisy, Laplace(2.0)).log_likelihood(population)[0] == pytest.approx(0.8917296532, abs=1e-10)
    alone = PooledBeta(noisy, Laplace(2.0), population, np.ones(1))
    assert means_of(alone)[0] == pytest.approx(0.3137291439, abs=1e-10)
    assert alone.group(0).mean() == pytest.approx(0.3137291439, abs=1e-3)


EXACT = [
    (3, 5, "laplace", 2, 3.0, 7.0, None, None),
    (-4, 2, "laplace", 1, 0.05, 0.2, 0.5, 6.0),
    (6, 1, "gaussian", 2, 30.0, 800.0, 8.0, 12.0),
    (4, 9, "gaussian", 3, 6e3, 14e3, 2.0, 15.0),
]


@pytest.mark.parametrize(("zs", "zf", "kind", "scale", "a", "b", "shape", "size"), cases(EXACT, quick=EXACT[1:]))
def test_evidence_of_one_group_to_ten_digits(zs, zf, kind, scale, a, b, shape, size):
    with mp.workdps(30):
        exact, mean = exact_group(zs, zf, kind, scale, a, b, shape=shape, size=size)
    population = one(a / (a + b), a + b, shape, size or 1.0)
    noisy, law = np.array([[zs, zf]], float), LAWS[kind](float(scale))
    assert GroupEvidence(noisy, law).log_likelihood(population)[0] == pytest.approx(float(mp.log(exact)), abs=1e-10)
    assert means_of(PooledBeta(noisy, law, population, np.ones(1)))[0] == pytest.approx(float(mean), abs=1e-10)


@pytest.mark.parametrize("kind", LAWS)
def test_groups_of_many_records_go_through_few_nodes(kind, monkeypatch):
    """The same evidence by a few Gauss nodes and by all counts."""
    noisy = np.array([[150.0, 90.0], [120.0, 8.0], [-2.0, 180.0]])
    numbers = [(0.4, 12.0, 3.0, 180.0), (0.5, 0.7, 1.0, 90.0), (0.5, 3.0, 2.0, 200.0)]
    populations = Populations(*np.array(numbers).T)
    by_counts = GroupEvidence(noisy, LAWS[kind](2.0)).log_evidence(populations)
    monkeypatch.setattr("vestry.conjugate.pooled_beta._DENSE", 0)
    by_nodes = GroupEvidence(noisy, LAWS[kind](2.0)).log_evidence(populations)
    assert by_nodes == pytest.approx(by_counts, rel=1e-4, abs=1e-4)


def brute_force_beta(noisy, kind, scale, *, size):
    """Means of mu, rho, the totals' size and each group's theta: a plain grid in all four directions."""
    rho, mu = ((np.arange(size) + 0.5) / size for _ in range(2))
    log_shape = np.log(0.1) + (np.arange(24) + 0.5) / 24 * np.log(1000)
    most = 20 * (np.maximum(noisy, 0).sum(axis=1).max() + scale + 1)
    log_size = np.linspace(np.log(0.5) - 8, np.log(most) + 8, 60)
    reach = int(noisy.max() + (16 if kind == "laplace" else 7) * scale) + 1
    n = np.arange(reach)
    totals = np.arange(2 * reach - 1)
    sizes = np.exp(log_size)
    prior = sizes / (sizes + 0.5) / (1 + sizes / most)
    spread = np.stack([nbinom.pmf(totals, r, r / (r + m)) for r in np.exp(log_shape) for m in sizes], axis=1)
    likelihood = np.ones((size * size, spread.shape[1])) * np.tile(prior, log_shape.size)
    ratios = []
    for z in noisy:
        w = [np.exp(-np.abs(v - n) / scale if kind == "laplace" else -((v - n) ** 2) / (2 * scale**2)) for v in z]
        noise = np.outer(*w)
        by_total = np.zeros((2, size * size, totals.size))
        for row, (m, r) in enumerate(itertools.product(mu, rho)):
            k = (1 - r) / r
            s, f = np.meshgrid(n, n, indexing="ij")
            cells = betabinom.pmf(s, s + f, m * k, (1 - m) * k) * noise
            means = cells * (m * k + s) / (k + s + f)
            by_total[0, row] = np.bincount((s + f).ravel(), cells.ravel(), totals.size)
            by_total[1, row] = np.bincount((s + f).ravel(), means.ravel(), totals.size)
        evidence = by_total[0] @ spread
        with np.errstate(invalid="ignore"):
            ratios.append(np.nan_to_num(by_total[1] @ spread / evidence))
        likelihood *= evidence
    likelihood /= likelihood.sum()
    over = likelihood.sum(axis=1).reshape(size, size)
    return over.sum(axis=1) @ mu, over.sum(axis=0) @ rho, [float((likelihood * ratio).sum()) for ratio in ratios]


@pytest.mark.long
@pytest.mark.parametrize("kind", LAWS)
def test_pooled_proportions_against_brute_force(kind):
    noisy = np.array([[2.0, 5.0], [4.0, 1.0], [0.0, -1.0]])
    mean, rho, thetas = brute_force_beta(noisy, kind, 1.0, size=32)
    posterior = pooled_beta(noisy[:, 0], noisy[:, 1], noise=LAWS[kind](1.0))
    population = posterior.population()
    assert population["weight"] @ population["mean"] == pytest.approx(mean, abs=0.005)
    assert population["weight"] @ population["rho"] == pytest.approx(rho, abs=0.01)
    assert means_of(posterior) == pytest.approx(thetas, abs=0.005)
    assert [posterior.group(i).mean() for i in range(3)] == pytest.approx(thetas, abs=0.01)
    assert posterior.weights.max() < 0.05


@pytest.mark.long
def test_groups_learn_from_each_other_and_depend_on_each_other():
    rng = np.random.default_rng(0)
    posterior = pooled_beta([6, 0, 3, 4, 9], [20, 2, 9, 11, 18], noise=Laplace(2.0))
    draws = posterior.draw(rng, 20_000)
    means = means_of(posterior)
    deviation = draws.std(axis=0)
    assert np.abs(draws.mean(axis=0) - means).max() < 6 * deviation.max() / np.sqrt(20_000) + 0.004
    assert np.corrcoef(draws[:, 1], draws[:, 2])[0, 1] > 0.05
    difference = draws[:, 4] - draws[:, 0]
    assert difference.std() < np.hypot(deviation[4], deviation[0])


@pytest.mark.parametrize("noise", [Laplace(2.0), DiscreteGaussian(2.0)])
@pytest.mark.long
def test_a_group_whose_numbers_are_exact_is_a_mixture_over_the_population(noise):
    posterior = pooled_beta([6, 0, 3], [20, 2, 9], noise=noise)
    nodes = posterior.population()
    mean = (nodes["mean"] * nodes["concentration"] + 4) / (nodes["concentration"] + 10)
    assert posterior.member(4, 6).mean() == pytest.approx(nodes["weight"] @ mean)
    assert posterior.member(0, 0).mean() == pytest.approx(nodes["weight"] @ nodes["mean"])


# Rates


def exact_rate(z, exposure, scale, k, mean):
    """Evidence and mean of the rate of one group."""
    k, m = mp.mpf(k), mp.mpf(mean) * exposure
    total = first = mp.mpf(0)
    for s in range(int(max(z, 0) + 60 * scale)):
        each = rising(s, k) * (k / (k + m)) ** k * (m / (k + m)) ** s * weight("laplace", scale, z - s)
        total += each
        first += each * (k + s) / (k / mp.mpf(mean) + exposure)
    return total / weight("laplace", scale, z - max(z, 0)), first / total


@pytest.mark.parametrize(("z", "exposure"), [(7, 3.0), (-3, 0.5), (60, 10.0)])
def test_evidence_of_a_rate_to_ten_digits(z, exposure):
    with mp.workdps(30):
        exact, _ = exact_rate(z, exposure, 2, 1.7, 2.5)
    cells = Cells.of(np.array([float(z)]), np.array([exposure]), Laplace(2.0), None)
    assert cells.log_evidence(1.7, 2.5)[0] == pytest.approx(float(mp.log(exact)), rel=1e-10)


@pytest.mark.long
def test_pooled_rates_against_a_plain_grid():
    z, exposures = np.array([4, 9, -1, 2]), np.array([2.0, 3.0, 1.0, 4.0])
    u = (np.arange(60) + 0.5) / 60
    events = 15 + 1.5 + 1
    log_mean = np.log(events / 10) + np.linspace(-9, 9, 120)
    n, density = np.arange(60), np.empty((60, 120))
    for i, j in itertools.product(range(60), range(120)):
        k, m = (1 - u[i]) / u[i], np.exp(log_mean[j])
        expected = 10 * m
        density[i, j] = expected / (expected + 0.5) / (1 + expected / (20 * events))
        for value, e in zip(z, exposures, strict=True):
            density[i, j] *= nbinom.pmf(n, k, k / (k + e * m)) @ np.exp(-np.abs(value - n) / 1.5)
    density /= density.sum()
    posterior = pooled_gamma(z, exposures, noise=Laplace(1.5))
    population = posterior.population()
    exact = density.sum(axis=0) @ log_mean, density.sum(axis=1) @ u
    found = population["weight"] @ np.log(population["mean"]), population["weight"] @ (1 / (1 + population["shape"]))
    assert found == pytest.approx(exact, abs=0.01)


@pytest.mark.long
def test_noisy_exposures_widen_a_rate():
    z, exposures = [12, 3, 7, 9], [10, 4, 8, 6]
    known = pooled_gamma(z, exposures, noise=Laplace(1.0))
    unknown = pooled_gamma(z, exposures, noise=Laplace(1.0), exposure_noise=Laplace(1.0))
    assert unknown.group(1).variance() > known.group(1).variance()


# Means


def test_pooled_means_with_gaussian_noise_against_the_closed_form():
    """Given t the noisy means are normal and mu is integrated by hand: one dimension is left."""
    counts, variance, scale = np.array([5.0, 12.0, 30.0, 8.0]), 4.0, 6.0
    sums = np.array([30.0, 50.0, 140.0, 55.0])
    t = (np.arange(4000) + 0.5) / 4000 * 20
    own = sums / counts
    v = variance / counts + scale**2 / counts**2 + t[:, None] ** 2
    precision = (1 / v).sum(axis=1)
    centre = (own / v).sum(axis=1) / precision
    logs = -0.5 * (np.log(v).sum(axis=1) + np.log(precision) + ((own - centre[:, None]) ** 2 / v).sum(axis=1))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    shrink = t[:, None] ** 2 / v
    exact = weights @ (shrink * own + (1 - shrink) * centre[:, None])
    posterior = pooled_normal(sums, counts, variance=variance, interval=(-5.0, 15.0), noise=DiscreteGaussian(scale))
    population = posterior.population()
    assert population["weight"] @ population["mean"] == pytest.approx(weights @ centre, abs=0.01)
    assert population["weight"] @ population["spread"] == pytest.approx(weights @ t, rel=0.02)
    assert [posterior.group(i).mean() for i in range(4)] == pytest.approx(exact, abs=0.03)


def test_evidence_of_a_mean_with_laplace_noise():
    """Normal plus Laplace, against quadrature."""
    sums, counts, scale = np.array([31.0]), np.array([5.0]), 3.0
    data = pooled_normal(sums, counts, variance=4.0, interval=(0.0, 10.0), noise=Laplace(scale)).data
    spread = np.sqrt(25 * 0.49 + 5 * 4.0)
    with mp.workdps(30):
        exact = mp.quad(
            lambda x: mp.npdf(x, 25, mp.mpf(spread)) * mp.exp(-abs(31 - x) / mp.mpf(scale)) / (2 * mp.mpf(scale)),
            [-200, 0, 25, 31, 60, 250],
        )
    assert data.log_evidence(5.0, 0.7)[0] == pytest.approx(float(mp.log(exact)), abs=1e-10)


def test_a_mean_with_laplace_noise_against_quadrature():
    """One node: theta's mean by two integrals."""
    posterior = pooled_normal([31.0], [5.0], variance=4.0, interval=(0.0, 10.0), noise=Laplace(3.0))
    one = type(posterior)(posterior.data, np.array([5.0]), np.array([0.7]), np.ones(1))
    theta, total = np.linspace(0, 10, 801), np.linspace(-60, 120, 1801)
    density = norm.pdf(theta, 5, 0.7) * (
        norm.pdf(total, 5 * theta[:, None], np.sqrt(20)) * np.exp(-np.abs(31 - total) / 3)
    ).sum(axis=1)
    exact = (density * theta).sum() / density.sum()
    assert one.group(0).mean() == pytest.approx(exact, abs=2e-3)
    assert one.group(0).variance() == pytest.approx((density * (theta - exact) ** 2).sum() / density.sum(), rel=0.02)


@pytest.mark.long
def test_population_nodes_are_light():
    posterior = pooled_beta([5] * 30, [15] * 30, noise=Laplace(2.0))  # groups that are all alike
    assert posterior.weights.max() < 0.05
