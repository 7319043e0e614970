"""What groups that learn from each other have in common: mixtures, joint draws, contrasts, ranks.

Groups are independent given the population that they come from, and the population is known at weighted nodes of a
quadrature. A group's posterior is a mixture, over these nodes and over what the noise hides, of conjugate members of
two parameters. A joint draw takes one node for all groups, so that contrasts and ranks have the groups' dependence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from vestry.numerics import Array
from vestry.posterior.mixture import BetaMixture, GammaMixture, NormalMixture, tail_of

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


def inverse(table: Array, row: Places, marks: Array) -> Places:
    """Return the place in its row of `table`, rows of probabilities, that each uniform mark falls on."""
    ladder = np.cumsum(table, axis=1)
    ladder /= ladder[:, -1:]
    steps = (ladder + np.arange(len(table))[:, None]).ravel()
    place = np.searchsorted(steps, row + marks, side="right") - row * table.shape[1]
    return np.asarray(np.clip(place, 0, table.shape[1] - 1))


def evenly(weights: Array, size: int) -> Places:
    """Return `size` places, each as often as its weight says to within one."""
    ladder = np.cumsum(weights)
    places = np.searchsorted(ladder / ladder[-1], (np.arange(size) + 0.5) / size)
    return np.minimum(places, weights.size - 1)


def rank_probabilities(draws: Array) -> Array:
    """Return how often each column of the draws has each rank; rank 1 is the largest."""
    size, groups = draws.shape
    order = np.argsort(-draws, axis=1, kind="stable")
    cells = order * groups + np.arange(groups)
    return np.asarray(np.bincount(cells.ravel(), minlength=groups * groups).reshape(groups, groups) / size)


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
    def mixture(self, first: Array, second: Array) -> Member:
        """Return the mixture of members of these parameters, of equal weights."""

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
            marks = even_marks(0, ATOMS, 4)
            node = self.nodes[1][(marks[:, 0] * self.nodes[1].size).astype(np.intp)]
            self._mixtures[key] = self.mixture(*self.components(index, node, marks[:, 1:]))
        return self._mixtures[key]

    def draw(self, rng: np.random.Generator, size: int, groups: Sequence[int] | None = None) -> Array:
        """Return independent joint draws of the groups' parameters, one per row, with their dependence."""
        chosen = range(self.dimension) if groups is None else groups
        node = self.nodes[1][rng.integers(self.nodes[1].size, size=size)]
        drawn = np.empty((size, len(chosen)))
        for column, index in enumerate(chosen):
            drawn[:, column] = self.draw_members(rng, *self.components(index, node, rng.random((size, 3))))
        return drawn

    def contrast(
        self, first: int, second: int, *, rng: np.random.Generator, prob: float = 0.9, draws: int = 20_000
    ) -> dict[str, float]:
        """Return the difference of two groups from joint draws: mean, sd, interval, P(difference > 0)."""
        tail = tail_of(prob)
        pair = self.draw(rng, draws, (first, second))
        difference = pair[:, 0] - pair[:, 1]
        low, high = np.quantile(difference, [tail, 1 - tail])
        return {
            "mean": float(difference.mean()),
            "sd": float(difference.std()),
            "low": float(low),
            "high": float(high),
            "positive": float((difference > 0).mean()),
        }

    def rank_probabilities(self, rng: np.random.Generator, *, draws: int = 4000) -> Array:
        """Return P(group g has rank r), one row per group and one column per rank; rank 1 is the largest."""
        return rank_probabilities(self.draw(rng, draws))
