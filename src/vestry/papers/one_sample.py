"""One posterior sample (OPS) for many datasets at once, and the paper's Laplace plug-in [FouldsGWC16, sec. 3].

The prior is uniform, so tempering it or not is the same thing. The paper does not state its own.
"""

from __future__ import annotations

import numpy as np

from vestry.conjugate.beta_bernoulli import Beta, BetaBernoulliFamily
from vestry.mechanisms.truncated_posterior import ops
from vestry.numerics import Array
from vestry.privacy.guarantee import PureDP
from vestry.privacy.neighbours import Adjacency, Neighbours

PRIOR = Beta(1.0, 1.0)


def temperature(*, truncation: float, epsilon: float) -> float:
    """Return T = 2 log((1 - a)/a)/epsilon, or 1 if that is less."""
    adjacency = Adjacency(Neighbours.REPLACE, count=1)
    return ops(BetaBernoulliFamily(), PRIOR, adjacency, PureDP(epsilon), truncation=truncation).temperature


def ops_draws(rng: np.random.Generator, successes: Array, *, n: int, truncation: float, temperature: float) -> Array:
    """Return a draw for each dataset from its tempered posterior, restricted to [a, 1 - a], by rejection."""
    alpha, beta = 1 + successes / temperature, 1 + (n - successes) / temperature
    drawn = rng.beta(alpha, beta)
    while True:
        outside = np.flatnonzero((drawn < truncation) | (drawn > 1 - truncation))
        if outside.size == 0:
            return drawn
        drawn[outside] = rng.beta(alpha[outside], beta[outside])


def laplace_plug_in(rng: np.random.Generator, successes: Array, *, n: int, epsilon: float) -> tuple[Array, Array]:
    """Return the two Beta parameters that the paper's mechanism publishes for each dataset.

    Laplace(2/epsilon) noise on successes and on failures, each cut at 0 [FouldsGWC16, eq. 16]. The pair is redundant
    where n is public, and so has twice the sensitivity of the successes alone; the paper's choice is kept here.
    """
    noise = rng.laplace(scale=2 / epsilon, size=(2, successes.size))
    return 1 + np.maximum(successes + noise[0], 0.0), 1 + np.maximum(n - successes + noise[1], 0.0)
