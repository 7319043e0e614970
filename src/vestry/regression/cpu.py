"""Gradients compiled for the processor: one pass over the data, in tiles.

The rows are stored in tiles of 64, each column of a tile in one piece, as float32 or float64. A tile is read once from
memory: it gives 64 predictors, 64 derivatives and its share of the gradient while it is in the cache, and the next tile
is fetched meanwhile (the loops are `kernel`'s). Arithmetic is in doubles. Blocks of rows (`rounding.BLOCK`) are summed
on their own and their sums added in order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.regression import cpu_kernels, numpy_math
from vestry.regression.cpu_kernels import TILE
from vestry.regression.loss import LangevinStep, Loss
from vestry.regression.rounding_error import BLOCK

# Below this many numbers one thread is faster than the hand-over to several.
ALONE = 2**18


@dataclass(frozen=True)
class Tiles:
    """A block of rows, in tiles.

    Attributes
    ----------
    values
        (tiles, features, rows of a tile); rows that fill the last tile are zero.
    outcomes
        (tiles, rows of a tile).
    """

    values: np.ndarray
    outcomes: np.ndarray

    @property
    def sums(self) -> int:
        """How many sums of blocks there are."""
        return -(-self.outcomes.size // BLOCK)


@dataclass(frozen=True)
class Stored:
    """A block of rows that is left where it is, on disk: put into tiles anew on every pass."""

    rows: np.ndarray
    outcomes: np.ndarray

    @property
    def sums(self) -> int:
        """How many sums of blocks there are."""
        return -(-len(self.rows) // BLOCK)


class CpuGradient:
    """The gradient of a loss of one predictor, summed over blocks of rows.

    Parameters
    ----------
    blocks
        Pairs of rows (n, d), float32 or float64, and outcomes (n,). They are taken one by one and copied into tiles, so
        that a generator need not hold them all. A `numpy.memmap` is left on disk.
    threads
        How many at most; by default all that the process may use.
    """

    def __init__(self, loss: Loss, blocks: Iterable[tuple[Any, Any]], *, threads: int | None = None) -> None:
        self._address, self._sums = cpu_kernels.derivatives(loss).address, cpu_kernels.block_sums()
        self._blocks = [tiles(rows, y) for rows, y in blocks]
        arrays = [each.values if isinstance(each, Tiles) else each.rows for each in self._blocks]
        self.shape: tuple[int, ...] = arrays[0].shape[1:2]
        # The loops do not look.
        if any(each.shape[1:2] != self.shape for each in arrays):
            raise InvalidParameter("blocks", [each.shape[1] for each in arrays], "of one number of features", "one")
        numbers = sum(each.size for each in arrays)
        self._threads = 1 if numbers < ALONE else threads or cores()
        self._slots = sum(each.sums for each in self._blocks)
        self._tasks = list(self._split())

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients at theta."""
        theta = np.ascontiguousarray(theta, dtype=np.float64).reshape(self.shape)
        sums = np.empty((self._slots, *self.shape))
        if self._threads == 1:
            for task in self._tasks:
                self._add(theta, sums, task)
        else:
            list(pool(os.getpid(), self._threads).map(lambda task: self._add(theta, sums, task), self._tasks))
        return _total(sums)

    def run(self, theta: np.ndarray, noise: np.ndarray, step: LangevinStep) -> np.ndarray:
        """Return the state of the Langevin chain after one step for every row of the noise."""
        theta = np.array(theta, dtype=np.float64).reshape(self.shape)
        noise = np.ascontiguousarray(noise, dtype=np.float64).reshape(-1, *self.shape)
        only = self._blocks[0]
        if self._threads > 1 or len(self._blocks) > 1 or not isinstance(only, Tiles):
            return steps(self, theta, noise, step)
        sums = np.empty((self._slots, *self.shape))
        constants = map(float, (step.likelihood_power, step.prior_precision, step.step_size, step.radius))
        cpu_kernels.chain()(only.values, only.outcomes, theta, noise, *constants, self._address, sums)
        return theta

    def _split(self) -> Iterator[tuple[Tiles | Stored, int, int, int]]:
        """Yield (block, first sum, last sum, place of its sums), of equal shares for the threads."""
        place = 0
        for block in self._blocks:
            share = max(1, -(-block.sums // self._threads))
            for first in range(0, block.sums, share):
                yield block, first, min(first + share, block.sums), place
            place += block.sums

    def _add(self, theta: np.ndarray, sums: np.ndarray, task: tuple[Tiles | Stored, int, int, int]) -> None:
        block, first, last, place = task
        if isinstance(block, Tiles):
            self._sums(block.values, block.outcomes, theta, self._address, sums[place:], first, last)
            return
        for number in range(first, last):
            part = slice(number * BLOCK, (number + 1) * BLOCK)
            inner = packed(np.array(block.rows[part]), block.outcomes[part])
            self._sums(inner.values, inner.outcomes, theta, self._address, sums[place + number :], 0, 1)


class ClassGradient:
    """The gradient of a loss of several predictors: matrix products over blocks of rows."""

    def __init__(self, loss: Loss, blocks: Iterable[tuple[Any, Any]]) -> None:
        self._derivative = loss.derivative(numpy_math)
        self._blocks = [(as_rows(rows), np.asarray(y, dtype=np.float64)) for rows, y in blocks]
        self.shape: tuple[int, ...] = (loss.predictors, self._blocks[0][0].shape[1])

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients at theta (K, d)."""
        theta = np.asarray(theta, dtype=np.float64).reshape(self.shape)
        total = np.zeros(self.shape)
        for rows, y in self._blocks:
            for first in range(0, len(rows), BLOCK):
                part = np.asarray(rows[first : first + BLOCK], dtype=np.float64)
                total += self._derivative(part @ theta.T, y[first : first + BLOCK]).T @ part
        return total

    def run(self, theta: np.ndarray, noise: np.ndarray, step: LangevinStep) -> np.ndarray:
        """Return the state of the Langevin chain after one step for every row of the noise."""
        theta = np.asarray(theta, dtype=np.float64).reshape(self.shape)
        noise = np.asarray(noise, dtype=np.float64).reshape(-1, *self.shape)
        return steps(self, theta, noise, step)


def as_rows(rows: Any) -> np.ndarray:
    """Return an array (n, d) of float32 or float64, without a copy where it is one already."""
    array: np.ndarray = rows if isinstance(rows, np.memmap) else np.asarray(rows)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def tiles(rows: Any, outcomes: Any) -> Tiles | Stored:
    """Copy a block of rows into tiles; leave a memory map where it is."""
    rows, outcomes = as_rows(rows), np.asarray(outcomes, dtype=np.float64)
    return Stored(rows, outcomes) if isinstance(rows, np.memmap) else packed(rows, outcomes)


def packed(rows: np.ndarray, outcomes: np.ndarray, *, tile: int = TILE) -> Tiles:
    """Copy rows into tiles of so many."""
    count, features = rows.shape
    whole, number = count // tile, -(-count // tile)
    values, y = aligned((number, features, tile), rows.dtype), np.ones((number, tile))
    values[:whole] = rows[: whole * tile].reshape(whole, tile, features).transpose(0, 2, 1)
    if whole < number:
        values[whole] = 0.0
        values[whole, :, : count - whole * tile] = rows[whole * tile :].T
    y.reshape(-1)[:count] = outcomes
    return Tiles(values, y)


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array that starts at a line of the cache, so that no load of a vector takes two."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return np.asarray(memory[start : start + size].view(dtype).reshape(shape))


def steps(gradient: Any, theta: np.ndarray, noise: np.ndarray, step: LangevinStep) -> np.ndarray:
    """Walk the Langevin chain by a gradient that is called at every step."""
    size, power, precision = step.step_size, step.likelihood_power, step.prior_precision
    scale = math.sqrt(2 * size)
    for z in noise:
        theta = theta - size * (power * gradient(theta) + precision * theta) + scale * z
        norm = math.sqrt(float((theta * theta).sum()))
        if norm > step.radius:
            theta = theta * (step.radius / norm)
    return theta


def _total(sums: np.ndarray) -> np.ndarray:
    return sums[0].copy() if len(sums) == 1 else np.asarray(sums.sum(axis=0))


def cores() -> int:
    """Return how many processors the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Keep the threads of a process: a fork has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="vestry-gradient")
