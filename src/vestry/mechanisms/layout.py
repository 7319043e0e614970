"""Which integers are released, and how far one unit can move them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Which integers are released, and how far one unit can move them.

    Attributes
    ----------
    names
        What each integer is.
    l1, l2
        The sensitivities: the diameter of what one unit may contribute, in integer units.
    grid, count_grid, count
        As in `NoisyStatistics`.
    """

    names: tuple[str, ...]
    l1: int
    l2: float
    grid: float = 1.0
    count_grid: float = 1.0
    count: int | None = None

    def with_count(self, units: list[int], n: int) -> list[int]:
        """Return integer sums of n records, followed by the count in its own units where it is private."""
        return units if self.count is not None else [*units, n * round(1 / self.count_grid)]
