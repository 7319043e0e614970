"""Loops compiled for a pass of Newton's method: every tile of rows is read from memory once.

A tile holds TILE rows side by side, each feature in one piece. While it is in the cache it gives its predictors, their
slopes at the point and along the line, and its share of the gradient and of the Hessian. The derivative of the loss is
called by its address (`cpu_kernels`), so that these loops are compiled once and not for every loss. This file needs
numba, and is imported where there is one.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from vestry.regression.cpu_kernels import SUMS, call_by_address

# Rows of a tile: enough for long sums, and few enough that a tile of 100 features stays in the cache.
TILE = 256
# Features are taken four at a time.
STRIP = 4

# Machine code that is kept does not see a change of this one, which is in another file.
_call = call_by_address()


def compiled(function: Any) -> Any:
    """Compile, and keep the machine code for the next process where there is a place for it."""
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": SUMS}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither beside this file nor in the user's cache
        return numba.njit(**options)(function)


@compiled
def sums(  # type: ignore[no-untyped-def]
    values, outcomes, theta, direction, offsets, apart, address, per_sum, root, gradients, hessian, along
):
    """Add the sums over tiles (number, features, TILE) and their outcomes (number, TILE) to the last three, in place.

    `gradients` has a row for each `per_sum` tiles; `hessian` is added to below and on its diagonal, by second
    differences over `apart`; `along` has the slopes at the offsets, and is left as it is where the direction is 0.
    `root` is for work: a multiple of STRIP features by TILE, zero beyond the features, of the precision that the
    Hessian's products shall have.
    """
    eta, z, slope, other = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    line = direction.any()
    for s in range(len(values)):
        tile, start = values[s], s * TILE
        predict(tile, theta, direction, eta, z)
        slope[:] = eta
        _call(address, slope, outcomes, start, TILE)
        collect(tile, slope, gradients[s // per_sum])
        if line:
            for k in range(len(offsets)):
                for r in range(TILE):
                    other[r] = eta[r] + offsets[k] * z[r]
                _call(address, other, outcomes, start, TILE)
                total = 0.0
                for r in range(TILE):
                    total += other[r] * z[r]
                along[k] += total
        for r in range(TILE):
            other[r] = eta[r] + apart
        _call(address, other, outcomes, start, TILE)
        for r in range(TILE):
            other[r] = math.sqrt(max(other[r] - slope[r], 0.0) / apart)
        for j in range(len(theta)):
            for r in range(TILE):
                root[j, r] = tile[j, r] * other[r]
        square(root, hessian)


@compiled
def predict(tile, theta, direction, eta, z):  # type: ignore[no-untyped-def]
    """Set the predictors of a tile, and what the direction adds to them."""
    eta[:] = 0.0
    z[:] = 0.0
    fours = len(theta) // 4 * 4
    for j in range(0, fours, 4):
        a, b, c, d = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
        e, f, g, h = direction[j], direction[j + 1], direction[j + 2], direction[j + 3]
        for r in range(TILE):
            p, q, u, v = tile[j, r], tile[j + 1, r], tile[j + 2, r], tile[j + 3, r]
            eta[r] += a * p + b * q + c * u + d * v
            z[r] += e * p + f * q + g * u + h * v
    for j in range(fours, len(theta)):
        a, e = theta[j], direction[j]
        for r in range(TILE):
            eta[r] += a * tile[j, r]
            z[r] += e * tile[j, r]


@compiled
def collect(tile, slope, total):  # type: ignore[no-untyped-def]
    """Add the gradient of a tile, from its slopes."""
    fours = len(total) // 4 * 4
    for j in range(0, fours, 4):
        a = b = c = d = 0.0
        for r in range(TILE):
            w = slope[r]
            a += w * tile[j, r]
            b += w * tile[j + 1, r]
            c += w * tile[j + 2, r]
            d += w * tile[j + 3, r]
        total[j] += a
        total[j + 1] += b
        total[j + 2] += c
        total[j + 3] += d
    for j in range(fours, len(total)):
        a = 0.0
        for r in range(TILE):
            a += slope[r] * tile[j, r]
        total[j] += a


@compiled
def square(root, total):  # type: ignore[no-untyped-def]
    """Add root root' below and on the diagonal, four features by two at once.

    So many sums, and what they are made of, are in registers: of 16 with AVX2, where four by four take a third longer.
    """
    zero = root.dtype.type(0.0)
    for j in range(0, len(root), STRIP):
        a, b, c, d = root[j], root[j + 1], root[j + 2], root[j + 3]
        for k in range(0, j + STRIP, 2):
            p, q = root[k], root[k + 1]
            ap = bp = cp = dp = aq = bq = cq = dq = zero
            for r in range(TILE):
                ap += a[r] * p[r]
                bp += b[r] * p[r]
                cp += c[r] * p[r]
                dp += d[r] * p[r]
                aq += a[r] * q[r]
                bq += b[r] * q[r]
                cq += c[r] * q[r]
                dq += d[r] * q[r]
            total[j, k] += ap
            total[j + 1, k] += bp
            total[j + 2, k] += cp
            total[j + 3, k] += dp
            total[j, k + 1] += aq
            total[j + 1, k + 1] += bq
            total[j + 2, k + 1] += cq
            total[j + 3, k + 1] += dq
