"""What a pass of Newton's method sums over rows: in this process, or where the rows are.

Blocks of rows (`rounding_error.BLOCK`) are summed on their own, by matrix products in doubles, and their gradients are
added without an error until the end: whatever the number of blocks and wherever they are, a term passes through fewer
roundings than `rounding_error.additions` counts. Hessian and slopes only guide the way, and may be less exact.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from vestry.errors import MissingExtra
from vestry.regression import cpu_kernels, numpy_math
from vestry.regression.loss import Loss
from vestry.regression.newton import NewtonPoint, NewtonSums
from vestry.regression.rounding_error import BLOCK
from vestry.schema.private import Block, RemoteRows

# What a second derivative is a difference over.
_APART = 1e-5
Slopes = Callable[[np.ndarray, np.ndarray], np.ndarray]


class RowPasses:
    """Passes over rows of a loss of one predictor.

    Parameters
    ----------
    rows
        Blocks of rows, which are not copied, or rows that stay where they are.
    single
        Whether products of the Hessian are in single precision.
    """

    def __init__(self, loss: Loss, rows: Iterable[Block] | RemoteRows, *, features: int, single: bool = False) -> None:
        self._loss, self._features, self._single = loss, features, single
        self._rows = rows if isinstance(rows, RemoteRows) else list(rows)

    def newton(self, point: NewtonPoint) -> NewtonSums:
        """Return the sums of one pass."""
        found = self._total(NewtonPass(self._loss, point, single=self._single))
        size = self._features
        upper = np.triu_indices(size)
        hessian = np.zeros((size, size))
        hessian[upper] = found[size : size + len(upper[0])]
        hessian.T[upper] = hessian[upper]
        return NewtonSums(found[:size], hessian, found[size + len(upper[0]) :])

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients at theta."""
        return self._total(GradientPass(self._loss, theta))

    def _total(self, function: NewtonPass | GradientPass) -> np.ndarray:
        if isinstance(self._rows, RemoteRows):
            return _added(self._rows.sums(function), self._features)
        return function(iter(self._rows))


@dataclass(frozen=True)
class GradientPass:
    """The sum of the gradients over rows that come in blocks; it can be sent to where they are."""

    loss: Loss
    theta: np.ndarray

    def __call__(self, blocks: Iterator[Block]) -> np.ndarray:
        """Return the gradient."""
        slopes = slopes_of(self.loss)
        parts = [slopes(part @ self.theta, y) @ part for part, _, y in _parts(blocks)]
        return _added(parts or [np.zeros(len(self.theta))], len(self.theta))


@dataclass(frozen=True)
class NewtonPass:
    """The sums of a pass of Newton's method, in one array: gradient, upper triangle of the Hessian, slopes."""

    loss: Loss
    point: NewtonPoint
    single: bool = False

    def __call__(self, blocks: Iterator[Block]) -> np.ndarray:
        """Return the sums."""
        slopes, point = slopes_of(self.loss), self.point
        size, both = len(point.theta), np.column_stack([point.theta, point.direction])
        gradients, hessian, along = [], np.zeros((size, size)), np.zeros(len(point.offsets))
        for part, stored, y in _parts(blocks):
            eta, z = np.ascontiguousarray((part @ both).T)
            slope = slopes(eta, y)
            gradients.append(slope @ part)
            if point.direction.any():
                along += [slopes(eta + offset * z, y) @ z for offset in point.offsets]
            weights = np.sqrt(np.maximum(slopes(eta + _APART, y) - slope, 0.0) / _APART)
            kind = np.float32 if self.single else np.float64
            root = (stored if self.single else part).astype(kind, copy=False) * weights.astype(kind)[:, None]
            hessian += root.T @ root
        gradient = _added(gradients or [np.zeros(size)], size)
        return np.concatenate([gradient, hessian[np.triu_indices(size)], along])


def _parts(blocks: Iterator[Block]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield parts of BLOCK rows: in doubles, as they are, and their outcomes."""
    for rows, outcomes in blocks:
        y = np.ascontiguousarray(outcomes, dtype=np.float64)
        for first in range(0, len(y), BLOCK):
            stored = np.asarray(rows[first : first + BLOCK])
            yield np.asarray(stored, dtype=np.float64), stored, y[first : first + BLOCK]


def _added(sums: list[np.ndarray], exactly: int) -> np.ndarray:
    """Add arrays: their first numbers, so many, with one rounding in all."""
    table = np.array(sums)
    total = table.sum(axis=0)
    total[:exactly] = [math.fsum(column) for column in table[:, :exactly].T]
    return np.asarray(total)


@cache
def slopes_of(loss: Loss) -> Slopes:
    """Return phi' over arrays of predictors and outcomes: compiled, or by numpy where there is no compiler."""
    try:
        kernel = cpu_kernels.derivatives(loss)
    except MissingExtra:
        return loss.derivative(numpy_math)

    address = ctypes.c_void_p
    call = ctypes.CFUNCTYPE(None, address, address, ctypes.c_int64)(kernel.address)

    def slopes(eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        found = np.array(eta)
        call(found.ctypes.data, y.ctypes.data, len(found))
        return found

    return slopes
