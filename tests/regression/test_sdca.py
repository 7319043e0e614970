"""Updates of the dual, one record at a time: what one does, what the mean of them gains, and how many are enough."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

from vestry.errors import InvalidParameter
from vestry.noise import SystemNoise
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression import certified_minimum, newton_sums, sdca
from vestry.regression.certified_minimum import GRADIENTS, NEWTON, ONE_BY_ONE, RidgeObjective
from vestry.regression.losses import (
    Huber,
    LogCosh,
    Logistic,
    Multinomial,
    PseudoHuber,
    SmoothHinge,
    SmoothQuantile,
    SoftplusHinge,
)
from vestry.regression.method import made_up_pass, regression, try_out
from vestry.regression.problem import LinearProblem

pytest.importorskip("numba", reason="the extra `glm` is not installed")

from vestry.regression import newton_kernels
from vestry.regression.sdca_rows import Rows

# Written out anew: the derivative in eta.
SLOPES = {
    Logistic(): lambda eta, y: -y / (1 + np.exp(y * eta)),
    Huber(0.7): lambda eta, y: np.clip(eta - y, -0.7, 0.7),
    PseudoHuber(0.7): lambda eta, y: (eta - y) / np.sqrt(1 + ((eta - y) / 0.7) ** 2),
    LogCosh(): lambda eta, y: np.tanh(eta - y),
    SmoothQuantile(0.3, 0.2): lambda eta, y: 1 / (1 + np.exp(-(eta - y) / 0.2)) - 0.3,
}
LOSSES = [*SLOPES, SmoothHinge(0.5), SoftplusHinge(0.3)]
IDS = [loss.name for loss in LOSSES]


def problem(loss, *, max_rows=30, features=3):
    return LinearProblem(loss, features, 1.0, Adjacency("add-remove"), max_rows)


def data(seed, count=30, features=3, dtype=float):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, features)).astype(dtype)
    rows /= 1.0001 * np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, np.where(rng.random(count) < 0.5, 1.0, -1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [1, 3, 16, 37])
@pytest.mark.parametrize("loss", list(SLOPES), ids=IDS[:5])
def test_updates_are_those_of_a_plain_loop(loss, features, dtype):
    rows, y = data(1, 50, features, dtype)
    order = np.random.default_rng(2).integers(50, size=400)
    share, lam, slope = 0.4, 3.0, SLOPES[loss]
    expected, a = np.linspace(-1, 1, features), np.zeros(50)
    theta, dual = expected.copy(), a.copy()
    for i in order:
        step = share * (-slope(rows[i].astype(float) @ expected, y[i]) - a[i])
        a[i] += step
        expected += step * rows[i].astype(float) / lam
    Rows(loss, [(rows[:20], y[:20]), (rows[20:], y[20:])]).update(
        order, dual, theta, np.zeros(features), share=share, lam=lam
    )
    assert theta == pytest.approx(expected, rel=1e-11, abs=1e-13)
    assert dual == pytest.approx(a, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("count", [0, 1, 5000])
@pytest.mark.parametrize("loss", list(SLOPES), ids=IDS[:5])
def test_the_gradient_over_rows_is_the_sum(loss, count):
    rows, y = data(3, count, 4)
    theta = np.array([0.5, -1.0, 2.0, 0.1])
    expected = sum((SLOPES[loss](row @ theta, sign) * row for row, sign in zip(rows, y, strict=True)), np.zeros(4))
    assert Rows(loss, [(rows, y)]).gradient(theta) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_what_is_of_the_wrong_shape_is_refused():
    rows, y = data(1, 5)
    for blocks in ([], [(rows, y[:4])], [(rows, y[:, None])], [(rows, y), (rows[:, :2], y)]):
        with pytest.raises(InvalidParameter, match="blocks must be") as refused:
            Rows(Logistic(), blocks)
        assert "5" not in str(refused.value)  # how many records there are
    whole = Rows(Logistic(), [(rows, y)])
    for dual, theta, low in ((4, 3, 3), (5, 2, 3), (5, 3, 4)):
        with pytest.raises(InvalidParameter, match="theta must be"):
            whole.update(np.zeros(1, int), np.zeros(dual), np.zeros(theta), np.zeros(low), share=0.5, lam=1.0)


@pytest.mark.parametrize("calls", [1, 3 * 2**10])
def test_changes_below_the_last_digit_are_not_lost(calls):
    """Each moves theta = 1 by a third of 2^-53: rounded one by one, none would be seen."""
    count = 3 * 2**10
    rows, y = np.ones((count, 1)), np.full(count, 1e9)  # so far off that Huber's slope is -1
    theta, low, dual, whole = np.ones(1), np.zeros(1), np.zeros(count), Rows(Huber(1.0), [(rows, y)])
    for order in np.split(np.arange(count), calls):
        whole.update(order, dual, theta, low, share=0.5, lam=0.5 * 3 * 2.0**53)
    assert theta[0] - 1 == pytest.approx(2.0**-43, abs=2.0**-51)


# --- what an update gains ---------------------------------------------------------------------------------------------


def entropy(a):
    return sum(0.0 if x <= 0 else x * math.log(x) for x in (a, 1 - a))


# phi and its conjugate at -a, where that is finite.
PAIRS = {
    "logistic": (Logistic(), lambda eta, y: math.log1p(math.exp(-y * eta)), lambda a, y: entropy(a * y)),
    "huber": (
        Huber(0.7),
        lambda eta, y: (eta - y) ** 2 / 2 if abs(eta - y) <= 0.7 else 0.7 * abs(eta - y) - 0.245,
        lambda a, y: a * a / 2 - a * y,
    ),
}


def gains(name, rows, y, linear, lam, a, share):
    """Return D* - D before an update, and its mean after, over every record that may be picked."""
    loss, phi, conjugate = PAIRS[name]
    n = len(y)

    def primal(theta):
        return sum(phi(r @ theta, s) for r, s in zip(rows, y, strict=True)) + lam * theta @ theta / 2 + linear @ theta

    def dual(a):
        theta = (a @ rows - linear) / lam
        return -sum(conjugate(x, s) for x, s in zip(a, y, strict=True)) - lam * theta @ theta / 2

    best = minimize(primal, np.zeros(rows.shape[1]), method="BFGS", options={"gtol": 1e-11}).fun
    after = []
    for i in range(n):
        moved, theta = a.copy(), (a @ rows - linear) / lam
        Rows(loss, [(rows, y)]).update(np.array([i]), moved, theta, np.zeros(2), share=share, lam=lam)
        assert theta == pytest.approx((moved @ rows - linear) / lam, abs=1e-12)
        after.append(best - dual(moved))
    return best - dual(a), float(np.mean(after))


def states(name, y, rng):
    """Duals where the conjugate is finite: the start, the edges, and between."""
    most = 1.0 if name == "logistic" else 0.7
    yield np.zeros(len(y))
    yield most * y if name == "logistic" else most * np.where(rng.random(len(y)) < 0.5, 1, -1)
    for _ in range(4):
        yield most * rng.random(len(y)) * y


@pytest.mark.parametrize("lam", [0.01, 0.3, 5.0])
@pytest.mark.parametrize("kind", ["random", "equal", "opposite", "zero"])
@pytest.mark.parametrize("name", list(PAIRS))
def test_the_mean_of_the_updates_gains_what_the_theorem_says(name, kind, lam):
    rng = np.random.default_rng(5)
    rows, y = data(6, 6, 2)
    rows = {"random": rows, "equal": np.tile([1.0, 0.0], (6, 1)), "opposite": np.tile([1.0, 0.0], (6, 1)),
            "zero": np.zeros((6, 2))}[kind]  # fmt: skip
    y = np.ones(6) if kind == "equal" else np.repeat([1.0, -1.0], 3) if kind == "opposite" else y
    loss = PAIRS[name][0]
    share = sdca.share_of(loss.smoothness(1.0), lam)
    for linear in (np.zeros(2), np.array([2.0, -1.0])):
        for a in states(name, y, rng):
            before, after = gains(name, rows, y, linear, lam, a, share)
            assert before >= -1e-7
            assert after <= (1 - share / 6) * before + 1e-7


@pytest.mark.parametrize("factor", [2.5, 4.0])
def test_a_share_that_is_too_large_gains_less_than_it_claims(factor):
    """The curvature forgotten, or the square of the norm: the same comparison refutes them."""
    rows, y = np.tile([1.0, 0.0], (6, 1)), np.ones(6)
    lam = 0.3
    share = min(1.0, factor * sdca.share_of(Huber(0.7).smoothness(1.0), lam))
    before, after = gains("huber", rows, y, np.zeros(2), lam, np.full(6, 0.05), share)
    assert after > 1.5 * before


def test_the_distance_is_bounded_by_what_the_dual_lacks():
    rows, y = data(8, 6, 2)
    lam, linear, rng = 0.3, np.array([1.0, 0.5]), np.random.default_rng(1)
    _, phi, conjugate = PAIRS["logistic"]

    def primal(theta):
        return sum(phi(r @ theta, s) for r, s in zip(rows, y, strict=True)) + lam * theta @ theta / 2 + linear @ theta

    best = minimize(primal, np.zeros(2), method="BFGS", options={"gtol": 1e-11})
    for a in states("logistic", y, rng):
        theta = (a @ rows - linear) / lam
        value = -sum(conjugate(x, s) for x, s in zip(a, y, strict=True)) - lam * theta @ theta / 2
        assert lam / 2 * np.sum((theta - best.x) ** 2) <= best.fun - value + 1e-9
    start = -(linear @ linear) / (2 * lam)
    assert best.fun - start <= 6 * math.log(2) + linear @ linear / (2 * lam)


# --- how many are enough ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [1, 40, 10**6])
@pytest.mark.parametrize("lam", [0.01, 12.0])
def test_the_readings_are_what_the_theorem_needs(records, lam):
    times = sdca.readings(smoothness=3.5, regularisation=lam, most=0.7 * records, longest=4.0, near=1e-6)
    with mpmath.workdps(40):
        share = 1 / (1 + mpmath.mpf(3.5) / lam)
        start = mpmath.mpf(0.7) * records + mpmath.mpf(16) / (2 * mpmath.mpf(lam))

        def chance(t):
            return (1 - share / records) ** t * start / (mpmath.mpf(lam) / 2 * mpmath.mpf(1e-6) ** 2)

        assert chance(math.ceil(times * records)) <= mpmath.mpf("1e-9") * (1 + mpmath.mpf("1e-9"))
        # With e^(-s/n) for 1 - s/n no reading is too many.
        assert mpmath.exp(-share * times) * chance(0) == pytest.approx(mpmath.mpf("1e-9"), rel=1e-9)


def test_a_point_that_is_near_from_the_start_is_read_once():
    assert sdca.readings(smoothness=1.0, regularisation=1.0, most=1.0, longest=0.0, near=1e9) == 1


def test_the_point_wanted_is_so_near_that_its_gradient_proves_the_tolerance():
    """M near = lam tolerance/2, M = n c R^2 + lam."""
    given = problem(Logistic(), max_rows=50)
    expected = sdca.readings(
        smoothness=0.25, regularisation=2.0, most=50 * math.log(2), longest=3.0,
        near=2.0 * 1e-5 / 2 / (50 * 0.25 + 2.0),
    )  # fmt: skip
    assert RidgeObjective(given, 2.0, 3.0).readings(1e-5) == pytest.approx(expected, rel=1e-12)


def test_a_generous_bound_on_the_records_costs_little():
    """What is done follows from the readings and the records that there are, not from how many were allowed."""
    few, many = (RidgeObjective(problem(Logistic(), max_rows=n), 10.0).readings(1e-3) for n in (10**3, 10**12))
    assert many < 4 * few


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lam", [0.02, 2.0])
@pytest.mark.parametrize("loss", LOSSES, ids=IDS)
def test_every_loss_comes_within_the_tolerance_in_the_public_count(monkeypatch, loss, lam, seed):
    """Fewer records than declared, some of zeros, some equal; no other way may follow. Chance of a failure: 1e-9."""

    def refused(*_, **__):
        raise AssertionError("the public count did not do")

    monkeypatch.setattr(certified_minimum.RidgeObjective, "way", lambda *_, **__: ONE_BY_ONE)
    monkeypatch.setattr(certified_minimum.accelerated_descent, "minimise", refused)
    rows, y = data(seed, 25)
    rows[:5], rows[5:15] = 0.0, rows[5]
    linear = np.array([0.3, -1.0, 0.2])
    objective = RidgeObjective(problem(loss), lam, 1.1)
    found = objective.minimum([(rows, y)], linear, 1e-7, stream=np.random.default_rng(seed))
    full = certified_minimum.gradient(loss, [(rows, y)], device="cpu")(found) + lam * found + linear
    assert np.linalg.norm(full) <= lam * 1e-7


def test_a_tenth_of_the_readings_does_not_do():
    """Equal records of a quadratic loss: they are many, but not ten times too many."""
    rows, y = np.tile([1.0, 0.0, 0.0], (30, 1)), np.full(30, 0.5)
    given, lam, tolerance = problem(Huber(1.0)), 0.02, 1e-6
    times = RidgeObjective(given, lam).readings(tolerance)
    found = sdca.ascend(
        Rows(Huber(1.0), [(rows, y)]), np.zeros(3), np.random.default_rng(0),
        smoothness=1.0, regularisation=lam, times=times / 10,
    )  # fmt: skip
    optimum = 30 * 0.5 / (30 + lam)
    assert abs(found[0] - optimum) > tolerance * lam / (2 * (30 + lam))


def test_no_records_give_the_minimum_of_what_is_left():
    empty = [(np.zeros((0, 3)), np.zeros(0))]
    linear = np.array([1.0, -2.0, 0.5])
    found = sdca.ascend(
        Rows(Logistic(), empty), linear, np.random.default_rng(0), smoothness=0.25, regularisation=2.0, times=10
    )
    assert found == pytest.approx(-linear / 2.0)


def test_so_many_updates_are_made_and_every_record_has_its_chance():
    """100,004 updates of 7 records: each is picked a seventh of the time (six deviations; false alarm 2e-8)."""

    class Counted:
        def __init__(self):
            self.picked = np.zeros(7, int)

        def __len__(self):
            return 7

        def update(self, order, dual, theta, low, *, share, lam):
            np.add.at(self.picked, order, 1)

    rows = Counted()
    sdca.ascend(rows, np.zeros(2), np.random.default_rng(3), smoothness=1.0, regularisation=1.0, times=14_286.2)
    assert rows.picked.sum() == 100_004
    assert np.abs(rows.picked - 100_004 / 7).max() < 6 * math.sqrt(100_004 * 6 / 49)


# --- which way --------------------------------------------------------------------------------------------------------


def test_the_quickest_way_follows_from_public_numbers(monkeypatch):
    monkeypatch.setattr(certified_minimum, "cores", lambda: 2)
    adult, pixels, several = (
        LinearProblem(loss, features, 3.7, Adjacency("add-remove"), 32_561)
        for loss, features in ((Logistic(), 105), (Logistic(), 785), (Multinomial(3), 105))
    )
    assert RidgeObjective(adult, 12.0, 450.0).way(2e-7, "cpu") == NEWTON
    # Where the Hessian has many numbers, records are taken one by one.
    assert RidgeObjective(pixels, 12.0, 450.0).way(2e-7, "cpu") == ONE_BY_ONE
    # Much regularised, a few gradients do; hardly regularised, updates gain too little.
    assert RidgeObjective(adult, 1e6, 450.0).way(2e-7, "cpu") == GRADIENTS
    assert RidgeObjective(pixels, 1e-3, 0.1).way(1e-3, "cpu") == NEWTON
    monkeypatch.setattr(certified_minimum, "cores", lambda: 640)
    assert RidgeObjective(adult, 12.0, 450.0).way(2e-7, "cpu") == GRADIENTS
    monkeypatch.setattr(certified_minimum, "cores", lambda: 2)
    assert RidgeObjective(several, 12.0).way(2e-7, "cpu") == GRADIENTS
    for elsewhere in ("gpu", "nowhere"):  # who computes the gradient says what is wrong with it
        assert RidgeObjective(adult, 12.0, 450.0).way(2e-7, elsewhere) == GRADIENTS
    monkeypatch.setattr(certified_minimum, "has_gpu", lambda: True)
    assert RidgeObjective(adult, 12.0, 450.0).way(2e-7) == GRADIENTS
    assert RidgeObjective(adult, 12.0, 450.0).way(2e-7, "cpu") == NEWTON


@pytest.mark.parametrize("features", [105, 785])
@pytest.mark.parametrize("method", ["objective", "output"])
def test_the_way_that_will_be_taken_is_tried_before_a_charge(monkeypatch, method, features):
    """A compiler that fails, or is not there, must show before anything is paid."""
    monkeypatch.setattr(certified_minimum, "cores", lambda: 1)
    given, bound = LinearProblem(Logistic(), features, 3.7, Adjacency("add-remove"), 32_561), "epsilon=1,delta=1e-6"
    made = regression(given, Guarantee.parse(bound), method=method, regularisation=12.0, device="cpu")
    assert made.way == (NEWTON if features == 105 else ONE_BY_ONE)

    def fails(*_, **__):
        raise RuntimeError("no compiler")

    try_out(made)
    used = [(newton_kernels, "sums"), (newton_sums, "slopes_of")] if made.way == NEWTON else [(Rows, "update")]
    for owner, name in used:
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, fails)
            with pytest.raises(RuntimeError, match="no compiler"):
                try_out(made)


@pytest.mark.parametrize(("rows", "single"), [(32_561, True), (10_000_000, False)])
def test_what_is_tried_is_of_the_precision_that_will_be_taken(monkeypatch, rows, single):
    """Loops are compiled for each precision: another one would show nothing."""
    given, used = LinearProblem(Logistic(), 5, 3.7, Adjacency("add-remove"), rows), []

    class Seen(newton_sums.RowPasses):
        def __init__(self, *given, single, **named):
            used.append(single)
            super().__init__(*given, single=single, **named)

    monkeypatch.setattr(certified_minimum, "RowPasses", Seen)
    for method in ("objective", "output"):
        made = regression(given, Guarantee.parse("epsilon=1,delta=1e-6"), method=method, regularisation=12.0)
        made.draw([(np.zeros((1, 5), np.float32), np.ones(1))], SystemNoise())
        assert used.pop() == made_up_pass(made).single == single
