"""Gradients compiled for the processor: one pass over the data, in tiles.

The rows are stored in tiles of 64, each column of a tile in one piece, as float32 or float64. A tile is read once from
memory: it gives 64 predictors, 64 derivatives and its share of the gradient while it is in the cache, and the next tile
is fetched meanwhile. Every loop is over 64 numbers in one piece, so the compiler can vectorise it at any number of
features. Arithmetic is in doubles. Blocks of rows (`rounding.BLOCK`) are summed on their own and their sums added in
order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter, MissingExtra
from vestry.losses import array, scalar
from vestry.losses.loss import Loss
from vestry.losses.rounding import BLOCK

TILE = 64
# Below this many numbers one thread is faster than the hand-over to several.
_ALONE = 2**18
# Sums may be taken in any order and products fused; NaN and infinity keep their meaning.
_SUMS = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True)
class Tiles:
    """A block of rows, in tiles.

    Attributes
    ----------
    values
        (tiles, features, 64); rows that fill the last tile are zero.
    outcomes
        (tiles, 64).
    """

    values: np.ndarray
    outcomes: np.ndarray

    @property
    def sums(self) -> int:
        """How many sums of blocks there are."""
        return -(-len(self.values) * TILE // BLOCK)


@dataclass(frozen=True)
class Stored:
    """A block of rows that is left where it is, on disk: put into tiles anew on every pass."""

    rows: np.ndarray
    outcomes: np.ndarray

    @property
    def sums(self) -> int:
        """How many sums of blocks there are."""
        return -(-len(self.rows) // BLOCK)


class Gradient:
    """The gradient of a loss of one predictor, summed over blocks of rows.

    Parameters
    ----------
    blocks
        Pairs of rows (n, d), float32 or float64, and outcomes (n,). They are taken one by one and copied into tiles, so
        that a generator need not hold them all. A `numpy.memmap` is left on disk.
    threads
        How many at most; all that the process may use unless told.
    """

    def __init__(self, loss: Loss, blocks: Iterable[tuple[Any, Any]], *, threads: int | None = None) -> None:
        self._address = _kernel(loss).address
        self._sums, self._steps = _loops()
        self._blocks = [tiles(rows, y) for rows, y in blocks]
        arrays = [each.values if isinstance(each, Tiles) else each.rows for each in self._blocks]
        self.shape: tuple[int, ...] = arrays[0].shape[1:2]
        # The loops do not look.
        if any(each.shape[1:2] != self.shape for each in arrays):
            raise InvalidParameter("blocks", [each.shape[1] for each in arrays], "of one number of features", "one")
        numbers = sum(each.size for each in arrays)
        self._threads = 1 if numbers < _ALONE else threads or _cores()
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
            list(_pool(os.getpid(), self._threads).map(lambda task: self._add(theta, sums, task), self._tasks))
        return _total(sums)

    def run(
        self, theta: np.ndarray, noise: np.ndarray, *, likelihood_power: float, prior_precision: float,
        step_size: float, radius: float,
    ) -> np.ndarray:  # fmt: skip
        """Return the state of the Langevin chain after one step for every row of the noise."""
        constants = likelihood_power, prior_precision, step_size, radius
        theta = np.array(theta, dtype=np.float64).reshape(self.shape)
        noise = np.ascontiguousarray(noise, dtype=np.float64).reshape(-1, *self.shape)
        only = self._blocks[0]
        if self._threads > 1 or len(self._blocks) > 1 or not isinstance(only, Tiles):
            return steps(self, theta, noise, *constants)
        sums = np.empty((self._slots, *self.shape))
        self._steps(only.values, only.outcomes, theta, noise, *map(float, constants), self._address, sums)
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
            inner = _packed(np.array(block.rows[part]), block.outcomes[part])
            self._sums(inner.values, inner.outcomes, theta, self._address, sums[place + number :], 0, 1)


class ClassGradient:
    """The gradient of a loss of several predictors: matrix products over blocks of rows."""

    def __init__(self, loss: Loss, blocks: Iterable[tuple[Any, Any]]) -> None:
        self._derivative = loss.derivative(array)
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

    def run(
        self, theta: np.ndarray, noise: np.ndarray, *, likelihood_power: float, prior_precision: float,
        step_size: float, radius: float,
    ) -> np.ndarray:  # fmt: skip
        """Return the state of the Langevin chain after one step for every row of the noise."""
        theta = np.asarray(theta, dtype=np.float64).reshape(self.shape)
        noise = np.asarray(noise, dtype=np.float64).reshape(-1, *self.shape)
        return steps(self, theta, noise, likelihood_power, prior_precision, step_size, radius)


def as_rows(rows: Any) -> np.ndarray:
    """Return an array (n, d) of float32 or float64, without a copy where it is one already."""
    found: np.ndarray = rows if isinstance(rows, np.memmap) else np.asarray(rows)
    return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)


def tiles(rows: Any, outcomes: Any) -> Tiles | Stored:
    """Copy a block of rows into tiles; leave a memory map where it is."""
    rows, outcomes = as_rows(rows), np.asarray(outcomes, dtype=np.float64)
    return Stored(rows, outcomes) if isinstance(rows, np.memmap) else _packed(rows, outcomes)


def _packed(rows: np.ndarray, outcomes: np.ndarray) -> Tiles:
    count, features = rows.shape
    whole, number = count // TILE, -(-count // TILE)
    values, y = _aligned((number, features, TILE), rows.dtype), np.ones((number, TILE))
    values[:whole] = rows[: whole * TILE].reshape(whole, TILE, features).transpose(0, 2, 1)
    if whole < number:
        values[whole] = 0.0
        values[whole, :, : count - whole * TILE] = rows[whole * TILE :].T
    y.reshape(-1)[:count] = outcomes
    return Tiles(values, y)


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array that starts at a line of the cache, so that no load of a vector takes two."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return np.asarray(memory[start : start + size].view(dtype).reshape(shape))


def steps(
    gradient: Any, theta: np.ndarray, noise: np.ndarray, power: float, precision: float, size: float, radius: float
) -> np.ndarray:
    """Walk the Langevin chain by a gradient that is called at every step."""
    scale = math.sqrt(2 * size)
    for z in noise:
        theta = theta - size * (power * gradient(theta) + precision * theta) + scale * z
        norm = math.sqrt(float((theta * theta).sum()))
        if norm > radius:
            theta = theta * (radius / norm)
    return theta


def _total(sums: np.ndarray) -> np.ndarray:
    return sums[0].copy() if len(sums) == 1 else np.asarray(sums.sum(axis=0))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Keep the threads of a process: a fork has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="vestry-gradient")


def _numba() -> Any:
    try:
        import numba
    except ImportError:
        raise MissingExtra("the gradient of a loss on the processor", "glm") from None
    return numba


@cache
def _kernel(loss: Loss) -> Any:
    """Compile the derivative of a loss for a run of predictors, in place, as a function with an address.

    The loops below take the address, so that they are compiled once and not for every loss.
    """
    numba = _numba()
    types = numba.types
    derivative = numba.njit(loss.derivative(_arithmetic()), error_model="numpy")
    numbers = types.CPointer(types.float64)

    @numba.cfunc(types.void(numbers, numbers, types.int64), error_model="numpy")
    def kernel(eta, y, count):  # type: ignore[no-untyped-def]
        predictors, outcomes = numba.carray(eta, count), numba.carray(y, count)
        for i in range(count):
            predictors[i] = derivative(predictors[i], outcomes[i])

    return kernel


@cache
def _arithmetic() -> ModuleType:
    """Return the arithmetic of single numbers, with a tanh that loops can vectorise."""
    module = ModuleType("vectorised")
    vars(module).update({name: getattr(scalar, name) for name in scalar.__all__})
    vars(module)["tanh"] = tanh()
    return module


@cache
def tanh() -> Any:
    """Compile tanh without branches: right to 4 u for every number, NaN for NaN.

    With t = e^(-2|x|) - 1 it is -t/(2 + t). For -2|x| = k log 2 + r, |r| <= (log 2)/2, t = 2^k (e^r - 1) + (2^k - 1),
    and e^r - 1 is its Taylor polynomial of degree 13, whose remainder is below 2^-56 |r|. Beyond |x| = 22 tanh is 1 in
    doubles. Adding 1.5 * 2^52 rounds to an integer, which then stands in the lowest bits.
    """
    numba = _numba()
    c = [1 / math.factorial(k) for k in range(14)]
    c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13 = c[3:]
    power = _power_of_two()

    @numba.njit(error_model="numpy", fastmath={"contract"})
    def tanh(x):  # type: ignore[no-untyped-def]
        a = -2.0 * abs(x)
        a = -44.0 if a < -44.0 else a
        shifted = a * 1.4426950408889634 + 6755399441055744.0
        k = shifted - 6755399441055744.0
        r = (a - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
        q = ((((c13 * r + c12) * r + c11) * r + c10) * r + c9) * r + c8
        q = (((((q * r + c7) * r + c6) * r + c5) * r + c4) * r + c3) * r + 0.5
        scale = power(shifted)
        t = scale * (r + r * r * q) + (scale - 1.0)
        size = -t / (2.0 + t)
        return size if x >= 0.0 else -size

    return tanh


@cache
def _power_of_two() -> Any:
    """Compile 2^k from k + 1.5 * 2^52: its lowest bits, moved to the place of the exponent."""
    from numba.core import types
    from numba.extending import intrinsic

    def power(typing, shifted):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from llvmlite import ir

            whole, double = ir.IntType(64), ir.DoubleType()
            bits = builder.shl(builder.bitcast(arguments[0], whole), ir.Constant(whole, 52))
            one = ir.Constant(whole, 1023 << 52)
            return builder.bitcast(builder.add(bits, one), double)

        return types.float64(types.float64), generate

    return intrinsic(power)


@cache
def _calls() -> tuple[Any, Any]:
    """Compile two things that the language lacks: a call by address, and a fetch ahead of four columns of a tile."""
    from numba.core import types
    from numba.extending import intrinsic

    def data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        return context.make_array(kind)(context, builder, value).data

    def call(typing, address, eta, y, place):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from llvmlite import ir

            whole, pointer = ir.IntType(64), ir.DoubleType().as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, whole])
            function = builder.inttoptr(arguments[0], kind.as_pointer())
            start = builder.gep(data(context, builder, signature.args[2], arguments[2]), [arguments[3]])
            size = ir.Constant(whole, TILE)
            builder.call(function, [data(context, builder, signature.args[1], arguments[1]), start, size])
            return context.get_dummy_value()

        return types.void(types.int64, eta, y, types.int64), generate

    def fetch(typing, values, place):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from llvmlite import ir

            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            name = "llvm.prefetch.p0"
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            start = data(context, builder, signature.args[0], arguments[0])
            lines = 4 * TILE * (values.dtype.bitwidth // 8) // 64
            for line in range(lines):
                offset = builder.add(arguments[1], ir.Constant(ir.IntType(64), line * 4 * TILE // lines))
                target = builder.bitcast(builder.gep(start, [offset]), byte)
                builder.call(function, [target, *(ir.Constant(word, value) for value in (0, 2, 1))])
            return context.get_dummy_value()

        return types.void(values, types.int64), generate

    return intrinsic(call), intrinsic(fetch)


@cache
def _loops() -> tuple[Any, Any]:
    """Compile the sums of blocks, and the chain around them."""
    numba = _numba()
    call, fetch = _calls()
    per_block = BLOCK // TILE
    compile_sums = numba.njit(error_model="numpy", fastmath=_SUMS, nogil=True)

    @compile_sums
    def sums(values, outcomes, theta, address, out, first, last):  # type: ignore[no-untyped-def]
        number, features, _ = values.shape
        fours = features // 4 * 4
        eta = np.empty(TILE)
        for block in range(first, last):
            total = out[block]
            total[:] = 0.0
            for s in range(block * per_block, min(number, (block + 1) * per_block)):
                tile = values[s]
                eta[:] = 0.0
                for j in range(0, fours, 4):
                    a, b, c, d = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
                    for r in range(TILE):
                        eta[r] += a * tile[j, r] + b * tile[j + 1, r] + c * tile[j + 2, r] + d * tile[j + 3, r]
                for j in range(fours, features):
                    a = theta[j]
                    for r in range(TILE):
                        eta[r] += a * tile[j, r]
                call(address, eta, outcomes, s * TILE)
                for j in range(0, fours, 4):
                    # A fetch beyond the end is harmless: it is a hint.
                    fetch(values, ((s + 1) * features + j) * TILE)
                    a = b = c = d = 0.0
                    for r in range(TILE):
                        w = eta[r]
                        a += w * tile[j, r]
                        b += w * tile[j + 1, r]
                        c += w * tile[j + 2, r]
                        d += w * tile[j + 3, r]
                    total[j] += a
                    total[j + 1] += b
                    total[j + 2] += c
                    total[j + 3] += d
                for j in range(fours, features):
                    a = 0.0
                    for r in range(TILE):
                        a += eta[r] * tile[j, r]
                    total[j] += a

    @numba.njit(error_model="numpy", nogil=True)
    def steps(  # type: ignore[no-untyped-def]
        values, outcomes, theta, noise, power, precision, size, radius, address, out
    ):
        features, scale = len(theta), math.sqrt(2.0 * size)
        for t in range(len(noise)):
            sums(values, outcomes, theta, address, out, 0, len(out))
            square = 0.0
            for j in range(features):
                total = 0.0
                for block in range(len(out)):
                    total += out[block, j]
                theta[j] = theta[j] - size * (power * total + precision * theta[j]) + scale * noise[t, j]
                square += theta[j] * theta[j]
            norm = math.sqrt(square)
            if norm > radius:
                shrink = radius / norm
                for j in range(features):
                    theta[j] *= shrink

    return sums, steps
