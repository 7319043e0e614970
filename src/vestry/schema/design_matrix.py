"""From declared columns to the features of a regression, with a bound on their norm that no record can break.

A number is moved and scaled so that its declared interval becomes [-1, 1]. Declared levels become indicators against
their first level. With an intercept each record has a 1 as well. Nothing is learnt from the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import outward
from vestry.schema.domain import Domain, Interval, Levels
from vestry.schema.private import Block
from vestry.schema.statistics import Sum, SumQuery

INTERCEPT = "intercept"
# Units from the middle of an interval to an end: numbers are read as whole numbers of units, the same on every backend,
# and are exact in single precision.
HALF = 2**19
# Rows are scaled down a little further than the radius, so that rounding to single precision stays within it.
WITHIN = 1 - 1e-6


@dataclass(frozen=True)
class Design:
    """How a record becomes features and an outcome.

    Attributes
    ----------
    predictors
        The columns, in order.
    domains
        What they and the outcome may contain.
    outcome
        The column to explain.
    success
        The level that counts as 1, the others as -1; None for a number, or for several classes.
    intercept
        Whether there is one.
    radius
        A record's features beyond this norm are scaled down to it; None for as far as the domains reach. Without the
        intercept.
    """

    predictors: tuple[str, ...]
    domains: Mapping[str, Domain]
    outcome: str
    success: str | int | bool | None = None
    intercept: bool = True
    radius: float | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the coefficients: `stay`, `ward[B]`, and `intercept` last."""
        named: list[str] = []
        for column in self.predictors:
            domain = self.domains[column]
            if isinstance(domain, Levels):
                named += [f"{column}[{level}]" for level in domain.names[1:]]
            else:
                named.append(column)
        return (*named, INTERCEPT) if self.intercept else tuple(named)

    @property
    def norm(self) -> float:
        """The largest norm of a record's features, the intercept included."""
        return largest_norm(math.sqrt(len(self.predictors)), self.radius, intercept=self.intercept)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.predictors, self.outcome)

    @property
    def tally(self) -> SumQuery:
        """The columns as whole numbers: places of levels, and units from the middle of an interval."""
        domains = {column: self.domains[column] for column in self.columns}
        levels = (column for column, domain in domains.items() if isinstance(domain, Levels))
        units = (_units(column, domain) for column, domain in domains.items() if isinstance(domain, Interval))
        return SumQuery(tuple(levels), tuple(units))

    def block(self, numbers: Mapping[str, np.ndarray]) -> Block:
        """Turn whole numbers, by column, into features and outcomes."""
        size = len(numbers[self.outcome])
        features = np.zeros((size, len(self.features)), dtype=np.float32)
        place = 0
        for column in self.predictors:
            domain = self.domains[column]
            if isinstance(domain, Levels):
                for level in range(1, len(domain.names)):
                    features[:, place] = numbers[column] == level
                    place += 1
            else:
                features[:, place] = _share(numbers[column])
                place += 1
        clip(features[:, :place], self.radius)
        if self.intercept:
            features[:, place] = 1.0
        return features, self._outcomes(numbers[self.outcome])

    def _outcomes(self, numbers: np.ndarray) -> np.ndarray:
        domain = self.domains[self.outcome]
        if isinstance(domain, Interval):
            return _share(numbers)
        if self.success is None:
            return numbers.astype(np.float64)
        return np.where(numbers == domain.values.index(self.success), 1.0, -1.0)


def largest_norm(widest: float, radius: float | None, *, intercept: bool) -> float:
    """Return the largest norm of features that are at most `widest`, and at most `radius` if there is one, and a 1."""
    inner = widest if radius is None else min(radius, widest)
    return outward(math.hypot(inner, 1.0) if intercept else inner)


def clip(features: np.ndarray, radius: float | None) -> None:
    """Scale down, in place, the rows whose norm is beyond the radius."""
    if radius is None:
        return
    if not 0 < radius < math.inf:
        raise InvalidParameter("radius", radius, "a number above 0", "for example radius=2.0")
    norms = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
    over = norms > radius * WITHIN
    features[over] *= (radius * WITHIN / norms[over])[:, None].astype(features.dtype)


def _share(units: np.ndarray) -> np.ndarray:
    """Return units as a number of [-1, 1]; an end that doubles counted beyond the grid comes back."""
    return np.asarray(np.clip(units, -HALF, HALF) * (1.0 / HALF), dtype=np.float64)


def _units(column: str, domain: Interval) -> Sum:
    return Sum(column, _middle(domain), _reach(domain) / HALF)


def _middle(domain: Interval) -> float:
    return (domain.low + domain.high) / 2


def _reach(domain: Interval) -> float:
    return (domain.high - domain.low) / 2
