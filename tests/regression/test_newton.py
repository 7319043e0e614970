"""Newton's passes: what they sum, by formulas and in pieces; and how few of them do on problems that are hard."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit

from vestry.errors import MissingExtra
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression import certified_minimum, newton, newton_sums
from vestry.regression.certified_minimum import NEWTON, RidgeObjective
from vestry.regression.losses import Huber, LogCosh, Logistic, Multinomial, PseudoHuber
from vestry.regression.method import regression
from vestry.regression.newton import PASSES, PLACES, NewtonPoint, NewtonSearch, NewtonSums
from vestry.regression.newton_sums import NewtonPass, RowPasses
from vestry.regression.problem import LinearProblem
from vestry.schema.private import RemoteRows

pytestmark = pytest.mark.oracle


def made_up(n=5000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, np.where(rng.random(n) < expit(3 * x[:, 0]), 1.0, -1.0)


POINT = NewtonPoint(np.array([0.5, -1.0, 0.0, 2.0]), np.array([1.0, 1.0, -2.0, 0.3]), np.array([-1.0, 0.5, 3.0]))


def by_formula(x, y, point):
    """The logistic loss: sums of -y x s, x x' s (1 - s), and -y z s along the line, s = 1/(1 + e^(y eta))."""
    s = expit(-y * (x @ point.theta))
    slopes = [
        float((-y * (x @ point.direction) * expit(-y * (x @ (point.theta + o * point.direction)))).sum())
        for o in point.offsets
    ]
    return -x.T @ (y * s), (x * (s * (1 - s))[:, None]).T @ x, slopes


@pytest.fixture(params=["compiled", "numpy"])
def compiler(request, monkeypatch):
    newton_sums.slopes_of.cache_clear()
    if request.param == "numpy":

        def absent(_):
            raise MissingExtra("a regression", "glm")

        monkeypatch.setattr(newton_sums.cpu_kernels, "derivatives", absent)
    else:
        pytest.importorskip("numba", reason="the extra `glm` is not installed")
    yield
    newton_sums.slopes_of.cache_clear()


@pytest.mark.parametrize("single", [False, True])
def test_a_pass_sums_what_the_formulas_say(compiler, single):
    x, y = made_up()
    found = RowPasses(Logistic(), [(x[:3000], y[:3000]), (x[3000:], y[3000:])], features=4, single=single).newton(POINT)
    gradient, hessian, slopes = by_formula(x, y, POINT)
    assert found.gradient == pytest.approx(gradient, rel=1e-12)
    assert found.hessian == pytest.approx(hessian, rel=2e-4, abs=2e-4)
    assert found.slopes == pytest.approx(slopes, rel=1e-10)


@pytest.mark.parametrize("features", [1, 3, 5, 8, 13])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("single", [False, True])
def test_compiled_sums_are_those_of_numpy(features, kind, single):
    """Of features that fill no strip, of rows that fill no tile, in several parts and pieces; a line and none."""
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    rng = np.random.default_rng(features)
    rows, y = rng.standard_normal((9001, features)).astype(kind), rng.standard_normal(9001)
    blocks = [(rows[:8700], y[:8700]), (rows[8700:8701], y[8700:8701]), (rows[8701:], y[8701:])]
    theta, other = rng.standard_normal((2, features))
    for direction in (other, 0 * other):
        sent = NewtonPass(PseudoHuber(0.7), NewtonPoint(theta, direction, np.array([-1.0, 2.0, 5.0])), single=single)
        found, expected = sent(iter(blocks)), sent._by_numpy(iter(blocks))
        assert found[:features] == pytest.approx(expected[:features], rel=1e-12, abs=1e-9)
        close = 1e-5 if single else 1e-12
        assert found[features:-3] == pytest.approx(expected[features:-3], rel=close, abs=close * 9001)
        assert found[-3:] == pytest.approx(expected[-3:], rel=1e-12)
        assert expected[-3:].any() == direction.any()


def test_the_gradient_of_each_block_is_summed_on_its_own():
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    from vestry.regression import cpu, cpu_kernels
    from vestry.regression.newton_kernels import TILE, sums

    x, y = made_up(3000)
    tiles, root, gradients = cpu.packed(x, y, tile=TILE), np.zeros((4, TILE)), np.zeros((2, 4))
    line = POINT.theta, POINT.direction, POINT.offsets, 1e-5, cpu_kernels.derivatives(Logistic()).address
    sums(tiles.values, tiles.outcomes, *line, 2048 // TILE, root, gradients, np.zeros((4, 4)), np.zeros(3))
    for part, found in zip((slice(0, 2048), slice(2048, 3000)), gradients, strict=True):
        assert found == pytest.approx(by_formula(x[part], y[part], POINT)[0], rel=1e-12)


def test_rows_that_are_too_many_to_be_held_twice_are_put_into_tiles_on_every_pass(monkeypatch):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    x, y = made_up(9000)
    made, packed = [], newton_sums.packed
    monkeypatch.setattr(newton_sums, "packed", lambda *given, **named: made.append(1) or packed(*given, **named))
    kept = RowPasses(Logistic(), [(x, y)], features=4)
    assert len(made) == 2  # pieces
    monkeypatch.setattr(newton_sums, "KEPT", 9000 * 4 - 1)
    anew = RowPasses(Logistic(), [(x, y)], features=4)
    assert len(made) == 2
    for _ in range(2):
        ours, theirs = kept.newton(POINT), anew.newton(POINT)
        assert (ours.gradient == theirs.gradient).all()
        assert (ours.hessian == theirs.hessian).all()
        assert (ours.slopes == theirs.slopes).all()
    assert len(made) == 6


@pytest.mark.parametrize("kept", [2**27, 3 * 4 * 4])
def test_shares_of_the_processors_are_summed_as_one(monkeypatch, kept):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    x, y = made_up(40_000)
    monkeypatch.setattr(newton_sums, "cores", lambda: 1)
    whole = RowPasses(Logistic(), [(x, y)], features=4).newton(POINT)
    monkeypatch.setattr(newton_sums, "KEPT", kept)
    monkeypatch.setattr(newton_sums, "ALONE", 4 * 40_000)
    monkeypatch.setattr(newton_sums, "cores", lambda: 3)
    shared = RowPasses(Logistic(), [(x, y)], features=4)
    assert len(shared._shares) == 3
    found = shared.newton(POINT)
    assert found.gradient == pytest.approx(whole.gradient, rel=1e-13)
    assert found.hessian == pytest.approx(whole.hessian, rel=1e-12)
    assert found.slopes == pytest.approx(whole.slopes, rel=1e-12)
    assert len(RowPasses(Logistic(), [(x[1:], y[1:])], features=4)._shares) == 1  # too few numbers
    monkeypatch.setattr(newton_sums, "KEPT", 3 * 4 * 4 - 1)
    assert len(RowPasses(Logistic(), [(x, y)], features=4)._shares) == 2  # no room for a third Hessian


@pytest.mark.parametrize(("pieces", "shares"), [(0, 4), (1, 4), (3, 4), (5, 4), (13, 2), (16, 5)])
def test_pieces_are_shared_out_evenly(pieces, shares):
    found = newton_sums._split(list(range(pieces)), shares)
    assert list(itertools.chain(*found)) == list(range(pieces))
    assert len(found) == max(1, min(pieces, shares))
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_loops_are_not_compiled_anew_for_a_point_that_cannot_be_written_to():
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    from vestry.regression import newton_kernels

    passes = RowPasses(Logistic(), [made_up()], features=4)
    found = passes.newton(POINT)
    compiled = len(newton_kernels.sums.signatures)
    fixed = NewtonPoint(*(np.array(part) for part in (POINT.theta, POINT.direction, POINT.offsets)))
    for part in (fixed.theta, fixed.direction, fixed.offsets):
        part.flags.writeable = False
    assert (passes.newton(fixed).gradient == found.gradient).all()
    assert len(newton_kernels.sums.signatures) == compiled


class Parts(RemoteRows):
    """Rows in parts that are summed one by one, as executors would; each function is carried by bytes."""

    def __init__(self, blocks):
        self.blocks, self.passes = blocks, 0

    def at_most(self, count):
        return self

    def sums(self, function):
        import pickle

        self.passes += 1
        sent = pickle.loads(pickle.dumps(function))
        return [sent(iter(part)) for part in self.blocks]


def test_parts_are_summed_as_one_whatever_their_sizes():
    """One row a part, and empty parts: the gradient is the sum of what parts have, with one rounding."""
    x, y = made_up(300)
    one = [(x, y)]
    for cut in ([1] * 300, [0, 150, 0, 150], [299, 1]):
        ends = np.cumsum([0, *cut])
        parts = [[(x[a:b], y[a:b])] if b > a else [] for a, b in itertools.pairwise(ends)]
        apart, whole = (RowPasses(Logistic(), rows, features=4) for rows in (Parts(parts), one))
        ours, theirs = apart.newton(POINT), whole.newton(POINT)
        assert ours.gradient == pytest.approx(theirs.gradient, rel=1e-13)
        assert ours.hessian == pytest.approx(theirs.hessian, rel=1e-12)
        assert apart.gradient(POINT.theta) == pytest.approx(theirs.gradient, rel=1e-13)
    parts = [np.array([1e16, 1.0]), np.array([1.0, 0.0]), np.array([-1e16, 1.0])]
    assert newton_sums._added(parts, 1)[0] == 1.0  # plain sums give 0


@pytest.mark.parametrize("rows", [[], [(np.zeros((0, 4)), np.zeros(0))]])
def test_no_rows_sum_to_nothing(rows):
    found = RowPasses(Logistic(), rows, features=4).newton(POINT)
    assert not found.gradient.any()
    assert not found.hessian.any()
    assert not RowPasses(Logistic(), rows, features=4).gradient(POINT.theta).any()


# --- the way ----------------------------------------------------------------------------------------------------------


def passes_for(loss, x, y, linear, lam, enough, times=1.0, most=64) -> int:
    """Count the passes until some gradient is small enough; a row counts `times` times."""
    whole = RowPasses(loss, [(x, y)], features=x.shape[1])

    def sums(point):
        found = whole.newton(point)
        return NewtonSums(times * found.gradient, times * found.hessian, times * found.slopes)

    search = NewtonSearch(sums, linear, regularisation=lam)
    for count in range(1, most):
        theta = search.walk(1)
        if np.linalg.norm(times * whole.gradient(theta) + lam * theta + linear) <= enough:
            return count
    return most


def test_a_quadratic_takes_two_passes():
    """At 0, and at the minimum."""
    x, y = made_up(50)
    y = 0.1 * y
    assert passes_for(Huber(50.0), x, y, np.zeros(4), 1.0, 1e-7) == 2


HARD = ["random", "separable", "equal", "opposite", "rare", "indicators", "zero", "lengths", "leverage"]


def hard(name, n=400, d=6, seed=0):
    """Rows of norm at most 1 on which steps are too long or too short."""
    rng = np.random.default_rng(seed)
    x, y = made_up(n, d, seed)
    longer = x * np.exp(-6 * rng.random((n, 1)))
    lever, other = 0.01 * x, np.sign(x[:, 0])
    lever[:3], other[:3] = x[:3], -other[:3]
    constant = np.column_stack([np.ones(n), x[:, 1:]]) / math.sqrt(2)
    return {
        "random": (x, y),
        "separable": (x, np.sign(x[:, 0])),
        "equal": (np.tile(x[0], (n, 1)), np.ones(n)),
        "opposite": (np.tile(x[0], (n, 1)), np.where(np.arange(n) < 0.3 * n, 1.0, -1.0)),
        "rare": (constant, np.where(np.arange(n) < 1, -1.0, 1.0)),
        "indicators": ((x > 0) / math.sqrt(d), np.where(x[:, 0] + x[:, 1] > 0.2, 1.0, -1.0)),
        "zero": (0 * x, y),
        "lengths": (longer, np.sign(longer[:, 0])),
        "leverage": (lever, other),
    }[name]


@pytest.mark.parametrize("records", [400, 4_000_000])
@pytest.mark.parametrize("name", HARD)
def test_hard_rows_take_fewer_passes_than_there_are(name, records):
    """By objective perturbation's own penalty, noise and tolerance, at three budgets."""
    x, y = hard(name)
    rng = np.random.default_rng(1)
    for epsilon in (0.1, 1, 5):
        problem = LinearProblem(Logistic(), 6, 1.0, Adjacency("add-remove"), records)
        made = regression(problem, Guarantee.parse(f"epsilon={epsilon},delta=1e-6"), method="objective", device="cpu")
        for linear in (np.zeros(6), made.scale * rng.standard_normal(6)):
            enough = made.regularisation * made.tolerance / 2
            needed = passes_for(Logistic(), x, y, linear, made.regularisation, enough, records / 400)
            assert needed < PASSES - 2


@pytest.mark.parametrize("loss", [LogCosh(), PseudoHuber(0.3), Huber(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("name", HARD)
def test_losses_of_residuals_are_done_in_the_two_rounds(name, loss):
    """Where most rows lie on the straight parts of a loss, steps overshoot far."""
    x, y = hard(name)
    y = 0.8 * y * np.random.default_rng(2).random(len(y))
    for lam in (0.3, 3.0, 100.0):
        assert passes_for(loss, x, y, np.zeros(6), lam, 1e-8 * lam + 1e-12 * len(y)) < 40


def test_without_the_line_it_would_not_end(monkeypatch):
    """The broken twin takes every step as it is: a Newton step from the flat part of a loss jumps over the minimum."""
    x, y = hard("opposite")
    linear = np.array([6.0, -3.0, 0, 0, 0, 0])
    assert passes_for(PseudoHuber(0.1), x, y, linear, 0.3, 1e-8) < 40
    monkeypatch.setattr(newton, "_NEAR", (0.0, math.inf))
    assert passes_for(PseudoHuber(0.1), x, y, linear, 0.3, 1e-8) == 64


@pytest.mark.parametrize(
    ("start", "places", "slopes", "expected"),
    [
        (-1.0, [1.0, 2.0], [-0.5, 0.5], 1.5),
        (-1.0, [2.0, 1.0], [1.0, -1.0], 1.5),
        (-2.0, [1.0, 4.0], [2.0, 9.0], 0.5),
        (-1.0, [1.0, 4.0], [-0.5, -0.1], 4.0),
        (0.0, [1.0, 4.0], [1.0, 2.0], 0.0),
    ],
)
def test_where_a_line_is_lowest(start, places, slopes, expected):
    assert newton._crossing(start, places, slopes) == pytest.approx(expected)


def test_a_matrix_that_rounding_made_singular_is_no_error():
    step = newton._newton_step(np.full((2, 2), 1e40), np.array([1.0, 2.0]), 1e-3)
    assert np.isfinite(step).all()
    assert not newton._newton_step(np.full((2, 2), np.nan), np.array([1.0, 2.0]), 1e-3).any()


# --- rows that stay elsewhere -----------------------------------------------------------------------------------------


def remote(x, y, parts=3):
    return Parts([[(part, end)] for part, end in zip(np.array_split(x, parts), np.array_split(y, parts), strict=True)])


@pytest.mark.parametrize("tolerance", [1e-3, 1e-7])
def test_rows_that_stay_elsewhere_give_the_same_minimum_in_the_public_number_of_passes(tolerance):
    x, y = made_up(3000)
    linear, lam = np.array([2.0, -1.0, 0.0, 3.0]), 5.0
    objective = RidgeObjective(LinearProblem(Logistic(), 4, 1.0, Adjacency("add-remove"), 3000), lam, 5.0)
    rows = remote(x, y)
    there = objective.minimum(rows, linear, tolerance, stream=np.random.default_rng(0))
    here = objective.minimum([(x, y)], linear, tolerance, stream=np.random.default_rng(0), device="cpu")
    assert rows.passes == PASSES
    assert np.linalg.norm(there - here) <= 2 * tolerance
    gradient, *_ = by_formula(x, y, NewtonPoint(there, there, PLACES))
    assert np.linalg.norm(gradient + lam * there + linear) <= lam * tolerance


def test_where_a_proof_fails_more_passes_follow_and_then_those_that_are_proved(monkeypatch):
    x, y = made_up(200)
    objective = RidgeObjective(LinearProblem(Logistic(), 4, 1.0, Adjacency("add-remove"), 200), 50.0)
    far, walk = np.full(4, 1.0), NewtonSearch.walk
    rounds: list[int] = []

    def spoilt(times):
        def walked(self, passes):
            rounds.append(passes)
            found = walk(self, passes)
            return far if len(rounds) <= times else found

        return walked

    for times, expected in ((1, 64), (2, 64 + objective.iterations(1e-4) + 1)):
        rounds.clear()
        rows = remote(x, y)
        monkeypatch.setattr(NewtonSearch, "walk", spoilt(times))
        found = objective.minimum(rows, np.zeros(4), 1e-4, stream=np.random.default_rng(0))
        gradient, *_ = by_formula(x, y, NewtonPoint(found, found, PLACES))
        assert np.linalg.norm(gradient + 50 * found) <= 50 * 1e-4
        assert rows.passes == expected
        assert rounds == list(newton.ROUNDS)


def test_which_problems_may_stay_elsewhere():
    def may(loss, features):
        problem = LinearProblem(loss, features, 1.0, Adjacency("add-remove"), 100)
        made = [regression(problem, Guarantee.parse("epsilon=1,delta=1e-6"), method="output")]
        made += [regression(problem, Guarantee.parse("epsilon=1,delta=1e-6"), method="posterior")]
        return [each.few_passes for each in made]

    assert may(Logistic(), certified_minimum.FEW) == [True, False]
    assert may(Logistic(), certified_minimum.FEW + 1) == [False, False]
    assert may(Multinomial(3), 4) == [False, False]


def test_a_pass_is_carried_by_few_bytes():
    import pickle

    sent = pickle.dumps(NewtonPass(Logistic(), NewtonPoint(np.zeros(100), np.zeros(100), PLACES)))
    assert len(sent) < 4096


def test_newton_is_the_way_for_few_features():
    problem = LinearProblem(Logistic(), 21, 3.0, Adjacency("add-remove"), 10_000_000)
    assert RidgeObjective(problem, 30.0, 100.0).way(1e-7, "cpu") == NEWTON
