"""Log-likelihoods of noisy numbers against sums over every true count, written out; of one count in 30 digits."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from likelihood.made_releases import counts, levels, rates, yes_no
from rounded_law import exact_mass, rounded_log_mass
from scipy.special import gammaln, logsumexp, xlogy

pytestmark = pytest.mark.oracle

NOISES = [("discrete-laplace", 2.0), ("discrete-gaussian", 3.0), ("discrete-laplace", 0.3), ("rounded-gaussian", 3.0)]
each_noise = pytest.mark.parametrize(("noise", "scale"), NOISES)


def mass(noise: str, scale: float, k: int):
    """Return P(k) in 30 digits."""
    s = mp.mpf(scale)
    if noise == "rounded-gaussian":
        return exact_mass(scale, k)
    if noise == "discrete-laplace":
        q = mp.exp(-1 / s)
        return (1 - q) / (1 + q) * q ** abs(k)
    total = sum(mp.exp(-mp.mpf(j * j) / (2 * s * s)) for j in range(-math.ceil(14 * scale), math.ceil(14 * scale) + 1))
    return mp.exp(-mp.mpf(k * k) / (2 * s * s)) / total


def log_masses(noise: str, scale: float, k: np.ndarray) -> np.ndarray:
    if noise == "rounded-gaussian":
        return rounded_log_mass(scale, k)
    top = float(mp.log(mass(noise, scale, 0)))
    return top - (np.abs(k) / scale if noise == "discrete-laplace" else k**2 / (2 * scale**2))


def with_digits(function):
    with mp.workdps(30):
        return function()


# One count


def poisson_by_hand(z: int, m: float, noise: str, scale: float):
    def one(n: int):
        return mass(noise, scale, z - n) * mp.mpf(m) ** n * mp.exp(-mp.mpf(m)) / mp.factorial(n)

    return with_digits(lambda: sum(one(n) for n in range(round(m + abs(z) + 40 + 12 * math.sqrt(m)))))


@each_noise
@pytest.mark.parametrize("z", [-5, 0, 7])
@pytest.mark.parametrize("m", [0.1, 3.0, 20.0])
def test_a_noisy_poisson_count(z, m, noise, scale):
    found = counts((z,), noise=noise, scale=scale).likelihood().log_likelihood(rate=m)
    assert found == pytest.approx(float(mp.log(poisson_by_hand(z, m, noise, scale))), abs=1e-9)


@each_noise
@pytest.mark.parametrize("m", [0.01, 4.0, 90.0, 300.0])
@pytest.mark.long
def test_what_the_window_omits_is_below_its_bound(m, noise, scale):
    """e^-40 P(0), whatever the parameter: also where it explains the number very badly."""
    z = 40
    found = mp.exp(mp.mpf(float(counts((z,), noise=noise, scale=scale).likelihood().log_likelihood(rate=m))))
    exact = poisson_by_hand(z, m, noise, scale)
    assert -exact * mp.mpf(1e-12) <= exact - found <= mp.exp(-40) * mass(noise, scale, 0) + exact * mp.mpf(1e-12)


@each_noise
@pytest.mark.parametrize("z", [-4, 3, 15])
@pytest.mark.parametrize("p", [0.02, 0.4, 0.9])
def test_noisy_successes_among_a_public_number(z, p, noise, scale):
    n = 12

    def exact():
        ways = (mp.binomial(n, s) * mp.mpf(p) ** s * (1 - mp.mpf(p)) ** (n - s) for s in range(n + 1))
        return mp.log(sum(way * mass(noise, scale, z - s) for s, way in enumerate(ways)))

    found = yes_no((z,), count=n, noise=noise, scale=scale).likelihood()
    assert found.log_likelihood(probs=p) == pytest.approx(float(with_digits(exact)), abs=1e-10)
    assert found.log_likelihood(logits=math.log(p / (1 - p))) == pytest.approx(float(with_digits(exact)), abs=1e-10)


def test_a_sum_of_a_public_number_of_records():
    found = rates((13,), count=9).likelihood()
    exact = mp.log(poisson_by_hand(13, 9 * 1.7, "discrete-laplace", 2.0))
    assert found.log_likelihood(rate=1.7) == pytest.approx(float(exact), abs=1e-10)
    assert found.log_likelihood(log_rate=math.log(1.7)) == pytest.approx(float(exact), abs=1e-10)


@pytest.mark.parametrize(
    "made",
    [
        lambda z: counts((z,)).likelihood().log_likelihood(rate=6.0),
        lambda z: yes_no((z,), count=15).likelihood().log_likelihood(probs=0.4),
        lambda z: rates((z,), count=4).likelihood().log_likelihood(rate=1.5),
        lambda z: counts((z,), noise="discrete-gaussian").likelihood().log_likelihood(rate=6.0),
        lambda z: counts((z,), noise="rounded-gaussian").likelihood().log_likelihood(rate=6.0),
    ],
    ids=["count", "binomial", "poisson", "gaussian", "rounded"],
)
def test_probabilities_of_all_noisy_numbers_add_up_to_1(made):
    assert sum(math.exp(made(z)) for z in range(-60, 90)) == pytest.approx(1, abs=1e-9)


# Several counts


def several_by_hand(noisy, p, noise, scale, most: int, log_total=lambda t: 0.0 * t) -> float:
    """Sum over every vector of counts below `most`: multinomial x weight of the total x noise."""
    axes = np.meshgrid(*[np.arange(most)] * len(p), indexing="ij")
    logs = gammaln(sum(axes) + 1) + log_total(sum(axes))
    for n, z, share in zip(axes, noisy, p, strict=True):
        logs = logs + xlogy(n, share) - gammaln(n + 1) + log_masses(noise, scale, z - n)
    return float(logsumexp(logs))


def test_the_published_oracle_of_two_counts():
    """theory: zs=3, zf=-1, Laplace scale 2, flat totals, eta=-.5, constants of the noise omitted."""
    constants = 2 * math.log(math.tanh(1 / 4))
    found = yes_no((3, -1)).likelihood().log_likelihood(logits=-0.5)
    assert found - constants == pytest.approx(-0.0037925154, abs=2e-8)


@each_noise
@pytest.mark.parametrize("noisy", [(3, -1), (0, 0), (20, 35)])
@pytest.mark.parametrize("eta", [-3.0, 0.2, 2.0])
def test_successes_and_failures_of_a_private_number(noisy, eta, noise, scale):
    p = 1 / (1 + math.exp(-eta))
    found = yes_no(noisy, noise=noise, scale=scale).likelihood()
    exact = several_by_hand(noisy, (p, 1 - p), noise, scale, 260)
    # Cubics are right to 1e-8 within 20 of their summits.
    error = 1e-6 if exact > -25 else 4e-6
    assert found.log_likelihood(logits=eta) == pytest.approx(exact, abs=error)
    assert found.log_likelihood(probs=p) == pytest.approx(exact, abs=error)


@pytest.mark.parametrize(("mean", "shape"), [(6.0, 1.0), (30.0, 1.0), (12.0, 3.5)])
def test_a_private_number_with_a_negative_binomial_distribution(mean, shape):
    def log_total(t):
        share = mean / (mean + shape)
        return gammaln(t + shape) - gammaln(shape) - gammaln(t + 1) + t * math.log(share) + shape * math.log1p(-share)

    noisy, p = (4, 7), (0.3, 0.7)
    exact = several_by_hand(noisy, p, "discrete-laplace", 2.0, 200, log_total)
    found = yes_no(noisy).likelihood()
    assert found.log_likelihood(probs=0.3, total_mean=mean, total_shape=shape) == pytest.approx(exact, abs=1e-6)


@each_noise
def test_levels_of_a_private_number(noise, scale):
    noisy, p = (6, -2, 9), (0.3, 0.1, 0.6)
    found = levels(noisy, noise=noise, scale=scale).likelihood()
    exact = several_by_hand(noisy, p, noise, scale, 100)
    assert found.log_likelihood(probs=np.array(p)) == pytest.approx(exact, abs=1e-6)
    assert found.log_likelihood(logits=np.log(p) + 3.0) == pytest.approx(exact, abs=1e-6)


@each_noise
@pytest.mark.parametrize("noisy", [(5, 9, -2), (1, 1, 10), (20, 0, 0)])
@pytest.mark.parametrize("p", [(0.3, 0.6, 0.1), (0.01, 0.01, 0.98)])
def test_levels_of_a_public_number(noisy, p, noise, scale):
    n = 12
    logs = []
    for split in itertools.product(range(n + 1), repeat=2):
        own = np.array([*split, n - sum(split)])
        if own[-1] >= 0:
            ways = gammaln(n + 1) - gammaln(own + 1).sum() + xlogy(own, p).sum()
            logs.append(ways + log_masses(noise, scale, np.array(noisy) - own).sum())
    found = levels(noisy, count=n, noise=noise, scale=scale).likelihood()
    assert found.log_likelihood(probs=np.array(p)) == pytest.approx(float(logsumexp(logs)), abs=1e-7)


def test_many_levels_of_a_public_number_add_up_over_the_totals():
    """Flat totals are the sum over every public one."""
    noisy, p = (12, 3, -1, 5), np.array([0.5, 0.2, 0.1, 0.2])
    known = [levels(noisy, count=n).likelihood().log_likelihood(probs=p) for n in range(1, 100)]
    assert levels(noisy).likelihood().log_likelihood(probs=p) == pytest.approx(logsumexp(known), abs=1e-4)


@pytest.mark.parametrize(("noise", "scale"), [*NOISES[:2], NOISES[3]])
@pytest.mark.parametrize("rate", [0.1, 0.8, 5.0])
@pytest.mark.parametrize("noisy", [(4, 50), (-6, 10), (60, 130)])
def test_a_sum_of_a_private_number_of_records(noisy, rate, noise, scale):
    units, n, y = 10, np.arange(60)[:, None], np.arange(700)
    with np.errstate(divide="ignore", invalid="ignore"):
        outcome = np.where(n > 0, xlogy(y, n * rate) - n * rate - gammaln(y + 1), np.where(y == 0, 0.0, -np.inf))
    own = log_masses(noise, scale, noisy[0] - y) + log_masses(noise, scale, noisy[1] - units * n)
    found = rates(noisy, noise=noise, scale=scale).likelihood().log_likelihood(rate=rate)
    exact = float(logsumexp(outcome + own))
    assert found == pytest.approx(exact, abs=2e-6 + math.exp(-40 - exact))  # what windows may omit


# Large numbers, wide noise


@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_wide_noise_goes_through_fewer_nodes(scale):
    """A window of 16,001 counts is thinned, and says the same as all of them."""
    z, m = 5000, 5100.0
    n = np.arange(12000)
    terms = n * math.log(m) - m - gammaln(n + 1) + log_masses("discrete-laplace", scale, z - n)
    found = counts((z,), scale=scale).likelihood()
    assert found.term.counts.shape[-1] < 2000
    assert found.log_likelihood(rate=m) == pytest.approx(logsumexp(terms), abs=1e-7)
    s = np.arange(9001)
    ways = gammaln(9001) - gammaln(s + 1) - gammaln(9001 - s) + s * math.log(0.55) + (9000 - s) * math.log(0.45)
    successes = yes_no((z,), count=9000, scale=scale).likelihood().log_likelihood(probs=0.55)
    assert successes == pytest.approx(logsumexp(ways + log_masses("discrete-laplace", scale, z - s)), abs=1e-7)


# The noise alone


@each_noise
def test_the_noise_at_a_true_statistic(noise, scale):
    found = yes_no((3, -1), noise=noise, scale=scale).likelihood()
    exact = with_digits(lambda: mp.log(mass(noise, scale, 3 - 5) * mass(noise, scale, -1 - 4)))
    assert found.log_prob([5, 4]) == pytest.approx(float(exact), abs=1e-12)
    both = found.log_prob(np.array([[5.0, 4.0], [3.0, -1.0]]))
    assert both.shape == (2,)
    assert both[1] == pytest.approx(float(with_digits(lambda: 2 * mp.log(mass(noise, scale, 0)))), abs=1e-12)


def test_the_noise_of_a_sum_and_of_a_count_in_fractions():
    found = rates((13, 55), scale=4.0).likelihood()
    assert found.values == pytest.approx([13, 5.5])
    exact = math.log(math.tanh(1 / 8)) * 2 - (abs(13 - 10) + abs(55 - 60)) / 4
    assert found.log_prob([10, 6]) == pytest.approx(exact, abs=1e-12)


def test_the_noise_of_a_cube_is_that_of_the_largest_distance():
    from vestry.likelihood.array_math import math_of
    from vestry.posterior.discrete_noise import Cube

    grid = np.stack(np.meshgrid(*[np.arange(-120, 121)] * 2, indexing="ij"), axis=-1).astype(float)
    logs = Cube(3.0, 2).log_probability(math_of(grid), grid)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-12)
    assert logs[120 + 2, 120 - 7] - logs[120, 120] == pytest.approx(-7 / 3)
