"""How near a certified chain comes to the posterior: against quadrature, a long run of another sampler, and algebra.

Monte Carlo errors are allowed six standard deviations: 2e-9 for each comparison, below 1e-6 for each test.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from seeded_noise import SeededNoise
from share import cases

from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression.langevin import LangevinSample, _maker
from vestry.regression.losses import Huber, Logistic, Probit
from vestry.regression.objective_perturbation import objective_perturbation
from vestry.regression.problem import LinearProblem
from vestry.regression.step_schedule import Schedule, schedule

pytestmark = pytest.mark.statistical

DEVIATIONS = 6.0


def sampler(loss, rows, *, power: float, precision: float, draws: int, accuracy: float, norm: float = 1.0):
    problem = LinearProblem(
        loss,
        features=rows.shape[1],
        norm=norm,
        adjacency=Adjacency("replace", 1, len(rows)),
        max_rows=len(rows),
        outcome=3.0,
    )
    made = _maker(problem, Guarantee.parse("mu=1"), draws, accuracy)(power, precision)
    return dataclasses.replace(made, device="cpu")


def drawn(mechanism: LangevinSample, rows, y, seed: int = 1) -> np.ndarray:
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    return np.array(mechanism.draw([(rows, y)], SeededNoise(seed)).values)


# --- the stated accuracy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accuracy", [0.2, 0.05, 0.01])
@pytest.mark.parametrize("condition", cases([1.001, 7.0, 300.0, 2e4], quick=[1.001, 7.0, 300.0]))
@pytest.mark.parametrize("reach", [0.1, 50.0])
def test_quadratics_are_as_near_as_stated(accuracy, condition, reach):
    """Mean and variance followed step by step, for curvatures ten times as dense as the schedule looks at."""
    plan = schedule(strong_convexity=0.5, smoothness=0.5 * condition, reach=reach, accuracy=accuracy)
    curvature = np.geomspace(0.5, 0.5 * condition, 4001)
    mean, variance = np.full_like(curvature, reach), np.zeros_like(curvature)
    for eta, count in zip(plan.step_sizes, plan.steps, strict=True):
        for _ in range(count):
            mean, variance = (1 - eta * curvature) * mean, (1 - eta * curvature) ** 2 * variance + 2 * eta
    assert np.abs(variance * curvature - 1).max() <= plan.inflation * (1 + 1e-3)
    assert (np.abs(mean) * np.sqrt(curvature)).max() <= plan.distance * (1 + 1e-3)
    assert plan.inflation <= accuracy
    assert plan.distance <= accuracy
    assert all(eta * 0.5 * condition < 2 for eta in plan.step_sizes)


def test_one_phase_of_long_steps_is_not_as_near():
    """The test above would see it: steps of 1.5/M alone end with up to four times the variance."""
    plan = schedule(strong_convexity=0.5, smoothness=150.0, reach=1.0, accuracy=0.05)
    eta, curvature = plan.step_sizes[0], 150.0
    assert 1 / (1 - eta * curvature / 2) > 3


# --- one and two coefficients, by quadrature --------------------------------------------------------------------------


def logistic_data(rng, count: int, size: int, effect: float = 2.0):
    rows = rng.standard_normal((count, size))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    beta = effect * rng.standard_normal(size) / math.sqrt(size)
    return rows, np.where(rng.random(count) < expit(rows @ beta * 2), 1.0, -1.0)


def moments(value, rows, y, *, power: float, precision: float, reach: float):
    """Return the mean and the variances of one or two coefficients, by a dense sum."""
    axis = np.linspace(-reach, reach, 401)
    grid = axis[:, None] if rows.shape[1] == 1 else np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    logs = -precision * (grid**2).sum(axis=1) / 2
    for x, outcome in zip(rows, y, strict=True):
        logs -= power * value(grid @ x, outcome)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    mean = weight @ grid
    return mean, weight @ (grid - mean) ** 2


def huber(eta, y):
    size = np.abs(eta - y)
    return np.where(size <= 0.7, size**2 / 2, 0.7 * size - 0.245)


VALUES = {"logistic": (Logistic(), lambda eta, y: np.logaddexp(0, -y * eta)), "huber": (Huber(0.7), huber)}


@pytest.mark.parametrize("size", cases([1, 2], quick=[1]))
@pytest.mark.parametrize("name", cases(VALUES, quick=["logistic"]))
@pytest.mark.long
def test_moments_of_small_posteriors_are_as_near_as_stated(name, size):
    loss, value = VALUES[name]
    rows, y = logistic_data(np.random.default_rng(size), 40, size)
    y = y if name == "logistic" else y + 0.5
    made = sampler(loss, rows, power=0.7, precision=0.8, draws=2500, accuracy=0.1)
    found = drawn(made, rows, y)
    mean, variance = moments(value, rows, y, power=0.7, precision=0.8, reach=7.0)
    off = np.abs(found.mean(axis=0) - mean) / np.sqrt(variance)
    assert off.max() <= made.schedule.distance + DEVIATIONS / math.sqrt(len(found))
    spread = np.abs(found.var(axis=0) / variance - 1)
    assert spread.max() <= made.schedule.inflation + DEVIATIONS * math.sqrt(2 / len(found))
    # A twin at another power is seen.
    other, _ = moments(value, rows, y, power=0.35, precision=0.8, reach=7.0)
    assert (np.abs(found.mean(axis=0) - other) / np.sqrt(variance)).max() > 0.1 + DEVIATIONS / math.sqrt(len(found))


@pytest.mark.long
def test_an_empty_dataset_gives_the_prior():
    made = sampler(Logistic(), np.zeros((5, 2)), power=1.0, precision=4.0, draws=1500, accuracy=0.1)
    found = drawn(made, np.zeros((0, 2)), np.zeros(0))
    assert np.abs(found.mean(axis=0)).max() <= DEVIATIONS * 0.5 / math.sqrt(1500) * 1.1
    assert np.abs(found.var(axis=0) * 4 - 1).max() <= made.schedule.inflation + DEVIATIONS * math.sqrt(2 / 1500)


# --- every step stays where the constants hold ------------------------------------------------------------------------


class Watched:
    """A gradient by numpy that remembers the farthest parameter at which it was asked for."""

    def __init__(self, rows, y):
        self.rows, self.y, self.shape, self.farthest = rows, y, rows.shape[1:], 0.0

    def __call__(self, theta):
        self.farthest = max(self.farthest, float(np.linalg.norm(theta)))
        z = self.y * (self.rows @ theta)
        return -self.rows.T @ (self.y * np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z)))

    def run(self, theta, noise, walk):
        for z in noise:
            drift = walk.likelihood_power * self(theta) + walk.prior_precision * theta
            theta = theta - walk.step_size * drift + math.sqrt(2 * walk.step_size) * z
            theta = theta * min(1.0, walk.radius / max(np.linalg.norm(theta), 1e-300))
        return theta


@pytest.mark.parametrize(
    "draws",
    [1, 20],
)
def test_a_loss_of_bounded_parameters_is_never_asked_for_its_slope_beyond_them(draws, monkeypatch):
    rows, y = logistic_data(np.random.default_rng(3), 3, 1)
    made = sampler(Probit(1.5), rows, power=0.5, precision=0.5, draws=draws, accuracy=0.3)
    watched = Watched(rows, y)
    monkeypatch.setattr("vestry.regression.gradient.gradient", lambda *_, **__: watched)
    made.draw([(rows, y)], SeededNoise(2))
    assert watched.farthest <= made.problem.ball * (1 + 1e-9)


# --- larger posteriors, against a long run of NUTS --------------------------------------------------------------------


def nuts(rows, y, *, power: float, precision: float, samples: int, warmup: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return draws and, for each coefficient, how many independent ones they are worth."""
    numpyro = pytest.importorskip("numpyro", reason="NumPyro is not installed")
    import jax
    from jax import numpy as jnp

    with jax.enable_x64(True):
        x, signs = jnp.asarray(rows), jnp.asarray(y)

        def potential(theta):
            return power * jnp.logaddexp(0.0, -signs * (x @ theta)).sum() + precision * theta @ theta / 2

        kernel = numpyro.infer.NUTS(potential_fn=potential, dense_mass=True)
        chain = numpyro.infer.MCMC(kernel, num_warmup=warmup, num_samples=samples, progress_bar=False)
        chain.run(jax.random.PRNGKey(0), init_params=jnp.zeros(rows.shape[1]))
        found = np.asarray(chain.get_samples())
    worth = np.asarray(numpyro.diagnostics.effective_sample_size(found[None]))
    return found, np.minimum(worth, len(found))


SHAPES = {
    "abalone": (4177, 10, 400.0, 300),
    "adult": (32_561, 20, 4000.0, 200),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", SHAPES)
def test_large_posteriors_are_as_near_to_nuts_as_stated(shape):
    count, size, precision, draws = SHAPES[shape]
    rows, y = logistic_data(np.random.default_rng(8), count, size, effect=6.0)
    rows[:, 0] = np.abs(rows[:, 0])  # a lopsided feature, so that curvatures differ
    made = sampler(Logistic(), rows, power=1.0, precision=precision, draws=draws, accuracy=0.05)
    found = drawn(made, rows, y)
    long, worth = nuts(rows, y, power=1.0, precision=precision, samples=4000)
    assert worth.min() > 1000
    deviation = long.std(axis=0)
    error = np.sqrt(1 / draws + 1 / worth)
    assert (
        np.abs(found.mean(axis=0) - long.mean(axis=0)) / deviation <= made.schedule.distance + DEVIATIONS * error
    ).all()
    spread = np.abs(found.var(axis=0) / deviation**2 - 1)
    assert (spread <= made.schedule.inflation + DEVIATIONS * math.sqrt(2) * error).all()
    # Ranks of the draws among NUTS's are uniform: Kolmogorov's distance, moved by no more than the stated accuracy.
    for j in range(size):
        ranks = np.searchsorted(np.sort(long[:, j]), found[:, j]) / len(long)
        distance = stats.kstest(ranks, "uniform").statistic
        assert distance <= 0.4 * made.schedule.distance + 0.13 * made.schedule.inflation + 2.7 * error[j]


@pytest.mark.long
def test_the_last_step_has_all_of_its_noise():
    """Without records a draw is (1 - eta m) times the one before, plus N(0, 2 eta); false alarms below 1e-6."""
    eta, m, draws = 0.3, 0.7, 4000
    made = sampler(Logistic(), np.zeros((1, 1)), power=1.0, precision=m, draws=draws, accuracy=0.05)
    made = dataclasses.replace(made, schedule=Schedule((eta,), (1,), 0.0, 0.0))
    values = np.concatenate([[0.0], np.ravel(drawn(made, np.zeros((1, 1), np.float32), np.ones(1)))])
    noise = (values[1:] - (1 - eta * m) * values[:-1]) / math.sqrt(2 * eta)
    assert abs(noise.mean()) < DEVIATIONS / math.sqrt(draws)
    # A scale that is off by a tenth moves it by 0.19 or more.
    assert abs(noise.var() - 1) < DEVIATIONS * math.sqrt(2 / draws)


@pytest.mark.long
def test_the_noise_on_top_of_a_minimum_has_its_scale():
    """With next to no linear term an estimate without records is the noise on top; false alarms below 1e-6."""
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    problem = LinearProblem(Logistic(), 10, 1.0, Adjacency("add-remove"), 5)
    made = objective_perturbation(problem, Guarantee.parse("epsilon=1,delta=1e-6"), regularisation=5.0)
    made = dataclasses.replace(made, scale=1e-9, top=2.0, tolerance=1e-3, device="cpu")
    noise, block = SeededNoise(5), [(np.zeros((1, 10), np.float32), np.ones(1))]
    values = np.ravel([made.draw(block, noise).values for _ in range(400)]) / made.top
    assert abs(values.var() - 1) < DEVIATIONS * math.sqrt(2 / len(values))
