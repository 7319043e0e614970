"""From declared columns to the features of a regression, with a bound on their norm that no record can break.

A number is moved and scaled so that its declared interval becomes [-1, 1]. Declared levels become indicators against
their first level. With an intercept each record has a 1 as well. Nothing is learnt from the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestry.numerics import outward
from vestry.schema.domain import Domain, Interval, Levels
from vestry.schema.private import Block
from vestry.schema.statistics import Sum, SumQuery
from vestry.validation import require_number

INTERCEPT = "intercept"
# Units from the middle of an interval to an end: numbers are read as whole numbers of units, the same on every backend,
# and are exact in single precision.
HALF = 2**19
# Rows are scaled down a little further than the radius, so that rounding to single precision stays within it.
WITHIN = 1 - 1e-6
# Numbers that are encoded at once.
_CHUNK = 2**18


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """Features of bounded norm: z = (x - middle)/reach in [-1, 1], of a norm up to `radius`, and a 1 for the intercept.

    The one encoder of regressions: studies and estimators hand it numbers. An infinite value is clipped; what is not a
    number becomes its stand-in. If features are not boxed, where there is no end to clip at, both become the stand-in.

    Attributes
    ----------
    middle, reach
        Of each feature.
    stand_in
        What a missing value becomes, after scaling.
    widest
        The largest norm that scaled features can have before a radius; infinite if they are not boxed.
    radius
        Scaled features beyond this norm are scaled down to it; None for none.
    intercept
        Whether each row has a 1 as well, last.
    """

    middle: np.ndarray
    reach: np.ndarray
    stand_in: np.ndarray
    widest: float
    radius: float | None
    intercept: bool

    def __post_init__(self) -> None:
        if self.radius is not None:
            require_number("radius", self.radius, "for example radius=2.0", above=0)

    @property
    def boxed(self) -> bool:
        """Whether features are clipped one by one."""
        return math.isfinite(self.widest)

    @property
    def features(self) -> int:
        """How many coefficients a linear predictor has, the intercept included."""
        return len(self.middle) + self.intercept

    @property
    def norm(self) -> float:
        """The largest norm of a row as it is encoded, the intercept included."""
        inner = self.widest if self.radius is None else min(self.radius, self.widest)
        return outward(math.hypot(inner, 1.0) if self.intercept else inner)

    def encode(self, rows: np.ndarray, dtype: type = np.float64) -> np.ndarray:
        """Return the rows as a mechanism sees them, a part at a time."""
        encoded: np.ndarray = np.ones((len(rows), self.features), dtype=dtype)
        step, width = max(1, _CHUNK // self.features), len(self.middle)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            encoded[part, :width] = self._scaled(rows[part])
        return encoded

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        values = np.array(rows, dtype=np.float64)
        missing = np.isnan(values) if self.boxed else ~np.isfinite(values)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.boxed:
                values -= self.middle
                values /= self.reach
                np.clip(values, -1.0, 1.0, out=values)
            np.copyto(values, np.broadcast_to(self.stand_in, values.shape), where=missing)
            if self.radius is not None:
                _shorten(values, self.radius * WITHIN)
        return values


def _shorten(values: np.ndarray, radius: float) -> None:
    """Scale down, in place, the rows that are longer than the radius; no square overflows."""
    # Turned over: the largest of each of many short rows takes several times as long.
    sizes = np.abs(values.T, out=np.empty(values.shape[::-1]))
    largest = np.maximum(sizes.max(axis=0, initial=0.0), np.finfo(float).tiny)
    shares = values / largest[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", shares, shares))
    over = norms * largest > radius
    values[over] = shares[over] * (radius / norms[over])[:, None]


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
    def encoder(self) -> RowEncoder:
        """How whole numbers become features: units are scaled, indicators are not, and only one of a column's is 1."""
        columns = (self.domains[column] for column in self.predictors)
        reach = [x for each in columns for x in ([1.0] * (len(each.names) - 1) if isinstance(each, Levels) else [HALF])]
        zeros = np.zeros(len(reach))
        widest = math.sqrt(len(self.predictors))
        return RowEncoder(zeros, np.array(reach, dtype=float), zeros, widest, self.radius, self.intercept)

    @property
    def norm(self) -> float:
        """The largest norm of a record's features, the intercept included."""
        return self.encoder.norm

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
        columns: list[np.ndarray] = []
        for column in self.predictors:
            domain = self.domains[column]
            if isinstance(domain, Levels):
                columns += [numbers[column] == level for level in range(1, len(domain.names))]
            else:
                columns.append(numbers[column])
        values = np.array(columns, dtype=np.float32).reshape(len(columns), -1).T
        return self.encoder.encode(values, np.float32), self._outcomes(numbers[self.outcome])

    def _outcomes(self, numbers: np.ndarray) -> np.ndarray:
        domain = self.domains[self.outcome]
        if isinstance(domain, Interval):
            return _share(numbers)
        if self.success is None:
            return numbers.astype(np.float64)
        return np.where(numbers == domain.values.index(self.success), 1.0, -1.0)


def _share(units: np.ndarray) -> np.ndarray:
    """Return units as a number of [-1, 1]; an end that doubles counted beyond the grid comes back."""
    return np.asarray(np.clip(units, -HALF, HALF) * (1.0 / HALF), dtype=np.float64)


def _units(column: str, domain: Interval) -> Sum:
    return Sum(column, _middle(domain), _reach(domain) / HALF)


def _middle(domain: Interval) -> float:
    return (domain.low + domain.high) / 2


def _reach(domain: Interval) -> float:
    return (domain.high - domain.low) / 2
