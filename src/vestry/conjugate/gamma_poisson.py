"""Counts: a Poisson likelihood with a gamma prior of its rate; a record is clipped to [0, high].

S(x) = x, theta the logarithm of the rate, T = (theta, -e^theta), eta = (shape, rate): a record adds (x, 1)
[GeumlekSC17, sec. 3, appendix A.3].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vestry.conjugate.draw_cost import draw
from vestry.conjugate.family import Array, check_number, check_scales, check_sums
from vestry.conjugate.gamma_distribution import Gamma, gradient, log_partition, normalisable, read_prior
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.privacy.adjacency import Adjacency
from vestry.privacy.event import Event


@dataclass(frozen=True)
class GammaPoissonFamily:
    """Records that are whole numbers, clipped to 0 ... high."""

    high: int

    name: ClassVar[str] = "gamma-poisson"

    def __post_init__(self) -> None:
        if isinstance(self.high, bool) or not (1 <= self.high <= 2**40 and self.high == int(self.high)):
            raise InvalidParameter("high", self.high, "a whole number of at least 1", "the largest count of one record")
        object.__setattr__(self, "high", int(self.high))

    def statistic(self, x: ArrayLike) -> Array:
        """Return x rounded half up and clipped to [0, high]; a missing value counts as 0."""
        record = np.asarray(x, dtype=float).reshape(1)
        clipped = np.clip(np.where(np.isnan(record), 0.0, record), 0, self.high)
        return np.asarray(np.floor(clipped + 0.5))

    def bounds(self) -> tuple[Array, Array]:
        """Return 0 and high."""
        return np.zeros(1), np.array([float(self.high)])

    def extremes(self) -> Iterator[Array]:
        """Yield -high and high."""
        yield np.array([-float(self.high)])
        yield np.array([float(self.high)])

    log_partition = staticmethod(log_partition)
    gradient = staticmethod(gradient)
    normalisable = staticmethod(normalisable)

    def prior(self, numbers: Sequence[float]) -> Gamma:
        """Read (shape, rate)."""
        return read_prior(self.name, numbers)

    def update(
        self,
        prior: Gamma,
        sums: Sequence[float],
        count: float,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> Gamma:
        """Return Gamma(shape/m + r sum, rate/m + r n)."""
        r, m = check_scales(likelihood_power, prior_scale)
        (total,) = check_sums(sums, 1)
        return Gamma(prior.shape / m + r * total, prior.rate / m + r * check_number("count", count))

    def worst_draw(
        self, prior: Gamma, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: the two posteriors have one rate, so they are Gamma(s) against Gamma(s + r k high) in
        units of it, s the smaller shape. The supremum is at s = shape/m, all other records 0: if V ~ Beta(s, c) is
        independent of U ~ Gamma(s + c), then U V ~ Gamma(s); the other way round a larger shape is a sum with an
        independent Gamma(c), which only hides.

        Refused elsewhere: where the count can change so can the rate, and no supremum is known.
        """
        refuse_moving_count(population, "Poisson")
        r, m = check_scales(likelihood_power, prior_scale)
        shift = r * population.rows * self.high
        return draw(gammas=((prior.shape / m, shift),), neighbours=population.neighbours)

    def order_limit(
        self, prior: Gamma, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda* = 1 + shape/(m r k high)."""
        refuse_moving_count(population, "Poisson")
        r, m = check_scales(likelihood_power, prior_scale)
        return 1 + prior.shape / m / (r * population.rows * self.high)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the clip."""
        return {"name": self.name, "high": self.high}


def refuse_moving_count(population: Adjacency, likelihood: str) -> None:
    """Refuse a draw where neighbours may differ in their number of records."""
    if population.count is None:
        raise GuaranteeUnreachable(
            f"one private draw from a {likelihood} posterior whose count is not public",
            "no theorem bounds it, because the count enters the posterior; release noisy statistics instead, or"
            " declare neighbours=replace and a public count",
        )
