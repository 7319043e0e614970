"""The laws that are drawn exactly, each on the scale where its log-density is concave whatever its parameters.

Parameters are doubles and count as the exact numbers that they are. They may be private: a refusal shows their type.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import Any, final

import flint
from flint import arb, fmpq

from vestry.errors import InvalidParameter
from vestry.noise.bits import Ball

Ends = tuple[Ball | None, Ball | None]

EXACT_PRECISION = 2200  # bits that hold the sum of any two doubles


@final
class LogitBeta:
    """The logit y of a Beta variable: log-density alpha y - (alpha + beta) log(1 + e^y), on [logit low, logit high]."""

    __slots__ = ("_alpha", "_beta", "_both", "high", "low", "precision")

    def __init__(self, alpha: float, beta: float, low: Fraction, high: Fraction) -> None:
        a, b = positive("alpha", alpha), positive("beta", beta)
        self._alpha, self._beta, self.low, self.high = arb(a), arb(b), low, high
        with flint.ctx.workprec(EXACT_PRECISION):
            self._both = self._alpha + self._beta
        self.precision = enough(max(a, b))

    def log_density(self, y: Ball) -> Ball:
        """Return alpha y - (alpha + beta) log(1 + e^y)."""
        if y > 0:  # e^y could be beyond all bounds
            return -self._beta * y - self._both * ((-y).exp() + 1).log()
        return self._alpha * y - self._both * (y.exp() + 1).log()

    def slope(self, y: Ball) -> Ball:
        """Return alpha - (alpha + beta) p, p = 1/(1 + e^-y)."""
        return self._alpha - self._both * self.value(y)

    def mode(self) -> Ball:
        """Return log(alpha/beta)."""
        return (self._alpha / self._beta).log()

    def ends(self) -> Ends:
        """Return logit low and logit high, or None for 0 and 1."""
        low = _log(self.low / (1 - self.low)) if self.low > 0 else None
        return low, _log(self.high / (1 - self.high)) if self.high < 1 else None

    def value(self, y: Ball) -> Ball:
        """Return p = 1/(1 + e^-y)."""
        if y < 0:  # e^-y could be beyond all bounds
            tail = y.exp()
            return tail / (tail + 1)
        return 1 / ((-y).exp() + 1)


@final
class LogGamma:
    """The logarithm y of a gamma variable: log-density shape y - rate e^y, on [log low, log high]."""

    __slots__ = ("_rate", "_shape", "high", "low", "precision")

    def __init__(self, shape: float, rate: float, low: Fraction | None, high: Fraction | None) -> None:
        a = positive("shape", shape)
        self._shape, self._rate, self.low, self.high = arb(a), arb(positive("rate", rate)), low, high
        self.precision = enough(a)

    def log_density(self, y: Ball) -> Ball:
        """Return shape y - rate e^y."""
        return self._shape * y - self._rate * y.exp()

    def slope(self, y: Ball) -> Ball:
        """Return shape - rate e^y."""
        return self._shape - self._rate * y.exp()

    def mode(self) -> Ball:
        """Return log(shape/rate)."""
        return (self._shape / self._rate).log()

    def ends(self) -> Ends:
        """Return log low and log high."""
        return None if self.low is None else _log(self.low), None if self.high is None else _log(self.high)

    def value(self, y: Ball) -> Ball:
        """Return e^y."""
        return y.exp()


@final
class StandardNormal:
    """The standard normal law: log-density -y^2/2."""

    __slots__ = ()

    precision = 96

    def log_density(self, y: Ball) -> Ball:
        """Return -y^2/2."""
        return y * y * _MINUS_HALF

    def slope(self, y: Ball) -> Ball:
        """Return -y."""
        return -y

    def mode(self) -> Ball:
        """Return 0."""
        return arb(0)

    def ends(self) -> Ends:
        """Return None twice: it is not cut off."""
        return None, None


_MINUS_HALF = arb(-0.5)


def positive(name: str, number: Any) -> float:
    """Return a finite double above 0, and refuse anything else without showing it."""
    double = float(number) if isinstance(number, Real) else math.nan
    if not 0 < double < math.inf:
        raise InvalidParameter(name, type(number), "a finite number above 0", f"for example {name}=1.5")
    return double


def enough(shape: float) -> int:
    """Return the bits that leave open less than one draw in 1e9: what the largest parameter eats up, and 96 more."""
    return 96 + max(0, math.frexp(shape)[1])


def _log(number: Fraction) -> Ball:
    return arb(fmpq(number.numerator, number.denominator)).log()
