"""Objective perturbation in one dimension: its exact distribution against what is claimed of it.

theta minimises sum l + lam theta^2/2 + b theta exactly if b = -(sum l'(theta) + lam theta), a falling function of
theta. So P(theta <= x) = P(b >= b(x)), and the density is N(b(theta); 0, sigma^2) |b'(theta)|: both are closed forms.
Roots of p - e^epsilon q are bisected, which also finds the jumps of densities whose losses have kinks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import expit, ndtr

from vestry.privacy import accountant
from vestry.privacy.pricing import event

pytestmark = pytest.mark.oracle

EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 1.5, 2.5)
ORDERS = (1.5, 2.0, 6.0)
LOST = 1e-10


@dataclass(frozen=True)
class Loss:
    """A loss of one predictor, written down again: slope and curvature as functions of eta and y, and their bounds."""

    slope: Callable
    curvature: Callable
    steepest: float
    most: float
    one_sided: bool
    outcomes: tuple[float, ...]


H, W = 0.8, 0.4
LOSSES = {
    "logistic": Loss(
        lambda eta, y: -y * expit(-y * eta), lambda eta, y: expit(eta) * expit(-eta), 1.0, 0.25, True, (-1.0, 1.0)
    ),
    "smooth hinge": Loss(
        lambda eta, y: -y * np.clip((1 - y * eta + W) / (2 * W), 0, 1),
        lambda eta, y: (np.abs(1 - y * eta) < W) / (2 * W),
        1.0,
        1 / (2 * W),
        True,
        (-1.0, 1.0),
    ),
    "huber": Loss(
        lambda eta, y: np.clip(eta - y, -H, H),
        lambda eta, y: (np.abs(eta - y) < H) * 1.0,
        H,
        1.0,
        False,
        (-1.0, 0.0, 1.0),
    ),
}


@dataclass(frozen=True)
class Minimum:
    """The distribution of the minimum of a perturbed objective."""

    loss: Loss
    records: tuple[tuple[float, float], ...]
    lam: float
    sigma: float

    def b(self, theta):
        """-b as a rising function of theta, over sigma."""
        pull = sum((x * self.loss.slope(x * theta, y) for x, y in self.records), self.lam * theta)
        return pull / self.sigma

    def log_density(self, theta):
        bend = sum((x * x * self.loss.curvature(x * theta, y) for x, y in self.records), self.lam + 0.0 * theta)
        return -(self.b(theta) ** 2) / 2 + np.log(bend / self.sigma) - math.log(2 * math.pi) / 2

    def mass(self, low, high):
        a, b = (self.b(np.asarray(each)) for each in (low, high))
        return float(np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)))

    def reach(self):
        pull = sum(abs(x) for x, _ in self.records) * self.loss.steepest
        return (pull + 14 * self.sigma) / self.lam


@lru_cache(maxsize=8)
def divergences(p: Minimum, q: Minimum, *, points: int = 12_001):
    end = max(p.reach(), q.reach())
    grid = np.linspace(-end, end, points)
    log_p, log_q = p.log_density(grid), q.log_density(grid)
    sticks = []
    for epsilon in EPSILONS:
        above = log_p - log_q > epsilon
        cuts = [-1e9]
        for i in np.flatnonzero(above[1:] != above[:-1]):
            low, high = grid[i], grid[i + 1]
            for _ in range(45):
                middle = (low + high) / 2
                higher = p.log_density(middle) - q.log_density(middle) > epsilon
                low, high = (middle, high) if higher == above[i] else (low, middle)
            cuts.append(low)
        cuts.append(1e9)
        pieces = [p.mass(a, b) - math.exp(epsilon) * q.mass(a, b) for a, b in itertools.pairwise(cuts)]
        sticks.append(sum(max(0.0, each) for each in pieces))
    step = grid[1] - grid[0]
    curve = [
        math.log(float(np.exp(np.minimum(700, a * log_p + (1 - a) * log_q)).sum()) * step) / (a - 1) for a in ORDERS
    ]
    return sticks, curve


def worst_ratio(p: Minimum, q: Minimum, claim) -> float:
    """Return the largest exact divergence over its claim, both ways: above 1 the claim is false."""
    found = []
    for one, other in ((p, q), (q, p)):
        sticks, curve = divergences(one, other)
        found += [(s - LOST) / accountant.delta(claim, e) for e, s in zip(EPSILONS, sticks, strict=True)
                  if accountant.delta(claim, e) > 1e-9]  # fmt: skip
        # Kinks cost the sum about a step of the grid.
        found += [
            r * (1 - 1e-3) / float(accountant.renyi(claim, a))
            for a, r in zip(ORDERS, curve, strict=True)
        ]  # fmt: skip
    return max(found)


def claim(kind: str, loss: Loss, lam: float, sigma: float, *, c: float = 1.0, records: int = 1, **change):
    numbers = {"lipschitz": loss.steepest * c, "smoothness": loss.most * c * c, "regularisation": lam, "scale": sigma}
    return event(kind, **{**numbers, **change}, records=records)


def test_the_distribution_of_the_minimum_is_what_minimising_gives():
    """Against a minimum found by bisection for many b: Kolmogorov's distance at a false-alarm rate of 1e-9."""
    minimum = Minimum(LOSSES["logistic"], ((1.0, 1.0), (0.6, -1.0)), 0.5, 2.0)
    rng = np.random.default_rng(1)
    b = 2.0 * rng.standard_normal(20_000)
    low, high = np.full_like(b, -60.0), np.full_like(b, 60.0)
    for _ in range(70):
        middle = (low + high) / 2
        up = minimum.b(middle) * minimum.sigma + b > 0
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    theta = np.sort(low)
    seen = np.array([minimum.mass(-1e9, x) for x in theta[::50]])
    assert np.abs(seen - np.arange(0, 20_000, 50) / 20_000).max() < math.sqrt(math.log(2e9) / 2 / 20_000)
    grid = np.linspace(-60, 60, 200_001)
    assert np.exp(minimum.log_density(grid)).sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-9)


CROWDS = {"none": (), "pushed": ((1.0, 1.0),) * 4, "spread": ((1.0, -1.0), (0.5, 1.0), (-0.7, 1.0))}
SETTINGS = [(1.0, 3.0), (0.1, 1.0), (2.0, 0.7)]
KINDS = {"one-sided": "objective-one-sided", "general": "objective", "published": "objective-published",
         "lecture": "objective-lecture"}  # fmt: skip


@pytest.mark.parametrize(("lam", "sigma"), SETTINGS)
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.long
def test_no_minimum_exceeds_its_claims_where_a_record_is_added(name, crowd, lam, sigma):
    loss = LOSSES[name]
    for y in loss.outcomes:
        rest = CROWDS[crowd]
        p, q = Minimum(loss, (*rest, (1.0, y)), lam, sigma), Minimum(loss, rest, lam, sigma)
        kinds = [kind for kind in KINDS.values() if loss.one_sided or kind != "objective-one-sided"]
        for kind in kinds:
            if kind == "objective-published" and lam <= loss.most:
                continue
            assert worst_ratio(p, q, claim(kind, loss, lam, sigma)) <= 1, (kind, y)


@pytest.mark.parametrize(("lam", "sigma"), SETTINGS)
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("name", ["logistic", "smooth hinge"])
@pytest.mark.long
def test_no_minimum_exceeds_its_claim_where_a_record_is_replaced(name, crowd, lam, sigma):
    loss, rest = LOSSES[name], CROWDS[crowd]
    for (x, y), (v, w) in itertools.combinations([(1.0, 1.0), (1.0, -1.0), (0.4, 1.0)], 2):
        p, q = Minimum(loss, (*rest, (x, y)), lam, sigma), Minimum(loss, (*rest, (v, w)), lam, sigma)
        assert worst_ratio(p, q, claim("objective-one-sided-replace", loss, lam, sigma)) <= 1


@pytest.mark.parametrize("name", LOSSES)
def test_two_records_at_a_time_are_covered_by_grouping(name):
    """Where two records change, delta(epsilon) alone: both ways, never above the profile of two."""
    loss, lam, sigma = LOSSES[name], 1.0, 2.0
    kind = "objective-one-sided" if loss.one_sided else "objective"
    p, q = Minimum(loss, ((1.0, 1.0), (1.0, 1.0)), lam, sigma), Minimum(loss, (), lam, sigma)
    for one, other in ((p, q), (q, p)):
        for epsilon, stick in zip(EPSILONS, divergences(one, other)[0], strict=True):
            assert stick <= accountant.delta(claim(kind, loss, lam, sigma, records=2), epsilon) + LOST


def test_the_claims_of_a_hinge_come_close():
    """A hinge that is straight at the minimum has L all along, and the Jacobian's share is small: nearly a normal."""
    straight = Loss(
        lambda eta, y: -y * np.clip((20 - y * eta + W) / (2 * W), 0, 1),
        lambda eta, y: (np.abs(20 - y * eta) < W) / (2 * W), 1.0, 1 / (2 * W), True, (1.0,),
    )  # fmt: skip
    p, q = Minimum(straight, ((1.0, 1.0),), 40.0, 3.0), Minimum(straight, (), 40.0, 3.0)
    close = worst_ratio(p, q, claim("objective-one-sided", straight, 40.0, 3.0))
    assert 0.8 < close <= 1


# --- wrong claims -----------------------------------------------------------------------------------------------------

HINGE, LOGISTIC, HUBER = LOSSES["smooth hinge"], LOSSES["logistic"], LOSSES["huber"]


def test_the_jacobian_counts():
    """A curvature that is not counted, or a regularisation ten times the true one: false."""
    lam, sigma = 0.1, 3.0
    p, q = Minimum(LOGISTIC, ((1.0, 1.0),), lam, sigma), Minimum(LOGISTIC, (), lam, sigma)
    assert worst_ratio(p, q, claim("objective-one-sided", LOGISTIC, lam, sigma)) <= 1
    assert worst_ratio(p, q, claim("objective-one-sided", LOGISTIC, lam, sigma, smoothness=1e-9)) > 1.2
    assert worst_ratio(p, q, claim("objective-one-sided", LOGISTIC, lam, sigma, regularisation=10 * lam)) > 1.2


def test_half_the_noise_is_too_little():
    p, q = Minimum(HINGE, ((1.0, 1.0),), 5.0, 0.7), Minimum(HINGE, (), 5.0, 0.7)
    assert worst_ratio(p, q, claim("objective-one-sided", HINGE, 5.0, 0.7)) <= 1
    assert worst_ratio(p, q, claim("objective-one-sided", HINGE, 5.0, 1.4)) > 1.2


def test_an_intercept_counts_in_the_norm():
    bare, lam, sigma = 0.3, 5.0, 0.5
    c = math.hypot(bare, 1)
    p, q = Minimum(HINGE, ((c, 1.0),), lam, sigma), Minimum(HINGE, (), lam, sigma)
    assert worst_ratio(p, q, claim("objective-one-sided", HINGE, lam, sigma, c=c)) <= 1
    assert worst_ratio(p, q, claim("objective-one-sided", HINGE, lam, sigma, c=bare)) > 1.2


def test_a_replaced_record_is_not_an_added_one():
    lam, sigma = 5.0, 0.7
    p, q = Minimum(HINGE, ((1.0, 1.0),), lam, sigma), Minimum(HINGE, ((1.0, -1.0),), lam, sigma)
    assert worst_ratio(p, q, claim("objective-one-sided-replace", HINGE, lam, sigma)) <= 1
    assert worst_ratio(p, q, claim("objective-one-sided", HINGE, lam, sigma)) > 1.2


# --- the curves as numbers --------------------------------------------------------------------------------------------


def test_several_records_have_a_profile_and_no_renyi_price():
    made = claim("objective", HUBER, 1.0, 1.0, lipschitz=1.0, records=2)
    assert accountant.renyi(made, 2.0) == math.inf
    assert accountant.delta(made, 800.0) < 1e-9


@pytest.mark.parametrize("kind", KINDS.values())
def test_prices_grow_with_the_order(kind):
    prices = [float(accountant.renyi(claim(kind, LOGISTIC, 1.0, 3.0), order)) for order in (1.1, 1.5, 2, 3, 10, 100)]
    assert prices == sorted(prices)


@pytest.mark.parametrize("name", ["logistic", "smooth hinge"])
def test_high_orders_see_nearly_all_of_the_jacobian(name):
    """With much noise the minimum gathers where the loss bends by log(1 + beta/lam): a tenth less is refuted."""
    loss, lam, sigma, order = LOSSES[name], 0.1, 100.0, 200.0
    p, q = Minimum(loss, ((1.0, 1.0),), lam, sigma), Minimum(loss, (), lam, sigma)
    grid = np.linspace(-12, 12, 200_001)  # a part of the integral bounds it from below
    logs = order * p.log_density(grid) + (1 - order) * q.log_density(grid)
    seen = math.log(float(np.exp(logs - logs.max()).sum()) * (grid[1] - grid[0])) + float(logs.max())
    share = math.log1p(loss.most / lam)
    less = loss.most / math.expm1(0.9 * share)  # the regularisation whose share is a tenth less
    for kind in ("objective-one-sided", "objective"):
        assert seen / (order - 1) <= float(accountant.renyi(claim(kind, loss, lam, sigma), order))
        wrong = float(accountant.renyi(claim(kind, loss, lam, sigma, regularisation=less), order))
        assert math.log1p(loss.most / less) == pytest.approx(0.9 * share)
        assert seen / (order - 1) > wrong
