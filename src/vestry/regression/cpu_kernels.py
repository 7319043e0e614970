"""Loops compiled for the processor by numba: the sums of blocks of rows, the chain around them, and a tanh of our own.

The derivative of a loss is compiled to a function with an address, which the loops take: they are compiled once, and
not for every loss. Every loop is over the 64 numbers of a column of a tile, so that the compiler can vectorise it.
"""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from vestry.errors import MissingExtra
from vestry.regression import numba_math
from vestry.regression.loss import Loss
from vestry.regression.rounding_error import BLOCK

# Rows of a tile.
TILE = 64
# Sums may be taken in any order and products fused; NaN and infinity keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}


def _numba() -> Any:
    try:
        import numba
    except ImportError:
        raise MissingExtra("a regression", "glm") from None
    return numba


@cache
def derivatives(loss: Loss) -> Any:
    """Compile the derivative of a loss for a run of predictors, in place, as a function with an address."""
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
    vars(module).update({name: getattr(numba_math, name) for name in numba_math.__all__})
    vars(module)["tanh"] = tanh()
    vars(module)["inner"] = _numba().njit(error_model="numpy")  # compiled code calls compiled code alone
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
def call_by_address() -> Any:
    """Compile what the language lacks: a call by address, of a derivative for a number of predictors."""
    from numba.core import types
    from numba.extending import intrinsic

    def call(typing, address, eta, y, place, size):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from llvmlite import ir

            whole, pointer = ir.IntType(64), ir.DoubleType().as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, whole])
            function = builder.inttoptr(arguments[0], kind.as_pointer())
            start = builder.gep(_data(context, builder, signature.args[2], arguments[2]), [arguments[3]])
            builder.call(function, [_data(context, builder, signature.args[1], arguments[1]), start, arguments[4]])
            return context.get_dummy_value()

        return types.void(types.int64, eta, y, types.int64, types.int64), generate

    return intrinsic(call)


@cache
def _fetch(numbers: int) -> Any:
    """Compile another thing that it lacks: a fetch ahead of so many numbers, from the one at a place on."""
    from numba.core import types
    from numba.extending import intrinsic

    def fetch(typing, values, place):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from llvmlite import ir

            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            name = "llvm.prefetch.p0"
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            start = _data(context, builder, signature.args[0], arguments[0])
            lines = max(1, numbers * (values.dtype.bitwidth // 8) // 64)
            for line in range(lines):
                offset = builder.add(arguments[1], ir.Constant(ir.IntType(64), line * numbers // lines))
                target = builder.bitcast(builder.gep(start, [offset]), byte)
                builder.call(function, [target, *(ir.Constant(word, value) for value in (0, 2, 1))])
            return context.get_dummy_value()

        return types.void(values, types.int64), generate

    return intrinsic(fetch)


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data


@cache
def block_sums() -> Any:
    """Compile the gradients of the blocks from the first to the last, each summed on its own."""
    call, fetch = call_by_address(), _fetch(4 * TILE)
    per_block = BLOCK // TILE

    @_numba().njit(error_model="numpy", fastmath=SUMS, nogil=True)
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
                call(address, eta, outcomes, s * TILE, TILE)
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

    return sums


@cache
def coordinates() -> Any:
    """Compile updates of one record of the dual after another, in a given order, in place (see `ascent`).

    What rounding takes from theta is kept in `low`, and added with the next change: late changes are below theta's last
    digit, and there are so many that theta and the dual would part. That sum must not be reordered; a predictor's may.
    """
    numba, call, fetch, ahead = _numba(), call_by_address(), _fetch(1), 8

    @numba.njit(error_model="numpy", fastmath=SUMS)
    def dot(row, theta):  # type: ignore[no-untyped-def]
        total = 0.0
        for j in range(len(theta)):
            total += row[j] * theta[j]
        return total

    @numba.njit(error_model="numpy", nogil=True)
    def updates(  # type: ignore[no-untyped-def]
        rows, outcomes, order, dual, theta, low, share, regularisation, address
    ):
        features, steps = rows.shape[1], len(order)
        eta = np.empty(1)
        for t in range(steps):
            i = order[t]
            row = rows[i]
            soon = order[min(t + ahead, steps - 1)]
            fetch(outcomes, soon)
            fetch(dual, soon)
            for j in range(0, features, 64 // rows.itemsize):
                fetch(rows, soon * features + j)
            eta[0] = dot(row, theta)
            call(address, eta, outcomes, i, 1)
            moved = share * (-eta[0] - dual[i])
            dual[i] += moved
            change = moved / regularisation
            for j in range(features):
                more = change * row[j] + low[j]
                value = theta[j] + more
                low[j] = more - (value - theta[j])
                theta[j] = value

    return updates


@cache
def chain() -> Any:
    """Compile the Langevin chain around the sums of blocks, in place."""
    sums = block_sums()

    @_numba().njit(error_model="numpy", nogil=True)
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

    return steps
