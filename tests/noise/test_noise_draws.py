"""Every sampler has the law it claims, tested on 100,000 draws.

False alarms: a law is rejected at p < 1e-8, where p comes from the chi-squared, Kolmogorov or normal limit, or from
the binomial law. So far out the limits are rough. The worst is the chi-squared with 5 cells of which the rarest expects
26: 7 alarms in 2e7 simulated samples. So the rate we state is at most 1e-6 for each test. The same sample must be
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
from share import cases

from vestry.noise import SystemNoise

pytestmark = pytest.mark.statistical

DRAWS = 100_000
REJECT = 1e-8
LEAST_EXPECTED = 25
SCALES = [0.5, 10 / 3, 200.0]
LATTICES = [(0.5, 0), (3.0, -2), (200.0, 5), (1e-3, -12)]  # (scale, exponent)
SOURCES = {"system": SystemNoise, "seeded": lambda: SeededNoise(11)}

each_source = pytest.mark.parametrize("source", SOURCES)
each_scale = pytest.mark.parametrize("scale", cases(SCALES, quick=[10 / 3]), ids="scale={:.3g}".format)
each_lattice = pytest.mark.parametrize(("scale", "exponent"), cases(LATTICES, quick=[(3.0, -2)]), ids=str)
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


def rounded_law(scale):
    reach = math.ceil(8 * scale) + 1
    cuts = stats.norm.cdf((np.arange(-reach, 1) - 0.5) / scale)
    below = np.diff(cuts)  # of -reach .. -1, in the lower tail
    return np.arange(-reach, reach + 1), np.concatenate([below, [1 - 2 * cuts[-1]], below[::-1]])


LAWS = {"discrete_laplace": laplace_law, "discrete_gaussian": gaussian_law, "rounded_gaussian": rounded_law}
each_law = pytest.mark.parametrize("name", LAWS)
each_discrete_law = pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian"])


@each_discrete_law
@pytest.mark.parametrize("scale", [*SCALES, 0.45, 0.55, 2.0])
def test_oracle_sums_to_one_and_has_the_ratios_of_its_law(name, scale):
    k, mass = LAWS[name](scale)
    power = {"discrete_laplace": 1 / scale, "discrete_gaussian": 1 / (2 * scale**2)}[name]
    assert math.fsum(mass) == pytest.approx(1, abs=1e-12)
    assert mass[k == 1] / mass[k == 0] == pytest.approx(math.exp(-power), rel=1e-12)


# Tests of fit: each returns a p-value


def fit(sample, law):
    """Chi-squared over cells that expect enough, and the mass at 0 alone; the smaller p, doubled."""
    k, mass = law
    counts = np.bincount(np.clip(sample, k[0], k[-1]) - k[0], minlength=len(k))
    expected = len(sample) * mass
    starts = cell_starts(expected)
    observed, predicted = np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
    overall = stats.chi2.sf(((observed - predicted) ** 2 / predicted).sum(), len(starts) - 1)
    at_zero = stats.binomtest(int(counts[k == 0][0]), len(sample), float(mass[k == 0][0])).pvalue
    return min(1.0, 2 * min(overall, at_zero))


def cell_starts(expected):
    """Join neighbours until each cell expects enough; what is left over joins the last cell."""
    starts, total = [0], 0.0
    for index, each in enumerate(expected):
        total += each
        if total >= LEAST_EXPECTED:
            starts.append(index + 1)
            total = 0.0
    return starts[:-1]


def correlation(first, second):
    """The normal limit of the correlation coefficient."""
    return 2 * stats.norm.sf(abs(np.corrcoef(first, second)[0, 1]) * math.sqrt(len(first)))


def independence(sample):
    """Neighbours within a call, and the two calls that made the sample; the smaller p, doubled."""
    half = len(sample) // 2
    return 2 * min(correlation(sample[:-1], sample[1:]), correlation(sample[:half], sample[half:]))


def test_cells_expect_enough_and_cover_everything():
    expected = 1000 * laplace_law(3.0)[1]
    in_cells = np.add.reduceat(expected, cell_starts(expected))
    assert in_cells.min() >= LEAST_EXPECTED
    assert in_cells.sum() == pytest.approx(expected.sum())


# Samples: the noise alone, from two calls on values that differ


@cache
def integer_sample(source, name, scale):
    noise = SOURCES[source]()
    values = np.arange(DRAWS // 2) % 1001 - 500
    return np.concatenate([getattr(noise, name)(values.tolist(), scale=scale) - values for _ in range(2)])


@cache
def lattice_sample(source, scale, exponent):
    """The noise in units of the lattice."""
    noise, step = SOURCES[source](), 2.0**exponent
    values = (np.arange(DRAWS // 2) % 7 - 3) * 0.37 * step
    noisy = [noise.lattice_gaussian(values.tolist(), scale=scale, exponent=exponent) for _ in range(2)]
    units = np.concatenate([np.array(each) / step - np.floor(values / step + 0.5) for each in noisy])
    assert (units == np.rint(units)).all()
    return units.astype(np.int64)


# Discrete noise on integers


@each_source
@each_law
@each_scale
@pytest.mark.long
def test_integer_noise_has_its_law(source, name, scale):
    assert fit(integer_sample(source, name, scale), LAWS[name](scale)) > REJECT


@each_source
@each_law
@each_scale
@off_scale
@pytest.mark.long
def test_integer_noise_has_not_the_law_of_another_scale(source, name, scale, factor):
    assert fit(integer_sample(source, name, scale), LAWS[name](factor * scale)) < REJECT


@each_source
@each_law
@each_scale
@pytest.mark.long
def test_integer_noise_is_drawn_afresh_for_each_value(source, name, scale):
    assert independence(integer_sample(source, name, scale)) > REJECT


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_oracle_of_a_rounded_normal_sums_to_one_and_has_its_variance(scale):
    k, mass = rounded_law(scale)
    assert math.fsum(mass) == pytest.approx(1, abs=1e-12)
    # Of the density on cells of width 1, up to a part e^(-2 pi^2 scale^2).
    assert mass @ k**2 == pytest.approx(scale**2 + 1 / 12, rel=5 * math.exp(-2 * (math.pi * scale) ** 2) + 1e-12)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("discrete_laplace", "discrete_gaussian"),
        ("discrete_gaussian", "discrete_laplace"),
        ("rounded_gaussian", "discrete_laplace"),
    ],
)
@each_scale
@pytest.mark.long
def test_laplace_is_not_gaussian(name, other, scale):
    assert fit(integer_sample("system", name, scale), LAWS[other](scale)) < REJECT


@pytest.mark.parametrize(
    ("name", "other"), [("rounded_gaussian", "discrete_gaussian"), ("discrete_gaussian", "rounded_gaussian")]
)
@pytest.mark.long
def test_the_rounded_normal_is_not_the_discrete_one(name, other):
    assert fit(integer_sample("system", name, 0.5), LAWS[other](0.5)) < REJECT


# Gaussian noise on a lattice


@each_source
@each_lattice
@pytest.mark.long
def test_lattice_noise_has_its_law(source, scale, exponent):
    assert fit(lattice_sample(source, scale, exponent), gaussian_law(scale / 2.0**exponent)) > REJECT


@each_source
@each_lattice
@off_scale
@pytest.mark.long
def test_lattice_noise_has_not_the_law_of_another_scale(source, scale, exponent, factor):
    assert fit(lattice_sample(source, scale, exponent), gaussian_law(factor * scale / 2.0**exponent)) < REJECT


@each_source
@each_lattice
@pytest.mark.long
def test_lattice_noise_is_drawn_afresh_for_each_value(source, scale, exponent):
    assert independence(lattice_sample(source, scale, exponent)) > REJECT


# Bulk streams and bytes


BULK = {
    "uniform": (lambda stream: stream.random(DRAWS), stats.uniform),
    "normal": (lambda stream: stream.standard_normal(DRAWS), stats.norm),
}
each_bulk = pytest.mark.parametrize(("draw", "law"), BULK.values(), ids=BULK)


@each_source
@each_bulk
def test_bulk_draws_have_their_law(source, draw, law):
    sample = draw(SOURCES[source]().stream())
    assert stats.kstest(sample, law.cdf).pvalue > REJECT
    for factor in (0.9, 1.1):
        assert stats.kstest(sample, law(scale=factor).cdf).pvalue < REJECT
    assert correlation(sample[:-1], sample[1:]) > REJECT


@each_source
@each_bulk
def test_two_streams_of_one_noise_are_independent(source, draw, law):
    noise = SOURCES[source]()
    assert correlation(draw(noise.stream()), draw(noise.stream())) > REJECT


def byte_fit(data):
    return stats.chisquare(np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)).pvalue


@each_source
def test_bytes_are_uniform(source):
    data = SOURCES[source]().random_bytes(DRAWS)
    assert byte_fit(data) > REJECT
    assert byte_fit(bytes(byte | 1 for byte in data[:10_000]) + data[10_000:]) < REJECT


# Broken twins: each is a mistake that has been made, and each is caught


def halved_scale(noise, name, scale):
    return np.array(getattr(noise, name)([0] * DRAWS, scale=scale / 2))


def averaged(noise, name, scale):
    twice = [np.array(getattr(noise, name)([0] * DRAWS, scale=scale)) for _ in range(2)]
    return sum(twice) // 2


def rounded_continuous(noise, name, scale):
    stream = noise.stream()
    draw = {"discrete_laplace": stream.laplace, "discrete_gaussian": stream.normal}[name]
    return np.rint(draw(scale=scale, size=DRAWS)).astype(int)


def signed_geometric(noise, scale):
    """Laplace noise with both zeros, +0 and -0, kept: 0 comes up twice as often as it should."""
    stream = noise.stream()
    size = stream.geometric(-math.expm1(-1 / scale), size=DRAWS) - 1
    return size * stream.choice([-1, 1], size=DRAWS)


@each_law
@each_scale
@pytest.mark.parametrize("broken", [halved_scale, averaged])
def test_too_little_noise_is_caught(name, scale, broken):
    assert fit(broken(SeededNoise(5), name, scale), LAWS[name](scale)) < REJECT


@each_scale
def test_the_two_zeros_of_a_signed_geometric_are_caught(scale):
    assert fit(signed_geometric(SeededNoise(6), scale), laplace_law(scale)) < REJECT


@each_discrete_law
def test_continuous_noise_rounded_is_caught(name):
    assert fit(rounded_continuous(SeededNoise(7), name, 0.5), LAWS[name](0.5)) < REJECT


@pytest.mark.parametrize("stale", [lambda s: np.repeat(s[::2], 2), lambda s: np.tile(s[: DRAWS // 2], 2)])
def test_noise_used_twice_is_caught(stale):
    sample = np.array(SeededNoise(8).discrete_laplace([0] * DRAWS, scale=3.0))
    assert independence(sample) > REJECT
    assert independence(stale(sample)) < REJECT
