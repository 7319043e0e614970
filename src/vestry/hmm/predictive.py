"""How well draws of a hidden Markov model predict cells that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from vestry.hmm.state_model import StateDraws

Array = np.ndarray


def held_out_log_likelihood(draws: StateDraws, counts: Sequence[Array], held_out: Array) -> Array:
    """Return the log predictive probability of each held-out cell, (batch, regions, months); 0 elsewhere.

    For a cell with neighbours a and b in a draw, the likelihood is sum_k p_k prod_(d,j) theta_j^(k,d) ^ n, p_k ~ A[a,k]
    A[k,b]; it is averaged over the draws, then its logarithm is taken. The multinomial coefficient, which no model
    changes, is omitted. Sum over cells for a split's score. The counts are what is to be predicted: true ones, where
    the draws rest on noisy ones.
    """
    sweeps, batch, regions, months = draws.paths.shape
    wanted = np.broadcast_to(np.asarray(held_out, bool), (batch, regions, months))
    b, r, t = np.nonzero(wanted)
    logs = np.stack([_one(draws, s, counts, b, r, t) for s in range(sweeps)])
    result = np.zeros(wanted.shape)
    result[b, r, t] = logsumexp(logs, axis=0) - np.log(sweeps)
    return result


def _one(draws: StateDraws, s: int, counts: Sequence[Array], b: Array, r: Array, t: Array) -> Array:
    paths, transitions = draws.paths[s], draws.transitions[s]
    months, states = paths.shape[-1], transitions.shape[-1]
    before = np.where(t > 0, paths[b, r, t - 1], states)
    with np.errstate(divide="ignore"):
        steps = np.log(transitions)
        chance = steps[b, before]
        onward = steps[b, :states, paths[b, r, (t + 1) % months]]
        chance = chance + np.where((t + 1 < months)[:, None], onward, 0.0)
        chance = chance - logsumexp(chance, axis=1, keepdims=True)
        for table, shares in zip(counts, draws.emissions, strict=True):
            n = np.broadcast_to(table, (len(paths), *np.shape(table)[-3:]))[b, r, t]
            # A level that was not seen adds nothing, even where its probability is 0.
            logs = np.log(shares[s])[b]
            chance = chance + np.where(n[:, None, :] > 0, n[:, None, :] * logs, 0.0).sum(axis=-1)
    result: Array = logsumexp(chance, axis=1)
    return result
