"""Rows in one piece, so that any of them can be taken at random: updates of a dual, and the gradient they lead to."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.regression import cpu_kernels
from vestry.regression.cpu import as_rows
from vestry.regression.gradient import join_blocks
from vestry.regression.loss import Loss
from vestry.regression.rounding_error import BLOCK


class Rows:
    """The rows and outcomes of all blocks, float32 or float64; one block that is in one piece is not copied.

    Where there are none, there is one of zeros, which adds nothing.
    """

    def __init__(self, loss: Loss, blocks: Iterable[tuple[Any, Any]]) -> None:
        pieces = [(as_rows(rows), np.asarray(y, dtype=np.float64)) for rows, y in join_blocks(blocks)]
        if not any(len(y) for _, y in pieces):
            pieces = [(np.zeros((1, *pieces[0][0].shape[1:])), np.ones(1))]
        self._values = np.ascontiguousarray(_joined([rows for rows, _ in pieces]))
        self._outcomes = np.ascontiguousarray(_joined([y for _, y in pieces]))
        self._derivatives, self._updates = cpu_kernels.derivatives(loss), cpu_kernels.coordinates()

    def __len__(self) -> int:
        return len(self._values)

    def update(
        self, order: np.ndarray, dual: np.ndarray, theta: np.ndarray, low: np.ndarray, *, share: float, lam: float
    ) -> None:
        """Move the dual numbers of rows, in this order, and theta with them, in place: see `vestry.regression.sdca`.

        The derivative phi' is of one predictor. For each row i, a_i moves the share of the way to -phi'(x_i . theta),
        and theta by x_i/lam times what a_i moved; `low` is what rounding has taken from theta so far.
        """
        # The loop does not look.
        if dual.shape != self._outcomes.shape or not theta.shape == low.shape == self._values.shape[1:]:
            raise InvalidParameter("theta", theta.shape, "as long as a row, and one dual number per row", "zeros")
        self._updates(self._values, self._outcomes, order, dual, theta, low, share, lam, self._derivatives.address)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients at theta: matrix products in doubles, over blocks of rows."""
        total = np.zeros(self._values.shape[1])
        for first in range(0, len(self), BLOCK):
            part = np.asarray(self._values[first : first + BLOCK], dtype=np.float64)
            eta = part @ theta
            self._derivatives.ctypes(_start(eta), _start(self._outcomes[first : first + BLOCK]), len(eta))
            total += eta @ part
        return total


def _start(numbers: np.ndarray) -> Any:
    return numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
