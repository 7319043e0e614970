"""Hidden states of regions over time: the model, its samplers and what they say, from noisy counts.

The samplers are compiled by Numba, which is imported when one of these names is first used.
"""

from __future__ import annotations

from vestry.mcmc.late_import import late_import

_HOMES = {
    "StateDraws": "state_model",
    "blocked_gibbs": "gibbs",
    "collapsed_gibbs": "gibbs",
    "held_out_log_likelihood": "predictive",
    "noise_aware_gibbs": "latent_counts",
    "relabel": "state_model",
}
__getattr__ = late_import(__name__, _HOMES, needs="numba")
__all__ = list(_HOMES)
