"""A release as data for any model: exact log-likelihoods in NumPy, JAX and PyTensor, for NumPyro and Stan.

`release.likelihood(group)` is where to begin. Distributions of NumPyro are imported when their names are first used.
"""

from __future__ import annotations

from vestry.mcmc.late_import import late_import

_HOMES = dict.fromkeys(("NoisyBinomial", "NoisyGram", "NoisyMultinomial", "NoisyPoisson"), "numpyro_distributions")
__getattr__ = late_import(__name__, _HOMES, needs="numpyro")
__all__ = list(_HOMES)
