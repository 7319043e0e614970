"""Every way to draw a truncated Dirichlet exactly has the same distribution: means against integration.

Of the components and of the smallest one: four numbers a way, each within 6 standard errors of 8,000 draws, so that a
false alarm has probability below 1e-8. A truncation that is off by a tenth is seen.
"""

from __future__ import annotations

import numpy as np
import pytest
from seeded_noise import SeededNoise

from vestry.noise import exact_sampling
from vestry.noise.bits import Bits
from vestry.noise.dirichlet import ScaledGammas, TiltedSimplex
from vestry.noise.grid import PROBABILITY_GRID
from vestry.privacy import accountant
from vestry.privacy.guarantee import ApproxDP
from vestry.privacy.neighbours import Adjacency
from vestry.regression.gibbs_calibration import draw_event
from vestry.regression.langevin import concentrated_posterior, posterior
from vestry.regression.losses import Logistic
from vestry.regression.problem import LinearProblem

pytestmark = pytest.mark.statistical

ALPHAS, LOW, DRAWS = (0.6, 0.9, 0.7), 0.1, 8000


def integrated() -> np.ndarray:
    """Means of the truncated distribution, by midpoints on the triangle."""
    places = (np.arange(1500) + 0.5) / 1500
    x, y = np.meshgrid(places, places)
    z = 1 - x - y
    inside = (x >= LOW) & (y >= LOW) & (z >= LOW)
    points = np.stack([x[inside], y[inside], z[inside]])
    weights = np.prod(points ** (np.array(ALPHAS)[:, None] - 1), axis=0)
    return np.vstack([points, points.min(axis=0)]) @ weights / weights.sum()


def scores(low: float, way, monkeypatch) -> np.ndarray:
    monkeypatch.setattr(exact_sampling, "choose_sampler", way)
    rows = np.array(exact_sampling.dirichlet(Bits(SeededNoise(1)), ALPHAS, grid=PROBABILITY_GRID, size=DRAWS, low=low))
    found = np.column_stack([rows, rows.min(axis=1)])
    return (found.mean(axis=0) - integrated()) / (found.std(axis=0) / np.sqrt(DRAWS))


@pytest.mark.parametrize("way", [ScaledGammas, TiltedSimplex])
@pytest.mark.long
def test_every_way_has_the_distribution(way, monkeypatch):
    assert np.abs(scores(LOW, way, monkeypatch)).max() < 6


@pytest.mark.long
def test_another_truncation_is_seen(monkeypatch):
    assert np.abs(scores(0.09, ScaledGammas, monkeypatch)).max() > 6


def test_a_concentrated_posterior_of_rows_raises_the_prior_as_little_as_it_must():
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    problem = LinearProblem(Logistic(), 3, 1.0, Adjacency("add-remove"), 400)
    promise = ApproxDP(1, 1e-6, neighbours="add-remove")
    made = concentrated_posterior(problem, promise, prior_precision=1.0)
    assert (made.likelihood_power, made.parameter) == (1.0, "prior_precision")
    assert accountant.meets(made.event, promise)
    exact_draw = {"lipschitz": 1.0, "adjacency": problem.adjacency, "draws": 1}
    assert not accountant.meets(draw_event(1.0, strong_convexity=0.97 * made.prior_precision, **exact_draw), promise)
    # Where the prior hides a record by itself nothing is raised.
    assert concentrated_posterior(problem, promise, prior_precision=100.0).prior_precision == 100.0
    assert posterior(problem, promise, prior_precision=100.0).likelihood_power == pytest.approx(1.0)
