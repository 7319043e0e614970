"""Exact draws from a Dirichlet, the whole of it or the part where every component is at least a bound.

Three ways, for one distribution. All reject whole vectors, and `choose_sampler` takes the one that should reject least.

`Loose` divides independent gammas by their sum, and draws again until every component is inside.

`Tilted` is for a truncation that cuts off much. With k the category of the largest alpha, the other components are
independent truncated gammas, x_i with density ~ x^(alpha_i - 1) exp(-tilt x) on [low, high], and the last is what they
leave of 1. That is accepted with probability g(x_k)/max g, g(x) = x^(alpha_k - 1) exp(-tilt x), because
prod_i x_i^(alpha_i - 1) = exp(tilt) prod_(i != k) [x_i^(alpha_i - 1) exp(-tilt x_i)] g(x_k) where the sum is 1. It
holds for every tilt above 0. The best one makes the components add up to 1 on average; it accepts about 1/sqrt(2 pi d)
of the vectors of d components at worst, if alpha_k >= 1 (measured: 0.09 to 1).

`Largest` is for alphas that are all below 1. Which component k is the largest is drawn first, from bounds of the
masses. The others have density ~ x^(alpha_i - 1) up to the most that a smaller component can be, by the inverse
distribution function. What they leave of 1 is accepted if it is the largest indeed, with probability
(d x_k)^(alpha_k - 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
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


@final
class Loose:
    """Gammas divided by their sum, drawn again until every component is at least `low`."""

    def __init__(self, alphas: Sequence[Exact], low: Fraction) -> None:
        self._gammas = _gammas(alphas, 1.0, None, None)
        self._low = low
        self.precision = enough(max(alphas))

    def draw(self, source: BitSource) -> Row:
        """Return a point, exactly."""
        while True:
            row = _Shares([gamma.draw(source) for gamma in self._gammas])
            inside = (decide(self.precision, partial(self._keeps, row, i)) for i in range(len(self._gammas)))
            if self._low == 0 or all(inside):
                return row

    def _keeps(self, row: _Shares, index: int, precision: int) -> bool | None:
        """Tell whether a component is at least `low`; None while that is open."""
        share, low = row.ball(index, precision), _real(self._low)
        return False if share < low else True if share > low else None


@final
class _Shares:
    """Numbers e^y divided by their sum."""

    __slots__ = ("_logs", "_seen")

    def __init__(self, logs: Sequence[Variate]) -> None:
        self._logs = logs
        self._seen: tuple[int, list[Ball], Ball] | None = None

    def ball(self, index: int, precision: int) -> Ball:
        if self._seen is None or self._seen[0] != precision:
            logs = [log.ball(precision) for log in self._logs]
            # The largest is taken out, because e^y may be beyond all bounds. Any number would do.
            largest = max(logs, key=lambda ball: float(ball.mid()))
            sizes = [(log - largest).exp() for log in logs]
            self._seen = precision, sizes, sum(sizes, arb(0))
        _, sizes, total = self._seen
        return sizes[index] / total


@final
class TiltedSimplex:
    """Truncated gammas for all components but the one of the largest alpha, which takes what remains of 1."""

    def __init__(self, alphas: Sequence[Exact], low: Fraction) -> None:
        self._last = max(range(len(alphas)), key=lambda i: alphas[i])
        self._low, self._high = low, 1 - (len(alphas) - 1) * low
        others = [alpha for i, alpha in enumerate(alphas) if i != self._last]
        tilt = best_tilt([float(x) for x in others], float(alphas[self._last]), float(low), float(self._high))
        self._tilt, self._alpha = arb(tilt), ball(alphas[self._last])
        self._gammas = _gammas(others, tilt, low, self._high)
        self.precision = enough(max(alphas))
        self._peak = self._where_largest()

    def draw(self, source: BitSource) -> Row:
        """Return a point, exactly."""
        while True:
            row = _Rest([gamma.draw(source) for gamma in self._gammas], self._last)
            if decide(self.precision, partial(self._accepts, row, Uniform(source))):
                return row

    def _accepts(self, row: _Rest, coin: Uniform, precision: int) -> bool | None:
        """Tell whether what remains of 1 is at least `low`, and wins its toss; None while that is open."""
        rest = row.ball(self._last, precision)
        if rest < _real(self._low):
            return False
        if not rest > _real(self._low):
            return None
        chance = (self._log_weight(rest) - self._log_weight(self._largest())).exp()
        return wins(coin, chance, precision)

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


@final
class Largest:
    """Powers for all components but the largest, which takes what remains of 1; all alphas are below 1."""

    def __init__(self, alphas: Sequence[Exact], low: Fraction) -> None:
        self._alphas = [ball(alpha) for alpha in alphas]
        self._low, self._most = low, (1 - (len(alphas) - 2) * low) / 2
        self.precision = 96 + max(0, -math.frexp(min(alphas))[1])  # the powers 1/alpha eat up digits

    def draw(self, source: BitSource) -> Row:
        """Return a point, exactly."""
        while True:
            largest = decide(self.precision, partial(self._choose, Uniform(source)))
            others = [alpha for i, alpha in enumerate(self._alphas) if i != largest]
            row = _Rest([_Power(alpha, self._low, self._most, Uniform(source)) for alpha in others], largest)
            if decide(self.precision, partial(self._accepts, row, largest, Uniform(source))):
                return row

    def _choose(self, place: Uniform, precision: int) -> int | None:
        """Choose a component with probability proportional to d^(1 - alpha_k) times the masses of the others."""
        d = arb(len(self._alphas))
        # Divided by the product of all masses, which is common to all.
        bounds = [
            d ** (1 - alpha) * alpha / (_real(self._most) ** alpha - _real(self._low) ** alpha)
            for alpha in self._alphas
        ]
        below = place.ball(precision) * sum(bounds, arb(0))
        edge = arb(0)
        for i, bound in enumerate(bounds):
            edge += bound
            if below < edge or i == len(bounds) - 1:
                return i
            if not below > edge:
                break
        return None

    def _accepts(self, row: _Rest, largest: int, coin: Uniform, precision: int) -> bool | None:
        """Tell whether what remains of 1 is the largest, and wins its toss; None while that is open."""
        sizes = [row.ball(i, precision) for i in range(len(self._alphas))]
        rest = sizes.pop(largest)
        if any(size > rest for size in sizes):
            return False
        if not all(size < rest for size in sizes):
            return None
        chance = ((self._alphas[largest] - 1) * (rest * len(self._alphas)).log()).exp()
        return wins(coin, chance, precision)


@final
class _Power:
    """The logarithm of a variable of density ~ x^(alpha - 1) on [low, most], by its inverse distribution function."""

    __slots__ = ("_alpha", "_low", "_most", "_place")

    def __init__(self, alpha: Ball, low: Fraction, most: Fraction, place: Uniform) -> None:
        self._alpha, self._low, self._most, self._place = alpha, low, most, place

    def ball(self, precision: int) -> Ball:
        least, most = _real(self._low) ** self._alpha, _real(self._most) ** self._alpha
        return (least + self._place.ball(precision) * (most - least)).log() / self._alpha


@final
class _Rest:
    """Numbers e^y, and what they leave of 1 put among them."""

    __slots__ = ("_last", "_logs", "_seen")

    def __init__(self, logs: Sequence[Variate | _Power], last: int) -> None:
        self._logs, self._last = logs, last
        self._seen: tuple[int, list[Ball]] | None = None

    def ball(self, index: int, precision: int) -> Ball:
        if self._seen is None or self._seen[0] != precision:
            sizes = [log.ball(precision).exp() for log in self._logs]
            sizes.insert(self._last, 1 - sum(sizes, arb(0)))
            self._seen = precision, sizes
        return self._seen[1][index]


def _gammas(
    alphas: Sequence[Exact], rate: float, low: Fraction | None, high: Fraction | None
) -> list[LogConcaveSampler]:
    """Return a sampler for each alpha; equal alphas share one."""
    samplers = {alpha: LogConcaveSampler(LogGamma(alpha, rate, low, high)) for alpha in set(alphas)}
    return [samplers[alpha] for alpha in alphas]


def _real(number: Fraction) -> Ball:
    return arb(fmpq(number.numerator, number.denominator))


# --- what is fast, in doubles; any answer gives the same distribution -------------------------------------------------


def choose_sampler(alphas: Sequence[Exact], low: Fraction) -> Loose | TiltedSimplex | Largest:
    """Take the way that should reject least; a rough guess in doubles is enough."""
    from scipy.special import betaincc, ndtr

    doubles = [float(alpha) for alpha in alphas]
    largest, total, d, a = max(doubles), math.fsum(doubles), len(alphas), float(low)
    if low == 0:
        return Loose(alphas, low)
    if largest >= 1:
        return TiltedSimplex(alphas, low)
    loose = float(np.prod([betaincc(alpha, total - alpha, a) for alpha in doubles])) ** 2
    tilted = (d * a) ** (1 - largest) / math.sqrt(2 * math.pi * d)
    powers, most = np.array(doubles), (1 - (d - 2) * a) / 2
    first, second = ((powers / (powers + k)) * (most ** (powers + k) - a ** (powers + k)) for k in (1, 2))
    mass = a**powers * np.expm1(powers * math.log(most / a))  # above 0 for any powers
    mean, square = (d - 1) * np.mean(first / mass), (d - 1) * np.mean(second / mass - (first / mass) ** 2)
    by_largest = float(ndtr((0.7 - mean) / math.sqrt(square)))
    best = max(loose, tilted, by_largest)
    if best == by_largest:
        return Largest(alphas, low)
    return TiltedSimplex(alphas, low) if best == tilted else Loose(alphas, low)


def best_tilt(others: Sequence[float], alpha: float, low: float, high: float) -> float:
    """Return about the tilt at which the means of the others and the mode of the last add up to 1."""
    shapes = np.array(others)

    def total(tilt: float) -> float:
        mode = min(max((alpha - 1) / tilt, low), high)
        return float(_means(shapes, tilt, low, high).sum()) + mode

    tilt = max(1.0, alpha + float(shapes.sum()))
    while total(tilt) > 1:
        tilt *= 2
    while tilt > 2.0**-20 and total(tilt / 2) < 1:
        tilt /= 2
    least, most = tilt / 2, tilt
    while most / least > 1 + max(1e-14, 0.1 / math.sqrt(alpha + len(others))):
        middle = math.sqrt(least * most)
        least, most = (middle, most) if total(middle) > 1 else (least, middle)
    return most


def _means(shapes: np.ndarray, tilt: float, low: float, high: float) -> np.ndarray:
    """Return the means of gammas of this rate on [low, high], by trapezes around their modes, to a few digits."""
    start, stop = math.log(low), math.log(high)
    mode = np.clip(np.log(shapes / tilt), start, stop)
    steep, bend = np.abs(shapes - tilt * np.exp(mode)), tilt * np.exp(mode)
    width = 24 / (steep + np.sqrt(steep**2 + 2 * bend))  # twelve times where the log-density has fallen by 1
    y = np.linspace(np.maximum(start, mode - width), np.minimum(stop, mode + width), 129)
    logs = shapes * (y - mode) - tilt * np.exp(mode) * np.expm1(y - mode)
    weights = np.exp(logs - logs.max(axis=0))
    weights[[0, -1]] /= 2
    means: np.ndarray = (np.exp(y) * weights).sum(axis=0) / weights.sum(axis=0)
    return means
