"""The laws of Langevin chains and of exact posterior draws, propagated by quadrature, against what is claimed of them.

A state's law is a set of weighted points. One step turns it into a mixture of normals, whose density and distribution
function are sums. The hockey-stick divergence is then exact up to quadrature: the roots of p - e^epsilon q are bisected
and the mass between them taken from distribution functions. Nothing here is shared with the source but the claims.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.special import expit, log_ndtr, logsumexp, ndtr
from share import cases

from vestry.privacy import accountant
from vestry.privacy.pricing import event

pytestmark = pytest.mark.oracle

Slope = Callable[[np.ndarray], np.ndarray]
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)
ORDERS = (1.5, 2.0, 8.0)
# What quadrature may lose: absolutely for delta, relatively for a Renyi divergence.
LOST, LOST_RENYI = 1e-9, 1e-7
SLOW = pytest.mark.slow


# --- laws on a line ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixture:
    """Normals of one standard deviation around weighted points."""

    means: np.ndarray
    weights: np.ndarray
    deviation: float

    def log_density(self, x: np.ndarray) -> np.ndarray:
        z = (np.atleast_1d(x)[:, None] - self.means) / self.deviation
        with np.errstate(divide="ignore"):
            return np.log(np.exp(-z * z / 2) @ self.weights) - math.log(self.deviation * math.sqrt(2 * math.pi))

    def mass(self, low: float, high: float) -> float:
        """The probability between two points, from the nearer tail."""
        a, b = (low - self.means) / self.deviation, (high - self.means) / self.deviation
        return float(self.weights @ np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)))

    def ends(self, width: float) -> tuple[float, float]:
        seen = self.means[self.weights > 1e-300]
        return float(seen.min()) - width * self.deviation, float(seen.max()) + width * self.deviation


NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def started(point: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([point]), np.array([1.0])


def stepped(state: tuple[np.ndarray, np.ndarray], mean: Slope, eta: float) -> Mixture:
    return Mixture(mean(state[0]), state[1], math.sqrt(2 * eta))


def pointed(law: Mixture, reach: float, radius: float = math.inf) -> tuple[np.ndarray, np.ndarray]:
    """Turn a law into weighted points: Gauss-Legendre within the reach; what is projected sits at the two ends."""
    end = min(reach, radius)
    points, weights = end * NODES, end * WEIGHTS * np.exp(law.log_density(end * NODES))
    if radius < math.inf:
        outside = law.mass(-np.inf, -end), law.mass(end, np.inf)
        points, weights = np.append(points, [-end, end]), np.append(weights, outside)
    assert abs(weights.sum() - 1) < 1e-11
    return points, weights


def chained(drift: Slope, phases, *, start: float = 0.0, reach: float, radius: float = math.inf, bias=None) -> Mixture:
    """Return the law of the last state; the last step is not projected. The bias is added to the mean of every step."""
    sizes = [eta for eta, count in phases for _ in range(count)]
    state = started(start)
    for number, eta in enumerate(sizes):
        mean = (lambda x, eta=eta: x - eta * drift(x)) if bias is None else (
            lambda x, eta=eta: x - eta * drift(x) + bias(x)
        )  # fmt: skip
        law = stepped(state, mean, eta)
        if number < len(sizes) - 1:
            state = pointed(law, reach, radius)
    return law


def hockey_stick(p, q, epsilon: float) -> float:
    return divergences(p, q, (epsilon,), ())[0][0]


def renyi(p, q, order: float) -> float:
    return divergences(p, q, (), (order,))[1][0]


def divergences(p, q, epsilons, orders, *, points: int = 1201, width: float = 24.0):
    """Integrate (p - e^epsilon q)^+, roots bisected and masses from distribution functions, and p^a q^(1-a)."""
    ends = [law.ends(width) for law in (p, q)]
    grid = np.linspace(min(e[0] for e in ends), max(e[1] for e in ends), points)
    log_p, log_q = p.log_density(grid), q.log_density(grid)
    seen = np.isfinite(log_p) & np.isfinite(log_q)
    grid, log_p, log_q = grid[seen], log_p[seen], log_q[seen]
    sticks = [_stick(p, q, epsilon, grid, log_p - log_q) for epsilon in epsilons]
    step = math.log(grid[1] - grid[0])
    return sticks, [float(logsumexp(a * log_p + (1 - a) * log_q) + step) / (a - 1) for a in orders]


def _stick(p, q, epsilon: float, grid: np.ndarray, ratio: np.ndarray) -> float:
    above = ratio > epsilon
    cuts = [-np.inf]
    for i in np.flatnonzero(above[1:] != above[:-1]):
        low, high = grid[i], grid[i + 1]
        for _ in range(45):
            middle = (low + high) / 2
            higher = p.log_density(middle)[0] - q.log_density(middle)[0] > epsilon
            low, high = (middle, high) if higher == above[i] else (low, middle)
        cuts.append(low)
    cuts.append(np.inf)
    pieces = [p.mass(a, b) - math.exp(epsilon) * q.mass(a, b) for a, b in itertools.pairwise(cuts)]
    return sum(max(0.0, each) for each in pieces)


def worst_ratio(p, q, claim) -> float:
    """Return the largest exact divergence over its claim, both ways; 1 is tight, and above 1 the claim is false."""
    found = []
    for one, other in ((p, q), (q, p)):
        sticks, curve = divergences(one, other, EPSILONS, ORDERS)
        for epsilon, stick in zip(EPSILONS, sticks, strict=True):
            found.append((stick - LOST) / max(accountant.delta(claim, epsilon), 1e-300))
        for order, divergence in zip(ORDERS, curve, strict=True):
            found.append(divergence * (1 - LOST_RENYI) / float(accountant.renyi(claim, order)))
    return max(found)


def chain_claim(s: float, m: float, big: float, phases, *, slack: float = 0.0, start: float = 0.0):
    return event(
        "langevin",
        sensitivity=s,
        strong_convexity=m,
        smoothness=big,
        step_sizes=tuple(eta for eta, _ in phases),
        steps=tuple(count for _, count in phases),
        slacks=tuple(slack for _ in phases),
        start=start,
    )


# --- the instruments themselves ---------------------------------------------------------------------------------------


def test_two_normals_have_the_gaussian_profile():
    p, q = Mixture(np.zeros(1), np.ones(1), 1.0), Mixture(np.array([0.8]), np.ones(1), 1.0)
    for epsilon in EPSILONS:
        exact = ndtr(0.4 - epsilon / 0.8) - math.exp(epsilon) * ndtr(-0.4 - epsilon / 0.8)
        assert hockey_stick(p, q, epsilon) == pytest.approx(exact, abs=1e-14)
    for order in ORDERS:
        assert renyi(p, q, order) == pytest.approx(order * 0.32, rel=1e-10)


def test_the_propagated_chain_of_a_quadratic_is_the_known_normal():
    law = chained(lambda x: 2.0 * (x - 0.7), [(0.1, 6), (0.03, 4)], reach=12.0)
    mean, variance = 0.0, 0.0
    for eta, count in ((0.1, 6), (0.03, 4)):
        for _ in range(count):
            mean, variance = mean - 2 * eta * (mean - 0.7), (1 - 2 * eta) ** 2 * variance + 2 * eta
    x = np.linspace(-3, 4, 15)
    exact = -((x - mean) ** 2) / (2 * variance) - math.log(2 * math.pi * variance) / 2
    assert law.log_density(x) == pytest.approx(exact, abs=1e-9)


# --- logistic posteriors ----------------------------------------------------------------------------------------------


def logistic(records, rho: float, m: float) -> Slope:
    """U' for U = rho sum log(1 + exp(-y x theta)) + m theta^2/2."""
    z = np.array([x * y for x, y in records])
    return lambda theta: m * theta - rho * (expit(-np.outer(np.atleast_1d(theta), z)) @ z)


C = 1.5
OTHERS = {
    "balanced": [(C, 1.0), (C, -1.0)] * 3,
    "one-sided": [(C, 1.0)] * 8,
    "mixed": [(0.3, 1.0), (C, 1.0), (0.9, -1.0), (0.0, 1.0)],
    "none": [],
}
PHASES = {
    "one step": lambda big: [(1.0 / big, 1)],
    "three": lambda big: [(0.4 / big, 3)],
    "thirty": lambda big: [(0.9 / big, 30)],
    "long steps": lambda big: [(1.85 / big, 9)],
    "two phases": lambda big: [(1.5 / big, 12), (0.2 / big, 5)],
    "three phases": lambda big: [(1.5 / big, 6), (0.5 / big, 2), (0.1 / big, 3)],
    "growing": lambda big: [(0.1 / big, 4), (1.2 / big, 3)],
}


def pair(others: str, relation: str):
    """Return two neighbours: a record turns, or appears."""
    rest = OTHERS[others]
    return ([*rest, (C, 1.0)], [*rest, (C, -1.0)]) if relation == "replace" else ([*rest, (C, -1.0)], rest)


def largest_difference(one: Slope, other: Slope) -> float:
    x = np.linspace(-60, 60, 200_001)
    return float(np.abs(one(x) - other(x)).max())


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize(
    "others",
    [*cases(["balanced", "mixed"], quick=["mixed"]), *(pytest.param(o, marks=SLOW) for o in ("one-sided", "none"))],
)
@pytest.mark.parametrize("phases", PHASES)
def test_no_chain_of_a_logistic_posterior_exceeds_its_claim(relation, others, phases):
    """With S = 2 rho c or rho c, and with the least S that holds for these two datasets."""
    rho, m = 0.8, 0.6
    first, second = pair(others, relation)
    big = rho * max(len(first), len(second)) * C * C / 4 + m
    steps = PHASES[phases](big)
    one, other = (logistic(each, rho, m) for each in (first, second))
    p, q = (chained(each, steps, reach=16.0) for each in (one, other))
    assert worst_ratio(p, q, chain_claim(rho * C * (2 if relation == "replace" else 1), m, big, steps)) <= 1
    least = largest_difference(one, other)
    tight = worst_ratio(p, q, chain_claim(least, m, big, steps))
    assert tight <= 1
    if relation == "replace" and phases == "one step":
        # The two gradients differ by c everywhere, and one step from 0 attains the claim.
        assert tight > 1 - 1e-6


@pytest.mark.parametrize("phases", PHASES)
def test_chains_of_a_quadratic_attain_their_claim(phases):
    """U = m theta^2/2 - a theta: the claim is the exact law, if no step passes the mode."""
    m = 1.3
    steps = PHASES[phases](2 * m)
    p, q = (chained(lambda x, a=a: m * x - a, steps, reach=14.0) for a in (0.5, -0.4))
    if all(eta * m <= 1 for eta, _ in steps):
        assert 1 - 1e-6 < worst_ratio(p, q, chain_claim(0.9, m, m, steps)) <= 1
    assert worst_ratio(p, q, chain_claim(0.9, m, 2 * m, steps)) <= 1


# --- wrong claims -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["quadratic", "logistic"])
def test_a_start_at_the_mode_costs_what_start_says_and_more_than_a_fixed_one(kind):
    rho, m = 0.8, 0.6
    first, second = pair("balanced", "replace")
    drifts = [logistic(each, rho, m) for each in (first, second)]
    s, big = rho * C, rho * len(first) * C * C / 4 + m
    if kind == "quadratic":
        drifts, big = [lambda x, a=a: m * x - a for a in (s / 2, -s / 2)], m
    steps = [(0.3 / big, 2)]
    modes = [
        optimize.brentq(lambda x, drift=drift: float(np.ravel(drift(x))[0]), -9, 9, xtol=1e-13) for drift in drifts
    ]
    p, q = (chained(drift, steps, start=mode, reach=16.0) for drift, mode in zip(drifts, modes, strict=True))
    assert abs(modes[0] - modes[1]) <= s / m * (1 + 1e-12)
    assert worst_ratio(p, q, chain_claim(s, m, big, steps, start=s / m)) <= 1
    assert worst_ratio(p, q, chain_claim(s, m, big, steps)) > 1.2


def test_an_intercept_counts_in_the_norm():
    """Along (R, 1) a record's features are sqrt(R^2 + 1) long: with R in its place the claim is false."""
    rho, m, bare = 0.8, 0.6, 0.3
    c = math.hypot(bare, 1)
    first, second = [(c, 1.0), (c, 1.0)], [(c, 1.0), (c, -1.0)]
    big = rho * 2 * c * c / 4 + m
    steps = [(0.5 / big, 3)]
    p, q = (chained(logistic(each, rho, m), steps, reach=16.0) for each in (first, second))
    assert worst_ratio(p, q, chain_claim(2 * rho * c, m, big, steps)) <= 1
    assert worst_ratio(p, q, chain_claim(2 * rho * bare, m, big, steps)) > 1.2


def probit(records, m: float) -> Slope:
    z = np.array([x * y for x, y in records])

    def drift(theta):
        eta = np.outer(np.atleast_1d(theta), z)
        mills = np.exp(-eta * eta / 2 - log_ndtr(eta)) / math.sqrt(2 * math.pi)
        return m * theta - mills @ z

    return drift


@pytest.mark.long
def test_probit_is_not_private_with_slope_1_and_is_on_a_ball_with_the_slope_there():
    m, radius = 0.05, 3.0
    rest = [(1.0, -1.0)] * 30
    first, second = [*rest, (1.0, 1.0)], rest
    big = m + len(first)
    steps = [(1.2 / big, 20), (0.4 / big, 3)]
    p, q = (chained(probit(each, m), steps, reach=12.0) for each in (first, second))
    assert worst_ratio(p, q, chain_claim(1.0, m, big, steps)) > 1.2
    slope = math.exp(-radius * radius / 2 - log_ndtr(-radius)) / math.sqrt(2 * math.pi)
    p, q = (chained(probit(each, m), steps, reach=12.0, radius=radius) for each in (first, second))
    assert worst_ratio(p, q, chain_claim(slope, m, big, steps)) <= 1
    assert worst_ratio(p, q, chain_claim(1.0, m, big, steps)) > 1.2


def test_a_step_size_chosen_from_the_data_is_not_covered():
    m = 1.0
    p, q = (chained(lambda x, a=a: m * x - a, [(eta, 4)], reach=14.0) for a, eta in ((0.05, 0.2), (-0.05, 0.26)))
    assert min(worst_ratio(p, q, chain_claim(0.1, m, m, [(eta, 4)])) for eta in (0.2, 0.26)) > 1.2
    p, q = (chained(lambda x, a=a: m * x - a, [(0.2, 4)], reach=14.0) for a in (0.05, -0.05))
    assert worst_ratio(p, q, chain_claim(0.1, m, m, [(0.2, 4)])) <= 1


def test_half_the_sensitivity_is_too_little():
    steps = [(0.2, 5)]
    p, q = (chained(lambda x, a=a: x - a, steps, reach=14.0) for a in (0.5, -0.5))
    assert worst_ratio(p, q, chain_claim(1.0, 1.0, 1.0, steps)) <= 1
    assert worst_ratio(p, q, chain_claim(0.5, 1.0, 1.0, steps)) > 1.2


def test_a_step_that_is_off_costs_its_slack():
    """Every step of one chain is off to one side and of the other to the other: nearly attained for a quadratic."""
    steps, slack = [(0.2, 5)], 0.04
    p, q = (
        chained(lambda x, a=a: x - a, steps, reach=14.0, bias=lambda x, a=a: np.full_like(x, math.copysign(slack, a)))
        for a in (0.5, -0.5)
    )
    assert 0.97 < worst_ratio(p, q, chain_claim(1.0, 1.0, 1.0, steps, slack=slack)) <= 1
    assert worst_ratio(p, q, chain_claim(1.0, 1.0, 1.0, steps)) > 1.1


@pytest.mark.parametrize("sizes", [(0.2, 0.2), (0.5, 0.0005), (0.0005, 0.5)])
def test_rounding_to_a_grid_costs_no_more_than_its_slack(sizes):
    """The mean of every step is rounded, to multiples of g for one dataset and between them for the other."""
    g = 0.2

    def rounding(offset: float) -> Slope:
        return lambda x: g * (np.round(x / g - offset) + offset)

    def law(offset: float) -> Mixture:
        first = Mixture(rounding(offset)(np.zeros(1)), np.ones(1), math.sqrt(2 * sizes[0]))
        # The second mean is rounded too: so many cells, each of its exact mass.
        centres = g * (np.arange(-40, 41) + offset)
        factor = 1 - sizes[1]
        cells = [first.mass((c - g / 2) / factor, (c + g / 2) / factor) for c in centres]
        return Mixture(centres, np.array(cells), math.sqrt(2 * sizes[1]))

    claim = chain_claim(1e-9, 1.0, 1.0, [(size, 1) for size in sizes], slack=g / 2)
    p, q = law(0.0), law(0.5)
    # A lower bound is enough: the exact masses of intervals of 1/20 of a cell.
    cuts = np.linspace(-2.0125, 2.0125, 162)
    one, other = (np.array([each.mass(a, b) for a, b in itertools.pairwise(cuts)]) for each in (p, q))
    ratio = max(np.maximum(0, one - math.exp(e) * other).sum() / accountant.delta(claim, e) for e in (0.0, 0.5))
    assert ratio <= 1 + 1e-9


# --- exact draws ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Posterior:
    """exp(-U) on a line, normalised by quadrature."""

    potential: Callable[[np.ndarray], np.ndarray]
    reach: float

    def __post_init__(self):
        grid = np.linspace(-self.reach, self.reach, 20_001)
        logs = -self.potential(grid)
        object.__setattr__(self, "log_total", float(logsumexp(logs)) + math.log(grid[1] - grid[0]))

    def log_density(self, x):
        return -self.potential(np.atleast_1d(x)) - self.log_total

    def mass(self, low, high):
        low, high = max(low, -self.reach), min(high, self.reach)
        if high <= low:
            return 0.0
        cuts = np.linspace(low, high, 41)
        half = (cuts[1] - cuts[0]) / 2
        nodes, weights = np.polynomial.legendre.leggauss(20)
        x = (cuts[:-1, None] + half + half * nodes).ravel()
        return float(np.exp(self.log_density(x)) @ np.tile(half * weights, 40))

    def ends(self, width):
        return -self.reach, self.reach


def logistic_potential(records, rho: float, m: float):
    z = np.array([x * y for x, y in records])
    return lambda theta: m * theta * theta / 2 + rho * np.logaddexp(0, -np.outer(theta, z)).sum(axis=1)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("others", OTHERS)
def test_no_exact_draw_exceeds_its_claim(relation, others):
    rho, m = 0.8, 0.6
    first, second = pair(others, relation)
    p, q = (Posterior(logistic_potential(each, rho, m), 20.0) for each in (first, second))
    for s in (C * (2 if relation == "replace" else 1), C * (1.06 if relation == "replace" else 1)):
        claim = event("gibbs", likelihood_power=rho, sensitivity=s, strong_convexity=m)
        assert worst_ratio(p, q, claim) <= 1
    if relation == "replace":
        halved = event("gibbs", likelihood_power=rho, sensitivity=C / 2, strong_convexity=m)
        assert worst_ratio(p, q, halved) > 1 or others == "one-sided" or others == "balanced"


def test_linear_losses_attain_the_claim_of_an_exact_draw():
    """l = -+ c theta: gradients -c and c everywhere, so S = 2 c, and two normals are 2 rho c/m apart."""
    rho, m, c = 0.7, 1.3, 0.9
    p, q = (Posterior(lambda x, s=s: m * x * x / 2 - s * rho * c * x, 16.0) for s in (1, -1))
    claim = event("gibbs", likelihood_power=rho, sensitivity=2 * c, strong_convexity=m)
    assert 1 - 1e-5 < worst_ratio(p, q, claim) <= 1
    lone = event("gibbs", likelihood_power=rho, sensitivity=c, strong_convexity=m)
    assert worst_ratio(p, q, lone) > 1.2


# --- several step sizes -----------------------------------------------------------------------------------------------


def least_price(s, c, eta, start: float) -> float:
    """Minimise sum a_k^2/(2 eta_k) over z_k = c_k z_(k-1) + s_k - a_k >= 0, z_t = 0, by a general solver."""
    t = len(eta)
    # z = A (s - a) + start * products, linear in a.
    lower = np.zeros((t, t))
    for k in range(t):
        for j in range(k + 1):
            lower[k, j] = np.prod(c[j + 1 : k + 1])
    free = lower @ s + start * np.cumprod(c)
    scale = np.sqrt(2 * eta)

    def shifts(b):
        return free - lower @ (scale * b)

    found = optimize.minimize(
        lambda b: b @ b,
        np.full(t, free[-1] / t / scale.mean()),
        jac=lambda b: 2 * b,
        method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda b: shifts(b)[-1:], "jac": lambda b: -(lower * scale)[-1:]},
            {"type": "ineq", "fun": lambda b: shifts(b)[:-1], "jac": lambda b: -(lower * scale)[:-1]},
        ],
        options={"ftol": 1e-15, "maxiter": 1000},
    )  # fmt: skip
    assert found.success, found.message
    return math.sqrt(found.fun)


@pytest.mark.parametrize("seed", range(12))
def test_the_price_of_several_phases_is_the_least_that_the_proof_allows(seed):
    rng = np.random.default_rng(seed)
    m, big, s = rng.uniform(0.1, 1), rng.uniform(1, 20), rng.uniform(0.1, 3)
    phases = [(rng.uniform(0.05, 1.95) / big, int(rng.integers(1, 4))) for _ in range(rng.integers(2, 4))]
    start = rng.uniform(0, 1) if seed % 2 else 0.0
    eta = np.array([size for size, count in phases for _ in range(count)])
    c = np.maximum(np.abs(1 - eta * m), np.abs(1 - eta * big))
    claimed = math.sqrt(float(accountant.squared_mu(chain_claim(s, m, big, phases, start=start))))
    assert claimed == pytest.approx(least_price(eta * s, c, eta, start), rel=1e-6)


def test_one_slack_in_every_phase_is_priced_at_the_least_that_the_proof_allows():
    """No shift z_k may be negative; where slack/eta grows from phase to phase that is a condition of its own."""
    m, big, s, slack = 0.5, 4.0, 0.3, 0.05
    phases = [(1.5 / big, 3), (0.1 / big, 2)]
    eta = np.array([size for size, count in phases for _ in range(count)])
    c = np.maximum(np.abs(1 - eta * m), np.abs(1 - eta * big))
    claimed = math.sqrt(float(accountant.squared_mu(chain_claim(s, m, big, phases, slack=slack))))
    assert claimed >= least_price(eta * s + 2 * slack, c, eta, 0.0) * (1 - 1e-6)


def test_quadrature_of_a_posterior_has_unit_mass():
    law = Posterior(logistic_potential(OTHERS["mixed"], 0.8, 0.6), 20.0)
    whole, _ = integrate.quad(lambda x: float(np.exp(law.log_density(x))[0]), -20, 20, epsabs=1e-12, limit=200)
    assert whole == pytest.approx(1, abs=1e-10)
    assert law.mass(-np.inf, np.inf) == pytest.approx(1, abs=1e-10)
