"""The minimum to a distance that public constants guarantee: on random, adversarial and logistic problems."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.special import expit

from vestry.errors import GuaranteeUnreachable
from vestry.privacy.neighbours import Adjacency
from vestry.regression import accelerated_descent, certified_minimum
from vestry.regression.accelerated_descent import iterations, minimise
from vestry.regression.certified_minimum import RidgeObjective
from vestry.regression.losses import LogCosh, Logistic
from vestry.regression.problem import LinearProblem


def rates(q: float, count: int) -> list[float]:
    """A_1 ... A_N: each A' is the larger root of ((1-q)^2 A' - (1+q) A - 2)^2 = 4 (1 + A)(1 + q A)."""
    found, a = [], 0.0
    for _ in range(count):
        roots = np.roots([
            (1 - q) ** 4,
            -2 * (1 - q) ** 2 * ((1 + q) * a + 2),
            ((1 + q) * a + 2) ** 2 - 4 * (1 + a) * (1 + q * a),
        ])  # fmt: skip
        a = float(max(roots.real))
        found.append(a)
    return found


def left(gradient, start, optimum, m, big, count) -> float:
    """What is left of the distance, rounding apart, over what is promised."""
    found = minimise(gradient, start, strong_convexity=m, smoothness=big, count=count)
    promised = np.linalg.norm(start - optimum) / math.sqrt(1 + m / big * rates(m / big, count)[-1])
    return (float(np.linalg.norm(found - optimum)) - 1e-14) / promised


@pytest.mark.parametrize("count", [1, 2, 5, 20])
@pytest.mark.parametrize("condition", [1.5, 10.0, 1000.0])
def test_quadratics_come_as_near_as_promised(condition, count):
    """At every curvature between m and M, and in random bases; adversarial ones are among them."""
    rng = np.random.default_rng(count)
    m, big = 0.3, 0.3 * condition
    for curvature in np.geomspace(m, big, 40):
        start, optimum = np.array([3.0]), np.array([-1.0])
        assert left(lambda x, c=curvature: c * (x + 1), start, optimum, m, big, count) <= 1 + 1e-9
    for _ in range(10):
        basis, _ = np.linalg.qr(rng.standard_normal((6, 6)))
        matrix = basis @ np.diag([m, big, *rng.uniform(m, big, 4)]) @ basis.T
        optimum, start = rng.standard_normal(6), 5 * rng.standard_normal(6)
        assert left(lambda x, a=matrix, o=optimum: a @ (x - o), start, optimum, m, big, count) <= 1 + 1e-9


@pytest.mark.parametrize("count", [1, 3, 10])
def test_the_worst_function_is_as_bad_as_promised(count):
    """Steep until the last step and flat beyond, or bent at a point: some bend comes within a tenth of the promise."""
    m, big = 0.3, 6.0
    worst = 0.0
    for bend in np.geomspace(1e-4, 1, 400):  # curvature M up to the bend and m beyond it, from the minimum 0

        def slope(x, bend=bend):
            return np.sign(x) * (big * np.minimum(np.abs(x), bend) + m * np.maximum(np.abs(x) - bend, 0))

        ratio = left(slope, np.ones(1), np.zeros(1), m, big, count)
        assert ratio <= 1 + 1e-9
        worst = max(worst, ratio)
    assert worst > 0.9


def test_a_promise_a_tenth_better_is_false():
    """The same search refutes a method that stops one step in ten early."""
    m, big, count = 0.3, 6.0, 10
    bends = np.geomspace(1e-4, 1, 400)

    def slope(bend):
        return lambda x: np.sign(x) * (big * np.minimum(np.abs(x), bend) + m * np.maximum(np.abs(x) - bend, 0))

    promised = 1 / math.sqrt(1 + m / big * rates(m / big, count)[-1])
    early = max(
        abs(minimise(slope(b), np.ones(1), strong_convexity=m, smoothness=big, count=count - 1)[0]) for b in bends
    )
    assert early > promised


@pytest.mark.parametrize("condition", [2.0, 50.0, 1e4])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-6, 1e-12])
def test_the_count_is_the_least_that_is_promised_to_do(condition, tolerance):
    count = iterations(strong_convexity=1.0, smoothness=condition, reach=3.0, tolerance=tolerance)
    if count > 400:
        pytest.skip("too many roots")
    a = [0.0, *rates(1 / condition, count)]
    assert 3.0 / math.sqrt(1 + a[count] / condition) <= tolerance * (1 + 1e-6)
    assert count == 1 or 3.0 / math.sqrt(1 + a[count - 1] / condition) > tolerance * (1 - 1e-6)


def test_a_count_is_computed_once(monkeypatch):
    steps, following = [], accelerated_descent._next
    monkeypatch.setattr(accelerated_descent, "_next", lambda *given: steps.append(1) or following(*given))
    constants = {"strong_convexity": 1.0, "smoothness": 47.0, "reach": 3.0, "tolerance": 1e-5}
    count = iterations(**constants)
    assert iterations(**constants) == count == len(steps)
    assert iterations(**constants | {"tolerance": 1e-3}) < count


@pytest.mark.long
def test_a_minimum_out_of_reach_is_refused():
    with pytest.raises(GuaranteeUnreachable, match="regularise more"):
        iterations(strong_convexity=1e-16, smoothness=1.0, reach=1.0, tolerance=1e-12)


def test_a_multiple_of_the_square_takes_one_step():
    assert iterations(strong_convexity=2.0, smoothness=2.0, reach=1.0, tolerance=1e-9) == 1
    found = minimise(lambda x: 2 * (x - 5), np.zeros(2), strong_convexity=2.0, smoothness=2.0, count=1)
    assert found == pytest.approx([5, 5])


# --- logistic problems ------------------------------------------------------------------------------------------------


def stream() -> np.random.Generator:
    return np.random.default_rng(7)


def newton(rows, y, lam, linear):
    """Minimise sum log(1 + exp(-y x theta)) + lam |theta|^2/2 + b theta by Newton's method, with halved steps."""
    theta = np.zeros(rows.shape[1])

    def value(t):
        return np.logaddexp(0, -y * (rows @ t)).sum() + lam * t @ t / 2 + linear @ t

    for _ in range(200):
        p = expit(-y * (rows @ theta))
        slope = -rows.T @ (y * p) + lam * theta + linear
        if np.linalg.norm(slope) < 1e-13 * max(1, len(y)):
            break
        step = np.linalg.solve((rows * (p * (1 - p))[:, None]).T @ rows + lam * np.eye(len(theta)), slope)
        size = 1.0
        while value(theta - size * step) > value(theta) and size > 1e-10:
            size /= 2
        theta = theta - size * step
    return theta


def adversarial(name: str):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((40, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    y = np.where(rng.random(40) < expit(2 * rows[:, 0]), 1.0, -1.0)
    return {
        "random": (rows, y),
        "equal": (np.tile([1.0, 0, 0], (40, 1)), np.ones(40)),
        "opposite": (np.tile([1.0, 0, 0], (40, 1)), np.repeat([1.0, -1.0], 20)),
        "separable": (rows, np.sign(rows[:, 0])),
        "zero rows": (np.zeros((40, 3)), y),
        "one row": (rows[:1], y[:1]),
    }[name]


CASES = ["random", "equal", "opposite", "separable", "zero rows", "one row"]


def only(monkeypatch, way: str) -> None:
    """Let one of the ways be taken, and no other follow: what it gives must do, Newton's in its first round."""
    pytest.importorskip("numba", reason="the extra `glm` is not installed")

    def refused(*_, **__):
        raise AssertionError("the public count did not do")

    monkeypatch.setattr(certified_minimum.RidgeObjective, "way", lambda *_, **__: way)
    monkeypatch.setattr(certified_minimum.newton, "ROUNDS", (certified_minimum.newton.PASSES - 1,))
    methods = {
        "gradients": (certified_minimum.accelerated_descent, "minimise"),
        "one by one": (certified_minimum.sdca, "ascend"),
        "newton": (certified_minimum, "RowPasses"),
    }
    for other in methods.keys() - {way}:
        monkeypatch.setattr(*methods[other], refused)


WAYS = ["newton", "one by one", "gradients"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pushed", [False, True])
@pytest.mark.parametrize("lam", [0.01, 1.0])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.long
def test_the_minimum_is_reached_within_the_public_count(monkeypatch, case, lam, pushed, way):
    only(monkeypatch, way)
    rows, y = adversarial(case)
    problem = LinearProblem(Logistic(), features=3, norm=1.0, adjacency=Adjacency("add-remove"), max_rows=40)
    linear = np.array([3.0, -4.0, 0.0]) if pushed else np.zeros(3)
    optimum = newton(rows, y, lam, linear)
    assert np.linalg.norm(optimum) <= RidgeObjective(problem, lam, float(np.linalg.norm(linear))).reach * (1 + 1e-12)
    longest = float(np.linalg.norm(linear))
    for tolerance in (1e-2, max(1e-8, RidgeObjective(problem, lam, longest).finest)):
        found = RidgeObjective(problem, lam, longest).minimum([(rows, y)], linear, tolerance, stream=stream())
        assert np.linalg.norm(found - optimum) <= tolerance
        slope = -rows.T @ (y * expit(-y * (rows @ found))) + lam * found + linear
        assert np.linalg.norm(slope) <= (40 / 4 + lam) * tolerance


@pytest.mark.parametrize("way", WAYS)
def test_the_minimum_is_that_of_scikit_learn(monkeypatch, way):
    only(monkeypatch, way)
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((500, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    y = np.where(rng.random(500) < expit(rows @ [2.0, -1, 0, 0, 1]), 1.0, -1.0)
    lam = 0.7
    peer = linear_model.LogisticRegression(C=1 / lam, fit_intercept=False, solver="newton-cholesky", tol=1e-13)
    peer.fit(rows, y)
    problem = LinearProblem(Logistic(), features=5, norm=1.0, adjacency=Adjacency("add-remove"), max_rows=500)
    found = RidgeObjective(problem, lam).minimum(
        [(rows, y)], np.zeros(5), RidgeObjective(problem, lam).finest, stream=stream()
    )
    assert found == pytest.approx(peer.coef_[0], abs=1e-8)
    assert found == pytest.approx(newton(rows, y, lam, np.zeros(5)), abs=1e-9)


def test_a_tolerance_below_rounding_is_refused():
    rows, y = adversarial("random")
    problem = LinearProblem(Logistic(), features=3, norm=1.0, adjacency=Adjacency("add-remove"), max_rows=40)
    objective = RidgeObjective(problem, 1.0)
    with pytest.raises(GuaranteeUnreachable, match="rounding alone may be more"):
        objective.minimum([(rows, y)], np.zeros(3), 0.99 * objective.finest, stream=stream())


def test_losses_that_are_no_numbers_end():
    """No encoder lets them through; they must not run for ever."""
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    problem = LinearProblem(Logistic(), features=3, norm=1.0, adjacency=Adjacency("add-remove"), max_rows=40)
    with pytest.raises(ArithmeticError, match="not numbers"):
        RidgeObjective(problem, 1.0).minimum(
            [(np.full((4, 3), np.nan), np.ones(4))], np.zeros(3), 1e-3, stream=stream()
        )


def test_the_loss_at_zero_is_never_said_to_be_less_than_it_is():
    """log cosh of a small number cancels to 0 as it is written."""
    problem = LinearProblem(
        LogCosh(), features=3, norm=1.0, adjacency=Adjacency("add-remove"), max_rows=1000, outcome=1e-9
    )
    assert problem.most >= 1000 * 0.5e-18
    assert RidgeObjective(problem, 1.0, 0.0).reach > 0


def test_a_wrong_gradient_is_seen():
    """The comparison with Newton's method refutes a solver whose gradient is off by a hundredth."""
    rows, y = adversarial("random")
    optimum = newton(rows, y, 1.0, np.zeros(3))
    found = minimise(
        lambda t: 1.01 * (-rows.T @ (y * expit(-y * (rows @ t)))) + t,
        np.zeros(3), strong_convexity=1.0, smoothness=11.0, count=200,
    )  # fmt: skip
    assert np.linalg.norm(found - optimum) > 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_errors_of_the_gradient_are_not_amplified_beyond_twice_their_share(seed):
    """A gradient that is off by e at every call, adversarially, leaves at most 2 e/m: what is kept for rounding."""
    rng = np.random.default_rng(seed)
    m, big, error = 1.0, 400.0, 1e-3
    curvatures = np.geomspace(m, big, 30)
    count = iterations(strong_convexity=m, smoothness=big, reach=1.0, tolerance=1e-9)
    frequency = rng.uniform(0, math.pi, 30)
    calls = [0]

    def slope(x):
        calls[0] += 1
        off = [np.ones(30), np.cos(frequency * calls[0]), np.sign(np.cos(frequency * calls[0])), np.sign(x),
               np.sign(x) * (-1) ** calls[0]][seed]  # fmt: skip
        return curvatures * x + error * off

    found = minimise(slope, np.ones(30), strong_convexity=m, smoothness=big, count=count)
    # One coordinate is a problem of its own, with an error of this size.
    assert np.abs(found).max() <= 2 * error / m


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", ["far", "beyond", "nan"])
def test_a_point_that_rounding_has_spoilt_is_found_and_replaced(monkeypatch, wrong, way):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    rows, y = adversarial("random")
    problem = LinearProblem(Logistic(), features=3, norm=1.0, adjacency=Adjacency("add-remove"), max_rows=40)
    optimum = newton(rows, y, 1.0, np.zeros(3))
    for tolerance in (1e-4, RidgeObjective(problem, 1.0).finest):
        spoilt = {
            "far": optimum + np.array([1.2 * tolerance, 0, 0]),
            "beyond": np.full(3, 1e9),
            "nan": np.full(3, np.nan),
        }[wrong]
        monkeypatch.setattr(certified_minimum.RidgeObjective, "way", lambda *_, **__: way)
        monkeypatch.setattr(certified_minimum.newton.NewtonSearch, "walk", lambda *_, x=spoilt: x)
        monkeypatch.setattr(certified_minimum.accelerated_descent, "minimise", lambda *_, x=spoilt, **__: x)
        monkeypatch.setattr(certified_minimum.sdca, "ascend", lambda *_, x=spoilt, **__: x)
        found = RidgeObjective(problem, 1.0).minimum([(rows, y)], np.zeros(3), tolerance, stream=stream())
        assert np.linalg.norm(found - optimum) <= tolerance + 1e-14


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.long
def test_the_finest_tolerance_covers_what_rounding_does(monkeypatch, way):
    """Gradients in doubles against 30 digits, the last point is where it is said to be."""
    only(monkeypatch, way)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    y = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    problem = LinearProblem(Logistic(), features=3, norm=1.0, adjacency=Adjacency("add-remove"), max_rows=2000)
    found = RidgeObjective(problem, 0.5).minimum(
        [(rows, y)], np.zeros(3), RidgeObjective(problem, 0.5).finest, stream=stream()
    )
    exact = [float(mpmath_slope(rows, y, found, at) + mpmath.mpf(0.5) * mpmath.mpf(found[at])) for at in range(3)]
    assert np.linalg.norm(exact) <= 0.5 * RidgeObjective(problem, 0.5).finest
    assert 1e-14 < RidgeObjective(problem, 0.5).finest < 1e-7


def mpmath_slope(rows, y, theta, at):
    with mpmath.workdps(30):
        terms = []
        for row, sign in zip(rows, y, strict=True):
            eta = mpmath.fdot(list(map(float, row)), list(map(float, theta)))
            terms.append(-sign * mpmath.mpf(float(row[at])) / (1 + mpmath.exp(sign * eta)))
        return mpmath.fsum(terms)
