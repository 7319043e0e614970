r"""The mean of bounded values from noisy sums, with a variance that is measured and without a prior distribution.

Values are scaled to f in [0, 1], and s = 1 - f. At a candidate mean m the estimating function U(m) = sum (f - m) has
mean 0 if m is right; its variance is V(m) = sum (f - m)^2, estimated from the same sums, and that of their noise W0(m).
Half a record is added at either end, in U and in its variance: the law of a proportion with rare successes needs it.

    U(m) = (1 - m)(F + a) + (1/2 - m) P - m (S + a)
    V(m) = (1 - m)^2 F - m (1 - m) P + m^2 S
    W0(m) = v [(1 - m)^2 + (1/2 - m)^2 + m^2] + a [(1 - m)^2 + m^2],    a = 1/2

for the noisy sums S, P, F of s^2, 2 s f, f^2, each with noise of variance v. With t(m) = U / sqrt(max(V, 0) + W0), an
interval is the hull of the m with |t(m)| <= z: a score test, inverted. Where t has one sign at 0 and at 1 the estimate
lies outside, and the normal law of t is cut off at the nearer end.

All of U, V and W0 are polynomials, so interval ends and quantiles are roots of quadratics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Polynomial = npt.NDArray[np.float64]
"""Coefficients, the constant first."""

HALF_RECORD = 0.5
# Where the noisy number of records is within this many standard deviations of 0, the ratio of sums says nothing.
_NEAR_ZERO = 1.645

# (1 - m), m and (1/2 - m), their squares, and their product, as polynomials in m.
_REST = np.array([1.0, -1.0])
_MEAN = np.array([0.0, 1.0])
_CENTRED = np.array([0.5, -1.0])
_REST_SQUARED = np.array([1.0, -2.0, 1.0])
_MEAN_SQUARED = np.array([0.0, 0.0, 1.0])
_CENTRED_SQUARED = np.array([0.25, -1.0, 1.0])
_REST_TIMES_MEAN = np.array([0.0, 1.0, -1.0])


@dataclass(frozen=True)
class IntervalEnds:
    """A lower and an upper end."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """The distance of the ends."""
        return self.upper - self.lower

    def clip(self, value: float) -> float:
        """Return the value, or the nearer end if it lies outside."""
        return min(max(value, self.lower), self.upper)


@dataclass(frozen=True, eq=False)
class MeanEquation:
    """The estimating equation of a mean in [0, 1].

    Attributes
    ----------
    score
        U, linear in the mean.
    spread
        V, the sum of squares about the mean.
    noise
        W0, what noise and half a record at either end add to the variance of U.
    records
        The noisy number of records.
    records_sd
        The standard deviation of its noise; 0 where the number is public.
    ratio
        The ratio of sums, without the half records: what is printed as the estimate.
    """

    score: Polynomial
    spread: Polynomial
    noise: Polynomial
    records: float
    records_sd: float
    ratio: float

    @classmethod
    def of_partition(
        cls, square: float, product: float, remainder: float, variance: float, added: float = HALF_RECORD
    ) -> MeanEquation:
        """Return the equation from noisy sums of s^2, 2 s f and f^2, each with noise of this variance."""
        score = (remainder + added) * _REST + product * _CENTRED - (square + added) * _MEAN
        spread = remainder * _REST_SQUARED - product * _REST_TIMES_MEAN + square * _MEAN_SQUARED
        ends = _REST_SQUARED + _MEAN_SQUARED
        noise = variance * (ends + _CENTRED_SQUARED) + added * ends
        records = square + product + remainder
        total = remainder + product / 2
        return cls(score, spread, noise, records, math.sqrt(3 * variance), _ratio(total, records))

    @classmethod
    def of_sphere(cls, complement: float, value: float, product: float, variance: float) -> MeanEquation:
        """Return the equation from noisy sums of s, f and s f; the noise of s and of f has this variance.

        U(m) = (1 - m)(F + a) - m (S + a), and V(m) = (1 - m)^2 F + m^2 S - Q, because f^2 = f - s f.
        """
        added = HALF_RECORD
        score = (value + added) * _REST - (complement + added) * _MEAN
        spread = value * _REST_SQUARED + complement * _MEAN_SQUARED - product * np.array([1.0, 0.0, 0.0])
        noise = (variance + added) * (_REST_SQUARED + _MEAN_SQUARED)
        records = complement + value
        return cls(score, spread, noise, records, math.sqrt(2 * variance), _ratio(value, records))

    @classmethod
    def of_public_count(cls, records: int, total: float, half_squares: float, variance: float) -> MeanEquation:
        """Return the equation for a public number of records, from noisy sums of v and v^2/2 with v = 2 f - 1.

        U = T - n m + a (1 - 2 m) and V = F2 - 2 m T + n m^2, with T and F2 the sums of f and f^2.
        """
        added = HALF_RECORD
        values = (total + records) / 2
        # f^2 = (1 + v)^2 / 4, with v^2 = 2 (v^2 / 2).
        squares = (records + 2 * total + 2 * half_squares) / 4
        score = np.array([values + added, -records - 2 * added])
        spread = np.array([squares, -2 * values, records])
        noise = added * (_REST_SQUARED + _MEAN_SQUARED) + np.array([variance / 4, 0.0, 0.0])
        return cls(score, spread, noise, records, 0.0, _ratio(values, records))

    def statistic(self, mean: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return t(m), which decreases from positive to negative values as m passes the estimate."""
        return self._statistic_at(np.asarray(mean, dtype=float) - self._centre)

    @property
    def cut_off(self) -> float | None:
        """T at the end of [0, 1] that is nearer to an estimate outside; None if the estimate lies inside."""
        at_ends = self.statistic([0.0, 1.0])
        if at_ends.prod() <= 0:
            return None
        nearer = np.abs(at_ends).argmin()
        return float(at_ends[nearer])

    @property
    def says_little(self) -> bool:
        """Whether the noisy number of records is indistinguishable from 0."""
        return self.records <= _NEAR_ZERO * self.records_sd

    def interval(self, prob: float = 0.9) -> IntervalEnds:
        """Return the interval for the mean."""
        tail = 1 - prob
        deviations = float(-ndtri(tail / 2))
        cut_off = self.cut_off
        if cut_off is not None:
            beyond = tail * ndtr(-abs(cut_off))
            widened = float(-ndtri(beyond))
            deviations = max(deviations, widened)
        offsets = self._candidates(np.array([deviations]))[0]
        distances = np.abs(self._statistic_at(offsets))
        inside = offsets[distances <= deviations + _TOLERANCE]
        lower, upper = self._means_at(np.array([inside.min(), inside.max()])).tolist()
        return IntervalEnds(lower, upper)

    def estimate(self, prob: float = 0.9) -> float:
        """Return the ratio of sums, cut to the interval; the median where the number of records says little."""
        if self.says_little:
            return self.quantile(0.5)
        return self.interval(prob).clip(self.ratio)

    def quantile(self, probability: float) -> float:
        """Return one quantile."""
        return float(self.quantiles([probability])[0])

    def quantiles(self, probabilities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return quantiles: for each the least m with t(m) at most the normal quantile, or 1 if there is none."""
        levels = np.asarray(probabilities, dtype=float)
        cut_off = self.cut_off
        if cut_off is None:
            bounds = -ndtri(levels)
        elif cut_off > 0:
            bounds = -ndtri(levels * ndtr(-cut_off))
        else:
            bounds = ndtri((1 - levels) * ndtr(cut_off))
        offsets = self._candidates(np.abs(bounds))
        is_reached = self._statistic_at(offsets) <= bounds[:, None] + _TOLERANCE
        last = 1.0 - self._centre
        reached = np.where(is_reached, offsets, last).min(axis=1)
        return self._means_at(reached)

    def sample(self, draws: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return draws, whose central intervals are the intervals."""
        return self.quantiles(rng.uniform(size=draws))

    @property
    def sd(self) -> float:
        """Half of the distance between the quantiles at one standard deviation from the median."""
        return (self.quantile(_UPPER_SD) - self.quantile(1 - _UPPER_SD)) / 2

    # Roots are sought as offsets from the estimate, so that narrow intervals keep their digits.

    @cached_property
    def _centre(self) -> float:
        """The root of the score, cut to [0, 1]."""
        constant = float(self.score[0])
        slope = float(self.score[1])
        if slope == 0:
            return 0.5
        return min(max(-constant / slope, 0.0), 1.0)

    @cached_property
    def _centred(self) -> tuple[Polynomial, Polynomial, Polynomial]:
        """Score, spread and noise as polynomials in the offset from the centre."""
        centre = self._centre
        score = _shifted(self.score, centre)
        if 0 < centre < 1 and self.score[1] != 0:
            score[0] = 0.0
        return score, _shifted(self.spread, centre), _shifted(self.noise, centre)

    def _statistic_at(self, offsets: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        score, spread, noise = self._centred
        variance = np.maximum(_evaluate(spread, offsets), 0.0) + _evaluate(noise, offsets)
        statistic: npt.NDArray[np.float64] = _evaluate(score, offsets) / np.sqrt(variance)
        return statistic

    def _means_at(self, offsets: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        means: npt.NDArray[np.float64] = np.clip(self._centre + offsets, 0.0, 1.0)
        return means

    def _candidates(self, deviations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return, for each z, the offsets of 0, of 1, and of the roots of U^2 = z^2 (V + W0) and U^2 = z^2 W0."""
        score, spread, noise = self._centred
        squared = np.convolve(score, score)
        least = -self._centre
        greatest = 1.0 - self._centre
        columns = [np.broadcast_to([least, greatest], (len(deviations), 2))]
        for variance in (spread + noise, noise):
            quadratics = squared - deviations[:, None] ** 2 * variance
            roots = _roots_between(quadratics, least, greatest)
            columns.append(roots)
        return np.concatenate(columns, axis=1)


# Beyond rounding errors of roots, and far below what an interval shows.
_TOLERANCE = 1e-6
_UPPER_SD = float(ndtr(1.0))


def contrast(first: MeanEquation, second: MeanEquation, prob: float = 0.9) -> IntervalEnds:
    """Return the interval for the first mean less the second: the distances of the ends add in squares [ZouD08]."""
    ends = first.interval(prob)
    other_ends = second.interval(prob)
    mean = first.estimate(prob)
    other_mean = second.estimate(prob)
    below = math.hypot(mean - ends.lower, other_ends.upper - other_mean)
    above = math.hypot(ends.upper - mean, other_mean - other_ends.lower)
    difference = mean - other_mean
    return IntervalEnds(difference - below, difference + above)


@dataclass(frozen=True)
class NoisyTotal:
    """A sum of the records at hand, and the standard deviation of its noise."""

    value: float
    sd: float


def total_of_partition(
    square: float, product: float, remainder: float, variance: float, lower: float, upper: float
) -> NoisyTotal:
    """Return the sum of the values in [lower, upper]: lower S + (lower + upper)/2 P + upper F."""
    weights = np.array([lower, (lower + upper) / 2, upper])
    value = float(weights @ np.array([square, product, remainder]))
    return NoisyTotal(value, math.sqrt(variance) * float(np.linalg.norm(weights)))


def _ratio(total: float, records: float) -> float:
    if records <= 0:
        return 0.5
    return total / records


def _evaluate(polynomial: Polynomial, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.polynomial.polynomial.polyval(points, polynomial), dtype=np.float64)


def _shifted(polynomial: Polynomial, centre: float) -> Polynomial:
    """Return the polynomial of the offset from a centre, by its derivatives there."""
    derivatives = [np.polynomial.polynomial.polyder(polynomial, order) for order in range(len(polynomial))]
    values = [np.polynomial.polynomial.polyval(centre, derivative) for derivative in derivatives]
    factorials = [math.factorial(order) for order in range(len(polynomial))]
    return np.asarray(np.array(values) / np.array(factorials), dtype=np.float64)


def _roots_between(quadratics: npt.NDArray[np.float64], least: float, greatest: float) -> npt.NDArray[np.float64]:
    """Return both roots of each quadratic; `least` in place of one that is not real or not between the ends."""
    constant, linear, square = quadratics.T
    discriminant = linear**2 - 4 * square * constant
    sign = np.where(linear < 0, -1.0, 1.0)
    # Of the two usual forms, each root is computed by the one without cancellation.
    distance = np.sqrt(np.maximum(discriminant, 0.0))
    large = -(linear + sign * distance) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([large / square, constant / large], axis=1)
    is_between = (roots > least) & (roots < greatest) & (discriminant >= 0)[:, None]
    return np.where(is_between, roots, least)
