"""The code that releases, run many times at once on made-up data, with the noise source of the package.

Slower than a simulation, so fewer trials; but it is the release itself that is tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from vestry.audit.worst_pairs import BuiltinMechanism, Dataset
from vestry.ledger import OpenCharge
from vestry.mechanisms.additive_noise import Additive
from vestry.noise import NoiseSource
from vestry.numerics import Array
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.private import Private


class _Unledgered:
    """A leave to draw without a ledger: the data are made up, and nobody's."""

    def take(self) -> None:
        """Let the mechanism draw."""


def run_release(mechanism: BuiltinMechanism, dataset: Dataset, noise: NoiseSource, trials: int) -> Array:
    """Release the same dataset many times, one row per trial.

    Noisy statistics: as many groups as there are trials, each with the dataset's integers. Draws: as many draws.
    """
    leave = cast(OpenCharge, _Unledgered())
    if isinstance(mechanism, Additive):
        groups = mechanism.adjacency.groups * trials
        many = replace(mechanism, adjacency=Adjacency(mechanism.adjacency.neighbours, groups=groups))
        noisy: tuple[NoisyStatistics, ...] = many.release(Private(dataset * trials), leave, noise)
        return np.array([each.values for each in noisy], dtype=float).reshape(trials, -1)
    contents: tuple[Draws, ...] = replace(mechanism, draws=mechanism.draws * trials).release(
        Private(dataset), leave, noise
    )
    return np.concatenate([np.array(each.values).reshape(trials, -1) for each in contents], axis=1)
