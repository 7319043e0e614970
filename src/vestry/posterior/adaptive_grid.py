"""Sums over whole numbers in one, two or three directions, or over so many of them that the sum is as good.

Nodes are placed in a window that surely holds the weights; then anew in the window that the last pass has found, denser
at its top, until the window no longer shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vestry.errors import ExtremeNumbers
from vestry.numerics import Array
from vestry.posterior.mixture import likely_places

_PASSES = 8


@dataclass(frozen=True)
class Axis:
    """Whole numbers from low to high, among which the weight is expected to be greatest at `top`."""

    low: float
    high: float
    top: float


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes, their log weights, and how many whole numbers each stands for.

    Attributes
    ----------
    axes
        The numbers along each direction.
    cells
        How many each stands for.
    logs
        The log weight of every combination, cells included.
    """

    axes: tuple[Array, ...]
    cells: tuple[Array, ...]
    logs: Array

    def flat(self, axis: int) -> Array:
        """Return one direction's number for each entry of the flattened weights."""
        return np.broadcast_to(_open(self.axes)[axis], self.logs.shape).ravel()


def find_nodes(log_weight: Callable[..., Array], axes: Sequence[Axis], *, size: int, drop: float) -> Nodes:
    """Find the nodes of a sum of exp(log_weight), at most `size` along each direction.

    Weights below e^-drop of the greatest are omitted of the window.
    """
    window = list(axes)
    for _ in range(_PASSES):
        placed = [_place(axis, size) for axis in window]
        points, cells = tuple(each for each, _ in placed), tuple(each for _, each in placed)
        logs = log_weight(*_open(points)) + sum(np.log(each) for each in _open(cells))
        narrower = _narrow(logs, points, drop)
        pairs = zip(narrower, window, strict=True)
        settled = all(
            new.high - new.low > 0.5 * (old.high - old.low) or old.high - old.low < size for new, old in pairs
        )
        if settled:
            break
        window = narrower
    return Nodes(points, cells, logs)


def _open(arrays: Sequence[Array]) -> list[Array]:
    """Give each array a direction of its own."""
    return [
        each.reshape(tuple(-1 if i == place else 1 for i in range(len(arrays)))) for place, each in enumerate(arrays)
    ]


def _narrow(logs: Array, points: Sequence[Array], drop: float) -> list[Axis]:
    if logs.size == 0:
        raise ExtremeNumbers
    best = np.unravel_index(int(np.argmax(logs)), logs.shape)
    axes = []
    for axis, each in enumerate(points):
        others = tuple(i for i in range(logs.ndim) if i != axis)
        profile = logs.max(axis=others)
        above = likely_places(profile, drop)
        low, high = each[max(above[0] - 1, 0)], each[min(above[-1] + 1, each.size - 1)]
        axes.append(Axis(float(low), float(high), float(each[best[axis]])))
    return axes


def _place(axis: Axis, size: int) -> tuple[Array, Array]:
    """List whole numbers from low to high, or so many, denser near the top; and how many each stands for."""
    first, last = np.floor(axis.low), np.ceil(axis.high)
    if last - first + 1 <= size:
        return np.arange(first, last + 1), np.ones(int(last - first) + 1)
    t = np.linspace(-1, 1, size)
    bent = 0.15 * t + 0.85 * t**3
    spread = np.where(bent < 0, axis.top - first, last - axis.top)
    points = np.unique(np.rint(np.clip(axis.top + bent * spread, first, last)))
    gaps = np.diff(points)
    return points, np.concatenate([[0.5 + gaps[0] / 2], (gaps[1:] + gaps[:-1]) / 2, [0.5 + gaps[-1] / 2]])
