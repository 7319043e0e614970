"""What every noise-aware posterior reads of noisy statistics: their number, their size, the sum and the count."""

from __future__ import annotations

import numpy as np

from vestry.errors import InvalidParameter
from vestry.posterior.discrete_noise import Array
from vestry.releases import NoisyStatistics

_LARGEST = 2**50
_SCALES = 1e4


def sum_and_count(statistics: NoisyStatistics) -> tuple[float, float, int | None]:
    """Return the noisy sum, the count, and the units of the count where it is noisy too."""
    private = statistics.count is None
    check_size(statistics, {2 if private else 1})
    values = floats(statistics)
    if statistics.count is None:
        return float(values[0]), float(values[1]), round(1 / statistics.count_grid)
    return float(values[0]), float(statistics.count), None


def floats(statistics: NoisyStatistics) -> Array:
    """Return the noisy statistics as doubles."""
    return np.array([float(value) for value in statistics.values])


def check_size(statistics: NoisyStatistics, sizes: set[int]) -> None:
    """Refuse another number of noisy statistics than the layout has."""
    if len(statistics.values) not in sizes:
        allowed = " or ".join(str(size) for size in sorted(sizes))
        raise InvalidParameter(
            "the number of noisy statistics", len(statistics.values), allowed, "the statistics of the family's layout"
        )


def check_range(statistics: NoisyStatistics) -> None:
    """Refuse noisy counts that no table has, or that this noise does not give but with a probability below e^-10000."""
    if statistics.scale > _LARGEST:
        raise InvalidParameter("the scale of the noise", statistics.scale, "below 2^50", "the scale of the release")
    beyond = _SCALES * statistics.scale
    low, high = -beyond, _LARGEST if statistics.count is None else statistics.count + beyond
    for value in statistics.values:
        if not low <= value <= high:
            raise InvalidParameter(
                "a noisy count",
                value,
                f"from {low:.6g} to {high:.6g}",
                "the counts and the noise as they were released",
            )
