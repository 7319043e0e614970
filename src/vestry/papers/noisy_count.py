"""Many noisy counts at once: the noise itself from a seed, and the noise-aware posterior of each.

The sum over the hidden count is that of `vestry.conjugate.beta_bernoulli.public_count`, without its thinning of
components and for many noisy values together; a test holds the two to each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vestry.conjugate.beta_bernoulli import Beta
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Laplace, NoiseLaw, log_ratio

Indices = NDArray[np.int64]

# Weights below e^-DROP of the largest are left out.
DROP = 40.0


def discrete_noise(rng: np.random.Generator, law: NoiseLaw, size: int) -> Array:
    """Draw integer noise."""
    support, mass = noise_table(law)
    return rng.choice(support, size, p=mass)


def noise_table(law: NoiseLaw) -> tuple[Array, Array]:
    """Return the integers that carry all but e^-DROP of the noise, and their probabilities."""
    reach = math.ceil(law.reach(DROP)) + 1
    support = np.arange(-reach, reach + 1.0)
    power = 1 if isinstance(law, Laplace) else 2
    mass = np.exp(-((np.abs(support) / law.scale) ** power) / power)
    return support, mass / mass.sum()


@dataclass(frozen=True, eq=False)
class CountPosteriors:
    """The law of the hidden count given each of several noisy values, and the Beta mixtures that follow.

    Attributes
    ----------
    counts, weights
        One row a noisy value; the weights of a row sum to 1.
    n, prior
        The public number of records, and the prior.
    """

    counts: Array
    weights: Array
    n: int
    prior: Beta

    def mean(self) -> Array:
        """Return the posterior mean of the proportion, one a row."""
        total = self.prior.alpha + self.prior.beta + self.n
        return np.asarray((self.weights * (self.prior.alpha + self.counts)).sum(axis=1) / total)

    def draw(self, rng: np.random.Generator, rows: Indices) -> Array:
        """Return one draw of the proportion for each of the rows asked for."""
        steps = np.cumsum(self.weights, axis=1)
        ladder = (steps / steps[:, -1:] + np.arange(len(steps))[:, None]).ravel()
        width = self.counts.shape[1]
        place = np.searchsorted(ladder, rows + rng.random(rows.size), side="right")
        count = self.counts.ravel()[np.clip(place, rows * width, rows * width + width - 1)]
        return rng.beta(self.prior.alpha + count, self.prior.beta + self.n - count)


def count_posteriors(noisy: Array, *, n: int, prior: Beta, noise: NoiseLaw) -> CountPosteriors:
    """Return p(s | z) ~ BetaBinomial(s; n, a, b) P(noise = z - s) for each noisy z."""
    nearest = np.clip(noisy, 0, n)[:, None]
    # Twice, because the prior may pull the count away from the noisy value.
    reach = math.ceil(noise.reach(2 * DROP)) + 10
    near = nearest + np.arange(-reach, reach + 1.0)
    counts = near if near.shape[1] <= n else np.tile(np.arange(n + 1.0), (noisy.size, 1))
    inside = (counts >= 0) & (counts <= n)
    counts = np.clip(counts, 0, n)
    logs = noise.log_weight(counts, noisy[:, None], nearest)
    logs = logs + log_ratio(counts, prior.alpha) + log_ratio(n - counts, prior.beta)
    logs = np.where(inside, logs, -np.inf)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return CountPosteriors(counts, weights / weights.sum(axis=1, keepdims=True), n, prior)


def aware_draws(
    rng: np.random.Generator, successes: Array, *, n: int, prior: Beta, noise: NoiseLaw
) -> tuple[Array, Array]:
    """Add noise to each count; return a draw from its noise-aware posterior, and the posterior's mean."""
    noisy = successes + discrete_noise(rng, noise, successes.size)
    values, rows = np.unique(noisy, return_inverse=True)
    posteriors = count_posteriors(values, n=n, prior=prior, noise=noise)
    return posteriors.draw(rng, rows.astype(np.int64)), posteriors.mean()[rows]
