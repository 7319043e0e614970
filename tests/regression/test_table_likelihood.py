"""The likelihood of noisy tables, and draws of coefficients, against enumeration of every table and quadrature.

Draws are of a seed that belongs to the release. Four seeds have about 8,000 effective draws: a mean is then off by 0.07
standard deviations, or a spread by 5 %, less than once in a million times, and a tenth is rejected.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from rounded_law import rounded_log_mass
from scipy.integrate import quad

from vestry.likelihood.smooth_tables import log_mean_likelihood, log_rate_likelihood
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian
from vestry.regression.moments import LevelColumn
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_reader import TableReader
from vestry.regression.table_target import TableTarget, sample_table

pytestmark = pytest.mark.oracle


def weight(noise, k: int) -> float:
    """Return the noise's probability of k, up to a constant."""
    return math.exp(log_weights(noise, k))


def log_weights(noise, k: np.ndarray) -> np.ndarray:
    if isinstance(noise, RoundedGaussian):
        return rounded_log_mass(noise.scale, k)
    return -np.abs(k) / noise.scale if isinstance(noise, Laplace) else -(k**2) / (2 * noise.scale**2)


def by_enumeration(noisy, noise, p, share: float, most: int) -> float:
    """Sum (1) over every table of up to `most` records per level: multinomial, geometric total, noise."""

    def rest(place: int, total: int, log: float) -> float:
        if place == len(p):
            return math.exp(log + math.lgamma(total + 1) + total * math.log(share))
        return sum(
            weight(noise, noisy[place] - n)
            * rest(place + 1, total + n, log + n * math.log(p[place]) - math.lgamma(n + 1))
            for n in range(most)
        )

    return math.log(rest(0, 0, 0.0))


def by_tables(noisy, noise, p, decay: float) -> float:
    """Integrate (2) over the cell's mean."""
    tables = log_mean_likelihood(np.array(noisy, float), noise)

    def integrand(u: float) -> float:
        return math.exp(float(tables(u + np.log(p))[0].sum()) + u - decay * math.exp(u))

    value = sum(quad(integrand, low, low + 2, epsabs=0, epsrel=1e-9)[0] for low in range(-24, 8, 2))
    # What a table leaves out: the noise at the count nearest to each noisy one.
    return math.log(value) + sum(math.log(weight(noise, min(z, 0))) for z in noisy)


def test_the_oracle_of_two_counts():
    eta = -0.5
    p = np.array([1 / (1 + math.exp(-eta)), 1 / (1 + math.exp(eta))])
    assert by_tables([3, -1], Laplace(2.0), p, 0.0) == pytest.approx(-0.0037925154, abs=2e-6)


@pytest.mark.parametrize("noise", [Laplace(1.5), DiscreteGaussian(2.0), RoundedGaussian(0.7)], ids=str)
@pytest.mark.parametrize(("noisy", "p"), [((4, 0), (0.2, 0.8)), ((-3, 6), (0.6, 0.4)), ((2, 1, -1), (0.5, 0.2, 0.3))])
def test_a_cells_likelihood_is_that_of_every_table(noisy, p, noise):
    decay, most = 0.3, 40 if len(p) == 2 else 24
    expected = by_enumeration(noisy, noise, p, 1 / (1 + decay), most) - math.log(1 + decay)
    assert by_tables(noisy, noise, np.array(p), decay) == pytest.approx(expected, abs=3e-6)


@pytest.mark.parametrize("rate", [0.1, 0.8, 3.0])
@pytest.mark.parametrize(("records", "outcomes"), [(5, 4), (-2, 3), (1, -6)])
def test_rates_of_noisy_records_are_those_of_every_table(records, outcomes, rate):
    """The first cell's likelihood beside another rate's: constants cancel."""
    of_records, of_outcomes, share = Laplace(1.0), Laplace(3.0), 0.9

    def enumerated(rate: float) -> float:
        total = 0.0
        for n in range(60):
            for y in range(160):
                log = y * math.log(n * rate) - n * rate - math.lgamma(y + 1) if n else (0.0 if y == 0 else -math.inf)
                total += share**n * weight(of_records, records - n) * weight(of_outcomes, outcomes - y) * math.exp(log)
        return math.log(total)

    numbers = np.array([float(records)]), np.array([float(outcomes)])
    tables = log_rate_likelihood(*numbers, (of_records, of_outcomes), -math.log(share))
    (found,), (other,) = (tables(np.array([math.log(each)]))[0] for each in (rate, 1.3))
    assert found - other == pytest.approx(enumerated(rate) - enumerated(1.3), abs=3e-6)


@pytest.mark.parametrize("scale", [0.3, 2.0, 30.0])
def test_slopes_are_those_of_the_values(scale):
    tables = log_mean_likelihood(np.array([-40.0, 0.0, 3.0, 5000.0]), Laplace(scale))
    t = np.log([2.0, 7.0, 3.3, 4900.0])
    step = 1e-5
    ahead, behind = tables(t + step)[0], tables(t - step)[0]
    assert tables(t)[1] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-4)


def targets(noisy, noise, precisions) -> TableTarget:
    return TableTarget.of_levels(np.array([[0.0, 1.0], [1.0, 1.0]]), np.array(noisy, float), noise, precisions)


def test_gradients_are_those_of_the_density():
    table = OutcomeTable((LevelColumn("a", ("x", "y", "z")),), "b", tuple((each, (each,)) for each in "uvw"))
    reader = TableReader(table, (("a",),), 0.5)
    target = reader.target(np.array([[4.0, -1, 7], [0, 0, 2], [30, 12, 3]]), Laplace(2.0))
    at = np.random.default_rng(2).normal(size=(1, target.dimension))
    steps = 1e-5 * np.eye(target.dimension)
    differences = (target(at + steps)[0] - target(at - steps)[0]) / 2e-5
    assert target(at)[1][0] == pytest.approx(differences, rel=1e-4, abs=1e-5)


TABLES = [
    ([[12, 3], [2, 9]], Laplace(2.0)),
    ([[1, -2], [-1, 4]], Laplace(4.0)),
    ([[2, 0], [6, 25]], DiscreteGaussian(3.0)),
]


@pytest.mark.long
@pytest.mark.parametrize(("noisy", "noise"), TABLES)
def test_draws_have_the_posterior_of_quadrature(noisy, noise):
    """Two coefficients: the posterior on a grid, the likelihood of each cell by enumeration of every table."""
    precisions = np.array([1.0, 0.25])
    decay = 2 / max(sum(map(sum, noisy)), 2)
    share = 1 / (1 + decay)
    grid = np.linspace(-9, 9, 181)
    p = 1 / (1 + np.exp(-grid))
    s = np.arange(120)
    factorial = np.array([math.lgamma(n + 1) for n in range(240)])
    kernel = factorial[s[:, None] + s] - factorial[s][:, None] - factorial[s] + (s[:, None] + s) * math.log(share)
    logs = []
    for zf, zs in noisy:
        own = kernel + log_weights(noise, zf - s)[:, None] + log_weights(noise, zs - s)
        terms = own[None] + s[:, None] * np.log1p(-p)[:, None, None] + s * np.log(p)[:, None, None]
        top = terms.max(axis=(1, 2))
        logs.append(np.log(np.exp(terms - top[:, None, None]).sum(axis=(1, 2))) + top)
    b, a = np.meshgrid(grid, grid)  # intercept by rows
    second = np.interp(a + b, grid, logs[1])
    density = logs[0][:, None] + second - 0.5 * (precisions[1] * a**2 + precisions[0] * b**2)
    density = np.exp(density - density.max())
    density /= density.sum()
    smooth = DiscreteGaussian(noise.scale * (math.sqrt(2) if isinstance(noise, Laplace) else 1))
    draws = np.concatenate([
        sample_table(targets(noisy, noise, precisions), targets(noisy, smooth, precisions), np.random.default_rng(seed))
        for seed in range(4)
    ])  # fmt: skip
    for place, values in enumerate((b, a)):
        mean = (density * values).sum()
        sd = math.sqrt((density * (values - mean) ** 2).sum())
        assert draws[:, place].mean() == pytest.approx(mean, abs=0.07 * sd)
        assert draws[:, place].std() == pytest.approx(sd, rel=0.05)
