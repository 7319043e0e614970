"""The table of results that every reading gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class EstimateRow:
    """One row: a quantity in a group, with its credible or confidence interval."""

    group: tuple[str, ...]
    quantity: str
    mean: float
    sd: float
    lower: float
    upper: float

    @property
    def width(self) -> float:
        """The width of the interval."""
        return self.upper - self.lower


@dataclass(frozen=True)
class Estimates:
    """Rows of results, all of whose intervals have one probability."""

    rows: tuple[EstimateRow, ...]
    prob: float

    def __iter__(self) -> Iterator[EstimateRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, quantity: str, group: Sequence[str] = ()) -> EstimateRow:
        """Return the row of a quantity in a group; raise KeyError if there is none."""
        for estimate in self.rows:
            if estimate.quantity == quantity and estimate.group == tuple(group):
                return estimate
        raise KeyError((quantity, tuple(group)))
