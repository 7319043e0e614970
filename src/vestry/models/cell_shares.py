"""CategoryShares of categories from noisy counts: the counts that the noise hides are summed out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from vestry.conjugate import beta_bernoulli, dirichlet_posterior
from vestry.models.law_per_integer import LawPerInteger
from vestry.noise_inversion.noise_sum import NoiseSum
from vestry.numerics import Array
from vestry.posterior.mixture import BetaMixture, two_sided
from vestry.purchases.noisy import NoisyInteger


class CategoryShares(Protocol):
    """The joint distribution of several shares."""

    def marginal(self, index: int) -> BetaMixture:
        """Return the distribution of one share."""

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent joint draws, one per row."""


def success_share(successes: int, law: NoiseSum, total: int, prior: tuple[float, float]) -> BetaMixture:
    """Return the posterior of a probability with a Beta prior, from one noisy count of a public number of records."""
    alpha, beta = prior
    return beta_bernoulli.public_count(successes, count=total, alpha=alpha, beta=beta, noise=law)


def category_shares(counts: Sequence[NoisyInteger], total: int | None, prior: Sequence[float]) -> CategoryShares:
    """Return the posterior of probabilities with a Dirichlet prior.

    Parameters
    ----------
    counts
        The noisy counts of all categories.
    total
        Their sum where it is public.
    prior
        The prior's numbers, one for each category.
    """
    values = [count.value for count in counts]
    laws = [count.law for count in counts]
    noise, labels = LawPerInteger.of(values, laws)
    alphas = np.array(prior, dtype=float)
    if total is not None:
        given_total = dirichlet_posterior.public_count
        return given_total(labels, count=total, alphas=alphas, noise=noise)
    if len(counts) == 2:
        alpha, beta = alphas.tolist()
        share = beta_bernoulli.private_count(labels[0], labels[1], alpha=alpha, beta=beta, noise=noise)
        return two_sided(share)
    return dirichlet_posterior.private_count(labels, alphas=alphas, noise=noise)
