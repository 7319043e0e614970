"""A release of a conjugate family, with a prior: its posterior given statistics, and what it predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.conjugate.family import Array, ConjugateFamily, family_from
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.reader import Reader
from vestry.releases import NoisyStatistics


@dataclass(frozen=True)
class ConjugateReader(Reader):
    """A family with its prior."""

    family: ConjugateFamily
    prior: Any

    @property
    def parameter(self) -> str:
        """What the family's parameter is called."""
        return self.family.parameter

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its numbers, where they are of different kinds."""
        return self.family.parameters

    @property
    def dimension(self) -> int:
        """How many numbers it has."""
        return int(self.prior.dimension)

    @property
    def note(self) -> str:
        """What a report says of how records were read."""
        return self.family.note

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return the noise's standard deviation on one parameter, to first order."""
        return self.family.noise_on_estimate(content, mean, index)

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior, the noise summed out."""
        return self.family.noise_aware(self.prior, statistics)

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior that takes the statistics as exact."""
        return self.family.plug_in(self.prior, statistics)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw what `size` new records would give, once for each row of parameters."""
        return self.family.predict(theta, size, rng)


def conjugate_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> ConjugateReader:
    """Read the family that a release describes, and a prior."""
    family = family_from(described)
    return ConjugateReader(family, family.prior(prior))
