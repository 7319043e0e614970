"""The parts of a person's weight that are released, how far she moves them, and the neighbours that attain it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from vestry.mechanisms.statistic_family import Layout
from vestry.model.averaging import person_units
from vestry.model.worst_pair import Pair
from vestry.privacy.neighbours import Adjacency

NUMBERS, LEVELS = "numbers", "levels"
_PARTS = {
    NUMBERS: ("s^2", "2sf", "f^2", "s(1-w)", "f(1-w)"),
    LEVELS: ("q^2", "q(w-q)", "q(1-w)"),
}
# Without groups a person's weight in the one that there is, w, is 1, and the parts with 1 - w vanish.
_WITHOUT_GROUPS = {NUMBERS: 3, LEVELS: 2}


@dataclass(frozen=True)
class PersonParts:
    """The parts of each number, or of each level: see `PersonQuery`.

    Attributes
    ----------
    kind
        `numbers` or `levels`.
    grouped
        Whether there are groups.
    labels
        The numbers' names, or the levels'.
    """

    kind: str
    grouped: bool = False
    labels: tuple[str, ...] = ("",)

    @property
    def names(self) -> tuple[str, ...]:
        """What each part is."""
        own = _PARTS[self.kind] if self.grouped else _PARTS[self.kind][: _WITHOUT_GROUPS[self.kind]]
        return tuple(f"{label} {part}".strip() for label in self.labels for part in own)

    def prior(self, numbers: Any) -> None:
        """Return nothing: no prior is used."""

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the parts in units of a person's weight.

        She adds numbers of at least 0 that sum to at most U units for each number asked, d of them (1 for levels). So
        she moves them by at most d U, and sqrt(d) U; under replace, where she leaves some and enters others, by 2 d U
        and sqrt(2 d) U. All is attained: a person whose rows are alike has one part.
        """
        units = person_units(adjacency.rows)
        numbers = len(self.labels) if self.kind == NUMBERS else 1
        moves = numbers * (2 if adjacency.replaces else 1)
        return Layout(self.names, moves * units, math.sqrt(moves) * units, grid=1 / units)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return a person whose rows all change, or who is added: her whole weight in one part."""
        units, size = round(1 / layout.grid), len(self.names)
        step = size // len(self.labels) if self.kind == NUMBERS else size
        last = 2 if self.kind == NUMBERS else size - 1
        one, other = (tuple(units * (place % step == at) for place in range(size)) for at in (0, last))
        if adjacency.replaces:
            return Pair("a person's rows all change", one, other)
        return Pair("a person added", (0,) * size, one)
