"""From a log density to draws, ignorant of privacy: what runs on noisy statistics, permanently and for free.

Randomness is an ordinary generator. One algorithm per file, compiled by JAX, which counts in 64-bit floats for the
length of a call; the process's own settings are left alone. Each is imported when its name is first used.
"""

from __future__ import annotations

from vestry.mcmc.late_import import late_import

_HOMES = {
    "annealed_importance": "annealed",
    "barker_walk": "metropolis",
    "metropolis_walk": "metropolis",
    "slice_logistic": "slice_sampler",
    "truncated_beta": "truncated_draws",
    "truncated_dirichlet": "truncated_draws",
}
__getattr__ = late_import(__name__, _HOMES, needs="jax")
__all__ = list(_HOMES)
