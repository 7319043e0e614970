"""Barker's chain: a symmetric step, accepted with probability p(new)/(p(new) + p(old)).

It moves less often than Metropolis, but at least half as often. Its acceptance is smooth in the log densities and
never 0 or 1, which is what privacy asks for (`vestry.privacy.mcmc_cost`).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from vestry.mcmc.metropolis import LogDensity, walk


def barker_walk(
    log_density: LogDensity,
    start: np.ndarray,
    *,
    draws: int,
    burn_in: int,
    rng: np.random.Generator,
    scale: float = 1.0,
    temperature: float = 1.0,
) -> np.ndarray:
    """Draw from density ~ p^(1/temperature), one chain a row of `start`; see `metropolis_walk`."""
    return walk(log_density, start, log_sigmoid, draws, burn_in, rng, scale, temperature)


def log_sigmoid(rise: Any) -> Any:
    """Return the log of 1/(1 + e^-rise)."""
    return jax.nn.log_sigmoid(rise)
