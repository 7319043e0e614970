"""Exact draws from a Dirichlet, the whole of it or the part where every component is at least a bound.

`WholeSimplex` divides independent gammas by their sum.

Under a bound whole vectors are drawn and rejected, in one of two ways. Which one is decided by comparing the largest
alpha with 1, exactly; no guess of what rejects least takes part. Each way has one number that may be anything above 0
and decides how many are rejected.

`TiltedSimplex` is for a largest alpha of at least 1. With k its category, the other components are independent
truncated gammas, x_i with density ~ x^(alpha_i - 1) exp(-tilt x) on [low, high], and the last is what they leave of 1.
That is accepted with probability g(x_k)/max g, g(x) = x^(alpha_k - 1) exp(-tilt x), because prod_i x_i^(alpha_i - 1) =
exp(tilt) prod_(i != k) [x_i^(alpha_i - 1) exp(-tilt x_i)] g(x_k) where the sum is 1. The best tilt makes the
components add up to 1 on average; it accepts about 1/sqrt(2 pi d) of the vectors of d components at worst (measured:
0.07 to 1).

`ScaledGammas` is for alphas that are all below 1. It divides gammas y_i that are truncated below, at low * scale, by
their sum s, and rejects what has a component below `low`. The joint density of the shares x_i = y_i/s and of s is ~
prod_i x_i^(alpha_i - 1) s^(A - 1) exp(-s), A the sum of the alphas, wherever s min x >= low * scale. The integral over
these s is Gamma(A, low * scale/min x), at least Gamma(A, scale) where min x >= low, so that accepting with probability
Gamma(A, scale)/Gamma(A, low * scale/min x) leaves the Dirichlet. The best scale is about the mean of the sum; it
accepts 4 % to 50 % of the vectors, for 3 to 1,000 components, alphas from 1e-30 to 0.99, and bounds from 1e-10 to 1/d
- 1e-15.

Tilt and scale are found in doubles. Where one turns out to be wrong, because nearly all vectors that were rejected
erred on the same side, it is bisected: what was rejected says nothing of what comes next, so the distribution stays
the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import Protocol, final

import flint
import numpy as np
from flint import arb, fmpq

from vestry.noise.bits import Ball, BitSource, Uniform
from vestry.noise.densities import Exact, LogGamma, ball, enough
from vestry.noise.log_concave import LogConcaveSampler, Variate, decide, wins


class Row(Protocol):
    """A point of the simplex that was drawn, known as precisely as it is asked for."""

    def ball(self, index: int, precision: int) -> Ball:
        """Enclose one component; call this at that working precision."""


class Simplex(Protocol):
    """A distribution on the simplex, to draw from."""

    @property
    def precision(self) -> int:
        """The number of bits that suffices almost always."""

    def draw(self, source: BitSource) -> Row:
        """Return a point, exactly."""


@final
class WholeSimplex:
    """Gammas divided by their sum."""

    def __init__(self, alphas: Sequence[Exact]) -> None:
        self._gammas = _gammas(alphas, 1.0, None, None)
        self.precision = enough(max(alphas))

    def draw(self, source: BitSource) -> Row:
        """Return a point, exactly."""
        logs = [gamma.draw(source) for gamma in self._gammas]
        return _Shares(logs)


@final
class _Shares:
    """Numbers e^y divided by their sum."""

    __slots__ = ("_logs", "_seen")

    def __init__(self, logs: Sequence[Variate]) -> None:
        self._logs = logs
        self._seen: tuple[int, list[Ball]] | None = None

    def ball(self, index: int, precision: int) -> Ball:
        if self._seen is None or self._seen[0] != precision:
            logs = [log.ball(precision) for log in self._logs]
            # The largest is taken out, because e^y may be beyond all bounds. Any number would do.
            largest = max(logs, key=_middle)
            scaled = [log - largest for log in logs]
            sizes = [log.exp() for log in scaled]
            total = sum(sizes, arb(0))
            self._seen = precision, [size / total for size in sizes]
        return self._seen[1][index]

    def total(self, precision: int) -> Ball:
        """Enclose their sum."""
        logs = [log.ball(precision) for log in self._logs]
        return sum((log.exp() for log in logs), arb(0))


def _middle(ball: Ball) -> float:
    return float(ball.mid())


@final
class _Bisected:
    """A number that decides how many attempts are rejected, corrected where nearly all err on the same side."""

    # With a good number both sides are common: that 57 of 64 err on one side of a median has probability 1e-10.
    PATIENCE = 64
    FEW = 8

    def __init__(self, guess: float, least: float, most: float) -> None:
        self._least = least
        self._most = most
        # A comparison with nan is false.
        self.number = guess if least <= guess <= most else most
        self._start()

    def _start(self) -> None:
        self._rejected = 0
        self._too_small = 0

    def accepted(self) -> None:
        """Count anew: it is good enough."""
        self._start()

    def rejected(self, too_small: bool) -> bool:
        """Count one attempt that was rejected, and tell whether the number has changed."""
        self._rejected += 1
        self._too_small += too_small
        if self._rejected < self.PATIENCE:
            return False
        too_small_often = self._too_small > self.PATIENCE - self.FEW
        too_small_rarely = self._too_small < self.FEW
        self._start()
        if too_small_often:
            self._least = self.number
        if too_small_rarely:
            self._most = self.number
        before = self.number
        if too_small_often or too_small_rarely:
            self.number = _between(self._least, self._most)
        return self.number != before


def _between(least: float, most: float) -> float:
    """Return the geometric mean."""
    return math.sqrt(least) * math.sqrt(most)


# The best tilt or scale is no smaller, or as good as this one. A larger one than MOST would be beyond the doubles.
LEAST = 2.0**-20
MOST = Fraction(2**1000)


@final
class ScaledGammas:
    """Gammas of at least low * scale divided by their sum, rejected unless every component is at least `low`."""

    def __init__(self, alphas: Sequence[Exact], low: Fraction) -> None:
        self._alphas = alphas
        self._low = low
        total = _sum(alphas)
        self._total = ball(total)
        # Incomplete gamma functions of a small shape lose as many digits as it is small.
        exponent = math.frexp(total)[1]
        self.precision = enough(max(alphas)) + max(0, -exponent)
        # A gamma whose shape is below 1 lies less than 1 beyond its bound on average: this is more than the mean sum.
        most = _at_most(len(alphas) / _room(alphas, low))
        doubles = [float(alpha) for alpha in alphas]
        guess = best_scale(doubles, float(low), (LEAST, most))
        self._scale = _Bisected(guess, LEAST, most)
        self._set_scale()

    def _set_scale(self) -> None:
        self._bound = self._low * Fraction(self._scale.number)
        self._gammas = _gammas(self._alphas, 1.0, self._bound, None)

    def draw(self, source: BitSource) -> Row:
        """Return a point, exactly."""
        while True:
            logs = [gamma.draw(source) for gamma in self._gammas]
            row = _Shares(logs)
            is_accepted = partial(self._accepts, row, Uniform(source))
            if decide(self.precision, is_accepted):
                self._scale.accepted()
                return row
            too_small = self._scale_is_too_small(row)
            if self._scale.rejected(too_small):
                self._set_scale()

    def _accepts(self, row: _Shares, coin: Uniform, precision: int) -> bool | None:
        """Tell whether every component is at least `low`, and the vector wins its toss; None while that is open."""
        low = _real(self._low)
        shares = [row.ball(i, precision) for i in range(len(self._alphas))]
        if any(share < low for share in shares):
            return False
        if not all(share > low for share in shares):
            return None
        smallest = reduce(arb.min, shares)
        least_integral = self._integral(arb(self._scale.number))
        integral = self._integral(_real(self._bound) / smallest)
        return wins(coin, least_integral / integral, precision)

    def _integral(self, start: Ball) -> Ball:
        """Return Gamma(A, start), which falls in `start`: its ends are fast even where the ball in between is slow."""
        first = start.lower()
        last = start.upper()
        most = first.gamma_upper(self._total)
        least = last.gamma_upper(self._total)
        return most.union(least)

    def _scale_is_too_small(self, row: _Shares) -> bool:
        with flint.ctx.workprec(self.precision):
            total = row.total(self.precision)
            return bool(total > self._scale.number)


@final
class TiltedSimplex:
    """Truncated gammas for all components but the one of the largest alpha, which takes what remains of 1."""

    def __init__(self, alphas: Sequence[Exact], low: Fraction) -> None:
        self._last = max(range(len(alphas)), key=lambda i: alphas[i])
        self._low = low
        self._high = 1 - (len(alphas) - 1) * low
        self._alpha = ball(alphas[self._last])
        self._others = [alpha for i, alpha in enumerate(alphas) if i != self._last]
        self.precision = enough(max(alphas))
        # At this tilt the components add up to less than 1 on average.
        most = _at_most(2 * (_sum(alphas) + len(alphas)) / _room(alphas, low))
        doubles = [float(alpha) for alpha in self._others]
        ends = (float(low), float(self._high))
        guess = best_tilt(doubles, float(alphas[self._last]), ends, (LEAST, most))
        self._bisected_tilt = _Bisected(guess, LEAST, most)
        self._set_tilt()

    def _set_tilt(self) -> None:
        tilt = self._bisected_tilt.number
        self._tilt = arb(tilt)
        self._gammas = _gammas(self._others, tilt, self._low, self._high)
        self._peak = self._where_largest()

    def draw(self, source: BitSource) -> Row:
        """Return a point, exactly."""
        while True:
            logs = [gamma.draw(source) for gamma in self._gammas]
            row = _Rest(logs, self._last)
            is_accepted = partial(self._accepts, row, Uniform(source))
            if decide(self.precision, is_accepted):
                self._bisected_tilt.accepted()
                return row
            too_small = self._tilt_is_too_small(row)
            if self._bisected_tilt.rejected(too_small):
                self._set_tilt()

    def _accepts(self, row: _Rest, coin: Uniform, precision: int) -> bool | None:
        """Tell whether what remains of 1 is at least `low`, and wins its toss; None while that is open."""
        rest = row.ball(self._last, precision)
        low = _real(self._low)
        if rest < low:
            return False
        if not rest > low:
            return None
        most = self._log_weight(self._largest())
        log_chance = self._log_weight(rest) - most
        return wins(coin, log_chance.exp(), precision)

    def _log_weight(self, x: Ball) -> Ball:
        """Return log g(x)."""
        return (self._alpha - 1) * x.log() - self._tilt * x

    def _where_largest(self) -> Fraction | None:
        """Tell which end of [low, high] has the largest g, or None if its own mode is to be taken.

        Where neither end is certain the mode may lie outside: its g is then larger than it need be, and still a bound.
        """
        with flint.ctx.workprec(self.precision):
            mode = (self._alpha - 1) / self._tilt
            if mode <= _real(self._low):
                return self._low
            return self._high if mode >= _real(self._high) else None

    def _largest(self) -> Ball:
        return (self._alpha - 1) / self._tilt if self._peak is None else _real(self._peak)

    def _tilt_is_too_small(self, row: _Rest) -> bool:
        with flint.ctx.workprec(self.precision):
            rest = row.ball(self._last, self.precision)
            return bool(rest < self._largest())


@final
class _Rest:
    """Numbers e^y, and what they leave of 1 put among them."""

    __slots__ = ("_last", "_logs", "_seen")

    def __init__(self, logs: Sequence[Variate], last: int) -> None:
        self._logs = logs
        self._last = last
        self._seen: tuple[int, list[Ball]] | None = None

    def ball(self, index: int, precision: int) -> Ball:
        if self._seen is None or self._seen[0] != precision:
            logs = [log.ball(precision) for log in self._logs]
            sizes = [log.exp() for log in logs]
            total = sum(sizes, arb(0))
            sizes.insert(self._last, 1 - total)
            self._seen = precision, sizes
        return self._seen[1][index]


def _gammas(
    alphas: Sequence[Exact], rate: float, low: Fraction | None, high: Fraction | None
) -> list[LogConcaveSampler]:
    """Return a sampler for each alpha; equal alphas share one."""
    densities = {alpha: LogGamma(alpha, rate, low, high) for alpha in set(alphas)}
    samplers = {alpha: LogConcaveSampler(density) for alpha, density in densities.items()}
    return [samplers[alpha] for alpha in alphas]


def _sum(alphas: Sequence[Exact]) -> Fraction:
    exact = [Fraction(alpha) for alpha in alphas]
    return sum(exact, Fraction(0))


def _room(alphas: Sequence[Exact], low: Fraction) -> Fraction:
    """Return what the components may share beyond their bounds."""
    return 1 - len(alphas) * low


def _at_most(number: Fraction) -> float:
    return float(min(MOST, number))


def _real(number: Fraction) -> Ball:
    return arb(fmpq(number.numerator, number.denominator))


def choose_sampler(alphas: Sequence[Exact], low: Fraction) -> Simplex:
    """Return the way to draw from a Dirichlet whose components are all at least `low`."""
    if low == 0:
        return WholeSimplex(alphas)
    return TiltedSimplex(alphas, low) if max(alphas) >= 1 else ScaledGammas(alphas, low)


# --- what is fast, in doubles; any answer gives the same distribution -------------------------------------------------

Ends = tuple[float, float]


def best_tilt(others: Sequence[float], alpha: float, ends: Ends, between: Ends) -> float:
    """Return about the tilt in `between` at which the means of the others and the mode of the last add up to 1."""
    shapes = np.array(others)
    low, high = ends
    start = math.log(low)
    stop = math.log(high)

    def is_too_small(tilt: float) -> bool:
        mode = float(np.clip((alpha - 1) / tilt, low, high))
        return _sum_of_means(shapes, tilt, start, stop) + mode > 1

    # So near to the best tilt the sum is off by a tenth of its deviation.
    accuracy = 0.1 / math.sqrt(alpha + len(others))
    return _bisect(is_too_small, between, accuracy)


def best_scale(alphas: Sequence[float], low: float, between: Ends) -> float:
    """Return about the scale in `between` that is the mean of the sum of gammas of at least low * scale."""
    shapes = np.array(alphas)

    def is_too_small(scale: float) -> bool:
        start = math.log(low) + math.log(scale)
        # Here the density of a shape below 1 is below e^-40 of the one at the bound.
        stop = math.log(low * scale + 40)
        return _sum_of_means(shapes, 1.0, start, stop) > scale

    return _bisect(is_too_small, between, 0.01)


def _bisect(is_too_small: Callable[[float], bool], between: Ends, accuracy: float) -> float:
    least, most = between
    with np.errstate(all="ignore"):
        while most / least > 1 + max(1e-14, accuracy):
            middle = _between(least, most)
            if is_too_small(middle):
                least = middle
            else:
                most = middle
    return most


def _sum_of_means(alphas: np.ndarray, tilt: float, start: float, stop: float) -> float:
    """Return the sum of the means of gammas of this rate on [e^start, e^stop], by trapezes around their modes."""
    shapes, counts = np.unique(alphas, return_counts=True)
    untruncated_mode = np.log(shapes / tilt)
    mode = np.clip(untruncated_mode, start, stop)
    bend = tilt * np.exp(mode)
    steep = np.abs(shapes - bend)
    # Twelve times where the log-density has fallen by 1.
    width = 24 / (steep + np.sqrt(steep**2 + 2 * bend))
    first = np.maximum(start, mode - width)
    last = np.minimum(stop, mode + width)
    # A small shape has a wide density with a sharp end.
    nodes = 129 + 2 * math.ceil(stop - start)
    y = np.linspace(first, last, nodes)
    logs = shapes * (y - mode) - bend * np.expm1(y - mode)
    weights = np.exp(logs - logs.max(axis=0))
    weights[[0, -1]] /= 2
    sums = np.sum(np.exp(y) * weights, axis=0)
    means = sums / weights.sum(axis=0)
    return float(means @ counts)
