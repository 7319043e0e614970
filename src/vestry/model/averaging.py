"""What a model's rows are, where they are averaged over persons, and the units of a person's weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vestry.schema.statistics import Sum, Term

# The most units of a person's weight: 10^12 persons sum below 2^62.
_MOST = 2**20
# The most steps of an interval.
_STEPS = 2**20


@dataclass(frozen=True)
class Averaged:
    """What is averaged: numbers between two ends, or the levels of a column.

    Attributes
    ----------
    terms, spans
        What a row adds, and the most that it may add, for each number; nothing for levels.
    ends
        What a row that adds 0, and one that adds the most, stands for.
    levels
        The column of levels; None for numbers.
    """

    terms: tuple[Term, ...] = ()
    spans: tuple[int, ...] = ()
    ends: tuple[float, float] = (0.0, 1.0)
    levels: str | None = None


def averaged_numbers(columns: tuple[str, ...], low: float, high: float, *, step: float = 0.0) -> Averaged:
    """Average numbers of columns with one interval, in steps of at least so much."""
    grid = max((high - low) / _STEPS, step)
    terms = tuple(Sum(column, low, grid) for column in columns)
    return Averaged(terms, (math.ceil((high - low) / grid),) * len(columns), (low, high))


def person_units(rows: int) -> int:
    """Return in how many units the weight of a person with at most so many rows is counted.

    A multiple of the square of L = lcm(1 ... rows), so that products of weights are whole; where that is too large, of
    L, so that weights are; else 2^20, and weights are rounded down.
    """
    least = 1
    for number in range(2, rows + 1):
        least = math.lcm(least, number)
        if least > _MOST:
            return _MOST
    step = least**2 if least**2 <= _MOST else least
    return _MOST // step * step
