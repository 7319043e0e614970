"""The distributions that are drawn exactly, each on the scale where its log-density is concave whatever its parameters.

Parameters are doubles, or fractions where sums and products of doubles would be rounded, and count as the exact numbers
that they are. They may be private: a refusal shows their type.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, final

from flint import arb, fmpq

from vestry.errors import InvalidParameter
from vestry.noise.bits import Ball
from vestry.validation import is_number

Ends = tuple[Ball | None, Ball | None]

Exact = float | Fraction
"""A double, or a fraction whose denominator is a power of two: sums and products of doubles, not rounded."""


@final
class LogitBeta:
    """The logit y of a Beta variable: log-density alpha y - (alpha + beta) log(1 + e^y), on [logit low, logit high]."""

    __slots__ = ("_alpha", "_beta", "_both", "high", "low", "precision")

    def __init__(self, alpha: Exact, beta: Exact, low: Fraction, high: Fraction) -> None:
        a, b = positive("alpha", alpha), positive("beta", beta)
        self._alpha, self._beta, self._both = ball(a), ball(b), ball(Fraction(a) + Fraction(b))
        self.low, self.high = low, high
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

    def __init__(self, shape: Exact, rate: Exact, low: Fraction | None, high: Fraction | None) -> None:
        a = positive("shape", shape)
        self._shape, self._rate, self.low, self.high = ball(a), ball(positive("rate", rate)), low, high
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
    """The standard normal distribution: log-density -y^2/2."""

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
        """Return None twice: it is not truncated."""
        return None, None


_MINUS_HALF = arb(-0.5)


def positive(name: str, number: Any) -> Exact:
    """Return a finite double or a fraction above 0, and refuse anything else without showing it."""
    if isinstance(number, Fraction) and number > 0:
        return number
    if not is_number(number) or number <= 0:
        raise InvalidParameter(name, type(number), "a finite number above 0", f"for example {name}=1.5")
    return float(number)


def ball(number: Exact) -> Ball:
    """Return the ball that holds this number alone, whatever the precision of the moment."""
    top, bottom = number.as_integer_ratio()
    if bottom & (bottom - 1):
        raise InvalidParameter("a parameter", type(number), "a sum of products of doubles", "one without a division")
    return arb((top, 1 - bottom.bit_length()))


def enough(shape: Exact) -> int:
    """Return the bits that leave open less than one draw in 1e9: what the largest parameter eats up, and 96 more."""
    return 96 + max(0, math.frexp(shape)[1])


def _log(number: Fraction) -> Ball:
    return arb(fmpq(number.numerator, number.denominator)).log()
