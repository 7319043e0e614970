"""Annealed importance sampling: from an easy density to the target by steps of temperature, with correcting weights.

Particles start from the base and pass through densities f_j ~ base x likelihood^power_j, power_j rising from 0 to 1 or
less, by one or more Barker steps at each. The log weight is sum_j (power_j - power_(j-1)) log likelihood(theta_(j-1)).
Weighted averages over particles estimate the target at the last power, and the mean weight its normalising constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vestry.errors import InvalidParameter
from vestry.mcmc.jit import compiled, key
from vestry.mcmc.metropolis import LogDensity, log_sigmoid, move
from vestry.validation import require_number, require_whole


@dataclass(frozen=True)
class Particles:
    """Weighted points: (particles, dimension), and their log weights."""

    points: np.ndarray
    log_weights: np.ndarray

    def weights(self) -> np.ndarray:
        """Return weights that add up to 1."""
        raw = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(raw / raw.sum())

    def log_evidence(self) -> float:
        """Return the log of the mean weight: the log normalising constant, the base's being 1."""
        top = float(self.log_weights.max())
        return top + float(np.log(np.exp(self.log_weights - top).mean()))


def annealed_importance(
    log_base: LogDensity,
    log_likelihood: LogDensity,
    start: np.ndarray,
    *,
    powers: Sequence[float],
    rng: np.random.Generator,
    scale: float = 1.0,
    steps: int = 1,
) -> Particles:
    """Anneal particles, drawn from the base, through rising powers of the likelihood.

    Parameters
    ----------
    log_base, log_likelihood
        Functions of JAX from one point.
    start
        Independent draws from the base, (particles, dimension).
    powers
        Rising, all above 0; the last one is the target's, 1 for the posterior itself.
    rng
        An ordinary generator.
    scale, steps
        The standard deviation of a Barker step, and how many of them at each power.
    """
    ladder = np.concatenate([[0.0], np.asarray(powers, float)])
    if len(ladder) < 2 or not (np.diff(ladder) > 0).all() or not np.isfinite(ladder).all():
        raise InvalidParameter("powers", list(powers), "rising and above 0", "for example powers=(0.1, 0.5, 1.0)")
    points, logs = _anneal(
        key(rng),
        np.asarray(start, float),
        ladder,
        require_number("scale", scale, "for example scale=1.0", above=0),
        log_base=log_base,
        log_likelihood=log_likelihood,
        steps=require_whole("steps", steps),
    )
    return Particles(np.asarray(points), np.asarray(logs))


@compiled(static=("log_base", "log_likelihood", "steps"))
def _anneal(random: Any, start: Any, ladder: Any, scale: Any, *, log_base: Any, log_likelihood: Any, steps: int) -> Any:
    def rung(carry: Any, each: Any) -> Any:
        points, logs = carry
        random, before, power = each
        logs = logs + (power - before) * jax.vmap(log_likelihood)(points)

        def density(point: Any) -> Any:
            return log_base(point) + power * log_likelihood(point)

        def step(state: Any, random: Any) -> Any:
            return move(density, log_sigmoid, scale, 1.0, random, state), None

        state = (points, jax.vmap(density)(points))
        (points, _), _ = lax.scan(step, state, jax.random.split(random, steps))
        return (points, logs), None

    each = (jax.random.split(random, len(ladder) - 1), ladder[:-1], ladder[1:])
    (points, logs), _ = lax.scan(rung, (start, jnp.zeros(len(start))), each)
    return points, logs
