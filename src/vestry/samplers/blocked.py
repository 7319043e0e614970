"""Gibbs over whole state paths of a hidden Markov model: forward filtering, backward sampling, transitions drawn.

Given the transition matrix the regions are independent. Each region's path is drawn as a block: f_t(k) ~ w_t(k) sum_a
f_(t-1)(a) A[a,k] forward, then p(z_t = k | z_(t+1)) ~ f_t(k) A[k, z_(t+1)] backward. A sweep takes a little longer than
the collapsed one, and mixes better within a path.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vestry.samplers.state_model import StateDraws, chain, layout, prior

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
    return chain(data, model, blocked=True, sweeps=sweeps, burn_in=burn_in, rng=rng)
