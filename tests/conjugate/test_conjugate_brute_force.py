"""One posterior draw against brute force: every pair of neighbouring datasets that a declaration allows.

The divergences here share no code with the source. Renyi divergences come from log-gamma functions; hockey-stick
divergences of two betas from thresholds found by bisection and incomplete betas; those of two Dirichlets from a contour
integral, H(P || Q) = (1/2 pi i) int E_P[(p/q)^z] e^(-z epsilon) / (z (z + 1)) dz along Re z = c > 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.special import betainc, betaln, expit, gammaln, loggamma

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.draw_cost import draw
from vestry.privacy import accountant
from vestry.privacy.accountant import largest_parameter
from vestry.privacy.event import Event, compose
from vestry.privacy.guarantee import RenyiDP
from vestry.privacy.neighbours import Adjacency

pytestmark = pytest.mark.oracle

ORDERS, EPSILONS = (1.5, 2, 5), (0.1, 0.5, 1)
# (likelihood power r, prior scale m): direct, diffused, concentrated
SCALES = [(1, 1), (0.5, 1), (0.1, 1), (1, 0.5), (1, 0.1)]
BETA_PRIORS = [(6, 12), (12, 6), (1, 1), (0.5, 0.5), (0.3, 4), (2, 0.7)]
DIRICHLET_PRIORS = [(1, 1, 1), (6, 12, 2), (0.5, 3, 0.7), (0.3, 0.3, 0.3), (2, 1, 1.5, 4)]
SCARCE = 1e-12  # what doubles lose here: smaller differences of divergences are not seen

# --- divergences by other means --------------------------------------------------------------------------------------


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> np.ndarray:
    """D_order between Dirichlets, the last axis being the categories."""
    between = order * p + (1 - order) * q
    exists = np.all(between > 1e-13, axis=-1)
    between = np.where(exists[..., None], between, 1.0)
    value = (partition(between) - order * partition(p)) / (order - 1) + partition(q)
    return np.where(exists, value, np.inf)


def partition(alphas: np.ndarray) -> np.ndarray:
    return gammaln(alphas).sum(axis=-1) - gammaln(alphas.sum(axis=-1))


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> np.ndarray:
    """H between betas, the last axis being (alpha, beta), in whatever direction both parameters move.

    In l = logit(theta), log p/q = -u softplus(-l) - w softplus(l) + c has at most one turning point, log(u/w) where u
    and w have one sign; theta counts where it exceeds epsilon.
    """
    (a, b), (a2, b2) = np.moveaxis(p, -1, 0), np.moveaxis(q, -1, 0)
    u, w, c = a - a2, b - b2, betaln(a2, b2) - betaln(a, b)
    far = 4000.0
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.where(u * w > 0, np.log(u / w), np.where((u > 0) | (w < 0), far, -far))

    def excess(x: np.ndarray) -> np.ndarray:
        return -u * np.logaddexp(0, -x) - w * np.logaddexp(0, x) + c - epsilon

    left, right = crossing(excess, -far, turn), crossing(excess, turn, far)
    inside = excess(turn) > 0  # between the crossings, if that is where the ratio is large
    between = mass(a, b, left, right) - math.exp(epsilon) * mass(a2, b2, left, right)
    outside = (1 - math.exp(epsilon)) - between
    rising, falling = (u >= 0) & (w <= 0), (u <= 0) & (w >= 0)
    above = mass(a, b, left, np.inf) - math.exp(epsilon) * mass(a2, b2, left, np.inf)
    below = mass(a, b, -np.inf, right) - math.exp(epsilon) * mass(a2, b2, -np.inf, right)
    return np.maximum(0, np.select([rising, falling, inside], [above, below, between], outside))


def crossing(excess: Callable, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """Halve [low, high] 56 times around the point where a monotone function changes its sign."""
    low, high = np.broadcast_arrays(low, high)
    grows = excess(high) > excess(low)
    for _ in range(56):
        middle = (low + high) / 2
        lower = (excess(middle) < 0) == grows
        low, high = np.where(lower, middle, low), np.where(lower, high, middle)
    return (low + high) / 2


def mass(a: np.ndarray, b: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """P(low < logit theta < high), from whichever tail keeps the digits."""
    lower = betainc(a, b, expit(high)) - betainc(a, b, expit(low))
    upper = betainc(b, a, expit(-np.asarray(low))) - betainc(b, a, expit(-np.asarray(high)))
    return np.where(np.asarray(low) > 0, upper, lower)


def contour(p: np.ndarray, q: np.ndarray, epsilons: tuple[float, ...], *, normalised: bool) -> list[np.ndarray]:
    """H between Dirichlets, or between products of gammas (`normalised` false), for pairs along the first axis."""
    v = p - q
    limit = np.min(np.where(v < 0, -p / np.where(v < 0, v, -1), np.inf), axis=-1)
    c = np.minimum(limit / 2, 1.0)[:, None]
    t = np.linspace(0, math.asinh(500), 900)
    z = c + 1j * np.sinh(t)

    def transform(eta: np.ndarray) -> np.ndarray:
        logs = loggamma(eta + 0j).sum(axis=-1)
        return logs - loggamma(eta.sum(axis=-1) + 0j) if normalised else logs

    moments = transform(p[:, None] + z[..., None] * v[:, None]) - (1 + z) * transform(p)[:, None]
    moments += z * transform(q)[:, None]
    weights = np.cosh(t) * (t[1] - t[0]) / math.pi
    weights[0] /= 2
    return [(np.exp(moments - z * epsilon) / (z * (z + 1))).real @ weights for epsilon in epsilons]


def test_the_contour_integral_agrees_with_incomplete_betas():
    p = np.array([[2.0, 3.5], [0.6, 4.0], [7.0, 1.1]])
    q = p + np.array([[1.0, -1.0], [0.7, -2.1], [-3.0, 3.0]])
    for epsilon, found in zip(EPSILONS, contour(p, q, EPSILONS, normalised=True), strict=True):
        assert found == pytest.approx(hockey_stick(p, q, epsilon), abs=1e-11)


def test_the_bisection_agrees_with_quadrature():
    """Ratios that rise, fall, and turn once either way, against the integral of (p - e^epsilon q)^+."""
    p = np.array([2.0, 3.0]) + np.array([[0, 0], [0, 0], [0, 0], [1.5, 0.5], [1, 1], [0, 0.5]])
    q = np.array([2.0, 3.0]) + np.array([[1, -1], [-1, 0.5], [0.4, 0.8], [0, 0], [1.5, 0], [0, 0]])
    theta = (np.arange(400_000) + 0.5) / 400_000
    for epsilon in (0.0, 0.1, 0.5):
        for one, other, found in zip(p, q, hockey_stick(p, q, epsilon), strict=True):
            density = [
                np.exp((a - 1) * np.log(theta) + (b - 1) * np.log1p(-theta) - betaln(a, b)) for a, b in (one, other)
            ]
            assert found == pytest.approx(np.maximum(0, density[0] - math.exp(epsilon) * density[1]).mean(), abs=1e-7)


# --- every neighbouring pair -----------------------------------------------------------------------------------------


@cache
def counts(total: int, categories: int) -> np.ndarray:
    """Every way to spread records over categories."""
    bars = itertools.combinations(range(total + categories - 1), categories - 1)
    edges = np.array([(-1, *chosen, total + categories - 1) for chosen in bars])
    return np.diff(edges, axis=1) - 1


def up_to(total: int, categories: int) -> np.ndarray:
    return np.concatenate([counts(n, categories) for n in range(total + 1)])


def neighbours(adjacency: Adjacency, categories: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Every ordered pair of category counts that the declaration allows, with up to `most` records where n is private.

    Beside the other units' records a unit has some before and some after the change. Smaller units are among the
    pairs, with the difference among the other records.
    """
    k = adjacency.rows
    if adjacency.count is not None:
        others, before, after = counts(adjacency.count - k, categories), counts(k, categories), counts(k, categories)
    elif adjacency.replaces:
        others, before, after = up_to(most - k, categories), up_to(k, categories), up_to(k, categories)
    else:
        others, before, after = up_to(most - k, categories), up_to(k, categories), counts(0, categories)
    one, other = np.broadcast_arrays(
        others[:, None, None] + before[None, :, None], others[:, None, None] + after[None, None, :]
    )
    one, other = one.reshape(-1, categories), other.reshape(-1, categories)
    differ = np.any(one != other, axis=1)
    one, other = one[differ], other[differ]
    return np.concatenate([one, other]), np.concatenate([other, one])


def posteriors(
    pair: tuple[np.ndarray, np.ndarray], prior: tuple[float, ...], power: float, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array(prior) / scale + power * found for found in pair)  # type: ignore[return-value]


def as_betas(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce Dirichlet pairs in which only one or two categories move to betas, and leave the others out.

    Two that move by as much in opposite directions: theta_i/(theta_i + theta_j). One that moves: theta_i.
    """
    moved = ~np.isclose(p, q, rtol=0, atol=1e-12)
    level = np.isclose(p.sum(axis=1), q.sum(axis=1), rtol=0, atol=1e-12)
    two, one = (moved.sum(axis=1) == 2) & level, moved.sum(axis=1) == 1
    pairs = [x[two][moved[two]].reshape(-1, 2) for x in (p, q)]
    singles = [np.stack([x[one][moved[one]], x[one].sum(axis=1) - x[one][moved[one]]], axis=1) for x in (p, q)]
    return np.concatenate([pairs[0], singles[0]]), np.concatenate([pairs[1], singles[1]])


def brute(p: np.ndarray, q: np.ndarray) -> dict[str, float]:
    """The largest divergences over all pairs; hockey-stick only where a pair reduces to betas."""
    betas = (p, q) if p.shape[1] == 2 else as_betas(p, q)
    betas = np.hsplit(np.unique(np.hstack(betas), axis=0), 2)
    return {
        **{f"order {order}": float(renyi(p, q, order).max()) for order in ORDERS},
        **{f"epsilon {epsilon}": float(hockey_stick(*betas, epsilon).max()) for epsilon in EPSILONS},
    }


def claimed(event: Event) -> dict[str, float]:
    return {
        **{f"order {order}": float(accountant.renyi(event, order)) for order in ORDERS},
        **{f"epsilon {epsilon}": accountant.delta(event, epsilon) for epsilon in EPSILONS},
    }


def equal(claim: dict[str, float], found: dict[str, float]) -> None:
    for key, value in found.items():
        assert claim[key] == pytest.approx(value, rel=1e-9, abs=SCARCE), key


def dominates(claim: dict[str, float], found: dict[str, float]) -> None:
    for key, value in found.items():
        assert claim[key] >= value * (1 - 1e-10) - SCARCE, key


# --- Beta-Bernoulli --------------------------------------------------------------------------------------------------

beta_priors = pytest.mark.parametrize("prior", BETA_PRIORS, ids=str)
dirichlet_priors = pytest.mark.parametrize("prior", DIRICHLET_PRIORS, ids=str)
scales = pytest.mark.parametrize(("power", "scale"), SCALES)
each_rows = pytest.mark.parametrize("rows", [1, 3])


def beta_draw(prior: tuple[float, ...], adjacency: Adjacency, power: float, scale: float) -> Event:
    family = BetaBernoulliFamily()
    return family.worst_draw(family.prior(prior), adjacency, likelihood_power=power, prior_scale=scale)


@each_rows
@scales
@beta_priors
def test_beta_replace_public_count(prior, power, scale, rows):
    for count in (rows, 8, 31, 100):
        adjacency = Adjacency("replace", rows=rows, count=count)
        found = brute(*posteriors(neighbours(adjacency, 2, count), prior, power, scale))
        equal(claimed(beta_draw(prior, adjacency, power, scale)), found)


@each_rows
@scales
@beta_priors
def test_beta_replace_private_count(prior, power, scale, rows):
    """A unit may change from any of its records to any others, or to none, beside any others' records."""
    adjacency = Adjacency("replace", rows=rows)
    most = 14 if rows == 1 else 7
    found = brute(*posteriors(neighbours(adjacency, 2, most), prior, power, scale))
    equal(claimed(beta_draw(prior, adjacency, power, scale)), found)


@pytest.mark.long
@pytest.mark.parametrize(("prior", "power"), [((6, 12), 0.5), ((0.5, 2), 0.1)])
def test_up_to_100_records(prior, power):
    for adjacency, check in ((Adjacency("replace"), equal), (Adjacency("add-remove"), dominates)):
        found = brute(*posteriors(neighbours(adjacency, 2, 100), prior, power, 1))
        check(claimed(beta_draw(prior, adjacency, power, 1)), found)
    prior, adjacency = (*prior, 1), Adjacency("replace", count=100)
    found = brute(*posteriors(neighbours(adjacency, 3, 100), prior, power, 1))
    equal(claimed(dirichlet_draw(prior, adjacency, power, 1)), found)


@each_rows
@scales
@beta_priors
def test_beta_add_remove(prior, power, scale, rows):
    """The supremum dominates every dataset, and datasets of many records of one kind come near to it."""
    adjacency = Adjacency("add-remove", rows=rows)
    claim = claimed(beta_draw(prior, adjacency, power, scale))
    dominates(claim, brute(*posteriors(neighbours(adjacency, 2, 20 if rows == 1 else 8), prior, power, scale)))
    approached(claim, prior, power, scale, rows)


def approached(claim: dict[str, float], prior: tuple[float, ...], power: float, scale: float, rows: int) -> None:
    """Add a unit of `rows` records to each category, beside ever more records of the next one."""
    categories, gaps = len(prior), []
    for crowd in (1e3, 1e4, 1e5, 1e6):
        others = np.array([crowd * np.roll(np.eye(categories)[i], 1) for i in range(categories)])
        ends = others + rows * np.eye(categories)
        p, q = posteriors((np.concatenate([others, ends]), np.concatenate([ends, others])), prior, power, scale)
        # At counts this large differences of log-gammas lose digits: hockey-stick alone.
        found = {key: value for key, value in brute(p, q).items() if key.startswith("epsilon")}
        dominates(claim, found)
        gaps.append({key: claim[key] - value for key, value in found.items()})
    for key, value in claim.items():
        if key.startswith("epsilon") and value > 1e-5:
            assert gaps[0][key] > gaps[1][key] > gaps[2][key]
            assert gaps[3][key] < 1e-3 * value


# --- Dirichlet-categorical -------------------------------------------------------------------------------------------


def dirichlet_draw(prior: tuple[float, ...], adjacency: Adjacency, power: float, scale: float) -> Event:
    family = DirichletCategoricalFamily(len(prior))
    return family.worst_draw(family.prior(prior), adjacency, likelihood_power=power, prior_scale=scale)


def spread(prior: tuple[float, ...], power: float, scale: float, rows: int) -> bool:
    """Whether the claim is a bound that no pair need reach: units of several records next to small alphas."""
    least = min(prior) / scale
    return rows > 1 and least < 0.5 and power * rows > 2 * least


@each_rows
@scales
@beta_priors
def test_two_categories_are_beta_bernoulli(prior, power, scale, rows):
    for adjacency in (
        Adjacency("replace", rows=rows, count=9),
        Adjacency("replace", rows=rows),
        Adjacency("add-remove", rows=rows),
    ):
        assert claimed(dirichlet_draw(prior, adjacency, power, scale)) == claimed(
            beta_draw(prior, adjacency, power, scale)
        )


@each_rows
@scales
@dirichlet_priors
def test_dirichlet_replace(prior, power, scale, rows):
    """Public count, the largest first, and private: the same supremum, because others may sit in a third category."""
    categories = len(prior)
    check = dominates if spread(prior, power, scale, rows) else equal
    sizes = {(3, 1): (14, 1), (3, 3): (7, 3), (4, 1): (7, 1), (4, 3): (4, 3)}[categories, rows]
    for count in sizes:
        adjacency = Adjacency("replace", rows=rows, count=count)
        found = brute(*posteriors(neighbours(adjacency, categories, count), prior, power, scale))
        check(claimed(dirichlet_draw(prior, adjacency, power, scale)), found)
    adjacency = Adjacency("replace", rows=rows)
    most = 5 if rows == 1 else 4
    found = brute(*posteriors(neighbours(adjacency, categories, most), prior, power, scale))
    check(claimed(dirichlet_draw(prior, adjacency, power, scale)), found)


@each_rows
@scales
@dirichlet_priors
def test_dirichlet_add_remove(prior, power, scale, rows):
    adjacency = Adjacency("add-remove", rows=rows)
    claim = claimed(dirichlet_draw(prior, adjacency, power, scale))
    dominates(claim, brute(*posteriors(neighbours(adjacency, len(prior), 8), prior, power, scale)))
    if not spread(prior, power, scale, rows):
        approached(claim, prior, power, scale, rows)


def test_a_private_count_costs_what_the_least_count_costs():
    """For two categories the supremum falls with n; for three it does not depend on it."""
    at = [claimed(beta_draw((6, 12), Adjacency("replace", rows=3, count=n), 0.4, 1)) for n in (3, 4, 30, 1000)]
    assert at[0] == claimed(beta_draw((6, 12), Adjacency("replace", rows=3), 0.4, 1))
    for fewer, more in itertools.pairwise(at):
        assert all(fewer[key] > more[key] for key in fewer)
    three = [claimed(dirichlet_draw((6, 12, 7), Adjacency("replace", count=n), 0.5, 1)) for n in (1, 30)]
    assert three[0] == three[1] == claimed(dirichlet_draw((6, 12, 7), Adjacency("replace"), 0.5, 1))


# --- units whose records are spread over several categories ----------------------------------------------------------


def spread_moves(rows: int, categories: int, *, same_size: bool) -> tuple[np.ndarray, np.ndarray]:
    """What a unit has before and after, without common records: they would only be others' records."""
    some = counts(rows, categories) if same_size else up_to(rows, categories)
    pairs = [(x, y) for x, y in itertools.product(some, some) if np.any(x != y) and not np.any((x > 0) & (y > 0))]
    before, after = zip(*pairs, strict=True)
    return np.array(before), np.array(after)


SPREAD = [
    ((1, 1, 1), 1),
    ((0.5, 0.5, 0.5), 1),
    ((0.5, 0.5, 0.5, 0.5), 0.5),
    ((0.3, 0.3, 0.3, 0.3), 0.2),
    ((0.06, 0.06, 0.06), 0.04),
    ((0.02, 0.02, 0.02), 0.02),
    ((6, 12, 2, 3), 1),
    ((0.1, 0.1, 0.1), 1),
]


@pytest.mark.parametrize(("prior", "power"), SPREAD, ids=str)
@pytest.mark.long
def test_units_spread_over_categories(prior, power):
    """Every move of three records, by contour integral: with a fixed count, and beside very many other records.

    In the second case the Dirichlet tends to independent gammas, and dominates every smaller dataset.
    """
    categories = len(prior)
    bounded = spread(prior, power, 1, 3)
    p, q = posteriors(spread_moves(3, categories, same_size=True), prior, power, 1)
    fixed = dict(zip(EPSILONS, contour(p, q, EPSILONS, normalised=True), strict=True))
    for adjacency in (Adjacency("replace", rows=3, count=3), Adjacency("replace", rows=3)):
        claim = dirichlet_draw(prior, adjacency, power, 1)
        check = dominates if bounded else equal
        check(claimed(claim), {f"epsilon {epsilon}": fixed[epsilon].max() for epsilon in EPSILONS})
    p, q = posteriors(spread_moves(3, categories, same_size=False), prior, power, 1)
    crowded = dict(zip(EPSILONS, contour(p, q, EPSILONS, normalised=False), strict=True))
    dominates(claimed(claim), {f"epsilon {epsilon}": crowded[epsilon].max() for epsilon in EPSILONS})
    alone = np.all(p == prior, axis=1) | np.all(q == prior, axis=1)
    claim = dirichlet_draw(prior, Adjacency("add-remove", rows=3), power, 1)
    check = dominates if bounded else equal
    check(claimed(claim), {f"epsilon {epsilon}": crowded[epsilon][alone].max() for epsilon in EPSILONS})


def test_records_that_agree_are_not_always_worst():
    """Next to small alphas a unit costs more when its records are spread, which the pairs of two categories miss."""
    prior = (0.1, 0.1, 0.1)
    p, q = posteriors(spread_moves(2, 3, same_size=False), prior, 1, 1)
    alone = np.all(p == prior, axis=1) | np.all(q == prior, axis=1)
    (found,) = contour(p[alone], q[alone], (1.0,), normalised=False)
    agreeing = accountant.delta(draw(gammas=((0.1, 2),)), 1)
    assert found.max() == pytest.approx(1.0454 * agreeing, rel=1e-4)
    assert accountant.delta(dirichlet_draw(prior, Adjacency("add-remove", rows=2), 1, 1), 1) >= found.max()


@pytest.mark.parametrize("neighbours_", ["replace", "add-remove"])
def test_bound_beside_small_alphas_holds_at_every_order(neighbours_):
    """Renyi at orders below lambda*, where the moves between many categories are finite, and above it infinite."""
    prior, power, rows = (0.2, 0.3, 0.6, 0.4), 1, 3
    adjacency = Adjacency(neighbours_, rows=rows)
    event = dirichlet_draw(prior, adjacency, power, 1)
    family = DirichletCategoricalFamily(4)
    limit = family.order_limit(family.prior(prior), adjacency)
    p, q = posteriors(neighbours(adjacency, 4, 6), prior, power, 1)
    for part in (0.001, 0.1, 0.5, 0.9, 0.98):
        order = 1 + part * (limit - 1)
        assert renyi(p, q, order).max() <= accountant.renyi(event, order) < math.inf
    assert renyi(p, q, 1 + 1.01 * (limit - 1)).max() == accountant.renyi(event, limit) == math.inf


# --- what a private count costs (theory.md, section 4) ---------------------------------------------------------------


def test_a_private_count_costs_more_than_the_declared_one():
    """Diffused Beta(6, 12), order 2, calibrated to 0.01 at n = 5000: 0.0146 if n is 1, 0.0199 to change groups."""
    public = Adjacency("replace", count=5000)
    power = largest_parameter(lambda r: beta_draw((6, 12), public, r, 1), RenyiDP(2, 0.01), at_most=1)
    private, moved = Adjacency("replace"), beta_draw((6, 12), Adjacency("add-remove"), power, 1)
    one = brute(*posteriors(neighbours(Adjacency("replace", count=1), 2, 1), (6, 12), power, 1))
    assert accountant.renyi(beta_draw((6, 12), public, power, 1), 2) == pytest.approx(0.01, rel=1e-9)
    assert accountant.renyi(beta_draw((6, 12), private, power, 1), 2) == pytest.approx(0.0146, abs=5e-5)
    assert one["order 2"] == pytest.approx(0.0146, abs=5e-5)
    assert accountant.renyi(compose(moved, moved), 2) == pytest.approx(0.0199, abs=5e-5)


# --- broken twins: each must fail the comparison that the draw passes ------------------------------------------------

PUBLIC, PRIVATE = Adjacency("replace", count=100), Adjacency("replace")
UNITS = Adjacency("replace", rows=3, count=100)

TWINS = {
    # [GeumlekSC17, Cor. 2] as printed: the prior and n records, where r n count
    "n instead of r n": (
        PUBLIC,
        0.1,
        1,
        lambda a, b, r, m, pop: draw(betas=((a, b + pop.count, r), (b, a + pop.count, r))),
    ),
    "rows forgotten": (
        UNITS,
        0.5,
        1,
        lambda a, b, r, m, pop: draw(betas=((a, b + r * pop.count, r), (b, a + r * pop.count, r))),
    ),
    # the price of a draw from the whole posterior to the power r
    "prior tempered too": (
        PUBLIC,
        0.5,
        1,
        lambda a, b, r, m, pop: draw(betas=((r * a, r * (b + pop.count), r), (r * b, r * (a + pop.count), r))),
    ),
    "prior scale forgotten": (
        PUBLIC,
        1,
        0.5,
        lambda a, b, r, m, pop: draw(betas=((a * m, b * m + pop.count, r), (b * m, a * m + pop.count, r))),
    ),
    "count taken as public": (
        PRIVATE,
        0.5,
        1,
        lambda a, b, r, m, pop: draw(betas=((a, b + r * 100, r), (b, a + r * 100, r))),
    ),
    "one end forgotten": (PUBLIC, 0.5, 1, lambda a, b, r, m, pop: draw(betas=((b, a + r * pop.count, r),))),
    "replace taken as add-remove": (PRIVATE, 0.5, 1, lambda a, b, r, m, pop: draw(gammas=((min(a, b), r),))),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_fails(twin):
    adjacency, power, scale, broken = TWINS[twin]
    found = brute(*posteriors(neighbours(adjacency, 2, 20), (6, 12), power, scale))
    equal(claimed(beta_draw((6, 12), adjacency, power, scale)), found)
    event = broken(6 / scale, 12 / scale, power, scale, adjacency)
    with pytest.raises(AssertionError, match="order"):
        equal(claimed(event), found)
    with pytest.raises(AssertionError, match="epsilon"):
        equal(claimed(event), {key: value for key, value in found.items() if key.startswith("epsilon")})


@pytest.mark.parametrize("twin", ["n instead of r n", "rows forgotten", "count taken as public", "one end forgotten"])
def test_a_broken_twin_promises_too_much(twin):
    adjacency, power, scale, broken = TWINS[twin]
    found = brute(*posteriors(neighbours(adjacency, 2, 20), (6, 12), power, scale))
    with pytest.raises(AssertionError, match="order"):
        dominates(claimed(broken(6 / scale, 12 / scale, power, scale, adjacency)), found)


def test_a_draw_that_tempers_its_prior_too_loses_more_than_it_claims():
    """The diffused posterior keeps the whole prior; with r eta0 in its place the claim no longer holds."""
    found = brute(*posteriors(neighbours(PUBLIC, 2, 100), (0.5 * 6, 0.5 * 12), 0.5, 1))
    with pytest.raises(AssertionError, match="order"):
        dominates(claimed(beta_draw((6, 12), PUBLIC, 0.5, 1)), found)


def test_the_printed_corollary_under_reports_by_a_sixth():
    """[GeumlekSC17, Cor. 2] with n for r n, at r = 0.1, order 2: 17 % below the truth."""
    *_, broken = TWINS["n instead of r n"]
    claim = accountant.renyi(broken(6, 12, 0.1, 1, PUBLIC), 2)
    truth = accountant.renyi(beta_draw((6, 12), PUBLIC, 0.1, 1), 2)
    assert claim == pytest.approx(0.83 * truth, rel=0.01)
