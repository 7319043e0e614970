"""The statistic of linear regression by noisy moments: the sums of all products of a record's columns.

With z = (1, numbers, indicators) the sum of zz', each entry that says something once, as whole numbers: a number is
scaled so that its declared interval becomes [-1, 1], levels are indicators against the first one, and 1 is 2^19 units.
Every least-squares regression among the columns follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from vestry.conjugate.interval_family import check_ends, too_narrow
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import LAPLACE
from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Pair, count_records, say_records
from vestry.numerics import Array
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moment_sensitivity import Change, added, replaced_l1, replaced_l2, rounded
from vestry.schema.design_matrix import HALF, INTERCEPT
from vestry.schema.domain import Domain, Interval, Levels
from vestry.schema.statistics import Count, PersonProducts, Product, Sum, SumQuery, Term, Within


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers from `low` to `high`."""

    name: str
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The middle of the interval, which is scaled to 0."""
        return (self.low + self.high) / 2

    @property
    def reach(self) -> float:
        """Half its width, which is scaled to 1."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class LevelColumn:
    """A column of levels, the first of which has no indicator."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Moments:
    """Which columns are multiplied and summed.

    Attributes
    ----------
    numbers, blocks
        The columns of numbers, the outcome among them, and the columns of levels.
    """

    numbers: tuple[NumberColumn, ...]
    blocks: tuple[LevelColumn, ...] = ()

    name = "moments"

    @classmethod
    def of(cls, columns: Sequence[str], domains: Mapping[str, Domain]) -> Moments:
        """Return the moments of declared columns."""
        numbers = [(each, domains[each]) for each in columns]
        return cls(
            tuple(NumberColumn(name, float(d.low), float(d.high)) for name, d in numbers if isinstance(d, Interval)),
            tuple(LevelColumn(name, tuple(d.names)) for name, d in numbers if isinstance(d, Levels)),
        )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Moments:
        """Read `to_dict` back."""
        return cls(
            tuple(NumberColumn(each["name"], float(each["low"]), float(each["high"])) for each in record["numbers"]),
            tuple(LevelColumn(each["name"], tuple(each["levels"])) for each in record["levels"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "numbers": [{"name": each.name, "low": each.low, "high": each.high} for each in self.numbers],
            "levels": [{"name": each.name, "levels": list(each.levels)} for each in self.blocks],
        }

    @cached_property
    def basis(self) -> tuple[str, ...]:
        """The names of z: `intercept`, the numbers, then `ward[B]` for each level but the first."""
        return (INTERCEPT, *(each.name for each in self.numbers), *(f"{n}[{level}]" for n, level in self._indicators))

    @cached_property
    def _indicators(self) -> tuple[tuple[str, str], ...]:
        return tuple((block.name, level) for block in self.blocks for level in block.levels[1:])

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The places in z of the two factors of each statistic; the count, (0, 0), comes last and may be public."""
        width = len(self.numbers)
        first = [(0, j) for j in range(1, width + 1)]
        products = [(i, j) for i in range(1, width + 1) for j in range(i, width + 1)]
        return (*first, *products, *self._pairs_of_indicators(width), (0, 0))

    def _pairs_of_indicators(self, width: int) -> Iterator[tuple[int, int]]:
        places = list(enumerate(self._indicators, start=width + 1))
        for place, (column, _) in places:
            yield from ((i, place) for i in range(width + 1))
            yield from ((before, place) for before, (other, _) in places if before < place and other != column)

    @property
    def names(self) -> tuple[str, ...]:
        """What each statistic is the sum of; `count` last."""
        basis = self.basis
        return tuple("count" if not j else basis[j] if not i else f"{basis[i]} * {basis[j]}" for i, j in self.pairs)

    def tally(self, keys: tuple[str, ...] = (), *, count: bool) -> SumQuery:
        """Return the query by the levels of `keys`; `count` tells whether the number of records is summed, too."""
        return SumQuery(keys, self.terms(count=count))

    def terms(self, *, count: bool) -> tuple[Term, ...]:
        """Return what each record adds, in units; `count` tells whether the number of records is summed, too."""
        return tuple(self._term(i, j) for i, j in (self.pairs if count else self.pairs[:-1]))

    def _term(self, i: int, j: int) -> Term:
        width = len(self.numbers)
        required = tuple(self._indicators[place - width - 1] for place in (i, j) if place > width)
        numbers = [self.numbers[place - 1] for place in (i, j) if 0 < place <= width]
        if len(numbers) == 2:
            one, other = numbers
            return Product((one.name, other.name), (one.middle, other.middle), one.reach * other.reach / HALF)
        term = Sum(numbers[0].name, numbers[0].middle, numbers[0].reach / HALF) if numbers else Count(HALF)
        return Within(required, term) if required else term

    # How far one unit moves it

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the sums in units of 1/M, M = 2^19; see `moment_sensitivity` for the distances.

        A number goes up to 1 + t where the middle of its interval is not a double; its square is counted up to M, so
        (1 + t)^2 <= 1 + 1/(2 M), and a replaced record moves the sums by no more than (M + 1/2) times the distance,
        and each entry that is rounded by one unit more. An added record has no entry beyond M.
        """
        self._check_numbers()
        k, public = adjacency.rows, adjacency.count is not None
        l1, l2 = self._replaced()
        if not public:
            size = added(len(self.numbers), len(self.blocks))
            alone = size * HALF, math.sqrt(size) * HALF
            moves = adjacency.groups > 1 and adjacency.replaces
            alone = (2 * alone[0], math.sqrt(2) * alone[1]) if moves else alone
            l1, l2 = (max(l1, alone[0]), max(l2, alone[1])) if adjacency.replaces else alone
        names = self.names[:-1] if public else self.names
        return Layout(names, k * l1, k * l2, grid=1 / HALF, count=adjacency.count, count_grid=1 / HALF)

    def _replaced(self) -> tuple[int, float]:
        """Return l1 and l2 of a record that is replaced, in units."""
        extra = rounded(len(self.numbers), len(self.blocks))
        within = HALF + Fraction(1, 2)
        l2 = math.sqrt(self._change(l1=False).distance) * float(within) + math.sqrt(extra)
        return math.ceil(self._change(l1=True).distance * within) + extra, l2

    def _change(self, *, l1: bool) -> Change:
        two = sum(len(block.levels) == 2 for block in self.blocks)
        more = sum(len(block.levels) > 2 for block in self.blocks)
        return (replaced_l1 if l1 else replaced_l2)(len(self.numbers), two, more)

    def _check_numbers(self) -> None:
        """Refuse intervals whose values or products doubles count beyond the grid's end."""
        for place, one in enumerate(self.numbers):
            check_ends(one.low, one.high, one.reach / HALF, HALF)
            for other in self.numbers[place:]:
                step = one.reach * other.reach / HALF
                if not step > 0 or max(abs(_units(x * y / step)) for x in _ends(one) for y in _ends(other)) > HALF:
                    raise too_narrow(one.low, one.high)

    # For audits

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return the neighbours at the distance of the layout, but for the rounding that it allows for."""
        k = adjacency.rows
        ones = (Fraction(1),) * len(self.numbers)
        last = tuple(1 for _ in self.blocks)
        if not adjacency.replaces:
            return Pair(
                f"{count_records(k)} added at a corner", (0,) * len(layout.names), self._dataset(layout, ones, last, k)
            )
        change = self._change(l1=noise == LAPLACE)
        before, after = self._dataset(layout, ones, last, k), self._dataset(layout, *self._moved(change), k)
        return Pair(f"{say_records(k, 'go')} from a corner as far as it can", before, after)

    def _moved(self, change: Change) -> tuple[tuple[Fraction, ...], tuple[int, ...]]:
        """Return the other end of the change: its numbers, and the place of its level in each column."""
        jumps, drops = change.jumps, change.drops
        places = []
        for block in self.blocks:
            if len(block.levels) > 2:
                places.append(2 if jumps > 0 else 1)
                jumps -= 1
            else:
                places.append(0 if drops > 0 else 1)
                drops -= 1
        return change.numbers, tuple(places)

    def _dataset(self, layout: Layout, numbers: Sequence[Fraction], levels: Sequence[int], k: int) -> tuple[int, ...]:
        """Return what k records of these numbers and levels add."""
        one_hot = [
            place == at for block, at in zip(self.blocks, levels, strict=True) for place in range(1, len(block.levels))
        ]
        z = [Fraction(1), *numbers, *map(Fraction, map(int, one_hot))]
        units = tuple(k * math.floor(z[i] * z[j] * HALF + Fraction(1, 2)) for i, j in self.pairs)
        return units if layout.count is None else units[:-1]

    def sums(self, rows: Array) -> list[int]:
        """Return the units of rows of scaled numbers, one column each, summed; for rows that lie in memory."""
        z = np.column_stack([np.ones(len(rows)), rows])
        return [int(np.floor(z[:, i] * z[:, j] * HALF + 0.5).astype(np.int64).sum()) for i, j in self.pairs]

    def require(self, name: str) -> tuple[int, ...]:
        """Return the places in z of a column, or refuse one that was not released."""
        width = len(self.numbers)
        places = [place for place, each in enumerate(self.numbers, start=1) if each.name == name]
        places += [place for place, (column, _) in enumerate(self._indicators, start=width + 1) if column == name]
        if not places:
            named = ", ".join([*(each.name for each in self.numbers), *(each.name for each in self.blocks)])
            raise InvalidParameter("a column", name, f"one of those released ({named})", named.split(", ")[0])
        return tuple(places)


@dataclass(frozen=True)
class PersonMoments(Moments):
    """The moments of persons, of the means of their rows; of numbers alone. A person moves them as one record does."""

    def tally(self, keys: tuple[str, ...] = (), *, count: bool) -> SumQuery:
        """Return the query; the number of persons is always summed."""
        if keys:
            allowed = "omitted where rows are averaged over persons, who may be in several groups"
            raise InvalidParameter("by", list(keys), allowed, 'average = "row", or a unit with rows = 1')
        if self.blocks:
            raise InvalidParameter(
                "a predictor",
                self.blocks[0].name,
                "a number where rows are averaged over persons, whose rows may have several levels",
                'average = "row", or a unit with rows = 1',
            )
        terms = tuple(Sum(each.name, each.middle, each.reach / HALF) for each in self.numbers)
        return PersonProducts((), terms, HALF, self.pairs)

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the sums: a unit's rows are one record."""
        return super().layout(replace(adjacency, rows=1), grid=grid)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return neighbours whose rows are alike, so that they are their mean."""
        return super().noise_pair(layout, replace(adjacency, rows=1), noise)


def _ends(number: NumberColumn) -> tuple[float, float]:
    return number.low - number.middle, number.high - number.middle


def _units(value: float) -> int:
    return math.floor(value + 0.5)
