"""The bound on rounding against arithmetic of 60 digits, on data that round badly; bounds that forget are exceeded."""

import math

import mpmath
import numpy as np
import pytest

from vestry.errors import InvalidParameter
from vestry.regression import gradient as front
from vestry.regression import losses
from vestry.regression.loss import LangevinStep
from vestry.regression.residual_scale import ResidualScale
from vestry.regression.rounding_error import gradient_error, step_error

pytestmark = pytest.mark.oracle

numba = pytest.importorskip("numba", reason="the extra `glm` is not installed")

U = 2.0**-53
mp = mpmath.mp.clone()
mp.dps = 60

# phi' once more, written from the losses' definitions.
EXACT = {
    "logistic": lambda loss, eta, y: -y / (1 + mp.exp(y * eta)),
    "huber": lambda loss, eta, y: max(-mp.mpf(loss.threshold), min(mp.mpf(loss.threshold), eta - y)),
    "pseudo-huber": lambda loss, eta, y: (eta - y) / mp.sqrt(1 + ((eta - y) / loss.threshold) ** 2),
    "log-cosh": lambda loss, eta, y: mp.tanh(eta - y),
    "smooth-hinge": lambda loss, eta, y: (
        -y * max(mp.zero, min(mp.one, (1 - y * eta + loss.width) / (2 * mp.mpf(loss.width))))
    ),
    "softplus-hinge": lambda loss, eta, y: -y / (1 + mp.exp(-(1 - y * eta) / loss.width)),
    "smooth-quantile": lambda loss, eta, y: 1 / (1 + mp.exp(-(eta - y) / loss.width)) - loss.quantile,
    "residual-scale": lambda loss, eta, y: EXACT[loss.loss.name](loss.loss, eta, y) * mp.mpf(loss.weight),
    "probit": lambda loss, eta, y: -y * mp.npdf(eta) / mp.ncdf(y * eta),
    "complementary-log-log": lambda loss, eta, y: mp.exp(eta) if y < 0 else -mp.exp(eta) / mp.expm1(mp.exp(eta)),
}
SINGLE = [
    losses.Logistic(), losses.Huber(0.7), losses.PseudoHuber(0.7), losses.LogCosh(), losses.SmoothHinge(0.3),
    losses.SoftplusHinge(0.1), losses.SmoothQuantile(0.2, 0.05), losses.Probit(30.0),
    losses.ComplementaryLogLog(20.0), ResidualScale(losses.Huber(0.02), 0.01),
    ResidualScale(losses.PseudoHuber(0.7), 0.1),
]  # fmt: skip


def numbers(values):
    return [mp.mpf(float(value)) for value in values]


def contribution(loss, row, y, theta):
    """Return one record's gradient, exactly."""
    row = numbers(row)
    predictors = [mp.fdot(row, numbers(each)) for each in np.atleast_2d(theta)]
    if loss.predictors == 1:
        return [EXACT[loss.name](loss, predictors[0], mp.mpf(float(y))) * x for x in row]
    weights = [mp.exp(each) for each in predictors]
    total = mp.fsum(weights)
    return [(w / total - (k == y)) * x for k, w in enumerate(weights) for x in row]


def exact(loss, rows, y, theta, counts):
    parts = [[count * value for value in contribution(loss, row, each, theta)] for row, each, count in
             zip(rows, y, counts, strict=True)]  # fmt: skip
    return [mp.fsum(column) for column in zip(*parts, strict=True)]


def distance(found, wanted):
    return float(mp.norm([mp.mpf(float(f)) - w for f, w in zip(np.ravel(found), wanted, strict=True)]))


def norm_of(vectors):
    """Return the largest norm, rounded up."""
    return max(math.nextafter(float(mp.norm(numbers(each))), math.inf) for each in vectors)


def awkward(loss, kind, seed=0):
    """Return a few distinct rows with outcomes and counts, and a parameter, on which doubles lose much.

    `repeated`: the same sums round the same way 100,000 times. `cancelling`: predictors of 1 are differences of numbers
    of about the radius, and rows cancel in the sum. `plain`: nothing of it.
    """
    rng = np.random.default_rng(seed)
    features = {"plain": 60, "repeated": 3, "cancelling": 8}[kind]
    rows = rng.standard_normal((6, features))
    theta = rng.standard_normal((features,) if loss.predictors == 1 else (loss.predictors, features))
    far = getattr(loss, "reach", 1e5 if kind == "cancelling" else 3.0)
    if kind == "cancelling":
        rows[:, 1::2] = -rows[:, ::2] * (1 + 1e-5 * rng.standard_normal((6, features // 2)))
        theta[..., 1::2] = theta[..., ::2]
        rows[3:] = -rows[:3]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    theta *= far * (1 - 1e-9) / np.linalg.norm(theta)
    y = {"signs": rng.choice([-1.0, 1.0], 6), "numbers": rng.standard_normal(6)}.get(loss.outcomes, np.arange(6.0) % 3)
    counts = [100_000 // 6] * 6 if kind == "repeated" else [1] * 6
    return rows, y, theta, counts


def spread(values, counts):
    """Repeat records in turn: 0, 1, 2, ..., 0, 1, 2, ..."""
    return np.concatenate([values] * counts[0])


def bound(loss, rows, y, theta, counts, **other):
    facts = {
        "rows": sum(counts), "features": rows.shape[1], "norm": norm_of(rows), "radius": norm_of([np.ravel(theta)]),
        "outcome": float(np.abs(y).max()) if loss.outcomes == "numbers" else 0.0,
    }  # fmt: skip
    return gradient_error(loss, **facts | other)


def error(loss, rows, y, theta, counts, make=None):
    blocks = [(spread(rows, counts), spread(y, counts))]
    along = front.gradient(loss, blocks, device="cpu") if make is None else make(loss, blocks)
    return distance(along(theta), exact(loss, rows, y, theta, counts))


@pytest.mark.parametrize("kind", ["plain", "cancelling", "repeated"])
@pytest.mark.parametrize("loss", [pytest.param(each, id=each.name) for each in [*SINGLE, losses.Multinomial(3)]])
@pytest.mark.long
def test_no_data_are_further_off_than_the_bound(loss, kind):
    case = awkward(loss, kind)
    assert error(loss, *case) <= bound(loss, *case)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Multinomial(3)])
def test_neither_are_they_by_xla(loss):
    pytest.importorskip("jax", reason="the extra `glm` is not installed")
    from vestry.regression import xla

    for kind in ("cancelling", "repeated"):
        case = awkward(loss, kind)
        assert error(loss, *case, make=lambda loss, blocks: xla.gradient(loss, blocks, platform="cpu")) <= bound(
            loss, *case
        )


@pytest.mark.long
def test_a_bound_that_forgets_the_rows_or_the_predictor_is_exceeded():
    case = awkward(losses.Logistic(), "repeated")
    assert error(losses.Logistic(), *case) > bound(losses.Logistic(), *case) / sum(case[3])
    case = awkward(losses.LogCosh(), "cancelling")
    assert error(losses.LogCosh(), *case) > bound(losses.LogCosh(), *case, radius=0.0)


def test_a_formula_far_out_needs_the_reach():
    loss, worst = losses.Probit(30.0), 0.0
    for seed in range(5):
        _, _, theta, counts = awkward(loss, "plain", seed)
        rows = np.array([theta / np.linalg.norm(theta) * scale for scale in (0.9, 0.91, 0.93, 0.95, 0.97, 0.99)])
        case = rows, -np.ones(6), theta, counts
        found = error(loss, *case)
        assert found <= bound(loss, *case)
        worst = max(worst, found / 6)
    assert worst > 32 * U * (loss.slope + 1 + loss.curvature * (1 + 30)), "the formula's terms without their factor"


def test_the_compiled_tanh_is_right_to_four_units():
    from vestry.regression import cpu_kernels

    tanh = cpu_kernels.tanh()
    rng = np.random.default_rng(0)
    points = np.concatenate([np.exp(rng.uniform(-40, 3.2, 3000)), np.linspace(0.17, 0.53, 500), [1e-310, 22, 1e300]])
    worst = max(abs(mp.mpf(tanh(float(x))) / mp.tanh(mp.mpf(float(x))) - 1) for x in points)
    assert worst <= 4 * U
    assert [tanh(0.0), tanh(math.inf), tanh(-math.inf), tanh(-1.0)] == [0.0, 1.0, -1.0, -tanh(1.0)]
    assert math.isnan(tanh(math.nan))


@pytest.mark.parametrize("radius", [0.5, 50.0])
@pytest.mark.parametrize("kind", ["plain", "repeated"])
@pytest.mark.long
def test_no_step_is_further_off_than_its_bound(kind, radius):
    loss = losses.Logistic()
    rows, y, theta, counts = awkward(loss, kind)
    theta *= min(1, radius * (1 - 1e-12) / norm_of([theta]))
    walk = {"likelihood_power": 0.3, "prior_precision": 1.5, "step_size": 0.7 / sum(counts), "radius": radius}
    z = np.random.default_rng(5).standard_normal(len(theta))
    blocks = [(spread(rows, counts), spread(y, counts))]
    found = front.chain(loss, blocks, LangevinStep(**walk), device="cpu").run(theta, z[None])
    power, precision, size = (mp.mpf(walk[name]) for name in ("likelihood_power", "prior_precision", "step_size"))
    gradient, state = exact(loss, rows, y, theta, counts), numbers(theta)
    moved = [
        t - size * (power * g + precision * t) + mp.sqrt(2 * size) * w
        for t, g, w in zip(state, gradient, numbers(z), strict=True)
    ]
    moved = [value * min(mp.one, radius / mp.norm(moved)) for value in moved]
    noise_norm = math.sqrt(2 * walk["step_size"]) * norm_of([z]) * (1 + 1e-12)
    most = step_error(loss, rows=sum(counts), features=len(theta), norm=norm_of(rows), noise_norm=noise_norm, **walk)
    assert 0 < distance(found, moved) <= most


def test_the_bound_grows_with_every_fact():
    loss = losses.LogCosh()
    facts = {"rows": 1000, "features": 10, "norm": 1.0, "radius": 2.0, "outcome": 1.0}
    base = gradient_error(loss, **facts)
    assert all(gradient_error(loss, **facts | {name: 2 * value}) > base for name, value in facts.items())
    assert base < 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [({"rows": -1}, "rows must be"), ({"radius": math.inf}, "radius must be"), ({"norm": math.nan}, "norm must be")],
)
def test_facts_that_cannot_be_are_refused(change, message):
    facts = {"rows": 1000, "features": 10, "norm": 1.0, "radius": 2.0} | change
    with pytest.raises(InvalidParameter, match=message):
        gradient_error(losses.Logistic(), **facts)


def test_a_radius_beyond_the_reach_is_refused():
    with pytest.raises(InvalidParameter, match="radius must be at most reach/norm for the probit loss"):
        gradient_error(losses.Probit(2.0), rows=10, features=2, norm=1.0, radius=2.1)
