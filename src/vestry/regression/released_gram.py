"""The posterior of a linear regression given a noisy Gram matrix, in closed form where the noise is small beside it.

A = [[S, u], [u', w]] = sum of zz' over the features and the outcome. For normal errors, exactly, for any predictors,

    u | S, theta, s2 ~ N(S theta, s2 S),    r = w - u'S^-1 u ~ s2 chi2 with n - d degrees, independent.              (1)

So S is the only nuisance, and how it came about says nothing of theta. What was released is A + N, N noise of known
variance v on each statistic. Let E_k be the pattern of statistic k in A (an indicator's is in three places, a private
count is one of the statistics), phi = (-theta, 1) and theta^ = S~^-1 u~. To first order in N

    theta^ | theta, s2 ~ N(theta, C),   C = S^-1 (s2 S + B) S^-1,   B = v sum over k of (E_k phi)(E_k phi)',
    r~ | s2 ~ s2 chi2 + N(-tr(S^-1 B), v sum over k of (phi'E_k phi)^2 + 2 tr((S^-1 B)^2)),                          (2)

of E_k phi the features' part. With theta ~ N(0, t^2 I) and the residual sd flat between 0 and 1 (the outcome lies in
[-1, 1]), the posterior is a mixture over s2 of N(t^2 (C + t^2 I)^-1 theta^, C - C (C + t^2 I)^-1 C). The noise is small
beside S while

    kappa = 2 sd sqrt(d)/(smallest eigenvalue of S~) < 0.3;

measured up to there, and with indicators up to 1. `gram_sampler` goes beyond, for numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import gammaln, logsumexp

from vestry.errors import NoInterval
from vestry.numerics import Array

# Nodes of the residual standard deviation; of the noise in r; how far the log weight falls at the ends.
NODES, _INNER, _DROP = 160, 40, 30.0
_ROUNDS = 3
# How far the first nodes go around the estimate of the residual variance, in its standard deviations.
_REACH = 12.0
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class ReleasedGram:
    """A noisy Gram matrix of scaled features and an outcome, which comes last.

    Attributes
    ----------
    matrix
        As released, in records.
    statistic, row, column
        Where each statistic stands: one entry for each place of the matrix that it fills.
    deviation
        The standard deviation of the noise of one statistic.
    count
        The number of records; noisy where it is private, and then a statistic.
    intercept
        Whether the first feature is 1.
    levels
        Whether there are indicators among the columns.
    laplace
        Whether the noise is Laplace's; else Gaussian.
    private
        Whether the count is noisy.
    """

    matrix: Array
    statistic: np.ndarray
    row: np.ndarray
    column: np.ndarray
    deviation: float
    count: float
    intercept: bool = True
    levels: bool = False
    laplace: bool = False
    private: bool = False

    @property
    def dimension(self) -> int:
        """How many coefficients there are."""
        return len(self.matrix) - 1

    @property
    def gram(self) -> Array:
        """S, as released."""
        return self.matrix[:-1, :-1]

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the residuals, at least 1."""
        return max(1.0, self.count - self.dimension)

    @cached_property
    def kappa(self) -> float:
        """How the noise compares with S; infinite if S is not positive definite."""
        least = float(np.linalg.eigvalsh(self.gram)[0])
        return 2 * self.deviation * math.sqrt(self.dimension) / least if least > 0 else math.inf

    @property
    def statistics(self) -> int:
        """How many statistics fill the matrix."""
        return int(self.statistic.max()) + 1

    def patterns(self, vectors: Array) -> Array:
        """Return E_k v for every statistic k: (..., statistics, d + 1) for vectors (..., d + 1)."""
        products = np.zeros((*vectors.shape[:-1], self.statistics, len(self.matrix)))
        flat = products.reshape(-1, self.statistics, len(self.matrix))
        values = vectors.reshape(-1, len(self.matrix))[:, self.column]
        places: Any = slice(None), self.statistic, self.row
        np.add.at(flat, places, values)
        return products


@dataclass(frozen=True, eq=False)
class DeltaFit:
    """The first-order likelihood (2): theta^, the two parts of its covariance s2 P + W, and what r~ says of s2."""

    noisy: ReleasedGram
    estimate: Array
    inverse: Array
    spread: Array
    residual: float
    bias: float
    variance: float

    @classmethod
    def of(cls, noisy: ReleasedGram) -> DeltaFit:
        """Linearise at theta^."""
        d, inverse = noisy.dimension, np.asarray(np.linalg.inv(noisy.gram), dtype=float)
        estimate = inverse @ noisy.matrix[:-1, -1]
        phi = np.append(-estimate, 1.0)
        moved = noisy.patterns(phi)
        b = noisy.deviation**2 * moved[:, :d].T @ moved[:, :d]
        share = inverse @ b
        variance = noisy.deviation**2 * float(((moved @ phi) ** 2).sum()) + 2 * float(np.trace(share @ share))
        return cls(
            noisy,
            estimate,
            inverse,
            share @ inverse,
            float(phi @ noisy.matrix @ phi),
            -float(np.trace(share)),
            variance,
        )

    def covariance(self, sigma: Array) -> Array:
        """Return C for each residual standard deviation."""
        return sigma[:, None, None] ** 2 * self.inverse + self.spread

    def log_weight(self, sigma: Array, prior_variance: Array) -> Array:
        """Return log p(theta^, r~ | sd), theta summed out; a prior variance of 0 leaves a coefficient out.

        s2 P + G, with G = W + prior, is diagonal for all s2 at once in the basis V with V'PV = I, V'GV = diag(g).
        """
        g, basis = eigh(self.spread + np.diag(prior_variance), self.inverse)
        total = sigma[:, None] ** 2 + np.maximum(g, 0.0)
        quadratic = ((self.estimate @ basis) ** 2 / total).sum(axis=1)
        size = np.log(total).sum(axis=1) + np.linalg.slogdet(self.inverse)[1]
        normal = -0.5 * (quadratic + size + len(self.estimate) * math.log(2 * math.pi))
        return np.asarray(normal + self._residual_weight(sigma))

    def _residual_weight(self, sigma: Array) -> Array:
        """Return log p(r~ | sd): chi2 and normal noise, convolved where both have weight."""
        freedom, s2 = self.noisy.freedom, sigma**2
        centre, noise = self.residual - self.bias, math.sqrt(max(self.variance, 1e-300))
        mean, spread = freedom * s2, s2 * math.sqrt(2 * freedom)
        low = np.maximum(np.maximum(centre - 12 * noise, mean - 12 * spread), 0.0)
        high = np.minimum(centre + 12 * noise, mean + 30 * spread)
        nodes, weights = _rule()
        half = np.maximum(high - low, 0.0)[:, None] / 2
        r = (low[:, None] + half * (1 + nodes)) + 1e-300
        chi = (freedom / 2 - 1) * np.log(r) - r / (2 * s2[:, None]) - freedom / 2 * np.log(2 * s2)[:, None]
        logs = chi - gammaln(freedom / 2) - 0.5 * ((r - centre) / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi))
        return np.asarray(logsumexp(logs, axis=1, b=half * weights))

    def nodes(self, prior_variance: Array) -> tuple[Array, Array]:
        """Return residual standard deviations, evenly spaced, and their log weights."""
        low, high = _LEAST, 1.0
        sigma = self._first_nodes()
        for _ in range(_ROUNDS):
            logs = self.log_weight(sigma, prior_variance)
            inside = np.flatnonzero(logs > logs.max() - _DROP)
            if not inside.size:
                raise NoInterval(
                    "there is no interval, because the noisy moments leave no residual spread that could be."
                )
            low = float(sigma[max(inside[0] - 1, 0)]) if inside[0] else float(sigma[0]) / 2
            high = float(sigma[min(inside[-1] + 1, sigma.size - 1)])
            sigma = np.linspace(low, high, NODES)
        logs = self.log_weight(sigma, prior_variance)
        return sigma, logs + math.log((high - low) / (NODES - 1))

    def _first_nodes(self) -> Array:
        """Return residual standard deviations of every size, and more around the estimate, in ascending order.

        With many records all weight lies within sqrt(2/freedom) of the estimate, between two nodes of a coarse grid.
        """
        coarse = np.geomspace(1e-5, 1.0, 4 * NODES)
        squares = self.residual - self.bias
        if squares <= 0:
            return coarse
        relative_noise = math.sqrt(self.variance) / squares
        spread = math.hypot(relative_noise, math.sqrt(2 / self.noisy.freedom))
        shares = 1 + spread * np.linspace(-_REACH, _REACH, NODES)
        fine = np.sqrt(squares / self.noisy.freedom * np.maximum(shares, 0.0))
        return np.union1d(coarse, fine[(fine > coarse[0]) & (fine < 1)])

    def log_evidence(self, prior_variance: Array) -> float:
        """Return the log marginal likelihood, sd flat between 0 and 1; comparable within one set of features."""
        return float(logsumexp(self.nodes(prior_variance)[1]))


@cache
def _rule() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(_INNER)


@dataclass(frozen=True, eq=False)
class CoefficientMixture:
    """Coefficients and residual sd: sd_j with weight w_j, and then theta ~ N(mean_j, covariance_j)."""

    weights: Array
    sigma: Array
    means: Array
    covariances: Array


def delta_posterior(fit: DeltaFit, prior_variance: float) -> CoefficientMixture:
    """Return the posterior as a mixture over the residual standard deviation."""
    d = len(fit.estimate)
    sigma, logs = fit.nodes(np.full(d, prior_variance))
    weights = np.exp(logs - logsumexp(logs))
    keep = weights > 1e-10
    sigma, weights = sigma[keep], weights[keep] / weights[keep].sum()
    c = fit.covariance(sigma)
    shrink = np.linalg.solve(c + prior_variance * np.eye(d), np.broadcast_to(np.eye(d), c.shape))
    covariances = prior_variance * c @ shrink
    means = prior_variance * shrink @ fit.estimate
    return CoefficientMixture(weights, sigma, means, (covariances + covariances.swapaxes(1, 2)) / 2)


def delta_gram(fit: DeltaFit, theta: Array, sigma: Array, rng: np.random.Generator) -> Array:
    """Draw S given drawn coefficients: noise that goes with them, taken off what was released.

    Of (2), e = S~ (theta^ - theta) = (errors) + sum over k of N_k (E_k phi); errors and noise are drawn as they are
    a priori, and corrected by their regression on what e is.
    """
    noisy, d = fit.noisy, len(fit.estimate)
    phi = np.append(-fit.estimate, 1.0)
    moved = noisy.patterns(phi)[:, :d]
    noise = rng.normal(0.0, noisy.deviation, (len(theta), noisy.statistics))
    errors = rng.normal(size=(len(theta), d)) @ np.linalg.cholesky(noisy.gram).T * sigma[:, None]
    gap = (fit.estimate - theta) @ noisy.gram - errors - noise @ moved
    b = noisy.deviation**2 * moved.T @ moved
    omega = sigma[:, None, None] ** 2 * noisy.gram + b
    noise += noisy.deviation**2 * np.linalg.solve(omega, gap[..., None])[..., 0] @ moved.T
    change = np.zeros((len(theta), d + 1, d + 1))
    places: Any = slice(None), noisy.row, noisy.column
    np.add.at(change, places, noise[:, noisy.statistic])
    return np.asarray(noisy.gram - change[:, :d, :d])
