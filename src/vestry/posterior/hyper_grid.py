"""Quadrature over a few hyperparameters: a grid of cells that follows the density until no cell is heavy.

The rule is the midpoint rule on a box in coordinates t with x = centre + S t, S unit lower triangular. Inside the box
it converges faster than any power of the cell's width for a density that is smooth and falls off on all sides, and at
a bound of the first coordinate, where the density may be cut off, like the square of the width. Each round keeps what
is within `drop` of the top, takes S from the regression of each coordinate on those before it, and draws a new box
around what was kept; so narrow and slanted densities are met as well as wide ones. It is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from vestry.numerics import Array

# A node stands for what is within e^-DROP of the greatest density.
DROP = 10.0
# No cell holds more than this share.
SHARE = 0.05
_ROUNDS = 20
# While cells are wide the top may lie between nodes: so much of the greatest step beside it is allowed for.
_DOUBT = 0.5
# A box that a round leaves this wide is the last one; its cells become so much finer while one of them is heavy, but
# they are not refined beyond this number.
_SETTLED, _FINER, _NODES = 0.6, 1.3, 30_000
# Cells that are wider than the density know little of its width: at most so many times as many in the next round.
_MORE = 4
# No cell of the last box is wider than this part of a standard deviation.
WIDEST = 0.5
# What lies below this share of the whole is omitted.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class HyperGrid:
    """Weighted nodes that stand for the density of the hyperparameters.

    Attributes
    ----------
    points
        One row per node, one column per coordinate.
    weights
        They sum to 1.
    log_total
        The logarithm of the integral of the density.
    heaviest
        The largest share of one cell, before negligible ones were omitted.
    """

    points: Array
    weights: Array
    log_total: float
    heaviest: float

    def systematic(self, size: int, start: float) -> Array:
        """Return `size` places of nodes, each node as often as its weight says to within one."""
        marks = (np.arange(size) + start) / size
        ladder = np.cumsum(self.weights)
        places = np.searchsorted(ladder / ladder[-1], marks, side="right")
        return np.minimum(places, self.weights.size - 1)


@dataclass(frozen=True, eq=False)
class _Box:
    centre: Array
    shear: Array
    low: Array
    high: Array

    def axes(self, sizes: Sequence[int]) -> tuple[list[Array], Array]:
        """Return the midpoints of the cells along each direction, and the cells' widths."""
        widths = (self.high - self.low) / np.asarray(sizes)
        return [self.low[i] + widths[i] * (np.arange(size) + 0.5) for i, size in enumerate(sizes)], widths

    def coordinates(self, axes: Sequence[Array]) -> list[Array]:
        """Return x_i at every node; it depends on the first i + 1 directions alone and has so many axes."""
        values = []
        for i in range(len(axes)):
            value = np.full((1,) * (i + 1), self.centre[i])
            for j in range(i + 1):
                value = value + self.shear[i, j] * axes[j].reshape([-1 if k == j else 1 for k in range(i + 1)])
            values.append(value)
        return values


def integrate(
    log_density: Callable[..., Array],
    low: Sequence[float],
    high: Sequence[float],
    *,
    sizes: Sequence[int],
    widest: float = WIDEST,
) -> HyperGrid:
    """Return nodes and weights of a density over a box of hyperparameters.

    Parameters
    ----------
    log_density
        Given x_1 of shape (n_1,), x_2 of shape (n_1, n_2) and so on, the log density at every node, of the shape of
        the last. It may be minus infinity.
    low, high
        Beyond these ends the density is 0. Only the first coordinate's may cut off what matters.
    sizes
        Cells along each direction, at first.
    widest
        No cell of the last box is wider than this part of a standard deviation.
    """
    first, last = np.asarray(low, float), np.asarray(high, float)
    centre = (first + last) / 2
    box = _Box(centre, np.eye(centre.size), first - centre, last - centre)
    for _ in range(_ROUNDS):
        axes, widths = box.axes(sizes)
        points, logs = _evaluate(log_density, box, axes, first, last)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        doubt = _DOUBT * _steps(logs)
        narrower = _around(box, points, weights, logs > logs.max() - DROP - doubt, widths, first, last)
        before, after = box.high - box.low, narrower.high - narrower.low
        if doubt < DROP and np.all(after > _SETTLED * before):
            needed = _needed(box, points, weights, sizes, widest)
            if (weights.max() < SHARE and needed == list(sizes)) or weights.size > _NODES:
                break
            sizes = needed if needed != list(sizes) else [int(np.ceil(_FINER * each)) for each in sizes]
        box = narrower
    total = float(logsumexp(logs) + np.log(widths).sum())
    heaviest = float(weights.max())
    weights, points = weights.ravel(), points.reshape(-1, centre.size)
    nodes = weights > _NEGLIGIBLE
    return HyperGrid(points[nodes], weights[nodes] / weights[nodes].sum(), total, heaviest)


def _evaluate(
    log_density: Callable[..., Array], box: _Box, axes: Sequence[Array], first: Array, last: Array
) -> tuple[Array, Array]:
    coordinates = box.coordinates(axes)
    shape = coordinates[-1].shape
    spread = [each.reshape(each.shape + (1,) * (len(shape) - each.ndim)) for each in coordinates]
    points = np.stack([np.broadcast_to(each, shape) for each in spread], axis=-1)
    inside = np.all((points >= first) & (points <= last), axis=-1)
    clipped = [np.clip(each, first[i], last[i]) for i, each in enumerate(coordinates)]
    logs = np.where(inside, log_density(*clipped), -np.inf)
    return points, np.where(np.isnan(logs), -np.inf, logs)


def _steps(logs: Array) -> float:
    """Return the smallest fall, over directions, from the top to its higher finite neighbour; the largest of those."""
    top = np.unravel_index(int(np.argmax(logs)), logs.shape)
    falls = [0.0]
    for axis in range(logs.ndim):
        line = logs[tuple(slice(None) if i == axis else place for i, place in enumerate(top))]
        beside = [line[place] for place in (top[axis] - 1, top[axis] + 1) if 0 <= place < line.size]
        finite = [float(logs[top] - each) for each in beside if np.isfinite(each)]
        falls.append(min(finite) if finite else 50.0)
    return max(falls)


def _needed(box: _Box, points: Array, weights: Array, sizes: Sequence[int], widest: float) -> list[int]:
    """Return sizes at which each direction's cells are at most `widest` of its standard deviation wide."""
    turned = np.linalg.solve(box.shear, (points.reshape(-1, len(sizes)) - box.centre).T)
    share = weights.ravel()
    mean = turned @ share
    deviation = np.sqrt((turned - mean[:, None]) ** 2 @ share)
    with np.errstate(divide="ignore"):
        wanted = np.ceil((box.high - box.low) / (widest * deviation))
    return [int(np.clip(each, size, _MORE * size)) for size, each in zip(sizes, wanted, strict=True)]


def _around(
    box: _Box, points: Array, weights: Array, nodes: np.ndarray, widths: Array, first: Array, last: Array
) -> _Box:
    """Return a box around the nodes that were kept, a cell wider on each side, slanted as the weights are."""
    size = first.size
    flat, share = points.reshape(-1, size), weights.ravel()
    centre = share @ flat
    cells = box.shear * widths
    covariance = (flat - centre).T @ ((flat - centre) * share[:, None]) + cells @ cells.T / 12
    triangle = np.linalg.cholesky(covariance)
    shear = triangle / np.diag(triangle)
    turned = np.linalg.solve(shear, (flat[nodes.ravel()] - centre).T)
    reach = np.abs(np.linalg.solve(shear, cells)).sum(axis=1)
    low, high = turned.min(axis=1) - reach, turned.max(axis=1) + reach
    low[0], high[0] = max(low[0], first[0] - centre[0]), min(high[0], last[0] - centre[0])
    return _Box(centre, shear, low, high)
