"""From a log density to draws, ignorant of privacy: what runs on noisy statistics, for ever and for free.

Randomness is an ordinary generator. One algorithm a file. The hidden Markov samplers are compiled by Numba, the others
by JAX, which counts in 64-bit floats for the length of a call; the process's own settings are left alone. Both are
imported when one of these names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vestry.errors import MissingExtra

_HOMES = {
    "StateDraws": "state_model",
    "annealed_importance": "annealed",
    "barker_walk": "barker",
    "blocked_gibbs": "blocked",
    "collapsed_gibbs": "collapsed",
    "held_out_log_likelihood": "held_out",
    "metropolis_walk": "metropolis",
    "relabelled": "relabel",
    "slice_logistic": "slice",
    "truncated_beta": "truncated",
    "truncated_dirichlet": "truncated",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vestry.samplers' has no attribute {name!r}")
    try:
        return getattr(import_module(f"vestry.samplers.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in {"jax", "numba"}:
            raise
        raise MissingExtra(f"sampling (here {name})", "glm") from None


__all__ = list(_HOMES)
