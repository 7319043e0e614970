"""The sampler of the Gram matrix against NUTS on the same releases, written in another library.

A posterior mean may differ by 20 % of the posterior's sd and an sd by 20 %: each has an error of about 3 % from either
chain, so a false alarm over all comparisons is rarer than 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
from regression.test_released_gram import moments, noisy

from vestry.regression.gram_sampler import sample_gram

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TAU = 0.3


def released(seed: int, n: int, sd: float) -> np.ndarray:
    """Return a noisy matrix of 1, two numbers and an outcome; its first entry is the public count."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(0, 0.3, (n, 2))])
    z = np.column_stack([x, x @ rng.normal(0, TAU, 3) + rng.normal(0, 0.2, n)])
    noise = np.triu(rng.normal(0, sd, (4, 4)))
    noise[0, 0] = 0.0
    return z.T @ z + noise + np.triu(noise, 1).T


def by_nuts(matrix: np.ndarray, n: int, sd: float, seed: int) -> np.ndarray:
    """Return draws of the coefficients: S by its correlation matrix, theta and the errors as they are."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    rows, columns = np.triu_indices(4)

    def model(z):
        root = numpyro.sample("root", dist.LKJCholesky(3, 1.0))
        m = jnp.append(1.0, numpyro.sample("m", dist.Uniform(0, 1).expand([2])))
        lower = jnp.sqrt(m)[:, None] * root
        theta = numpyro.sample("theta", dist.Normal(0, TAU).expand([3]))
        sigma = numpyro.sample("sigma", dist.Uniform(0, 1))
        e = numpyro.sample("e", dist.Normal(0, 1).expand([3]))
        chi = numpyro.sample("chi", dist.Chi2(n - 3))
        c = lower.T @ theta + sigma / jnp.sqrt(n) * e
        gram, cross = n * lower @ lower.T, n * lower @ c
        square = n * (c @ c) + sigma**2 * chi
        full = jnp.block([[gram, cross[:, None]], [cross[None], square[None, None]]])
        numpyro.sample("z", dist.Normal(full[rows, columns][1:], sd), obs=z[rows, columns][1:])

    chain = MCMC(NUTS(model, target_accept_prob=0.9), num_warmup=800, num_samples=2500, progress_bar=False)
    chain.run(jax.random.PRNGKey(seed), jnp.asarray(matrix))
    return np.asarray(chain.get_samples()["theta"])


SIZES = [(400, 8.0), (1000, 12.0), (100, 10.0), (1000, 20.0)]


@pytest.mark.parametrize(("seed", "n", "sd"), [(seed, *SIZES[seed % 4]) for seed in range(20)])
def test_the_same_posterior_as_nuts(seed, n, sd):
    matrix = released(seed, n, sd)
    mean, spread = moments(sample_gram(noisy(matrix, sd, n), TAU**2, np.random.default_rng(seed)).mixture(TAU**2))
    draws = by_nuts(matrix, n, sd, seed)
    assert (np.abs(mean - draws.mean(axis=0)) / spread).max() < 0.2
    assert spread == pytest.approx(draws.std(axis=0), rel=0.2)
