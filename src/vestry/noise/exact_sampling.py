"""Exact draws from Beta, Dirichlet, gamma and normal distributions, truncated or not, rounded to a stated grid.

A draw in doubles leaves traces: some doubles cannot come out, and which ones depends on the parameters, so on the data
[Mironov12]. Here a real number is drawn with exact parameters, and rounded once, to the nearest multiple
of a power of two. The random bits come from the noise seam, which takes them from the operating system. All
comparisons, and the rounding, are made in interval arithmetic, and again with more digits until they are certain
(see `log_concave`). The grid is fixed by declared numbers, never by data. So what is released is a post-processed exact
draw, and has its privacy.

Ends: a probability nearer to 0 or 1 than half a step of the grid is released as 0 or 1. Under a truncation the rounded
value is moved to the nearest multiple inside, so that it keeps the declared bounds.

Run time, and how it varies with the data (`benchmarks/exact.py`; the median and the 99th percentile of one draw with
its set-up). Beta, gamma and normal: 0.04 to 0.16 ms, at most 0.25. The set-up grows with the logarithm of the
shapes, by about 0.05 ms from 5 to 1e8, and a truncation adds as much; the number of proposals is random, and its mean
was between 1 and 1.5 whatever the parameters and the place. Dirichlet: 0.03 ms per component. Truncated Dirichlet: 0.4
to 1.8 ms, at most 8, for up to 10 categories, and 6 ms, at most 32, for 30; here acceptance depends on the alphas (see
`dirichlet`). Who can time a release to a millisecond learns that much about the posterior. Run time is not released,
and nothing prints it. Measured for shapes up to 1e8. Larger ones are drawn exactly too, but the tilt of a truncated
Dirichlet is a double: far beyond 1e30 none is near enough to the best, and it may reject without end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from flint import arb, fmpq

from vestry.errors import InvalidParameter
from vestry.noise.bits import Ball, BitSource
from vestry.noise.densities import Exact, LogGamma, LogitBeta, StandardNormal, ball, positive
from vestry.noise.dirichlet import Row, choose_sampler
from vestry.noise.grid import Grid
from vestry.noise.log_concave import LogConcaveSampler, Variate
from vestry.validation import require_whole


def beta(
    source: BitSource, alpha: Exact, beta: Exact, *, grid: float, size: int = 1, low: float = 0.0, high: float = 1.0
) -> list[float]:
    """Draw from Beta(alpha, beta) restricted to [low, high], exactly, and round to the grid."""
    if not 0 <= low < high <= 1:
        raise InvalidParameter("low and high", (low, high), "0 <= low < high <= 1", "for example low=0.1, high=0.9")
    density = LogitBeta(alpha, beta, Fraction(low), Fraction(high))
    return _draw_rounded(source, density, Grid(grid, density.low, density.high), size)


def gamma(
    source: BitSource,
    shape: Exact,
    rate: Exact,
    *,
    grid: float,
    size: int = 1,
    low: float = 0.0,
    high: float = math.inf,
) -> list[float]:
    """Draw from Gamma(shape, rate), of mean shape/rate, restricted to [low, high], exactly, and round to the grid."""
    if not 0 <= low < high:
        raise InvalidParameter("low and high", (low, high), "0 <= low < high", "for example low=0.1")
    least = Fraction(low) if low > 0 else None
    density = LogGamma(shape, rate, least, Fraction(high) if high < math.inf else None)
    return _draw_rounded(source, density, Grid(grid, least, density.high), size)


def _draw_rounded(source: BitSource, density: LogitBeta | LogGamma, grid: Grid, size: int) -> list[float]:
    sampler = LogConcaveSampler(density)

    def value(variate: Variate, bits: int) -> Ball:
        return density.value(variate.ball(bits))

    return [grid.nearest(partial(value, sampler.draw(source)), precision=density.precision) for _ in range(size)]


def normal(source: BitSource, mean: Exact, precision: Exact, *, grid: float, size: int = 1) -> list[float]:
    """Draw from the normal distribution of this mean and of variance 1/precision, exactly, and round to the grid.

    The mean may be any fraction.
    """
    if not math.isfinite(mean):
        raise InvalidParameter("mean", type(mean), "a finite number", "for example mean=0.0")
    middle, weight = fmpq(*Fraction(mean).as_integer_ratio()), ball(positive("precision", precision))
    multiples, density = Grid(grid), StandardNormal()
    sampler = LogConcaveSampler(density)

    def value(variate: Variate, bits: int) -> Ball:
        return arb(middle) + variate.ball(bits) * weight.rsqrt()

    return [multiples.nearest(partial(value, sampler.draw(source)), precision=density.precision) for _ in range(size)]


def dirichlet(
    source: BitSource, alphas: Sequence[Exact], *, grid: float, size: int = 1, low: float = 0.0
) -> list[tuple[float, ...]]:
    """Draw from a Dirichlet whose components are all at least `low`, exactly, and round each component to the grid.

    The components are rounded one by one and none is adjusted: the sum of d of them is 1 to within d/2 steps of the
    grid, or d steps where the truncation is not on it.
    """
    d = len(alphas)
    require_whole("the number of alphas", d, "one alpha per category", least=2)
    if not 0 <= low < 1 / d:
        raise InvalidParameter("low", low, f"at least 0 and below 1/{d}", f"for example low={0.2 / d:g}")
    shapes, least = [positive("alpha", alpha) for alpha in alphas], Fraction(low)
    simplex, multiples = choose_sampler(shapes, least), Grid(grid, least, 1 - (d - 1) * least)

    def rounded(row: Row) -> tuple[float, ...]:
        return tuple(multiples.nearest(partial(row.ball, i), precision=simplex.precision) for i in range(d))

    return [rounded(simplex.draw(source)) for _ in range(size)]
