"""Times: an exponential likelihood with a gamma prior of its rate; a record is clipped to [low, high], low above 0.

theta is the rate, T = (log theta, -theta), eta = (shape, rate): a record adds (1, x) [GeumlekSC17, appendix A.3].
With low = 0 one record can change a short sum many times over, and privacy worsens with n; so low is above 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vestry.conjugate.family import Array, check_number, check_positive, check_scales, check_sums
from vestry.conjugate.gamma_distribution import Gamma, gradient, log_partition, normalisable, read_prior
from vestry.conjugate.gamma_draw_cost import rate_draw
from vestry.conjugate.gamma_poisson import refuse_moving_count
from vestry.errors import InvalidParameter
from vestry.numerics import outward
from vestry.privacy.adjacency import Adjacency
from vestry.privacy.event import Event


@dataclass(frozen=True)
class GammaExponentialFamily:
    """Records that are times, clipped to [low, high]."""

    low: float
    high: float

    name: ClassVar[str] = "gamma-exponential"

    def __post_init__(self) -> None:
        low = check_positive("low", self.low, instead="the least time a record may have, above 0")
        high = check_positive("high", self.high, instead="the longest time a record may have")
        if not low < high:
            raise InvalidParameter("high", self.high, f"above low, {low:g}", "the ends of the declared interval")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def statistic(self, x: ArrayLike) -> Array:
        """Return x clipped to [low, high]; a missing value counts as low."""
        record = np.asarray(x, dtype=float).reshape(1)
        return np.clip(np.where(np.isnan(record), self.low, record), self.low, self.high)

    def bounds(self) -> tuple[Array, Array]:
        """Return low and high."""
        return np.array([self.low]), np.array([self.high])

    def extremes(self) -> Iterator[Array]:
        """Yield the width of the interval, both ways."""
        yield np.array([self.low - self.high])
        yield np.array([self.high - self.low])

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
        """Return Gamma(shape/m + r n, rate/m + r sum)."""
        r, m = check_scales(likelihood_power, prior_scale)
        (total,) = check_sums(sums, 1)
        return Gamma(prior.shape / m + r * check_number("count", count), prior.rate / m + r * total)

    def worst_draw(
        self, prior: Gamma, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Replace with n public: the two posteriors have one shape s = shape/m + r n, and rates whose ratio is largest
        where all other records are at the low clip: q = (b + r ((n - k) low + k high))/(b + r n low), b = rate/m.
        The divergence of two gammas of one shape grows with the ratio of their rates.

        Refused elsewhere: where the count can change so can the shape, and no supremum is known.
        """
        refuse_moving_count(population, "exponential")
        shape, ratio = self._pair(prior, population, likelihood_power, prior_scale)
        return rate_draw(shape, ratio, neighbours=population.neighbours)

    def order_limit(
        self, prior: Gamma, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda* = 1 + 1/(q - 1)."""
        refuse_moving_count(population, "exponential")
        _, ratio = self._pair(prior, population, likelihood_power, prior_scale)
        return 1 + 1 / (ratio - 1)

    def _pair(self, prior: Gamma, population: Adjacency, power: float, scale: float) -> tuple[float, float]:
        """Return the common shape, and the ratio of the rates at its largest."""
        r, m = check_scales(power, scale)
        n, k = population.count or 0, population.rows
        least = prior.rate / m + r * n * self.low
        # Near 1 a double has few digits for what is beyond it: the next one is an upper bound.
        ratio = math.nextafter(1 + outward(r * k * (self.high - self.low) / least), math.inf)
        return prior.shape / m + r * n, ratio

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the clips."""
        return {"name": self.name, "low": self.low, "high": self.high}
