"""The posterior given a noisy Gram matrix: the published numbers of (1), and quadrature that shares no code with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import chi2, multivariate_normal, norm

from vestry.regression.gram_sampler import GramDraws, GramTarget, sample_gram
from vestry.regression.released_gram import CoefficientMixture, DeltaFit, ReleasedGram, delta_posterior

pytestmark = pytest.mark.oracle


def noisy(matrix, deviation: float, count: float, *, private: bool = False, laplace: bool = False) -> ReleasedGram:
    """Each entry of the upper triangle is a statistic of its own; the first is the count."""
    rows, columns = np.triu_indices(len(matrix))
    places = [(k, i, j) for k, (i, j) in enumerate(zip(rows, columns, strict=True)) if k or private]
    first = places[0][0]
    every = [(k - first, i, j) for k, i, j in places] + [(k - first, j, i) for k, i, j in places if i != j]
    statistic, row, column = (np.array(each) for each in zip(*every, strict=True))
    return ReleasedGram(
        np.array(matrix, float), statistic, row, column, deviation, count, private=private, laplace=laplace
    )


def moments(mixture: CoefficientMixture) -> tuple[np.ndarray, np.ndarray]:
    mean = mixture.weights @ mixture.means
    inside = np.einsum("nii->ni", mixture.covariances)
    return mean, np.sqrt(mixture.weights @ (inside + (mixture.means - mean) ** 2))


S = np.array([[10.0, 2, -1], [2, 6, 1], [-1, 1, 4]])
U, W, N, S2 = np.array([3.0, -1, 2]), 5.0, 10, 0.5


def test_the_identity_has_its_published_numbers():
    """What the sampler's draws become, and the two densities that its target is made of."""
    r = W - U @ np.linalg.solve(S, U)
    assert r == pytest.approx(1.7254901961, abs=1e-10)
    assert multivariate_normal(np.zeros(3), S2 * S + S @ S).logpdf(U) == pytest.approx(-8.6161819754, abs=1e-10)
    assert chi2(N - 3).logpdf(r / S2) - math.log(S2) == pytest.approx(-1.5626858440, abs=1e-10)
    mixture = GramDraws(S[None], U[None], np.array([S2]), np.array([10.0])).mixture(1.0)
    mean, sd = moments(mixture)
    assert mean == pytest.approx([0.4167832168, -0.3776223776, 0.6209790210], abs=1e-10)
    assert sd == pytest.approx([0.2295226627, 0.2936785424, 0.3461408959], abs=1e-10)


def test_without_noise_the_closed_form_is_the_identity():
    """At each residual sd the delta posterior is that of (1), and its weights are p(u, w | s2)."""
    fit = DeltaFit.of(noisy(np.block([[S, U[:, None]], [U[None], np.array([[W]])]]), 1e-7, N))
    mixture = delta_posterior(fit, 1.0)
    near = int(np.argmin(np.abs(mixture.sigma**2 - S2)))
    s2 = mixture.sigma[near] ** 2
    v = np.linalg.inv(S / s2 + np.eye(3))
    assert mixture.means[near] == pytest.approx(v @ U / s2, abs=1e-9)
    assert mixture.covariances[near] == pytest.approx(v, abs=1e-9)
    sigma = np.array([0.4, 0.6, math.sqrt(S2)])
    r = W - U @ np.linalg.solve(S, U)
    expected = [
        multivariate_normal(np.zeros(3), s * s * S + S @ S).logpdf(U) + chi2(7).logpdf(r / s**2) - 2 * math.log(s)
        for s in sigma
    ]
    found = fit.log_weight(sigma, np.ones(3))
    # theta^ = S^-1 u: the two densities differ by log |S|.
    assert found - np.linalg.slogdet(S)[1] == pytest.approx(expected, abs=1e-5)


def test_a_broken_target_is_not_the_gradient_of_itself():
    target = GramTarget(noisy([[200.0, 20, 10], [20, 60, 30], [10, 30, 40]], 9.0, 200.0, private=True), 0.5)
    x = target.start()[None] + np.random.default_rng(2).normal(0, 0.2, (3, target.dimension))
    _, gradient = target(x)
    for place in range(target.dimension):
        step = np.zeros(target.dimension)
        step[place] = 1e-6
        slope = (target(x + step)[0] - target(x - step)[0]) / 2e-6
        assert gradient[:, place] == pytest.approx(slope, rel=1e-5, abs=1e-5)


# Quadrature. r is integrated on its own: p(Z_w | u, S, s2) depends on Z_w - u'S^-1 u and s2 alone.


def residual_table(gaps: np.ndarray, s2: np.ndarray, freedom: float, sd: float) -> np.ndarray:
    """Return p(Z_w - u'S^-1 u = gap | s2), (gaps, s2)."""
    r = np.linspace(1e-9, 1, 601)[None, :] * (freedom + 12 * math.sqrt(2 * freedom)) * s2[:, None]
    density = np.exp((freedom / 2 - 1) * np.log(r / s2[:, None]) - r / (2 * s2[:, None]) - gammaln(freedom / 2))
    weights = density / s2[:, None] / 2 ** (freedom / 2) * (r[:, 1] - r[:, 0])[:, None]
    return np.stack([(norm.pdf(gap - r, scale=sd) * weights).sum(axis=1) for gap in gaps])


def summarise(theta_mean: np.ndarray, theta_var: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    weights = weights / weights.sum()
    mean = float((weights * theta_mean).sum())
    return mean, math.sqrt(float((weights * (theta_var + (theta_mean - mean) ** 2)).sum()))


def by_quadrature_1(z_u: float, z_w: float, n: int, sd: float, tau2: float) -> tuple[float, float]:
    """Return mean and sd of the one coefficient, the intercept."""
    sigma = np.linspace(0.005, 1.2, 120)
    s2 = sigma**2
    u = np.linspace(z_u - 7 * sd, z_u + 7 * sd, 200)[:, None]
    gaps = np.linspace(z_w - (abs(z_u) + 7 * sd) ** 2 / n, z_w, 160)
    table = residual_table(gaps, s2, n - 1, sd)
    inner = np.stack([np.interp(z_w - u[:, 0] ** 2 / n, gaps, table[:, k]) for k in range(len(s2))], axis=1)
    weights = inner * norm.pdf(u, 0, np.sqrt(s2 * n + tau2 * n * n)) * norm.pdf(z_u, u, sd)
    v = 1 / (n / s2 + 1 / tau2)
    return summarise(v * u / s2, np.broadcast_to(v, weights.shape), weights)


def agrees(found: tuple[np.ndarray, np.ndarray], place: int, expected: tuple[float, float], share: float) -> None:
    assert found[0][place] == pytest.approx(expected[0], abs=share * expected[1])
    assert found[1][place] == pytest.approx(expected[1], rel=share)


@pytest.mark.long
def test_one_coefficient_against_quadrature():
    """1,600 draws of a chain: its error is below 3 % of the spread, and 15 % is five times that."""
    z_u, z_w, n, sd, tau2 = 14.0, 9.0, 60, 8.0, 0.25
    draws = sample_gram(noisy([[n, z_u], [z_u, z_w]], sd, n), tau2, np.random.default_rng(5))
    agrees(moments(draws.mixture(tau2)), 0, by_quadrature_1(z_u, z_w, n, sd, tau2), 0.15)


@pytest.mark.long
def test_one_coefficient_in_closed_form_against_quadrature():
    for z_u, z_w, n, sd in ((14.0, 9.0, 60, 1.0), (140.0, 90.0, 600, 10.0)):
        fit = DeltaFit.of(noisy([[n, z_u], [z_u, z_w]], sd, n))
        agrees(moments(delta_posterior(fit, 0.25)), 0, by_quadrature_1(z_u, z_w, n, sd, 0.25), 0.05)


def by_quadrature_2(z: np.ndarray, n: int, sd: float, tau2: float) -> list[tuple[float, float]]:
    """Return mean and sd of intercept and slope: over the mean and mean square of x, u and the residual sd.

    The prior of the Gram matrix is flat in the mean square m of x and, given it, in the correlation of x with 1.
    """
    sigma = (np.arange(24) + 0.5) / 24 * 0.8
    s2 = sigma**2
    m = (np.arange(28) + 0.5) / 28
    cor = -1 + 2 * (np.arange(41) + 0.5) / 41
    u0, u1 = (z[k, 2] + np.linspace(-4.5, 4.5, 25) * sd for k in (0, 1))
    gaps = np.linspace(z[2, 2] - n, z[2, 2], 200)
    table = residual_table(gaps, s2, n - 2, sd)
    found, weights = [], []
    for mm in m:
        for c in cor:
            s = n * np.array([[1.0, c * math.sqrt(mm)], [c * math.sqrt(mm), mm]])
            noise = norm.pdf(z[0, 1], s[0, 1], sd) * norm.pdf(z[1, 1], s[1, 1], sd)
            if noise < 1e-12 / sd**2:
                continue
            a, b = np.meshgrid(u0, u1, indexing="ij")
            points = np.stack([a.ravel(), b.ravel()], axis=1)
            quadratic = np.einsum("ni,ij,nj->n", points, np.linalg.inv(s), points)
            of_u = norm.pdf(points[:, 0], z[0, 2], sd) * norm.pdf(points[:, 1], z[1, 2], sd) * noise
            for k, each in enumerate(s2):
                w = of_u * multivariate_normal(np.zeros(2), each * s + tau2 * s @ s).pdf(points)
                w = w * np.interp(z[2, 2] - quadratic, gaps, table[:, k], left=0.0) * (quadratic < n)
                v = np.linalg.inv(s / each + np.eye(2) / tau2)
                mean = points @ v / each
                total = w.sum()
                centre = w @ mean / max(total, 1e-300)
                spread = np.diag(v) + w @ (mean - centre) ** 2 / max(total, 1e-300)
                found.append((centre, spread))
                weights.append(total)
    means, spreads = np.array([each[0] for each in found]), np.array([each[1] for each in found])
    return [summarise(means[:, k], spreads[:, k], np.array(weights)) for k in (0, 1)]


@pytest.mark.slow
def test_two_coefficients_against_quadrature():
    z, n, sd, tau2 = np.array([[80.0, 9, 12], [9, 22, 13], [12, 13, 14.0]]), 80, 7.0, 0.25
    draws = sample_gram(noisy(z, sd, n), tau2, np.random.default_rng(6))
    found, expected = moments(draws.mixture(tau2)), by_quadrature_2(z, n, sd, tau2)
    for place in (0, 1):
        agrees(found, place, expected[place], 0.15)


@pytest.mark.parametrize("count", [10**4, 10**7, 10**9, 10**12])
def test_the_residual_spread_is_found_however_many_records_there_are(count):
    """Its posterior is narrower than any fixed grid: by large-sample theory N(sd, sd^2/(2 n))."""
    sd, slope = 0.25, 0.5
    gram = [[count, 0.0, 0.1 * count], [0.0, count / 3, slope * count / 3]]
    squares = count * (0.1**2 + slope**2 / 3 + sd**2)
    matrix = np.array([*gram, [0.1 * count, slope * count / 3, squares]])
    mixture = delta_posterior(DeltaFit.of(noisy(matrix, 1e-3, count)), 1.0)
    mean = mixture.weights @ mixture.sigma
    spread = math.sqrt(mixture.weights @ (mixture.sigma - mean) ** 2)
    expected = sd / math.sqrt(2 * count)
    assert mean == pytest.approx(sd, abs=3 * expected)
    assert spread == pytest.approx(expected, rel=0.02)
