"""The price of showing which values occur, against the law of what is shown, written out for every pair of neighbours.

A threshold one too low is refuted by the same enumeration.
"""

from __future__ import annotations

import math

import discovery_law as law
import pytest
from mpmath import mp, mpf

from vestry.errors import ConversionError
from vestry.privacy import accountant, discovery_cost
from vestry.privacy.event import compose
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP
from vestry.privacy.pld import PLDAccountant
from vestry.privacy.pricing import event

pytestmark = pytest.mark.oracle
EPSILONS = (0.0, 0.1, 0.4, 0.7, 1.0, 1.6, 2.5, 6.0)


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(50):
        yield


def worst(noise: law.Law, threshold: int, pairs, epsilon: float, *, least: int = 1) -> mpf:
    """Return the largest delta over pairs of tables of counts."""
    return max(
        law.delta(*([law.shown(n, noise, threshold, least=least) for n in side] for side in pair), epsilon)
        for pair in pairs
    )


def neighbours(universe: int, units: int, values: int, relation: str) -> set:
    """Return the pairs of counts of every two neighbouring tables, whichever unit comes, goes or changes."""
    found = set()
    for table in law.tables(universe, units, values):
        others = law.tables(universe, 1, values)
        for (unit,) in others:
            second = (*table[1:], unit) if relation == "replace" else (*table, unit)
            pair = law.counts(table, universe), law.counts(second, universe)
            if pair[0] != pair[1]:
                found.add(pair)
    return found


@pytest.mark.parametrize(
    ("universe", "units", "values", "relation", "moved"),
    [(1, 4, 1, "add-remove", 1), (2, 4, 1, "add-remove", 1), (2, 3, 2, "add-remove", 2), (2, 4, 1, "replace", 2)],
)
@pytest.mark.parametrize(("scale", "margin"), [(1.0, 2), (0.6, 3), (2.5, 3)])
@pytest.mark.parametrize(
    "noise",
    [
        "laplace",
        pytest.param("gaussian", marks=pytest.mark.long),
        pytest.param("rounded-gaussian", marks=pytest.mark.long),
    ],
)
def test_no_neighbours_exceed_the_price(universe, units, values, relation, moved, scale, margin, noise):
    """Every table of a few units over a few values, and every neighbour of it, both ways."""
    price = event(f"discovery-{noise}", scale=scale, margin=margin, values=moved)
    pairs = neighbours(universe, units, values, relation)
    assert max(sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in pairs) == moved
    for epsilon in EPSILONS:
        truth = worst(law.NOISES[noise](scale, margin), margin + 1, pairs, epsilon)
        assert accountant.delta(price, epsilon) >= truth


@pytest.mark.parametrize("moved", [1, 2, 3])
@pytest.mark.parametrize(("scale", "margin"), [(1.0, 2), (0.6, 3), (2.5, 4), (0.3, 2)])
def test_laplace_is_exact(moved, scale, margin):
    """A unit that moves large counts attains the profile at every epsilon: randomised response, and a failure."""
    noise, large = law.laplace(scale, margin), 3 * margin + 2
    price = event("discovery-laplace", scale=scale, margin=margin, values=moved)
    pair = (large,) * moved, (large + 1,) * moved
    mixed = (large, *(large + 1,) * (moved - 1)), (large + 1, *(large,) * (moved - 1))
    for epsilon in (*EPSILONS, moved / scale, moved / scale * (1 - 1e-9)):
        for each in (pair, mixed):
            truth = worst(noise, margin + 1, [each], epsilon)
            assert float(truth) == pytest.approx(accountant.delta(price, epsilon), rel=1e-9, abs=1e-300)
            assert accountant.delta(price, epsilon) >= truth
    failure = 1 - (1 - noise[margin]) ** moved
    assert float(failure) == pytest.approx(accountant.failure(price), rel=1e-11)
    assert accountant.failure(price) >= failure
    assert accountant.pure(price) >= mpf(moved) / mpf(repr(scale))


@pytest.mark.parametrize("moved", [1, 2])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.5, 1e-2), (2.0, 1e-4)])
def test_a_threshold_one_too_low_is_refuted(moved, epsilon, delta):
    """What the calibrated margin keeps, one less does not: neither by neighbours that begin to occur."""
    scale, margin = moved / epsilon, 1
    while accountant.delta(event("discovery-laplace", scale=scale, margin=margin, values=moved), epsilon) > delta:
        margin += 1
    noise, new = law.laplace(scale, margin), [((0,) * moved, (1,) * moved)]
    assert worst(noise, margin + 1, new, epsilon) <= delta
    assert worst(noise, margin, new, epsilon) > delta  # the same noise, shown from one less on
    shorter = law.laplace(scale, margin - 1)
    assert worst(shorter, margin, new, epsilon) > delta  # less noise, and the threshold that goes with it


@pytest.mark.parametrize("least", [1, 2, 5])
def test_what_fewer_than_least_hold_is_subtracted_and_not_free(least):
    """Not to look at values below `least` is free if the threshold rises with it, and a breach if it does not."""
    scale, margin, epsilon = 1.0, 4, 1.0
    price = accountant.delta(event("discovery-laplace", scale=scale, margin=margin, values=1), epsilon)
    noise = law.laplace(scale, margin)
    pairs = [((n,), (n + 1,)) for n in range(12)]
    assert worst(noise, margin + least, pairs, epsilon, least=least) <= price
    if least > 1:
        assert worst(noise, margin + 1, pairs, epsilon, least=least) > price


@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 10.0, 1000.0])
@pytest.mark.parametrize(("scale", "margin", "moved"), [(1.0, 3, 1), (0.5, 3, 3), (4.0, 6, 2)])
def test_renyi_is_the_divergence_where_nothing_fails(order, scale, margin, moved):
    """Of the noisy counts that both datasets can have, by its definition; counts of other values add."""
    noise, a = law.laplace(scale, margin), mpf(repr(order))
    both = [(noise[k], noise[k - 1]) for k in range(1 - margin, margin + 1)]
    kept = mp.fsum(p for p, _ in both)
    truth = moved * mp.log(mp.fsum((p / kept) ** a * (q / kept) ** (1 - a) for p, q in both)) / (a - 1)
    price = accountant.renyi(event("discovery-laplace", scale=scale, margin=margin, values=moved), order)
    assert truth <= price
    assert float(truth) == pytest.approx(price, rel=1e-9)


@pytest.mark.parametrize(("scale", "moved"), [(1.0, 1), (0.5, 3), (4.0, 2)])
def test_other_definitions_have_their_closed_forms(scale, moved):
    """Counts of other values add: v copies of randomised response, or of normal noise, where nothing fails."""
    epsilon = 1 / mpf(repr(scale))
    laplace = event("discovery-laplace", scale=scale, margin=9, values=moved)
    gaussian = event("discovery-gaussian", scale=scale, margin=9, values=moved)
    rounded = event("discovery-rounded-gaussian", scale=scale, margin=9, values=moved)
    mu = 2 * mp.sqrt(2) * mp.erfinv(mp.tanh(epsilon / 2))  # 2 Phi^-1(e^epsilon / (1 + e^epsilon))
    for price, truth in (
        (accountant.rho(laplace), moved * epsilon**2 / 2),
        (accountant.squared_mu(laplace), moved * mu**2),
        (accountant.rho(gaussian), moved * epsilon**2 / 2),
        (accountant.renyi(gaussian, 3.0), 3 * moved * epsilon**2 / 2),
        (accountant.renyi(gaussian, 1.5), mpf(1.5) * moved * epsilon**2 / 2),
        (accountant.rho(rounded), moved * epsilon**2 / 2),
        (accountant.squared_mu(rounded), moved * epsilon**2),
        (accountant.renyi(rounded, 3.0), 3 * moved * epsilon**2 / 2),
    ):
        assert float(truth) == pytest.approx(float(price), rel=1e-9)
        assert mpf(float(price)) >= truth * (1 - mpf(10) ** -15)


@pytest.mark.parametrize(("scale", "margin"), [(0.7, 3), (3.0, 12), (25.0, 120), (40.0, 180), (40.0, 300)])
def test_the_tail_of_gaussian_noise_is_not_underestimated(scale, margin):
    weights = [mp.exp(-(mpf(k) ** 2) / (2 * mpf(repr(scale)) ** 2)) for k in range(int(60 * scale))]
    truth = mp.fsum(weights[margin:]) / (2 * mp.fsum(weights) - 1)
    found = discovery_cost.gaussian_tail(scale=scale, margin=margin)
    assert truth <= found <= truth * (1 + (1e-9 if scale <= 30 else 0.02))


@pytest.mark.parametrize("scale", [0.2, 0.7, 3.0, 25.0, 1e4, 1e9])
@pytest.mark.parametrize("deviations", [0.5, 1, 3.3, 9, 20, 36])
def test_the_tail_of_a_rounded_normal_is_exact(scale, deviations):
    margin = max(1, round(deviations * scale))
    truth = mp.ncdf(-(mpf(margin) - mpf(1) / 2) / mpf(repr(scale)))
    tail = discovery_cost.rounded_gaussian_tail(scale=scale, margin=margin)
    assert truth <= tail
    assert tail <= truth * (1 + mpf(10) ** -11) or tail < 1e-300


def test_the_threshold_of_a_rounded_normal_is_read_off_its_tail():
    """One value: delta at epsilon is Phi(-(m - 1/2)/s) and the Gaussian profile apart from it."""
    made = event("discovery-rounded-gaussian", scale=5.0, margin=24, values=1)
    failure = mp.ncdf(-mpf(47) / 10)
    profile = mp.ncdf(mpf(1) / 10 - 5) - mp.exp(1) * mp.ncdf(-mpf(1) / 10 - 5)
    assert accountant.failure(made) == pytest.approx(float(failure), rel=1e-11)
    assert accountant.delta(made, 1.0) == pytest.approx(float(failure + (1 - failure) * profile), rel=1e-9)
    lower = event("discovery-rounded-gaussian", scale=5.0, margin=23, values=1)
    assert accountant.delta(lower, 1.0) > 1.5 * accountant.delta(made, 1.0)


def test_tails_beyond_all_floats_stay_above_0():
    tails = (discovery_cost.laplace_tail, discovery_cost.gaussian_tail, discovery_cost.rounded_gaussian_tail)
    for tail in tails:
        assert 0 < tail(scale=1.0, margin=10_000) < 1e-300
    assert discovery_cost.gaussian_tail(scale=100.0, margin=50) == 1  # the bound needs a margin above the scale


def test_many_values_are_bounded():
    """Beyond 100,000 values the profile is that of the sum of epsilons, which is not below it."""
    price = event("discovery-laplace", scale=1e7, margin=10**9, values=200_000)
    fewer = event("discovery-laplace", scale=1e7, margin=10**9, values=100_000)
    assert accountant.delta(price, 0.005) >= accountant.delta(fewer, 0.005)
    assert accountant.delta(price, 0.02) == pytest.approx(accountant.failure(price), rel=1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "rounded-gaussian"])
@pytest.mark.parametrize("like", [PureDP(1), RenyiDP(2, 1), ZCDP(1), GaussianDP(1)], ids=str)
def test_there_is_no_price_without_a_delta(noise, like):
    made = event(f"discovery-{noise}", scale=2, margin=30, values=1)
    assert accountant.amount(made, like) == math.inf
    with pytest.raises(ConversionError, match="only \\(epsilon, delta\\) allows that"):
        accountant.price(made, like)


def test_composed_with_other_releases_its_failure_is_added_once():
    made, other = event("discovery-laplace", scale=2, margin=30, values=1), event("pure", epsilon=0.3)
    both = compose(made, other)
    assert accountant.failure(both) == accountant.failure(made)
    assert accountant.epsilon(both, 1e-6) <= 0.8 * (1 + 1e-9)
    # The exact composition is never above the sum, and never below the failure.
    assert accountant.failure(made) <= PLDAccountant(both).delta(0.8) <= accountant.delta(both, 0.8) * (1 + 1e-6)
    assert accountant.meets(both, ApproxDP(0.8, 1e-6))
