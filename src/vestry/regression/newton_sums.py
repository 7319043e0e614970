"""What a pass of Newton's method sums over rows: in this process, or where the rows are.

Blocks of rows (`rounding_error.BLOCK`) are summed on their own, in doubles, and their gradients are added without an
error until the end: whatever the number of blocks and wherever they are, a term passes through fewer roundings than
`rounding_error.additions` counts. The gradient that proves a minimum is summed by matrix products; passes that lead to
it by loops over tiles (`newton_kernels`), or by numpy. Hessian and slopes only guide the way, and may be less exact.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from vestry.errors import MissingExtra
from vestry.regression import cpu_kernels, numpy_math
from vestry.regression.cpu import ALONE, Tiles, aligned, as_rows, cores, packed, pool
from vestry.regression.loss import Loss
from vestry.regression.newton import NewtonPoint, NewtonSums
from vestry.regression.rounding_error import BLOCK
from vestry.schema.private import Block, RemoteRows

# Of so many numbers rows are held in tiles beside the rows themselves: half a gigabyte of single precision. Hessians
# that are summed side by side have no more numbers either.
KEPT = 2**27
# What a second derivative is a difference over.
_APART = 1e-5
# Rows of a piece, which is put into tiles, and summed, at once.
_AT_ONCE = 4 * BLOCK
Slopes = Callable[[np.ndarray, np.ndarray], np.ndarray]


class RowPasses:
    """Passes over rows of a loss of one predictor.

    Parameters
    ----------
    rows
        Blocks of rows, or rows that stay where they are. Blocks of up to `KEPT` numbers are copied into tiles once,
        larger ones anew on every pass; the tiles are shared out among the processors.
    single
        Whether products of the Hessian are in single precision.
    """

    def __init__(self, loss: Loss, rows: Iterable[Block] | RemoteRows, *, features: int, single: bool = False) -> None:
        self._loss, self._features, self._single = loss, features, single
        self._rows = rows if isinstance(rows, RemoteRows) else list(rows)
        self._shares: list[list[Block]] | list[list[Tiles]] = []
        if isinstance(self._rows, list) and _compiles(loss):
            numbers = sum(len(y) for _, y in self._rows) * features
            # Each share has a Hessian of its own.
            threads = 1 if numbers < ALONE else max(1, min(cores(), KEPT // features**2))
            pieces = _pieces(self._rows)
            self._shares = _split(list(_tiles(pieces)), threads) if numbers <= KEPT else _split(list(pieces), threads)

    def newton(self, point: NewtonPoint) -> NewtonSums:
        """Return the sums of one pass."""
        function = NewtonPass(self._loss, point, single=self._single)
        sums = self._shared(function) if self._shares else self._total(function)
        size = self._features
        upper = np.triu_indices(size)
        hessian = np.zeros((size, size))
        hessian[upper] = sums[size : size + len(upper[0])]
        hessian.T[upper] = hessian[upper]
        return NewtonSums(sums[:size], hessian, sums[size + len(upper[0]) :])

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients at theta."""
        return self._total(GradientPass(self._loss, theta))

    def _shared(self, function: NewtonPass) -> np.ndarray:
        """Return the sums over rows in memory, each share in a thread of its own."""
        if len(self._shares) == 1:
            return function.over(self._shares[0])
        parts = pool(os.getpid(), len(self._shares)).map(function.over, self._shares)
        return _added(list(parts), self._features)

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
        """Return the sums over blocks of rows: compiled, or by numpy where there is no compiler."""
        return self.over(_pieces(blocks)) if _compiles(self.loss) else self._by_numpy(blocks)

    def over(self, pieces: Iterable[Block | Tiles]) -> np.ndarray:
        """Return the sums over pieces of blocks, which may be in tiles already."""
        from vestry.regression.newton_kernels import STRIP, TILE, sums

        point, size = self.point, len(self.point.theta)
        # Copies, since loops are compiled anew for arrays that cannot be written to.
        line = np.array(point.theta), np.array(point.direction), np.array(point.offsets)
        whole = -(-size // STRIP) * STRIP
        gradients, hessian, along = [], np.zeros((whole, whole)), np.zeros(len(point.offsets))
        root = aligned((whole, TILE), np.dtype(self._kind))
        root[size:] = 0.0
        address = cpu_kernels.derivatives(self.loss).address
        for each in _tiles(pieces):
            part = np.zeros((each.sums, size))
            sums(each.values, each.outcomes, *line, _APART, address, BLOCK // TILE, root, part, hessian, along)
            gradients += list(part)
        return self._joined(gradients, hessian[:size, :size].T, along)

    def _by_numpy(self, blocks: Iterator[Block]) -> np.ndarray:
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
            root = stored.astype(self._kind, copy=False) * weights.astype(self._kind)[:, None]
            hessian += root.T @ root
        return self._joined(gradients, hessian, along)

    @property
    def _kind(self) -> type:
        return np.float32 if self.single else np.float64

    def _joined(self, gradients: list[np.ndarray], hessian: np.ndarray, along: np.ndarray) -> np.ndarray:
        size = len(self.point.theta)
        return np.concatenate([_added(gradients or [np.zeros(size)], size), hessian[np.triu_indices(size)], along])


def _compiles(loss: Loss) -> bool:
    """Say whether there is a compiler."""
    try:
        cpu_kernels.derivatives(loss)
    except MissingExtra:
        return False
    return True


def _pieces(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks in pieces that are put into tiles at once."""
    for rows, outcomes in blocks:
        for first in range(0, len(outcomes), _AT_ONCE):
            yield rows[first : first + _AT_ONCE], outcomes[first : first + _AT_ONCE]


def _tiles(pieces: Iterable[Block | Tiles]) -> Iterator[Tiles]:
    """Yield pieces in tiles for the compiled sums."""
    from vestry.regression.newton_kernels import TILE

    for each in pieces:
        yield each if isinstance(each, Tiles) else packed(as_rows(each[0]), np.asarray(each[1], float), tile=TILE)


def _split(pieces: list[Any], shares: int) -> list[list[Any]]:
    """Split pieces into so many runs of nearly equal number; fewer, if there are not so many pieces."""
    count = max(1, min(shares, len(pieces)))
    ends = [len(pieces) * place // count for place in range(count + 1)]
    return [pieces[first:last] for first, last in itertools.pairwise(ends)]


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
        values = np.array(eta)
        call(values.ctypes.data, y.ctypes.data, len(values))
        return values

    return slopes
