"""The law of sums of noise: against exact fractions, moments, and a normal law of the same deviation."""

import math
from fractions import Fraction

import numpy as np
import pytest

from vestry.noise_inversion.noise_sum import NoiseSum
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian


def exact_laplace(scale: Fraction, reach: int) -> dict[int, Fraction]:
    """Return the law with q = e^(-1/scale) taken as a fraction."""
    q = Fraction(math.exp(-1 / scale)).limit_denominator(10**12)
    return {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-reach, reach + 1)}


def convolved(first, second):
    total = {}
    for a, p in first.items():
        for b, q in second.items():
            total[a + b] = total.get(a + b, 0) + p * q
    return total


@pytest.mark.oracle
def test_a_sum_of_three_laplace_numbers_has_the_convolved_law():
    law = exact_laplace(Fraction(3, 2), 40)
    expected = convolved(convolved(law, law), law)
    total = NoiseSum.of([Laplace(1.5)] * 3)
    k = np.arange(0, 25)
    found = total.log_mass(k) - total.log_mass(np.zeros(1))
    assert found == pytest.approx([math.log(expected[i] / expected[0]) for i in k], abs=1e-9)


SUMS = {
    "20 rounded normals": [RoundedGaussian(1.0)] * 20,
    "20 Laplace": [Laplace(2.0)] * 20,
    "wide": [Laplace(1000.0)] * 3 + [Laplace(300.0)],
    "many": [Laplace(5.0)] * 1000,
    "mixed": [DiscreteGaussian(3.0)] * 4 + [Laplace(8.0)],
    "wide normals": [RoundedGaussian(900.0)] * 7,
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_have_their_deviation_and_the_whole_probability(name):
    laws = SUMS[name]
    total = NoiseSum.of(laws)
    assert total.deviation == pytest.approx(math.sqrt(sum(law.deviation**2 for law in laws)), rel=1e-12)
    step = max(1.0, total.deviation / 100)
    k = np.arange(1, math.ceil(total.reach(40) / step)) * step
    mass = np.exp(total.log_mass(k) - total.log_mass(np.zeros(1)))
    variance = 2 * mass @ k**2 / (1 + 2 * mass.sum())
    assert math.sqrt(variance) == pytest.approx(total.deviation, rel=1e-6)


def test_twenty_rounded_normals_of_deviation_1_are_no_rounded_normal_of_deviation_root_20():
    total = NoiseSum.of([RoundedGaussian(1.0)] * 20)
    assert total.deviation == pytest.approx(4.655, abs=5e-4)
    assert RoundedGaussian(math.sqrt(20)).deviation == pytest.approx(4.481, abs=5e-4)


def test_beyond_its_table_a_law_goes_on_falling():
    total = NoiseSum.of([Laplace(2.0)] * 2)
    far = np.array([100.0, 200.0, 400.0])
    falls = np.diff(total.log_mass(far)) / np.diff(far)
    assert falls == pytest.approx([-0.5, -0.5], abs=0.02)
    assert total.log_mass(np.array([total.reach(60)])) - total.log_mass(np.zeros(1)) == pytest.approx(-60, abs=1)


def test_a_weight_is_the_ratio_of_two_masses():
    total = NoiseSum.of([Laplace(2.0), Laplace(3.0)])
    s, z, anchor = np.array([4.0]), np.array([9.0]), np.array([7.0])
    difference = total.log_mass(np.array([5.0])) - total.log_mass(np.array([2.0]))
    assert total.log_weight(s, z, anchor) == pytest.approx(difference)
