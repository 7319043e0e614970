"""Numbers that round against us: exact fractions, outward rounding, cancellation-free functions, monotone search.

Prices are `Fraction` where they are rational and `float` elsewhere. A price that is a float is rounded outward by
`SLACK`, far more than its arithmetic loses; tests hold every price to that with 50-digit arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Number = Fraction | float
Array = NDArray[np.float64]

SLACK = 1e-12
# The smallest double above 0.
SMALLEST = math.ulp(0.0)
# Fractions grow with each factor.
_FEW_FACTORS = 32


def exact(value: float) -> Fraction:
    """Read a float as the decimal that it prints as: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def ratio_up(numerator: float, denominator: float) -> Fraction:
    """Divide two floats, each read so that the quotient is the larger: as its decimal, or as the double that it is.

    What was declared is the decimal, and what runs is the double, up to half a unit in the last place away.
    """
    return max(exact(numerator), Fraction(numerator)) / min(exact(denominator), Fraction(denominator))


def outward(value: float) -> float:
    """Enlarge a computed value by what its arithmetic may have lost; an exact 0 stays.

    Below the normal doubles that is a few of their steps, which elsewhere vanish.
    """
    if value == 0:
        return value
    return value + (abs(value) * SLACK + 4 * SMALLEST)


def above_zero(value: float) -> float:
    """Return a computed value, rounded up, whose true value is above 0: at least the smallest double."""
    return max(outward(value), SMALLEST)


def any_of(chances: Iterable[tuple[Number, int]]) -> Number:
    """Return 1 - prod (1 - chance)^count, rounded up; exact for fractions where few are multiplied."""
    pairs = [(chance, count) for chance, count in chances if chance > 0]
    added = total(pairs)
    if any(up(chance) >= 1 for chance, _ in pairs):
        return Fraction(1)
    if isinstance(added, Fraction) and sum(count for _, count in pairs) <= _FEW_FACTORS:
        missed = [(1 - chance) ** count for chance, count in pairs]
        return 1 - math.prod(missed)
    logs = [count * math.log1p(-up(chance)) for chance, count in pairs]
    joined = outward(-math.expm1(math.fsum(logs)))
    return min(added, joined, 1)


def up(value: Number) -> float:
    """Return a float that is not below the value."""
    if not isinstance(value, Fraction):
        return value
    try:
        rounded = float(value)
    except OverflowError:
        return math.inf
    return rounded if exact(rounded) >= value else math.nextafter(rounded, math.inf)


def format_up(value: Number, *, digits: int) -> str:
    """Write a number to so many significant digits (at most 15), never less than it is: 0.3, 1e-6.

    A float is read as the decimal that it prints as, so that 0.1 is written 0.1.
    Every epsilon and delta that a text rounds is written by this; `vestry.display.formatting.upward` does it for pages.
    """
    if not math.isfinite(value):
        return str(float(value))
    top, bottom = (value if isinstance(value, Fraction) else exact(value)).as_integer_ratio()
    rounded = Context(prec=digits, rounding=ROUND_CEILING).divide(Decimal(top), Decimal(bottom))
    mantissa, _, exponent = f"{float(rounded):.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def root(value: Number) -> Number:
    """Return the square root, rounded up; exact for the square of a fraction."""
    if isinstance(value, Fraction):
        parts = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if parts[0] ** 2 == value.numerator and parts[1] ** 2 == value.denominator:
            return Fraction(*parts)
    return outward(math.sqrt(up(value)))


def ceil_units(value: Number, *, per_one: int) -> int | None:
    """Count the units that cover the value, rounded up; None for an infinite value."""
    if value == math.inf:
        return None
    numerator, denominator = value.as_integer_ratio()
    return -(-numerator * per_one // denominator)


def floor_units(value: Number, *, per_one: int) -> int:
    """Count the units that fit into the value, rounded down."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * per_one // denominator


def total(terms: Iterable[tuple[Number, int]]) -> Number:
    """Sum value x count; exact while every value is a fraction."""
    return sum((value if count == 1 else value * count for value, count in terms), start=0)


def exp_remainder(x: float) -> float:
    """Return e^x - 1 - x without cancellation."""
    if abs(x) > 1.0:
        return math.expm1(x) - x
    return _series(x * x / 2, lambda n: x / (n + 2))


def sinh_remainder(x: float) -> float:
    """Return sinh(x) - x without cancellation."""
    if abs(x) > 1.0:
        return math.sinh(x) - x
    return _series(x * x * x / 6, lambda n: x * x / ((2 * n + 2) * (2 * n + 3)))


def log_sinhc(x: float) -> float:
    """Return log(sinh(x) / x) without cancellation or overflow."""
    x = abs(x)
    if x > 1.0:
        return x + math.log1p(-math.exp(-2 * x)) - math.log(2 * x)
    return math.log1p(sinh_remainder(x) / x) if x > 0 else 0.0


def log_sinhc_step(x: float, d: float) -> float:
    """Return log_sinhc(x + d) - log_sinhc(x) for x, d >= 0; integrated where the two would cancel.

    The derivative is coth(t) - 1/t, smooth enough for a fixed rule over a short or a distant interval.
    """
    if d > 1 and x < 9 * d:
        return log_sinhc(x + d) - log_sinhc(x)
    return d / 2 * math.fsum(w * _langevin(x + d / 2 * (1 + t)) for t, w in _RULE)


def _langevin(t: float) -> float:
    """Return coth(t) - 1/t; near 0 by its series, whose coefficients are 2^(2n) B_2n / (2n)!."""
    if t > 0.3:
        return 1 / math.tanh(t) - 1 / t
    result = 0.0
    for coefficient in reversed(_COTH):
        result = result * t * t + coefficient
    return result * t


def log_cosh(x: float) -> float:
    """Return log(cosh(x)) without overflow."""
    x = abs(x)
    return x + math.log1p(math.exp(-2 * x)) - math.log(2)


def _series(first: float, factor: Callable[[int], float]) -> float:
    """Sum a fast series whose n-th term is the one before it times factor(n)."""
    term, result, n = first, first, 1
    while abs(term) > 1e-18 * abs(result):
        term *= factor(n)
        result += term
        n += 1
    return result


def smallest(holds: Callable[[float], bool], *, low: float, high: float, tolerance: float = 0.0) -> float:
    """Find the smallest x in [low, high] at which a monotone condition holds; the result always satisfies it.

    The condition must hold at `high` and stay true once it is true. The search halves the ratio while the ends are
    far apart and the difference afterwards, down to the relative tolerance or to neighbouring floats.
    """
    if holds(low):
        return low
    return _bisect(lambda x: not holds(x), low, high, tolerance)[1]


def largest(holds: Callable[[float], bool], *, low: float, high: float, tolerance: float = 0.0) -> float:
    """Find the largest x in [low, high] at which a monotone condition holds; the result always satisfies it."""
    if holds(high):
        return high
    return _bisect(holds, low, high, tolerance)[0]


def _bisect(holds: Callable[[float], bool], low: float, high: float, tolerance: float) -> tuple[float, float]:
    """Narrow an interval at whose low end a condition holds, and at whose high end it does not."""
    while high - low > tolerance * high:
        middle = _between(low, high)
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _between(low: float, high: float) -> float:
    return math.sqrt(low) * math.sqrt(high) if 0 < 2 * low < high else low + (high - low) / 2


def minimum(function: Callable[[float], float], *, low: float, high: float, grid: int = 48) -> float:
    """Return the least value found of a function of one valley on [low, high] (both positive).

    A logarithmic grid finds the valley, golden sections narrow it. Values of +inf are walls.
    """
    step = (high / low) ** (1 / grid)
    points = [low * step**i for i in range(grid + 1)]
    values = [function(x) for x in points]
    best = min(range(grid + 1), key=values.__getitem__)
    left, right = points[max(best - 1, 0)], points[min(best + 1, grid)]
    return min(values[best], _golden(function, left, right))


def _golden(function: Callable[[float], float], left: float, right: float) -> float:
    shrink = (math.sqrt(5) - 1) / 2
    inner, outer = right - shrink * (right - left), left + shrink * (right - left)
    at_inner, at_outer = function(inner), function(outer)
    best = min(at_inner, at_outer)
    while right - left > 1e-9 * right:
        if at_inner <= at_outer:
            right, outer, at_outer = outer, inner, at_inner
            inner = right - shrink * (right - left)
            at_inner = function(inner)
        else:
            left, inner, at_inner = inner, outer, at_outer
            outer = left + shrink * (right - left)
            at_outer = function(outer)
        best = min(best, at_inner, at_outer)
    return best


_RULE = tuple(zip(*np.polynomial.legendre.leggauss(12), strict=True))
_COTH = (1 / 3, -1 / 45, 2 / 945, -1 / 4725, 2 / 93555, -1382 / 638512875, 4 / 18243225, -3617 / 162820783125)
