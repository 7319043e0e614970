"""NUTS for the posterior of logistic regression: a reference, not a mechanism."""

from __future__ import annotations

import numpy as np

from vestry.errors import InvalidParameter, MissingExtra
from vestry.mcmc.slice_sampler import CONVERGED


def nuts_posterior(
    rows: np.ndarray, labels: np.ndarray, *, precision: float, draws: int, seed: int, assume_converged: bool = False
) -> np.ndarray:
    """Draw from the posterior of logistic regression by NumPyro's NUTS, in double precision, a row for each draw.

    No theorem bounds how far its draws are from the posterior, so nothing that it draws is certified private, and it
    asks for `assume_converged=True`.
    """
    try:
        import jax
        import numpyro
        from numpyro import distributions
        from numpyro.infer import MCMC, NUTS
    except ModuleNotFoundError:
        raise MissingExtra("the sampler NUTS", "glm") from None
    if assume_converged is not True:
        raise InvalidParameter("assume_converged", assume_converged, CONVERGED, "assume_converged=True")

    def model() -> None:
        size = rows.shape[1]
        theta = numpyro.sample("theta", distributions.Normal(0.0, precision**-0.5).expand([size]).to_event(1))
        numpyro.factor("likelihood", jax.nn.log_sigmoid(jax.numpy.asarray(rows * labels[:, None]) @ theta).sum())

    with jax.enable_x64(True):
        chain = MCMC(NUTS(model), num_warmup=500, num_samples=draws, progress_bar=False)
        chain.run(jax.random.PRNGKey(seed))
        return np.asarray(chain.get_samples()["theta"], dtype=float)
