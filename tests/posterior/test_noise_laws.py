"""The laws of noise against 40 digits, and what is read by them against Bayes' rule written out."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chi2

from vestry.likelihood.array_math import math_of
from vestry.posterior.discrete_noise import (
    Cube,
    DiscreteGaussian,
    JoinedStatistics,
    Laplace,
    RoundedGaussian,
    law,
    noise_of,
)
from vestry.posterior.joined_noise import SummedNormals, joined, summed
from vestry.posterior.whole_number import whole_number
from vestry.releases import NoisyStatistics

pytestmark = pytest.mark.oracle

SCALES = [0.05, 0.3, 0.5, 0.51, 1.0, 2.7, 30.0, 500.0, 9999.0]
# In standard deviations: the middle, where noise lies, and what no noise ever reaches.
PLACES = [0.0, 0.4, 1.0, 3.0, 9.0, 40.0, 1000.0]


def exact_log_mass(scale, k, step=1):
    """The difference of two values of the distribution function, of the lower tail, to 40 digits."""
    with mp.workdps(60):
        below = (abs(mp.mpf(k)) - mp.mpf(step) / 2) / mp.mpf(scale)
        above = (abs(mp.mpf(k)) + mp.mpf(step) / 2) / mp.mpf(scale)
        return mp.log((mp.erfc(below / mp.sqrt(2)) - mp.erfc(above / mp.sqrt(2))) / 2)


@pytest.mark.parametrize("scale", SCALES)
def test_the_law_of_a_rounded_normal(scale):
    k = np.unique(np.rint(scale * np.array(PLACES)))
    found = RoundedGaussian(scale).log_mass(np.concatenate([-k, k]))
    wanted = [float(exact_log_mass(scale, size)) for size in k]
    assert found == pytest.approx([*wanted, *wanted], rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("scale", SCALES)
def test_ratios_of_the_law_far_outside(scale):
    """The difference of logarithms, of which each is 5e5 in size, keeps its digits."""
    z = round(1000 * scale) + 7
    noise = RoundedGaussian(scale)
    found = noise.log_weight(np.arange(4.0), np.array(float(z)), np.array(1.0))
    with mp.workdps(40):
        wanted = [float(exact_log_mass(scale, z - s) - exact_log_mass(scale, z - 1)) for s in range(4)]
    assert found == pytest.approx(wanted, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("scale", [10_000.0, 3e6])
def test_the_density_stands_for_the_law_of_large_scales(scale):
    k = np.rint(scale * np.array([0.0, 1.0, 4.0, 9.0]))
    wanted = [float(exact_log_mass(scale, size)) for size in k]
    assert RoundedGaussian(scale).log_mass(k) == pytest.approx(wanted, abs=9**2 / (23 * scale**2) + 1e-12)


@pytest.mark.parametrize("scale", [*SCALES[:6], 1.99, 2.01])
def test_deviations_by_summing_the_law(scale):
    """At scale 1 the deviation is 1.041, not 1."""
    with mp.workdps(40):
        terms = [2 * k**2 * mp.exp(exact_log_mass(scale, k)) for k in range(1, 60)]
        wanted = float(mp.sqrt(mp.fsum(terms)))
    assert RoundedGaussian(scale).deviation == pytest.approx(wanted, rel=1e-13)
    assert RoundedGaussian(1.0).deviation == pytest.approx(1.0408, abs=1e-4)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 7.0, 40.0])
@pytest.mark.parametrize(("noise", "power"), [("discrete-laplace", 1), ("discrete-gaussian", 2)])
def test_deviations_of_discrete_noise(noise, power, scale):
    """By summing the law; a wrong scale of 1 % would show."""
    k = np.arange(-4000, 4001)
    weights = np.exp(-(np.abs(k) ** power) / (power * scale**power))
    assert law(noise, scale, 1).deviation == pytest.approx(np.sqrt(weights @ k**2 / weights.sum()), rel=1e-6)


@pytest.mark.parametrize(("scale", "size"), [(0.4, 2), (1.5, 3)])
def test_the_law_on_a_cube(scale, size):
    """Every point of a box, by which no more than e^-20 is missed."""
    axis = np.arange(-60, 61) if size == 2 else np.arange(-45, 46)
    points = np.stack(np.meshgrid(*[axis] * size), axis=-1).reshape(-1, size).astype(float)
    cube = Cube(scale, size)
    weights = np.exp(cube.log_probability(math_of(points), points))
    assert weights.sum() == pytest.approx(1, rel=1e-8)
    assert cube.deviation == pytest.approx(math.sqrt(weights @ points[:, 0] ** 2), rel=1e-8)


def test_names_that_no_noise_has():
    with pytest.raises(ValueError, match="rounded-gaussian"):
        law("normal", 1.0, 1)
    together = NoisyStatistics(("a", "b"), (1, 2), "discrete-cube", 3.0)
    with pytest.raises(ValueError, match="discrete-cube"):
        noise_of(together)


def test_a_scale_that_is_wrong_by_a_tenth_is_rejected():
    """A sum of squares that is above its bound by chance once in a million tests."""
    draws = np.rint(np.random.default_rng(5).normal(0, 3.0, 20_000))
    k = np.arange(-9.0, 10.0)
    counts = np.array([np.count_nonzero(draws == each) for each in k])
    bound = chi2.ppf(1 - 1e-6, k.size - 1)

    def distance(scale):
        expected = draws.size * np.exp(RoundedGaussian(scale).log_mass(k))
        return float(((counts - expected) ** 2 / expected).sum())

    assert distance(3.0) < bound
    assert distance(3.3) > 3 * bound
    assert distance(2.7) > 3 * bound


def test_a_sum_of_twenty_numbers():
    """A deviation of 4.655: not 4.481, that of one number of scale sqrt(20)."""
    cells = SummedNormals((RoundedGaussian(1.0),) * 20)
    assert cells.deviation == pytest.approx(4.6547, abs=1e-4)
    assert math.sqrt(20 * 1.0) == pytest.approx(4.472, abs=1e-3)
    assert RoundedGaussian(math.sqrt(20)).deviation == pytest.approx(4.481, abs=1e-3)
    with mp.workdps(40):
        one = [mp.exp(exact_log_mass(1, k)) for k in range(-12, 13)]
        table = one
        for _ in range(19):
            size = len(table) + len(one) - 1
            table = [
                mp.fsum(table[i] * one[j - i] for i in range(max(0, j - 24), min(j + 1, len(table))))
                for j in range(size)
            ]
        middle = len(table) // 2
        wanted = [float(mp.log(table[middle + k] / table[middle])) for k in (1, 4, 20, 45)]
    k = np.array([1.0, 4.0, 20.0, 45.0])
    assert cells.log_mass(k) - cells.log_mass(np.zeros(1)) == pytest.approx(wanted, rel=1e-9)
    # The law of one number of a larger scale is another one.
    wrong = RoundedGaussian(math.sqrt(20))
    assert abs(wrong.log_mass(k) - wrong.log_top - wanted).max() > 1


@pytest.mark.parametrize("laws", [(RoundedGaussian(40.0),) * 2, (RoundedGaussian(30.0), DiscreteGaussian(25.0))])
def test_a_sum_is_the_same_by_table_and_by_density(laws):
    """Beside the bound from which the density is taken."""
    found = SummedNormals(laws)
    k = np.arange(-500.0, 501.0)
    total = np.convolve(np.exp(laws[0].log_mass(k)), np.exp(laws[1].log_mass(k)), mode="same")
    logs = found.log_mass(k) - found.log_mass(np.zeros(1))
    assert logs[200:800] == pytest.approx(np.log(total / total[500])[200:800], abs=1e-6)


@pytest.mark.parametrize("noise", [Laplace(2.0), DiscreteGaussian(1.3), RoundedGaussian(0.2), RoundedGaussian(6.0)])
def test_beyond_the_reach_there_is_little(noise):
    far = np.array([math.ceil(noise.reach(40.0)), -math.ceil(noise.reach(40.0))], dtype=float)
    assert (noise.log_mass(far) <= noise.log_top - 40 + 1e-9).all()


@pytest.mark.parametrize("noise", [Laplace(2.0), DiscreteGaussian(1.3), RoundedGaussian(0.2), RoundedGaussian(1.0)])
def test_a_sum_seldom_exceeds_its_reach(noise):
    """The tail of the exact sum of five numbers, and of rounded noise the bound on its moments that gives the reach."""
    k = np.arange(-150.0, 151.0)
    mass = np.exp(noise.log_mass(k))
    total = mass
    for _ in range(4):
        total = np.convolve(total, mass)
    sums = np.arange(total.size) - total.size // 2
    for drop in (2.0, 10.0, 25.0):
        assert total[sums > noise.reach_of_sum(5, drop)].sum() <= math.exp(-drop)


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.35, 0.5, 1.0, 2.0])
def test_moments_of_rounded_noise_are_bounded(scale):
    """log E e^(t noise) <= (scale^2 + 1/4) t^2/2, of which `reach_of_sum` is Chernoff's bound."""
    k = np.arange(-300.0, 301.0)
    logs = RoundedGaussian(scale).log_mass(k)
    for t in np.geomspace(1e-2, 100 / max(scale, 1.0), 60):
        terms = logs + t * k
        moment = terms.max() + math.log(np.exp(terms - terms.max()).sum())
        assert moment <= (scale**2 + 0.25) * t**2 / 2 + 1e-9


@pytest.mark.parametrize("scale", [0.4, 3.0, 200.0])
def test_noise_that_is_counted_in_larger_units(scale):
    """Units of a tenth: of each the law gives what it gives of ten."""
    noise = RoundedGaussian(scale)
    shared = noise.in_units_of(10)
    s = np.array([0.0, 1.0, 2.5, 30.0])
    found = shared.log_weight(s, np.array(1.7), np.array(0.3))
    assert found == pytest.approx(noise.log_weight(10 * s, np.array(17.0), np.array(3.0)), rel=1e-9)
    assert shared.deviation == pytest.approx(noise.deviation / 10)


@pytest.mark.parametrize("scale", [0.3, 1.0, 25.0, 3000.0, 20_000.0])
def test_the_log_probability_of_array_libraries(scale):
    """NumPy's and JAX's, against the law; JAX's slope against a difference of 40 digits."""
    jax = pytest.importorskip("jax")
    noise = RoundedGaussian(scale)
    gap = np.rint(scale * np.array([[0.0, 1.0], [-3.0, 8.0]]))
    wanted = noise.log_mass(gap).sum(axis=-1)
    assert noise.log_probability(math_of(gap), gap) == pytest.approx(wanted, rel=1e-9)
    with jax.enable_x64(True):
        given = jax.numpy.asarray(gap)
        assert np.asarray(noise.log_probability(math_of(given), given)) == pytest.approx(wanted, rel=1e-9)
        slope = jax.grad(lambda x: noise.log_probability(math_of(x), x).sum())(given)
    step = mp.mpf(10) ** -15
    with mp.workdps(40):
        for found, k in zip(np.asarray(slope).ravel(), gap.ravel(), strict=True):
            rise = exact_log_mass(scale, mp.mpf(k) + step) - exact_log_mass(scale, mp.mpf(k) - step)
            assert found == pytest.approx(float(rise / (2 * step)), rel=1e-6, abs=1e-9 / scale)


# What is read by the law


def weights_of(scale, z, counts):
    return np.array([float(mp.exp(exact_log_mass(scale, z - n))) for n in counts])


@pytest.mark.parametrize("scale", [0.4, 1.0, 6.0])
@pytest.mark.parametrize("z", [-3, 0, 5])
def test_a_count(scale, z):
    statistics = NoisyStatistics(("count",), (z,), "rounded-gaussian", scale)
    found = whole_number(z, statistics)
    counts = np.arange(0, 80)
    weights = weights_of(scale, z, counts)
    mean = weights @ counts / weights.sum()
    assert found.mean() == pytest.approx(mean, rel=1e-9, abs=1e-12)
    assert found.variance() == pytest.approx(weights @ (counts - mean) ** 2 / weights.sum(), rel=1e-8, abs=1e-12)


def test_several_releases_of_one_count_and_of_a_sum():
    """The product of three laws, and the convolution of two: every pair of true counts listed."""
    contents = [NoisyStatistics(("n",), (z,), "rounded-gaussian", s) for z, s in ((4, 1.0), (7, 1.5), (5, 0.8))]
    counts = np.arange(0, 40)
    product = np.prod([weights_of(each.scale, each.values[0], counts) for each in contents], axis=0)
    found = whole_number(joined(contents).values[0], joined(contents))
    assert found.mean() == pytest.approx(product @ counts / product.sum(), rel=1e-9)

    both = summed(contents[:2])
    assert isinstance(both, JoinedStatistics)
    assert both.values == (11,)
    sums = dict.fromkeys(range(60), 0.0)
    errors = range(-14, 15)
    for first, second in itertools.product(errors, errors):
        mass = math.exp(exact_log_mass(1.0, first) + exact_log_mass(1.5, second))
        if 0 <= 11 - first - second < 60:
            sums[11 - first - second] += mass
    weights = np.array(list(sums.values()))
    assert whole_number(11, both).mean() == pytest.approx(weights @ np.arange(60) / weights.sum(), rel=1e-9)
