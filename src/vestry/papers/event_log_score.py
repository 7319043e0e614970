"""Scores of held-out cells by every method of the case study, and what a chain of updates costs.

Laplace noise of scale 2 F/epsilon on every count; or a likelihood at temperature 2 D/epsilon with tables truncated at
1/(M K_d); or that chain at the temperature where all its updates together cost (epsilon, 1e-6). See `foulds_hmm`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from vestry.papers.event_log import EventLog
from vestry.papers.experiment import Numbers
from vestry.papers.noisy_count import discrete_noise
from vestry.posterior.discrete_noise import Laplace
from vestry.privacy import accountant
from vestry.privacy.event import Event, compose
from vestry.privacy.mcmc_cost import Collapsed, categorical_span, gibbs_update, owned_scan, temperature_for

Array = np.ndarray

DELTA = 1e-6
STATES, MULTIPLIERS = 10, (10, 100)
METHODS = ("not private", "Laplace", "OPS, M = 10", "OPS, M = 100", "OPS, M = 10, paid by update")


# --- naive Bayes ------------------------------------------------------------------------------------------------------


def naive_bayes_scores(
    log: EventLog, masks: Array, rng: np.random.Generator, method: str, epsilon: float, sweeps: int
) -> Array:
    """Return each split's score of one-state tables, from counts of the whole training set."""
    from vestry.mcmc import truncated_dirichlet

    splits = len(masks)
    ops = _multiplier(method)
    draws = 1 if ops else sweeps // 2
    logs = np.zeros((draws, splits, *log.entries.shape))
    for n, levels in zip(log.counts, log.levels, strict=True):
        total = np.einsum("srt,rtv->sv", ~masks, n)
        if ops:
            hot = temperature_for(_span(log.levels, ops), epsilon=epsilon, neighbours="replace")
            tables = truncated_dirichlet(rng, 1 + total / hot, low=1 / (ops * levels))[None]
        else:
            if method == "Laplace":
                total = np.maximum(total + _noise(rng, log, epsilon, total.shape), 0)
            gammas = rng.standard_gamma(1 + total, (draws, *total.shape))
            tables = gammas / gammas.sum(axis=-1, keepdims=True)
        logs += np.einsum("rtv,dsv->dsrt", n, np.log(np.maximum(tables, 1e-300)))
    cells = logsumexp(logs, axis=0) - np.log(draws)
    return _per_entry(cells * masks, log, masks)


# --- the hidden Markov model ------------------------------------------------------------------------------------------


def hidden_markov_scores(
    log: EventLog, masks: Array, rng: np.random.Generator, method: str, epsilon: float, sweeps: int
) -> Array:
    """Return each split's score of a model of ten states."""
    from vestry.hmm import held_out_log_likelihood

    burn_in = sweeps - 1 if _multiplier(method) and "paid" not in method else sweeps // 2
    draws = fit(log, rng, method, epsilon, STATES, sweeps, burn_in, masks)
    return _per_entry(held_out_log_likelihood(draws, log.counts, masks), log, masks)


def fit(
    log: EventLog, rng: np.random.Generator, method: str, epsilon: float, states: int, sweeps: int, burn_in: int,
    masks: Array,
) -> Any:  # fmt: skip
    """Draw states and tables: from true counts, from noisy ones, or tempered and truncated."""
    from vestry.hmm import collapsed_gibbs

    sample = partial(collapsed_gibbs, states=states, sweeps=sweeps, burn_in=burn_in, rng=rng, held_out=masks)
    if method == "Laplace":
        shapes = [(len(masks), *n.shape) for n in log.counts]
        return sample([n + _noise(rng, log, epsilon, shape) for n, shape in zip(log.counts, shapes, strict=True)])
    ops = _multiplier(method)
    if not ops:
        return sample(log.counts)
    if "paid" in method:
        epsilon = update_epsilon(log.levels, ops, epsilon, sweeps)
    hot = temperature_for(_span(log.levels, ops), epsilon=epsilon, neighbours="replace")
    return sample(log.counts, temperature=hot, truncation=[1 / (ops * levels) for levels in log.levels])


def _noise(rng: np.random.Generator, log: EventLog, epsilon: float, shape: tuple[int, ...]) -> Array:
    scale = 2 * len(log.counts) / epsilon
    return discrete_noise(rng, Laplace(scale), int(np.prod(shape))).reshape(shape)


def _multiplier(method: str) -> int:
    """Return the M of an OPS method, 0 for the others."""
    return next((m for m in reversed(MULTIPLIERS) if f"M = {m}" in method), 0)


def _span(levels: tuple[int, ...], multiplier: int) -> float:
    return categorical_span(levels, [1 / (multiplier * k) for k in levels])


def _per_entry(cells: Array, log: EventLog, masks: Array) -> Array:
    return np.asarray(cells.sum(axis=(1, 2)) / (log.entries * masks).sum(axis=(1, 2)))


# --- what the chain costs ---------------------------------------------------------------------------------------------


def chain(levels: tuple[int, ...], multiplier: int, epsilon: float, sweeps: int) -> Event:
    """Record all updates of a chain, each of them of epsilon: the states in parallel, then the tables as one block."""
    span = _span(levels, multiplier)
    hot = temperature_for(span, epsilon=epsilon, neighbours="replace")
    update = gibbs_update(span, temperature=hot, neighbours="replace")
    return compose(owned_scan(update, collapsed=Collapsed.LATENT_PRIOR), update).times(sweeps)


def chain_cost(levels: tuple[int, ...], multiplier: int, epsilon: float, sweeps: int) -> Numbers:
    """Set what the converged chain is said to cost beside what its updates cost."""
    updates = chain(levels, multiplier, epsilon, sweeps)
    return {
        "claimed_if_converged": epsilon,
        "added_up": float(accountant.pure(updates)),
        "by_bounded_range": accountant.epsilon(updates, DELTA),
    }


def update_epsilon(levels: tuple[int, ...], multiplier: int, epsilon: float, sweeps: int) -> float:
    """Return what one update may cost if all together cost (epsilon, 1e-6)."""

    def excess(log_each: float) -> float:
        return accountant.epsilon(chain(levels, multiplier, float(np.exp(log_each)), sweeps), DELTA) - epsilon

    return 0.999 * float(np.exp(brentq(excess, np.log(epsilon / (4 * sweeps)), np.log(epsilon), xtol=1e-4)))
