"""Hamiltonian Monte Carlo of many chains at once, in coordinates in which the density is about a standard normal one.

Chains start around the mode and must agree, by the split R-hat of what they are asked for, or there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vestry.numerics import Array

# Chains, steps of the warm-up, of a round, and rounds until the chains must agree.
CHAINS, WARM, ROUND, ROUNDS = 48, 100, 50, 30
# The largest split R-hat that counts as agreement.
AGREE = 1.04


class ChainsDisagree(Exception):  # noqa: N818 - the name is the fact
    """The chains do not agree: no answer."""


def sample_whitened(
    density: Callable[[Array], tuple[Array, Array]],
    numbers: Callable[[Array], Array],
    dimension: int,
    most: int,
    rng: np.random.Generator,
    *,
    length: float,
    longest: float,
    least: int = 0,
) -> Array:
    """Return draws, one per row, at least `least` and at most `most` of them; or raise `ChainsDisagree`.

    Parameters
    ----------
    density
        Log density and gradient at points, one per row; the mode is at 0.
    numbers
        What the chains must agree on, at points.
    length, longest
        How far a proposal goes at first, and at most: after each round in which chains do not agree it goes farther.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        chain = _Hamiltonian(density, _scatter(density, (CHAINS, dimension), rng), rng, length)
        chain.warm_up(WARM)
        positions: list[Array] = []
        for _ in range(ROUNDS):
            positions += chain.run(ROUND)
            # What the chains did first is dropped: the first half of all rounds.
            draws = np.stack(positions[len(positions) // 2 :])
            points = draws.reshape(-1, dimension)
            if len(points) >= least and split_r_hat(numbers(points).reshape(*draws.shape[:2], -1)).max() < AGREE:
                return np.asarray(points[np.linspace(0, len(points) - 1, min(most, len(points))).astype(int)])
            chain.length = min(_FARTHER * chain.length, longest)
    raise ChainsDisagree


def _scatter(density: Any, size: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return where chains start: around the mode, nearer to it where the density there is out of the question."""
    points = rng.normal(size=size)
    least = density(np.zeros((1, size[1])))[0] - size[1] - 10
    for _ in range(40):
        out = ~(density(points)[0] > least)
        points[out] *= 0.7
    return points


def split_r_hat(values: Array) -> Array:
    """Return the split R-hat of each number, from (steps, chains, numbers)."""
    half = len(values) // 2
    parts = np.concatenate([values[:half], values[half : 2 * half]], axis=1)
    means, inside = parts.mean(axis=0), parts.var(axis=0, ddof=1).mean(axis=0)
    between = means.var(axis=0, ddof=1)
    return np.asarray(np.sqrt((half - 1) / half + between / np.maximum(inside, 1e-300)))


class _Hamiltonian:
    """Hamiltonian Monte Carlo of many chains at once, with one step size that is learnt while they warm up."""

    def __init__(self, density: Any, start: Array, rng: np.random.Generator, length: float) -> None:
        self.density, self.z, self.rng, self.length = density, start, rng, length
        self.value, self.gradient = density(start)
        self.step = 0.5 * start.shape[1] ** -0.25

    def warm_up(self, steps: int) -> None:
        """Move, and set the step size so that four in five proposals are accepted."""
        for place in range(steps):
            accepted = self.move()
            self.step *= math.exp((accepted - 0.8) / (place + 1) ** 0.5)

    def run(self, steps: int) -> list[Array]:
        """Return where the chains were after each of so many moves."""
        positions = []
        for _ in range(steps):
            self.move()
            positions.append(self.z)
        return positions

    def move(self) -> float:
        """Propose by leapfrog steps, accept or not, and return the mean probability of acceptance."""
        step = self.step * self.rng.choice(_JITTER, (len(self.z), 1))
        momentum = self.rng.normal(size=self.z.shape)
        z, gradient, energy = self.z, self.gradient, self.value - 0.5 * (momentum**2).sum(axis=1)
        value = self.value
        most = min(max(1, round(self.length / self.step)), _MOST_STEPS)
        for _ in range(int(self.rng.integers((most + 1) // 2, most + 1))):
            momentum = momentum + 0.5 * step * gradient
            z = z + step * momentum
            value, gradient = self.density(z)
            momentum = momentum + 0.5 * step * gradient
        change = value - 0.5 * (momentum**2).sum(axis=1) - energy
        probability = np.exp(np.minimum(np.nan_to_num(change, nan=-np.inf), 0.0))
        taken = self.rng.random(len(z)) < probability
        self.z = np.where(taken[:, None], z, self.z)
        self.gradient = np.where(taken[:, None], gradient, self.gradient)
        self.value = np.where(taken, value, self.value)
        return float(probability.mean())


# How much farther a proposal goes after a round.
_FARTHER = 1.4
# Steps of a proposal at most; some chains' steps are shorter, so that none is caught where the density bends more
# sharply.
_MOST_STEPS = 40
_JITTER = np.array([0.1, 0.4, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2])
