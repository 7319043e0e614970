"""The edges of what prices accept: on either side of each limit, and what is said there."""

from __future__ import annotations

import math

import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.ledger.privacy_filter import PrivacyFilter
from vestry.privacy import accountant, pld, renyi
from vestry.privacy.accountant import largest_parameter, smallest_parameter
from vestry.privacy.group import group
from vestry.privacy.guarantee import ApproxDP, Guarantee, PureDP
from vestry.privacy.mcmc_cost import categorical_span, metropolis_update, near
from vestry.privacy.pricing import event


def test_a_feature_has_at_least_two_levels_of_positive_probability():
    assert categorical_span([2, 3], [0.4, 0.3]) == pytest.approx(math.log(0.6 / 0.4) + math.log(0.4 / 0.3))
    for levels, bounds in (([1], [0.5]), ([2], [0.0]), ([2], [0.5])):
        with pytest.raises(InvalidParameter, match="below 1/levels, for at least 2 levels"):
            categorical_span(levels, bounds)


@pytest.mark.parametrize("rejection", [0.0, 1.0, True])
def test_a_bound_on_rejections_is_a_share(rejection):
    with pytest.raises(InvalidParameter, match="rejection must be a number above 0 and below 1"):
        metropolis_update(1.0, temperature=1.0, neighbours="replace", rejection=rejection)


def test_a_draw_that_is_off_is_private_while_its_delta_is_below_one():
    assert near(PureDP(1.0), distance=0.2).delta == pytest.approx(0.2 * (1 + math.e))
    assert near(PureDP(400.0), distance=1e-200).delta == pytest.approx(math.exp(400 - 200 * math.log(10)))
    for epsilon, distance in ((1.0, 0.4), (1e-9, 0.6), (800.0, 1e-300)):
        with pytest.raises(GuaranteeUnreachable, match="its delta would reach 1; come nearer"):
            near(PureDP(epsilon), distance=distance)
    for distance in (1.0, True):
        with pytest.raises(InvalidParameter, match="distance must be a number above 0 and below 1"):
            near(PureDP(1.0), distance=distance)


@pytest.mark.parametrize("steps", [(1,), (4,), (3, 5)])
def test_a_chain_that_forgets_everything_costs_its_last_step(steps):
    """With eta m = eta M = 1 a step lands on the mode, wherever it began: mu = eta S/sqrt(2 eta)."""
    chain = event(
        "langevin",
        sensitivity=3.0,
        strong_convexity=2.0,
        smoothness=2.0,
        step_sizes=(0.5,) * len(steps),
        steps=steps,
        slacks=(0.0,) * len(steps),
        start=7.0,
    )
    assert float(accountant.squared_mu(chain)) == pytest.approx(1.5**2)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.3), (200.0, 1e-100), (340.0, 1e-200)])
def test_a_group_is_private_while_its_delta_is_below_one(epsilon, delta):
    """For two units the factor is (e^(2 epsilon) - 1)/(e^epsilon - 1) = e^epsilon + 1."""
    found = group(ApproxDP(epsilon, delta), 2)
    assert found.epsilon == 2 * epsilon
    assert math.log(found.delta) == pytest.approx(math.log(delta) + math.log1p(math.exp(epsilon)), rel=1e-10)


CHAIN = {"sensitivity": 1.0, "strong_convexity": 1.0, "smoothness": 2.0, "slacks": (0.0,), "start": 0.0}


@pytest.mark.parametrize("steps", [(2.5,), (0.5,), (0,), (), 3])
def test_a_chain_has_whole_numbers_of_steps(steps):
    with pytest.raises(InvalidParameter, match="steps must be a tuple of whole numbers of at least 1"):
        event("langevin", **CHAIN, step_sizes=(0.5,), steps=steps)


@pytest.mark.parametrize("change", [{"step_sizes": (1.0,)}, {"step_sizes": (0.5, 0.5)}, {"strong_convexity": 3.0}])
def test_the_steps_of_a_chain_contract(change):
    """eta M = 2 does not, m is at most M, and each phase has one size, one number of steps and one slack."""
    with pytest.raises(InvalidParameter, match="numbers that fit together"):
        event("langevin", **{**CHAIN, "step_sizes": (0.5,), "steps": (3,)} | change)


def composed_delta(epsilon: float, each: float, count: int) -> float:
    """Randomised response `count` times: k losses of -each and the others of +each, summed term by term."""
    p = math.exp(each) / (1 + math.exp(each))
    losses = [(math.comb(count, k) * p ** (count - k) * (1 - p) ** k, (count - 2 * k) * each) for k in range(count + 1)]
    return sum(mass * -math.expm1(epsilon - loss) for mass, loss in losses if loss > epsilon)


def test_events_bought_at_once_cost_no_more_than_one_by_one_and_no_less_than_they_lose():
    asked, runs = ApproxDP(9, 1e-5, neighbours="replace"), event("pure", epsilon=0.1, neighbours="replace").times(30)
    found = pld.price(runs, asked)
    assert (found.delta, found.neighbours) == (asked.delta, asked.neighbours)
    assert found.epsilon < 0.99 * accountant.price(runs, asked).epsilon
    assert composed_delta(found.epsilon, 0.1, 30) <= 1e-5 < composed_delta(0.98 * found.epsilon, 0.1, 30)
    assert pld.price(event("pure", epsilon=0.1), asked).epsilon <= 0.1


def test_a_parameter_that_costs_nothing_ends_the_search():
    assert 0 < smallest_parameter(lambda x: event("pure", epsilon=0.5), PureDP(1)) < 1e-98
    assert 1e98 < largest_parameter(lambda x: event("pure", epsilon=0.5), PureDP(1)) < math.inf


def test_a_definition_of_ones_own_is_refused():
    class Bayesian(Guarantee):
        amount = "epsilon"

    with pytest.raises(InvalidParameter, match="one of the five definitions"):
        group(Bayesian(), 2)
    with pytest.raises(InvalidParameter, match="a budget must be a guarantee"):
        PrivacyFilter.of(Bayesian())


def test_the_published_jacobian_needs_more_regularisation_than_smoothness():
    """|log(1 - beta/lam)| is infinite at lam = beta: no epsilon has a delta below 1."""
    minimum = {"lipschitz": 1.0, "regularisation": 1.0, "scale": 50.0, "records": 1}
    for beta in (1.0, 2.0):
        made = event("objective-published", **minimum, smoothness=beta)
        assert accountant.delta(made, 100.0) == 1.0
    assert accountant.delta(event("objective-published", **minimum, smoothness=0.5), 2.0) < 1e-9


MU, LAM = 0.7, 2.0
# L = 1.4 and sigma = 2, so mu = 0.7; beta = 1 and lam = 2, so J = log(3/2).
MINIMUM = {"lipschitz": 1.4, "smoothness": 1.0, "regularisation": LAM, "scale": 2.0}
JACOBIAN = math.log(1.5)


def hockey(mu: float, epsilon: float) -> float:
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4, 0.6, 2.0])
def test_a_perturbed_minimum_below_and_above_its_jacobian(epsilon):
    """From J on the profile of the shift; below it, what the loss beyond J leaves: 1 - e^(epsilon - J) (1 - H(0))."""
    claims = {
        "objective-one-sided": lambda room: hockey(MU, room),
        "objective-one-sided-replace": lambda room: hockey(2 * MU, room) + 2 * hockey(MU, room),
    }
    for kind, claim in claims.items():
        room = epsilon - JACOBIAN
        wanted = claim(room) if room >= 0 else 1 - math.exp(room) * max(0.0, 1 - claim(0.0))
        assert accountant.delta(event(kind, **MINIMUM, records=1), epsilon) == pytest.approx(min(1, wanted), rel=1e-9)


@pytest.mark.parametrize("order", [1.5, 2.0, 7.0])
def test_renyi_of_a_one_sided_minimum_by_quadrature(order):
    """J and the divergence of two normals whose likelihood ratio counts where it is above 1."""

    def density(z: float) -> float:
        return norm.pdf(z - MU) * math.exp(max(0.0, (order - 1) * (MU * z - MU**2 / 2)))

    edge = MU / 2
    whole = quad(density, -12, edge, epsrel=1e-12)[0] + quad(density, edge, edge + 6 * order, epsrel=1e-12)[0]
    found = accountant.renyi(event("objective-one-sided", **MINIMUM, records=1), order)
    assert found == pytest.approx(JACOBIAN + math.log(whole) / (order - 1), rel=1e-8)


@pytest.mark.parametrize(("epsilon", "records"), [(1.5, 2), (4.0, 3)])
def test_several_records_of_a_perturbed_minimum(epsilon, records):
    """One record at epsilon/k, k times in a row: delta (e^epsilon - 1)/(e^(epsilon/k) - 1)."""
    share, few = epsilon / records, MINIMUM | {"scale": 9.0}
    single = hockey(1.4 / 9, share - JACOBIAN)
    wanted = single * math.expm1(epsilon) / math.expm1(share)
    made = event("objective-one-sided", **few, records=records)
    assert accountant.delta(made, epsilon) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("below", [0.5, 0.01, 0.001])
def test_renyi_of_a_profile_with_a_long_tail(below):
    """delta = e^(-3 x)/10: 1 + a (a - 1)/10 [1/(4 - a) + 1/(3 + a)], nearly all of it beyond any grid as a nears 4.

    The tail is taken twice, for both directions at most.
    """
    order = 4 - below
    log = math.log1p(order * (order - 1) / 10 * (1 / below + 1 / (3 + order)))
    found = renyi.from_profile(order, profile=long_tail)
    assert log <= found * (order - 1) <= log + math.log(2)
    assert renyi.from_profile(4.01, profile=long_tail) == math.inf


def long_tail(epsilon: float) -> float:
    return math.exp(-3 * epsilon) / 10


def three_bounds(epsilon: float, each: float, count: int) -> list[float]:
    """Delta of a composition of pure events by its sum, by its Gaussian curve and by its best Renyi order."""
    total, mu = each * count, 2 * norm.ppf(1 / (1 + math.exp(-each))) * math.sqrt(count)

    def log_delta(log_less: float) -> float:
        less = math.exp(log_less)
        curve = count * math.log(math.cosh((less + 0.5) * each) / math.cosh(each / 2)) / less
        return less * (curve - epsilon) - math.log1p(less) + less * math.log1p(-1 / (1 + less))

    best = minimize_scalar(log_delta, bounds=(-4, 5), method="bounded", options={"xatol": 1e-10}).fun
    return [max(0.0, -math.expm1(epsilon - total)) / (1 + math.exp(-total)), hockey(mu, epsilon), math.exp(best)]


@pytest.mark.parametrize(("each", "count", "epsilon"), [(0.3, 2, 0.59), (0.3, 2, 0.1), (0.2, 20, 2.0)])
def test_a_composition_with_failures_has_the_least_of_three_bounds(each, count, epsilon):
    """What does not fail is bounded by the best of pure, Gaussian and Renyi composition."""
    runs = event("approximate", epsilon=each, delta=1e-4).times(count)
    failed = -math.expm1(count * math.log1p(-1e-4)) * (1 + 1e-11)
    sound = min(three_bounds(epsilon, each, count))
    delta = failed + (1 - failed) * sound
    assert accountant.delta(runs, epsilon) == pytest.approx(delta, rel=1e-6)
    assert accountant.epsilon(runs, delta) == pytest.approx(epsilon, rel=1e-3)
    assert accountant.meets(runs, ApproxDP(epsilon * 1.01, delta))
    assert not accountant.meets(runs, ApproxDP(epsilon * 0.99, delta))
    assert accountant.epsilon(runs, failed) == pytest.approx(each * count)
    assert accountant.epsilon(runs, failed * 0.99) == math.inf


def test_a_definition_that_is_not_known_has_no_cost():
    with pytest.raises(InvalidParameter, match=r"^a guarantee must be of a known privacy definition, not "):
        accountant.amount(event("pure", epsilon=1.0), "epsilon=1")
