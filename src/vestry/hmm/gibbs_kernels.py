"""One chain of a hidden Markov sampler, from its first sweep to its last, compiled for the processor.

No step needs the interpreter's lock, so that chains, or splits, run side by side. Within a chain the collapsed sweep is
sequential, cell by cell, so only what is inside a cell can be done at once. Every inner loop runs over the states, or
over the levels, in one piece, so the compiler can vectorise it. Products are left to the linear algebra library.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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


class ChainState(NamedTuple):
    """One member of a batch: what it is given, where it is, and what is kept of it.

    Attributes
    ----------
    rng
        Its own generator.
    counts, seen
        Counts, (cells, levels of all features), and 1 where a cell is in training, (cells).
    ends
        Where the levels of each feature end; none if the caller draws the tables.
    months, alpha, beta
        The model.
    blocked
        Whether a sweep draws whole paths given the transitions; else cell after cell, the transitions integrated out.
    burn_in
        How many sweeps are not kept.
    weights, moves, sums
        Of this sweep: likelihoods, (cells, states); moves, (states + 1, states); counts of levels, (states, levels).
    paths, tables, transitions
        Kept draws, (kept sweeps, ...), the emission tables as logarithms. Until the first is kept, its place is used.
    """

    rng: np.random.Generator
    counts: Array
    seen: Array
    ends: Array
    months: int
    alpha: float
    beta: float
    blocked: bool
    burn_in: int
    weights: Array
    moves: Array
    sums: Array
    paths: Array
    tables: Array
    transitions: Array


@compiled
def run(chain, first, stop):  # type: ignore[no-untyped-def]
    """Alternate sweeps over the states with draws of the tables; return the place of the last draw.

    Sweeps are counted from 1; number 0 leaves the states as they are, and only draws transitions and tables.
    """
    now = 0
    for number in range(first, stop):
        before, now = max(number - chain.burn_in - 2, 0), max(number - chain.burn_in - 1, 0)
        path = chain.paths[now]
        if number > 0:
            for cell in range(len(path)):
                path[cell] = chain.paths[before, cell]
            likelihoods(chain.tables[before], chain.counts, chain.seen, chain.weights)
            if chain.blocked:
                blocked(chain.rng, chain.weights, path, chain.transitions[before], chain.months)
            else:
                collapsed(chain.rng, chain.weights, path, chain.moves, chain.alpha, chain.months)
        if chain.blocked or number == 0:
            count_moves(path, chain.moves, chain.months)
        draw_tables(chain, path, now)
    return now


@compiled
def draw_tables(chain, path, now):  # type: ignore[no-untyped-def]
    """Draw transitions, given the moves of a path, and the logarithms of tables, given its sums of levels."""
    sum_levels(path, chain.counts, chain.seen, chain.sums)
    rows = chain.transitions[now]
    log_dirichlet(chain.rng, chain.moves, chain.alpha, np.array([chain.moves.shape[1]]), rows)
    for k in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[k, j] = np.exp(rows[k, j])
    log_dirichlet(chain.rng, chain.sums, chain.beta, chain.ends, chain.tables[now])


# A product of at most this many multiplications is made by one thread: waking another takes longer than it saves, and
# much longer where the processor is shared.
_ALONE = 2**18
_LEAST = -650.0  # below it exponentials lose digits


@compiled
def likelihoods(tables, counts, seen, weights):  # type: ignore[no-untyped-def]
    """Write each cell's likelihood in each state, (cells, states), the largest made 1; 1 where held out.

    The log tables are (states, levels), the counts (cells, levels), what is seen (cells).
    """
    cells, states = weights.shape
    rows, columns = max(_ALONE // tables.size, 1), tables.T.copy()  # turned over by the product, twice the time
    for start in range(0, cells, rows):
        np.dot(counts[start : start + rows], columns, weights[start : start + rows])
    for cell in range(cells):
        logs = weights[cell]
        if seen[cell] == 0.0:
            logs[:] = 0.0
            continue
        top = logs[0]
        for k in range(1, states):
            top = max(top, logs[k])
        for k in range(states):
            logs[k] = max(logs[k] - top, _LEAST)
    exponentials(weights.reshape(-1))


# e^x = 2^n e^r with |r| <= log(2)/2, where the Taylor series has an error of 4e-18 after fourteen terms. Adding _SHIFT
# rounds to a whole number, and puts it into the last bits. log(2) is split in two, the first part short.
_SHIFT = 1.5 * 2.0**52
_LOG_2 = (float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33"))
_TAYLOR = tuple(1 / math.factorial(n) for n in range(13, -1, -1))


@compiled
def exponentials(numbers):  # type: ignore[no-untyped-def]
    """Replace numbers between -700 and 700 by their exponentials, many at a time, as libraries' loops do not."""
    for i in range(len(numbers)):
        shifted = numbers[i] * (1 / math.log(2)) + _SHIFT
        n = shifted - _SHIFT
        r = numbers[i] - n * _LOG_2[0] - n * _LOG_2[1]
        series = 0.0
        for c in _TAYLOR:
            series = series * r + c
        numbers[i] = series * np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)


@compiled
def log_dirichlet(rng, counts, concentration, ends, logs):  # type: ignore[no-untyped-def]
    """Draw logs of Dirichlets of shapes counts + concentration, one over each run of neighbours on the last axis.

    Also where shapes are so small that a gamma draw G is 0 in doubles: log G(a) = log G(a + 1) + log(U)/a.
    """
    for row in range(len(logs)):
        start = 0
        for end in ends:
            top = -np.inf
            for v in range(start, end):
                a = counts[row, v] + concentration
                small = a < 0.1  # else a gamma draw is below 1e-300 with probability 1e-30
                log = np.log(rng.standard_gamma(a + small))
                if small:
                    log -= rng.standard_exponential() / a
                logs[row, v] = log
                top = max(top, log)
            total = 0.0
            for v in range(start, end):
                total += np.exp(logs[row, v] - top)
            total = top + np.log(total)
            for v in range(start, end):
                logs[row, v] -= total
            start = end


@compiled
def collapsed(rng, weights, path, moves, alpha, months):  # type: ignore[no-untyped-def]
    """Update every cell once, in order, in place: the path (cells) and the moves (states + 1, states).

    Where a cell keeps its state, as most do, nothing is written: a row that is read whole just after one of its numbers
    was stored makes the processor wait.
    """
    cells, states = weights.shape
    ladder, left, to, n = np.empty(states), np.empty(states), np.empty((states, states)), moves
    for k in range(states):  # n[k, .] + K alpha, and n turned over, so that both are read along k
        left[k] = states * alpha
        for j in range(states):
            left[k] += n[k, j]
            to[j, k] = n[k, j]
    for cell in range(cells):
        first, last = cell % months == 0, (cell + 1) % months == 0
        weight, old = weights[cell], path[cell]
        before = states if first else path[cell - 1]
        if last:
            for k in range(states):
                ladder[k] = (n[before, k] + alpha) * weight[k]
            ladder[old] = (n[before, old] - 1.0 + alpha) * weight[old]
            new = draw_index(ladder, rng.random())
            if new != old:
                n[before, old] -= 1.0
                n[before, new] += 1.0
                if not first:
                    to[old, before] -= 1.0
                    to[new, before] += 1.0
                path[cell] = new
            continue
        after = path[cell + 1]
        for k in range(states):
            ladder[k] = (n[before, k] + alpha) * (to[after, k] + alpha) / left[k] * weight[k]
        # Only at these three do the moves before -> old -> after, which do not count, or a stay, matter.
        for k in (old, after, old if first else before):
            into = n[before, k] - (k == old) - (k == after) * (before == old)
            out = to[after, k] - (k == old) + (k == before) * (int(before == after) - int(old == after))
            ladder[k] = (into + alpha) * (out + alpha) / (left[k] - (k == old)) * weight[k]
        new = draw_index(ladder, rng.random())
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
            path[cell] = new


@compiled
def blocked(rng, weights, path, chance, months):  # type: ignore[no-untyped-def]
    """Draw every region's path, forward and back, in place; the last row of the transitions is the start's."""
    cells, states = weights.shape
    filtered, ladder = np.empty((months, states)), np.empty(states)
    for start in range(0, cells, months):
        for t in range(months):
            now = filtered[t]
            for k in range(states):
                now[k] = chance[states, k] if t == 0 else 0.0
            for a in range(states if t > 0 else 0):
                for k in range(states):
                    now[k] += filtered[t - 1, a] * chance[a, k]
            total = 0.0
            for k in range(states):
                now[k] = now[k] * weights[start + t, k] + _TINY
                total += now[k]
            for k in range(states):
                now[k] /= total
        after = 0
        for t in range(months - 1, -1, -1):
            for k in range(states):
                ladder[k] = filtered[t, k] * (1.0 if t == months - 1 else chance[k, after])
            after = draw_index(ladder, rng.random())
            path[start + t] = after


_TINY = 1e-300  # a path of which every step is at all possible always has some weight left


@compiled
def draw_index(ladder, uniform):  # type: ignore[no-untyped-def]
    """Draw an index by its weight; the weights are replaced by their running sums."""
    states = len(ladder)
    for k in range(1, states):
        ladder[k] += ladder[k - 1]
    place, new = uniform * ladder[states - 1], 0
    for k in range(states - 1):
        new += ladder[k] < place
    return new


@compiled
def count_moves(path, moves, months):  # type: ignore[no-untyped-def]
    """Count the moves of a chain into `moves`; the last row is of the dummy state."""
    moves[:] = 0.0
    for cell in range(len(path)):
        before = moves.shape[1] if cell % months == 0 else path[cell - 1]
        moves[before, path[cell]] += 1.0


@compiled
def sum_levels(path, counts, seen, sums):  # type: ignore[no-untyped-def]
    """Sum the training counts of the cells in each state into `sums`, (states, levels of all features)."""
    sums[:] = 0.0
    for cell in range(len(path)):
        if seen[cell] > 0.0:
            total = sums[path[cell]]
            for v in range(len(total)):
                total[v] += counts[cell, v]
