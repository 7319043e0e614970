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
# Features of which all products are summed at once.
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
    """Add root root' below and on the diagonal, in squares of STRIP features: 16 sums of eight columns at once."""
    zero = root.dtype.type(0.0)
    for j in range(0, len(root), STRIP):
        a0, a1, a2, a3 = root[j], root[j + 1], root[j + 2], root[j + 3]
        for k in range(0, j + STRIP, STRIP):
            b0, b1, b2, b3 = root[k], root[k + 1], root[k + 2], root[k + 3]
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
            for r in range(TILE):
                a, b, c, d = a0[r], a1[r], a2[r], a3[r]
                p, q, u, v = b0[r], b1[r], b2[r], b3[r]
                s00, s01, s02, s03 = s00 + a * p, s01 + a * q, s02 + a * u, s03 + a * v
                s10, s11, s12, s13 = s10 + b * p, s11 + b * q, s12 + b * u, s13 + b * v
                s20, s21, s22, s23 = s20 + c * p, s21 + c * q, s22 + c * u, s23 + c * v
                s30, s31, s32, s33 = s30 + d * p, s31 + d * q, s32 + d * u, s33 + d * v
            add(total[j], k, s00, s01, s02, s03)
            add(total[j + 1], k, s10, s11, s12, s13)
            add(total[j + 2], k, s20, s21, s22, s23)
            add(total[j + 3], k, s30, s31, s32, s33)


@compiled
def add(row, k, a, b, c, d):  # type: ignore[no-untyped-def]
    """Add four numbers to a row, from a place on."""
    row[k] += a
    row[k + 1] += b
    row[k + 2] += c
    row[k + 3] += d
