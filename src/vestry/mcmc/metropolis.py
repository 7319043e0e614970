"""Random walks: a symmetric step, accepted by Metropolis' rule, min(1, p(new)/p(old)), or by Barker's.

Barker accepts with probability p(new)/(p(new) + p(old)). His chain moves less often than Metropolis, but at least half
as often. Its acceptance is smooth in the log densities and never 0 or 1, which is what privacy asks for
(`vestry.privacy.mcmc_cost`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vestry.mcmc.jit import compiled, key
from vestry.mcmc.late_import import require_burn_in
from vestry.validation import require_number

LogDensity = Callable[[Any], Any]
Accept = Callable[[Any], Any]


def log_minimum(rise: Any) -> Any:
    """Return the log of min(1, e^rise): Metropolis' rule."""
    return jnp.minimum(0.0, rise)


def log_sigmoid(rise: Any) -> Any:
    """Return the log of 1/(1 + e^-rise): Barker's rule."""
    return jax.nn.log_sigmoid(rise)


def metropolis_walk(
    log_density: LogDensity,
    start: np.ndarray,
    *,
    draws: int,
    burn_in: int,
    rng: np.random.Generator,
    scale: float = 1.0,
    temperature: float = 1.0,
    accept: Accept = log_minimum,
) -> np.ndarray:
    """Draw from density ~ p^(1/temperature), one chain for each row of `start`: (draws - burn_in, chains, dimension).

    Parameters
    ----------
    log_density
        A function of JAX from one point to log p, up to a constant; -inf where p is 0.
    start
        (chains, dimension).
    draws, burn_in
        How many steps to make, and how many of the first to drop.
    rng
        An ordinary generator.
    scale
        The standard deviation of a step in each dimension.
    temperature
        1 draws from p itself.
    accept
        The log of the probability with which a rise of log p over the temperature is accepted.
    """
    draws, burn_in = require_burn_in(draws, burn_in)
    step = require_number("scale", scale, "for example scale=1.0", above=0)
    power = 1 / require_number("temperature", temperature, "for example temperature=1.0", above=0)
    run = _run(key(rng), np.asarray(start, float), step, power, log_density=log_density, accept=accept, draws=draws)
    return np.asarray(run)[burn_in:]


def barker_walk(log_density: LogDensity, start: np.ndarray, **options: Any) -> np.ndarray:
    """Draw as `metropolis_walk` does, by Barker's rule; the options are the same."""
    return metropolis_walk(log_density, start, **options, accept=log_sigmoid)


def move(log_density: LogDensity, accept: Accept, scale: Any, power: Any, random: Any, state: Any) -> Any:
    """Make one step of every chain; the state is the points and their log densities."""
    points, logs = state
    ahead, chance = jax.random.split(random)
    proposed = points + scale * jax.random.normal(ahead, points.shape)
    proposed_logs = jax.vmap(log_density)(proposed)
    taken = jnp.log(jax.random.uniform(chance, logs.shape)) < accept(power * (proposed_logs - logs))
    return jnp.where(taken[:, None], proposed, points), jnp.where(taken, proposed_logs, logs)


@compiled(static=("log_density", "accept", "draws"))
def _run(random: Any, start: Any, scale: Any, power: Any, *, log_density: Any, accept: Any, draws: int) -> Any:
    def step(state: Any, random: Any) -> Any:
        state = move(log_density, accept, scale, power, random, state)
        return state, state[0]

    _, points = lax.scan(step, (start, jax.vmap(log_density)(start)), jax.random.split(random, draws))
    return points
