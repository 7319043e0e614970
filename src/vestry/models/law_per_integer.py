"""The noise of several integers of which each has a law of its own, as one noise that posteriors can ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from vestry.noise_inversion.noise_sum import NoiseSum
from vestry.numerics import Array

# How far the labels of two integers with the same noisy value are apart; far below 1, where it changes no weight.
_APART = 1e-9


@dataclass(frozen=True, eq=False)
class LawPerInteger:
    """Laws of noise by label: a posterior asks by the noisy value, and labels tell equal values apart.

    Attributes
    ----------
    labels
        Increasing; each is a noisy value, or one a little above it.
    values
        The noisy value of each label.
    laws
        The law of each label.
    """

    labels: Array
    values: Array
    laws: tuple[NoiseSum, ...]

    @classmethod
    def of(cls, values: Sequence[int], laws: Sequence[NoiseSum]) -> tuple[Self, Array]:
        """Return the noise, and the labels in the order of the values."""
        exact = np.array(values, dtype=float)
        labels = exact.copy()
        for value in np.unique(exact):
            equal = exact == value
            labels[equal] += _APART * np.arange(equal.sum())
        order = np.argsort(labels)
        ordered_laws = [laws[index] for index in order]
        return cls(labels[order], exact[order], tuple(ordered_laws)), labels

    @property
    def scale(self) -> float:
        """The largest standard deviation."""
        return max(law.deviation for law in self.laws)

    @property
    def deviation(self) -> float:
        """The largest standard deviation."""
        return self.scale

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return log P(z - s) - log P(z - anchor), by the law of each z."""
        shape = np.broadcast_shapes(np.shape(s), np.shape(z), np.shape(anchor))
        place = np.searchsorted(self.labels, np.broadcast_to(z, shape) - _APART / 2)
        place = np.minimum(place, len(self.laws) - 1)
        counts = np.broadcast_to(s, shape)
        anchors = np.broadcast_to(anchor, shape)
        weights = np.empty(shape)
        for law in set(self.laws):
            has_law = np.array([own == law for own in self.laws])[place]
            exact = self.values[place[has_law]]
            weights[has_law] = law.log_weight(counts[has_law], exact, anchors[has_law])
        return weights

    def reach(self, drop: float) -> float:
        """Return a distance at which every law has fallen by `drop`."""
        return max(law.reach(drop) for law in self.laws)
