"""The edges of what the laws of privacy accept: on either side of each limit, and what is said there."""

from __future__ import annotations

import math

import pytest

from vestry.errors import InvalidParameter, Unreachable
from vestry.privacy import accountant
from vestry.privacy.chain import categorical_span, metropolis_update, near
from vestry.privacy.group import group
from vestry.privacy.guarantee import ApproxDP, PureDP
from vestry.privacy.law import event


def test_a_feature_has_at_least_two_levels_of_positive_probability():
    assert categorical_span([2, 3], [0.4, 0.3]) == pytest.approx(math.log(0.6 / 0.4) + math.log(0.4 / 0.3))
    for levels, least in (([1], [0.5]), ([2], [0.0]), ([2], [0.5])):
        with pytest.raises(InvalidParameter, match="below 1/levels, for at least 2 levels"):
            categorical_span(levels, least)


@pytest.mark.parametrize("rejection", [0.0, 1.0, True])
def test_a_bound_on_rejections_is_a_share(rejection):
    with pytest.raises(InvalidParameter, match="rejection must be between 0 and 1, both excluded"):
        metropolis_update(1.0, temperature=1.0, neighbours="replace", rejection=rejection)


def test_a_draw_that_is_off_is_private_while_its_delta_is_below_one():
    assert near(PureDP(1.0), distance=0.2).delta == pytest.approx(0.2 * (1 + math.e))
    assert near(PureDP(400.0), distance=1e-200).delta == pytest.approx(math.exp(400 - 200 * math.log(10)))
    for epsilon, distance in ((1.0, 0.4), (1e-9, 0.6), (800.0, 1e-300)):
        with pytest.raises(Unreachable, match="its delta would reach 1; come nearer"):
            near(PureDP(epsilon), distance=distance)
    for distance in (1.0, True):
        with pytest.raises(InvalidParameter, match="distance must be between 0 and 1, both excluded"):
            near(PureDP(1.0), distance=distance)


@pytest.mark.parametrize("steps", [(1,), (4,), (3, 5)])
def test_a_chain_that_forgets_everything_costs_its_last_step(steps):
    """With eta m = eta M = 1 a step lands on the mode, wherever it began: mu = eta S/sqrt(2 eta)."""
    chain = event(
        "langevin",
        sensitivity=3.0,
        strong_convexity=2.0,
        smoothness=2.0,
        step_sizes=(0.5,) * len(steps),
        steps=steps,
        slacks=(0.0,) * len(steps),
        start=7.0,
    )
    assert float(accountant.squared_mu(chain)) == pytest.approx(1.5**2)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.3), (200.0, 1e-100), (340.0, 1e-200)])
def test_a_group_is_private_while_its_delta_is_below_one(epsilon, delta):
    """For two units the factor is (e^(2 epsilon) - 1)/(e^epsilon - 1) = e^epsilon + 1."""
    found = group(ApproxDP(epsilon, delta), 2)
    assert found.epsilon == 2 * epsilon
    assert math.log(found.delta) == pytest.approx(math.log(delta) + math.log1p(math.exp(epsilon)), rel=1e-10)
