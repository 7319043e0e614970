"""Draws of the Gram matrix behind a noisy one, for numbers alone, where the noise is not small beside it.

Coordinates in which every point is a Gram matrix, so that what was released need not be one:

    S = n M,  M = L L',  row j of L is sqrt(m_j) times a unit vector by stick-breaking with tanh(v_jk),
    u = n L c,  c = t L'a + sqrt(s2/n) e,  a and e standard normal,  r = n rho^2,  s2 = (r/f) exp(sqrt(2/f) g),
    f = n - d;  where the count is private, log n.  rho may have either sign: it may be 0, and is no boundary then.

The prior of M is m_j ~ U(0, 1) and a uniform correlation matrix (LKJ(1)), the intercept included, whose m is 1; theta
~ N(0, t^2 I), so that t a is one theta and u ~ N(0, s2 S + t^2 S^2); the residual sd is flat; the outcome's mean
square w/n is at most 1, by a smooth step. The target is the prior, (1) of `released_gram` and the noise of each
statistic. Given a draw, theta ~ N(V u/s2, V), V = (S/s2 + I/t^2)^-1: coefficients are mixtures of normals.

Sampled by Hamiltonian Monte Carlo from the mode, whitened by the Hessian there (of Gaussian noise of the same
variance, if it is Laplace's, which has none). Chains must agree (split R-hat of the coefficients, of the residual sd
and of the log density), or there is no answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from vestry.mcmc.hamiltonian import sample_whitened
from vestry.numerics import Array
from vestry.regression.released_gram import CoefficientMixture, ReleasedGram

# How sharply the outcome's mean square ends at 1.
_STEP = 0.02
_LOG2 = math.log(2)


@dataclass(frozen=True, eq=False)
class GramTarget:
    """The log density of the coordinates and its gradient, for many points at once.

    Attributes
    ----------
    noisy
        What was released; of numbers alone.
    prior_variance
        t^2.
    smooth
        Whether Laplace noise is replaced by Gaussian noise of its variance.
    """

    noisy: ReleasedGram
    prior_variance: float
    smooth: bool = False

    @property
    def d(self) -> int:
        """How many coefficients there are."""
        return self.noisy.dimension

    @cached_property
    def _lower(self) -> tuple[np.ndarray, np.ndarray]:
        return np.tril_indices(self.d, -1)

    @property
    def _fixed(self) -> int:
        """How many of the diagonal are known: the intercept's."""
        return int(self.noisy.intercept)

    @property
    def dimension(self) -> int:
        """How many coordinates there are."""
        return self.d - self._fixed + self.d * (self.d - 1) // 2 + 2 * self.d + 2 + self.noisy.private

    @cached_property
    def _mask(self) -> Array:
        """Which entries of the upper triangle are noisy."""
        mask = np.triu(np.ones_like(self.noisy.matrix))
        if self.noisy.intercept and not self.noisy.private:
            mask[0, 0] = 0.0
        return mask

    @cached_property
    def _powers(self) -> Array:
        """Of 1 - tanh^2 v, for the uniform correlation matrix and for v itself."""
        return (self.d - 2 - self._lower[1]) / 2 + 1

    def split(self, x: Array) -> tuple[Array, ...]:
        """Return m's logits, v, a, e, rho, g and log n."""
        d, fixed, size = self.d, self._fixed, self.d * (self.d - 1) // 2
        at = np.cumsum([0, d - fixed, size, d, d, 1, 1])
        parts = [x[:, low:high] for low, high in pairwise(at)]
        log_n = x[:, at[-1]] if self.noisy.private else np.full(len(x), math.log(self.noisy.count))
        return (*parts[:4], parts[4][:, 0], parts[5][:, 0], log_n)

    def rows(self, logits: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """Return L, the m, tanh v and the products of sech before each, as (points, d, d)."""
        d, size = self.d, len(logits)
        m = np.ones((size, d))
        m[:, self._fixed :] = 1 / (1 + np.exp(-logits))
        t = np.zeros((size, d, d))
        t[:, self._lower[0], self._lower[1]] = np.tanh(v)
        sech = np.sqrt(1 - t**2)
        before = np.concatenate([np.ones((size, d, 1)), np.cumprod(sech, axis=2)[:, :, :-1]], axis=2)
        ones = t + np.eye(d)
        return np.sqrt(m)[:, :, None] * before * ones * np.tri(d), m, t, before

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return log density (points,) and gradient (points, coordinates)."""
        logits, v, a, e, rho, g, log_n = self.split(x)
        lower, m, t, before = self.rows(logits, v)
        n, f, tau = np.exp(log_n), self.noisy.freedom, math.sqrt(self.prior_variance)
        h = math.sqrt(2 / f) * g
        share = np.exp(h / 2) / math.sqrt(f)
        ratio = rho * share  # sqrt(s2/n), with rho's sign
        c = tau * np.einsum("nij,ni->nj", lower, a) + ratio[:, None] * e
        value, (of_l, of_c, of_rho2, of_n) = self._noise(lower, c, rho**2, n)
        of_l = of_l + tau * a[:, :, None] * of_c[:, None, :]
        of_ratio = (e * of_c).sum(axis=1)
        residual, of_h, by_n = self._residuals(h, n)
        # Flat in the residual sd, which is |rho| sqrt(n) exp(h/2)/sqrt(f).
        value = value + residual + log_n / 2 + h / 2 - 0.5 * ((a**2).sum(axis=1) + (e**2).sum(axis=1))
        value = value - np.logaddexp(0, logits).sum(axis=1) - np.logaddexp(0, -logits).sum(axis=1)
        value = value + 2 * (self._powers * (_LOG2 - np.abs(v) - np.log1p(np.exp(-2 * np.abs(v))))).sum(axis=1)
        parts = [
            *self._chain(of_l, lower, m, t, before, v),
            tau * np.einsum("nij,nj->ni", lower, of_c) - a,
            ratio[:, None] * of_c - e,
            (2 * of_rho2 * rho + of_ratio * share)[:, None],
            (math.sqrt(2 / f) * (of_ratio * ratio / 2 + 0.5 + of_h))[:, None],
        ]
        if self.noisy.private:  # a flat count; the residual sd's change from s2/n to s2
            value, parts = value + log_n, [*parts, (n * (of_n + by_n) + 1.5)[:, None]]
        return value, np.concatenate(parts, axis=1)

    def _noise(self, lower: Array, c: Array, rho2: Array, n: Array) -> tuple[Array, tuple[Array, ...]]:
        """Return the log density of the noise and of the step, and the derivatives by L, c, rho^2 and n."""
        d = self.d
        shares = np.empty((len(c), d + 1, d + 1))
        shares[:, :d, :d] = lower @ lower.swapaxes(1, 2)
        shares[:, :d, d] = np.einsum("nij,nj->ni", lower, c)
        moved = (c**2).sum(axis=1) + rho2
        shares[:, d, d] = moved
        shares[:, d, :d] = 0.0
        gap = (self.noisy.matrix - n[:, None, None] * shares) * self._mask
        if self.noisy.laplace and not self.smooth:
            scale = self.noisy.deviation / math.sqrt(2)
            value, slope = -np.abs(gap).sum(axis=(1, 2)) / scale, np.sign(gap) / scale
        else:
            slope = gap / self.noisy.deviation**2
            value = -0.5 * (gap * slope).sum(axis=(1, 2))
        s, u, w = slope[:, :d, :d], slope[:, :d, d], slope[:, d, d]
        beyond = (moved - 1) / _STEP
        value = value - np.logaddexp(0, beyond)
        of_w = n * w - 1 / (1 + np.exp(np.minimum(-beyond, 500))) / _STEP
        of_l = n[:, None, None] * ((s + s.swapaxes(1, 2)) @ lower + u[:, :, None] * c[:, None, :])
        of_c = n[:, None] * np.einsum("nij,ni->nj", lower, u) + 2 * of_w[:, None] * c
        return value, (of_l, of_c, of_w, (slope * shares).sum(axis=(1, 2)))

    def _residuals(self, h: Array, n: Array) -> tuple[Array, Array, Array]:
        """Return log p(r | s2) up to the change of coordinates, and its derivatives by h and n."""
        f = self.noisy.freedom
        nu = np.maximum(n - self.d, 1.0) if self.noisy.private else np.full_like(h, f)
        value = nu / 2 * (math.log(f / 2) - h) - f / 2 * np.exp(-h) - gammaln(nu / 2)
        return value, -nu / 2 + f / 2 * np.exp(-h), 0.5 * (math.log(f / 2) - h - digamma(nu / 2))

    def _chain(self, of_l: Array, lower: Array, m: Array, t: Array, before: Array, v: Array) -> tuple[Array, Array]:
        """Carry the derivative by L to the logits and to v, and add those of their priors."""
        product = of_l * lower
        of_logits = 0.5 * product.sum(axis=2) * (1 - m) + 1 - 2 * m
        after = product.sum(axis=2, keepdims=True) - np.cumsum(product, axis=2)
        own = of_l * np.sqrt(m)[:, :, None] * before * (1 - t**2)
        row, column = self._lower
        return of_logits[:, self._fixed :], (own - t * after)[:, row, column] - 2 * self._powers * np.tanh(v)

    def start(self) -> Array:
        """Return coordinates of the nearest positive definite matrix, a little inside."""
        noisy, d, n = self.noisy, self.d, max(self.noisy.count, self.d + 2.0)
        full = noisy.matrix / n
        if noisy.intercept:
            full = full.copy()
            full[0, 0] = 1.0
        values, vectors = np.linalg.eigh((full + full.T) / 2)
        full = (vectors * np.maximum(values, 1e-3 * max(values[-1], 1e-3))) @ vectors.T
        factor = np.linalg.cholesky(full)
        m = np.clip((factor[:d, :d] ** 2).sum(axis=1), 1e-4, 1 - 1e-4)
        units = factor[:d, :d] / np.linalg.norm(factor[:d, :d], axis=1, keepdims=True)
        v = np.zeros((d, d))
        for j in range(1, d):
            rest = 1.0
            for k in range(j):
                share = np.clip(units[j, k] / math.sqrt(max(rest, 1e-12)), -0.999, 0.999)
                v[j, k] = math.atanh(share)
                rest -= units[j, k] ** 2
        logits, zeros, rho = np.log(m / (1 - m))[self._fixed :], np.zeros(2 * d), factor[d, d]
        parts = [logits, v[self._lower], zeros, [rho], [0.0]]
        return np.concatenate([*parts, [math.log(n)]] if noisy.private else parts)

    def read(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return S, u, s2 and n of each point."""
        logits, v, a, e, rho, g, log_n = self.split(x)
        lower, *_ = self.rows(logits, v)
        n, f = np.exp(log_n), self.noisy.freedom
        ratio = rho * np.exp(math.sqrt(2 / f) * g / 2) / math.sqrt(f)
        c = math.sqrt(self.prior_variance) * np.einsum("nij,ni->nj", lower, a) + ratio[:, None] * e
        gram = n[:, None, None] * lower @ lower.swapaxes(1, 2)
        return gram, n[:, None] * np.einsum("nij,nj->ni", lower, c), np.maximum(n * ratio**2, 1e-12), n


def _mode(target: GramTarget) -> Array:
    """Return the mode, by a quasi-Newton method."""

    def negative(x: Array) -> tuple[float, Array]:
        value, gradient = target(x[None])
        return -float(value[0]), -gradient[0]

    return np.asarray(minimize(negative, target.start(), jac=True, method="L-BFGS-B", options={"maxiter": 3000}).x)


def _whiten(target: GramTarget, mode: Array) -> Array:
    """Return a matrix A with AA' the inverse of the Hessian, by differences of gradients; no longer than the prior."""
    step, scale = 1e-4, np.ones(len(mode))
    scale[-2 - target.noisy.private] = _RHO
    moves = step * np.diag(scale)
    hessian = -(target(mode + moves)[1] - target(mode - moves)[1]) * scale / (2 * step)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    return np.asarray(scale[:, None] * vectors / np.sqrt(np.maximum(np.abs(values), 0.5)))


# How far rho goes.
_RHO = 0.3


# How many draws are kept, and how far a proposal goes.
KEPT, _LENGTH = 2400, 6.0


@dataclass(frozen=True, eq=False)
class GramDraws:
    """Draws of S, u, s2 and n."""

    gram: Array
    cross: Array
    s2: Array
    count: Array

    def mixture(self, prior_variance: float) -> CoefficientMixture:
        """Return the coefficients' mixture of normals, one for each draw."""
        ratio = self.s2[:, None, None]
        precisions = self.gram / ratio + np.eye(self.gram.shape[1]) / prior_variance
        covariances: Array = np.asarray(np.linalg.inv(precisions), dtype=float)
        means = np.einsum("nij,nj->ni", covariances, self.cross) / self.s2[:, None]
        weights = np.full(len(means), 1 / len(means))
        return CoefficientMixture(weights, np.sqrt(self.s2), means, covariances)


def sample_gram(noisy: ReleasedGram, prior_variance: float, rng: np.random.Generator) -> GramDraws:
    """Draw from the posterior of the Gram matrix, or raise `ChainsDisagree`."""
    target = GramTarget(noisy, prior_variance)
    mode = _mode(GramTarget(noisy, prior_variance, smooth=True))
    root = _whiten(GramTarget(noisy, prior_variance, smooth=True), mode)

    def density(z: Array) -> tuple[Array, Array]:
        value, gradient = target(mode + z @ root.T)
        return np.where(np.isfinite(value), value, -np.inf), np.nan_to_num(gradient @ root)

    def numbers(z: Array) -> Array:
        """Return what chains must agree on: the coefficients, the residual variance and the log density."""
        points = mode + z @ root.T
        draws = GramDraws(*target.read(points))
        return np.column_stack([draws.mixture(prior_variance).means, np.sqrt(draws.s2), target(points)[0]])

    draws = sample_whitened(density, numbers, target.dimension, KEPT, rng, length=_LENGTH, longest=_LENGTH)
    return GramDraws(*target.read(mode + draws @ root.T))
