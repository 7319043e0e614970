"""States from noisy counts, the noise summed out, against the enumeration of states and counts.

The oracles multiply probability functions of SciPy and closed forms over every path and every table of true counts in a
window, and share no code with the sampler. Given all parameters, the posterior of states must agree to 1e-10. With
tables, transitions and rates unknown, the last draws of independent chains are compared: which cells share a state, and
the mean rate, each within 6 standard errors (2e-9).

The same comparisons must reject the sampler that takes noisy counts for exact, and the one whose rates have exposure 1
instead of the number of features.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from rounded_law import rounded_log_mass
from scipy import stats
from scipy.special import gammaln
from share import examples

from vestry.hmm import blocked_gibbs, latent_counts
from vestry.hmm import latent_counts_kernels as kernels
from vestry.hmm.latent_counts import NoisyCells, RatePrior
from vestry.hmm.latent_counts import noise_aware_gibbs as sampler
from vestry.hmm.state_model import StatePrior
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian

pytestmark = pytest.mark.oracle


def log_noise(noise, k):
    """The published log probability of noise k, but for its constant."""
    k = np.asarray(k, float)
    if isinstance(noise, RoundedGaussian):
        return rounded_log_mass(noise.scale, k)
    return -np.abs(k) / noise.scale if isinstance(noise, Laplace) else -(k**2) / (2 * noise.scale**2)


# --- all parameters known ---------------------------------------------------------------------------------------------

TABLE = np.array([[0.7, 0.3], [0.2, 0.8]])
MOVES = np.array([[0.85, 0.15], [0.3, 0.7], [0.6, 0.4]])
RATES = np.array([1.3, 0.6, 2.1])


def state_probabilities(counts, *, noise, tables, transitions, rates, totals=None, sizes=None):
    """The posterior of each cell's state given all parameters, (regions, months, states), by the kernel's likelihoods.

    Tables are (states, levels) for each feature, transitions (states + 1, states) with the start last, rates (regions,
    months), and beside noisy totals the true ones, `sizes`. Forward filtering and backward smoothing.
    """
    cells = latent_counts.noisy_cells(counts, noise=noise, totals=totals, held_out=None, chains=1)
    states, rng = transitions.shape[1], np.random.default_rng(0)
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate(tables, axis=-1))
    prior = StatePrior(states, 1.0, 1.0)
    one = latent_counts._member(cells, prior, latent_counts.FLAT, 0, rng, burn_in=0, length=1)
    one.sizes[:] = 0.0 if sizes is None else np.ravel(sizes)
    kernels.likelihoods(one, logs, np.ravel(np.asarray(rates, float)), one.weights)
    weights = np.exp(one.weights).reshape(cells.data.regions, cells.data.months, states)
    return np.stack([smoothed(region, np.asarray(transitions, float)) for region in weights])


def smoothed(weights, transitions):
    moves, months = transitions[:-1], len(weights)
    forward, result = np.empty_like(weights), np.empty_like(weights)
    for t in range(months):
        forward[t] = weights[t] * (transitions[-1] if t == 0 else forward[t - 1] @ moves)
        forward[t] /= forward[t].sum()
    result[-1] = forward[-1]
    for t in range(months - 2, -1, -1):
        ahead = forward[t] @ moves
        onward = np.divide(result[t + 1], ahead, out=np.zeros_like(ahead), where=ahead > 0)
        result[t] = forward[t] * (moves @ onward)
    return result


@pytest.mark.parametrize("noise", [Laplace(0.21), DiscreteGaussian(0.35), RoundedGaussian(0.25)])
def test_states_against_every_path_and_every_count(noise):
    """K = 2, two levels, T = 3, counts 0 to 6: 8 paths x 7^6 tables. What lies beyond 6 has weight below 1e-11."""
    z, window = np.array([[1, 0], [-1, 1], [0, 2]]), np.arange(7)
    mass = np.zeros((3, 2))
    for path in itertools.product(range(2), repeat=3):
        chance = MOVES[2, path[0]] * MOVES[path[0], path[1]] * MOVES[path[1], path[2]]
        joint = np.array(chance)
        for t, level in itertools.product(range(3), range(2)):
            prior = stats.poisson.pmf(window, RATES[t] * TABLE[path[t], level])
            joint = np.multiply.outer(joint, prior * np.exp(log_noise(noise, z[t, level] - window)))
        for t in range(3):
            mass[t, path[t]] += joint.sum()
    found = state_probabilities([z[None]], noise=noise, tables=[TABLE], transitions=MOVES, rates=RATES[None])
    assert found[0] == pytest.approx(mass / mass.sum(axis=1, keepdims=True), abs=1e-10)


NOISES = [
    Laplace(0.02),
    Laplace(1.7),
    Laplace(40.0),
    DiscreteGaussian(0.05),
    DiscreteGaussian(2.3),
    DiscreteGaussian(60.0),
    RoundedGaussian(0.1),
    RoundedGaussian(1.2),
    RoundedGaussian(60.0),
]


def log_likelihood(z, noise, prior) -> float:
    """Sum over every count that could matter."""
    n = np.arange(max(z, 0) + 3000)
    return float(np.logaddexp.reduce(prior.logpmf(n) + log_noise(noise, z - n)))


@pytest.mark.parametrize("noise", NOISES)
def test_one_cell_against_wide_sums(noise):
    """Counts of any size, far below 0 and far from their mean, of features with and without a total: log odds to 1e-9.

    An odd of e^500 is 0 in doubles; odds beyond e^30 are not compared, for they leave no digits of the smaller one.
    """
    rng, compared = np.random.default_rng(11), 0
    for _ in range(examples(100)):
        rate, size = float(np.exp(rng.uniform(-3, 6.5))), int(rng.integers(1, 600))
        near = rng.random() < 0.7
        tables = [rng.dirichlet(np.full(3, 20.0), 2), rng.dirichlet(np.full(2, 20.0), 2)]
        blur = 2 * noise.scale
        z = [np.rint(rate * tables[0][0] * near + rng.normal(0, blur, 3)), np.rint([size * near * tables[1][0, 0]])]
        logs = [
            sum(log_likelihood(z[0][v], noise, stats.poisson(rate * tables[0][k, v])) for v in range(3))
            + log_likelihood(z[1][0], noise, stats.binom(size, tables[1][k, 0]))
            for k in range(2)
        ]
        found = state_probabilities(
            [each[None, None] for each in z], noise=noise, tables=tables, transitions=np.full((3, 2), 0.5),
            rates=np.array([[rate]]), totals=np.zeros((1, 1)), sizes=np.array([[float(size)]]),
        )[0, 0]  # fmt: skip
        wanted = logs[0] - logs[1]
        if abs(wanted) < 30:
            compared += 1
            assert np.log(found[0] / found[1]) == pytest.approx(wanted, abs=1e-9)
        else:
            assert found[0 if wanted > 0 else 1] > 1 - 1e-12
    assert compared > examples(100) / 4


def test_a_level_that_cannot_occur():
    """Probability 0 on either level: its count is 0, or all of the total."""
    for p in (0.0, 1.0):
        tables = [np.array([[p, 1 - p], [0.5, 0.5]])]
        n = np.arange(6)
        for noise in (Laplace(1.5), DiscreteGaussian(1.5), RoundedGaussian(0.9)):
            full = [np.exp(log_noise(noise, 3 - 5 * p)), stats.binom.pmf(n, 5, 0.5) @ np.exp(log_noise(noise, 3 - n))]
            found = state_probabilities(
                [np.full((1, 1, 1), 3.0)], noise=noise, tables=tables, transitions=np.full((3, 2), 0.5),
                rates=np.ones((1, 1)), totals=np.zeros((1, 1)), sizes=np.full((1, 1), 5.0),
            )  # fmt: skip
            assert found[0, 0, 0] == pytest.approx(full[0] / sum(full), abs=1e-10)


# --- nothing known but the noise --------------------------------------------------------------------------------------

CHAINS, SWEEPS = 4000, 25
# name: (alpha, beta, rate prior, noise, noisy counts by feature (regions, months, columns), totals)
MODELS = {
    "one feature": (0.4, 0.8, (2.0, 0.7), Laplace(0.8), [[[[2, 0], [-1, 2], [1, 0]]]], None),
    "two features": (0.5, 0.6, (2.0, 0.5), Laplace(0.5), [[[[1, 0], [0, 2]]], [[[1, -1], [0, 1]]]], None),
    "Gaussian noise": (0.5, 0.6, (1.0, 0.0), DiscreteGaussian(0.8), [[[[2, 0], [-1, 1]]], [[[1, 0], [0, 1]]]], None),
    "a total": (0.4, 0.7, (1.5, 0.4), Laplace(0.7), [[[[2], [0], [0]]]], [[2, 2, 1]]),
    "a total and another feature": (
        0.5,
        0.6,
        (1.0, 0.2),
        DiscreteGaussian(0.7),
        [[[[0], [2]]], [[[2], [-1]]]],
        [[2, 2]],
    ),
}
WINDOW = dict.fromkeys(MODELS, 5) | {"one feature": 6, "a total": 6}


def log_dirichlet_integral(n, concentration):
    """Log of the integral of prod theta^n over a Dirichlet; n has the levels on its last axis."""
    m = n.shape[-1]
    return (
        gammaln(m * concentration)
        - gammaln(m * concentration + n.sum(axis=-1))
        + (gammaln(n + concentration) - gammaln(concentration)).sum(axis=-1)
    )


def cell_tables(name, t):
    """Every table of one cell: its log weight with the rate integrated out, its counts, its mean rate."""
    _, _, (shape, rate), noise, tables, totals = MODELS[name]
    observed = ([totals[0][t]] if totals else []) + [z for table in tables for z in table[0][t]]
    grid = np.stack(np.meshgrid(*[np.arange(WINDOW[name] + 1)] * len(observed), indexing="ij"), axis=-1)
    grid = grid.reshape(-1, len(observed)).astype(float)
    if totals:
        grid = grid[(grid[:, 1:] <= grid[:, :1]).all(axis=1)]
        counts = [np.stack([grid[:, 1 + f], grid[:, 0] - grid[:, 1 + f]], axis=-1) for f in range(len(tables))]
        own, exposure = grid[:, 0], 1
        log = -gammaln(own + 1)
        for n in counts:
            log = log + gammaln(own + 1) - gammaln(n + 1).sum(axis=-1)
    else:
        ends = np.cumsum([0, *(len(table[0][0]) for table in tables)])
        counts = [grid[:, a:b] for a, b in itertools.pairwise(ends)]
        own, exposure = grid.sum(axis=1), len(tables)
        log = -gammaln(grid + 1).sum(axis=1)
    log = log + log_noise(noise, np.array(observed) - grid).sum(axis=1)
    log = log + gammaln(shape + own) - (shape + own) * np.log(rate + exposure)
    return log, counts, (shape + own) / (rate + exposure)


@cache
def exact(name):
    """The probability that cells share their state, for every pair, and the mean rate of every cell."""
    alpha, beta, _, _, tables, _ = MODELS[name]
    months = len(tables[0][0])
    cells = [cell_tables(name, t) for t in range(months)]
    sizes = [len(log) for log, _, _ in cells]

    def spread(t, values):
        return values.reshape([-1 if axis == t else 1 for axis in range(months)] + list(values.shape[1:]))

    base = sum(spread(t, log) for t, (log, _, _) in enumerate(cells))
    pairs, rates, mass = dict.fromkeys(itertools.combinations(range(months), 2), 0.0), np.zeros(months), 0.0
    for path in itertools.product(range(2), repeat=months):
        moves = np.zeros((3, 2))
        for a, b in itertools.pairwise([2, *path]):
            moves[a, b] += 1
        log = base + log_dirichlet_integral(moves, alpha).sum()
        for f, k in itertools.product(range(len(tables)), range(2)):
            n = sum((spread(t, cells[t][1][f]) for t in range(months) if path[t] == k), np.zeros((1,) * months + (2,)))
            log = log + log_dirichlet_integral(n, beta)
        weight = np.exp(np.broadcast_to(log, sizes) + 20)
        mass += weight.sum()
        for a, b in pairs:
            pairs[a, b] += weight.sum() * (path[a] == path[b])
        for t in range(months):
            rates[t] += (weight * spread(t, cells[t][2])).sum()
    return {pair: each / mass for pair, each in pairs.items()}, rates / mass


@cache
def sampled(name, fault=None):
    alpha, beta, rates, noise, tables, totals = MODELS[name]
    counts = [np.array(table, float) for table in tables]
    given = {"states": 2, "alpha": alpha, "beta": beta, "sweeps": SWEEPS, "burn_in": SWEEPS - 1, "chains": CHAINS}
    rng = np.random.default_rng(5)
    if fault == "noise ignored":
        return blocked_gibbs(counts, rng=rng, **given), None
    whole = None if totals is None else np.array(totals, float)
    draws = sampler(counts, noise=noise, totals=whole, rates=RatePrior(*rates), rng=rng, **given)
    return draws.states, draws.rates


def worst(name, draws, rates) -> float:
    """The largest difference from the enumeration, in standard errors."""
    pairs, means = exact(name)
    paths = draws.paths[-1].reshape(CHAINS, -1)
    far = [
        abs((paths[:, a] == paths[:, b]).mean() - share) / np.sqrt(share * (1 - share) / CHAINS)
        for (a, b), share in pairs.items()
    ]
    if rates is not None:
        each = rates[-1].reshape(CHAINS, -1)
        far += list(np.abs(each.mean(axis=0) - means) / (each.std(axis=0) / np.sqrt(CHAINS)))
    return max(far)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_the_whole_chain_against_every_path_and_every_count(name):
    assert worst(name, *sampled(name)) < 6


@pytest.mark.long
@pytest.mark.parametrize("name", ["one feature", "two features"])
def test_a_sampler_that_ignores_the_noise_is_rejected(name):
    assert worst(name, *sampled(name, "noise ignored")) > 6


@pytest.mark.long
def test_rates_of_another_exposure_are_rejected(monkeypatch):
    monkeypatch.setattr(NoisyCells, "exposure", 1.0)
    assert worst("two features", *sampled.__wrapped__("two features")) > 6


# --- one count --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "z", "noise"), [(8.0, 12, Laplace(4.0)), (8.0, -9, Laplace(4.0)), (300.0, 250, DiscreteGaussian(8.0))]
)
def test_a_count_is_drawn_by_the_inverse_of_its_weights(mean, z, noise):
    """Places at equal steps fall on each count in proportion to Poisson(n; mean) P(z - n), to within two steps."""
    form = NoisyCells(None, None, None, None, noise).form
    prior, steps = kernels.poisson(np.sqrt(mean)), 20_000
    start = kernels.summit(prior, float(z), form)
    total = np.exp(kernels.log_sum(prior, float(z), form) - kernels.log_weight(prior, start, float(z), form))
    places = (np.arange(steps) + 0.5) / steps * total
    found = np.bincount([int(kernels.walk(prior, start, float(z), form, place)[1]) for place in places], minlength=900)
    counts = np.arange(900)
    logs = stats.poisson.logpmf(counts, mean) + log_noise(noise, z - counts)
    exact = np.exp(logs - logs.max())
    assert found == pytest.approx(steps * exact / exact.sum(), abs=2.0)
