"""A proportion from many datasets at once: one posterior sample (OPS), the paper's Laplace plug-in, noisy counts.

The prior of [FouldsGWC16, sec. 3] is not stated; a uniform one is used, so that tempering it or not is the same thing.
Noise comes from a seed here. The sum over the hidden count is that of `vestry.conjugate.beta_bernoulli.public_count`,
without its thinning of components and for many noisy values together; a test holds the two to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vestry.conjugate.beta_bernoulli import Beta, BetaBernoulliFamily
from vestry.mechanisms.truncated_posterior import ops
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Laplace, Noise, log_ratio
from vestry.privacy.guarantee import PureDP
from vestry.privacy.neighbours import Adjacency, Neighbours

PRIOR = Beta(1.0, 1.0)
Indices = NDArray[np.int64]

# Weights below e^-DROP of the largest are omitted.
DROP = 40.0


def temperature(*, truncation: float, epsilon: float) -> float:
    """Return T = 2 log((1 - a)/a)/epsilon, or 1 if that is less."""
    adjacency = Adjacency(Neighbours.REPLACE, count=1)
    return ops(BetaBernoulliFamily(), PRIOR, adjacency, PureDP(epsilon), truncation=truncation).temperature


def ops_draws(rng: np.random.Generator, successes: Array, *, n: int, truncation: float, temperature: float) -> Array:
    """Return a draw for each dataset from its tempered posterior, restricted to [a, 1 - a], by rejection."""
    alpha, beta = 1 + successes / temperature, 1 + (n - successes) / temperature
    draws = rng.beta(alpha, beta)
    while True:
        outside = np.flatnonzero((draws < truncation) | (draws > 1 - truncation))
        if outside.size == 0:
            return draws
        draws[outside] = rng.beta(alpha[outside], beta[outside])


def laplace_plug_in(rng: np.random.Generator, successes: Array, *, n: int, epsilon: float) -> tuple[Array, Array]:
    """Return the two Beta parameters that the paper's mechanism publishes for each dataset.

    Laplace(2/epsilon) noise on successes and on failures, each cut at 0 [FouldsGWC16, eq. 16]. The pair is redundant
    where n is public, and so has twice the sensitivity of the successes alone; the paper's choice is kept here.
    """
    noise = rng.laplace(scale=2 / epsilon, size=(2, successes.size))
    return 1 + np.maximum(successes + noise[0], 0.0), 1 + np.maximum(n - successes + noise[1], 0.0)


def discrete_noise(rng: np.random.Generator, noise: Noise, size: int) -> Array:
    """Draw integer noise."""
    support, mass = noise_table(noise)
    return rng.choice(support, size, p=mass)


def noise_table(noise: Noise) -> tuple[Array, Array]:
    """Return the integers that carry all but e^-DROP of the noise, and their probabilities."""
    reach = math.ceil(noise.reach(DROP)) + 1
    support = np.arange(-reach, reach + 1.0)
    power = 1 if isinstance(noise, Laplace) else 2
    mass = np.exp(-((np.abs(support) / noise.scale) ** power) / power)
    return support, mass / mass.sum()


@dataclass(frozen=True, eq=False)
class CountPosteriors:
    """The distribution of the hidden count given each of several noisy values, and the Beta mixtures that follow.

    Attributes
    ----------
    counts, weights
        One row per noisy value; the weights of a row sum to 1.
    n, prior
        The public number of records, and the prior.
    """

    counts: Array
    weights: Array
    n: int
    prior: Beta

    def mean(self) -> Array:
        """Return the posterior mean of the proportion, one per row."""
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


def count_posteriors(noisy: Array, *, n: int, prior: Beta, noise: Noise) -> CountPosteriors:
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
    rng: np.random.Generator, successes: Array, *, n: int, prior: Beta, noise: Noise
) -> tuple[Array, Array]:
    """Add noise to each count; return a draw from its noise-aware posterior, and the posterior's mean."""
    noisy = successes + discrete_noise(rng, noise, successes.size)
    values, rows = np.unique(noisy, return_inverse=True)
    posteriors = count_posteriors(values, n=n, prior=prior, noise=noise)
    return posteriors.draw(rng, rows.astype(np.int64)), posteriors.mean()[rows]


def private_estimates(
    rng: np.random.Generator, successes: Array, *, n: int, truncation: float, temperature: float, epsilon: float
) -> Iterator[tuple[str, Array]]:
    """Yield the estimates of each dataset's proportion that a mechanism gives, by name."""
    yield "ops draw", ops_draws(rng, successes, n=n, truncation=truncation, temperature=temperature)
    alpha, beta = laplace_plug_in(rng, successes, n=n, epsilon=epsilon)
    yield "laplace draw", rng.beta(alpha, beta)
    yield "laplace mean", alpha / (alpha + beta)
    draws, mean = aware_draws(rng, successes, n=n, prior=PRIOR, noise=Laplace(1 / epsilon))
    yield "aware draw", draws
    yield "aware mean", mean
