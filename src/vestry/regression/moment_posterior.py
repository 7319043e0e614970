"""What noisy moments say of a linear regression: coefficients, residual spread, R squared, fitted values.

All in the units of the columns. Which computation is used follows from the noise alone (`kappa`, see `released_gram`):
closed form where it is small, draws of the Gram matrix beyond that for numbers, and a refusal where neither was shown
to be right.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from vestry.errors import NoInterval
from vestry.mcmc.hamiltonian import ChainsDisagree
from vestry.numerics import Array
from vestry.posterior.mixture import NormalMixture
from vestry.regression.gram_sampler import sample_gram
from vestry.regression.released_gram import CoefficientMixture, DeltaFit, ReleasedGram, delta_gram, delta_posterior

# kappa up to which the closed form is used; the same with indicators, beyond which there is no answer.
SMALL, SMALL_WITH_LEVELS = 0.3, 1.0
# Coefficients up to which the sampler was measured.
MOST_SAMPLED = 4
# Draws of R squared, and the width of the normal kernels around draws, in their standard deviations.
_DRAWS, _KERNEL = 4000, 0.1


@dataclass(frozen=True, eq=False)
class LinearMap:
    """From scaled coefficients to those of the columns: matrix @ theta + shift, and a residual sd times `reach`."""

    matrix: Array
    shift: Array
    reach: float


class FittedValues(Protocol):
    """What the posterior of the Gram matrix says of fitted values."""

    def variances(self, theta: Array, sigma: Array, components: np.ndarray, rng: np.random.Generator) -> Array:
        """Draw the variance of the scaled fitted values, given coefficients, residual sds and mixture components."""


@dataclass(frozen=True, eq=False)
class SampledFittedValues:
    """Fitted values by draws of the Gram matrix, one for each mixture component.

    Attributes
    ----------
    gram
        The draws, as shares of the records.
    """

    gram: Array

    def variances(self, theta: Array, sigma: Array, components: np.ndarray, rng: np.random.Generator) -> Array:
        """Return the variance of the scaled fitted values under the Gram matrix of each component."""
        return _variance(self.gram[components], theta)


@dataclass(frozen=True, eq=False)
class LinearisedFittedValues:
    """Fitted values by the closed form.

    Attributes
    ----------
    fit
        What the closed form rests on.
    """

    fit: DeltaFit

    def variances(self, theta: Array, sigma: Array, components: np.ndarray, rng: np.random.Generator) -> Array:
        """Draw a Gram matrix for each draw, a part at a time, and return the variance of its fitted values."""
        noisy = self.fit.noisy
        size = max(1, _CHUNK // noisy.matrix.size)
        variances = []
        for start in range(0, len(theta), size):
            part = slice(start, start + size)
            gram = delta_gram(self.fit, theta[part], sigma[part], rng)
            variances.append(_variance(gram / noisy.count, theta[part]))
        return np.concatenate(variances)


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """The joint posterior of coefficients, residual standard deviation and R squared.

    Attributes
    ----------
    mixture
        Of scaled coefficients.
    units
        How they become those of the columns.
    kernels
        The variance of the normal kernel around each node or draw of the residual sd.
    fitted
        Draws the variance of the scaled fitted values.
    seed
        For draws that belong to the release.
    fit
        What the closed form rests on; None where the Gram matrix was sampled.
    """

    mixture: CoefficientMixture
    units: LinearMap
    kernels: float
    fitted: FittedValues
    seed: int
    fit: DeltaFit | None = None

    @property
    def dimension(self) -> int:
        """How many numbers there are: coefficients, residual sd, R squared."""
        return len(self.units.shift) + 2

    def marginal(self, index: int) -> NormalMixture:
        """Return the distribution of one of them."""
        size = len(self.units.shift)
        index = range(self.dimension)[index]
        if index < size:
            return self.combination(self.units.matrix[index], float(self.units.shift[index]))
        if index == size:
            reach = self.units.reach
            kernels = reach**2 * np.minimum(self.kernels, (self.mixture.sigma / 4) ** 2)
            return NormalMixture(self.mixture.weights, reach * self.mixture.sigma, np.maximum(kernels, 1e-24))
        return self._r_squared

    def variances(self) -> Array:
        """Return the variance of each coefficient."""
        return np.array([self.marginal(place).variance() for place in range(len(self.units.shift))])

    def sampling_variances(self, noisy: ReleasedGram) -> Array:
        """Return what they would be without noise and prior: s2 S^-1, at the mean s2."""
        s2 = float(self.mixture.weights @ self.mixture.sigma**2)
        matrix = self.units.matrix
        return np.asarray(s2 * np.einsum("ij,jk,ik->i", matrix, np.linalg.inv(noisy.gram), matrix))

    def combination(self, row: Array, shift: float, *, residual: bool = False) -> NormalMixture:
        """Return the distribution of row @ theta + shift; with the residual of a new record, if `residual`."""
        mixture = self.mixture
        variances = np.einsum("i,nij,j->n", row, mixture.covariances, row)
        if residual:
            variances = variances + (self.units.reach * mixture.sigma) ** 2
        return NormalMixture(mixture.weights, mixture.means @ row + shift, np.maximum(variances, 1e-300))

    @cached_property
    def _r_squared(self) -> NormalMixture:
        values = self.draw(np.random.default_rng(self.seed), _DRAWS)[:, -1]
        values = np.clip(values, 1e-9, 1 - 1e-9)
        room = np.minimum(values, 1 - values) / 4  # from 0 to 1, kernels included
        kernels = np.minimum(_KERNEL * float(values.std()), room) ** 2
        return NormalMixture(np.full(len(values), 1 / len(values)), values, np.maximum(kernels, 1e-24))

    def log_evidence(self, prior_variance: Array) -> float:
        """Return the log marginal likelihood with these prior variances; one of 0 leaves a coefficient out."""
        if self.fit is None:
            raise NoInterval("there is no marginal likelihood where the Gram matrix had to be sampled.")
        return self.fit.log_evidence(prior_variance)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent joint draws, one per row."""
        theta, sigma, share = self.scaled_draws(rng, size)
        r_squared = np.clip(share / (share + sigma**2), 0.0, 1.0)
        coefficients = theta @ self.units.matrix.T + self.units.shift
        return np.column_stack([coefficients, self.units.reach * sigma, r_squared])

    def scaled_draws(self, rng: np.random.Generator, size: int) -> tuple[Array, Array, Array]:
        """Return scaled coefficients, residual sd and variance of the fitted values."""
        mixture = self.mixture
        places = rng.choice(len(mixture.weights), size, p=mixture.weights)
        roots = np.linalg.cholesky(mixture.covariances)
        theta = mixture.means[places] + np.einsum("nij,nj->ni", roots[places], rng.normal(size=(size, roots.shape[1])))
        sigma = np.abs(mixture.sigma[places] + math.sqrt(self.kernels) * rng.normal(size=size))
        return theta, sigma, np.maximum(self.fitted.variances(theta, sigma, places, rng), 0.0)


def linear_posterior(noisy: ReleasedGram, prior_variance: float, units: LinearMap) -> LinearPosterior:
    """Return the posterior, or refuse where no computation was shown to be right."""
    reason = refusal(noisy)
    if reason is not None:
        raise NoInterval(reason)
    seed = _seed(noisy, prior_variance)
    if in_closed_form(noisy):
        return _by_delta(noisy, prior_variance, units, seed)
    try:
        draws = sample_gram(noisy, prior_variance, np.random.default_rng(seed))
    except (ChainsDisagree, np.linalg.LinAlgError):
        raise NoInterval(_reason(noisy, "the chains that sample it do not agree")) from None
    mixture = draws.mixture(prior_variance)

    fitted = SampledFittedValues(draws.gram / draws.count[:, None, None])
    kernels = (_KERNEL * float(mixture.sigma.std())) ** 2
    return LinearPosterior(mixture, units, kernels, fitted, seed)


def plug_in_posterior(noisy: ReleasedGram, prior_variance: float, units: LinearMap) -> LinearPosterior:
    """Return the posterior that takes the moments as exact; for comparison."""
    if not np.isfinite(noisy.kappa):
        raise NoInterval("the noisy moments are those of no records, so nothing can be plugged in.")
    matrix = noisy.matrix.copy()
    explained = matrix[:-1, -1] @ np.linalg.solve(noisy.gram, matrix[:-1, -1])
    matrix[-1, -1] = max(matrix[-1, -1], explained + 1e-6 * max(noisy.count, 1.0))
    exact = replace(noisy, matrix=matrix, deviation=1e-12 * max(noisy.count, 1.0))
    return _by_delta(exact, prior_variance, units, 0)


def in_closed_form(noisy: ReleasedGram) -> bool:
    """Tell whether the noise is small beside the Gram matrix."""
    return noisy.kappa < (SMALL_WITH_LEVELS if noisy.levels else SMALL)


def refusal(noisy: ReleasedGram) -> str | None:
    """Return why there is no interval; None where there is one. It depends on what was released alone."""
    if noisy.count < noisy.dimension + 2:
        return f"there is no interval, because there are not more records than the {noisy.dimension} coefficients."
    if in_closed_form(noisy):
        return None
    if noisy.levels:
        return _reason(noisy, "with columns of levels no way to sample it was shown to be right")
    if noisy.private:
        return _reason(noisy, "sampling it was not measured where the number of records is private")
    if noisy.dimension > MOST_SAMPLED:
        return _reason(noisy, f"sampling it was measured for at most {MOST_SAMPLED} coefficients")
    return None


def _reason(noisy: ReleasedGram, why: str) -> str:
    size = f"kappa = {noisy.kappa:.2g}" if np.isfinite(noisy.kappa) else "it is not even positive definite"
    return (
        f"there is no interval, because the noise hides the Gram matrix of the predictors ({size}), and {why}; use"
        " fewer predictors, narrower declared intervals, more records or a larger budget."
    )


def _by_delta(noisy: ReleasedGram, prior_variance: float, units: LinearMap, seed: int) -> LinearPosterior:
    fit = DeltaFit.of(noisy)
    mixture = delta_posterior(fit, prior_variance)

    spacing = float(np.median(np.diff(mixture.sigma))) if len(mixture.sigma) > 1 else 1e-6
    return LinearPosterior(mixture, units, (0.5 * spacing) ** 2, LinearisedFittedValues(fit), seed, fit)


# Entries of drawn matrices that are held at once.
_CHUNK = 1 << 21


def _variance(gram: Array, theta: Array) -> Array:
    """Return the variance of the fitted values over the records; the first feature is the intercept."""
    square = np.einsum("ni,nij,nj->n", theta, gram, theta)
    return np.asarray(square - np.einsum("nj,nj->n", gram[:, 0], theta) ** 2 / gram[:, 0, 0])


def _seed(noisy: ReleasedGram, prior_variance: float) -> int:
    """Return a number that belongs to the release: its posterior is the same whenever it is computed."""
    text = json.dumps([noisy.matrix.tolist(), noisy.deviation, noisy.count, prior_variance])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
