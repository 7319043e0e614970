"""What the mechanisms of a regression are calibrated to, against closed forms solved here.

Logistic loss, rows of norm 3: L = 3, beta = 9/4. Every number below follows from the docstrings' formulas.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from seeded_noise import SeededNoise

from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.noise import bounded_error_normals
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression import accelerated_descent, default_penalty, gibbs_calibration, langevin
from vestry.regression import gradient as losses
from vestry.regression.certified_minimum import RidgeObjective
from vestry.regression.langevin import posterior
from vestry.regression.losses import Huber, Logistic, Multinomial, Probit
from vestry.regression.method import regression
from vestry.regression.objective_perturbation import kind_for, objective_perturbation
from vestry.regression.output_perturbation import output_perturbation
from vestry.regression.problem import LinearProblem, first_rows
from vestry.regression.rounding_error import gradient_error, step_error
from vestry.regression.step_schedule import Schedule, schedule

pytestmark = pytest.mark.oracle

NORM, LIPSCHITZ, SMOOTHNESS, LAM, MOST = 3.0, 3.0, 2.25, 12.0, 50
EPSILON, DELTA = 1.0, 1e-6
ASKED = Guarantee.parse("epsilon=1,delta=1e-6")


def problem(relation: str = "add-remove", *, loss=None, rows: int = 1, max_rows: int = MOST, features: int = 3):
    return LinearProblem(loss or Logistic(), features, NORM, Adjacency(relation, rows), max_rows)


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
    beta = 9.0 if loss == "huber" else SMOOTHNESS
    room = EPSILON * 199 / 200 - math.log(1 + beta / LAM)
    mu = largest_mu(lambda x: OBJECTIVES[loss, relation](x, room), DELTA * 199 / 200)
    assert made.scale == pytest.approx(LIPSCHITZ / mu, rel=1e-9)
    top = 0.1 * made.scale / (MOST * beta + LAM)
    assert made.top == pytest.approx(top, rel=1e-6)
    small = largest_mu(lambda x: profile(x, EPSILON / 200), DELTA / 200)
    assert made.tolerance == pytest.approx(small * top / 2, rel=1e-6)


def test_the_event_of_objective_perturbation():
    made = objective_perturbation(problem("replace"), ASKED, regularisation=LAM)
    minimum, over = made.event.parts
    assert minimum.kind == "objective-one-sided-replace"
    assert dict(over.parameters) == {"sensitivity": 2 * made.tolerance, "scale": made.top}
    assert str(made.event.neighbours) == str(minimum.neighbours) == str(over.neighbours) == "replace"


def test_the_analyses_of_objective_perturbation():
    assert kind_for(one_sided=False, replaces=True, analysis="general") == "objective"
    assert kind_for(one_sided=True, replaces=True, rows=2) == "objective-one-sided"
    named = {"one_sided": True, "analysis": "one-sided-replace"}
    assert kind_for(**named, replaces=True) == "objective-one-sided-replace"
    for change in ({"replaces": True, "rows": 2}, {"replaces": False}):
        with pytest.raises(InvalidParameter, match="for one replaced row"):
            kind_for(**named, **change)
    for analysis in ("one-sided", "one-sided-replace"):
        with pytest.raises(InvalidParameter, match="for a loss whose derivative keeps its sign"):
            kind_for(one_sided=False, replaces=True, analysis=analysis)
    with pytest.raises(InvalidParameter, match="one of auto, general, one-sided"):
        kind_for(one_sided=True, replaces=True, analysis="tight")


@pytest.mark.parametrize("beyond", [12.0, 0.1 - math.sqrt(3)])
def test_the_linear_term_is_cut_where_the_number_of_steps_would_not_do(beyond, monkeypatch):
    """At sqrt(d) + 12 deviations, so that it is never cut; here also at a tenth of one, where it is."""
    linear = []

    def recorded(objective, blocks, term, tolerance, **_):
        linear.append(term.copy())
        return term

    monkeypatch.setattr(RidgeObjective, "minimum", recorded)
    made = objective_perturbation(problem(), ASKED, regularisation=LAM)
    monkeypatch.setattr("vestry.regression.objective_perturbation._BEYOND", beyond)
    made.draw([], SeededNoise(7))
    length = float(np.linalg.norm(linear[0])) / made.scale
    assert length == pytest.approx(0.1) if beyond < 0 else 0.3 < length < 5


def test_objective_perturbation_in_renyi_privacy():
    """J + mu^2/2 + [mu^2 (a-1)^2/2 + log(2 Phi(mu (a-1)))]/(a-1) for a loss of two sides, mu = L/scale."""
    made = objective_perturbation(problem(loss=Huber(1.0)), Guarantee.parse("order=3,epsilon=2"), regularisation=90.0)
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


def test_what_rounding_adds_to_each_step_of_a_chain():
    """A step is off by its rounding, for noise 40 times as long as its size, and by noise that is not quite normal."""
    m = 3.0
    made = posterior(problem(), ASKED, prior_precision=m)
    rho, parameters = made.likelihood_power, dict(made.event.parameters)
    assert parameters["start"] == 0
    for eta, slack in zip(made.schedule.step_sizes, parameters["slacks"], strict=True):
        size = math.sqrt(2 * eta * 3)
        rest = {"rows": MOST, "features": 3, "norm": NORM, "radius": made.radius, "outcome": 1.0}
        rest |= {"likelihood_power": rho, "prior_precision": m, "step_size": eta, "noise_norm": 40 * size}
        assert slack == pytest.approx(step_error(Logistic(), **rest) + bounded_error_normals.ERROR * size, rel=1e-9)


def test_a_chain_runs_the_steps_that_were_priced(monkeypatch):
    """Also where the normals of a phase are drawn in several pieces; the last step is drawn exactly."""
    ran, plan = [], Schedule((0.03, 0.02), (7, 4), 0.0, 0.0)

    class Recorded:
        def __init__(self, along, walk):
            self.step_size = walk.step_size

        def run(self, theta, normals):
            ran.append((self.step_size, len(normals)))
            return theta

        def mean(self, theta):
            return theta

    monkeypatch.setattr(langevin, "Chain", Recorded)
    monkeypatch.setattr(langevin, "_CHUNK", 9)
    monkeypatch.setattr(losses, "gradient", lambda *_, **__: None)
    made = dataclasses.replace(posterior(problem(), ASKED, prior_precision=3.0), schedule=plan)
    values = made.draw([], SeededNoise(1)).values
    assert ran == [(0.03, 3), (0.03, 3), (0.03, 1), (0.02, 3)]
    assert np.shape(values) == (1, 3)


def test_a_draw_that_left_the_ball_starts_the_next_chain_on_its_edge():
    assert langevin._projected(np.array([30.0, -40.0]), 5.0) == pytest.approx([3.0, -4.0])
    assert langevin._projected(np.array([0.3, -0.4]), 5.0) == pytest.approx([0.3, -0.4])


@pytest.mark.parametrize("draws", [0, True, 1.5])
def test_a_chain_makes_a_whole_number_of_draws(draws):
    with pytest.raises(InvalidParameter, match="draws must be a whole number of at least 1"):
        posterior(problem(), ASKED, prior_precision=1.0, draws=draws)


@pytest.mark.parametrize("precision", [0.0, math.inf])
def test_a_prior_has_a_finite_precision(precision):
    with pytest.raises(InvalidParameter, match="prior_precision must be a number above 0"):
        posterior(problem(), ASKED, prior_precision=precision)


@pytest.mark.parametrize(("m", "smooth", "reach", "accuracy"), [(50.0, 5e3, 3.0, 0.05), (0.02, 3.0, 40.0, 0.2)])
def test_what_a_schedule_states_is_what_its_steps_do(m, smooth, reach, accuracy):
    """Along curvature l a step turns v into (1 - eta l)^2 v + 2 eta, and the mean's distance into (1 - eta l) times it.

    Step sizes are halved from 1.5/M; the last one alone would leave a variance too large by half of the accuracy.
    """
    plan = schedule(strong_convexity=m, smoothness=smooth, reach=reach, accuracy=accuracy)
    curvature = np.geomspace(m, smooth, 400)
    mean, variance = np.full(400, reach), np.zeros(400)
    for eta in np.repeat(plan.step_sizes, plan.steps):
        mean, variance = np.abs(1 - eta * curvature) * mean, (1 - eta * curvature) ** 2 * variance + 2 * eta
    assert plan.inflation == pytest.approx(np.abs(variance * curvature - 1).max(), rel=1e-6)
    assert plan.distance == pytest.approx((mean * np.sqrt(curvature)).max(), rel=1e-6)
    assert max(plan.inflation, plan.distance) <= accuracy
    *halved, last = plan.step_sizes
    assert np.allclose(halved, 1.5 / smooth / 2.0 ** np.arange(len(halved)))
    assert 1 / (1 - last * smooth / 2) == pytest.approx(1 + accuracy / 2)
    assert last < halved[-1] <= 2 * last


@pytest.mark.parametrize("accuracy", [0.0, 1.0])
def test_an_accuracy_is_a_share(accuracy):
    with pytest.raises(InvalidParameter, match="accuracy must be a number above 0 and below 1"):
        schedule(strong_convexity=1.0, smoothness=2.0, reach=1.0, accuracy=accuracy)


def test_how_far_a_minimum_can_be():
    """By the gradient (n L + |b|)/lam; or |b|/lam and the root of its square and 2 sum l(0)/lam."""
    assert RidgeObjective(problem(max_rows=1), LAM, 0.1).reach == pytest.approx((LIPSCHITZ + 0.1) / LAM)
    far = 3 / LAM + math.sqrt((3 / LAM) ** 2 + 2 * MOST * math.log(2) / LAM)
    assert RidgeObjective(problem(), LAM, 3.0).reach == pytest.approx(far)


@pytest.mark.parametrize(("max_rows", "sizes"), [(5, [2, 2]), (4, [2, 2]), (3, [2, 1]), (2, [2]), (1, [1])])
def test_records_beyond_the_bound_are_left_out_one_by_one(max_rows, sizes):
    block = np.ones((2, 3)), np.ones(2)
    found = first_rows([block, block], max_rows)
    assert [len(features) for features, _ in found] == [len(outcomes) for _, outcomes in found] == sizes


def test_what_a_problem_may_not_be():
    for change, message in (({"features": 0}, "features must be"), ({"max_rows": True}, "max_rows must be")):
        with pytest.raises(InvalidParameter, match=message):
            problem(**change)
    for length in (0.0, math.inf):
        with pytest.raises(InvalidParameter, match="norm must be a number above 0"):
            LinearProblem(Logistic(), 3, length, Adjacency("add-remove"), MOST)
    assert problem(loss=Multinomial(4)).dimension == 12
    assert problem(loss=Multinomial(4)).most == pytest.approx(MOST * math.log(4))
    assert problem(loss=Huber(0.25)).most == pytest.approx(MOST * 0.25 * (1 - 0.25 / 2))  # outcomes of size 1


def test_what_objective_and_output_perturbation_refuse():
    with pytest.raises(GuaranteeUnreachable, match="its proof holds for one linear predictor"):
        objective_perturbation(problem(loss=Multinomial(3)), ASKED, regularisation=LAM)
    for perturbation in (objective_perturbation, output_perturbation):
        with pytest.raises(GuaranteeUnreachable, match="its slope is unbounded; use logistic"):
            perturbation(problem(loss=Probit(2.0)), ASKED, regularisation=LAM)


def test_currencies_that_objective_perturbation_lacks():
    for asked in ("rho=0.5", "mu=1", "epsilon=1"):
        with pytest.raises(GuaranteeUnreachable, match="the Jacobian's share is known in no other definition"):
            objective_perturbation(problem(), Guarantee.parse(asked), regularisation=LAM)
    with pytest.raises(GuaranteeUnreachable, match="regularise more, or use output perturbation"):
        objective_perturbation(problem(), ASKED, regularisation=0.1)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, True, "1"])
def test_a_penalty_is_a_number_above_zero(value):
    with pytest.raises(InvalidParameter, match="regularisation must be a number above 0"):
        regression(problem(), ASKED, method="output", regularisation=value)
    with pytest.raises(InvalidParameter, match="prior_precision must be a number above 0"):
        regression(problem(), ASKED, method="posterior", prior_precision=value)


# --- the rule for penalties that are not declared ---------------------------------------------------------------------


MOVES = {"logistic": (Logistic(), NORM, 1 / 3), "classes": (Multinomial(4), NORM * math.sqrt(2), 1 / 3)}
MOVES["numbers"] = (Huber(0.25), NORM * 0.25, 1 / 25)


@pytest.mark.parametrize("case", MOVES)
def test_the_rule_of_output_perturbation(case):
    """lam = S c s/t: normal noise moves no predictor by more than t, a third for classes and 1/25 for numbers."""
    loss, lipschitz, move = MOVES[case]
    unit = 1 / largest_mu(lambda mu: profile(mu, EPSILON), DELTA)
    assert default_penalty.regularisation(problem(loss=loss), ASKED, "output") == pytest.approx(
        lipschitz * NORM * unit / move
    )


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_rule_of_objective_perturbation(epsilon):
    """The Jacobian takes a quarter of epsilon; a loss of half the norm has a quarter of the smoothness."""
    asked = Guarantee.parse(f"epsilon={epsilon},delta=1e-6")
    for length, beta in ((2.0, 1.0), (1.0, 0.25)):
        given = LinearProblem(Logistic(), 3, length, Adjacency("add-remove"), MOST)
        lam = default_penalty.regularisation(given, asked, "objective")
        assert math.log(1 + beta / lam) == pytest.approx(epsilon / 4)
        large = LinearProblem(Logistic(), 3, length, Adjacency("add-remove"), 10**9)
        assert default_penalty.regularisation(large, asked, "objective") == pytest.approx(1e5 * beta)
        assert default_penalty.prior_precision(large) == pytest.approx(1e5 * beta)
    assert default_penalty.prior_precision(problem(loss=Multinomial(4))) == pytest.approx(12 / 20)
    assert default_penalty.regularisation(problem(), Guarantee.parse("mu=1"), "objective") == pytest.approx(
        MOST * SMOOTHNESS / 10_000
    )


# --- how near a minimum is computed -----------------------------------------------------------------------------------


def steps_for(m: float, smooth: float, reach: float, tolerance: float) -> int:
    """The least N with reach/sqrt(1 + q A_N) <= tolerance, A_(k+1) by its recursion [TaylorD23]."""
    q, scale, count = m / smooth, 0.0, 0
    while reach / math.sqrt(1 + q * scale) > tolerance:
        scale = ((1 + q) * scale + 2 * (1 + math.sqrt((1 + scale) * (1 + q * scale)))) / (1 - q) ** 2
        count += 1
    return count


def tolerance_of(made, method: str) -> float:
    """A thousandth of how far one record moves the minimum; or what is left for steps and rounding."""
    return made.tolerance if method == "objective" else 1e-3 * LIPSCHITZ / LAM


@pytest.mark.parametrize("method", ["output", "objective"])
def test_a_minimum_is_computed_until_its_gradient_is_small(method, monkeypatch):
    """Within t of the minimum where the gradient is below lam t/2, as it is within lam t/(2 M)."""
    asked, whole = [], accelerated_descent.minimise

    def watched(gradient, start, *, count, **constants):
        asked.append(count)
        return whole(gradient, start, count=count, **constants)

    monkeypatch.setattr(accelerated_descent, "minimise", watched)
    monkeypatch.setattr(losses, "gradient", lambda *_, **__: np.zeros_like)  # no records: nothing is compiled
    given = problem()
    made = regression(given, ASKED, method=method, regularisation=LAM, device="cpu")
    made.draw([(np.zeros((1, 3), np.float32), np.ones(1))], SeededNoise(3))
    longest, smooth = made.scale * (math.sqrt(3) + 12) if method == "objective" else 0.0, MOST * SMOOTHNESS + LAM
    near = tolerance_of(made, method) / 2 * LAM / smooth
    wanted = steps_for(LAM, smooth, RidgeObjective(given, LAM, longest).reach, near)
    assert asked == [wanted]


@pytest.mark.parametrize("method", ["output", "objective"])
def test_the_number_of_steps_is_tried_before_anything_is_charged(method, monkeypatch):
    tried = []
    monkeypatch.setattr(RidgeObjective, "iterations", lambda _, tolerance: tried.append(tolerance))
    made = regression(problem(), ASKED, method=method, regularisation=LAM)
    assert tried == [pytest.approx(tolerance_of(made, method), rel=1e-6)]


def test_rounding_bounds_how_near_a_minimum_comes():
    """Six times e/lam: e bounds the gradient's error, the losses' and eight roundings of its largest terms."""
    given, rows, longest = problem(max_rows=10**7), 10**7, 4.0
    far = 2 * (longest / LAM + math.sqrt((longest / LAM) ** 2 + 2 * rows * math.log(2) / LAM))
    error = gradient_error(Logistic(), rows=rows, features=3, norm=NORM, radius=far, outcome=1.0)
    error += 8 * 2.0**-53 * (rows * LIPSCHITZ + longest + (rows * SMOOTHNESS + LAM) * far)
    assert RidgeObjective(given, LAM, longest).finest == pytest.approx(6 * error / LAM, rel=1e-9)
    # With so many rows that this is more than a thousandth of what one record moves, it counts twice.
    crowd = problem(max_rows=10**13)
    made = output_perturbation(crowd, ASKED, regularisation=1e12)
    moved = LIPSCHITZ / 1e12 + 2 * RidgeObjective(crowd, 1e12).finest
    assert RidgeObjective(crowd, 1e12).finest > 1e-3 * LIPSCHITZ / 1e12
    assert made.scale == pytest.approx(moved / largest_mu(lambda mu: profile(mu, EPSILON), DELTA), rel=1e-9)


# --- exact draws from a Gibbs posterior -------------------------------------------------------------------------------

REPLACED = Adjacency("replace", 1, 100)


def test_the_power_of_an_exact_draw_by_each_analysis():
    """mu = 2 rho L/sqrt(m) under replace; the published bounds are on rho L/sqrt(m)."""
    lipschitz, m, log = 1.7, 23.0, math.log(1 / DELTA)
    scale = math.sqrt(m) / lipschitz
    wanted = {
        "gdp": largest_mu(lambda mu: profile(mu, EPSILON), DELTA) / 2,
        "minami-theorem-7": (math.sqrt(log + EPSILON) - math.sqrt(log)) / math.sqrt(2),
        "minami-corollary-8": EPSILON / 2 * math.sqrt(1 / (1 + 2 * log)),
    }
    for analysis, share in wanted.items():
        given = {"lipschitz": lipschitz, "strong_convexity": m, "adjacency": REPLACED, "analysis": analysis}
        assert gibbs_calibration.likelihood_power(ASKED, **given) == pytest.approx(share * scale, rel=1e-9)
        assert gibbs_calibration.likelihood_power(ASKED, **given, at_most=0.01) == 0.01


@pytest.mark.parametrize(
    "change",
    [{"adjacency": Adjacency("add-remove")}, {"adjacency": Adjacency("replace", 2)}, {"draws": 2}],
    ids=["add-remove", "two rows", "two draws"],
)
def test_a_published_bound_is_for_one_draw_and_one_replaced_row(change):
    given = {"lipschitz": 1.0, "strong_convexity": 1.0, "adjacency": REPLACED, "analysis": "minami-theorem-7"} | change
    with pytest.raises(InvalidParameter, match="used for one draw and one replaced row: that is what it proves"):
        gibbs_calibration.likelihood_power(ASKED, **given)


def test_a_published_bound_is_in_epsilon_and_delta_by_a_known_name():
    given = {"lipschitz": 1.0, "strong_convexity": 1.0, "adjacency": REPLACED}
    with pytest.raises(InvalidParameter, match="an epsilon and a delta for minami-theorem-7"):
        gibbs_calibration.likelihood_power(Guarantee.parse("mu=1"), **given, analysis="minami-theorem-7")
    with pytest.raises(InvalidParameter, match="analysis must be one of gdp, renyi"):
        gibbs_calibration.likelihood_power(ASKED, **given, analysis="theorem-7")


def test_the_least_prior_precision_of_an_exact_draw():
    """mu^2 = (2 L)^2/(n beta) a draw, unless the given precision does already."""
    mu = largest_mu(lambda x: profile(x, EPSILON), DELTA)
    given = {"lipschitz": 1.7, "count": 40, "adjacency": REPLACED}
    for draws in (1, 5):
        wanted = draws * (2 * 1.7 / mu) ** 2 / 40
        found = gibbs_calibration.prior_precision(
            ASKED, **given, at_least=0.1, **({} if draws == 1 else {"draws": draws})
        )
        assert found == pytest.approx(wanted, rel=1e-9)
        assert gibbs_calibration.prior_precision(ASKED, **given, at_least=2 * wanted, draws=draws) == 2 * wanted


@pytest.mark.parametrize("norm", [0.5, 1.0, 4.0])
def test_predictors_inside_the_ball_are_where_the_constants_of_a_loss_hold(norm):
    """|x . theta| <= norm * ball = reach, attained where x and theta are parallel."""
    problem = LinearProblem(Probit(3.0), 3, norm, Adjacency("add-remove"), MOST)
    assert problem.ball is not None
    assert norm * problem.ball == pytest.approx(3.0)
    assert LinearProblem(Logistic(), 3, norm, Adjacency("add-remove"), MOST).ball is None
