"""Gradients by XLA: the same code on the processor and on the GPU, in doubles whatever the program's own setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from vestry.errors import MissingExtra
from vestry.regression.loss import LangevinStep, Loss
from vestry.regression.rounding_error import BLOCK


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        raise MissingExtra("the gradient of a loss on a GPU", "glm") from None
    return jax


@dataclass(frozen=True)
class Programs:
    """What is compiled once for a loss: G(theta) and the chain, each of data that are given."""

    total: Any
    run: Any


class Traced:
    """A gradient whose data are on a device.

    Parameters
    ----------
    programs
        Made by `programs`.
    data
        One tuple of arrays for each block, on the device.
    shape
        Of theta: (d,) or (K, d).
    """

    def __init__(self, programs: Programs, data: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self._programs, self._data, self.shape = programs, data, shape

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients at theta."""
        with _jax().enable_x64(True):
            theta = np.asarray(theta, dtype=np.float64).reshape(self.shape)
            return np.asarray(self._programs.total(theta, self._data))

    def run(self, theta: np.ndarray, noise: np.ndarray, step: LangevinStep) -> np.ndarray:
        """Return the state of the Langevin chain after one step for every row of the noise."""
        theta = np.asarray(theta, dtype=np.float64).reshape(self.shape)
        noise = np.asarray(noise, dtype=np.float64).reshape(-1, *self.shape)
        size, scale = step.step_size, math.sqrt(2 * step.step_size)
        constants = np.array([step.likelihood_power, step.prior_precision, size, scale, step.radius])
        with _jax().enable_x64(True):
            return np.asarray(self._programs.run(theta, noise, constants, self._data))


def gradient(loss: Loss, blocks: Iterable[tuple[Any, Any]], *, platform: str | None = None) -> Traced:
    """Return the gradient over blocks of rows, each in pieces of `BLOCK` rows; zero rows fill the last."""
    jax = _jax()
    device = jax.devices(platform)[0]
    data = []
    with jax.enable_x64(True):
        for rows, outcomes in blocks:
            values = np.asarray(rows)
            values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
            count, features = values.shape
            pieces = -(-count // BLOCK)
            padded, y = np.zeros((pieces * BLOCK, features), values.dtype), np.zeros(pieces * BLOCK)
            padded[:count], y[:count] = values, outcomes
            pair = padded.reshape(pieces, BLOCK, features), y.reshape(pieces, BLOCK)
            data.append(tuple(jax.device_put(each, device) for each in pair))
    features = data[0][0].shape[2]
    return Traced(_plain(loss), tuple(data), (features,) if loss.predictors == 1 else (loss.predictors, features))


@cache
def _plain(loss: Loss) -> Programs:
    from jax import lax
    from jax import numpy as jnp

    from vestry.regression import jax_math

    derivative = loss.derivative(jax_math)
    many = "" if loss.predictors == 1 else "k"

    def block(theta: Any, pair: tuple[Any, Any]) -> Any:
        x, y = pair[0].astype(jnp.float64), pair[1]
        exact = {"precision": lax.Precision.HIGHEST}
        weight = derivative(jnp.einsum(f"bnd,{many}d->bn{many}", x, theta, **exact), y)
        # The barrier keeps the compiler from merging the two levels of the sum into one.
        return lax.optimization_barrier(jnp.einsum(f"bnd,bn{many}->b{many}d", x, weight, **exact)).sum(axis=0)

    return programs(block)


def programs(block: Callable[[Any, Any], Any]) -> Programs:
    """Compile the sum over blocks and the chain, from the gradient of one block."""
    jax = _jax()
    from jax import lax
    from jax import numpy as jnp

    def total(theta: Any, data: Any) -> Any:
        result = block(theta, data[0])
        for pair in data[1:]:
            result = result + block(theta, pair)
        return result

    def run(theta: Any, noise: Any, constants: Any, data: Any) -> Any:
        power, precision, size, scale, radius = constants

        def step(t: Any, theta: Any) -> Any:
            theta = theta - size * (power * total(theta, data) + precision * theta) + scale * noise[t]
            norm = jnp.sqrt((theta * theta).sum())
            return jnp.where(norm > radius, theta * (radius / norm), theta)

        return lax.fori_loop(0, noise.shape[0], step, theta)

    return Programs(jax.jit(total), jax.jit(run))
