"""Random-walk Metropolis: a symmetric step, accepted with probability min(1, p(new)/p(old))."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vestry.mcmc.jit import compiled, key
from vestry.mcmc.sampler_parameter import kept, positive

LogDensity = Callable[[Any], Any]
Accept = Callable[[Any], Any]


def metropolis_walk(
    log_density: LogDensity,
    start: np.ndarray,
    *,
    draws: int,
    burn_in: int,
    rng: np.random.Generator,
    scale: float = 1.0,
    temperature: float = 1.0,
) -> np.ndarray:
    """Draw from density ~ p^(1/temperature), one chain a row of `start`: (draws - burn_in, chains, dimension).

    Parameters
    ----------
    log_density
        A function of JAX from one point to log p, up to a constant; -inf where p is 0.
    start
        (chains, dimension).
    draws, burn_in
        How many steps to make, and how many of the first to leave out.
    rng
        An ordinary generator.
    scale
        The standard deviation of a step in each dimension.
    temperature
        1 draws from p itself.
    """
    return walk(log_density, start, _accept, draws, burn_in, rng, scale, temperature)


def _accept(rise: Any) -> Any:
    """Return the log of min(1, e^rise)."""
    return jnp.minimum(0.0, rise)


def walk(
    log_density: LogDensity,
    start: np.ndarray,
    accept: Accept,
    draws: int,
    burn_in: int,
    rng: np.random.Generator,
    scale: float,
    temperature: float,
) -> np.ndarray:
    """Walk at random, each step kept with probability e^accept(rise of log p over the temperature)."""
    draws, burn_in = kept(draws, burn_in)
    step, power = positive("scale", scale), 1 / positive("temperature", temperature)
    run = _run(key(rng), np.asarray(start, float), step, power, log_density=log_density, accept=accept, draws=draws)
    return np.asarray(run)[burn_in:]


def move(log_density: LogDensity, accept: Accept, scale: Any, power: Any, random: Any, state: Any) -> Any:
    """Make one step of every chain; the state is the points and their log densities."""
    points, logs = state
    ahead, chance = jax.random.split(random)
    proposed = points + scale * jax.random.normal(ahead, points.shape)
    found = jax.vmap(log_density)(proposed)
    taken = jnp.log(jax.random.uniform(chance, logs.shape)) < accept(power * (found - logs))
    return jnp.where(taken[:, None], proposed, points), jnp.where(taken, found, logs)


@compiled(static=("log_density", "accept", "draws"))
def _run(random: Any, start: Any, scale: Any, power: Any, *, log_density: Any, accept: Any, draws: int) -> Any:
    def step(state: Any, random: Any) -> Any:
        state = move(log_density, accept, scale, power, random, state)
        return state, state[0]

    _, points = lax.scan(step, (start, jax.vmap(log_density)(start)), jax.random.split(random, draws))
    return points
