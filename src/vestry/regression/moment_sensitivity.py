"""How far one record moves the sums of products of its columns, exactly: the largest l1 and squared l2 distances.

A record has q numbers in [-1, 1], the outcome among them, and b columns of levels, coded by indicators of every level
but the first. It adds its numbers, their squares and products, its indicators, the products of indicators of two
columns and of an indicator with a number; and 1, where the number of records is private. Left out is what says nothing
new: an indicator's square is the indicator, and two indicators of one column are never 1 together.

Added or removed. No entry is larger than 1, and at a corner with no first level all that can be 1 are:

    l1 = l2^2 = m (m + 1)/2 - b,    m = 1 + b + q,    whatever the number of levels.

Replaced. Write x = a + c, x' = a - c with |a_j| + |c_j| <= 1. Every term grows with |a_j|, so x_j = 1 and
x'_j = 1 - 2 c_j, 0 <= c_j <= 1. Let C columns of three or more levels change from one indicator to another, T columns
of two levels from an indicator to none, all in the same direction, and s keep an indicator. A pair of columns of levels
then differs by 0 if both stay, by 1 if one of the T is in it, and else by 2. With B = sum of c_j and Q = sum of c_j^2,

    l1 = blocks + (2 q + 4) B - 2 B^2 - 2 Q + C sum (1 + |1 - 2 c_j|) + T q + 2 s B,

    l2^2 = max over k of  blocks + 4 k (q - k + 1) + q (2 C + T) + 4 k s.

The first is concave where each c_j stays on its side of 1/2, and symmetric: m of the numbers at g <= 1/2, the others at
h >= 1/2. For the second, 4 c^2 (1 - c)^2 <= c (1 - c) and (c_i + c_j - 2 c_i c_j)^2 <= c_i + c_j - 2 c_i c_j bound it
by what is linear in each c_j, so its maximum is at a corner, where k numbers go from 1 to -1 and the bound is attained.
Squares are free: without them l2 is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Change:
    """The replaced record that moves the sums farthest, and how far.

    Attributes
    ----------
    distance
        l1, or l2 squared.
    jumps, drops, stays
        How many columns of levels change to another indicator (three or more levels), lose theirs (two levels), or
        keep it.
    numbers
        Where each number goes from 1.
    """

    distance: Fraction
    jumps: int
    drops: int
    stays: int
    numbers: tuple[Fraction, ...]


def added(numbers: int, blocks: int) -> int:
    """Return l1 = l2^2 of a record that is added or removed, the count included."""
    columns = 1 + blocks + numbers
    return columns * (columns + 1) // 2 - blocks


def rounded(numbers: int, blocks: int) -> int:
    """Return how many entries of one record are rounded to the grid: those with a number in them."""
    return numbers + numbers * (numbers + 1) // 2 + numbers * blocks


def replaced_l1(numbers: int, two: int, more: int) -> Change:
    """Return the largest l1 distance of two records, the count not included.

    Parameters
    ----------
    numbers
        How many columns are numbers.
    two, more
        How many have two levels, and three or more.
    """
    changes = (
        Change(_blocks(jumps, drops, stays) + drops * numbers + distance, jumps, drops, stays, places)
        for jumps, drops, stays in _moves(two, more)
        for distance, places in _concave(numbers, jumps, stays)
    )
    return max(changes, key=lambda each: each.distance)


def replaced_l2(numbers: int, two: int, more: int) -> Change:
    """Return the largest squared l2 distance of two records, the count not included."""
    changes = (
        Change(
            Fraction(_blocks(jumps, drops, stays) + numbers * (2 * jumps + drops) + 4 * k * (numbers - k + 1 + stays)),
            jumps,
            drops,
            stays,
            (Fraction(-1),) * k + (Fraction(1),) * (numbers - k),
        )
        for jumps, drops, stays in _moves(two, more)
        for k in range(numbers + 1)
    )
    return max(changes, key=lambda each: each.distance)


def _moves(two: int, more: int) -> Iterator[tuple[int, int, int]]:
    """List how many columns of levels jump, drop and stay."""
    for jumps, drops in product(range(more + 1), range(two + 1)):
        yield jumps, drops, two + more - jumps - drops


def _blocks(jumps: int, drops: int, stays: int) -> int:
    """Return how many entries of indicators alone differ, each by 1."""
    of_drops = drops * (drops - 1) // 2 + drops * (jumps + stays)
    return 2 * jumps + drops + jumps * (jumps - 1) + 2 * jumps * stays + of_drops


def _concave(q: int, jumps: int, stays: int) -> Iterator[tuple[Fraction, tuple[Fraction, ...]]]:
    """Yield stationary values of the numbers' part of l1, each side of 1/2 inside its ends or at one of them."""
    for near in range(q + 1):
        for g, h in _stationary(q, near, q - near, jumps, stays):
            if not (0 <= g <= _HALF <= h <= 1):
                continue
            places = (1 - 2 * g,) * near + (1 - 2 * h,) * (q - near)
            total = near * g + (q - near) * h
            squares = near * g * g + (q - near) * h * h
            value = (2 * q + 4 + 2 * stays) * total - 2 * total**2 - 2 * squares
            yield value + jumps * (q + sum(abs(place) for place in places)), places


def _stationary(q: int, near: int, far: int, jumps: int, stays: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Solve slope + w = 4 B + 4 c for those that lie inside, with the others at an end; w is -2 C or 2 C."""
    slope, pull = Fraction(2 * q + 4 + 2 * stays), Fraction(2 * jumps)
    for g, h in product((Fraction(0), _HALF), (_HALF, Fraction(1))):
        yield g, h
        yield (slope - pull - 4 * far * h) / (4 * (near + 1)), h
        yield g, (slope + pull - 4 * near * g) / (4 * (far + 1))
    low, high = (slope - pull) / 4, (slope + pull) / 4  # c + B on each side
    total = (near * low + far * high) / (1 + q)
    yield low - total, high - total
