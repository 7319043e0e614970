"""The hidden Markov model with naive Bayes emissions: its counts, its start, its draws [FouldsGWC16, supplement E].

Regions r, months t, states k, discrete features d. Transition rows A_k ~ Dirichlet(alpha), emission tables
theta^(k,d) ~ Dirichlet(beta), and before the first month a dummy state with a row of its own. The data enter through
counts n[r, t, d, j] alone, so noisy counts serve as well as true ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter
from vestry.hmm import gibbs_kernels
from vestry.mcmc.late_import import require_burn_in
from vestry.mcmc.truncated_draws import truncated_dirichlet
from vestry.validation import require_number, require_whole

Array = np.ndarray


@dataclass(frozen=True)
class StateDraws:
    """Kept draws of a hidden Markov model. The batch axis runs over chains or over train-test splits.

    Attributes
    ----------
    paths
        States, (sweeps, batch, regions, months).
    emissions
        For each feature the probability of each level in each state, (sweeps, batch, states, levels).
    transitions
        (sweeps, batch, states + 1, states); the last row is of the dummy state before the first month.
    """

    paths: Array
    emissions: tuple[Array, ...]
    transitions: Array

    def marginals(self) -> Array:
        """Return how often each cell was in each state, (batch, regions, months, states)."""
        states = self.transitions.shape[-1]
        return np.stack([(self.paths == k).mean(axis=0) for k in range(states)], axis=-1)

    def renumbered(self, order: Array) -> StateDraws:
        """Return the draws with other numbers for the states: `order`, (sweeps, batch, states), has the old ones."""
        rank = np.argsort(order, axis=-1, kind="stable")  # old -> new
        flat = np.take_along_axis(rank, self.paths.reshape(*order.shape[:2], -1), axis=-1)
        rows = np.concatenate([order, np.full((*order.shape[:2], 1), order.shape[-1])], axis=-1)  # the dummy stays
        transitions = np.take_along_axis(self.transitions, rows[..., None], axis=-2)
        return StateDraws(
            flat.reshape(self.paths.shape),
            tuple(np.take_along_axis(table, order[..., None], axis=-2) for table in self.emissions),
            np.take_along_axis(transitions, order[..., None, :], axis=-1),
        )


def relabel(draws: StateDraws, *, feature: int, level: int) -> StateDraws:
    """Number the states of each draw by decreasing probability of one feature's level.

    The posterior does not change if states are renamed, so chains may name them differently, and one chain may swap
    them. Averages of tables or of states over draws mean something only after this. Equal probabilities keep their
    order.
    """
    return draws.renumbered(np.argsort(-draws.emissions[feature][..., level], axis=-1, kind="stable"))


@dataclass(frozen=True)
class CellLayout:
    """Counts in the form that sweeps use, the levels of all features side by side.

    Attributes
    ----------
    counts
        Never negative, (batch or 1, cells, levels of all features).
    seen
        1 where a cell is in training, 0 where it is held out, (batch, cells).
    levels
        How many levels each feature has.
    regions, months, batch
        The sizes; a cell is region x months + month.
    """

    counts: Array
    seen: Array
    levels: tuple[int, ...]
    regions: int
    months: int
    batch: int

    @property
    def features(self) -> tuple[slice, ...]:
        """Where each feature's levels are."""
        ends = np.cumsum(self.levels)
        return tuple(slice(int(end - size), int(end)) for end, size in zip(ends, self.levels, strict=True))


@dataclass(frozen=True)
class StatePrior:
    """Concentrations, and the least probability of a level where emission tables are truncated."""

    states: int
    alpha: float
    beta: float
    least: tuple[float, ...] | None = None


def layout(counts: Sequence[Array], *, held_out: Array | None, chains: int, temperature: float) -> CellLayout:
    """Put counts, one array (regions, months, levels) a feature, side by side; a leading axis is the batch.

    Negative counts, which noise can make, become 0. A missing month has zero counts. Held-out cells are (regions,
    months), or one such mask per split. All counts are divided by the temperature, which is the likelihood's power.
    """
    tables = [np.maximum(np.asarray(table, float), 0.0) for table in counts]
    if not tables or any(table.ndim not in (3, 4) for table in tables) or len({t.shape[:-1] for t in tables}) > 1:
        given, allowed = [np.shape(table) for table in counts], "(regions, months, levels) for each feature"
        raise InvalidParameter("counts", given, allowed, "one array per feature")
    if not all(np.isfinite(table).all() for table in tables):
        raise InvalidParameter("counts", "one that is not", "finite", "0 where nothing was counted")
    regions, months = tables[0].shape[-3:-1]
    wide = np.concatenate(tables, axis=-1) / require_number("temperature", temperature, "temperature=1", above=0)
    wide = np.ascontiguousarray(wide.reshape(-1, regions * months, wide.shape[-1]))
    mask = np.zeros((1, regions, months), bool) if held_out is None else np.asarray(held_out, bool)
    if mask.shape[-2:] != (regions, months) or mask.ndim > 3:
        raise InvalidParameter("held_out", mask.shape, "(regions, months), or one per split", "a mask of cells")
    hidden = mask.reshape(-1, regions * months)
    sizes = {require_whole("chains", chains), len(wide), len(hidden)} - {1}
    if len(sizes) > 1:
        raise InvalidParameter("the batch", sorted(sizes), "one number", "as many splits in each, or 1")
    batch = sizes.pop() if sizes else 1
    seen = np.broadcast_to(~hidden, (batch, regions * months)).astype(float, order="C")
    return CellLayout(wide, seen, tuple(t.shape[-1] for t in tables), regions, months, batch)


def prior(
    states: int, alpha: float, beta: float, levels: Sequence[int], truncation: Sequence[float] | None
) -> StatePrior:
    """Check the model's numbers."""
    if truncation is not None and len(truncation) != len(levels):
        raise InvalidParameter("truncation", truncation, "one number per feature", "for example 1/(10 levels) each")
    least = None if truncation is None else tuple(float(x) for x in truncation)
    numbers = {"alpha": alpha, "beta": beta}
    checked = {name: require_number(name, value, f"{name}=1", above=0) for name, value in numbers.items()}
    return StatePrior(require_whole("states", states), **checked, least=least)


def chain(
    data: CellLayout, model: StatePrior, *, blocked: bool, sweeps: int, burn_in: int, rng: np.random.Generator
) -> StateDraws:
    """Alternate sweeps over the states with draws of the tables; keep what comes after the burn-in.

    The start is random: each state uniform, tables and transitions given those states. Each member of the batch has a
    generator of its own, so that its draws do not depend on how many processors share the batch.
    """
    sweeps, burn_in = require_burn_in(sweeps, burn_in, "sweeps")
    sizes, states, cells = (data.batch, sweeps - burn_in), model.states, data.regions * data.months
    paths = np.empty((*sizes, cells), int)
    tables = np.empty((*sizes, states, sum(data.levels)))
    transitions = np.empty((*sizes, states + 1, states))

    def run(member: int, rng: np.random.Generator) -> None:
        paths[member, 0] = rng.integers(states, size=cells)
        one = gibbs_kernels.ChainState(
            rng=rng,
            counts=data.counts[member % len(data.counts)],
            seen=data.seen[member],
            ends=np.cumsum(data.levels if model.least is None else (), dtype=int),
            months=data.months,
            alpha=model.alpha,
            beta=model.beta,
            blocked=blocked,
            burn_in=burn_in,
            weights=np.empty((cells, states)),
            moves=np.empty((states + 1, states)),
            sums=np.empty((states, sum(data.levels))),
            paths=paths[member],
            tables=tables[member],
            transitions=transitions[member],
        )
        if model.least is None:
            gibbs_kernels.run(one, 0, sweeps + 1)
        else:
            for number in range(sweeps + 1):
                at = gibbs_kernels.run(one, number, number + 1)
                one.tables[at] = _log_truncated(rng, one.sums + model.beta, data.features, model.least)
        np.exp(one.tables, out=one.tables)

    with ThreadPoolExecutor(min(data.batch, os.cpu_count() or 1)) as pool:
        list(pool.map(run, range(data.batch), [rng] if data.batch == 1 else rng.spawn(data.batch)))
    return StateDraws(
        paths.swapaxes(0, 1).reshape(*sizes[::-1], data.regions, data.months),
        tuple(tables.swapaxes(0, 1)[..., feature] for feature in data.features),
        transitions.swapaxes(0, 1),
    )


def _log_truncated(
    rng: np.random.Generator, shapes: Array, features: tuple[slice, ...], least: tuple[float, ...]
) -> Array:
    """Draw log emission tables, the probability of each level at least so much."""
    rows = zip(features, least, strict=True)
    tables = [truncated_dirichlet(rng, shapes[:, at], low=low) for at, low in rows]
    return np.asarray(np.log(np.concatenate(tables, axis=-1)))
