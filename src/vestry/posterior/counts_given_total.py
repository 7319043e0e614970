"""Independent counts whose total is known: the distribution of each, and joint draws, from a tree of convolutions.

The leaves are distributions on the integers; each node holds the distribution of the sum of the leaves below it.
Upwards the tree gives the distribution of the total; downwards, the distribution of the sum of all leaves but one; and
a draw splits the total at each node between its two halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft, next_fast_len, rfft

from vestry.numerics import Array

Integers = npt.NDArray[np.int64]

# Beyond this many products a convolution goes through the Fourier transform, which keeps 1e-16 of the greatest value.
_DIRECT = 200_000
_FLOOR = 1e-18
_FOURIER_FLOOR = 1e-15
# A draw that was refused so often is made by listing all its values.
_ROUNDS = 24
_LISTED = 1 << 21


@dataclass(frozen=True, eq=False)
class Measure:
    """Weights on consecutive integers.

    Attributes
    ----------
    start
        The first integer.
    table
        The weight of it and of those that follow.
    """

    start: int
    table: Array

    def at(self, integers: Integers) -> Array:
        """Return the weight of each integer; 0 outside."""
        place = integers - self.start
        inside = (place >= 0) & (place < self.table.size)
        return np.where(inside, self.table[np.where(inside, place, 0)], 0.0)

    def cut(self, low: int, high: int) -> Measure:
        """Keep the integers from low to high; at least one, of weight 0, remains."""
        first, last = max(low - self.start, 0), high - self.start + 1
        table = self.table[first : max(last, 0)]
        return Measure(self.start + first, table) if table.size else Measure(low, np.zeros(1))


def convolve(left: Measure, right: Measure) -> Measure:
    """Return the distribution of the sum, less its negligible ends."""
    sizes = left.table.size, right.table.size
    floor = _FLOOR
    if sizes[0] * sizes[1] <= _DIRECT:
        table = np.convolve(left.table, right.table)
    else:
        length, floor = sum(sizes) - 1, _FOURIER_FLOOR
        fast = next_fast_len(length, real=True)
        table = np.maximum(irfft(rfft(left.table, fast) * rfft(right.table, fast), fast)[:length], 0.0)
    above = np.flatnonzero(table > floor * table.max())
    if above.size == 0:
        return Measure(left.start + right.start, np.zeros(1))
    return Measure(left.start + right.start + int(above[0]), table[above[0] : above[-1] + 1])


@dataclass(frozen=True, eq=False)
class Node:
    """The sum of leaves first ... last - 1."""

    first: int
    last: int
    measure: Measure
    halves: tuple[Node, Node] | None = None


def tree(leaves: Sequence[Measure], first: int = 0) -> Node:
    """Build the tree over the leaves."""
    if len(leaves) == 1:
        return Node(first, first + 1, leaves[0])
    half = len(leaves) // 2
    left, right = tree(leaves[:half], first), tree(leaves[half:], first + half)
    return Node(first, first + len(leaves), convolve(left.measure, right.measure), (left, right))


def others(root: Node, total: Measure) -> list[Measure]:
    """Return for each leaf the weight that the other leaves and the total give to each value of it.

    For a leaf's value v it is sum over t of total(t) P(others = t - v), so that the leaf's distribution given the total
    is its own distribution times this.
    """
    weights: list[Measure] = []

    def descend(node: Node, weight: Measure) -> None:
        if node.halves is None:
            weights.append(weight)
            return
        left, right = node.halves
        for one, other in ((left, right), (right, left)):
            low, high = one.measure.start, one.measure.start + one.measure.table.size - 1
            descend(one, convolve(weight, _mirror(other.measure)).cut(low, high))

    descend(root, total)
    return weights


def split(root: Node, totals: Integers, rng: np.random.Generator) -> Integers:
    """Draw the leaves given their total, once for each total; one draw per row."""
    leaves = np.empty((totals.size, root.last - root.first), dtype=np.int64)

    def descend(node: Node, sums: Integers) -> None:
        if node.halves is None:
            leaves[:, node.first] = sums
            return
        left, right = node.halves
        part = _draw_half(left.measure, right.measure, sums, rng)
        descend(left, part)
        descend(right, sums - part)

    descend(root, totals)
    return leaves


def _mirror(measure: Measure) -> Measure:
    return Measure(-(measure.start + measure.table.size - 1), measure.table[::-1])


def _draw_half(left: Measure, right: Measure, sums: Integers, rng: np.random.Generator) -> Integers:
    """Draw x with weight left(x) right(sum - x): propose from the left, accept by the right; list what remains."""
    part = np.empty(sums.size, dtype=np.int64)
    ladder, top = np.cumsum(left.table), right.table.max()
    active = np.arange(sums.size)
    for _ in range(_ROUNDS):
        step = np.searchsorted(ladder, rng.random(active.size) * ladder[-1], side="right")
        proposed = left.start + np.minimum(step, ladder.size - 1)
        taken = rng.random(active.size) * top < right.at(sums[active] - proposed)
        part[active[taken]] = proposed[taken]
        active = active[~taken]
        if active.size == 0:
            return part
    part[active] = _draw_listed(left, right, sums[active], rng.random(active.size))
    return part


def _draw_listed(left: Measure, right: Measure, sums: Integers, marks: Array) -> Integers:
    """Draw the same by listing the weights of every x, once for each different sum."""
    values = left.start + np.arange(left.table.size)
    order = np.argsort(sums, kind="stable")
    different, starts = np.unique(sums[order], return_index=True)
    alike = np.split(order, starts[1:])
    part, rows = np.empty(sums.size, dtype=np.int64), max(1, _LISTED // values.size)
    for first in range(0, different.size, rows):
        some = different[first : first + rows]
        ladders = np.cumsum(left.table * right.at(some[:, None] - values), axis=1)
        for ladder, at in zip(ladders, alike[first : first + rows], strict=True):
            place = np.searchsorted(ladder, marks[at] * ladder[-1], side="right")
            part[at] = values[np.minimum(place, values.size - 1)]
    return part
