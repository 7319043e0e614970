"""States have no names of their own: put them in an order by what they emit."""

from __future__ import annotations

import numpy as np

from vestry.hmm.state_model import StateDraws

Array = np.ndarray


def relabelled(draws: StateDraws, *, feature: int, level: int) -> StateDraws:
    """Number the states of each draw by decreasing probability of one feature's level.

    The posterior does not change if states are renamed, so chains may name them differently, and one chain may swap
    them. Averages of tables or of states over draws mean something only after this. Equal probabilities keep their
    order.
    """
    order = np.argsort(-draws.emissions[feature][..., level], axis=-1, kind="stable")  # new -> old
    rank = np.argsort(order, axis=-1, kind="stable")  # old -> new
    sweeps, batch = draws.paths.shape[:2]
    flat = np.take_along_axis(rank, draws.paths.reshape(sweeps, batch, -1), axis=-1)
    dummy = np.full((*order.shape[:-1], 1), order.shape[-1])
    rows = np.concatenate([order, dummy], axis=-1)
    transitions = np.take_along_axis(draws.transitions, rows[..., None], axis=-2)
    return StateDraws(
        flat.reshape(draws.paths.shape),
        tuple(np.take_along_axis(table, order[..., None], axis=-2) for table in draws.emissions),
        np.take_along_axis(transitions, order[..., None, :], axis=-1),
    )
