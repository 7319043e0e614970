"""The statistic of regression by noisy tables: how often each outcome occurs in each cell of the predictors' levels.

A record lies in one cell. Of levels it adds 1 to one count of it, so one record more or less moves one count by 1,
whatever the number of cells. Of counts y = 0 ... B it adds u to the cell's number of records, in units of 1/u, and y to
the sum of its outcomes; u is about B/2, as for one rate. What one unit of k records can do:

    neighbours                                  l1           l2
    levels, add-remove                          k            k
    levels, replace (another cell or outcome)   2 k          k sqrt(2)
    counts, add-remove                          k (u + B)    k sqrt(u^2 + B^2)
    counts, replace (another cell)              2 k (u + B)  k sqrt(2 (u^2 + B^2))

Attained by k equal records, at y = B. A record that stays in its cell moves the sum by B, which is less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Pair, count_records, say_records
from vestry.numerics import Array
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moments import LevelColumn
from vestry.schema.design_matrix import INTERCEPT
from vestry.schema.statistics import Count, Indicator, Sum, SumQuery, Term

RECORDS, OUTCOMES = "records", "sum"


@dataclass(frozen=True)
class OutcomeTable:
    """Which outcomes are counted in which cells.

    Attributes
    ----------
    predictors
        Their levels; each combination is a cell, the last one's levels changing fastest.
    outcome
        The column to explain.
    classes
        Of levels: what is told apart, with the levels of each; the first is what the others are compared with.
    high
        Of counts: the largest; None for levels.
    """

    predictors: tuple[LevelColumn, ...]
    outcome: str
    classes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    high: int | None = None

    name = "outcome-table"

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> OutcomeTable:
        """Read `to_dict` back."""
        return cls(
            tuple(LevelColumn(str(each["name"]), tuple(each["levels"])) for each in record["predictors"]),
            str(record["outcome"]),
            tuple((str(each["name"]), tuple(each["levels"])) for each in record["classes"]),
            None if record["high"] is None else int(record["high"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "predictors": [{"name": each.name, "levels": list(each.levels)} for each in self.predictors],
            "outcome": self.outcome,
            "classes": [{"name": name, "levels": list(levels)} for name, levels in self.classes],
            "high": self.high,
        }

    @property
    def units(self) -> int:
        """How many units a record of counts has."""
        return 1 if self.high is None else max(1, self.high // 2)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each cell has a number of."""
        return (RECORDS, OUTCOMES) if self.high is not None else tuple(name for name, _ in self.classes)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(len(each.levels) for each in self.predictors) * len(self.kinds)

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The levels of each cell."""
        return tuple(product(*(each.levels for each in self.predictors)))

    def cell_name(self, cell: Sequence[str]) -> str:
        """Return `sex=f, ward=A`."""
        return ", ".join(f"{each.name}={level}" for each, level in zip(self.predictors, cell, strict=True))

    @property
    def query(self) -> SumQuery:
        """What each record adds."""
        terms: tuple[Term, ...] = tuple(Indicator(self.outcome, levels) for _, levels in self.classes)
        if self.high is not None:
            terms = (Count(self.units), Sum(self.outcome, 0.0, 1.0))
        return SumQuery(tuple(each.name for each in self.predictors), terms)

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the numbers of all cells; see the table above."""
        times, k = 2 if adjacency.replaces else 1, adjacency.rows
        one = (1, 1) if self.high is None else (self.units + self.high, self.units**2 + self.high**2)
        names = tuple(f"{self.cell_name(cell)}: {kind}" for cell in self.cells for kind in self.kinds)
        return Layout(names, k * times * one[0], k * math.sqrt(times * one[1]), count=adjacency.count)

    # Features

    def column(self, name: str) -> LevelColumn:
        """Return a predictor, or refuse one that was not released."""
        for each in self.predictors:
            if each.name == name:
                return each
        named = ", ".join(each.name for each in self.predictors)
        raise InvalidParameter("a predictor", name, f"one of those released ({named})", self.predictors[0].name)

    def feature_names(self, terms: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """Return `sex[m]`, `sex[m]:ward[B]` for each combination of levels except the first, the intercept last."""
        return (*(":".join(f"{c}[{level}]" for c, level in each) for each in self._features(terms)), INTERCEPT)

    def _features(self, terms: Sequence[tuple[str, ...]]) -> list[tuple[tuple[str, str], ...]]:
        """Return which levels, of which columns, each feature is the indicator of."""
        parts = [[[(name, level) for level in self.column(name).levels[1:]] for name in term] for term in terms]
        return [combination for part in parts for combination in product(*part)]

    def features(self, terms: Sequence[tuple[str, ...]], cells: Sequence[Sequence[str]]) -> Array:
        """Return the features of cells, one row each, the intercept last."""
        places = {each.name: place for place, each in enumerate(self.predictors)}
        wanted = self._features(terms)
        rows = [[float(all(cell[places[c]] == level for c, level in each)) for each in wanted] for cell in cells]
        return np.column_stack([np.array(rows).reshape(len(cells), -1), np.ones(len(cells))])

    def moved(self, column: str, level: str) -> list[tuple[str, ...]]:
        """Return the cells with another level of one column."""
        place = self.predictors.index(self.column(column))
        return [(*cell[:place], level, *cell[place + 1 :]) for cell in self.cells]

    # For audits

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return neighbours at the distance of the layout."""
        k, zeros = adjacency.rows, [0] * len(layout.names)
        own = [0, k] if self.high is None else [k * self.units, k * self.high]
        before, after = zeros.copy(), zeros.copy()
        before[:2], after[-2:] = own, own
        if not adjacency.replaces:
            return Pair(f"{count_records(k)} added", tuple(zeros), tuple(after))
        return Pair(f"{say_records(k, 'go')} from the first cell to the last", tuple(before), tuple(after))
