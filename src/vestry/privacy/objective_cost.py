"""Privacy of objective perturbation: theta = argmin of sum l + (lam/2)|theta|^2 + b . theta, b ~ N(0, sigma^2 I).

For losses of one linear predictor with |grad l| <= L and smoothness beta: J = log(1 + beta/lam) bounds the log ratio of
the Jacobians, whose difference has rank one (so no factor of the dimension, which the lecture's remark has), and mu =
L/sigma is the shift of b. Neighbours add or remove one record, unless said otherwise. H is the Gaussian profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from vestry.numerics import above_zero, outward
from vestry.privacy.profile import gaussian

Curve = Callable[..., float]


def jacobian(*, smoothness: float, regularisation: float) -> float:
    """Return J = log(1 + beta/lam). It holds for every lam > 0; |log(1 - beta/lam)| of [RedbergKW23] is larger."""
    return outward(math.log1p(smoothness / regularisation))


def published_jacobian(*, smoothness: float, regularisation: float) -> float:
    """Return |log(1 - beta/lam)| of [RedbergKW23, Thm 1]; infinite for lam <= beta. For comparison."""
    if smoothness >= regularisation:
        return math.inf
    return outward(-math.log1p(-smoothness / regularisation))


def lecture(epsilon: float, *, mu: float, shift: float) -> float:
    """Return delta where epsilon = J + mu^2/2 + mu sqrt(2 log(2/delta)), the lecture's bound; for comparison."""
    room = (epsilon - shift - mu * mu / 2) / mu
    return 1.0 if room <= 0 else min(1.0, above_zero(2 * math.exp(-room * room / 2)))


def general(epsilon: float, *, mu: float, shift: float) -> float:
    """Return delta of any convex loss of one predictor [RedbergKW23, Thm 1], with J as above.

    2 H_mu(epsilon - J) if e = epsilon - J - mu^2/2 >= 0, else 1 - e^e + 2 e^e H_mu(mu^2/2).
    """
    room = epsilon - shift - mu * mu / 2
    if room == -math.inf:
        return 1.0
    if room >= 0:
        return min(1.0, outward(2 * gaussian(epsilon - shift, mu=mu)))
    return min(1.0, outward(-math.expm1(room) + 2 * math.exp(room) * gaussian(mu * mu / 2, mu=mu)))


def one_sided(epsilon: float, *, mu: float, shift: float) -> float:
    """Return delta where each record's derivative keeps its sign: H_mu(epsilon - J) from J on.

    Below J: 1 - e^(epsilon - J) (1 - H_mu(0)).
    """
    return _below(epsilon - shift, lambda room: gaussian(room, mu=mu))


def one_sided_replace(epsilon: float, *, mu: float, shift: float) -> float:
    """Return delta where one record of such a loss is replaced.

    H_(2 mu)(epsilon - J) + 2 H_mu(epsilon - J) from J on.
    """
    return _below(epsilon - shift, lambda room: gaussian(room, mu=2 * mu) + 2 * gaussian(room, mu=mu))


def _below(room: float, profile: Callable[[float], float]) -> float:
    if room >= 0:
        return min(1.0, outward(profile(room)))
    return min(1.0, outward(-math.expm1(room) + math.exp(room) * min(1.0, profile(0.0))))


def general_renyi(order: float, *, mu: float, shift: float) -> float:
    """Return J + mu^2/2 + [mu^2 (a - 1)^2/2 + log(2 Phi(mu (a - 1)))]/(a - 1) [RedbergKW23, Thm 2]."""
    less = order - 1
    return outward(shift + mu * mu / 2 + mu * mu * less / 2 + (math.log(2) + float(log_ndtr(mu * less))) / less)


def one_sided_renyi(order: float, *, mu: float, shift: float) -> float:
    """Return J + log[Phi(-mu/2) + exp(a (a - 1) mu^2/2) Phi(mu/2 + (a - 1) mu)]/(a - 1)."""
    less = order - 1
    high = order * less * mu * mu / 2 + float(log_ndtr(mu / 2 + less * mu))
    return outward(shift + float(np.logaddexp(float(log_ndtr(-mu / 2)), high)) / less)


def profile_of_group(profile: Curve, epsilon: float, *, mu: float, shift: float, records: float) -> float:
    """Return delta for a change of several records, one at a time.

    delta((e^(k e) - 1)/(e^e - 1)) at e = epsilon/k: the profile of one record, k times in a row.
    """
    if records == 1:
        return profile(epsilon, mu=mu, shift=shift)
    share = epsilon / records
    single = profile(share, mu=mu, shift=shift)
    if single == 0 or share == 0:
        return min(1.0, outward(records * single))
    # log of (e^epsilon - 1)/(e^share - 1), which may be beyond every double
    steps = epsilon - share + math.log1p(-math.exp(-epsilon)) - math.log1p(-math.exp(-share))
    total = steps + math.log(single)
    return 1.0 if total >= 0 else min(1.0, above_zero(math.exp(total)))
