"""From a log density to draws, ignorant of privacy: what runs on noisy statistics, permanently and for free.

Randomness is an ordinary generator. One algorithm a file, compiled by JAX, which counts in 64-bit floats for the length
of a call; the process's own settings are left alone. Each is imported when its name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vestry.errors import MissingExtra

_HOMES = {
    "annealed_importance": "annealed",
    "barker_walk": "barker",
    "metropolis_walk": "metropolis",
    "slice_logistic": "slice_sampler",
    "truncated_beta": "truncated_draws",
    "truncated_dirichlet": "truncated_draws",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vestry.mcmc' has no attribute {name!r}")
    try:
        return getattr(import_module(f"vestry.mcmc.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "jax":
            raise
        raise MissingExtra(f"sampling (here {name})", "glm") from None


__all__ = list(_HOMES)
