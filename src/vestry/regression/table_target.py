"""The posterior density of a regression's coefficients, given a noisy table, and draws from it.

Of levels: log odds against the first one are linear in the features of a cell, eta_cl = x_c'theta_l, and the cell has
a mean m_c of records, which is unknown too (see (2) of `smooth_tables`). Of counts: the logarithm of the rate is
linear, and the numbers of records are summed out (3). Coefficients have independent normal priors.

The mean is m = s log(1 + e^v), s the noise's scale: v is about m/s where the mean is large beside the noise, and about
log(m/s) where noise hides whether there is a record. Given theta, the v_c are independent: the Hessian is diagonal
there, and whitening needs no more than d + 1 differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from vestry.likelihood.smooth_tables import SmoothTables, log_mean_likelihood, log_rate_likelihood
from vestry.mcmc.hamiltonian import sample_whitened
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Noise

# Draws that are kept, and how far a proposal goes: a quarter turn and more of a normal density, and farther where the
# noise leaves long tails.
KEPT, _LENGTH, _LONGEST = 4800, 2.0, 16.0
# How far differences go, and the least curvature that counts, in units of the prior.
_STEP, _FLAT = 1e-4, 0.3


@dataclass(frozen=True, eq=False)
class TableTarget:
    """The log density of coefficients and, of levels, of each cell's v, for many points at once.

    Attributes
    ----------
    features
        Of each cell, one per column.
    tables
        Of each cell and level the g of (2), of counts the logarithm of (3).
    precisions
        Of each feature's normal prior.
    levels
        How many there are; 1 for counts.
    decay
        b of (2).
    scale
        s.
    starts
        Where the v begin to be sought.
    """

    features: Array
    tables: SmoothTables
    precisions: Array
    levels: int
    decay: float
    scale: float
    starts: Array

    @classmethod
    def of_levels(cls, features: Array, noisy: Array, noise: Noise, precisions: Array) -> TableTarget:
        """Return the target of noisy counts, one row per cell, one column per level."""
        totals = noisy.sum(axis=1)
        tables = log_mean_likelihood(noisy.T.ravel(), noise)
        scale = max(1.0, noise.scale)
        starts = np.maximum(totals, 0.5 * scale) / scale
        return cls(features, tables, precisions, noisy.shape[1], _decay(totals), scale, starts)

    @classmethod
    def of_counts(
        cls, features: Array, records: Array, outcomes: Array, noises: tuple[Noise, Noise], precisions: Array
    ) -> TableTarget:
        """Return the target of noisy numbers of records, and noisy sums of their outcomes."""
        decay = _decay(records)
        tables = log_rate_likelihood(records, outcomes, noises, float(np.log1p(decay)))
        return cls(features, tables, precisions, 1, decay, 1.0, np.empty(0))

    @property
    def linear(self) -> int:
        """How many linear predictors there are."""
        return max(1, self.levels - 1)

    @property
    def coefficients(self) -> int:
        """How many coefficients there are, those of one linear predictor after the other."""
        return self.linear * int(self.features.shape[1])

    @cached_property
    def precision(self) -> Array:
        """The prior's, of every coefficient."""
        return np.tile(self.precisions, self.linear)

    @property
    def dimension(self) -> int:
        """How many numbers there are."""
        return self.coefficients + len(self.starts)

    def etas(self, theta: Array) -> Array:
        """Return the linear predictors of every cell, by point, level and cell; that of the first level is 0."""
        etas = theta.reshape(len(theta), self.linear, -1) @ self.features.T
        return etas if self.levels == 1 else np.concatenate([np.zeros((len(theta), 1, etas.shape[2])), etas], axis=1)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return log density (points,) and gradient (points, numbers)."""
        theta, v = x[:, : self.coefficients], x[:, self.coefficients :]
        etas = self.etas(theta)
        value, of_eta, of_v = self._counts(etas[:, 0]) if self.levels == 1 else self._levels(etas, v)
        of_theta = (of_eta @ self.features).reshape(theta.shape)
        value = value - 0.5 * (self.precision * theta**2).sum(axis=1)
        return value, np.concatenate([of_theta - self.precision * theta, of_v], axis=1)

    def means(self, v: Array) -> Array:
        """Return the cells' means of records."""
        return self.scale * np.logaddexp(0, v)

    def _levels(self, etas: Array, v: Array) -> tuple[Array, Array, Array]:
        log_p, mean, share = log_softmax(etas), self.means(v), expit(v)
        logs, slopes = self.tables((np.log(mean)[:, None] + log_p).reshape(len(v), -1))
        slopes = slopes.reshape(etas.shape)
        total = slopes.sum(axis=1)
        value = logs.sum(axis=1) + (log_expit(v) - self.decay * mean).sum(axis=1)
        of_eta = slopes - np.exp(log_p) * total[:, None]
        of_mean = self.scale * (total / mean - self.decay)
        return value, of_eta[:, 1:], share * of_mean + 1 - share

    def _counts(self, etas: Array) -> tuple[Array, Array, Array]:
        logs, slopes = self.tables(etas)
        return logs.sum(axis=1), slopes[:, None], np.empty((len(etas), 0))


def log_softmax(etas: Array) -> Array:
    """Return the logarithms of the probabilities of levels, which are the second axis."""
    shifted = etas - etas.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _decay(records: Array) -> float:
    """Return b of a geometric prior whose mean is that of the cells; a cell has a record if not even that is seen."""
    return len(records) / max(float(records.sum()), float(len(records)))


@dataclass(frozen=True, eq=False)
class Whitening:
    """Coordinates z in which a target is about standard normal: theta = mode + A z, v = mode + z/sqrt(D) - S A z.

    D is the curvature in v, S = D^-1 times the mixed one, and AA' the inverse of what is left for theta.
    """

    mode: Array
    root: Array
    scale: Array
    shear: Array

    @classmethod
    def of(cls, target: TableTarget) -> Whitening:
        """Find the mode, and the curvature there by differences of gradients."""
        mode, k = _mode(target), target.coefficients
        units = 1 / np.sqrt(target.precision)
        moves = np.zeros((k + 1, target.dimension))
        moves[:k, :k] = _STEP * np.diag(units)
        moves[k, k:] = _STEP  # all at once: they do not depend on each other
        bend = -(target(mode + moves)[1] - target(mode - moves)[1]) / (2 * _STEP)
        spread = target.means(mode[k:]) / target.scale**2 + target.levels  # the variance of a noisy total, in v
        scale = np.maximum(bend[k, k:], _FLAT / spread)
        mixed = bend[:k, k:].T
        shear = mixed / scale[:, None]
        left = bend[:k, :k] * units - mixed.T @ shear
        values, vectors = np.linalg.eigh((left + left.T) / 2)
        root = units[:, None] * vectors / np.sqrt(np.maximum(np.abs(values), _FLAT))
        return cls(mode, root, np.sqrt(scale), shear / units)

    def points(self, z: Array) -> Array:
        """Return the coordinates of a target."""
        k = len(self.root)
        theta = z[:, :k] @ self.root.T
        return np.asarray(self.mode + np.concatenate([theta, z[:, k:] / self.scale - theta @ self.shear.T], axis=1))

    def gradients(self, of_x: Array) -> Array:
        """Return gradients by z."""
        k = len(self.root)
        of_v = of_x[:, k:]
        return np.concatenate([(of_x[:, :k] - of_v @ self.shear) @ self.root, of_v / self.scale], axis=1)


def _mode(target: TableTarget) -> Array:
    """Return the mode, by a quasi-Newton method."""

    def negative(x: Array) -> tuple[float, Array]:
        value, gradient = target(x[None])
        return -float(value[0]), -gradient[0]

    start = np.concatenate([np.zeros(target.coefficients), target.starts])
    return np.asarray(minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x)


def sample_table(target: TableTarget, smooth: TableTarget, rng: np.random.Generator) -> Array:
    """Draw coefficients and each cell's v, or raise `ChainsDisagree`.

    `smooth` is the same target with Gaussian noise of the same variance: Laplace noise bends too sharply at its centre
    for the curvature there to tell how wide the density is.
    """
    whitening = Whitening.of(smooth)
    k = target.coefficients

    def density(z: Array) -> tuple[Array, Array]:
        value, gradient = target(whitening.points(z))
        return np.where(np.isfinite(value), value, -np.inf), np.nan_to_num(whitening.gradients(gradient))

    def numbers(z: Array) -> Array:
        """Return what chains must agree on: the coefficients and the log density."""
        points = whitening.points(z)
        return np.column_stack([points[:, :k], target(points)[0]])

    draws = sample_whitened(
        density, numbers, target.dimension, KEPT, rng, length=_LENGTH, longest=_LONGEST, least=KEPT * 3 // 4
    )
    return whitening.points(draws)
