"""What is claimed, as a profile delta(epsilon), and where on it an audit can see anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import smallest
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.pricing import event_of_guarantee
from vestry.validation import require_number

_WAYS = "an event, a guarantee such as PureDP(1), or a function from epsilon to delta"


@dataclass(frozen=True)
class Claim:
    """A bound on delta at every epsilon >= 0, for both orders of the neighbours.

    Attributes
    ----------
    profile
        From epsilon to delta.
    marks
        Epsilons that the claim names itself; an audit looks there too.
    """

    profile: Callable[[float], float]
    marks: tuple[float, ...] = ()

    @classmethod
    def of(cls, given: Any) -> Claim:
        """Read an event, a guarantee or a profile; of several, in a tuple, all are claimed at once."""
        if isinstance(given, Claim):
            return given
        if isinstance(given, tuple) and given:
            parts = [cls.of(each) for each in given]
            marks = tuple(mark for part in parts for mark in part.marks)
            return cls(lambda epsilon: min(part.delta(epsilon) for part in parts), marks)
        if isinstance(given, Guarantee):
            named = (given.epsilon,) if "epsilon" in given.names() and "order" not in given.names() else ()  # type: ignore[attr-defined]
            return cls(_priced(event_of_guarantee(given)), named)
        if isinstance(given, Event):
            return cls(_priced(given))
        if callable(given):
            return cls(given)
        raise InvalidParameter("a claim", given, _WAYS, "for example PureDP(1)")

    def delta(self, epsilon: float) -> float:
        """Return what is claimed at this epsilon, at most 1."""
        name = f"the claimed delta at epsilon {epsilon:g}"
        return min(1.0, require_number(name, self.profile(epsilon), _WAYS, least=0))

    def epsilons(self, cell: int) -> tuple[float, ...]:
        """Return where to look with so many trials in each of the four cells (two datasets, two halves).

        An event that the second dataset never showed may still have probability about 20/cell there, so beyond
        log(cell/40) nothing can be seen. Up to there most points lie where the claimed delta is above 5/cell, and the
        rest beyond, where whatever is seen refutes.
        """
        end = math.log(cell / 40)
        reach, visible = end, 5 / cell
        if self.delta(end) <= visible:
            reach = smallest(lambda x: self.delta(x) <= visible, low=1e-3, high=end, tolerance=1e-3)
        within, beyond = np.linspace(0, reach, _WITHIN), np.linspace(reach, end, _BEYOND + 1)
        named = [mark for mark in self.marks if mark < end]
        return tuple(sorted({*within.tolist(), *beyond.tolist(), *named}))


_WITHIN, _BEYOND = 24, 8


def _priced(event: Event) -> Callable[[float], float]:
    return lru_cache(maxsize=4096)(lambda epsilon: accountant.delta(event, epsilon))
