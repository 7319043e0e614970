"""The noise-aware Beta-Bernoulli posterior: exact summation over the counts that the noise hides.

The plug-in posterior takes the noisy count as exact, and its intervals are too short. Here the count is summed out,

    p(theta | z) = sum over s of Beta(theta; a + s, b + n - s) p(s | z),   p(s | z) ~ p(s) P(noise = z - s),

with p(s) the prior predictive and the law of the noise known. The noisy value is never projected: z below 0 or above n
is informative as it stands. See [BernsteinS18] for the idea in exponential families.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import digamma

from vestry.posterior.discrete_noise import Array, NoiseLaw
from vestry.posterior.gauss_rule import nodes_needed, thin
from vestry.posterior.mixture import BetaMixture, kept
from vestry.posterior.support import DROP, lattice, log_ratio, window

# Components that a sum over two counts may have before its panels are widened.
_CELLS = 1_000_000


def public_count(z: int, *, count: int, alpha: float, beta: float, noise: NoiseLaw) -> BetaMixture:
    """Return the posterior from one noisy count of successes among a public number of records.

    p(s | z) ~ BetaBinomial(s; n, a, b) P(noise = z - s), s = 0 ... n. All but 1e-15 of the weight is kept; time and
    memory grow with the scale of the noise and not with n.
    """
    n, noisy = np.array([float(count)]), np.array([float(z)])
    anchor = np.clip(noisy, 0.0, n)

    def factors(s: Array, *, concave: bool) -> Array:
        found = np.zeros(s.shape)
        if (alpha >= 1) == concave:
            found = found + log_ratio(s, alpha)
        if (beta >= 1) == concave:
            found = found + log_ratio(n - s, beta)
        return found

    def hill(s: Array) -> Array:
        return noise.log_weight(s, noisy, anchor) + factors(s, concave=True)

    # A convex factor is monotone: between the ends it adds no more than its own difference.
    spread = sum(log_ratio(np.zeros(1), each) - log_ratio(n, each) for each in (alpha, beta) if each < 1)
    low, high = window(hill, np.zeros(1), n, drop=DROP + spread)
    s, cells = lattice(low[0], high[0])
    width = np.sqrt((alpha + s) * (beta + (n - s)) / (n + alpha + beta))
    s, logs = thin(s, hill(s) + factors(s, concave=False) + cells, width)
    weights, places = kept(logs)
    return BetaMixture(weights, alpha + s[places], beta + (n - s[places]))


def private_count(successes: int, failures: int, *, alpha: float, beta: float, noise: NoiseLaw) -> BetaMixture:
    """Return the posterior from noisy counts of successes and failures, the number of records unknown.

    The prior of the number of records n = s + f is the improper uniform one on n >= 0, so that

        p(s, f | z) ~ BetaBinomial(s; s + f, a, b) P(noise = z_s - s) P(noise = z_f - f),   s, f >= 0.

    A sum over both. BetaBinomial is at most 1, so the window follows from the noise alone: it reaches down to DROP
    below the weight of the point nearest to z.
    """
    noisy = np.array([float(successes), float(failures)])
    nearest = np.maximum(noisy, 0.0)
    prior_weight = _log_beta_binomial(nearest[0], nearest[1], alpha, beta)
    drop = DROP - prior_weight + 2 * np.log(2 * noise.reach(1.0) + 1)
    total = nearest.sum() + 2 * noise.scale
    for _ in range(2):  # the second time at the total that the first has found
        # Tilting each axis by the slope of the coupling leaves a factor that is smooth over many counts.
        tilt = -float(digamma(alpha + beta + total) - digamma(total + 1))
        tables = [
            _table(z, top, (alpha, beta)[axis], alpha + beta, noise=noise, drop=drop, tilt=tilt)
            for axis, (z, top) in enumerate(zip(noisy, nearest, strict=True))
        ]
        cells = math.prod(nodes_needed(points, width) for points, _, width in tables)
        wider = max(1.0, math.sqrt(cells / _CELLS))
        (s, s_logs), (f, f_logs) = (thin(points, logs, wider * width) for points, logs, width in tables)
        n = s[:, None] + f
        logs = s_logs[:, None] + f_logs - tilt * n - log_ratio(n, alpha + beta)
        weights, places = kept(logs.ravel())
        total = float(weights @ n.ravel()[places])
    row, column = np.unravel_index(places, n.shape)
    return BetaMixture(weights, alpha + s[row], beta + f[column])


def _table(
    z: float, nearest: float, own: float, all_: float, *, noise: NoiseLaw, drop: float, tilt: float
) -> tuple[Array, Array, Array]:
    """List the counts of one kind, with log weights Gamma(s + a)/Gamma(s + 1) P(noise = z - s) e^(tilt s).

    The third is the scale on which the rest of the sum varies: the component's own width is sqrt(s + a), and the
    logarithm of the coupling Gamma(n + 1)/Gamma(n + A) bends by at most A/((s + 1)(s + 1 + A)).
    """
    reach = noise.reach(drop)
    s, cells = lattice(np.floor(max(0.0, z - reach)), np.ceil(nearest + reach))
    logs = noise.log_weight(s, np.array(z), np.array(nearest)) + log_ratio(s, own) + tilt * s
    return s, logs + cells, 1 / np.sqrt(1 / (s + own) + all_ / ((s + 1) * (s + 1 + all_)))


def _log_beta_binomial(s: float, f: float, alpha: float, beta: float) -> float:
    """Return log of C(s+f, s) B(a+s, b+f)/B(a, b)."""
    counts, parameters = np.array([s, f, s + f]), np.array([alpha, beta, alpha + beta])
    return float((log_ratio(counts, parameters) - log_ratio(np.zeros(3), parameters)) @ [1, 1, -1])
