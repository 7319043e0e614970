"""The states of a hidden Markov model against the enumeration of every path.

The oracle sums over all paths, with transitions and tables integrated out by hand, and shares no code with the
samplers. States have no names, so paths are compared up to renaming: by which cells are in the same state. That law
holds every marginal and pair marginal that the model determines.

False alarms: a chi-squared test of the last draws of independent chains rejects at p < 1e-8. The generator is seeded.
The same test must reject a sampler without the indicator terms, one that keeps the second factor at the last month, and
the denominators that the paper prints.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from vestry.hmm import blocked_gibbs, collapsed_gibbs, held_out_log_likelihood

pytestmark = pytest.mark.oracle

REJECT = 1e-8
CHAINS, SWEEPS = 5_000, 20

# name: (states, alpha, beta, a table (regions, months, levels) for each feature, held-out cells)
MODELS = {
    "two states": (2, 0.4, 0.8, [[[[1, 0], [0, 1], [0, 1], [2, 0]], [[0, 1], [1, 0], [1, 1], [0, 2]]]], []),
    "six months": (2, 0.25, 1.0, [[[[2, 0], [0, 1], [1, 0], [0, 0], [0, 2], [1, 0]]]], []),
    "three states, two features, a missing month": (
        3,
        0.3,
        0.7,
        [
            [[[2, 0], [0, 0], [0, 1]], [[0, 1], [1, 0], [0, 1]]],
            [[[1, 0, 1], [0, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1], [2, 0, 0]]],
        ],
        [],
    ),
    "noisy counts, a cell held out": (
        2,
        1.0,
        0.5,
        [[[[1.7, -0.8], [0.2, 1.4], [0.0, 2.6], [1.1, 0.3]], [[-2.0, 0.9], [1.3, 0.4], [0.6, 0.0], [2.2, 0.1]]]],
        [(0, 2), (1, 0)],
    ),
}


def counts_of(name: str) -> list[np.ndarray]:
    return [np.array(table, float) for table in MODELS[name][3]]


def mask_of(name: str) -> np.ndarray:
    mask = np.zeros(counts_of(name)[0].shape[:2], bool)
    for cell in MODELS[name][4]:
        mask[cell] = True
    return mask


def log_dirichlet_integral(n: np.ndarray, concentration: float) -> float:
    """Log of the integral of prod theta_j^n_j over Dirichlet(concentration)."""
    m = len(n)
    return float(
        gammaln(m * concentration)
        - gammaln(m * concentration + n.sum())
        + (gammaln(n + concentration) - gammaln(concentration)).sum()
    )


def same_states(path) -> tuple[int, ...]:
    """Rename states by first appearance."""
    names: dict[int, int] = {}
    return tuple(names.setdefault(int(k), len(names)) for k in path)


@cache
def exact_law(name: str) -> dict[tuple[int, ...], float]:
    """The posterior of every path up to renaming, by enumeration."""
    states, alpha, beta, _, _ = MODELS[name]
    tables, mask = counts_of(name), mask_of(name)
    regions, months = mask.shape
    logs: dict[tuple[int, ...], list[float]] = {}
    for path in itertools.product(range(states), repeat=regions * months):
        z = np.array(path).reshape(regions, months)
        moves = np.zeros((states + 1, states))
        for region in z:
            for a, b in itertools.pairwise([states, *region]):
                moves[a, b] += 1
        log = sum(log_dirichlet_integral(row, alpha) for row in moves)
        for table in tables:
            clean = np.where(mask[:, :, None], 0.0, np.maximum(table, 0.0))
            log += sum(log_dirichlet_integral(clean[z == k].sum(axis=0), beta) for k in range(states))
        logs.setdefault(same_states(path), []).append(log)
    top = max(max(each) for each in logs.values())
    mass = {path: float(np.exp(np.array(each) - top).sum()) for path, each in logs.items()}
    return {path: value / sum(mass.values()) for path, value in mass.items()}


def fit(name: str, paths: np.ndarray) -> float:
    """The p-value of independent final paths, (chains, cells)."""
    law = exact_law(name)
    seen: dict[tuple[int, ...], int] = dict.fromkeys(law, 0)
    for path, times in zip(*np.unique(paths, axis=0, return_counts=True), strict=True):
        seen[same_states(path)] += int(times)
    order = sorted(law, key=lambda path: -law[path])
    expected = np.array([law[path] for path in order]) * len(paths)
    observed = np.array([seen[path] for path in order])
    rich = int((expected >= 20).sum())  # the rest join the last of these
    starts = np.arange(rich)
    return float(stats.chisquare(np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)).pvalue)


@cache
def last_paths(sampler, name: str) -> np.ndarray:
    states, alpha, beta, _, _ = MODELS[name]
    draws = sampler(
        counts_of(name),
        states=states,
        alpha=alpha,
        beta=beta,
        sweeps=SWEEPS,
        burn_in=SWEEPS - 1,
        chains=CHAINS,
        held_out=mask_of(name),
        rng=np.random.default_rng(5),
    )
    return draws.paths[-1].reshape(CHAINS, -1)


QUICK = {(collapsed_gibbs, name) for name in list(MODELS)[2:]} | {(blocked_gibbs, list(MODELS)[2])}


@pytest.mark.long
@pytest.mark.parametrize(
    ("sampler", "name"),
    [
        pytest.param(sampler, name, marks=[] if (sampler, name) in QUICK else pytest.mark.slow)
        for sampler in (collapsed_gibbs, blocked_gibbs)
        for name in MODELS
    ],
)
def test_paths_have_their_exact_law(sampler, name):
    assert fit(name, last_paths(sampler, name)) > REJECT


@pytest.mark.long
@pytest.mark.parametrize("sampler", [collapsed_gibbs, blocked_gibbs])
def test_pair_marginals(sampler):
    """Each pair of cells is in the same state as often as it should be, within 6 standard errors."""
    name = "three states, two features, a missing month"
    paths, law = last_paths(sampler, name), exact_law(name)
    for i, j in itertools.combinations(range(paths.shape[1]), 2):
        together = sum(mass for path, mass in law.items() if path[i] == path[j])
        error = np.sqrt(together * (1 - together) / CHAINS)
        assert abs((paths[:, i] == paths[:, j]).mean() - together) < 6 * error


# --- a plain implementation, right or broken --------------------------------------------------------------------------


def plain(name: str, fault: str | None, seed: int = 7) -> np.ndarray:
    """Collapsed Gibbs in NumPy, all chains at once, its counts made anew at every position."""
    states, alpha, beta, _, _ = MODELS[name]
    rng, mask = np.random.default_rng(seed), mask_of(name)
    tables = [np.where(mask[:, :, None], 0.0, np.maximum(table, 0.0)) for table in counts_of(name)]
    regions, months = mask.shape
    z = rng.integers(states, size=(CHAINS, regions, months))
    one = np.eye(states + 1)
    for _ in range(SWEEPS):
        logs = np.zeros((CHAINS, regions, months, states))
        for table in tables:
            n = np.einsum("crtk,rtj->ckj", one[z][..., :states], table)
            theta = rng.standard_gamma(n + beta)
            logs += np.einsum("rtj,ckj->crtk", table, np.log(theta / theta.sum(axis=-1, keepdims=True)))
        for r, t in itertools.product(range(regions), range(months)):
            z[:, r, t] = drawn(rng, conditional(z, r, t, logs[:, r, t], states, alpha, fault))
    return z.reshape(CHAINS, -1)


def conditional(z, r, t, logs, states, alpha, fault):
    chains, _, months = z.shape
    start, one = np.full((chains, 1), states), np.eye(states + 1)
    n = np.zeros((chains, states + 1, states))
    for region in range(z.shape[1]):
        walk = np.concatenate([start, z[:, region]], axis=1)
        for step in range(months):  # the move from month `step` - 1 to month `step`
            if not (region == r and step in (t, t + 1)):
                n += one[walk[:, step]][:, :, None] * one[walk[:, step + 1]][:, None, :states]
    each, k = np.arange(chains), np.arange(states)
    a = z[:, r, t - 1] if t else start[:, 0]
    factor = n[each, a] + alpha
    if t + 1 < months or fault == "last factor kept":
        last = t + 1 == months
        b = z[:, r, t] if last else z[:, r, t + 1]
        both, same = (a[:, None] == k) & (k == b[:, None]), a[:, None] == k
        if fault == "no indicators":
            both, same = np.zeros_like(both), np.zeros_like(same)
        if not last:
            factor = factor * (n[each, :states, b] + both + alpha)
        if fault == "as printed":  # one denominator for every k: as if there were none
            return factor * np.exp(logs)
        factor = factor / (n[:, :states].sum(axis=-1) + same + states * alpha)
    return factor * np.exp(logs)


def drawn(rng, chances):
    ladder = chances.cumsum(axis=-1)
    return (ladder < rng.random(len(ladder))[:, None] * ladder[:, -1:]).sum(axis=-1)


PLAIN = [pytest.param("two states", marks=pytest.mark.slow), "six months"]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.long
def test_the_plain_implementation_passes_the_same_test(name):
    assert fit(name, plain(name, None)) > REJECT


@pytest.mark.parametrize("fault", ["no indicators", "last factor kept", "as printed"])
@pytest.mark.parametrize("name", PLAIN)
def test_a_broken_update_is_rejected(name, fault):
    assert fit(name, plain(name, fault)) < REJECT


# --- held-out cells ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("sampler", [collapsed_gibbs, pytest.param(blocked_gibbs, marks=pytest.mark.slow)])
def test_held_out_likelihood_against_enumeration(sampler):
    """p(held-out counts | the rest) is a ratio of two sums over paths; the estimate is within 6 standard errors."""
    states, alpha, beta, tables, _ = MODELS["two states"]
    counts = [np.array(table, float) for table in tables]
    mask = np.zeros(counts[0].shape[:2], bool)
    mask[0, 1] = True
    full, rest = (log_evidence(states, alpha, beta, counts, m) for m in (np.zeros_like(mask), mask))
    chains = 5000
    draws = sampler(
        counts, states=states, alpha=alpha, beta=beta, sweeps=40, burn_in=39, chains=chains, held_out=mask,
        rng=np.random.default_rng(8),
    )  # fmt: skip
    each = np.exp(held_out_log_likelihood(draws, counts, mask)[:, 0, 1])
    assert abs(each.mean() - np.exp(full - rest)) < 6 * each.std() / np.sqrt(chains)
    assert abs(each.mean() - np.exp(full - rest)) < 0.03 * each.mean()


def log_evidence(states, alpha, beta, counts, mask) -> float:
    regions, months = mask.shape
    logs = []
    for path in itertools.product(range(states), repeat=regions * months):
        z = np.array(path).reshape(regions, months)
        moves = np.zeros((states + 1, states))
        for region in z:
            for a, b in itertools.pairwise([states, *region]):
                moves[a, b] += 1
        log = sum(log_dirichlet_integral(row, alpha) for row in moves)
        for table in counts:
            clean = np.where(mask[:, :, None], 0.0, table)
            log += sum(log_dirichlet_integral(clean[z == k].sum(axis=0), beta) for k in range(states))
        logs.append(log)
    return float(np.logaddexp.reduce(logs))
