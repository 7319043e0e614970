"""Gibbs over the states of a hidden Markov model, one cell after the other, the transition matrix integrated out.

With transition counts that leave out position t, a the state before it and b the state after it,

    p(z_t = k) ~ (n[a,k] + alpha) (n[k,b] + [a = k = b] + alpha) / (n[k,.] + [a = k] + K alpha)
                 prod_(d,j) theta_j^(k,d) ^ n[r,t,d,j],

and the last position has no second factor, denominator included. [FouldsGWC16, eq. 48] prints other denominators,
which are wrong: enumeration of all paths decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from vestry.samplers.compiled import compiled, held
from vestry.samplers.state_model import StateDraws, chain, layout, prior

Array = np.ndarray


def collapsed_gibbs(
    counts: Sequence[Array],
    *,
    states: int,
    sweeps: int,
    burn_in: int,
    rng: np.random.Generator,
    alpha: float = 1.0,
    beta: float = 1.0,
    chains: int = 1,
    held_out: Array | None = None,
    temperature: float = 1.0,
    truncation: Sequence[float] | None = None,
) -> StateDraws:
    """Draw states, emission tables and transitions by collapsed Gibbs sweeps in order of region and month.

    Parameters
    ----------
    counts
        For each feature (regions, months, levels), or with a leading axis over splits; real and noisy counts serve.
    states, alpha, beta
        The number of states, and the concentrations of transition rows and emission tables.
    sweeps, burn_in
        How many sweeps to make, and how many of the first to leave out.
    rng
        An ordinary generator.
    chains
        How many chains to run at a time on the same counts.
    held_out
        Cells to leave out, (regions, months), or one mask a split.
    temperature
        The likelihood is raised to the power 1/temperature; the prior is not.
    truncation
        For each feature the least probability of a level; none if left out.
    """
    data = layout(counts, held_out=held_out, chains=chains, temperature=temperature)
    model = prior(states, alpha, beta, data.levels, truncation)

    counted, seen = held(data.counts), held(data.seen)

    def sweep(tables: Array, transitions: Array, uniforms: Array, paths: Array, moves: Array) -> Any:
        return collapsed_sweep(tables, moves, uniforms, paths, counted, seen, model.alpha, months=data.months)

    return chain(sweep, data, model, sweeps=sweeps, burn_in=burn_in, rng=rng)


@compiled(static=("months",))
def collapsed_sweep(
    tables: Any, moves: Any, uniforms: Any, paths: Any, counts: Any, seen: Any, alpha: Any, *, months: int
) -> Any:
    """Update every cell once, in order: (cells, batch) paths to new paths, transition counts and level counts."""
    cells, states = paths.shape[0], tables.shape[1]
    weights = likelihoods(tables, counts, seen)
    month = jnp.arange(cells) % months
    after = jnp.roll(paths, -1, axis=0)
    start = (moves, moves[:, :-1].sum(axis=-1), paths[0])
    places = (paths, after, weights, uniforms, month == 0, month == months - 1)
    (moves, _, _), paths = lax.scan(partial(_update, alpha), start, places)
    return paths, moves, sum_levels(paths, counts, seen, states)


def _update(alpha: Any, carry: Any, place: Any) -> Any:
    """Draw one cell's state in every member of the batch; `carry` has the moves and the state before."""
    moves, leaving, before = carry
    old, after, weight, uniform, first, last = place
    batch, states = weight.shape
    each, k = jnp.arange(batch), jnp.arange(states, dtype=jnp.int32)
    before = jnp.where(first, states, before)
    live = jnp.where(last, 0.0, 1.0)  # whether a state follows
    is_old, is_before = (k == old[:, None]) * 1.0, (k == before[:, None]) * 1.0
    is_after = (k == after[:, None]) * live
    # The counts without this position: it made the moves before -> old and, if a state follows, old -> after.
    into = moves[each, before] - is_old - is_after * (before == old)[:, None]
    out = moves[each, :states, after] - (is_old + is_before * (old == after)[:, None]) * live
    total = leaving - is_before - is_old * live
    onward = (out + is_before * is_after + alpha) / (total + is_before + states * alpha)
    chance = jnp.cumsum((into + alpha) * jnp.where(last, 1.0, onward) * weight, axis=-1)
    new = jnp.minimum((chance < uniform[:, None] * chance[:, -1:]).sum(axis=-1), states - 1).astype(jnp.int32)
    ones = jnp.ones(batch)
    moves = moves.at[
        jnp.tile(each, 4),
        jnp.concatenate([before, before, old, new]),
        jnp.concatenate([old, new, after, after]),
    ].add(jnp.concatenate([-ones, ones, -live * ones, live * ones]))
    leaving = leaving + ((k == new[:, None]) - is_old) * live
    return (moves, leaving, new), new


def likelihoods(tables: Any, counts: Any, seen: Any) -> Any:
    """Return each cell's likelihood in each state, the largest made 1, (cells, batch, states); 1 where held out."""
    batch, states, levels = tables.shape
    if counts.shape[0] == 1:  # one product for the whole batch
        logs = (counts[0] @ tables.reshape(-1, levels).T).reshape(-1, batch, states)
    else:
        logs = jnp.einsum("bcv,bkv->cbk", counts, tables)
    logs = logs * seen.T[:, :, None]
    return jnp.exp(logs - logs.max(axis=-1, keepdims=True))


def sum_levels(paths: Any, counts: Any, seen: Any, states: int) -> Any:
    """Sum the training counts of the cells in each state, (batch, states, levels of all features)."""
    members = (paths[:, :, None] == jnp.arange(states)) * seen.T[:, :, None]
    if counts.shape[0] == 1:
        return jnp.einsum("cbk,cv->bkv", members, counts[0])
    return jnp.einsum("cbk,bcv->bkv", members, counts)
