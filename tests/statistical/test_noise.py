"""Every sampler has the law it claims, tested on 100,000 draws.

False alarms: a law is rejected at p < 1e-7, where p comes from the chi-squared, binomial, Kolmogorov or normal
limit. The limits are rough so far out, so the rate we state is at most 1e-6 for each test. The same sample must be
rejected at 0.9 and 1.1 times its scale, and so must the samples of broken samplers.

The oracles are closed forms, and share no code with the samplers.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats
from seeded_noise import SeededNoise

from vestry.noise import SystemNoise

DRAWS = 100_000
REJECT = 1e-7
LEAST_EXPECTED = 10
SCALES = [0.5, 10 / 3, 200.0]
LATTICES = [(0.5, 0), (3.0, -2), (200.0, 5), (1e-3, -12)]  # (scale, exponent)
SOURCES = {"system": SystemNoise, "seeded": lambda: SeededNoise(11)}

each_source = pytest.mark.parametrize("source", SOURCES)
each_scale = pytest.mark.parametrize("scale", SCALES, ids="scale={:.3g}".format)
each_lattice = pytest.mark.parametrize(("scale", "exponent"), LATTICES, ids=str)
off_scale = pytest.mark.parametrize("factor", [0.9, 1.1])


# Oracles: P(k) for k = -reach .. reach, beyond which both tails together have less than 1e-12


def laplace_law(scale):
    reach = math.ceil(30 * scale)
    k = np.arange(-reach, reach + 1)
    return k, math.tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale)


def gaussian_law(scale):
    reach = math.ceil(8 * scale) + 1
    k = np.arange(-reach, reach + 1)
    # The sum of exp(-k^2 / (2 scale^2)) over the integers, by Poisson's summation formula.
    images = math.fsum(2 * math.exp(-2 * (math.pi * scale * j) ** 2) for j in range(1, 20))
    return k, np.exp(-((k / scale) ** 2) / 2) / (scale * math.sqrt(2 * math.pi) * (1 + images))


LAWS = {"discrete_laplace": laplace_law, "discrete_gaussian": gaussian_law}
each_law = pytest.mark.parametrize("name", LAWS)


@each_law
@pytest.mark.parametrize("scale", [*SCALES, 0.45, 0.55, 2.0])
def test_oracle_sums_to_one_and_has_the_ratios_of_its_law(name, scale):
    k, mass = LAWS[name](scale)
    power = {"discrete_laplace": 1 / scale, "discrete_gaussian": 1 / (2 * scale**2)}[name]
    assert math.fsum(mass) == pytest.approx(1, abs=1e-12)
    assert mass[k == 1] / mass[k == 0] == pytest.approx(math.exp(-power), rel=1e-12)


# Tests of fit


def fit(sample, law):
    """Return the p-value of a sample of integers: chi-squared over all cells, and the mass at 0 alone."""
    k, mass = law
    counts = np.bincount(np.clip(sample, k[0], k[-1]) - k[0], minlength=len(k))
    expected = len(sample) * mass
    cells = np.floor((np.cumsum(expected) - expected / 2) / LEAST_EXPECTED).astype(int)
    observed, predicted = (merged(cells, what) for what in (counts, expected))
    statistic = ((observed - predicted) ** 2 / predicted).sum()
    overall = stats.chi2.sf(statistic, len(observed) - 1)
    at_zero = stats.binomtest(int(counts[k == 0][0]), len(sample), float(mass[k == 0][0])).pvalue
    return min(1, 2 * min(overall, at_zero))


def merged(cells, what):
    """Sum over runs of neighbours, joined until each run expects enough."""
    return np.array([part.sum() for part in np.split(what, np.flatnonzero(np.diff(cells)) + 1)])
