"""Losses against finite differences and dense searches; their gradients and chains on every backend against numpy."""

import math
import sys

import numpy as np
import pytest

from vestry.errors import InvalidParameter, MissingExtra
from vestry.registry import LOSSES
from vestry.regression import gradient as front
from vestry.regression import losses, numpy_math
from vestry.regression.loss import LangevinStep
from vestry.regression.losses import Huber, Logistic, Multinomial, Probit
from vestry.regression.rounding_error import BLOCK

SINGLE = [
    Logistic(), Huber(0.7), losses.PseudoHuber(0.7), losses.LogCosh(), losses.SmoothHinge(0.3),
    losses.SoftplusHinge(0.1), losses.SmoothQuantile(0.2, 0.05), Probit(30.0), losses.ComplementaryLogLog(20.0),
]  # fmt: skip
EVERY = [*SINGLE, Multinomial(4)]
WALK = {"likelihood_power": 0.7, "prior_precision": 2.0, "step_size": 1e-3, "radius": 0.8}


def named(some):
    return [pytest.param(loss, id=loss.name) for loss in some]


def outcomes(loss, rng, count):
    if loss.outcomes == "signs":
        return rng.choice([-1.0, 1.0], count)
    return rng.integers(loss.classes, size=count) * 1.0 if loss.outcomes == "classes" else rng.standard_normal(count)


def example(loss, count=500, features=7, dtype=np.float64, seed=3):
    """Return rows of norm 1, outcomes and a parameter of norm 2."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, features))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)
    theta = rng.standard_normal((features,) if loss.predictors == 1 else (loss.predictors, features))
    return rows, outcomes(loss, rng, count), 2 * theta / np.linalg.norm(theta)


def plain(loss, rows, y, theta):
    rows = rows.astype(np.float64)
    return (loss.derivative(numpy_math)(rows @ theta.T, y).T @ rows).reshape(theta.shape)


def walk(loss, rows, y, theta, noise, *, likelihood_power, prior_precision, step_size, radius):
    for z in noise:
        drift = likelihood_power * plain(loss, rows, y, theta) + prior_precision * theta
        theta = theta - step_size * drift + math.sqrt(2 * step_size) * z.reshape(theta.shape)
        theta = theta * min(1.0, radius / np.linalg.norm(theta))
    return theta


def off(found, wanted):
    return np.abs(found - wanted).max() / np.abs(wanted).max()


def test_every_loss_is_tried():
    assert {loss.name for loss in EVERY} == set(LOSSES)


@pytest.mark.parametrize("loss", named(EVERY))
def test_the_gradient_is_that_of_the_values(loss):
    rows, y, theta = example(loss, 60)
    direction = np.random.default_rng(1).standard_normal(theta.shape)
    value = loss.value(numpy_math)
    up, down = (value(rows @ (theta + h * direction).T, y).sum() for h in (1e-6, -1e-6))
    assert (up - down) / 2e-6 == pytest.approx((plain(loss, rows, y, theta) * direction).sum(), rel=1e-6)


@pytest.mark.parametrize("loss", named(SINGLE))
def test_slope_and_curvature_bound_a_dense_search_and_are_approached(loss):
    far = getattr(loss, "reach", 40.0)
    near = np.geomspace(1e-5, 1.0, 2000)
    eta = np.unique(np.concatenate([-near, near, np.linspace(-far, far, 400_001)]))
    signs = (-1.0, 1.0) if loss.outcomes == "signs" else (0.0,)
    slopes = [loss.derivative(numpy_math)(eta, np.full_like(eta, y)) for y in signs]
    steepest = max(np.abs(each).max() for each in slopes)
    most = max((np.diff(each) / np.diff(eta)).max() for each in slopes)
    assert steepest <= loss.slope * (1 + 1e-12)
    assert most <= loss.curvature * (1 + 1e-8)
    assert steepest > 0.999 * loss.slope
    assert most > (0.9 if loss.name == "probit" else 0.999) * loss.curvature
    if loss.one_sided:
        assert all(each.max() <= 1e-300 or each.min() >= 0 for each in slopes)


def test_the_multinomial_slope_and_curvature_are_approached_and_never_passed():
    loss, rng = Multinomial(4), np.random.default_rng(0)
    eta = rng.standard_normal((20_000, 4)) * rng.choice([0.1, 1.0, 10.0, 50.0], (20_000, 1))
    y = rng.integers(4, size=20_000) * 1.0
    eta[0], y[0] = (0.0, 40.0, 0.0, 0.0), 0.0  # sure of the wrong class
    eta[1] = (0.0, 0.0, -60.0, -60.0)  # undecided between two
    p = loss.derivative(numpy_math)(eta, y)
    slope = np.linalg.norm(p, axis=1)
    assert 0.999 * loss.slope < slope.max() <= loss.slope * (1 + 1e-12)
    p = p + (y[:, None] == np.arange(4))
    curvature = np.linalg.eigvalsh(p[:, :, None] * np.eye(4) - p[:, :, None] * p[:, None, :])[:, -1]
    assert 0.999 * loss.curvature < curvature.max() <= loss.curvature * (1 + 1e-12)


@pytest.mark.parametrize("loss", [Probit, losses.ComplementaryLogLog])
@pytest.mark.parametrize("reach", [None, 0, -1.0, math.inf, 31, True])
def test_a_slope_without_bound_is_refused(loss, reach):
    with pytest.raises(InvalidParameter, match=r"reach must be a bound on \|x \. theta\| .* unbounded"):
        loss(reach)


@pytest.mark.parametrize("loss", named(EVERY))
@pytest.mark.long
def test_the_compiled_gradient_is_that_of_numpy(loss):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    rows, y, theta = example(loss)
    assert off(front.gradient(loss, [(rows, y)], device="cpu")(theta), plain(loss, rows, y, theta)) < 1e-12


@pytest.mark.parametrize("features", [1, 5, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", named([Logistic(), Multinomial(4)]))
@pytest.mark.long
def test_storage_blocks_and_memory_maps_change_rounding_only(tmp_path, features, dtype, loss):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    rows, y, theta = example(loss, BLOCK + 130, features, dtype)
    wanted = plain(loss, rows, y, theta)
    disk = np.memmap(tmp_path / "rows", dtype, "w+", shape=rows.shape)
    disk[:] = rows
    for blocks in (
        [(rows, y)], [(rows[:9], y[:9]), (rows[9:], y[9:])], ((rows[i::5], y[i::5]) for i in range(5)), [(disk, y)],
        [(np.asfortranarray(rows), list(y))], [(rows, y), (rows[:0], y[:0])],
    ):  # fmt: skip
        assert off(front.gradient(loss, blocks, device="cpu")(theta), wanted) < 1e-12


def test_the_number_of_threads_changes_nothing():
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    from vestry.regression import cpu

    loss = Logistic()
    rows, y, theta = example(loss, 3 * BLOCK + 100, 50)
    found = [cpu.CpuGradient(loss, [(rows, y)], threads=threads)(theta) for threads in (1, 2, 3, 8)]
    assert all(np.array_equal(each, found[0]) for each in found)
    assert off(found[0], plain(loss, rows, y, theta)) < 1e-12


@pytest.mark.parametrize("loss", named([Logistic(), Multinomial(4)]))
@pytest.mark.long
def test_the_chain_is_that_of_numpy(loss):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    rows, y, theta = example(loss)
    noise = np.random.default_rng(2).standard_normal((40, theta.size))
    chain = front.chain(loss, [(rows, y)], LangevinStep(**WALK), device="cpu")
    start = theta.copy()
    found = chain.run(chain.run(start, noise[:15]), noise[15:])
    assert off(found, walk(loss, rows, y, theta, noise, **WALK)) < 1e-11
    assert np.array_equal(start, theta), "the start is left as it is"
    # The mean, with noise and the projection, is the next state.
    moved = chain.mean(theta) + math.sqrt(2 * WALK["step_size"]) * noise[0].reshape(theta.shape)
    moved *= min(1.0, WALK["radius"] / np.linalg.norm(moved))
    assert off(chain.run(theta, noise[:1]), moved) < 1e-13


def test_the_chain_over_large_blocks_is_that_of_numpy():
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    loss = Logistic()
    rows, y, theta = example(loss, 6000, 50)
    noise = np.random.default_rng(2).standard_normal((5, theta.size))
    found = front.chain(loss, [(rows, y)], LangevinStep(**WALK), device="cpu").run(theta, noise)
    assert off(found, walk(loss, rows, y, theta, noise, **WALK)) < 1e-12


@pytest.mark.parametrize("loss", named([Logistic(), Multinomial(4)]))
@pytest.mark.long
def test_the_gradient_and_chain_by_xla_are_those_of_numpy(loss):
    pytest.importorskip("jax", reason="the extra `glm` is not installed")
    from vestry.regression import xla

    rows, y, theta = example(loss, BLOCK + 40)
    traced = xla.gradient(loss, [(rows[:900].astype(np.float32), y[:900]), (rows[900:], y[900:])], platform="cpu")
    rows[:900] = rows[:900].astype(np.float32)
    assert off(traced(theta), plain(loss, rows, y, theta)) < 1e-12
    noise = np.random.default_rng(2).standard_normal((12, theta.size))
    assert off(traced.run(theta, noise, LangevinStep(**WALK)), walk(loss, rows, y, theta, noise, **WALK)) < 1e-11


@pytest.mark.parametrize("loss", named(EVERY))
def test_the_derivative_in_jax_is_that_of_numpy(loss):
    jax = pytest.importorskip("jax", reason="the extra `glm` is not installed")
    from vestry.regression import jax_math

    rng, reach = np.random.default_rng(0), getattr(loss, "reach", 30.0)
    eta = rng.uniform(-reach, reach, (400,) if loss.predictors == 1 else (400, loss.predictors))
    y = outcomes(loss, rng, 400)
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(loss.derivative(jax_math))(eta, y))
    assert np.abs(found - loss.derivative(numpy_math)(eta, y)).max() < 1e-12 * max(1.0, loss.slope)


@pytest.mark.long
@pytest.mark.parametrize("features", [64, 100, 784])
def test_the_fused_kernel_is_numpy_when_interpreted(features):
    pytest.importorskip("jax", reason="the extra `glm` is not installed")
    from vestry.regression import pallas

    loss = Logistic()
    rows, y, theta = example(loss, 150, features, np.float32)
    traced = pallas.gradient(loss, [(rows, y)], layout=pallas.TileLayout(programs=4), platform="cpu", interpret=True)
    assert off(traced(theta), plain(loss, rows, y, theta)) < 1e-12


@pytest.mark.long
def test_the_fused_kernel_can_be_compiled_for_every_loss_that_it_claims():
    jax = pytest.importorskip("jax", reason="the extra `glm` is not installed")
    from vestry.regression import pallas

    claimed = [loss for loss in EVERY if pallas.supports(loss)]
    assert len(claimed) == 8
    for loss in claimed:
        rows, _, theta = example(loss, 200, 100, np.float32)
        with jax.enable_x64(True):
            program = pallas._programs(loss, pallas.TileLayout(), False).total
            stored = pallas.pad_to_tiles(rows)
            pair = stored, np.ones(len(stored))
            lowered = program.trace(theta, (pair,)).lower(lowering_platforms=("cuda",))
        assert "triton" in lowered.as_text()


def test_a_layout_with_too_many_additions_is_refused():
    pytest.importorskip("jax", reason="the extra `glm` is not installed")
    from vestry.regression import pallas

    assert pallas.tiling(10**6, 128, pallas.TileLayout()) == (16, 62_500, 60, 1042)
    assert pallas.chunks(104) == [(0, 64), (64, 32), (96, 8)]
    with pytest.raises(InvalidParameter, match="layout with fewer additions"):
        pallas.tiling(10**6, 128, pallas.TileLayout(programs=1))
    with pytest.raises(InvalidParameter, match=r"loss must be one of .* not 'probit'"):
        pallas.gradient(Probit(2.0), [])


@pytest.mark.parametrize(
    "blocks", [[], [(np.ones(3), np.ones(3))], [(np.ones((3, 2)), np.ones(4))], [(np.ones((3, 0)), np.ones(3))],
               [(np.ones((3, 2)), np.ones(3)), (np.ones((3, 5)), np.ones(3))]],
)  # fmt: skip
def test_blocks_that_do_not_fit_are_refused(blocks):
    with pytest.raises(InvalidParameter, match="blocks must be"):
        list(front.join_blocks(blocks))


@pytest.mark.long
def test_no_rows_give_no_gradient():
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    chain = front.chain(Logistic(), [(np.ones((0, 3)), np.ones(0))], LangevinStep(**WALK), device="cpu")
    assert chain.gradient(np.ones(3)).tolist() == [0, 0, 0]
    assert chain.run(np.ones(3), np.zeros((1, 3))) == pytest.approx(0.8 / math.sqrt(3))


def test_an_unknown_or_missing_device_is_refused(monkeypatch):
    with pytest.raises(InvalidParameter, match="device must be one of auto, cpu, gpu, not 'tpu'"):
        front.gradient(Logistic(), [], device="tpu")
    monkeypatch.setattr(front, "has_gpu", lambda: False)
    pytest.importorskip("jax", reason="the extra `glm` is not installed")
    with pytest.raises(InvalidParameter, match="no GPU was found"):
        front.gradient(Logistic(), [], device="gpu")


def test_a_missing_extra_says_what_to_install(monkeypatch):
    blocks = [(np.ones((3, 2)), np.ones(3))]
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtra, match=r"a regression needs an extra; .* 'vestry\[glm\]'"):
        front.gradient(Huber(0.123), blocks, device="cpu")
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtra, match=r"GPU needs an extra; .* 'vestry\[glm\]'"):
        front.gradient(Logistic(), blocks, device="gpu")
