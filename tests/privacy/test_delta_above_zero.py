"""A delta whose true value is above 0 is above 0, however small, and at the sum of epsilons deltas miss one another.

Truths are written out in mpmath, whose numbers have no least one above 0. Compositions are enumerated over the outputs
of two worst-case mechanisms.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from vestry import Event, compose, events
from vestry.numerics import SLACK, SMALLEST, above_zero, any_of, outward
from vestry.privacy import accountant
from vestry.privacy import profile as profiles
from vestry.privacy.pld import PLDAccountant
from vestry.privacy.pricing import PRICINGS

pytestmark = pytest.mark.oracle
EPSILONS = [0.0, 5e-324, 1e-9, 0.3, 1.0, 7.0, 38.0, 40.0, 300.0, 709.0, 746.0, 1e3, 1e5, 1e10, 1e150]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def normal(epsilon: float, mu) -> mpf:
    """Return the profile of two normals mu apart, by their distribution functions; more digits than they cancel."""
    e, m = mpf(epsilon), mpf(mu)
    u = (e / m - m / 2) / mp.sqrt(2)
    v = (e / m + m / 2) / mp.sqrt(2)
    with mp.workdps(400):
        return (mp.erfc(u) - mp.exp(e) * mp.erfc(v)) / 2


def coins(epsilon: float, total, failure=0) -> mpf:
    gap = mp.exp(mpf(total)) - mp.exp(mpf(epsilon))
    return failure + (1 - failure) * max(mpf(0), gap) / (1 + mp.exp(mpf(total)))


def two_sided_geometric(epsilon: float, sensitivity: int, scale: float) -> mpf:
    """Return the sum over outputs; those beyond both centres have one ratio and a closed sum."""
    q = mp.exp(-1 / mpf(scale))
    weight = (1 - q) / (1 + q)
    factor = mp.exp(mpf(epsilon))
    between = [max(mpf(0), weight * (q**k - factor * q ** (sensitivity - k))) for k in range(1, sensitivity)]
    below = max(mpf(0), (1 - factor * q**sensitivity) / (1 + q))
    return below + mp.fsum(between)


# The truth, or what no valid bound is below: a Gaussian mechanism is mu^2/2-zCDP.
TRUTHS = {
    "laplace": (
        events.laplace(sensitivity=40.0, scale=1.0),
        lambda e: 1 - mp.exp((mpf(e) - 40) / 2) if e < 40 else mpf(0),
    ),
    "discrete-laplace": (
        events.discrete_laplace(sensitivity=40, scale=1.0),
        lambda e: two_sided_geometric(e, 40, 1.0) if e < 40 else mpf(0),
    ),
    "gaussian": (events.gaussian(sensitivity=1.0, scale=1.0), lambda e: normal(e, 1)),
    "rounded-gaussian": (events.rounded_gaussian(sensitivity=1.0, scale=50.0), lambda e: normal(e, mpf("0.02"))),
    "gdp": (events.gdp(mu=0.3), lambda e: normal(e, mpf("0.3"))),
    "gdp, large": (events.gdp(mu=30.0), lambda e: normal(e, 30)),
    "gdp, composed": (events.gdp(mu=1.0).times(4), lambda e: normal(e, 2)),
    "zcdp": (events.zcdp(rho=0.5), lambda e: normal(e, 1)),
    "discrete-gaussian": (events.discrete_gaussian(sensitivity=1.0, scale=1.0), lambda e: normal(e, 1)),
    "zcdp and laplace": (
        compose(events.zcdp(rho=0.5), events.laplace(sensitivity=1.0, scale=1.0)),
        lambda e: normal(e, 1),
    ),
    "pure": (events.pure(epsilon=40.0), lambda e: coins(e, 40)),
    "pure, composed": (events.pure(epsilon=8.0).times(5), lambda e: mp.exp(mpf(8)) ** 5 / (1 + mp.exp(mpf(8))) ** 5
                       * (1 - mp.exp(mpf(e) - 40)) if e < 40 else mpf(0)),
    "approximate": (events.approximate(epsilon=1.0, delta=1e-300), lambda e: coins(e, 1, mpf("1e-300"))),
    "exponential": (
        events.exponential(epsilon=40.0),
        lambda e: mp.expm1((mpf(e) - 40) / 2) ** 2 / (1 - mp.exp(mpf(-40))) if e < 40 else mpf(0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("epsilon", [*EPSILONS, math.nextafter(40.0, 0.0), 40.0 - 1e-9])
@pytest.mark.parametrize("name", TRUTHS)
def test_delta_is_not_below_its_true_value(name, epsilon):
    mechanism, truth = TRUTHS[name]
    least = truth(epsilon)
    price = accountant.delta(mechanism, epsilon)
    assert mpf(price) >= least
    assert (price > 0) or least == 0


ALWAYS = {
    **{name: TRUTHS[name][0] for name in TRUTHS if name not in ("laplace", "discrete-laplace", "exponential")},
    "renyi": events.renyi(orders=(2.0, 8.0), epsilons=(0.1, 0.5)),
    "gibbs": events.gibbs(likelihood_power=0.5, sensitivity=1.0, strong_convexity=20.0),
    "langevin": events.langevin(
        sensitivity=1.0, strong_convexity=1.0, smoothness=2.0, step_sizes=(0.1,), steps=(5,), slacks=(1e-3,), start=0.0
    ),
    "conjugate-draw, beta": events.conjugate_draw(betas=[(3.0, 5.0, 1.0)]),
    "conjugate-draw, gamma": events.conjugate_draw(gammas=[(3.0, 1.0)]),
    "conjugate-draw, wide": events.conjugate_draw(betas=[(1e6, 1e6, 2.0)]),
    "rate-draw": events.rate_draw(shape=2.0, ratio=1.5),
    "discovery-laplace": events.discovery_laplace(scale=1.0, margin=10_000, values=1),
    "discovery-gaussian": events.discovery_gaussian(scale=1.0, margin=200, values=1),
    "discovery-rounded-gaussian": events.discovery_rounded_gaussian(scale=1.0, margin=200, values=1),
    **{
        kind: events.event(kind, lipschitz=1.0, smoothness=0.25, regularisation=2.0, scale=3.0, records=records)
        for kind in PRICINGS
        for records in (1, 3)
        if kind.startswith("objective")
    },
}
NEVER = ("pure", "pure, composed")


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", [name for name in ALWAYS if name not in NEVER])
def test_where_no_loss_is_bounded_delta_is_never_zero(name, epsilon):
    assert 0 < accountant.delta(ALWAYS[name], epsilon) <= 1


def test_every_kind_is_tried():
    tried = {mechanism.kind for mechanism, _ in TRUTHS.values()} | {mechanism.kind for mechanism in ALWAYS.values()}
    assert set(PRICINGS) - {"profile"} <= tried | {"composition"}


@pytest.mark.parametrize("mu", [5e-324, 1e-300, 1e-9, 1e9, 1e300])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_any_two_normals_can_be_told_apart(mu, epsilon):
    assert profiles.gaussian(epsilon, mu=mu) > 0


def test_the_profile_of_normals_falls_where_doubles_end():
    values = [profiles.gaussian(0.01 * i, mu=1.0) for i in range(3700, 4000)]
    assert all(one >= other > 0 for one, other in itertools.pairwise(values))
    assert values[-1] == SMALLEST
    assert accountant.epsilon(events.gdp(mu=1.0), 1e-320) == pytest.approx(38.5, abs=0.5)


@pytest.mark.parametrize("sensitivity", [2, 3, 10, 40])
@pytest.mark.parametrize("scale", [0.3, 0.7, 1.0, 3.0, 10.0, 1 / 3])
def test_integer_noise_at_the_losses_of_its_outputs(sensitivity, scale):
    """Where epsilon is one of the privacy losses, or next to it, rounding may miscount the outputs that exceed it."""
    mechanism = events.discrete_laplace(sensitivity=sensitivity, scale=scale)
    for k in range((sensitivity + 1) // 2):
        loss = (sensitivity - 2 * k) / scale
        for epsilon in (math.nextafter(loss, 0), loss, math.nextafter(loss, math.inf)):
            truth = two_sided_geometric(epsilon, sensitivity, scale)
            price = accountant.delta(mechanism, epsilon)
            assert mpf(price) >= truth * (1 - mpf(10) ** -15)
            assert mpf(price) <= truth * (1 + mpf(10) ** -9) + mpf(10) ** -13


# --- deltas that are composed -----------------------------------------------------------------------------------------


def worst_outputs(epsilon: float, delta: float) -> list[tuple[mpf, mpf]]:
    """Return the outputs of the worst mechanism of this guarantee: their probabilities for two neighbours."""
    e, d = mpf(str(epsilon)), mpf(str(delta))
    more = (1 - d) * mp.exp(e) / (1 + mp.exp(e))
    less = (1 - d) / (1 + mp.exp(e))
    return [(d, mpf(0)), (more, less), (less, more), (mpf(0), d)]


def enumerated(parts: list[tuple[float, float]], epsilon: float) -> mpf:
    """Return the largest difference over the outputs of all parts together."""
    outputs = [(mpf(1), mpf(1))]
    for part in parts:
        outputs = [(p * a, q * b) for p, q in outputs for a, b in worst_outputs(*part)]
    return mp.fsum(max(mpf(0), p - mp.exp(mpf(epsilon)) * q) for p, q in outputs)


def approximates(parts: list[tuple[float, float]]) -> Event:
    return compose(*(events.approximate(epsilon=epsilon, delta=delta) for epsilon, delta in parts))


@pytest.mark.parametrize(
    "parts",
    [
        [(1.0, 0.1), (2.0, 0.2)],
        [(0.5, 0.3)] * 4,
        [(1.0, 0.1), (1.5, 1e-9), (0.5, 1e-300)],
        [(0.25, 0.9), (0.25, 0.99)],
        [(0.5, 1e-6)] * 5,
    ],
)
def test_at_the_sum_of_epsilons_deltas_compose_as_chances_do(parts):
    total = sum(epsilon for epsilon, _ in parts)
    truth = enumerated(parts, total)
    for price in (
        accountant.delta(approximates(parts), total),
        float(accountant.failure(approximates(parts))),
        PLDAccountant(approximates(parts), interval=1e-3).delta(total),
    ):
        assert mpf(price) >= truth * (1 - mpf(10) ** -16)
        assert mpf(price) <= truth * (1 + mpf(10) ** -9)


def test_two_deltas_compose_to_less_than_their_sum():
    assert accountant.delta(approximates([(1.0, 0.1), (2.0, 0.2)]), 3.0) == pytest.approx(0.28, rel=1e-9)
    assert accountant.epsilon(approximates([(1.0, 0.1), (2.0, 0.2)]), 0.2801) == pytest.approx(3.0, abs=1e-3)


@pytest.mark.parametrize("count", [1, 2, 32, 33, 1000, 10**9])
@pytest.mark.parametrize("chance", [Fraction(1, 10), Fraction(1, 10**300), 0.3, 1e-320, 1 - 2**-53])
def test_the_chance_of_any_is_rounded_up(chance, count):
    with mp.workdps(400):
        truth = -mp.expm1(count * mp.log1p(-mpf(Fraction(chance).numerator) / Fraction(chance).denominator))
        price = any_of([(chance, count)])
        assert mpf(Fraction(price).numerator) / Fraction(price).denominator >= truth * (1 - mpf(10) ** -300)
    assert price <= min(1, count * chance)


def test_the_chance_of_any_of_none_and_of_a_certain_one():
    assert any_of([]) == 0
    assert any_of([(Fraction(0), 5)]) == 0
    assert any_of([(0.5, 1), (1.0, 2)]) == 1


def test_what_is_enlarged_stays_zero_or_rises_even_below_the_normal_doubles():
    assert outward(0.0) == 0.0
    assert above_zero(0.0) == SMALLEST
    assert outward(1.0) == 1 + SLACK
    assert outward(SMALLEST) > SMALLEST
