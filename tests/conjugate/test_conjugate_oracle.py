"""Published and 40-digit numbers for draws from conjugate posteriors, reached through calibration."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from share import cases

from vestry.conjugate.beta_bernoulli import Beta, BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.draw_cost import order_limit
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.numerics import largest
from vestry.privacy import accountant
from vestry.privacy import profile as profiles
from vestry.privacy.accountant import largest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ApproxDP, Guarantee, RenyiDP
from vestry.privacy.neighbours import Adjacency

pytestmark = pytest.mark.oracle

# Beta(6, 12), n = 100 records of which 38 are successes, replace: theory.md, section 2, by 40-digit arithmetic.
FAMILY, COUNT = BetaBernoulliFamily(), 100
PRIOR, PUBLIC = FAMILY.prior((6, 12)), Adjacency("replace", count=COUNT)
TRUTH = FAMILY.update(PRIOR, (38,), COUNT)


def diffused(power: float) -> Event:
    return FAMILY.worst_draw(PRIOR, PUBLIC, likelihood_power=power)


def concentrated(scale: float) -> Event:
    return FAMILY.worst_draw(PRIOR, PUBLIC, prior_scale=scale)


def test_true_posterior():
    assert Beta(44, 74) == TRUTH


def test_renyi_of_a_direct_draw():
    assert accountant.renyi(diffused(1), 2) == pytest.approx(0.191290226776715, rel=1e-9)
    assert accountant.renyi(diffused(1), 15) == math.inf


def test_order_15_needs_a_power_below_6_14():
    """lambda* = 1 + 6/r: order 15 is finite for r < 6/14 only."""
    assert accountant.renyi(diffused(6 / 14), 15) == math.inf
    assert accountant.renyi(diffused(6 / 14 * (1 - 1e-9)), 15) < math.inf


@pytest.mark.parametrize(
    ("order", "epsilon", "power", "kl_power", "scale", "kl_scale"),
    [
        (2, 0.01, 0.217470774607, 0.237963776878, 0.0437795548202, 1.90896778927),
        (2, 1, 1, 0, 1, 0),
        (15, 0.1, 0.227873408741, 0.22813087429, 0.057827452467, 1.29313837903),
    ],
)
def test_calibration_to_renyi(order, epsilon, power, kl_power, scale, kl_scale):
    guarantee = RenyiDP(order, epsilon)
    r, m = (largest_parameter(draw, guarantee, at_most=1) for draw in (diffused, concentrated))
    assert r == pytest.approx(power, rel=1e-9)
    assert m == pytest.approx(scale, rel=1e-9)
    assert accountant.renyi(diffused(r), order) <= epsilon
    assert accountant.renyi(concentrated(m), order) <= epsilon
    near = FAMILY.update(PRIOR, (38,), COUNT, likelihood_power=r), FAMILY.update(PRIOR, (38,), COUNT, prior_scale=m)
    assert TRUTH.kl(near[0]) == pytest.approx(kl_power, rel=1e-9)
    assert TRUTH.kl(near[1]) == pytest.approx(kl_scale, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.03739622944), (1, 0.005116727392), (2, 3.619173558e-5)])
def test_exact_delta_of_a_direct_draw(epsilon, delta):
    assert accountant.delta(diffused(1), epsilon) == pytest.approx(delta, rel=1e-9)


def test_calibration_to_epsilon_and_delta_is_exact():
    """Ten digits are printed, so half a unit of the last one is allowed."""
    guarantee = ApproxDP(1, 1e-5)
    assert largest_parameter(diffused, guarantee, at_most=1) == pytest.approx(0.4777923084, abs=5e-11)
    assert largest_parameter(concentrated, guarantee, at_most=1) == pytest.approx(0.2956377687, abs=5e-11)


def test_the_renyi_route_allows_less():
    def through_renyi(power: float) -> bool:
        curve = diffused(power)
        return profiles.from_renyi(1, curve=lambda order: float(accountant.renyi(curve, order))) <= 1e-5

    power = largest(through_renyi, low=0.1, high=1)
    assert power == pytest.approx(0.411876, abs=5e-7)
    assert largest_parameter(diffused, ApproxDP(1, 1e-5), at_most=1) > 1.15 * power


@pytest.mark.parametrize("guarantee", [RenyiDP(2, 0.01), RenyiDP(15, 0.1), ApproxDP(1, 1e-5), ApproxDP(0.5, 1e-3)])
@pytest.mark.parametrize("draw", [diffused, concentrated])
def test_a_larger_parameter_breaks_the_guarantee(draw, guarantee: Guarantee):
    found = largest_parameter(draw, guarantee, at_most=1)
    assert accountant.meets(draw(found), guarantee)
    assert not accountant.meets(draw(found * (1 + 1e-9)), guarantee)


# --- lambda* ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("adjacency", ["public", "private", "add-remove"])
def test_order_limit_is_where_the_draw_becomes_infinite(adjacency, rows):
    described = {
        "public": Adjacency("replace", rows=rows, count=10),
        "private": Adjacency("replace", rows=rows),
        "add-remove": Adjacency("add-remove", rows=rows),
    }[adjacency]
    two, three = BetaBernoulliFamily(), DirichletCategoricalFamily(3)
    for family, prior in ((two, two.prior((6, 2.5))), (three, three.prior((4, 2.5, 7)))):
        limit = family.order_limit(prior, described, likelihood_power=0.5, prior_scale=0.25)
        assert limit == pytest.approx(1 + 2.5 / 0.25 / (0.5 * rows), rel=1e-14)
        event = family.worst_draw(prior, described, likelihood_power=0.5, prior_scale=0.25)
        assert order_limit(**dict(event.parameters)) == pytest.approx(limit, rel=1e-14)
        assert accountant.renyi(event, limit * (1 - 1e-9)) < math.inf
        assert accountant.renyi(event, limit * (1 + 1e-9)) == math.inf


# --- normal mean -----------------------------------------------------------------------------------------------------

NORMALS = {
    "direct": (NormalMeanFamily(4, -1, 3), (0.5, 2), 30, 1, 1.0, 1.0),
    "diffused": (NormalMeanFamily(0.7, 0, 1), (0, 10), 12, 1, 0.3, 1.0),
    "concentrated": (NormalMeanFamily(1, -2, 2), (1, 5), 50, 1, 1.0, 0.2),
    "vector": (NormalMeanFamily(2, 0, 5, dimension=3), (2, 3), 40, 1, 0.8, 0.5),
    "units of 3": (NormalMeanFamily(2, 0, 5), (2, 3), 40, 3, 0.8, 0.5),
}


@pytest.mark.parametrize("name", cases(NORMALS, quick=["diffused"]))
@pytest.mark.long
def test_normal_mean_against_50_digit_quadrature(name):
    """The worst pair by hand: a unit's records from the low corner to the high one, everything else the same.

    Only the direction of the diagonal tells the two posteriors apart, so the integrals have one dimension.
    """
    family, numbers, count, rows, power, scale = NORMALS[name]
    event = family.worst_draw(
        family.prior(numbers),
        Adjacency("replace", rows=rows, count=count),
        likelihood_power=power,
        prior_scale=scale,
    )
    with mp.workdps(50):
        precision = 1 / (mp.mpf(numbers[1]) * scale) + mp.mpf(power) * count / mp.mpf(family.variance)
        diagonal = rows * (mp.mpf(family.high) - mp.mpf(family.low)) * mp.sqrt(family.dimension)
        apart = mp.mpf(power) * diagonal / (mp.mpf(family.variance) * precision)
        sigma = 1 / mp.sqrt(precision)
        # rounded up, by what its arithmetic may have lost and no more
        assert apart / sigma * (1 + 5e-13) < dict(event.parameters)["mu"] < apart / sigma * (1 + 2e-12)
        for order in (1.5, 2, 5):
            assert float(accountant.renyi(event, order)) == pytest.approx(renyi(apart, sigma, order), rel=1e-9)
        for epsilon in (0.1, 0.5, 1):
            assert accountant.delta(event, epsilon) == pytest.approx(hockey_stick(apart, sigma, epsilon), rel=1e-9)


def renyi(apart: mp.mpf, sigma: mp.mpf, order: float) -> float:
    """Integrate p^order q^(1 - order), p and q normal densities this far apart."""
    peak = (1 - order) * apart
    grid = [peak - 14 * sigma, peak, mp.mpf(0), apart, apart + 14 * sigma]
    moment = mp.quad(lambda x: mp.npdf(x, 0, sigma) ** order * mp.npdf(x, apart, sigma) ** (1 - order), grid)
    return float(mp.log(moment) / (order - 1))


def hockey_stick(apart: mp.mpf, sigma: mp.mpf, epsilon: float) -> float:
    """Integrate p - e^epsilon q up to the point where it vanishes."""
    edge = apart / 2 - epsilon * sigma**2 / apart
    grid = [edge - width * sigma for width in (30, 14, 4, 1, 0)]
    return float(mp.quad(lambda x: mp.npdf(x, 0, sigma) - mp.exp(epsilon) * mp.npdf(x, apart, sigma), grid))


@pytest.mark.parametrize("adjacency", [Adjacency("replace"), Adjacency("add-remove", rows=2)])
def test_normal_draws_are_refused_where_the_count_moves(adjacency):
    family = NormalMeanFamily(1, 0, 1)
    sentence = r"count is not public cannot be reached; no theorem bounds it.*release noisy statistics instead"
    with pytest.raises(GuaranteeUnreachable, match=sentence):
        family.worst_draw(family.prior((0, 1)), adjacency)
    with pytest.raises(GuaranteeUnreachable, match=sentence):
        family.order_limit(family.prior((0, 1)), adjacency)


def test_normal_draws_have_every_order():
    family = NormalMeanFamily(1, 0, 1)
    assert family.order_limit(family.prior((0, 1)), PUBLIC) == math.inf


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["likelihood_power", "prior_scale"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "1"])
def test_bad_scales(name, value):
    three, normal = DirichletCategoricalFamily(3), NormalMeanFamily(1, 0, 1)
    for family, prior, sums in (
        (FAMILY, PRIOR, (1,)),
        (three, three.prior((1, 1, 1)), (1, 0, 0)),
        (normal, normal.prior((0, 1)), (1,)),
    ):
        for call in (
            lambda f=family, p=prior: f.worst_draw(p, PUBLIC, **{name: value}),
            lambda f=family, p=prior: f.order_limit(p, PUBLIC, **{name: value}),
            lambda f=family, p=prior, s=sums: f.update(p, s, 1, **{name: value}),
        ):
            with pytest.raises(InvalidParameter, match=rf"{name} must be a number above 0 and finite, not"):
                call()
