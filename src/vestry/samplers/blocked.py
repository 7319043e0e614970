"""Gibbs over whole state paths of a hidden Markov model: forward filtering, backward sampling, transitions drawn.

Given the transition matrix the regions are independent, so all move at once and only months are walked one by one.
Each region's path is drawn as a block: f_t(k) ~ w_t(k) sum_a f_(t-1)(a) A[a,k] forward, then
p(z_t = k | z_(t+1)) ~ f_t(k) A[k, z_(t+1)] backward. Faster than the collapsed sweep, and it
mixes better within a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from vestry.samplers.collapsed import likelihoods, sum_levels
from vestry.samplers.compiled import compiled, held
from vestry.samplers.state_model import StateDraws, chain, layout, prior, transition_counts

Array = np.ndarray


def blocked_gibbs(
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
    """Draw states, emission tables and transitions, a region's whole path at a time; see `collapsed_gibbs`."""
    data = layout(counts, held_out=held_out, chains=chains, temperature=temperature)
    model = prior(states, alpha, beta, data.levels, truncation)

    counted, seen = held(data.counts), held(data.seen)

    def sweep(tables: Array, transitions: Array, uniforms: Array, paths: Array, moves: Array) -> Any:
        drawn, levels = blocked_sweep(tables, transitions, uniforms, counted, seen, months=data.months)
        return drawn, transition_counts(np.asarray(drawn), data, model.states), levels

    return chain(sweep, data, model, sweeps=sweeps, burn_in=burn_in, rng=rng)


@compiled(static=("months",))
def blocked_sweep(tables: Any, transitions: Any, uniforms: Any, counts: Any, seen: Any, *, months: int) -> Any:
    """Draw every region's path given tables and transitions: (cells, batch) states, and the level counts."""
    states, cells = tables.shape[1], seen.shape[1]
    weights = likelihoods(tables, counts, seen).reshape(cells // months, months, -1, states)
    weights = weights.transpose(1, 2, 0, 3)  # (months, batch, regions, states)
    places = uniforms.reshape(cells // months, months, -1).transpose(1, 2, 0)
    start, between = transitions[:, -1], transitions[:, :-1]

    def forward(filtered: Any, weight: Any) -> Any:
        joint = (filtered @ between) * weight + _TINY
        filtered = joint / joint.sum(axis=-1, keepdims=True)
        return filtered, filtered

    first = start[:, None, :] * weights[0] + _TINY
    first = first / first.sum(axis=-1, keepdims=True)
    _, later = lax.scan(forward, first, weights[1:])
    filtered = jnp.concatenate([first[None], later])

    def backward(after: Any, place: Any) -> Any:
        chances, uniform = place
        state = _drawn(chances * _onto(between, after), uniform)
        return state, state

    end = _drawn(filtered[-1], places[-1])
    _, before = lax.scan(backward, end, (filtered[:-1], places[:-1]), reverse=True)
    paths = jnp.concatenate([before, end[None]]).transpose(2, 0, 1).reshape(cells, -1)
    return paths, sum_levels(paths, counts, seen, states)


_TINY = 1e-300  # a path of which every step is at all possible always has some weight left


def _onto(between: Any, after: Any) -> Any:
    """Return A[k, after], (batch, regions, states)."""
    return jnp.take_along_axis(between[:, None], after[:, :, None, None], axis=-1)[..., 0]


def _drawn(chances: Any, uniform: Any) -> Any:
    ladder = jnp.cumsum(chances, axis=-1)
    return jnp.minimum((ladder < uniform[..., None] * ladder[..., -1:]).sum(axis=-1), chances.shape[-1] - 1).astype(
        jnp.int32
    )
