"""Exact draws: digits are asked for until the answer is certain, and what comes out is on the grid."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import pytest
from seeded_noise import SeededNoise

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.mechanisms.truncated_posterior import TruncatedSample
from vestry.noise import SystemNoise, exact_sampling
from vestry.noise.bits import BLOCK_BYTES, Bits, Uniform
from vestry.noise.densities import LogGamma, LogitBeta, StandardNormal
from vestry.noise.dirichlet import ScaledGammas, TiltedSimplex, WholeSimplex, choose_sampler
from vestry.noise.grid import PROBABILITY_GRID, Grid, declared_grid
from vestry.noise.log_concave import LogConcaveSampler
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.private import Private

GRID = PROBABILITY_GRID
DRAWS = {
    "beta": lambda bits: exact_sampling.beta(bits, 5.0, 8.0, grid=GRID, size=50),
    "beta, truncated": lambda bits: exact_sampling.beta(bits, 5.0, 800.0, grid=GRID, size=50, low=0.1, high=0.9),
    "beta, small": lambda bits: exact_sampling.beta(bits, 1e-3, 1e-3, grid=GRID, size=50),
    "gamma": lambda bits: exact_sampling.gamma(bits, 3.0, 0.7, grid=GRID, size=50),
    "gamma, truncated": lambda bits: exact_sampling.gamma(bits, 3.0, 0.7, grid=GRID, size=50, low=20.0, high=30.0),
    "normal": lambda bits: exact_sampling.normal(bits, -3.0, 0.7, grid=GRID, size=50),
    "dirichlet": lambda bits: exact_sampling.dirichlet(bits, (0.5, 2.0, 7.0), grid=GRID, size=20),
    "dirichlet, truncated": lambda bits: exact_sampling.dirichlet(bits, (0.5, 2.0, 7.0), grid=GRID, size=20, low=0.1),
    "dirichlet, small": lambda bits: exact_sampling.dirichlet(bits, (0.1, 0.2, 0.7), grid=GRID, size=20, low=0.1),
}
each_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


def flat(drawn: list) -> list[float]:
    return [x for row in drawn for x in (row if isinstance(row, tuple) else (row,))]


# --- bits -------------------------------------------------------------------------------------------------------------


def test_bits_are_those_of_the_noise_in_order():
    noise = SeededNoise(4)
    blocks = b"".join(noise.random_bytes(BLOCK_BYTES) for _ in range(2))
    bits = Bits(SeededNoise(4))
    counts = [1, 7, 96, 0, 8 * BLOCK_BYTES - 200, 500]
    together = 0
    for count in counts:
        taken = bits.take(count)
        assert 0 <= taken < 1 << count
        together = together << count | taken
    assert together == int.from_bytes(blocks, "big") >> (16 * BLOCK_BYTES - sum(counts))
    assert repr(bits) == "Bits()"


def test_a_uniform_keeps_the_digits_it_has():
    uniform, balls = Uniform(Bits(SeededNoise(5))), []
    for precision in (10, 20, 500, 30):
        with flint.ctx.workprec(2000):
            balls.append(uniform.ball(precision))
    assert balls[0].contains(balls[1])
    assert balls[1].contains(balls[2])
    assert balls[2].mid() == balls[3].mid()
    assert [float(ball.rad()) for ball in balls[:3]] == pytest.approx([2.0**-11, 2.0**-21, 2.0**-501], rel=1e-6)


# --- the grid ---------------------------------------------------------------------------------------------------------


@each_draw
def test_every_value_is_on_the_grid(draw):
    for x in flat(draw(Bits(SystemNoise()))):
        assert (Fraction(x) / Fraction(GRID)).denominator == 1


@each_draw
def test_the_same_bits_give_the_same_draws(draw):
    first = draw(Bits(SeededNoise(9)))
    assert first == draw(Bits(SeededNoise(9)))
    assert first != draw(Bits(SeededNoise(10)))


@pytest.mark.parametrize("grid", [0.0, -0.5, 0.3, math.inf, math.nan, 1, None, True])
def test_a_grid_must_be_a_power_of_two(grid):
    with pytest.raises(InvalidParameter, match="grid must be a power of two"):
        exact_sampling.normal(Bits(SeededNoise(1)), 0.0, 1.0, grid=grid)


@pytest.mark.parametrize(
    ("unit", "grid"),
    [(1.0, 2.0**-40), (0.99, 2.0**-41), (6.0, 2.0**-38), (math.inf, 2.0**860), (1e-300, 2.0**-940)],
)
def test_a_declared_unit_is_rounded_down_to_a_power_of_two(unit, grid):
    assert declared_grid(unit) == grid


@pytest.mark.parametrize(
    ("x", "nearest"), [("0.3", 0.25), ("0.374", 0.25), ("0.376", 0.5), ("-0.3", -0.25), ("1e-50", 0.0), ("1e400", None)]
)
def test_the_nearest_multiple(x, nearest):
    found = Grid(0.25).nearest(lambda _: flint.arb(x), precision=64)
    assert found == (math.nextafter(math.inf, 0) if nearest is None else nearest)


def test_rounded_values_keep_the_truncation():
    """0.1 is no multiple of 2^-40: the value next to it is moved to the first multiple inside."""
    low = Fraction(0.1)
    grid = Grid(GRID, low, 1 - low)
    found = grid.nearest(lambda _: flint.arb(0.1), precision=96)
    assert 0 < Fraction(found) - low < Fraction(GRID)
    drawn = exact_sampling.beta(Bits(SeededNoise(2)), 1.0, 1e8, grid=2.0**-20, size=200, low=0.1, high=0.9)
    assert set(drawn) == {math.ceil(low * 2**20) / 2**20}
    rows = exact_sampling.dirichlet(Bits(SeededNoise(2)), (1e8, 1.0, 1.0), grid=2.0**-20, size=50, low=0.1)
    assert all(x >= 0.1 for row in rows for x in row)


def test_probabilities_may_round_to_zero_and_one():
    drawn = exact_sampling.beta(Bits(SeededNoise(2)), 1e-3, 1e-3, grid=GRID, size=100)
    assert {0.0, 1.0} <= set(drawn)


def test_components_add_up_to_one_within_their_steps():
    for low in (0.0, 0.1):
        for row in exact_sampling.dirichlet(Bits(SeededNoise(3)), (1.0, 2.0, 3.0, 4.0), grid=GRID, size=200, low=low):
            assert abs(sum(map(Fraction, row)) - 1) <= 4 * Fraction(GRID)


def test_extreme_parameters_come_to_an_end():
    bits = Bits(SeededNoise(6))
    for a, b in ((1e-300, 1e-300), (1e-300, 1e300), (1e300, 1e300), (5e-324, 1.0), (1e15, 1e-9)):
        assert all(0 <= x <= 1 for x in exact_sampling.beta(bits, a, b, grid=GRID, size=3))
    assert exact_sampling.gamma(bits, 1e-300, 1e-300, grid=GRID, size=3) == [0.0] * 3
    assert all(math.isfinite(x) for x in exact_sampling.gamma(bits, 1e300, 1e-300, grid=GRID, size=3))
    assert exact_sampling.normal(bits, 1e300, 1e300, grid=GRID, size=2) == [1e300] * 2
    assert all(math.isfinite(x) for x in exact_sampling.normal(bits, 0.0, 5e-324, grid=GRID, size=3))


# --- what is refused --------------------------------------------------------------------------------------------------

SECRET = -31415.926
REFUSED = {
    "alpha": lambda bits: exact_sampling.beta(bits, SECRET, 1.0, grid=GRID),
    "beta": lambda bits: exact_sampling.beta(bits, 1.0, SECRET, grid=GRID),
    "shape": lambda bits: exact_sampling.gamma(bits, SECRET, 1.0, grid=GRID),
    "rate": lambda bits: exact_sampling.gamma(bits, 1.0, SECRET, grid=GRID),
    "mean": lambda bits: exact_sampling.normal(bits, math.nan, 1.0, grid=GRID),
    "precision": lambda bits: exact_sampling.normal(bits, 1.0, SECRET, grid=GRID),
    "alpha of a dirichlet": lambda bits: exact_sampling.dirichlet(bits, (1.0, SECRET), grid=GRID),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_parameter_out_of_range_is_refused_without_showing_it(name):
    with pytest.raises(InvalidParameter, match=f"{name.split()[0]} must be a finite number") as caught:
        REFUSED[name](Bits(SeededNoise(1)))
    assert "31415" not in str(caught.value)


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.5), (0.6, 0.4), (-0.1, 0.5), (0.5, 1.1), (math.nan, 1.0)])
def test_ends_of_a_beta_out_of_order_are_refused(low, high):
    with pytest.raises(InvalidParameter, match="low and high must be 0 <= low < high <= 1"):
        exact_sampling.beta(Bits(SeededNoise(1)), 1.0, 1.0, grid=GRID, low=low, high=high)


@pytest.mark.parametrize("low", [1 / 3, 0.5, -0.1, math.nan])
def test_a_bound_that_leaves_no_simplex_is_refused(low):
    with pytest.raises(InvalidParameter, match="low must be at least 0 and below 1/3"):
        exact_sampling.dirichlet(Bits(SeededNoise(1)), (1.0, 1.0, 1.0), grid=GRID, low=low)


def test_a_dirichlet_of_one_category_is_refused():
    with pytest.raises(InvalidParameter, match="the number of alphas must be a whole number of at least 2"):
        exact_sampling.dirichlet(Bits(SeededNoise(1)), (1.0,), grid=GRID)


# --- forced ambiguity -------------------------------------------------------------------------------------------------

HELD = 700  # digits in which the crafted number agrees with the one that cannot be decided
FINE = 4000  # bits in which that one is computed


class Crafted:
    """Digits of two numbers in turn, the place and the coin, which agree with a target in their first HELD digits.

    After them come zeros (just below the target) or ones (just above it); further numbers are random.
    """

    def __init__(self, place: Fraction | int, coin: Fraction | int, after: int) -> None:
        self.numbers = [self._digits(place, after), self._digits(coin, after)]
        self.asked = [0, 0]
        self.random = Bits(SeededNoise(12))
        self.turn, self.turns = 0, []

    @staticmethod
    def _digits(number: Fraction | int, after: int) -> int | None:
        if isinstance(number, int):
            return None if number else 0
        known = math.floor(number * 2**HELD)
        return known << FINE | (2**FINE - 1 if after else 0)

    def take(self, count: int) -> int:
        which = self.turns[self.turn] if self.turn < len(self.turns) else None
        self.turn += 1
        if which is None:
            return self.random.take(count)
        digits, start = self.numbers[which], self.asked[which]
        self.asked[which] += count
        if digits is None:
            return self.random.take(count)
        return digits >> (HELD + FINE - start - count) & ((1 << count) - 1) if digits else 0


def exactly(ball) -> Fraction:
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def place_of(concave: LogConcaveSampler, y) -> Fraction:
    """Return the uniform number that puts the point at y, on the constant piece."""
    envelope = concave._envelope(FINE)
    assert y > envelope.start
    share = (envelope.left_area + y - envelope.start) / envelope.area
    assert share * envelope.area < envelope.inner_area
    return exactly(share)


DENSITIES = {
    "beta": (LogitBeta(5.0, 8.0, Fraction(0), Fraction(1)), lambda x: (x / (1 - x)).log(), Fraction(2, 5)),
    "gamma": (LogGamma(7.0, 2.0, None, None), lambda x: x.log(), Fraction(7, 2)),
    "normal": (StandardNormal(), lambda x: x, Fraction(1, 5)),
}
ROUNDED = {
    "beta": lambda bits: exact_sampling.beta(bits, 5.0, 8.0, grid=GRID),
    "gamma": lambda bits: exact_sampling.gamma(bits, 7.0, 2.0, grid=GRID),
    "normal": lambda bits: exact_sampling.normal(bits, 0.0, 1.0, grid=GRID),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_a_value_halfway_between_two_multiples_asks_for_more_digits(name):
    density, scale, about = DENSITIES[name]
    half = (math.floor(about / Fraction(GRID)) + Fraction(1, 2)) * Fraction(GRID)
    with flint.ctx.workprec(FINE):
        place = place_of(LogConcaveSampler(density), scale(flint.arb(flint.fmpq(half.numerator, half.denominator))))
    found = []
    for after in (0, 1):
        source = Crafted(place, 0, after)
        source.turns = [0, 1] + [0] * 20  # the coin 0 accepts at once; then the place is refined for the rounding
        (value,) = ROUNDED[name](source)
        assert source.asked[0] > HELD
        assert source.asked[1] < HELD
        found.append(Fraction(value))
    assert found == [half - Fraction(GRID) / 2, half + Fraction(GRID) / 2]


@pytest.mark.parametrize("name", DENSITIES)
def test_a_toss_that_cannot_be_decided_asks_for_more_digits(name):
    density, scale, about = DENSITIES[name]
    concave = LogConcaveSampler(density)
    with flint.ctx.workprec(FINE):
        y = scale(flint.arb(flint.fmpq(about.numerator, about.denominator)))
        place = place_of(concave, y)
        short = Fraction(math.floor(place * 2**HELD), 2**HELD)  # the place with all digits after the held ones 0
        envelope = concave._envelope(FINE)
        share = flint.arb(flint.fmpq(short.numerator, short.denominator))
        y = envelope.start + share * envelope.area - envelope.left_area
        chance = exactly((density.log_density(y) - envelope.top).exp())
    kept = []
    for after in (0, 1):
        source = Crafted(place, chance, after)
        source.numbers[0] = math.floor(place * 2**HELD) << FINE
        source.turns = [0, 1] * 5
        concave.draw(source)
        assert min(source.asked) > HELD
        kept.append(source.turn)
    assert kept[0] < kept[1]  # just below the chance: accepted; just above: rejected, and another point is drawn


def test_a_place_on_the_edge_of_two_pieces_asks_for_more_digits():
    concave = LogConcaveSampler(DENSITIES["beta"][0])
    with flint.ctx.workprec(FINE):
        envelope = concave._envelope(FINE)
        edges = [exactly(area / envelope.area) for area in (envelope.left_area, envelope.inner_area)]
    for edge in edges:
        for after in (0, 1):
            source = Crafted(edge, 0, after)
            source.turns = [0] * 3 + [0, 1, 0, 1]
            concave.draw(source)
            assert source.asked[0] > HELD


def test_ordinary_draws_ask_for_few_digits():
    class Counted:
        def __init__(self) -> None:
            self.bits, self.most = Bits(SeededNoise(3)), 0

        def take(self, count: int) -> int:
            self.most = max(self.most, count)
            return self.bits.take(count)

    source = Counted()
    exact_sampling.beta(source, 1e8, 2e8, grid=GRID, size=300)
    assert source.most == 96 + 28  # 2e8 < 2^28


# --- envelopes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [(0, 1), (0.1, 0.9), (0.45, 0.9), (0.01, 0.2), (0.3, 0.4)], ids=str)
@pytest.mark.parametrize("shapes", [(5.0, 8.0), (0.3, 0.7), (1.0, 1e8), (1e6, 2e6), (0.01, 300.0)], ids=str)
def test_the_envelope_is_above_the_density(shapes, ends):
    """And the area below it, by its pieces, is at most 3 times the one below the density."""
    density = LogitBeta(*shapes, *(Fraction(end) for end in ends))
    concave = LogConcaveSampler(density)
    bits = Bits(SeededNoise(8))
    chances = []
    with flint.ctx.workprec(200):
        for _ in range(300):
            y, height = concave._point(Uniform(bits), 200)
            chances.append(density.log_density(y) - concave._envelope(200).top - height)
            low, high = density.ends()
            assert low is None or not y < low
            assert high is None or not y > high
    assert not any(chance > 0 for chance in chances)
    assert sum(math.exp(float(chance)) for chance in chances) / len(chances) > 1 / 3


@pytest.mark.parametrize(
    ("alphas", "low", "way"),
    [
        ((5.0, 1.0, 1.0), 0.0, WholeSimplex),
        ((5.0, 1.0, 1.0), 0.1, TiltedSimplex),
        ((1.0, 0.5, 0.5), 0.1, TiltedSimplex),
        ((math.nextafter(1.0, 0.0), 0.5, 0.5), 0.1, ScaledGammas),
        ((1e-30, 1e-30, 0.2), 0.1, ScaledGammas),
    ],
)
def test_the_largest_alpha_decides_the_way(alphas, low, way):
    assert type(choose_sampler(alphas, Fraction(low))) is way


# --- mechanisms -------------------------------------------------------------------------------------------------------

EXACT = {
    "beta": (BetaBernoulliFamily(), (3.0, 9.0), 2.0**-40, 1),
    "dirichlet": (DirichletCategoricalFamily(3), (3.0, 9.0, 0.5), 2.0**-40, 3),
    "poisson": (GammaPoissonFamily(50), (30.0, 7.0), 2.0**-40, 1),
    "exponential": (GammaExponentialFamily(0.5, 300.0), (30.0, 700.0), 2.0**-49, 1),
    "normal": (NormalMeanFamily(4.0, -3.0, 7.0, 2), (1.0, 2.0, 9.0), 2.0**-37, 2),
    "normal, milliseconds since 1970": (NormalMeanFamily(4.0, 1.7e12, 1.7e12 + 1000), (1.7e12, 9.0), 2.0**-12, 1),
    "normal, 8 doubles": (NormalMeanFamily(0.1, 1e15, 1e15 + 1), (1e15, 9.0), 2.0**-3, 1),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_released_draw_states_its_grid(name):
    family, parameters, grid, dimension = EXACT[name]
    draws = family.exact_draws(Bits(SeededNoise(1)), [Fraction(x) for x in parameters], 5)
    assert draws.grid == grid
    assert [len(row) for row in draws.values] == [dimension] * 5
    assert all((Fraction(x) / Fraction(grid)).denominator == 1 for row in draws.values for x in row)


def test_a_posterior_without_an_exact_sampler_is_refused():
    with pytest.raises(GuaranteeUnreachable, match="an exact draw of normal-inverse-gamma cannot be reached"):
        NormalInverseGammaFamily(0.0, 1.0).exact_draws(Bits(SeededNoise(1)), [Fraction(1)] * 4, 1)


class Leave:
    def take(self) -> None:
        pass


class BytesOnly(SeededNoise):
    """A noise whose streams of doubles are refused."""

    def stream(self):
        raise AssertionError("a released draw asked for doubles")

    def random_bytes(self, count):
        return self._rng.bytes(count)


def test_releases_are_made_of_bits_alone():
    guarantee, adjacency = Guarantee.parse("epsilon=1"), Adjacency("replace", 1, 100)
    for family, numbers, sums in (
        (BetaBernoulliFamily(), (6, 12), [38, 100]),
        (DirichletCategoricalFamily(3), (1, 2, 3), [20, 30, 50, 100]),
    ):
        prior = family.prior(numbers)
        plain = PosteriorSample("diffused", family, prior, adjacency, 0.5, 1.0, 2, guarantee)
        cut = TruncatedSample(family, prior, adjacency, 0.1, 2.5, 2, guarantee)
        for made in (plain, cut):
            (draws,) = made.release(Private(sums), Leave(), BytesOnly(4))
            assert draws.grid == GRID
            assert len(draws.values) == 2
        assert all(x >= 0.1 for row in draws.values for x in row)
