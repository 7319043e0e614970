"""Newton's method with a line search, in a number of passes over the records that is public.

It minimises F(theta) = sum phi_i(x_i . theta) + (lam/2)|theta|^2 + b . theta. A pass at a point has the gradient and
the Hessian there, and, along the line on which the point was found, the slope of F at a few other places. F is convex,
so where that slope changes its sign the line has its lowest point. Where that is near the point, the next step is
Newton's from it; otherwise the next pass is at the lowest point. So an overshoot costs one pass, however far it was.

How many passes a dataset needs is not proved: a bound for every dataset is in the thousands. Nothing rests on it. The
point of the least gradient is handed on, its gradient is computed once more in the last pass, and that proves how near
the minimum is (`certified_minimum`). Where it does not, more passes follow, and then a method whose number of passes
is proved to do. Regressions of declared columns need five to ten; `tests/regression/test_newton.py` tries hard ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Passes before the first proof, and before the second, each the last pass of its round: 16 in all, or 64.
ROUNDS = (15, 47)
PASSES = ROUNDS[0] + 1
# Where else the slope is computed, as multiples of the step.
PLACES = np.array([6.0, 1.6, 0.6, 0.2, 2.0**-6, 2.0**-14])
# Steps that are near enough to the lowest point of their line; and how often another place on it is tried.
_NEAR, _TRIES = (0.6, 1.6), 2


@dataclass(frozen=True)
class NewtonPoint:
    """Where a pass is made.

    Attributes
    ----------
    theta
        The point.
    direction
        Of the line on which it was found; 0 at the start.
    offsets
        Places on that line, from the point, in multiples of the direction.
    """

    theta: np.ndarray
    direction: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True)
class NewtonSums:
    """What a pass returns of the sum of losses: its gradient, its Hessian, and its slopes along the line."""

    gradient: np.ndarray
    hessian: np.ndarray
    slopes: np.ndarray


class NewtonSearch:
    """The method from 0, which can be continued.

    Parameters
    ----------
    sums
        A pass over the records.
    linear, regularisation
        b and lam.
    """

    def __init__(self, sums: Callable[[NewtonPoint], NewtonSums], linear: np.ndarray, *, regularisation: float) -> None:
        self._sums, self._linear, self._lam = sums, linear, regularisation
        self._base = self._direction = np.zeros_like(linear)
        self._step, self._descent, self._tries = 1.0, 0.0, 0
        self.best, self._least = self._base, np.inf

    def walk(self, passes: int) -> np.ndarray:
        """Make so many passes, and return the point of the least gradient so far."""
        for _ in range(passes):
            self._pass()
        return self.best

    def _pass(self) -> None:
        places = self._step * PLACES
        theta = self._base + self._step * self._direction
        sums = self._sums(NewtonPoint(theta, self._direction, places - self._step))
        gradient = sums.gradient + self._lam * theta + self._linear
        if (norm := float(np.linalg.norm(gradient))) < self._least:
            self.best, self._least = theta, norm
        along = self._lam * (self._base @ self._direction + places * (self._direction @ self._direction))
        slopes = [*(sums.slopes + along + self._linear @ self._direction), gradient @ self._direction]
        lowest = _crossing(self._descent, [*places, self._step], slopes)
        low, high = (share * self._step for share in _NEAR)
        if not self._direction.any() or low <= lowest <= high or self._tries == _TRIES:
            self._base, self._step, self._tries = theta, 1.0, 0
            self._direction = _newton_step(sums.hessian, gradient, self._lam)
            self._descent = float(gradient @ self._direction)
        else:
            self._step, self._tries = lowest, self._tries + 1


def _crossing(start: float, places: list[float], slopes: list[float]) -> float:
    """Return where the slope of a convex function, at 0 and at these places, becomes positive; or the last place."""
    before, value = 0.0, start
    for place, slope in sorted(zip(places, slopes, strict=True)):
        if slope > 0:
            return float(before + (place - before) * value / (value - slope)) if value < 0 else before
        before, value = place, slope
    return float(before)


def _newton_step(hessian: np.ndarray, gradient: np.ndarray, regularisation: float) -> np.ndarray:
    """Return -(H + lam)^-1 g; along -g where rounding made that matrix singular."""
    try:
        step = np.linalg.solve(hessian + regularisation * np.eye(len(gradient)), -gradient)
    except np.linalg.LinAlgError:
        step = -gradient
    return step if np.isfinite(step).all() else np.zeros_like(gradient)
