"""What groups that learn from each other have in common: mixtures and joint draws.

Groups are independent given the population that they come from, and the population is known at weighted nodes of a
quadrature. A group's posterior is a mixture, over these nodes and over what the noise hides, of conjugate members of
two parameters. A joint draw takes one node for all groups, so that contrasts and ranks have the groups' dependence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from vestry.numerics import Array
from vestry.posterior.mixture import BetaMixture, GammaMixture, NormalMixture

Places = npt.NDArray[np.intp]
Member = BetaMixture | NormalMixture | GammaMixture

# Nodes that stand for the population; components of a group's mixture.
NODES, ATOMS = 256, 512
# Of many groups, each group's mixture uses at least so many of the nodes.
_FEWEST = 64


def even_marks(seed: int, size: int, dimension: int) -> Array:
    """Return points that fill the unit cube evenly: a scrambled Sobol sequence of `size`, a power of 2, points."""
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(dimension, rng=np.random.default_rng(seed)).random(size))


@lru_cache(maxsize=4)
def _kept_marks(size: int, dimension: int) -> Array:
    marks = even_marks(0, size, dimension)
    marks.setflags(write=False)
    return marks


def inverse(table: Array, row: Places, marks: Array) -> Places:
    """Return the place in its row of `table`, rows of probabilities, that each uniform mark falls on."""
    ladder = np.cumsum(table, axis=1)
    ladder /= ladder[:, -1:]
    steps = (ladder + np.arange(len(table))[:, None]).ravel()
    place = np.searchsorted(steps, row + marks, side="right") - row * table.shape[1]
    return np.asarray(np.clip(place, 0, table.shape[1] - 1))


def log_sums(logs: Array, start: Places) -> Array:
    """Return the logarithm of the sum of e^logs over each group's cells, the first of which are at `start`."""
    top = np.maximum.reduceat(logs, start)
    sizes = np.diff(start, append=logs.size)
    return np.asarray(np.log(np.add.reduceat(np.exp(logs - np.repeat(top, sizes)), start)) + top)


def evenly(weights: Array, size: int) -> Places:
    """Return `size` places, each as often as its weight says to within one."""
    ladder = np.cumsum(weights)
    places = np.searchsorted(ladder / ladder[-1], (np.arange(size) + 0.5) / size)
    return np.minimum(places, weights.size - 1)


class PooledGroups(ABC):
    """The joint posterior of all groups' parameters and of the population that they come from.

    Attributes
    ----------
    weights
        The weights of the population's nodes.
    """

    weights: Array

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of groups."""

    @abstractmethod
    def population(self) -> dict[str, Array]:
        """Return the hyperparameters at the nodes, with their weights: what the groups have in common."""

    @abstractmethod
    def key(self, index: int) -> Hashable:
        """Return what one group's posterior depends on; groups of the same key share it."""

    @abstractmethod
    def components(self, index: int, node: Places, marks: Array) -> tuple[Array, Array]:
        """Turn three uniform marks per draw into the parameters of one group's member at each node."""

    @abstractmethod
    def mixture(self, first: Array, second: Array, weights: Array) -> Member:
        """Return the mixture of members of these parameters."""

    @abstractmethod
    def member(self, first: float, second: float) -> Member:
        """Return the parameter of a group with these numbers, as if they were exact: a mixture over the population."""

    @abstractmethod
    def draw_members(self, rng: np.random.Generator, first: Array, second: Array) -> Array:
        """Draw once from each member."""

    @cached_property
    def nodes(self) -> tuple[Places, Places]:
        """The population's nodes that the groups' mixtures use, and one of these for each of many draws."""
        size = int(np.clip(32 * NODES // self.dimension, _FEWEST, 4 * NODES))
        used, node = np.unique(evenly(self.weights, size), return_inverse=True)
        return used, node.ravel()

    @cached_property
    def _mixtures(self) -> dict[Hashable, Member]:
        return {}

    def group(self, index: int) -> Member:
        """Return one group's parameter: a mixture over the population and over what the noise hides."""
        key = self.key(index)
        if key not in self._mixtures:
            marks = _kept_marks(ATOMS, 4)
            node = self.nodes[1][(marks[:, 0] * self.nodes[1].size).astype(np.intp)]
            self._mixtures[key] = self.mixture(*self.components(index, node, marks[:, 1:]), np.full(ATOMS, 1 / ATOMS))
        return self._mixtures[key]

    def draw(self, rng: np.random.Generator, size: int, groups: Sequence[int] | None = None) -> Array:
        """Return independent joint draws of the groups' parameters, one per row, with their dependence."""
        chosen = range(self.dimension) if groups is None else groups
        node = self.nodes[1][rng.integers(self.nodes[1].size, size=size)]
        draws = np.empty((size, len(chosen)))
        for column, index in enumerate(chosen):
            draws[:, column] = self.draw_members(rng, *self.components(index, node, rng.random((size, 3))))
        return draws


@dataclass(frozen=True, eq=False)
class PooledMember:
    """One of the groups: its own distribution, and draws of it alone.

    Attributes
    ----------
    groups, index
        All groups, and which one it is.
    """

    groups: PooledGroups
    index: int
    dimension: ClassVar[int] = 1

    def marginal(self, index: int) -> Member:
        """Return the distribution of its parameter."""
        return self.groups.group(self.index).marginal(index)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws, as a column."""
        return self.groups.draw(rng, size, (self.index,))
