"""What the mechanisms of a regression are calibrated to, against closed forms solved here.

Logistic loss, rows of norm 2: L = 2, beta = 1. Every number below follows from the docstrings' formulas.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from seeded_noise import SeededNoise

from vestry.errors import InvalidParameter, Unreachable
from vestry.losses import Huber, Logistic, Multinomial, Probit
from vestry.losses import gradient as losses
from vestry.losses.rounding import gradient_error
from vestry.mechanisms import minimise, rule
from vestry.mechanisms.langevin import posterior
from vestry.mechanisms.linear import LinearProblem, gradient_floor, iterations_for, reach_of
from vestry.mechanisms.objective import objective_perturbation
from vestry.mechanisms.output import output_perturbation
from vestry.mechanisms.regression import regression
from vestry.privacy.guarantee import Guarantee
from vestry.statistics.population import Population

LIPSCHITZ, SMOOTHNESS, LAM, MOST = 2.0, 1.0, 5.0, 50
EPSILON, DELTA = 1.0, 1e-6
ASKED = Guarantee.parse("epsilon=1,delta=1e-6")


def problem(relation: str = "add-remove", *, loss=None, rows: int = 1, at_most: int = MOST, features: int = 3):
    return LinearProblem(loss or Logistic(), features, 2.0, Population(relation, rows), at_most)


def profile(mu: float, epsilon: float) -> float:
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


def largest_mu(delta_of, delta: float) -> float:
    return brentq(lambda mu: delta_of(mu) - delta, 1e-7, 20, xtol=1e-16, rtol=1e-13)


CHANGED = {("add-remove", 1): 1, ("replace", 1): 2, ("add-remove", 3): 3, ("replace", 3): 6}


@pytest.mark.parametrize(("relation", "rows"), CHANGED)
def test_the_noise_of_output_perturbation(relation, rows):
    """S/lam and a thousandth of it twice, over the mu of the analytic Gaussian mechanism."""
    made = output_perturbation(problem(relation, rows=rows), ASKED, regularisation=LAM)
    moved = CHANGED[relation, rows] * LIPSCHITZ / LAM * (1 + 2e-3)
    assert made.scale == pytest.approx(moved / largest_mu(lambda mu: profile(mu, EPSILON), DELTA), rel=1e-9)


OBJECTIVES = {
    ("logistic", "add-remove"): lambda mu, room: profile(mu, room),
    ("logistic", "replace"): lambda mu, room: profile(2 * mu, room) + 2 * profile(mu, room),
    ("huber", "add-remove"): lambda mu, room: 2 * profile(mu, room),
}


@pytest.mark.parametrize(("loss", "relation"), OBJECTIVES)
def test_the_noise_of_objective_perturbation(loss, relation):
    """All but a two-hundredth of epsilon and delta for the linear term, beyond the Jacobian; the rest for the noise on
    top, of a tenth of the least spread that the linear term gives the minimum.
    """
    given = problem(relation, loss=Huber(1.0) if loss == "huber" else None)
    made = objective_perturbation(given, ASKED, regularisation=LAM)
    beta = 4.0 if loss == "huber" else SMOOTHNESS
    room = EPSILON * 199 / 200 - math.log(1 + beta / LAM)
    mu = largest_mu(lambda x: OBJECTIVES[loss, relation](x, room), DELTA * 199 / 200)
    assert made.scale == pytest.approx(LIPSCHITZ / mu, rel=1e-9)
    top = 0.1 * made.scale / (MOST * beta + LAM)
    assert made.top == pytest.approx(top, rel=1e-6)
    small = largest_mu(lambda x: profile(x, EPSILON / 200), DELTA / 200)
    assert made.tolerance == pytest.approx(small * top / 2, rel=1e-6)


def test_objective_perturbation_in_renyi_privacy():
    """J + mu^2/2 + [mu^2 (a-1)^2/2 + log(2 Phi(mu (a-1)))]/(a-1) for a loss of two sides, mu = L/scale."""
    made = objective_perturbation(problem(loss=Huber(1.0)), Guarantee.parse("order=3,epsilon=2"), regularisation=40.0)
    mu, less = LIPSCHITZ / made.scale, 2.0
    found = math.log(1.1) + mu**2 / 2 + (mu**2 * less**2 / 2 + math.log(2 * norm.cdf(mu * less))) / less
    assert found == pytest.approx(2 * 199 / 200, rel=1e-9)
    assert 3 * (2 * made.tolerance / made.top) ** 2 / 2 == pytest.approx(2 / 200, rel=1e-6)


def chain_mu(made, sensitivity: float, m: float, smooth: float) -> float:
    """The price of the steps, one at a time from the last, without slack for rounding."""
    left, reach, spread = 1.0, 0.0, 0.0
    for eta, count in reversed(list(zip(made.schedule.step_sizes, made.schedule.steps, strict=True))):
        c = max(abs(1 - eta * m), abs(1 - eta * smooth))
        for _ in range(count):
            reach += left * eta * sensitivity
            spread += left**2 * 2 * eta
            left *= c
    return reach / math.sqrt(spread)


@pytest.mark.parametrize(("relation", "rows"), CHANGED)
def test_the_power_of_a_certified_chain(relation, rows):
    """The chain of that power costs the mu of the guarantee, but for rounding and the search's tolerance."""
    m = 3.0
    made = posterior(problem(relation, rows=rows), ASKED, prior_precision=m)
    power = made.likelihood_power
    assert 0 < power < 1
    mu = chain_mu(made, power * CHANGED[relation, rows] * LIPSCHITZ, m, power * MOST * SMOOTHNESS + m)
    assert mu == pytest.approx(largest_mu(lambda x: profile(x, EPSILON), DELTA), rel=3e-6)


def test_the_ball_of_a_chain():
    """Twice the mode's distance and nine deviations beyond a draw's; the mode's by its gradient or by its potential."""
    m = 3.0
    made = posterior(problem(), ASKED, prior_precision=m)
    rho = made.likelihood_power
    reach = min(rho * MOST * LIPSCHITZ / m, math.sqrt(2 * rho * MOST * math.log(2) / m))
    assert made.radius == pytest.approx(2 * (reach + (math.sqrt(3) + 9) / math.sqrt(m)))
    tight = posterior(problem(), Guarantee.parse("mu=1e-3"), prior_precision=m)
    assert tight.radius == pytest.approx(
        2 * (tight.likelihood_power * MOST * LIPSCHITZ / m + (math.sqrt(3) + 9) / math.sqrt(m))
    )


def test_how_far_a_minimum_can_be():
    """By the gradient (n L + |b|)/lam; or |b|/lam and the root of its square and 2 sum l(0)/lam."""
    assert reach_of(problem(at_most=1), LAM, 0.1) == pytest.approx((LIPSCHITZ + 0.1) / LAM)
    far = 3 / LAM + math.sqrt((3 / LAM) ** 2 + 2 * MOST * math.log(2) / LAM)
    assert reach_of(problem(), LAM, 3.0) == pytest.approx(far)


def test_what_a_problem_may_not_be():
    for change, message in (({"features": 0}, "features must be"), ({"at_most": True}, "at_most must be")):
        with pytest.raises(InvalidParameter, match=message):
            problem(**change)
    for length in (0.0, math.inf):
        with pytest.raises(InvalidParameter, match="norm must be a number above 0"):
            LinearProblem(Logistic(), 3, length, Population("add-remove"), MOST)
    assert problem(loss=Multinomial(4)).dimension == 12
    assert problem(loss=Multinomial(4)).most == pytest.approx(MOST * math.log(4))


def test_what_objective_and_output_perturbation_refuse():
    with pytest.raises(Unreachable, match="its proof holds for one linear predictor"):
        objective_perturbation(problem(loss=Multinomial(3)), ASKED, regularisation=LAM)
    for perturbation in (objective_perturbation, output_perturbation):
        with pytest.raises(Unreachable, match="its slope is unbounded; use logistic"):
            perturbation(problem(loss=Probit(2.0)), ASKED, regularisation=LAM)


def test_currencies_that_objective_perturbation_lacks():
    for asked in ("rho=0.5", "mu=1", "epsilon=1"):
        with pytest.raises(Unreachable, match="the Jacobian's share is in no other currency"):
            objective_perturbation(problem(), Guarantee.parse(asked), regularisation=LAM)
    with pytest.raises(Unreachable, match="regularise more, or use output perturbation"):
        objective_perturbation(problem(), ASKED, regularisation=0.1)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, True, "1"])
def test_a_penalty_is_a_number_above_zero(value):
    with pytest.raises(InvalidParameter, match="regularisation must be a number above 0"):
        regression(problem(), ASKED, method="output", regularisation=value)
    with pytest.raises(InvalidParameter, match="prior_precision must be a number above 0"):
        regression(problem(), ASKED, method="posterior", prior_precision=value)


# --- the rule for penalties that are not declared ---------------------------------------------------------------------


MOVES = {"logistic": (Logistic(), 2.0, 1 / 3), "classes": (Multinomial(4), 2 * math.sqrt(2), 1 / 3)}
MOVES["numbers"] = (Huber(0.25), 2 * 0.25, 1 / 25)


@pytest.mark.parametrize("case", MOVES)
def test_the_rule_of_output_perturbation(case):
    """lam = S c s/t: normal noise moves no predictor by more than t, a third for classes and 1/25 for numbers."""
    loss, lipschitz, move = MOVES[case]
    unit = 1 / largest_mu(lambda mu: profile(mu, EPSILON), DELTA)
    assert rule.regularisation(problem(loss=loss), ASKED, "output") == pytest.approx(lipschitz * 2.0 * unit / move)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_rule_of_objective_perturbation(epsilon):
    """The Jacobian takes a quarter of epsilon; a loss of half the norm has a quarter of the smoothness."""
    asked = Guarantee.parse(f"epsilon={epsilon},delta=1e-6")
    for length, beta in ((2.0, 1.0), (1.0, 0.25)):
        given = LinearProblem(Logistic(), 3, length, Population("add-remove"), MOST)
        lam = rule.regularisation(given, asked, "objective")
        assert math.log(1 + beta / lam) == pytest.approx(epsilon / 4)
        large = LinearProblem(Logistic(), 3, length, Population("add-remove"), 10**9)
        assert rule.regularisation(large, asked, "objective") == pytest.approx(1e5 * beta)
        assert rule.prior_precision(large) == pytest.approx(1e5 * beta)
    assert rule.prior_precision(problem(loss=Multinomial(4))) == pytest.approx(12 / 20)
    assert rule.regularisation(problem(), Guarantee.parse("mu=1"), "objective") == pytest.approx(MOST / 10_000)


# --- how near a minimum is computed -----------------------------------------------------------------------------------


def steps_for(m: float, smooth: float, reach: float, tolerance: float) -> int:
    """The least N with reach/sqrt(1 + q A_N) <= tolerance, A_(k+1) by its recursion [TaylorD23]."""
    q, scale, count = m / smooth, 0.0, 0
    while reach / math.sqrt(1 + q * scale) > tolerance:
        scale = ((1 + q) * scale + 2 * (1 + math.sqrt((1 + scale) * (1 + q * scale)))) / (1 - q) ** 2
        count += 1
    return count


@pytest.mark.parametrize("method", ["output", "objective"])
def test_a_minimum_is_computed_to_half_of_its_tolerance(method, monkeypatch):
    """The other half is for rounding; the plan and the run ask for as many steps."""
    asked, whole = [], minimise.minimise

    def watched(gradient, start, *, count, **constants):
        asked.append(count)
        return whole(gradient, start, count=count, **constants)

    monkeypatch.setattr(minimise, "minimise", watched)
    monkeypatch.setattr(losses, "gradient", lambda *_, **__: np.zeros_like)  # no records: nothing is compiled
    given = problem()
    made = regression(given, ASKED, method=method, regularisation=LAM, device="cpu")
    made.drawn([(np.zeros((1, 3), np.float32), np.ones(1))], SeededNoise(3))
    longest = made.scale * (math.sqrt(3) + 12) if method == "objective" else 0.0
    tolerance = made.tolerance / 2 if method == "objective" else 1e-3 * LIPSCHITZ / LAM / 2
    wanted = steps_for(LAM, MOST * SMOOTHNESS + LAM, reach_of(given, LAM, longest), tolerance)
    assert asked == [wanted]
    assert iterations_for(given, LAM, tolerance, longest) == wanted


def test_rounding_keeps_a_minimum_off_by_the_gradients_error():
    """A gradient that is off by e moves the minimum of a lam-strongly convex function by e/lam."""
    given = problem(at_most=10**7)
    far = 2 * math.sqrt(2 * 1e7 * math.log(2) / LAM)
    error = gradient_error(Logistic(), rows=10**7, features=3, norm=2.0, radius=far, outcome=1.0)
    assert gradient_floor(given, LAM, 0.0) == pytest.approx(error / LAM, rel=1e-9)
    # With so many rows that rounding is more than a thousandth of what one record moves, twice its share counts.
    crowd = problem(at_most=10**13)
    made = output_perturbation(crowd, ASKED, regularisation=1e9)
    moved = LIPSCHITZ / 1e9 + 2 * 2 * gradient_floor(crowd, 1e9, 0.0)
    assert made.scale == pytest.approx(moved / largest_mu(lambda mu: profile(mu, EPSILON), DELTA), rel=1e-9)
