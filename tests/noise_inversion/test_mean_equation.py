"""Means and variances from noisy sums: published numbers, an oracle by scanning the definition, and coverage."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from vestry.noise_inversion.mean_equation import MeanEquation, contrast, total_of_partition
from vestry.noise_inversion.variance_equation import (
    bernstein_coefficients,
    variance_from_moments,
    variance_from_partition,
)

Z = norm.isf(0.05)
PARTITIONS = {
    (30, 12, 5, 8): (0.1276247744, 0.3355077186),
    (20, -1, -3, 8): (0.0, 0.1557723078),
    (0, 1, 40, 8): (0.8641408502, 1.0),
    (-5, -3, -4, 8): (0.0, 0.8674854093),
    (40, 0, 0, 8): (0.0, 0.1282140766),
    (490, 420, 90, 2): (0.2981615893, 0.3022315196),
}


def ends(interval):
    return [interval.lower, interval.upper]


@pytest.mark.oracle
@pytest.mark.parametrize(("sums", "expected"), PARTITIONS.items())
def test_intervals_of_a_partition_have_the_published_ends(sums, expected):
    assert ends(MeanEquation.of_partition(*sums).interval()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.oracle
def test_other_purchases_and_readings_have_the_published_numbers():
    first = MeanEquation.of_partition(30, 12, 5, 8)
    second = MeanEquation.of_partition(20, 20, 12, 8)
    without_ends = MeanEquation.of_partition(30, 12, 5, 8, added=0.0)
    public = MeanEquation.of_public_count(100, -40, 30, 8)
    sphere = MeanEquation.of_sphere(36, 11, 6, 16)
    assert first.estimate() == pytest.approx(0.2340425532, abs=1e-9)
    assert ends(without_ends.interval()) == pytest.approx([0.1207427081, 0.3302177303], abs=1e-9)
    assert ends(public.interval()) == pytest.approx([0.2417993814, 0.3621610146], abs=1e-9)
    assert ends(sphere.interval()) == pytest.approx([0.0989568988, 0.3586092074], abs=1e-9)
    quantiles = first.quantiles([0.1586552539, 0.25, 0.75, 0.8413447461])
    assert quantiles == pytest.approx([0.1754731679, 0.1973609554, 0.2793019276, 0.2980931403], abs=1e-9)
    assert ends(second.interval()) == pytest.approx([0.3367716073, 0.5085162745], abs=1e-9)
    assert ends(contrast(first, second)) == pytest.approx([-0.3255064418, -0.0558285618], abs=1e-9)
    for lower, value, width in ((0, 440, 208.0593551502), (10, 800, 224.3281262931)):
        total = total_of_partition(30, 12, 5, 8, lower, 40)
        assert [total.value, Z * total.sd] == pytest.approx([value, width], abs=1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (variance_from_partition(30, 12, 5, 8), (0.0552840180, 0.0, 0.1354160336)),
        (variance_from_partition(1640, 320, 40, 2), (0.0100055297, 0.0070782643, 0.0139976544)),
        (variance_from_moments((1300, 500, 140, 40, 20), 2), (None, 0.0141636644, 0.0195479423)),
        (variance_from_moments((20, 14, 8, 4, 3), 8), (None, 0.0039763277, 0.1141481061)),
    ],
)
def test_variances_have_the_published_numbers(found, expected):
    estimate, *interval = expected
    assert ends(found.interval) == pytest.approx(interval, abs=1e-9)
    if estimate is not None:
        assert found.value == pytest.approx(estimate, abs=1e-9)


def scanned_interval(square, product, remainder, variance):
    """Return the hull of the definition's set, on a fine grid, for an estimate inside [0, 1]."""
    m = np.linspace(0, 1, 400_001)
    score = (1 - m) * (remainder + 0.5) + (0.5 - m) * product - m * (square + 0.5)
    spread = (1 - m) ** 2 * remainder - m * (1 - m) * product + m**2 * square
    noise = variance * ((1 - m) ** 2 + (0.5 - m) ** 2 + m**2) + 0.5 * ((1 - m) ** 2 + m**2)
    inside = m[score**2 <= Z**2 * (np.maximum(spread, 0) + noise)]
    return [inside.min(), inside.max()]


@pytest.mark.oracle
def test_roots_are_where_a_scan_of_the_definition_finds_them():
    rng = np.random.default_rng(11)
    compared = 0
    for sums in rng.normal(20, 15, (200, 3)):
        equation = MeanEquation.of_partition(*sums, 8)
        if equation.cut_off is None:
            assert ends(equation.interval()) == pytest.approx(scanned_interval(*sums, 8), abs=5e-6)
            compared += 1
    assert compared > 100


def test_quantiles_and_intervals_agree_and_draws_follow_them():
    equation = MeanEquation.of_partition(30, 12, 5, 8)
    assert equation.quantiles([0.05, 0.95]) == pytest.approx(ends(equation.interval()), abs=1e-9)
    draws = equation.sample(20_000, np.random.default_rng(2))
    # Shares below three quantiles, within 4.9 standard errors: by chance once in a million.
    for probability in (0.1, 0.5, 0.9):
        share = np.mean(draws < equation.quantile(probability))
        assert abs(share - probability) < 4.9 * math.sqrt(probability * (1 - probability) / 20_000)


def test_an_estimate_outside_is_cut_off_and_a_count_near_zero_says_little():
    outside = MeanEquation.of_partition(20, -1, -3, 8)
    assert outside.cut_off is not None
    assert outside.interval().lower == 0
    assert outside.interval().upper == pytest.approx(outside.quantile(0.9), abs=1e-9)
    little = MeanEquation.of_partition(-5, -3, -4, 8)
    assert little.says_little
    assert little.estimate() == little.quantile(0.5)
    assert not MeanEquation.of_partition(30, 12, 5, 8).says_little


@pytest.mark.parametrize("records", [1e4, 1e6, 1e9, 1e12])
def test_intervals_of_many_records_are_as_narrow_as_their_noise(records):
    f = 0.3
    sums = [records * (1 - f) ** 2, records * 2 * f * (1 - f), records * f * f]
    noisy = np.array(sums) + np.array([0.7, -0.4, 0.9])
    interval = MeanEquation.of_partition(*noisy, 8).interval()
    # Constant values: the spread is 0, and the score has the noise alone.
    deviation = math.sqrt(8 * (0.7**2 + 0.2**2 + 0.3**2) + 0.5 * (0.7**2 + 0.3**2))
    expected = 2 * Z * deviation / records
    assert expected * 0.99 < interval.width < expected * 1.6
    assert interval.lower < f < interval.upper


def test_mirrored_sums_give_mirrored_intervals():
    for square, product, remainder, variance in PARTITIONS:
        interval = MeanEquation.of_partition(square, product, remainder, variance).interval()
        mirrored = MeanEquation.of_partition(remainder, product, square, variance).interval()
        assert ends(mirrored) == pytest.approx([1 - interval.upper, 1 - interval.lower], abs=1e-9)


def test_bernstein_coefficients_give_the_polynomial_back():
    monomials = [0.3, -1.2, 0.7, 2.0, -0.4]
    coefficients = bernstein_coefficients(monomials)
    for t in (0.0, 0.2, 0.7, 1.0):
        terms = [math.comb(4, k) * t**k * (1 - t) ** (4 - k) for k in range(5)]
        direct = sum(factor * t**power for power, factor in enumerate(monomials))
        assert np.dot(terms, coefficients) == pytest.approx(direct, abs=1e-12)


TWINS = {
    "the variance b^2 of Laplace noise, not 2 b^2": (30, 12, 5, 4),
    "the product read as the sum of s f": (30, 6, 5, 8),
    "no noise": (30, 12, 5, 0),
}


@pytest.mark.parametrize("twin", TWINS)
def test_plausible_mistakes_have_other_ends(twin):
    expected = PARTITIONS[30, 12, 5, 8]
    found = ends(MeanEquation.of_partition(*TWINS[twin]).interval())
    assert abs(found[0] - expected[0]) + abs(found[1] - expected[1]) > 0.005


LAWS = {
    "constant": lambda rng, n: np.full(n, 0.3),
    "rare large values": lambda rng, n: np.where(rng.uniform(size=n) < 3 / n, 1.0, 0.05),
    "two points": lambda rng, n: rng.choice([0.2, 0.9], n, p=[0.7, 0.3]),
    "spikes at an end": lambda rng, n: np.where(rng.uniform(size=n) < 0.5, 0.0, rng.beta(2, 2, n)),
    "skew": lambda rng, n: np.minimum(rng.exponential(0.1, n), 1.0),
    "both ends": lambda rng, n: rng.choice([0.0, 1.0], n, p=[0.85, 0.15]),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "narrow": lambda rng, n: rng.beta(60, 30, n),
}


def true_mean(law, n):
    if law == "rare large values":
        return 0.05 + 0.95 * 3 / n
    if law == "skew":
        return 0.1 * (1 - math.exp(-10))
    return {
        "constant": 0.3,
        "two points": 0.41,
        "spikes at an end": 0.25,
        "both ends": 0.15,
        "uniform": 0.5,
        "narrow": 2 / 3,
    }[law]


def covers(law, n, epsilon, noise, rng):
    """Return whether one study's interval holds the mean of the population."""
    f = LAWS[law](rng, n)
    s = 1 - f
    scale = 1 / epsilon
    if noise == "laplace":
        sums = np.array([(s * s).sum(), (2 * s * f).sum(), (f * f).sum()]) + rng.laplace(0, scale, 3)
        equation = MeanEquation.of_partition(*sums, 2 * scale**2)
    else:
        sums = np.array([s.sum(), f.sum(), math.sqrt(8) * (s * f).sum()]) + rng.normal(0, scale, 3)
        equation = MeanEquation.of_sphere(sums[0], sums[1], sums[2] / math.sqrt(8), scale**2)
    interval = equation.interval()
    return interval.lower <= true_mean(law, n) <= interval.upper


def coverage(studies):
    rng = np.random.default_rng(7)
    cells = {}
    for law in LAWS:
        for n in (20, 100, 500, 2000):
            for epsilon in (0.3, 1, 3):
                for noise in ("laplace", "gaussian"):
                    hits = [covers(law, n, epsilon, noise, rng) for _ in range(studies)]
                    cells[law, n, epsilon, noise] = np.mean(hits)
    return cells


@pytest.mark.long
def test_intervals_cover_the_mean_whatever_the_law():
    cells = coverage(200)
    # 38,400 studies: their mean has a standard error below .002; a cell of 200 one of .024.
    assert 0.90 <= np.mean(list(cells.values())) <= 0.94
    lowest = min(cells, key=cells.get)
    assert cells[lowest] >= 0.87 - 4.9 * math.sqrt(0.87 * 0.13 / 200), lowest
