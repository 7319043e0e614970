"""A guarantee in mu gets Gaussian noise, whose price in mu is exact."""

from __future__ import annotations

import pytest

from vestry.estimators.fit_plan import smaller_noise
from vestry.mechanisms.additive_noise import LAPLACE, calibrate_noise
from vestry.model.request import Request
from vestry.planning import choose_mechanism
from vestry.privacy.guarantee import GaussianDP
from vestry.privacy.neighbours import Adjacency, Neighbours, Unit
from vestry.regression.linear_model import LinearRegression
from vestry.regression.moments import Moments, NumberColumn
from vestry.schema.domain import Interval
from vestry.schema.table_schema import TableSchema

MU = GaussianDP(1)
NAMES = ("a", "b", "c", "y")


def test_fifteen_moments_of_a_regression_get_noise_6_8_times_smaller_than_laplace():
    """Sums of 4 columns, of their products and the count: 15, of which one record moves all."""
    layout = Moments(tuple(NumberColumn(name, 0, 1) for name in NAMES)).layout(Adjacency("add-remove"))
    assert len(layout.names) == 15
    gaussian = smaller_noise(layout, Adjacency("add-remove"), MU)
    laplace = calibrate_noise(LAPLACE, layout, Adjacency("add-remove"), MU)
    assert gaussian.name == "gaussian"
    assert gaussian.event.kind == "rounded-gaussian"
    assert gaussian.scale == pytest.approx(layout.l2, rel=1e-9)
    assert laplace.deviation / gaussian.deviation == pytest.approx(6.79, abs=0.01)


def test_auto_takes_gaussian_noise_for_a_regression_in_mu():
    schema = TableSchema(dict.fromkeys(NAMES, Interval(0, 1)), Unit.parse("row"), Neighbours.ADD_REMOVE)
    request = Request(LinearRegression(outcome="y", predictors=("a", "b", "c")), MU)
    assert choose_mechanism(request, schema, 10_000).mechanism == "gaussian"
