"""The sum of a loss's gradients over rows, and the Langevin chain that walks along it, on the processor or the GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from vestry.errors import InvalidParameter, MissingExtra
from vestry.regression.loss import LangevinStep, Loss
from vestry.regression.rounding_error import BLOCK
from vestry.validation import require_choice

# Blocks with fewer numbers than this are joined.
_SMALL = 2**20


class Gradient(Protocol):
    """G(theta), the sum of phi'(x_i . theta, y_i) x_i, and the chain that walks along it."""

    shape: tuple[int, ...]

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return G at theta."""

    def run(self, theta: np.ndarray, noise: np.ndarray, step: LangevinStep) -> np.ndarray:
        """Return the state of the chain after one step for every row of the noise."""


@dataclass(frozen=True)
class Chain:
    """theta <- Proj(theta - h (rho G(theta) + m theta) + sqrt(2 h) z), onto the ball of the radius.

    rho = likelihood_power, m = prior_precision, h = step_size.
    """

    gradient: Gradient
    step: LangevinStep

    def run(self, theta: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the state after one step for every row of the noise: standard normals (steps, parameters)."""
        return self.gradient.run(theta, noise, self.step)

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """Return the mean of the next state before it is projected: the caller adds its own noise."""
        theta = np.asarray(theta, dtype=np.float64).reshape(self.gradient.shape)
        drift = self.step.likelihood_power * self.gradient(theta) + self.step.prior_precision * theta
        return np.asarray(theta - self.step.step_size * drift)


def gradient(loss: Loss, blocks: Iterable[tuple[Any, Any]], *, device: str = "auto") -> Gradient:
    """Return G(theta), the sum of the gradients of a loss over blocks of rows, as a function of theta.

    Parameters
    ----------
    blocks
        Pairs of rows (n, d), float32 or float64, and outcomes (n,). They are taken one by one and copied into the
        layout of the device, so a generator need not hold them all; on the processor a `numpy.memmap` stays on disk.
    device
        `cpu`, `gpu`, or `auto`: the GPU if there is one. Theta and G have the shape (d,), or (K, d) for K predictors.

    Raises
    ------
    MissingExtra
        If the compiler of the device is not installed.
    """
    require_choice("device", device, ("auto", "cpu", "gpu"), 'device="auto"')
    pieces = join_blocks(blocks)
    if device == "cpu" or (device == "auto" and not has_gpu()):
        from vestry.regression import cpu

        return cpu.CpuGradient(loss, pieces) if loss.predictors == 1 else cpu.ClassGradient(loss, pieces)
    if not has_gpu():
        if importlib.util.find_spec("jax") is None:
            raise MissingExtra("the gradient of a loss on a GPU", "glm")
        raise InvalidParameter("device", device, "a device that is there: no GPU was found", 'device="cpu"')
    from vestry.regression import pallas, xla

    return pallas.gradient(loss, pieces) if pallas.supports(loss) else xla.gradient(loss, pieces, platform="gpu")


def chain(loss: Loss, blocks: Iterable[tuple[Any, Any]], step: LangevinStep, *, device: str = "auto") -> Chain:
    """Return the Langevin chain of a loss over blocks of rows; see `gradient` for blocks and device."""
    return Chain(gradient(loss, blocks, device=device), step)


def join_blocks(blocks: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Join small blocks, so that all but the last have rows enough for `rounding.additions`; the order may change."""
    waiting: list[tuple[Any, Any]] = []
    features = None
    for rows, outcomes in blocks:
        shapes = np.shape(rows), np.shape(outcomes)
        fits = len(shapes[0]) == 2 and shapes[1] == shapes[0][:1] and shapes[0][1] == (features or shapes[0][1])
        if not fits or not shapes[0][1]:
            allowed = "rows (n, d) and outcomes (n,) with one d of at least 1"
            # How many rows there are is not said.
            raise InvalidParameter("blocks", f"of shapes {shapes[0][1:]}", allowed, "[(rows, outcomes)]")
        features = shapes[0][1]
        enough = max(BLOCK, _SMALL // features)
        if len(outcomes) >= enough:
            yield rows, outcomes
            continue
        waiting.append((rows, outcomes))
        if sum(len(y) for _, y in waiting) >= enough:
            yield _one(waiting)
            waiting = []
    if features is None:
        raise InvalidParameter("blocks", [], "at least one pair of rows and outcomes", "[(rows, outcomes)]")
    if waiting:
        yield _one(waiting)


def _one(waiting: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    if len(waiting) == 1:
        return waiting[0]
    return np.concatenate([rows for rows, _ in waiting]), np.concatenate([y for _, y in waiting])


def has_gpu() -> bool:
    """Say whether JAX is installed and sees a GPU."""
    if importlib.util.find_spec("jax") is None:
        return False
    import jax

    return any(device.platform == "gpu" for device in jax.devices())
