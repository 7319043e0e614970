"""Quadrature over hyperparameters against normal integrals: wide, narrow, slanted, cut off and bent ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm

from vestry.posterior.hyper_grid import HyperGrid, integrate

pytestmark = pytest.mark.oracle

SLANTED = np.array([[1.0, 0.9, 0.5], [0.9, 1.0, 0.7], [0.5, 0.7, 1.0]])
CENTRE = np.array([0.3, -1.2, 4.0])


def normal(scale):
    precision = np.linalg.inv(scale**2 * SLANTED)

    def log_density(x, y, z):
        away = np.stack(np.broadcast_arrays(x[:, None, None], y[:, :, None], z), axis=-1) - CENTRE
        return -0.5 * np.einsum("...i,ij,...j", away, precision, away)

    return log_density


@pytest.mark.parametrize("scale", [0.5, 0.05, 0.001])
def test_slanted_normal_densities(scale):
    grid = integrate(normal(scale), [-4, -10, -10], [4, 10, 12], sizes=(15, 15, 15))
    mean = grid.weights @ grid.points
    covariance = (grid.points - mean).T @ ((grid.points - mean) * grid.weights[:, None])
    assert mean == pytest.approx(CENTRE, abs=1e-4 * scale)
    assert covariance / scale**2 == pytest.approx(SLANTED, abs=2e-3)
    exact = 0.5 * np.linalg.slogdet(2 * np.pi * scale**2 * SLANTED)[1]
    assert grid.log_total == pytest.approx(exact, abs=1e-3)
    assert grid.heaviest < 0.05


def test_a_density_that_the_first_coordinate_cuts_off():
    grid = integrate(lambda x, y: -0.5 * (x[:, None] ** 2 + y**2), [0.5, -20.0], [9.0, 20.0], sizes=(9, 9))
    exact = norm.pdf(0.5) / norm.sf(0.5)
    assert grid.weights @ grid.points[:, 0] == pytest.approx(exact, rel=5e-3)
    assert grid.points[:, 0].min() > 0.5


def test_a_skewed_density():
    """A gamma density on the scale of its logarithm: E log x is the digamma function."""
    grid = integrate(
        lambda x, y: 0.7 * x[:, None] - np.exp(x[:, None]) - 0.5 * y**2, [-60, -20], [20, 20], sizes=(9, 9)
    )
    assert grid.log_total == pytest.approx(gammaln(0.7) + 0.5 * np.log(2 * np.pi), abs=2e-3)
    assert grid.weights @ np.exp(grid.points[:, 0]) == pytest.approx(0.7, rel=2e-3)


def test_a_density_that_is_0_in_most_places():
    def log_density(x, y):
        away = (x[:, None] - 3.0) ** 2 + (y + 5.0) ** 2
        return np.where(away < 60.0, -away * 50, -np.inf)

    grid = integrate(log_density, [-30, -30], [30, 30], sizes=(9, 9))
    assert grid.weights @ grid.points == pytest.approx([3.0, -5.0], abs=1e-3)


def test_nodes_are_taken_as_often_as_they_weigh():
    grid = HyperGrid(np.zeros((3, 1)), np.array([0.5, 0.3, 0.2]), 0.0, 0.5)
    assert np.bincount(grid.systematic(10, 0.5)).tolist() == [5, 3, 2]
