r"""The variance of bounded values from noisy sums: with a fourth moment that is bounded, or measured.

Values are scaled to f in [0, 1], s = 1 - f. The estimating function of the variance s2 is A - n s2, where A is the
sum of squares about the estimated mean, n the noisy number of records. Its own variance holds the fourth moment. From
three sums that is only bounded, E(f - m)^4 <= D^2 s2 with D = max(m, 1 - m), so the interval is wide for smooth laws;
from the five sums of the Bernstein terms of degree 4 it is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from vestry.noise_inversion.mean_equation import HALF_RECORD, IntervalEnds, Polynomial

# The largest variance of a value in [0, 1].
LARGEST_VARIANCE = 0.25
_LEAST_RECORDS = 3.0
_DEGREE = 4
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class VarianceEstimate:
    """A variance of values in [0, 1]: the estimate, cut to the interval, and the interval."""

    value: float
    interval: IntervalEnds


def variance_from_partition(
    square: float, product: float, remainder: float, noise: float, prob: float = 0.9
) -> VarianceEstimate:
    """Return the variance from noisy sums of s^2, 2 s f and f^2, each with noise of this variance.

    The set {s2 in [0, 1/4]: (A - s2 n)^2 <= z^2 (n s2 (D^2 - s2) + W(s2))}, with W the noise of A - s2 n.
    """
    records = square + product + remainder
    some_records = max(records, _LEAST_RECORDS)
    mean = _mean(remainder + product / 2, records)
    rest = 1 - mean
    coefficients = np.array([rest**2, -mean * rest, mean**2])
    spread = float(coefficients @ np.array([remainder, product, square]))
    noise_of_score = noise * (rest**2 + (0.5 - mean) ** 2 + mean**2)
    squares = spread + (max(spread, 0.0) + noise_of_score) / some_records
    largest_deviation = max(mean, rest)
    fourth_moment = some_records * np.array([0.0, largest_deviation**2, -1.0])
    noise_of_equation = noise * _squared_distances(coefficients)
    score = np.array([squares, -records])
    interval = _solved(score, [fourth_moment + noise_of_equation], prob)
    return VarianceEstimate(interval.clip(squares / some_records), interval)


def variance_from_moments(terms: Sequence[float], noise: float, prob: float = 0.9) -> VarianceEstimate:
    """Return the variance from noisy sums of C(4, k) f^k s^(4 - k), k = 0 to 4.

    A polynomial of f is a weighted sum of the terms, with its Bernstein coefficients as weights.
    """
    sums = np.array(terms, dtype=float)
    records = float(sums.sum())
    some_records = max(records, _LEAST_RECORDS)
    places = np.arange(_DEGREE + 1) / _DEGREE
    mean = _mean(float(sums @ places), records)
    rest = 1 - mean
    second = bernstein_coefficients([mean**2, -2 * mean, 1.0])
    fourth = bernstein_coefficients([mean**4, -4 * mean**3, 6 * mean**2, -4 * mean, 1.0])
    spread = float(sums @ second)
    noise_of_score = noise * float(np.sum((places - mean) ** 2))
    squares = spread + (max(spread, 0.0) + noise_of_score) / some_records
    # Half a record at either end, as in the equation of the mean.
    ends = np.array([mean**2, rest**2])
    added = HALF_RECORD * _squared_distances(ends)
    score = np.array([squares + HALF_RECORD * ends.sum(), -records - 2 * HALF_RECORD])
    fourth_moment = np.array([sums @ fourth, -2 * spread, records])
    without_moment = added + noise * _squared_distances(second)
    interval = _solved(score, [without_moment + fourth_moment, without_moment], prob)
    return VarianceEstimate(interval.clip(squares / some_records), interval)


def bernstein_coefficients(monomials: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the coefficients of a polynomial in Bernstein form of degree 4: t^i has C(k, i) / C(4, i) at k."""
    coefficients = np.zeros(_DEGREE + 1)
    for power, factor in enumerate(monomials):
        for k in range(power, _DEGREE + 1):
            share = math.comb(k, power) / math.comb(_DEGREE, power)
            coefficients[k] += factor * share
    return coefficients


def _mean(total: float, records: float) -> float:
    """Return the mean with half a record at either end, in [0, 1]."""
    if records <= -1:
        return 0.5
    mean = (total + HALF_RECORD) / (records + 2 * HALF_RECORD)
    return min(max(mean, 0.0), 1.0)


def _squared_distances(points: npt.NDArray[np.float64]) -> Polynomial:
    """Return the sum of (point - x)^2 as a polynomial in x."""
    return np.array([np.sum(points**2), -2 * np.sum(points), len(points)])


def _solved(score: Polynomial, variances: Sequence[Polynomial], prob: float) -> IntervalEnds:
    """Return the hull of {x in [0, 1/4]: score^2 <= z^2 max(variances)}; the whole range if it is empty."""
    deviations = float(-ndtri((1 - prob) / 2))
    squared = np.convolve(score, score)
    quadratics = [squared - deviations**2 * variance for variance in variances]
    candidates = [0.0, LARGEST_VARIANCE]
    for quadratic in quadratics:
        roots = np.polynomial.polynomial.polyroots(quadratic)
        candidates += [float(root.real) for root in roots if abs(root.imag) < _TOLERANCE]
    points = np.array([point for point in candidates if 0 <= point <= LARGEST_VARIANCE])
    values = [np.polynomial.polynomial.polyval(points, quadratic) for quadratic in quadratics]
    tolerance = _TOLERANCE * np.abs(squared).max()
    inside = points[np.min(values, axis=0) <= tolerance]
    if len(inside) == 0:
        return IntervalEnds(0.0, LARGEST_VARIANCE)
    return IntervalEnds(inside.min(), inside.max())
