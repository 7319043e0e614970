"""The posterior of a count from its noisy number, with every whole number from 0 on equally probable before.

    p(N | z) ~ P(noise = z - N),  N = 0, 1, 2, ...

It is about the table itself, not about a population it was drawn from: without noise the count would be known. The
interval is the shortest one: its ends are the least and the greatest count of those that together are most probable. An
equal-tailed one would never hold a count of 0 under noise of a large scale. This one holds every count in .86 to .96 of
all releases, summed over noise of scale 2 or more exactly: 0 in .91 or more, a count of about three scales in .86,
larger ones in .90.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import noise_of
from vestry.posterior.joined_noise import joined
from vestry.posterior.noisy_data import POISSON
from vestry.posterior.reader import NOISE_AWARE, Reader
from vestry.posterior.whole_number import WholeNumber, whole_number
from vestry.releases import NoisyStatistics


def count_posterior(statistics: NoisyStatistics) -> WholeNumber:
    """Return the distribution of a count, given its noisy number."""
    return whole_number(statistics.values[0], statistics)


@dataclass(frozen=True)
class CountReader(Reader):
    """How a release of counts is read; `of` is what was counted."""

    of: str

    parameter = "count"
    data_kind: ClassVar[str] = POISSON
    prior_words: ClassVar[str] = ""
    dimension = 1
    released_words: ClassVar[str] = "Counts are whole numbers."
    average_words: ClassVar[str] = ""

    @property
    def note(self) -> str:
        """Say what was counted."""
        return f"Counts of {self.of} in the table itself, not estimates for a population."

    def noise_aware(self, statistics: NoisyStatistics) -> WholeNumber:
        """Return the distribution of the count, the noise summed out."""
        return count_posterior(statistics)

    def plug_in(self, statistics: NoisyStatistics) -> WholeNumber:
        """Take the noisy number, or 0 if it is below, as exact."""
        return WholeNumber(np.array([float(max(0, statistics.values[0]))]), np.ones(1))

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> WholeNumber:
        """Return the distribution of the one count, or of how many there are together."""
        if same_people:
            return count_posterior(joined(contents))
        return reduce(WholeNumber.plus, map(count_posterior, contents))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Refuse: a count says nothing of new records."""
        raise InvalidParameter("predict", "a count", "asked of a model of records", 'model = "gamma-poisson"')

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float:
        """Return the noise's standard deviation."""
        return float(noise_of(content).deviation)

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say that intervals are the shortest ones; rows need not be independent, as nothing is inferred from them."""
        method = super().interval_method(label, several_rows=False)
        return f"{method}, shortest interval" if label == NOISE_AWARE else method


def count_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> CountReader:
    """Read what a release says of itself; there is no prior to choose."""
    if prior:
        raise InvalidParameter("prior", prior, "omitted for a count", "no prior")
    return CountReader(str(described["of"]))
