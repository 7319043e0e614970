"""Posteriors against brute force that shares no code with them: explicit likelihoods, summed and integrated."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from frozen import frozen
from numpy.polynomial.legendre import leggauss
from rounded_law import exact_mass, rounded_log_mass
from scipy.stats import chi2
from share import cases

from vestry.conjugate import beta_bernoulli, dirichlet_posterior, normal_posterior
from vestry.posterior.counts_given_total import Measure, split, tree
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian, lattice, log_ratio, thin
from vestry.posterior.mixture import BetaMixture, DirichletMixture, NormalMixture

pytestmark = pytest.mark.oracle

LAWS = {
    "laplace-1": Laplace(1.0),
    "laplace-6": Laplace(6.0),
    "gaussian-2": DiscreteGaussian(2.0),
    "gaussian-0.7": DiscreteGaussian(0.7),
    "rounded-1.6": RoundedGaussian(1.6),
}
KINDS = {"Laplace": Laplace, "DiscreteGaussian": DiscreteGaussian, "RoundedGaussian": RoundedGaussian}
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def noise(law, k):
    """The unnormalised noise mass, written out."""
    return np.exp(log_noise(law, k))


def log_noise(law, k):
    if isinstance(law, RoundedGaussian):
        return rounded_log_mass(law.scale, k)
    return -np.abs(k) / law.scale if isinstance(law, Laplace) else -(k**2) / (2 * law.scale**2)


def mp_noise(law, k):
    if isinstance(law, RoundedGaussian):
        return exact_mass(law.scale, k)
    return (
        mp.exp(-mp.mpf(abs(k)) / law.scale)
        if isinstance(law, Laplace)
        else mp.exp(-(mp.mpf(k) ** 2) / 2 / law.scale**2)
    )


# Beta, count public: quadrature over theta of prior x sum over s of binomial x noise


@frozen(float)
def beta_public_count(kind, scale, z, a, b):
    """Return mean, variance, distribution function and log-density of a posterior of 7 records."""
    n, law = 7, KINDS[kind](scale)

    def density(t):
        return sum(w * t ** (s + a - 1) * (1 - t) ** (n - s + b - 1) for s, w in enumerate(weights))

    with mp.workdps(25):
        weights = [mp.binomial(n, s) * mp_noise(law, z - s) for s in range(n + 1)]
        total = mp.quad(density, [0, 0.1, 0.5, 1])
        mean = mp.quad(lambda t: t * density(t), [0, 0.1, 0.5, 1]) / total
        square = mp.quad(lambda t: t * t * density(t), [0, 0.1, 0.5, 1]) / total
        below = [mp.quad(density, [0, x / 4, x]) / total for x in (0.05, 0.3, 0.6, 0.95)]
        logs = [mp.log(density(mp.mpf(t)) / total) for t in (0.2, 0.7)]
        return [float(mean), float(square - mean**2), [float(x) for x in below], [float(x) for x in logs]]


@pytest.mark.frozen
@each_law
@pytest.mark.parametrize("z", [3, -4, 12, 0])
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 3.0), (6.0, 12.0)], ids=str)
def test_beta_public_count(law, z, prior):
    a, b = prior
    mean, variance, below, logs = beta_public_count(type(law).__name__, law.scale, z, a, b)
    found = beta_bernoulli.public_count(z, count=7, alpha=a, beta=b, noise=law)
    assert found.mean() == pytest.approx(mean, rel=1e-12)
    assert found.variance() == pytest.approx(variance, rel=1e-11)
    assert found.cdf([0.05, 0.3, 0.6, 0.95]) == pytest.approx(below, rel=1e-11)
    assert found.log_density([0.2, 0.7]) == pytest.approx(logs, abs=1e-11)


@pytest.mark.parametrize("n", [300, 5000])
@pytest.mark.parametrize(
    "law", [Laplace(0.3), Laplace(15), Laplace(150), DiscreteGaussian(4), RoundedGaussian(100)], ids=str
)
@pytest.mark.parametrize("prior", [(1, 1), (0.01, 3), (0.3, 0.2), (300, 2)], ids=str)
@pytest.mark.parametrize("where", [-3.0, 0.0, 0.31, 1.0, 2.5])
def test_beta_window_keeps_the_whole_sum(n, law, prior, where):
    """The windowed and thinned sum against the whole one, also where z lies far outside [0, n]."""
    (a, b), z = prior, round(where * n)
    s = np.arange(n + 1.0)
    lgamma = np.vectorize(math.lgamma)
    logs = lgamma(a + s) - lgamma(s + 1) + lgamma(b + n - s) - lgamma(n - s + 1)
    logs += log_noise(law, z - s)
    weights = np.exp(logs - logs.max())
    whole = BetaMixture(weights / weights.sum(), a + s, b + n - s)
    found = beta_bernoulli.public_count(z, count=n, alpha=a, beta=b, noise=law)
    x = np.clip(whole.mean() + np.sqrt(whole.variance()) * np.array([-2, -1, 0, 1, 2]), 1e-6, 1 - 1e-6)
    # log-gammas of 5,000 written out lose 1e-11; the sum under test does not.
    assert found.cdf(x) == pytest.approx(whole.cdf(x), abs=2e-11)
    assert found.mean() == pytest.approx(whole.mean(), rel=1e-10)


def test_beta_window_reaches_a_prior_that_favours_zero():
    """Under Beta(1e-13, 3) no success at all has weight 1e-5, though z lies 45 scales above 0."""
    n, z, law, a, b = 5000, 900, Laplace(20), 1e-13, 3.0
    s = np.arange(n + 1.0)
    lgamma = np.vectorize(math.lgamma)
    logs = lgamma(a + s) - lgamma(s + 1) + lgamma(b + n - s) - lgamma(n - s + 1) - np.abs(z - s) / law.scale
    weights = np.exp(logs - logs.max())
    found = beta_bernoulli.public_count(z, count=n, alpha=a, beta=b, noise=law)
    assert weights[0] / weights.sum() > 1e-6
    assert found.weights[0] == pytest.approx(weights[0] / weights.sum(), rel=1e-9)
    assert found.alphas[0] == a


def test_beta_with_a_uniform_prior_has_a_closed_form_at_a_billion():
    """Under Beta(1, 1) every count is equally likely, so s is z plus the noise, whose moments are known."""
    n, z, scale = 10**9, 3 * 10**8, 10.0
    q = math.exp(-1 / scale)
    spread = 2 * q / (1 - q) ** 2  # variance of the discrete Laplace law
    found = beta_bernoulli.public_count(z, count=n, alpha=1, beta=1, noise=Laplace(scale))
    assert found.mean() == pytest.approx((z + 1) / (n + 2), rel=1e-14)
    product = (z + 1) * (n - z + 1) - spread  # E[(s + 1)(n - s + 1)]
    assert found.variance() == pytest.approx(product / (n + 2) ** 2 / (n + 3) + spread / (n + 2) ** 2, rel=1e-12)


# Beta, count private


@each_law
@pytest.mark.parametrize("z", [(3, 5), (-6, 2), (0, 0), (20, 1)], ids=str)
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 0.5), (6.0, 12.0)], ids=str)
def test_beta_private_count(law, z, prior):
    """Prior x sum over s, f of C(s + f, s) theta^s (1 - theta)^f x both noises, uniform in s + f."""
    a, b = prior
    top = 260 if law.scale == 6 and isinstance(law, Laplace) else 80
    s = np.arange(top + 1.0)
    choose = np.vectorize(math.lgamma)
    # In logarithms: the binomials overflow.
    table = choose(s[:, None] + s + 1) - choose(s + 1)[:, None] - choose(s + 1)
    weight = noise(law, z[0] - s)[:, None] * noise(law, z[1] - s)

    def likelihood(t):
        return float((np.exp(table + np.log(t) * s[:, None] + np.log1p(-t) * s) * weight).sum())

    def integral(low, high):
        # t = sin^2 takes the singular ends away.
        x, w = leggauss(60)
        angle = low + (high - low) * (x + 1) / 2
        t = np.sin(angle) ** 2
        jacobian = 2 * np.sin(angle) ** (2 * a - 1) * np.cos(angle) ** (2 * b - 1)
        return (high - low) / 2 * sum(wi * j * likelihood(ti) for wi, j, ti in zip(w, jacobian, t, strict=True))

    cut = np.arcsin(np.sqrt([0.1, 0.35, 0.8]))
    pieces = [integral(low, high) for low, high in itertools.pairwise([0, *cut, math.pi / 2])]
    found = beta_bernoulli.private_count(*z, alpha=a, beta=b, noise=law)
    assert found.cdf([0.1, 0.35, 0.8]) == pytest.approx(np.cumsum(pieces)[:3] / sum(pieces), abs=3e-9)


@pytest.mark.long
@pytest.mark.parametrize("law", [Laplace(100), Laplace(1000)], ids=str)
def test_beta_private_count_with_nothing_seen_is_uniform(law):
    """With z = (0, 0) and Beta(1, 1), theta is uniform given every n, so it is uniform, however wide the noise."""
    found = beta_bernoulli.private_count(0, 0, alpha=1, beta=1, noise=law)
    x = np.linspace(0.02, 0.98, 9)
    assert found.cdf(x) == pytest.approx(x, abs=1e-9)


# Dirichlet


def compositions(n, d):
    for cut in itertools.combinations(range(n + d - 1), d - 1):
        ends = (-1, *cut, n + d - 1)
        yield tuple(high - low - 1 for low, high in itertools.pairwise(ends))


def multinomial(s):
    return math.factorial(sum(s)) / math.prod(math.factorial(each) for each in s)


def simplex_cdf(density, axis, x, nodes=48):
    """P(theta_axis <= x) for d = 3 by a product rule that is exact for polynomials."""

    def mass(top):
        u, w = leggauss(nodes)
        u, w = (u + 1) / 2, w / 2
        first = top * u[:, None] + 0 * u
        second = (1 - first) * u
        theta = np.stack([first, second, 1 - first - second], axis=-1)
        theta = np.roll(theta, axis, axis=-1)
        return float((top * w[:, None] * w * (1 - first) * density(theta)).sum())

    return mass(x) / mass(1.0)


@each_law
@pytest.mark.parametrize("z", [(2, 3, 1), (-5, 9, 2), (7, 7, 7), (-8, -9, -8)], ids=str)
@pytest.mark.parametrize("prior", [(1, 1, 1), (2, 1, 4)], ids=str)
def test_dirichlet_public_count(law, z, prior):
    n = 6
    cells = list(compositions(n, 3))
    weights = [
        multinomial(s) * math.prod(float(noise(law, zi - si)) for zi, si in zip(z, s, strict=True)) for s in cells
    ]

    def density(theta):
        powers = np.array(cells) + np.array(prior) - 1
        return sum(w * np.prod(theta**p, axis=-1) for w, p in zip(weights, powers, strict=True))

    found = dirichlet_posterior.public_count(np.array(z, float), count=n, alphas=np.array(prior, float), noise=law)
    for axis in range(3):
        for x in (0.1, 0.4, 0.8):
            assert float(found.marginal(axis).cdf(x)) == pytest.approx(simplex_cdf(density, axis, x), abs=1e-11)


@pytest.mark.parametrize("law", [Laplace(1.0), DiscreteGaussian(2.0), RoundedGaussian(0.8)], ids=str)
@pytest.mark.parametrize(
    ("z", "prior"), [((2, 3, 1), (1, 1, 1)), ((-2, 6, 0), (2, 1, 4)), ((0, 0, 0), (1, 2, 1))], ids=str
)
@pytest.mark.long
def test_dirichlet_private_count(law, z, prior):
    """The sampled posterior against the whole sum: its stated accuracy is about 0.002."""
    top = 28
    cells = np.array(list(itertools.product(range(top + 1), repeat=3)), float)
    lgamma = np.vectorize(math.lgamma)
    logs = lgamma(cells.sum(axis=1) + 1) - lgamma(cells.sum(axis=1) + sum(prior))
    logs += (lgamma(cells + np.array(prior)) - lgamma(cells + 1)).sum(axis=1)
    weights = np.exp(logs) * noise(law, np.array(z) - cells).prod(axis=1)
    large = weights > 1e-9 * weights.sum()
    whole = DirichletMixture(weights[large] / weights[large].sum(), cells[large] + np.array(prior, float))
    found = dirichlet_posterior.private_count(np.array(z, float), alphas=np.array(prior, float), noise=law)
    for axis in range(3):
        x = np.array([0.05, 0.2, 0.4, 0.7])
        assert found.marginal(axis).cdf(x) == pytest.approx(whole.marginal(axis).cdf(x), abs=5e-3)
    assert found.mean() == pytest.approx(whole.mean(), abs=2e-3)
    joint = [law.draw(np.random.default_rng(5), 40_000) for law in (found, whole)]
    products = [(each[:, 0] * each[:, 1]).mean() for each in joint]
    assert products[0] == pytest.approx(products[1], rel=0.03)


@pytest.mark.long
def test_dirichlet_private_count_agrees_with_the_exact_sum_of_two_counts():
    """Two categories have an exact sum of their own; the sampler for many must agree with it."""
    for z, prior, law in [
        ((30, 70), (1, 1), Laplace(10)),
        ((-5, 3), (0.5, 0.5), Laplace(10)),
        ((30, 70), (200, 100), Laplace(10)),
        ((3000, 70), (6, 12), DiscreteGaussian(30)),
    ]:
        exact = beta_bernoulli.private_count(*z, alpha=prior[0], beta=prior[1], noise=law)
        found = dirichlet_posterior.private_count(
            np.array(z, float), alphas=np.array(prior, float), noise=law
        ).marginal(0)
        x = exact.quantile([0.05, 0.3, 0.5, 0.7, 0.95])
        assert found.cdf(x) == pytest.approx([0.05, 0.3, 0.5, 0.7, 0.95], abs=6e-3)


def test_dirichlet_steps_do_not_show(monkeypatch):
    """With too many counts to hold, those of the other categories are taken in steps; intervals barely move."""
    z, alphas = np.array([40.0, 310, -20, 75, 600]), np.array([1, 1, 0.5, 2, 1.0])
    exact = dirichlet_posterior.public_count(z, count=1000, alphas=alphas, noise=Laplace(40))
    monkeypatch.setattr(dirichlet_posterior, "_TABLE", 1600)
    coarse = dirichlet_posterior.public_count(z, count=1000, alphas=alphas, noise=Laplace(40))
    assert coarse.tables.step == 4
    for i in range(5):
        x = exact.marginal(i).quantile([0.05, 0.5, 0.95])
        assert coarse.marginal(i).cdf(x) == pytest.approx([0.05, 0.5, 0.95], abs=5e-4)


def test_counts_given_their_sum_are_drawn_from_their_law():
    """Chi-squared over all joint counts, false-alarm rate 1e-7; a law twice as wide is rejected."""
    rng = np.random.default_rng(11)
    laws = [
        Measure(0, np.array([5.0, 3, 1, 1])),
        Measure(1, np.array([1.0, 4, 1])),
        Measure(0, np.array([1.0, 0, 2, 7])),
    ]
    total, size = 6, 40_000
    cells = [s for s in itertools.product(range(4), range(1, 4), range(4)) if sum(s) == total]
    mass = np.array([math.prod(law.table[x - law.start] for law, x in zip(laws, s, strict=True)) for s in cells])
    drawn = split(tree(laws), np.full(size, total), rng)
    places = {s: k for k, s in enumerate(cells)}
    seen = np.bincount([places[tuple(map(int, row))] for row in drawn], minlength=len(cells))
    possible = mass > 0
    assert seen[~possible].sum() == 0

    def statistic(expected):
        return ((seen[possible] - expected) ** 2 / expected).sum()

    limit = chi2.isf(1e-7, possible.sum() - 1)
    assert statistic(size * mass[possible] / mass.sum()) < limit
    flat = np.sqrt(mass[possible])
    assert statistic(size * flat / flat.sum()) > limit


# Normal mean


def normal_law(y, n, model, b, *, laplace, counts=None):
    """Return the distribution function of theta by quadrature: prior x integral over the sum of normal x noise."""

    def likelihood(theta, n):
        # The exact sum S, panel by panel about y, where Laplace noise has its kink.
        x, w = leggauss(20)
        deviation = math.sqrt(n * model.variance)
        reach = 60 * b if laplace else 12 * b
        step = min(b, deviation) if deviation > 0 else b
        if n == 0:
            return np.full(theta.shape, density(y))
        edges = np.concatenate([y - np.arange(0, reach, step)[::-1], y + np.arange(step, reach, step)])
        centre, half = (edges[1:] + edges[:-1]) / 2, step / 2
        s = (centre[:, None] + half * x).ravel()
        weight = (half * w * np.ones_like(centre)[:, None]).ravel() * density(y - s)
        gaps = (s - n * theta[:, None]) / deviation
        return (np.exp(-(gaps**2) / 2) / deviation / math.sqrt(2 * math.pi)) @ weight

    def density(e):
        return (
            np.exp(-np.abs(e) / b) / (2 * b) if laplace else np.exp(-(e**2) / (2 * b * b)) / b / math.sqrt(2 * math.pi)
        )

    def joint(theta):
        prior = np.exp(-((theta - model.prior_mean) ** 2) / (2 * model.prior_variance))
        if counts is None:
            return prior * likelihood(theta, n)
        z, scale = counts
        tops = range(math.ceil(max(z, 0) + 45 * scale))
        return prior * sum(float(np.exp(-abs(z - k) / scale)) * likelihood(theta, k) for k in tops)

    def cdf(points, low, high):
        x, w = leggauss(16)
        edges = np.sort(np.concatenate([np.linspace(low, high, 40), points]))
        centre, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        theta = centre[:, None] + half[:, None] * x
        mass = (half[:, None] * w * joint(theta.ravel()).reshape(theta.shape)).sum(axis=1)
        return np.interp(points, edges, np.concatenate([[0], np.cumsum(mass)])) / mass.sum()

    return cdf


NORMAL_LAWS = [Laplace(1500.0), Laplace(700.0), DiscreteGaussian(700.0), RoundedGaussian(800.0), Laplace(60.0)]


@pytest.mark.parametrize("law", cases(NORMAL_LAWS, quick=NORMAL_LAWS[1:]), ids=str)
@pytest.mark.parametrize("mean_sum", [0.4, 3.0, -1.0])
@pytest.mark.parametrize("variance", [1.0, 0.04])
def test_normal_public_count(law, mean_sum, variance):
    n, grid = 20, 0.01
    model = normal_posterior.NormalModel(variance=variance, prior_mean=0.3, prior_variance=0.5)
    z = round(mean_sum * n / grid)
    found = normal_posterior.public_count(np.array([z], float), count=n, model=model, noise=law, grid=grid).marginal(0)
    mean, deviation = found.mean(), math.sqrt(found.variance())
    x = mean + deviation * np.array([-1.8, -0.6, 0.0, 0.9, 2.0])
    exact = normal_law(z * grid, n, model, law.scale * grid, laplace=isinstance(law, Laplace))
    assert found.cdf(x) == pytest.approx(exact(x, mean - 15 * deviation, mean + 15 * deviation), abs=1e-9)


def test_normal_far_sum_keeps_its_accuracy():
    """A sum hundreds of noise scales away makes the weights of the quadrature a narrow peak."""
    model = normal_posterior.NormalModel(variance=1.0, prior_mean=0.0, prior_variance=1.0)
    found = normal_posterior.public_count(
        np.array([5e4]), count=10, model=model, noise=Laplace(100.0), grid=0.01
    ).marginal(0)
    mean, deviation = found.mean(), math.sqrt(found.variance())
    x = mean + deviation * np.array([-1.5, 0.0, 1.5])
    # So far out the Laplace law is e^(n theta/b) up to a constant, which moves the normal prior by n tau2/b.
    tilted = NormalMixture(np.ones(1), np.array([10.0]), np.array([1.0]))
    assert found.cdf(x) == pytest.approx(tilted.cdf(x), abs=1e-9)


def test_normal_evidence():
    """The normal-Laplace density in closed form against its convolution integral."""
    model = normal_posterior.NormalModel(variance=2.0, prior_mean=0.5, prior_variance=3.0)
    b = 1.7
    for y, n in [(0.0, 3.0), (20.0, 3.0), (-7.0, 12.0), (0.4, 0.0)]:
        v, d = n * (n * 3.0 + 2.0), y - n * 0.5
        with mp.workdps(25):
            if v > 0:
                exact = mp.quad(
                    lambda s, v=v, d=d: mp.npdf(s, 0, mp.sqrt(v)) * mp.exp(-abs(d - s) / b) / (2 * b),
                    sorted({-200.0, -60.0, -20.0, -5.0, 0.0, 5.0, 20.0, 60.0, 200.0, d}),
                )
            else:
                exact = mp.exp(-abs(d) / b) / (2 * b)
            found = normal_posterior.log_evidence(np.array([y]), np.array([n]), model, Laplace(17.0), b)
            assert float(found[0]) == pytest.approx(float(mp.log(exact)), abs=1e-9)


@pytest.mark.long
def test_normal_private_count():
    """Also summed over the number of records, with a zero count in reach."""
    model = normal_posterior.NormalModel(variance=1.0, prior_mean=0.5, prior_variance=1.5)
    grid, count_grid, scale = 0.01, 0.01, 60.0
    for sums, count in [(400.0, 500.0), (-30.0, 40.0)]:
        found = normal_posterior.private_count(
            np.array([sums]), count, model=model, noise=Laplace(scale), grid=grid, count_grid=count_grid
        ).marginal(0)
        mean, deviation = found.mean(), math.sqrt(found.variance())
        x = mean + deviation * np.array([-1.5, 0.0, 0.5, 1.5])
        exact = normal_law(
            sums * grid, None, model, scale * grid, laplace=True, counts=(count * count_grid, scale * count_grid)
        )
        assert found.cdf(x) == pytest.approx(exact(x, mean - 12 * deviation, mean + 12 * deviation), abs=1e-7)


@pytest.mark.parametrize("law", [Laplace(20.0), DiscreteGaussian(20.0), RoundedGaussian(20.0)], ids=str)
def test_integer_noise_may_be_taken_as_continuous(law):
    """The exact posterior, the sum and its noise on the integers, differs by the stated 1/(12 k^2) at most."""
    n, s2, tau2, z = 10, 30.0**2, 40.0**2, 130
    model = normal_posterior.NormalModel(variance=s2, prior_mean=0.0, prior_variance=tau2)
    found = normal_posterior.public_count(np.array([float(z)]), count=n, model=model, noise=law, grid=1.0).marginal(0)
    s = np.arange(z - 900, z + 901.0)
    weights = np.exp(-(s**2) / (2 * (n * n * tau2 + n * s2))) * noise(law, z - s)
    precision = 1 / tau2 + n / s2
    exact = NormalMixture(weights / weights.sum(), s / s2 / precision, np.full(s.shape, 1 / precision))
    assert found.variance() == pytest.approx(exact.variance(), rel=1 / (12 * law.scale**2))
    x = exact.quantile([0.05, 0.5, 0.95])
    assert found.cdf(x) == pytest.approx([0.05, 0.5, 0.95], abs=1e-5)


# Mixtures


def test_beta_mixture_quantiles_are_roots():
    weights, alphas, betas = [0.5, 0.3, 0.2], [2.0, 40.0, 0.3], [5.0, 10.0, 0.4]
    found = BetaMixture(np.array(weights), np.array(alphas), np.array(betas))
    with mp.workdps(25):
        for p in (0.001, 0.05, 0.5, 0.77, 0.99):
            quantile = float(found.quantile(p))
            below = sum(
                w * mp.betainc(a, b, 0, quantile, regularized=True)
                for w, a, b in zip(weights, alphas, betas, strict=True)
            )
            assert float(below) == pytest.approx(p, rel=1e-10)
            root = mp.findroot(
                lambda x, p=p: (
                    sum(
                        w * mp.betainc(a, b, 0, x, regularized=True)
                        for w, a, b in zip(weights, alphas, betas, strict=True)
                    )
                    - p
                ),
                (quantile * mp.mpf("0.99"), (1 + 99 * mp.mpf(quantile)) / 100),
                solver="anderson",
            )
            assert quantile == pytest.approx(float(root), rel=1e-9)


def test_normal_mixture_quantiles_are_roots():
    weights, means, variances = [0.6, 0.39, 0.01], [0.0, 9.0, -300.0], [1.0, 4.0, 1e-4]
    found = NormalMixture(np.array(weights), np.array(means), np.array(variances))
    with mp.workdps(25):
        for p in (1e-6, 0.005, 0.3, 0.6, 0.95, 1 - 1e-6):
            quantile = float(found.quantile(p))
            parts = zip(weights, means, variances, strict=True)
            below = sum(w * mp.ncdf(quantile, m, mp.sqrt(v)) for w, m, v in parts)
            assert float(below) == pytest.approx(p, abs=1e-11)


def test_beta_mixture_at_large_parameters():
    """scipy's incomplete beta function at counts of a million, against 30-digit quadrature."""
    a, b = 300_001.0, 700_001.0
    found = BetaMixture(np.ones(1), np.array([a]), np.array([b]))
    with mp.workdps(30):
        norm = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)

        def density(t):
            return mp.exp(norm + (a - 1) * mp.log(t) + (b - 1) * mp.log(1 - t))

        for x in (0.2993, 0.3, 0.3004):
            exact = mp.quad(density, [0.29, 0.295, 0.298, 0.2985, 0.299, x])
            assert float(found.cdf(x)) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.long
def test_dirichlet_mixture_moments():
    found = DirichletMixture(np.array([0.25, 0.75]), np.array([[1.5, 2, 3], [4, 1, 2.5]]))
    marginals = [found.marginal(index) for index in range(3)]
    draws = found.draw(np.random.default_rng(2), 200_000)
    assert draws.sum(axis=1) == pytest.approx(1.0)
    assert found.mean() == pytest.approx([each.mean() for each in marginals])
    # Six standard errors: a false-alarm rate of 1e-8 for the six comparisons.
    variances = np.array([each.variance() for each in marginals])
    assert np.abs(draws.mean(axis=0) - found.mean()).max() < 6 * np.sqrt(variances.max() / 200_000)
    assert draws.var(axis=0) == pytest.approx(variances, rel=0.03)
    halves = [float(each.cdf(np.median(column))) for each, column in zip(marginals, draws.T, strict=True)]
    assert halves == pytest.approx([0.5] * 3, abs=6 * 0.5 / math.sqrt(200_000))


# The parts


@pytest.mark.parametrize("decay", [0.01, 0.3, 5.0])
def test_thinning_keeps_moments_and_smooth_sums(decay):
    s = np.arange(0.0, 3000.0)
    logs = -decay * np.abs(s - 777) + np.log1p(s)
    points, thinned = thin(s, logs, np.full(s.shape, 40.0))
    assert points.size < 700
    assert np.all(np.diff(points) >= 0)
    assert points.min() >= 0
    assert points.max() <= 2999
    top = logs.max()
    for f in (np.ones_like, lambda x: x, lambda x: np.exp(-((x - 800) ** 2) / (2 * 40.0**2)), lambda x: np.sin(x / 40)):
        whole, few = (np.exp(logs - top) * f(s)).sum(), (np.exp(thinned - top) * f(points)).sum()
        assert few == pytest.approx(whole, rel=1e-10)


def test_lattice_in_steps_sums_as_well():
    for scale in (4e3, 1e5):
        reach = 45 * scale
        points, cells = lattice(0.0, np.ceil(reach))
        assert points.size < 120_000
        found = (np.exp(cells - points / scale)).sum()
        assert found == pytest.approx(1 / -math.expm1(-1 / scale), rel=1e-6)
        assert (np.exp(cells - points / scale) * points).sum() / found == pytest.approx(scale, rel=1e-3)


@pytest.mark.parametrize("s", [0.0, 1.0, 15.0, 16.0, 300.0, 1e6, 1e9])
@pytest.mark.parametrize("a", [1e-13, 0.001, 0.5, 1.3, 8.0, 1000.0])
def test_log_gamma_ratio(s, a):
    with mp.workdps(40):
        exact = mp.loggamma(mp.mpf(s) + mp.mpf(a)) - mp.loggamma(mp.mpf(s) + 1)
        assert float(log_ratio(np.array(s), a)) == pytest.approx(float(exact), rel=2e-13, abs=2e-13)
