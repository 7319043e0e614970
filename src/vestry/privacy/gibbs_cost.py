"""Gaussian privacy of Gibbs posteriors, and of the Langevin chains that draw from them.

U(theta) = likelihood_power * sum of losses + prior term, m-strongly convex and M-smooth for every dataset; S bounds the
difference of the gradients of neighbouring datasets' potentials, at every theta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vestry.numerics import outward


def draw_mu(*, likelihood_power: float, sensitivity: float, strong_convexity: float) -> float:
    """Return mu = rho S / sqrt(m) of one exact draw from exp(-U) [GopiLL22, Thm 4]; tight.

    S is the sensitivity of the sum of gradients: 2 L under replace, L under add-remove. Also on a convex set of
    parameters. It contains [GeumlekSC17, Thm 16] and is smaller than [MinamiAS16, Thm 7], whose Theorem 10 has a
    constant that is not stated.
    """
    return outward(likelihood_power * sensitivity / math.sqrt(strong_convexity))


def gap(*, strong_convexity: float, smoothness: float, step_size: float) -> float:
    """Return 1 - c, where c = max(|1 - eta m|, |1 - eta M|) is how much a gradient step brings two points together."""
    # Rounded down: where the step is almost too long, a difference is left.
    return min(step_size * strong_convexity, 2 - step_size * smoothness * (1 + 1e-15))


def chain_mu(
    *,
    sensitivity: float,
    strong_convexity: float,
    smoothness: float,
    step_sizes: Sequence[float],
    steps: Sequence[float],
    slacks: Sequence[float],
    start: float = 0.0,
) -> float:
    """Return mu of the last state of theta <- theta - eta grad U(theta) + sqrt(2 eta) N(0, I) [BokSA24, Thm 4.1].

    The steps come in phases, each of its own step size. With c_k the contraction of step k, C_k the product of the
    contractions after step k, and z0 = start the distance of the two chains' starting points:

        mu = [C_0 z0 + sum_k C_k eta_k S] / sqrt(sum_k C_k^2 2 eta_k) + sqrt(sum_k 2 slack_k^2/eta_k)

    For one step size and z0 = slack = 0 its square is (1 - c^t)/(1 + c^t) (1 + c)/(1 - c) eta S^2/2, and for eta <=
    2/(m + M) below S^2/m: a finite chain is at least as private as one exact draw, with no convergence assumed.

    Proof, for several step sizes. Let the shifted chain close the part a_k of its distance in step k, at the price
    a_k^2/(2 eta_k): z_k = c_k z_(k-1) + eta_k S - a_k, z_t = 0. The least sum of prices under that one condition has
    a_k proportional to C_k eta_k, which gives the first term. It is allowed if no z_k is negative: eta_k S - a_k
    changes its sign once, from plus to minus, because C_k grows; so z_k rises, then falls, and ends at 0.

    No more is needed of the two steps than |phi(x) - phi'(y)| <= c |x - y| + s for all x and y. So a computed step that
    differs from the exact one by at most `slack`, in its mean, its noise or its rounding, makes s larger by 2 slack.
    That much is closed in the same step, on top of a_k, which moves no z_k; the prices' root grows by at most the
    second term (Minkowski). Projection onto a convex set is allowed. Every step must contract: 0 < eta < 2/M.
    """
    left, reach, spread, extra = 0.0, 0.0, 0.0, 0.0  # left: the log of the contractions after this phase
    for eta, count, slack in reversed(list(zip(step_sizes, steps, slacks, strict=True))):
        g = gap(strong_convexity=strong_convexity, smoothness=smoothness, step_size=eta)
        fall = count * math.log1p(-g) if g < 1 else -math.inf
        reach += math.exp(left) * eta * sensitivity * -math.expm1(fall) / g
        spread += math.exp(2 * left) * 2 * eta * -math.expm1(2 * fall) / (g * (2 - g))
        extra += count * 2 * slack * slack / eta
        left += fall
    return outward((reach + math.exp(left) * start) / math.sqrt(spread) + math.sqrt(extra))


def theorem_7(epsilon: float, delta: float) -> float:
    """Return the largest rho L/sqrt(m), replace, that [MinamiAS16, Thm 7] proves to be (epsilon, delta)-private.

    (sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))/sqrt(2). For comparison: the exact value is 1.1 to 1.6 times it.
    """
    log = math.log(1 / delta)
    return epsilon / (math.sqrt(log + epsilon) + math.sqrt(log)) / math.sqrt(2)


def corollary_8(epsilon: float, delta: float) -> float:
    """Return the same by [MinamiAS16, Cor. 8(ii)]: epsilon/2 sqrt(1/(1 + 2 log(1/delta))); for epsilon <= 1 only.

    It does not follow from Theorem 7 for larger epsilon, and is false for large ones (from 7.44 at delta 0.01).
    """
    return epsilon / 2 / math.sqrt(1 + 2 * math.log(1 / delta))
