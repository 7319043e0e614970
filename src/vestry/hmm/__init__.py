"""Hidden states of regions over time: the model, its samplers and what they say, from noisy counts.

The samplers are compiled by Numba, which is imported when one of these names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vestry.errors import MissingExtra

_HOMES = {
    "StateDraws": "state_model",
    "blocked_gibbs": "gibbs",
    "collapsed_gibbs": "gibbs",
    "held_out_log_likelihood": "predictive",
    "relabelled": "relabel",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vestry.hmm' has no attribute {name!r}")
    try:
        return getattr(import_module(f"vestry.hmm.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise MissingExtra(f"sampling (here {name})", "glm") from None


__all__ = list(_HOMES)
