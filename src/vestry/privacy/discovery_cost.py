"""What it costs to show which values occur: noise on the count of each that does, and a threshold.

Every value that occurs has a count n >= 1 of the units that hold it. Noise X is added to each count, independently, and
a value is shown with its noisy count if n + X >= m + 1; m is the margin: the noise that shows a value which one unit
alone holds. A value that does not occur is never shown. One unit moves at most v counts, each by 1.

Laplace: P(X = x) ~ q^|x| on |x| <= m, q = e^(-1/scale) [DesfontainesVGM22]
---------------------------------------------------------------------------
Let n and n + 1 be the count of one value in two neighbouring datasets, n >= 1. The noisy count n - m has probability
d = P(X = m) under the first and 0 under the second, n + 1 + m likewise the other way round; every other one has the
ratio q or 1/q, and P(x <= n) : P(x > n) = 1 : q among them. So the pair is that of randomised response with
epsilon 1/scale, except with probability d, and the price of (1/scale, d)-DP [KairouzOV15] is exact, not a bound. For
n = 0 the value is shown with probability d by one dataset and never by the other: less than that. The noise of
different values is independent, so v values cost v of these pairs, and a unit that moves v large counts attains it:

    d        = (1 - q) q^m / (1 + q - 2 q^(m+1)),     failure = 1 - (1 - d)^v,
    delta(x) = failure + (1 - failure) sum over j of C(v, j) (e^((v-j)/scale) - e^(x+j/scale))^+/(1 + e^(1/scale))^v.

At x = v/scale the sum is 0, and delta is the failure.

Gaussian: P(X = x) ~ e^(-x^2/(2 scale^2)) on the integers
---------------------------------------------------------
For n >= 1 noisy counts are 1/(2 scale^2)-zCDP [CanonneKS20, Thm 14], and the threshold is post-processing. For n = 0
both datasets show nothing, except with probability P(X >= m). So v values are v/(2 scale^2)-zCDP except with
probability 1 - (1 - P(X >= m))^v [BunS16, Lemma 8.2]. For m - 1/2 >= scale, P(X >= m) <= Phi(-(m - 1/2)/scale): the
terms are convex there, so each is below its integral over the unit interval around it, and the sum of all terms is
above scale sqrt(2 pi) by Poisson's summation.

Rounded Gaussian: X = round(N(0, scale^2))
------------------------------------------
For n >= 1 noisy counts are post-processing of the Gaussian mechanism, (sqrt(v)/scale)-GDP [DongRS22, Cor. 3.3]. For
n = 0 both datasets show nothing, except with probability d = P(X >= m) = Phi(-(m - 1/2)/scale). With H the profile of
the Gaussian mechanism, v values keep delta(x) = failure + (1 - failure) H(x), failure = 1 - (1 - d)^v: one of the two
outputs is P, the other (1 - f) P' + f Q with f at most the failure and (P, P') a Gaussian pair, and
P(S) - e^x (1 - f) P'(S) <= f + (1 - f) (P(S) - e^x P'(S)) for every S.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from scipy.special import gammaln, ndtr

from vestry.numerics import outward, ratio_up, up
from vestry.privacy.profile import gaussian

# Up to here a tail is summed; sums of more values than this are bounded.
_SUMMED, _MOST_VALUES = 30.0, 100_000


def laplace_tail(*, scale: float, margin: float) -> float:
    """Return P(X = m) of the truncated Laplace noise, rounded up: that a value of one unit is shown."""
    u = 1 / scale
    below = -math.expm1(-(margin + 1) * u) - math.exp(-u) * math.expm1(-margin * u)
    return max(outward(-math.expm1(-u) * math.exp(-margin * u) / below), sys.float_info.min)


def gaussian_tail(*, scale: float, margin: float) -> float:
    """Return P(X >= m) of Gaussian integer noise, rounded up; 1 where the margin is below the scale."""
    if scale <= _SUMMED:
        reach = math.ceil(margin + 40 * scale + 40)
        above = np.exp(-((np.arange(margin, reach) / scale) ** 2) / 2)
        whole = np.exp(-((np.arange(-reach, reach + 1) / scale) ** 2) / 2)
        return min(1.0, max(outward(float(above.sum() / whole.sum())), sys.float_info.min))
    if margin - 0.5 < scale:
        return 1.0
    return max(outward(float(ndtr(-(margin - 0.5) / scale))), sys.float_info.min)


def rounded_gaussian_tail(*, scale: float, margin: float) -> float:
    """Return P(X >= m) = Phi(-(m - 1/2)/scale) of a rounded normal, rounded up."""
    # What the division may lose is added to the tail's argument, where it counts most.
    deviations = (margin - 0.5) / scale * (1 - 4e-16)
    return max(outward(float(ndtr(-deviations))), sys.float_info.min)


def rounded_gaussian_failure(*, scale: float, margin: float, values: float) -> float:
    """Return the probability that a value which one unit alone holds is shown, of several such values."""
    return of_several(rounded_gaussian_tail(scale=scale, margin=margin), values)


def rounded_gaussian_profile(epsilon: float, *, scale: float, margin: float, values: float) -> float:
    """Return delta(epsilon): the failure, and the profile of the Gaussian mechanism apart from it."""
    failure = rounded_gaussian_failure(scale=scale, margin=margin, values=values)
    mu = outward(math.sqrt(values) / scale)
    return min(1.0, failure + outward((1 - failure) * gaussian(epsilon, mu=mu)))


def of_several(tail: float, values: float) -> float:
    """Return 1 - (1 - tail)^values, rounded up."""
    return 1.0 if tail >= 1 else min(1.0, outward(-math.expm1(values * math.log1p(-tail))))


def laplace_profile(epsilon: float, *, scale: float, margin: float, values: float) -> float:
    """Return delta(epsilon): exact for up to 100,000 values that a unit moves, a bound for more."""
    failure = of_several(laplace_tail(scale=scale, margin=margin), values)
    single = up(ratio_up(1, scale))
    return min(1.0, failure + outward((1 - failure) * _responses(epsilon, single, int(values))))


def _responses(epsilon: float, single: float, values: int) -> float:
    """Return the profile of so many randomised responses: the sum over j of P_j (1 - e^(epsilon - (v - 2j) single))."""
    total = values * single * (1 + 4e-16)
    if epsilon >= total:
        return 0.0
    if values > _MOST_VALUES:
        return outward(-math.expm1(epsilon - total) / (1 + math.exp(-total)))
    j = np.arange(math.ceil((values - epsilon / single) / 2) + 1)
    excess = np.maximum(0.0, (values - 2 * j) * single - epsilon + 4e-16 * total)
    # Logarithms of binomials lose about 1e-15 of their size.
    logs = gammaln(values + 1) - gammaln(j + 1) - gammaln(values - j + 1) - j * single
    logs -= values * math.log1p(math.exp(-single)) - 8e-15 * (1 + values * math.log1p(values))
    return outward(float(np.exp(logs) @ -np.expm1(-excess)))
