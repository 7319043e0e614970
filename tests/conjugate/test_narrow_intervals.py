"""Draws and noise over intervals far from 0, against exact arithmetic: what runs is within what is claimed.

The oracle reads the very parameters that the samplers are handed, and computes in fractions and with 60 digits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from mpmath import erfc, exp, mp, mpf, sqrt
from seeded_noise import SeededNoise

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.data.table import Table
from vestry.errors import InvalidParameter
from vestry.mechanisms import posterior_sample, truncated_posterior
from vestry.mechanisms.additive_noise import GAUSSIAN, LAPLACE, calibrate_noise
from vestry.mechanisms.release import calibrate_mechanism
from vestry.noise import exact_sampling
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.domain import Interval
from vestry.schema.private import Private, reveal
from vestry.schema.statistics import Product, Sum, SumQuery

pytestmark = pytest.mark.oracle

FAR = {
    "milliseconds since 1970": (1.7e12, 1.7e12 + 1000),
    "microseconds since 1970": (1.7e15, 1.7e15 + 1e6),
    "1e15 to 1e15 + 1": (1e15, 1e15 + 1),
    "below 0": (-1.7e12 - 1000, -1.7e12),
    "thirds": (1e9 + 1 / 3, 1e9 + 1000 / 7),
    "near 0": (0.1, 0.7),
}
N = 10_000_000


def phi(x):
    return erfc(-x / sqrt(mpf(2))) / 2


def gaussian_delta(epsilon, mu):
    """Return Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    return phi(mu / 2 - epsilon / mu) - exp(epsilon) * phi(-mu / 2 - epsilon / mu)


class Leave:
    def take(self) -> None:
        pass


@pytest.fixture
def handed(monkeypatch):
    """The parameters that each exact sampler is handed; nothing is drawn."""
    seen = []

    def record(dimension):
        def sampler(bits, *parameters, size=1, **options):
            seen.append(tuple(parameters[0]) if dimension == "rows" else parameters)
            return [(0.5,) * len(parameters[0])] * size if dimension == "rows" else [0.5] * size

        return sampler

    for name, dimension in (("normal", ""), ("gamma", ""), ("beta", ""), ("dirichlet", "rows")):
        monkeypatch.setattr(exact_sampling, name, record(dimension))
    return seen


def parameters_of(handed, mechanism, statistics):
    handed.clear()
    mechanism.release(Private(statistics), Leave(), SeededNoise(1))
    return list(handed)


def fraction(x) -> mpf:
    top, bottom = Fraction(x).as_integer_ratio()
    return mpf(top) / mpf(bottom)


def true_mu(handed, mechanism, first, second):
    """Return the distance of two normals of one precision in their standard deviations."""
    here, there = parameters_of(handed, mechanism, first), parameters_of(handed, mechanism, second)
    assert {Fraction(precision) for _, precision in here + there} == {Fraction(here[0][1])}
    squares = sum((fraction(a) - fraction(b)) ** 2 for (a, _), (b, _) in zip(here, there, strict=True))
    return sqrt(squares * fraction(here[0][1]))


def claimed_mu(mechanism) -> Fraction:
    (single,) = (value for name, value in mechanism.event.parameters if name == "mu")
    return Fraction(single)


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("kind", ["diffused", "concentrated"])
def test_a_draw_of_a_far_mean_keeps_its_promise(name, kind, handed):
    """Neighbours among ten million records: delta in 60 digits is at most the 1e-6 that was asked for."""
    low, high = FAR[name]
    width = high - low
    family = NormalMeanFamily((width / 4) ** 2, low, high)
    guarantee = Guarantee.parse("epsilon=1e-4,delta=1e-6")
    adjacency = Adjacency("replace", 1, N)
    made = calibrate_mechanism(kind, family, family.prior((low, width**2)), adjacency, guarantee)
    half, worst = 2**19, mpf(0)
    rng = np.random.default_rng(1)
    with mp.workdps(60):
        for start in [-half * N, 0, half * (N - 2), *(int(x) for x in rng.integers(-half * N // 2, half * N // 2, 20))]:
            mu = true_mu(handed, made, (start, N), (start + 2 * half, N))
            worst = max(worst, mu)
        assert worst <= fraction(claimed_mu(made))
        assert worst >= fraction(claimed_mu(made)) * (1 - mpf(10) ** -9)  # and the claim is tight
        assert gaussian_delta(mpf("1e-4"), worst) <= mpf("1e-6")


def test_the_twin_whose_sums_are_doubles_is_caught(handed, monkeypatch):
    """Rounded to doubles of the size of n x middle, two neighbours are much further apart than one record."""

    def rounded(family, prior, sums, count, **scales):
        member = family.update(prior, [float(x) for x in sums], count, **scales)
        return *member.location, member.precision

    low, high = FAR["milliseconds since 1970"]
    family = NormalMeanFamily(1.0, low, high)
    guarantee = Guarantee.parse("epsilon=0.5,delta=1e-6")
    made = calibrate_mechanism("diffused", family, family.prior((low, 1e6)), Adjacency("replace", 1, N), guarantee)
    monkeypatch.setattr(NormalMeanFamily, "exact_parameters", rounded)
    half = 2**19
    with mp.workdps(60):
        starts = [int(x) for x in np.random.default_rng(2).integers(-half * N // 2, half * N // 2, 200)]
        worst = max(true_mu(handed, made, (x, N), (x + 2 * half, N)) for x in starts)
        assert gaussian_delta(mpf("0.5"), worst) > mpf("1e-3")


def test_random_intervals_of_every_ratio_of_width_to_place(handed):
    """Widths from 1 to 1e-16 of the middle: the exact distance is within the claim, or the interval is refused."""
    rng, kept, refused = np.random.default_rng(3), 0, 0
    guarantee = Guarantee.parse("epsilon=0.5,delta=1e-6")
    for _ in range(150):
        place = float(10.0 ** rng.uniform(-6, 15) * rng.choice([-1, 1]))
        low, high = place, place + abs(place) * float(10.0 ** rng.uniform(-16, 0.5))
        if not low < high:
            continue
        n, d = int(10 ** rng.uniform(1, 8)), int(rng.integers(1, 4))
        family = NormalMeanFamily((high - low) ** 2 * float(rng.uniform(0.01, 1)), low, high, d)
        prior = family.prior((float(rng.normal()) * place, (high - low) ** 2 * 100))
        try:
            made = calibrate_mechanism("diffused", family, prior, Adjacency("replace", 1, n), guarantee)
        except InvalidParameter:
            refused += 1
            continue
        half = 2**19
        starts = [int(x) for x in rng.integers(-half * n // 2, half * n // 2, d)]
        with mp.workdps(60):
            mu = true_mu(handed, made, (*starts, n), (*(x + 2 * half for x in starts), n))
            assert mu <= fraction(claimed_mu(made))
        kept += 1
    assert kept > 80
    assert refused > 20


@pytest.mark.parametrize("ends", [(1.7e12, 1.7e12 + 1000), (1e15, 1e15 + 1), (0.5, 300.0)], ids=str)
def test_a_draw_of_a_far_rate_keeps_its_promise(ends, handed):
    """The ratio of two neighbours' rates, exactly, is at most that of the event, also where it is 1 in doubles."""
    family = GammaExponentialFamily(*ends)
    adjacency = Adjacency("replace", 1, N)
    made = calibrate_mechanism(
        "diffused", family, family.prior((2.0, 1.0)), adjacency, Guarantee.parse("epsilon=1,delta=1e-6")
    )
    ((_, rate),) = parameters_of(handed, made, (-(2**19) * N, N))
    ((_, larger),) = parameters_of(handed, made, (-(2**19) * (N - 2), N))
    stated = dict(made.event.parameters)["ratio"]
    assert 1 < Fraction(larger) / Fraction(rate) <= Fraction(stated)


@pytest.mark.parametrize("strength", [1.0, 1e6, 1e12])
def test_one_record_moves_a_strong_prior_by_exactly_its_weight(strength, handed):
    adjacency = Adjacency("replace", 1, 1000)
    guarantee = Guarantee.parse("epsilon=0.01,delta=1e-9")
    beta = BetaBernoulliFamily()
    made = calibrate_mechanism("diffused", beta, beta.prior((strength / 3, strength)), adjacency, guarantee)
    thin = replace(made, likelihood_power=0.123456789)
    ((alpha, other),) = parameters_of(handed, thin, (500, 1000))
    ((next_alpha, next_other),) = parameters_of(handed, thin, (501, 1000))
    assert Fraction(next_alpha) - Fraction(alpha) == Fraction(0.123456789)
    assert Fraction(other) - Fraction(next_other) == Fraction(0.123456789)


def test_a_truncated_draw_is_tempered_exactly(handed):
    """With 1e9 records a double of alpha is coarser than 1e-7 of what one record adds at temperature 1000."""
    family, adjacency = DirichletCategoricalFamily(3), Adjacency("replace", 1, 10**9)
    guarantee, prior = Guarantee.parse("epsilon=0.001"), family.prior((1, 1, 1))
    made = truncated_posterior.ops(family, prior, adjacency, guarantee, truncation=0.01)
    power = Fraction(1 / made.temperature)
    (first,) = parameters_of(handed, made, (4 * 10**8, 5 * 10**8, 10**8, 10**9))
    (second,) = parameters_of(handed, made, (4 * 10**8 + 1, 5 * 10**8 - 1, 10**8, 10**9))
    assert [Fraction(y) - Fraction(x) for x, y in zip(first, second, strict=True)] == [power, -power, 0]
    with mp.workdps(40):
        span = 2 * mp.log((1 - 2 * fraction(0.01)) / fraction(0.01)) * fraction(power)
        assert span <= mpf("0.001")


def random_intervals(rng, size):
    for _ in range(size):
        place = float(10.0 ** rng.uniform(-6, 15) * rng.choice([-1, 1]))
        low, high = place, place + abs(place) * float(10.0 ** rng.uniform(-16, 0.5))
        if low < high:
            yield low, high


def contributions(low, high, points):
    """Return what records at these places add in doubles: y and y^2 in units of 2^-19 of the reach."""
    middle, reach = (low + high) / 2, (high - low) / 2
    step = reach / 2**19
    values = sorted({low, high, *(min(max(low + p * (high - low), low), high) for p in points)})
    return [
        (math.floor((x - middle) / step + 0.5), math.floor((x - middle) * (x - middle) / (reach * step) + 0.5))
        for x in values
    ]


def test_squares_on_narrow_intervals_are_within_their_sensitivity():
    """Every pair of records around the worst places, in the doubles that the query uses; or the interval is refused."""
    rng, kept, refused = np.random.default_rng(4), 0, 0
    worst = [0.0, 0.25, 0.75, 1.0]
    populations = [Adjacency("replace", 1, 9), Adjacency("replace", 1), Adjacency("add-remove")]
    odd = [(2.0**42, 2.0**42 + (2 * int(m) + 1) * math.ulp(2.0**42)) for m in 2.0 ** rng.uniform(18, 24, 200)]
    for low, high in [*random_intervals(rng, 400), *odd]:
        try:
            made = [NormalInverseGammaFamily(low, high).layout(adjacency) for adjacency in populations]
        except InvalidParameter:
            refused += 1
            continue
        near = [p + float(rng.normal()) * s for p in worst for s in (0, 1e-7, 1e-6, 1e-3)]
        points = contributions(low, high, near)
        assert all(abs(u) <= 2**19 and 0 <= v <= 2**19 for u, v in points)
        pairs = [(abs(a - c), abs(b - d)) for a, b in points for c, d in points]
        for each in made[:2]:
            assert max(u + v for u, v in pairs) <= each.l1
            assert max(u * u + v * v for u, v in pairs) <= Fraction(each.l2) ** 2
        assert max(abs(u) + v for u, v in points) + 2**17 <= made[2].l1
        kept += 1
    assert kept > 200
    assert refused > 60


def test_an_interval_whose_squares_reach_beyond_the_grid_is_refused():
    """Its middle is rounded by 4e-7 of the width: sums stay inside, and the square of one end would not."""
    low = 2.0**42
    high = low + (5 * 2**18 + 1) * math.ulp(low)
    NormalMeanFamily(1.0, low, high).layout(Adjacency("add-remove"))
    with pytest.raises(InvalidParameter, match="wide enough for doubles to tell its values apart"):
        NormalInverseGammaFamily(low, high).layout(Adjacency("add-remove"))


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.long
def test_noise_is_never_a_unit_in_the_last_place_too_small(relation):
    """In fractions: sensitivity/scale <= epsilon, and sensitivity^2/(2 scale^2) <= rho, scale the double that runs."""
    rng = np.random.default_rng(5)
    for low, high in random_intervals(rng, 150):
        d, k = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        adjacency = Adjacency(relation, k)
        try:
            made = NormalMeanFamily(1.0, low, high, d).layout(adjacency)
        except InvalidParameter:
            continue
        half = 2**19
        # From nothing: k records at one end, and their count in units of 1/half; or from one end to the other.
        l1 = k * half * max(d + 1, 2 * d if relation == "replace" else 0)
        squared = (k * half) ** 2 * max(d + 1, 4 * d if relation == "replace" else 0)
        epsilon, rho = (float(f"{10.0 ** rng.uniform(-4, 2):.15g}") for _ in range(2))
        laplace = calibrate_noise(LAPLACE, made, adjacency, Guarantee.parse(f"epsilon={epsilon!r}"))
        assert Fraction(l1) / Fraction(laplace.scale) <= Fraction(repr(epsilon))
        gaussian = calibrate_noise(GAUSSIAN, made, adjacency, Guarantee.parse(f"rho={rho!r}"))
        assert Fraction(squared) / (2 * Fraction(gaussian.scale) ** 2) <= Fraction(repr(rho))


@pytest.mark.parametrize(("noise", "text"), [(LAPLACE, "epsilon=0.7"), (GAUSSIAN, "rho=0.7")])
def test_large_sensitivities_are_not_rounded_down(noise, text):
    """Grids so fine that a record spans more units than doubles can count; some are refused for that."""
    kept = 0
    for grid in np.random.default_rng(6).uniform(1e-17, 1e-16, 60):
        adjacency = Adjacency("replace", 3, 100)
        try:
            made = NormalMeanFamily(1.0, 0.0, 1.0, 2).layout(adjacency, grid=float(grid))
        except InvalidParameter:
            continue
        kept += 1
        scale = Fraction(calibrate_noise(noise, made, adjacency, Guarantee.parse(text)).scale)
        width = 2 * math.ceil(0.5 / float(grid))
        spent = Fraction(3 * 2 * width) / scale if noise == LAPLACE else Fraction(9 * 2 * width**2) / (2 * scale**2)
        assert spent <= Fraction(7, 10)
    assert kept > 5


@pytest.mark.parametrize("name", FAR)
@pytest.mark.long
def test_the_query_counts_both_ends_within_the_grid(name):
    """Through DuckDB: records at the ends, between and beyond them, and none, add at most half of the width."""
    low, high = FAR[name]
    grid, middle = NormalMeanFamily(1.0, low, high).layout(Adjacency("add-remove")).grid, (low + high) / 2
    pair = Product(("x", "x"), (middle, middle), (high - low) / 2 * grid * 2)
    tally = SumQuery((), (Sum("x", middle, grid), pair))
    for value in (low, high, middle, low - 1e6, high + 1e6, math.inf, -math.inf, math.nan, low + (high - low) / 3):
        table = Table(pd.DataFrame({"x": [value]}), {"x": Interval(low, high)}, neighbours="add-remove")
        total, square = reveal(table.collect(tally, row_key=""))
        assert abs(total) <= 2**19
        assert 0 <= square <= 2**18
        if value in (low, high):
            assert abs(total) >= 2**19 - 1


def test_an_interval_that_doubles_cannot_say_is_refused_before_the_charge():
    """Three doubles wide: the middle is none of them, and there is no grid from it to both ends."""
    family = NormalMeanFamily(1.0, 1e15, 1e15 + 0.375)
    with pytest.raises(InvalidParameter, match="wide enough for doubles to tell its values apart"):
        posterior_sample.diffused(
            family, family.prior((0, 1)), Adjacency("replace", 1, 10), Guarantee.parse("epsilon=1,delta=1e-6")
        )
