"""Gibbs samplers of a hidden Markov model: one cell after the other, or a region's whole path at a time.

Collapsed, the transition matrix integrated out: with transition counts without position t, a the state before it
and b the state after it,

    p(z_t = k) ~ (n[a,k] + alpha) (n[k,b] + [a = k = b] + alpha) / (n[k,.] + [a = k] + K alpha)
                 prod_(d,j) theta_j^(k,d) ^ n[r,t,d,j],

and the last position has no second factor, denominator included. [FouldsGWC16, eq. 48] prints other denominators,
which are wrong: enumeration of all paths decides.

Blocked: given the transition matrix the regions are independent. Each region's path is drawn as a block: f_t(k) ~
w_t(k) sum_a f_(t-1)(a) A[a,k] forward, then p(z_t = k | z_(t+1)) ~ f_t(k) A[k, z_(t+1)] backward. A sweep takes a
little longer than the collapsed one, and mixes better within a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vestry.hmm.state_model import StateDraws, chain, layout, prior

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
    blocked: bool = False,
) -> StateDraws:
    """Draw states, emission tables and transitions by collapsed Gibbs sweeps in order of region and month.

    Parameters
    ----------
    counts
        For each feature (regions, months, levels), or with a leading axis over splits; real and noisy counts serve.
    states, alpha, beta
        The number of states, and the concentrations of transition rows and emission tables.
    sweeps, burn_in
        How many sweeps to make, and how many of the first to drop.
    rng
        An ordinary generator.
    chains
        How many chains to run at a time on the same counts.
    held_out
        Cells to omit, (regions, months), or one mask per split.
    temperature
        The likelihood is raised to the power 1/temperature; the prior is not.
    truncation
        For each feature the least probability of a level; none if omitted.
    blocked
        Whether paths are drawn as blocks: see `blocked_gibbs`.
    """
    data = layout(counts, held_out=held_out, chains=chains, temperature=temperature)
    model = prior(states, alpha, beta, data.levels, truncation)
    return chain(data, model, blocked=blocked, sweeps=sweeps, burn_in=burn_in, rng=rng)


def blocked_gibbs(counts: Sequence[Array], **options: Any) -> StateDraws:
    """Draw as `collapsed_gibbs` does, a region's whole path at a time; the options are the same."""
    return collapsed_gibbs(counts, **options, blocked=True)
