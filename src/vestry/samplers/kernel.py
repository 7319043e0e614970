"""The loops of the hidden Markov samplers, compiled for the processor: one split, or chain, after the other.

Within a chain the collapsed sweep is sequential, cell by cell, so only what is inside a cell can be done at once. Every
inner loop runs over the states, or over the levels, in one piece, so the compiler can vectorise it. Products are left
to the linear algebra library and exponentials to NumPy, which vectorise them better.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

Array = np.ndarray

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": {"contract", "nsz"}}


def compiled(function: Any) -> Any:
    """Compile, and keep the machine code for the next process where there is a place for it."""
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # neither beside this file nor in the user's cache
        return numba.njit(**_OPTIONS)(function)


# A product of at most this many multiplications is made by one thread: waking another takes longer than it saves, and
# much longer where the processor is shared.
_ALONE = 2**18


def likelihoods(tables: Array, counts: Array, seen: Array) -> Array:
    """Return each cell's likelihood in each state, the largest made 1, (batch, cells, states); 1 where held out.

    The log tables are (batch, states, levels), the counts (batch or 1, cells, levels), what is seen (batch, cells).
    """
    batch, states, levels = tables.shape
    splits, cells, _ = counts.shape
    rows = _rows(cells, _ALONE // (states * levels))
    columns = np.ascontiguousarray(tables.transpose(0, 2, 1))[:, None]
    logs = np.matmul(counts.reshape(splits, -1, rows, levels), columns).reshape(batch, cells, states)
    _centre(logs, seen)
    return np.asarray(np.exp(logs, out=logs))


_LEAST = -650.0  # below it exponentials lose digits, and then take five times as long


@cache
def _rows(cells: int, most: int) -> int:
    """Return the largest divisor of the number of cells up to a bound."""
    return max(rows for rows in range(1, min(cells, max(most, 1)) + 1) if cells % rows == 0)


@compiled
def _centre(logs, seen):  # type: ignore[no-untyped-def]
    batch, cells, states = logs.shape
    for b in range(batch):
        for cell in range(cells):
            if seen[b, cell] == 0.0:
                logs[b, cell, :] = 0.0
                continue
            top = logs[b, cell, 0]
            for k in range(1, states):
                top = max(top, logs[b, cell, k])
            for k in range(states):
                logs[b, cell, k] = max(logs[b, cell, k] - top, _LEAST)


@compiled
def collapsed(weights, uniforms, paths, moves, alpha, months):  # type: ignore[no-untyped-def]
    """Update every cell once, in order, in place: paths (batch, cells) and moves (batch, states + 1, states).

    Where a cell keeps its state, as most do, nothing is written: a row that is read whole just after one of its numbers
    was stored makes the processor wait.
    """
    batch, cells, states = weights.shape
    ladder, leaving, onto = np.empty(states), np.empty((batch, states)), np.empty((batch, states, states))
    for b in range(batch):  # n[k, .] + K alpha, and n turned over, so that both are read along k
        for k in range(states):
            leaving[b, k] = states * alpha
            for j in range(states):
                leaving[b, k] += moves[b, k, j]
                onto[b, j, k] = moves[b, k, j]
    for cell in range(cells):
        first, last = cell % months == 0, (cell + 1) % months == 0
        for b in range(batch):
            n, left, to, weight = moves[b], leaving[b], onto[b], weights[b, cell]
            old = paths[b, cell]
            before = states if first else paths[b, cell - 1]
            if last:
                for k in range(states):
                    ladder[k] = (n[before, k] + alpha) * weight[k]
                ladder[old] = (n[before, old] - 1.0 + alpha) * weight[old]
                new = drawn(ladder, uniforms[b, cell])
                if new != old:
                    n[before, old] -= 1.0
                    n[before, new] += 1.0
                    if not first:
                        to[old, before] -= 1.0
                        to[new, before] += 1.0
                    paths[b, cell] = new
                continue
            after = paths[b, cell + 1]
            for k in range(states):
                ladder[k] = (n[before, k] + alpha) * (to[after, k] + alpha) / left[k] * weight[k]
            # Only at these three do the moves before -> old -> after, which are to be left out, or a stay, matter.
            for k in (old, after, old if first else before):
                into = n[before, k] - (k == old) - (k == after) * (before == old)
                out = to[after, k] - (k == old) + (k == before) * (int(before == after) - int(old == after))
                ladder[k] = (into + alpha) * (out + alpha) / (left[k] - (k == old)) * weight[k]
            new = drawn(ladder, uniforms[b, cell])
            if new != old:
                n[before, old] -= 1.0
                n[before, new] += 1.0
                n[old, after] -= 1.0
                n[new, after] += 1.0
                if not first:
                    to[old, before] -= 1.0
                    to[new, before] += 1.0
                to[after, old] -= 1.0
                to[after, new] += 1.0
                left[old] -= 1.0
                left[new] += 1.0
                paths[b, cell] = new


@compiled
def blocked(weights, uniforms, paths, transitions, months):  # type: ignore[no-untyped-def]
    """Draw every region's path, forward and back, in place; the last row of the transitions is the start's."""
    batch, cells, states = weights.shape
    filtered, ladder = np.empty((months, states)), np.empty(states)
    for b in range(batch):
        chance = transitions[b]
        for start in range(0, cells, months):
            for t in range(months):
                now = filtered[t]
                if t == 0:
                    now[:] = chance[states]
                else:
                    now[:] = 0.0
                    for a in range(states):
                        for k in range(states):
                            now[k] += filtered[t - 1, a] * chance[a, k]
                total = 0.0
                for k in range(states):
                    now[k] = now[k] * weights[b, start + t, k] + _TINY
                    total += now[k]
                for k in range(states):
                    now[k] /= total
            after = 0
            for t in range(months - 1, -1, -1):
                for k in range(states):
                    ladder[k] = filtered[t, k] * (1.0 if t == months - 1 else chance[k, after])
                after = drawn(ladder, uniforms[b, start + t])
                paths[b, start + t] = after


_TINY = 1e-300  # a path of which every step is at all possible always has some weight left


@compiled
def drawn(ladder, uniform):  # type: ignore[no-untyped-def]
    """Draw an index by its weight; the weights are replaced by their running sums."""
    states = len(ladder)
    for k in range(1, states):
        ladder[k] += ladder[k - 1]
    place, new = uniform * ladder[states - 1], 0
    for k in range(states - 1):
        new += ladder[k] < place
    return new


@compiled
def count_moves(paths, moves, months):  # type: ignore[no-untyped-def]
    """Count the moves of each chain into `moves`; the last row is of the dummy state."""
    moves[:] = 0.0
    batch, cells = paths.shape
    for b in range(batch):
        for cell in range(cells):
            before = moves.shape[2] if cell % months == 0 else paths[b, cell - 1]
            moves[b, before, paths[b, cell]] += 1.0


@compiled
def sum_levels(paths, counts, seen, sums):  # type: ignore[no-untyped-def]
    """Sum the training counts of the cells in each state into `sums`, (batch, states, levels of all features)."""
    sums[:] = 0.0
    batch, cells = paths.shape
    for b in range(batch):
        table = counts[b if len(counts) > 1 else 0]
        for cell in range(cells):
            if seen[b, cell] > 0.0:
                total = sums[b, paths[b, cell]]
                for v in range(len(total)):
                    total[v] += table[cell, v]


@compiled
def normalise(gammas, logs, sizes):  # type: ignore[no-untyped-def]
    """Subtract from logs the log of the sum of gammas, within each run of this many neighbours of a row."""
    for row in range(len(logs)):
        start = 0
        for size in sizes:
            total = 0.0
            for v in range(start, start + size):
                total += gammas[row, v]
            total = np.log(total)
            for v in range(start, start + size):
                logs[row, v] -= total
            start += size
