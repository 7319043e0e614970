"""What a mechanism asks of a family of likelihoods. It knows none by name.

Which integers are released, and how far one unit can move them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Draws

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource


class StatisticFamily(Protocol):
    """Sufficient statistics with their layout, and posterior draws with their cost and their exact sampler."""

    @property
    def name(self) -> str:
        """The family's name."""

    def probabilities(self) -> int | None:
        """Return how many probabilities a parameter has; None if it has none, and its log-likelihood no bound."""

    def prior(self, numbers: Sequence[float]) -> Any:
        """Read a prior from its declared numbers."""

    def statistic(self, x: Any) -> Any:
        """Return S(x) of one record."""

    def update(self, prior: Any, sums: Sequence[float], count: float) -> Any:
        """Return the posterior after `count` records whose statistics add up to `sums`."""

    def worst_draw(
        self, prior: Any, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw from the posterior, priced at its worst neighbouring datasets."""

    def order_limit(
        self, prior: Any, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda*, the supremum of the orders at which one draw has a finite Renyi divergence."""

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the minimal statistics as integers, and bound how far one unit moves them."""

    def from_units(self, adjacency: Adjacency, units: Sequence[int], count: int) -> list[Fraction]:
        """Turn integer sums back into sums of records, exactly."""

    def exact_parameters(
        self,
        prior: Any,
        sums: Sequence[Fraction],
        count: int,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> tuple[Fraction, ...]:
        """Return what `update` returns, not rounded."""

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw from a posterior exactly, and round to a grid that declared numbers fix."""


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
    largest
        The most that one integer moves, where that is known.
    """

    names: tuple[str, ...]
    l1: int
    l2: float
    grid: float = 1.0
    count_grid: float = 1.0
    count: int | None = None
    largest: int = 0

    def with_count(self, units: list[int], n: int) -> list[int]:
        """Return integer sums of n records, followed by the count in its own units where it is private."""
        return units if self.count is not None else [*units, n * round(1 / self.count_grid)]
