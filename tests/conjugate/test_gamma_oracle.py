"""Rates: what a draw costs and what the posterior is, by 40-digit arithmetic, brute force and plain sums."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from rounded_law import rounded_log_mass
from scipy import stats
from share import cases

from vestry.conjugate.gamma import Gamma
from vestry.conjugate.gamma_exponential import GammaExponentialFamily, exponential_posterior
from vestry.conjugate.gamma_poisson import GammaPoissonFamily, poisson_posterior
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms import posterior_sample
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency

pytestmark = pytest.mark.oracle

PAIRS = [(3.0, 1.5), (0.7, 1.2), (102.0, 1.03), (1000.5, 1.004), (40.0, 2.5), (12.0, 1.0001)]


def hockey(p, q, epsilon: float) -> mp.mpf:
    """Integrate (p - e^epsilon q)^+ for gammas (shape, rate), split where the densities cross."""
    with mp.workdps(30):
        (a, b), (c, d) = (tuple(map(mp.mpf, law)) for law in (p, q))

        def excess(x):
            return mp.log(x) * (a - c) - (b - d) * x + a * mp.log(b) - c * mp.log(d) - mp.loggamma(a) + mp.loggamma(c)

        def mass(low, high):
            first = mp.gammainc(a, b * low, b * high, regularized=True)
            return first - mp.exp(epsilon) * mp.gammainc(c, d * low, d * high, regularized=True)

        # The log-ratio is monotone where one parameter is shared.
        low, high = mp.mpf(10) ** -60, mp.mpf(10) ** 8
        rising = excess(high) > excess(low)
        if (excess(low) > epsilon) == (excess(high) > epsilon):
            return mass(0, mp.inf) if excess(low) > epsilon else mp.mpf(0)
        for _ in range(150):
            middle = mp.sqrt(low * high)
            low, high = (low, middle) if (excess(middle) > epsilon) == rising else (middle, high)
        return mass(low, mp.inf) if rising else mass(0, low)


def renyi(p, q, order: float) -> mp.mpf:
    with mp.workdps(40):
        (a, b), (c, d) = (tuple(map(mp.mpf, law)) for law in (p, q))
        o = mp.mpf(order)
        shape, rate = o * a + (1 - o) * c, o * b + (1 - o) * d
        if shape <= 0 or rate <= 0:
            return mp.inf
        between = mp.loggamma(shape) - shape * mp.log(rate)
        own = [mp.loggamma(x) - x * mp.log(y) for x, y in ((a, b), (c, d))]
        return (between - o * own[0]) / (o - 1) + own[1]


@pytest.mark.parametrize(("shape", "ratio"), PAIRS)
def test_a_rate_that_moves_is_priced_to_nine_digits_and_never_below(shape, ratio):
    from vestry.conjugate.gamma_draw_cost import rate_draw

    event = rate_draw(shape, ratio)
    laws = (shape, 1.0), (shape, ratio)
    for epsilon in (0.0, 0.05, 0.5, 2.0):
        true = max(hockey(*laws, epsilon), hockey(*laws[::-1], epsilon))
        found = accountant.delta(event, epsilon)
        assert true <= found or true < 1e-300
        assert found <= true * (1 + 1e-9) + 1e-300
    limit = 1 + 1 / (ratio - 1)
    for order in (1.01, 1 + 0.3 * (limit - 1), 1 + 0.9 * (limit - 1)):
        true = max(renyi(*laws, order), renyi(*laws[::-1], order))
        assert true <= accountant.renyi(event, order) <= true * (1 + 1e-9)
    assert accountant.renyi(event, limit * (1 + 1e-9)) == math.inf


@pytest.mark.parametrize("shape", [1e15, 1e18, 5.7e21])
@pytest.mark.parametrize("shift", [0.026, 0.5, 3.0])
def test_a_huge_shape_is_priced_at_once_as_the_normal_law_it_is(shape, shift):
    """Gamma(s) is normal up to relative errors of order s^(-1/2); the shift is that of the mean in deviations."""
    from vestry.conjugate.gamma_draw_cost import rate_draw

    ratio = 1 + shift / math.sqrt(shape)
    mu = mp.mpf(ratio - 1) * mp.sqrt(shape)
    event = rate_draw(shape, ratio)
    for epsilon in (0.01, 0.1, 1.0):
        true = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
        assert accountant.delta(event, epsilon) == pytest.approx(float(true), rel=1e-4, abs=1e-300)


def brute(family, prior, values, n: int, rows: int, power: float, scale: float, measure) -> float:
    """Return the largest divergence over every pair of neighbouring tables of n records with these values."""
    found = mp.mpf(0)
    sums = {sum(chosen) for chosen in itertools.combinations_with_replacement(values, n - rows)}
    units = {sum(chosen) for chosen in itertools.combinations_with_replacement(values, rows)}
    laws = {}
    for others, unit in itertools.product(sums, units):
        member = family.update(prior, [others + unit], n, likelihood_power=power, prior_scale=scale)
        laws[others, unit] = member.shape, member.rate
    for others in sums:
        for one, other in itertools.permutations(units, 2):
            found = max(found, measure(laws[others, one], laws[others, other]))
    return float(found)


@pytest.mark.parametrize(
    ("family", "values"),
    [(GammaPoissonFamily(3), (0.0, 1.0, 3.0)), (GammaExponentialFamily(0.5, 2.0), (0.5, 1.4, 2.0))],
    ids=["poisson", "exponential"],
)
@pytest.mark.parametrize("rows", cases([1, 2], quick=[1]))
@pytest.mark.parametrize(("power", "scale"), [(0.3, 1.0), (1.0, 0.4)])
@pytest.mark.long
def test_brute_force_over_all_neighbours(family, values, rows, power, scale):
    prior, adjacency = family.prior((2.0, 1.5)), Adjacency("replace", rows, 4)
    scales = {"likelihood_power": power, "prior_scale": scale}
    event = family.worst_draw(prior, adjacency, **scales)
    order = 1 + 0.5 * (family.order_limit(prior, adjacency, **scales) - 1)
    true = brute(family, prior, values, 4, rows, power, scale, lambda p, q: renyi(p, q, order))
    assert accountant.renyi(event, order) == pytest.approx(true, rel=1e-9)
    true = brute(family, prior, values, 3 + rows, rows, power, scale, lambda p, q: hockey(p, q, 0.4))
    event = family.worst_draw(prior, Adjacency("replace", rows, 3 + rows), **scales)
    assert accountant.delta(event, 0.4) == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize(
    "family", [GammaPoissonFamily(5), GammaExponentialFamily(1.0, 9.0)], ids=["poisson", "exponential"]
)
@pytest.mark.parametrize("name", ["diffused", "concentrated"])
def test_calibration_lands_on_the_private_side(family, name):
    wanted = Guarantee.parse("epsilon=1,delta=1e-5")
    made = getattr(posterior_sample, name)(family, family.prior((4.0, 9.0)), Adjacency("replace", 1, 50), wanted)
    assert 1e-6 < accountant.delta(made.event, 1.0) <= 1e-5
    assert 0 < made.value < 1


@pytest.mark.parametrize(
    "family", [GammaPoissonFamily(5), GammaExponentialFamily(1.0, 9.0)], ids=["poisson", "exponential"]
)
@pytest.mark.parametrize("adjacency", [Adjacency("add-remove"), Adjacency("replace"), Adjacency("replace", groups=2)])
def test_draws_whose_count_moves_are_refused(family, adjacency):
    with pytest.raises(
        GuaranteeUnreachable, match="posterior whose count is not public cannot be reached; no theorem bounds it"
    ):
        family.worst_draw(family.prior((1.0, 1.0)), adjacency)


# --- posteriors -------------------------------------------------------------------------------------------------------


def log_noise(law, k):
    if isinstance(law, RoundedGaussian):
        return rounded_log_mass(law.scale, k)
    return -np.abs(k) / law.scale if isinstance(law, Laplace) else -(k**2) / (2 * law.scale**2)


def moments(logs, shapes, rates) -> tuple[float, float]:
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = (weights * shapes / rates).sum()
    return mean, (weights * shapes / rates**2).sum() + (weights * (shapes / rates - mean) ** 2).sum()


POISSON = [
    (Laplace(5.0), 30, 10, 2.0, 1.0),
    (DiscreteGaussian(8.0), -3, 10, 0.5, 0.2),
    (Laplace(50.0), 300, 1000, 3.0, 10.0),
    (RoundedGaussian(0.8), 3, 10, 2.0, 1.0),
]


@pytest.mark.parametrize(("law", "z", "n", "a", "b"), POISSON)
def test_poisson_rate_with_a_public_count(law, z, n, a, b):
    s = np.arange(40_000)
    logs = stats.nbinom.logpmf(s, a, b / (b + n)) + log_noise(law, z - s)
    found = poisson_posterior(z, count=n, shape=a, rate=b, noise=law)
    assert (found.mean(), found.variance()) == pytest.approx(moments(logs, a + s, np.full(s.size, b + n)), rel=1e-9)


@pytest.mark.parametrize(
    ("law", "z", "noisy", "units", "a", "b"),
    [
        (Laplace(5.0), 30, 40, 4, 2.0, 1.0),
        (DiscreteGaussian(8.0), -3, 20, 2, 0.5, 0.2),
        (Laplace(3.0), 60, 90, 3, 2.0, 1.0),
        (RoundedGaussian(0.9), 6, 11, 4, 2.0, 1.0),
    ],
)
def test_poisson_rate_with_a_private_count(law, z, noisy, units, a, b):
    s, n = np.arange(600)[:, None], np.arange(400)[None, :]
    logs = np.where(n > 0, stats.nbinom.logpmf(s, a, b / (b + np.maximum(n, 1))), np.where(s == 0, 0.0, -np.inf))
    logs = logs + log_noise(law, z - s) + log_noise(law, noisy - units * n)
    found = poisson_posterior(z, count=noisy, count_units=units, shape=a, rate=b, noise=law)
    assert (found.mean(), found.variance()) == pytest.approx(moments(logs, a + s, b + n), rel=1e-9)


def log_times(s, n, a, b):
    """The law of a sum of n exponential times, its rate drawn from the prior: s/b is a beta-prime variable."""
    return np.where(s > 0, stats.betaprime.logpdf(np.maximum(s, 1e-300) / b, n, a), -np.inf)


@pytest.mark.parametrize(("law", "z", "n"), [(Laplace(300.0), -500, 12), (DiscreteGaussian(900.0), 1500, 40)])
def test_exponential_rate_with_a_public_count(law, z, n):
    a, b, grid, middle = 2.0, 3.0, 0.004, 2.5
    units = np.arange(-60_000, 60_000)
    s = grid * units + n * middle
    logs = log_times(s, n, a, b) + log_noise(law, z - units)
    found = exponential_posterior(z, grid=grid, middle=middle, count=n, shape=a, rate=b, noise=law)
    seen = s > 0
    expected = moments(logs[seen], np.full(seen.sum(), a + n), b + s[seen])
    assert (found.mean(), found.variance()) == pytest.approx(expected, rel=1e-5)


def test_exponential_rate_with_a_private_count():
    law, z, noisy, a, b, grid, middle, units = Laplace(40.0), -30, 250, 2.0, 3.0, 0.1, 2.5, 10
    steps, n = np.arange(-900, 1200)[:, None], np.arange(1, 150)[None, :]
    s = grid * steps + n * middle
    logs = log_times(s, n, a, b) + log_noise(law, z - steps) + log_noise(law, noisy - units * n)
    seen = np.isfinite(logs)
    expected = moments(logs[seen], np.broadcast_to(a + n, s.shape)[seen], (b + s)[seen])
    found = exponential_posterior(
        z, grid=grid, middle=middle, count=noisy, count_units=units, shape=a, rate=b, noise=law
    )
    assert (found.mean(), found.variance()) == pytest.approx(expected, rel=1e-3)


def test_a_misjudged_noise_is_another_posterior():
    law, z, n, a, b = POISSON[0]
    s = np.arange(40_000)
    logs = stats.nbinom.logpmf(s, a, b / (b + n)) + log_noise(Laplace(0.9 * law.scale), z - s)
    found = poisson_posterior(z, count=n, shape=a, rate=b, noise=law)
    assert found.variance() != pytest.approx(moments(logs, a + s, np.full(s.size, b + n))[1], rel=1e-3)


@pytest.mark.parametrize("high", [math.nan, math.inf, 0, 2.5, True, 2**41])
def test_a_largest_count_that_is_none_is_refused(high):
    with pytest.raises(InvalidParameter, match="high must be a whole number from 1 to"):
        GammaPoissonFamily(high)


@pytest.mark.long
def test_a_draw_that_costs_next_to_nothing_is_priced_to_nine_digits():
    """A delta near 1e-300: the lower tail below the crossing, by quadrature in 60 digits; the other way is smaller."""
    shape, shift = 114194.8, 9.0
    with mp.workdps(60):
        a, s = mp.mpf(shape), mp.mpf(shift)
        crossing = mp.exp((mp.loggamma(a + s) - mp.loggamma(a) - 1) / s)

        def excess(u):  # at x = crossing e^-u, times dx/du
            x = crossing * mp.exp(-u)
            return mp.exp(a * mp.log(x) - x - mp.loggamma(a)) * -mp.expm1(-s * u)

        true = mp.quad(excess, mp.linspace(0, mp.mpf("0.01"), 400))
    found = accountant.delta(GammaPoissonFamily(9).worst_draw(Gamma(shape, 1.0), Adjacency("replace", 1, 100)), 1.0)
    assert true > 1e-301
    assert found == pytest.approx(float(true), rel=1e-10, abs=0)
