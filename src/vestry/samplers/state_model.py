"""The hidden Markov model with naive Bayes emissions: its counts, its start, its draws [FouldsGWC16, supplement E].

Regions r, months t, states k, discrete features d. Transition rows A_k ~ Dirichlet(alpha), emission tables
theta^(k,d) ~ Dirichlet(beta), and before the first month a dummy state with a row of its own. The data enter through
counts n[r, t, d, j] alone, so noisy counts serve as well as true ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter
from vestry.samplers import kernel
from vestry.samplers.parameter import kept, positive, whole
from vestry.samplers.truncated import truncated_dirichlet

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


@dataclass(frozen=True)
class Layout:
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
class Prior:
    """Concentrations, and the least probability of a level where emission tables are truncated."""

    states: int
    alpha: float
    beta: float
    least: tuple[float, ...] | None = None


# (likelihoods, uniforms, paths, moves, transitions): updates paths and moves in place
Sweep = Callable[[Array, Array, Array, Array, Array], None]


def layout(counts: Sequence[Array], *, held_out: Array | None, chains: int, temperature: float) -> Layout:
    """Put counts, one array (regions, months, levels) a feature, side by side; a leading axis is the batch.

    Negative counts, which noise can make, become 0. A missing month has zero counts. Held-out cells are (regions,
    months), or one such mask a split. All counts are divided by the temperature, which is the likelihood's power.
    """
    tables = [np.maximum(np.asarray(table, float), 0.0) for table in counts]
    if not tables or any(table.ndim not in (3, 4) for table in tables) or len({t.shape[:-1] for t in tables}) > 1:
        raise InvalidParameter(
            "counts", [np.shape(t) for t in counts], "(regions, months, levels) for each feature", "one array a feature"
        )
    if not all(np.isfinite(table).all() for table in tables):
        raise InvalidParameter("counts", "one that is not", "finite", "0 where nothing was counted")
    regions, months = tables[0].shape[-3:-1]
    wide = np.concatenate(tables, axis=-1) / positive("temperature", temperature)
    wide = wide.reshape(-1, regions * months, wide.shape[-1])
    mask = np.zeros((1, regions, months), bool) if held_out is None else np.asarray(held_out, bool)
    if mask.shape[-2:] != (regions, months) or mask.ndim > 3:
        raise InvalidParameter("held_out", mask.shape, "(regions, months), or one a split", "a mask of cells")
    hidden = mask.reshape(-1, regions * months)
    sizes = {whole("chains", chains, 1), len(wide), len(hidden)} - {1}
    if len(sizes) > 1:
        raise InvalidParameter("the batch", sorted(sizes), "one number", "as many splits in each, or 1")
    batch = sizes.pop() if sizes else 1
    seen = np.broadcast_to(~hidden, (batch, regions * months)).astype(float)
    return Layout(wide, seen, tuple(t.shape[-1] for t in tables), regions, months, batch)


def prior(states: int, alpha: float, beta: float, levels: Sequence[int], truncation: Sequence[float] | None) -> Prior:
    """Check the model's numbers."""
    if truncation is not None and len(truncation) != len(levels):
        raise InvalidParameter("truncation", truncation, "one number a feature", "for example 1/(10 levels) each")
    least = None if truncation is None else tuple(float(x) for x in truncation)
    return Prior(whole("states", states, 1), positive("alpha", alpha), positive("beta", beta), least)


def chain(
    sweep: Sweep, data: Layout, model: Prior, *, sweeps: int, burn_in: int, rng: np.random.Generator
) -> StateDraws:
    """Alternate sweeps over the states with draws of the tables; keep what comes after the burn-in.

    The start is random: each state uniform, tables and transitions given those states.
    """
    sweeps, burn_in = kept(sweeps, burn_in)
    batch, cells, states = data.batch, data.regions * data.months, model.states
    paths = rng.integers(states, size=(batch, cells))
    moves = np.empty((batch, states + 1, states))
    levels = np.empty((batch, states, sum(data.levels)))
    kernel.count_moves(paths, moves, data.months)
    draws: list[tuple[Array, Array, Array]] = []

    def given_paths() -> tuple[Array, Array]:
        transitions = np.exp(_log_dirichlet(rng, model.alpha + moves, (states,)))
        kernel.sum_levels(paths, data.counts, data.seen, levels)
        return _tables(rng, levels, data, model), transitions

    tables, transitions = given_paths()
    for number in range(sweeps):
        weights = kernel.likelihoods(tables, data.counts, data.seen)
        sweep(weights, rng.random((batch, cells)), paths, moves, transitions)
        tables, transitions = given_paths()
        if number >= burn_in:
            draws.append((paths.copy(), tables, transitions))
    kept_paths, emissions, rows = (np.stack(each) for each in zip(*draws, strict=True))
    shares = tuple(np.exp(emissions[..., feature]) for feature in data.features)
    return StateDraws(kept_paths.reshape(len(draws), batch, data.regions, data.months), shares, rows)


def _tables(rng: np.random.Generator, levels: Array, data: Layout, model: Prior) -> Array:
    """Draw the log emission tables given the states: Dirichlet(counts + beta), truncated or not."""
    shapes = model.beta + levels
    if model.least is None:
        return _log_dirichlet(rng, shapes, data.levels)
    rows = zip(data.features, model.least, strict=True)
    drawn = [truncated_dirichlet(rng, shapes[..., at], low=low) for at, low in rows]
    return np.asarray(np.log(np.concatenate(drawn, axis=-1)))


def _log_dirichlet(rng: np.random.Generator, shapes: Array, sizes: tuple[int, ...]) -> Array:
    """Draw logs of Dirichlets, each over a run of this many neighbours on the last axis.

    Also where shapes are so small that a gamma draw G is 0 in doubles: log G(a) = log G(a + 1) + log(U)/a.
    """
    if shapes.min() > 0.1:  # a gamma draw is below 1e-300 with probability 1e-30
        gammas = rng.standard_gamma(shapes)
        logs = np.log(gammas)
    else:
        logs = np.log(rng.standard_gamma(shapes + 1)) - rng.standard_exponential(shapes.shape) / shapes
        starts = np.cumsum((0, *sizes[:-1]))
        logs -= np.repeat(np.maximum.reduceat(logs, starts, axis=-1), sizes, axis=-1)
        gammas = np.exp(logs)
    width = shapes.shape[-1]
    kernel.normalise(gammas.reshape(-1, width), logs.reshape(-1, width), sizes)
    return np.asarray(logs)
