"""Simulation-based calibration of the hidden Markov samplers, tables and transitions included.

Parameters, states and counts are drawn from the model, the sampler is run on the counts, and the truth's rank among the
draws must be uniform. What is ranked does not depend on the names of states: the mean chance to stay, the largest
probability of the first level, the number of changes of state, the log-likelihood. Ties are broken at random.

False alarms: each chi-squared test of uniform ranks rejects at p < 1e-7, and there are four in a test. Draws are
thinned so that they are nearly independent. A sampler that is told three times the alpha or the beta must be rejected;
over many datasets, one and a half times.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from vestry.hmm import blocked_gibbs, collapsed_gibbs

pytestmark = pytest.mark.statistical

REJECT = 1e-7
STATES, ALPHA, BETA, LEVELS = 2, 0.6, 0.9, (2, 3)
REGIONS, MONTHS, PER_CELL = 2, 6, 3


def simulate(rng: np.random.Generator, size: int):
    """Transitions (the last row is the start's), tables, states and counts of many datasets."""
    transitions = rng.dirichlet(np.full(STATES, ALPHA), (size, STATES + 1))
    tables = [rng.dirichlet(np.full(levels, BETA), (size, STATES)) for levels in LEVELS]
    each = np.arange(size)[:, None]
    paths = np.empty((size, REGIONS, MONTHS), int)
    state = np.full((size, REGIONS), STATES)
    for t in range(MONTHS):
        chance = transitions[each, state].cumsum(axis=-1)
        state = (chance < rng.random((size, REGIONS, 1))).sum(axis=-1).clip(max=STATES - 1)
        paths[:, :, t] = state
    counts = [rng.multinomial(PER_CELL, table[each[:, :, None], paths]).astype(float) for table in tables]
    return transitions, tables, paths, counts


def summaries(transitions, tables, paths, counts) -> np.ndarray:
    """Numbers that do not depend on the names of states, for every dataset (the last axis of the leading ones)."""
    stay = np.einsum("...kk->...", transitions[..., :STATES, :]) / STATES
    largest = tables[0][..., 0].max(axis=-1)
    changes = (np.diff(paths, axis=-1) != 0).sum(axis=(-1, -2)).astype(float)
    log = 0.0
    for table, n in zip(tables, counts, strict=True):
        at = np.take_along_axis(table, paths.reshape(*paths.shape[:-2], -1, 1), axis=-2)
        log = log + (np.log(np.maximum(at, 1e-300)) * n.reshape(len(n), -1, n.shape[-1])).sum(axis=(-1, -2))
    return np.stack([stay, largest, changes, log])


def p_values(sampler, size: int, *, alpha: float = ALPHA, beta: float = BETA, thin: int = 12, seed: int = 1):
    rng = np.random.default_rng(seed)
    transitions, tables, paths, counts = simulate(rng, size)
    draws = sampler(counts, states=STATES, alpha=alpha, beta=beta, sweeps=8 * thin + 25, burn_in=25, rng=rng)
    keep = slice(thin - 1, None, thin)  # 8 draws: ranks 0 to 8
    ours = summaries(draws.transitions[keep], [t[keep] for t in draws.emissions], draws.paths[keep], counts)
    truth = summaries(transitions, tables, paths, counts)
    below, equal = (ours < truth[:, None]).sum(axis=1), (ours == truth[:, None]).sum(axis=1)
    ranks = below + rng.integers(equal + 1)  # among its equals the truth has any place
    return [stats.chisquare(np.bincount(rank, minlength=9)).pvalue for rank in ranks]


@pytest.mark.parametrize("sampler", [collapsed_gibbs, blocked_gibbs])
def test_ranks_are_uniform(sampler):
    assert min(p_values(sampler, 500)) > REJECT


@pytest.mark.parametrize("wrong", [{"alpha": 3 * ALPHA}, {"beta": 3 * BETA}])
@pytest.mark.long
def test_a_sampler_of_another_prior_is_rejected(wrong):
    assert min(p_values(collapsed_gibbs, 800, **wrong)) < REJECT


@pytest.mark.parametrize("sampler", [collapsed_gibbs, pytest.param(blocked_gibbs, marks=pytest.mark.slow)])
@pytest.mark.long
def test_without_counts_the_prior_comes_back(sampler):
    """Transitions, the start's too, and tables have their Dirichlet laws; concentrations 40 % off are rejected."""
    counts = [np.zeros((4000, REGIONS, MONTHS, levels)) for levels in LEVELS]
    draws = sampler(counts, states=STATES, alpha=ALPHA, beta=BETA, sweeps=12, burn_in=11, rng=np.random.default_rng(3))
    drawn = {
        "start": (draws.transitions[0, :, -1, 0], ALPHA, ALPHA * (STATES - 1)),
        "stay": (draws.transitions[0, :, 1, 1], ALPHA, ALPHA * (STATES - 1)),
        "level": (draws.emissions[1][0, :, 0, 2], BETA, BETA * (LEVELS[1] - 1)),
    }
    for sample, a, b in drawn.values():
        assert stats.kstest(sample, stats.beta(a, b).cdf).pvalue > REJECT
        assert stats.kstest(sample, stats.beta(1.4 * a, 1.4 * b).cdf).pvalue < REJECT


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [collapsed_gibbs, blocked_gibbs])
def test_ranks_are_uniform_over_many_datasets(sampler):
    assert min(p_values(sampler, 8000, thin=25, seed=2)) > REJECT


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [{"alpha": 1.5 * ALPHA}, {"beta": 1.5 * BETA}])
def test_a_sampler_of_a_slightly_other_prior_is_rejected(wrong):
    assert min(p_values(blocked_gibbs, 8000, thin=25, seed=2, **wrong)) < REJECT
