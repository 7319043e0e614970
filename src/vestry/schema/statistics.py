"""What is summed over the records, described apart from its execution.

A `SumQuery` sums integers over all records, once for each combination of the levels of its keys: counts, indicators,
and sums of clipped numbers on a grid. Histograms and cross-tabulations are sums of `Count` by their columns. How values
fit what is declared of them is counted by `Condition`.
A `PersonQuery` sums what persons add, each with the weight of one record; `PersonProducts` products of their means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from vestry.errors import InvalidParameter
from vestry.schema.domain import Domain, Interval, Levels
from vestry.validation import require_choice


@dataclass(frozen=True)
class Count:
    """Each record adds `units`: the count, in units of 1/units of a record."""

    units: int = 1


@dataclass(frozen=True)
class Indicator:
    """Each record adds 1 if its column has one of the named levels (`Levels.names`), else 0."""

    column: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Sum:
    """Each record adds floor((x - origin)/grid + 1/2), x its column's value clipped to the declared interval."""

    column: str
    origin: float
    grid: float


@dataclass(frozen=True)
class Product:
    """Each record adds floor((x - x_origin)(y - y_origin)/grid + 1/2); both columns may be the same."""

    columns: tuple[str, str]
    origins: tuple[float, float]
    grid: float


@dataclass(frozen=True)
class Within:
    """Each record that has all these levels adds what the term says; the others add 0."""

    levels: tuple[tuple[str, str], ...]
    term: Count | Sum


# How a value was read: as declared; not there; there, and nothing that is declared; beyond an end of its interval.
CONDITIONS = FITS, ABSENT, UNMATCHED, CLIPPED = "fits", "missing", "unmatched", "clipped"


@dataclass(frozen=True)
class Condition:
    """Each record adds 1 if its column's value is in this condition, whatever becomes of a missing value.

    Absent: null, NaN, empty text, and text of more than 100 characters. Unmatched: any other value that is not a
    declared level, or not a number (a date) under an interval. Clipped: a number (a date) beyond an end.
    """

    column: str
    condition: str


Term = Count | Indicator | Sum | Product | Condition | Within


@dataclass(frozen=True)
class SumQuery:
    """The terms of every record, summed by the levels of the keys.

    Attributes
    ----------
    keys
        Columns of levels; a record belongs to one combination of their levels.
    terms
        What each record adds there.
    """

    keys: tuple[str, ...]
    terms: tuple[Term, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, each once, in a fixed order."""
        named = [*self.keys, *(column for term in self.terms for column in _columns(term))]
        return tuple(dict.fromkeys(named))

    @property
    def sums(self) -> int:
        """How many numbers each cell has."""
        return len(self.terms)

    def cells(self, domains: Mapping[str, Domain]) -> Iterator[tuple[str, ...]]:
        """List the combinations of levels, the last key's changing fastest: the order of the sums."""
        return product(*(self._levels(key, domains).names for key in self.keys))

    @property
    def examined(self) -> frozenset[str]:
        """The columns that are read for the condition of their values; no record is omitted because of them."""
        return frozenset(term.column for term in self.terms if isinstance(term, Condition))

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns that are not declared, or declared as something else than they are used for."""
        for column in self.columns:
            if column not in domains:
                raise InvalidParameter("a column", column, "one that is declared", f"{column} = {{ levels = [...] }}")
        for key in self.keys:
            self._levels(key, domains)
        others = {
            *self.keys,
            *(each for term in self.terms if not isinstance(term, Condition) for each in _columns(term)),
        }
        for column in self.examined & others:
            raise InvalidParameter("a column", column, "summed, or examined for its condition", "two queries")
        for term in self.terms:
            if isinstance(term, Condition):
                require_choice("a condition", term.condition, CONDITIONS, f'"{ABSENT}"')
            for column, level in _required(term):
                names = self._levels(column, domains).names
                if level not in names:
                    raise InvalidParameter(f"a level of {column}", level, "one of " + ", ".join(names), names[0])
            summed = summand(term)
            for column in _columns(summed):
                if isinstance(summed, (Sum, Product)) and not isinstance(domains[column], Interval):
                    raise InvalidParameter(f"the column {column}", "levels", "an interval", "interval = [0, 60]")

    @staticmethod
    def _levels(column: str, domains: Mapping[str, Domain]) -> Levels:
        domain = domains[column]
        if not isinstance(domain, Levels):
            raise InvalidParameter(f"the column {column}", "an interval", "levels", 'levels = ["no", "yes"]')
        return domain


@dataclass(frozen=True)
class PersonCount(SumQuery):
    """How many persons have a row that counts in each cell: a person adds 1 to each cell where she has one."""


@dataclass(frozen=True)
class PersonQuery(SumQuery):
    """What persons add, where each has the weight of one record, summed by the levels of the keys.

    Each of a person's m rows that count weighs 1/m. In a group, w is their weight, and s that of a term, which is
    between 0 and w (a row adds a share of its weight); f = w - s. She adds to the group, for each term,

        (s^2, 2 s f, f^2, s (1 - w), f (1 - w)), which sum to w;

    or, `within` the levels of the last key, of which q is one's weight, to each level

        (q^2, q (w - q), q (1 - w)), which sum to q.

    What ends in 1 - w is omitted without groups, where w = 1. No number is negative, and over all groups and levels
    they sum to at most 1: a person adds no more than one record would, whatever her rows are.

    Attributes
    ----------
    units
        How many units the weight of a person has; every number is rounded down to them, and the last of each row above
        is what remains of its sum, so that the sum is exact.
    spans
        The most that a row may add to each term.
    within
        Whether the last key holds the levels of what is asked, and not of groups.
    """

    units: int
    spans: tuple[int, ...] = ()
    within: bool = False

    @property
    def grouped(self) -> bool:
        """Whether there are groups."""
        return len(self.keys) > self.within

    @property
    def sums(self) -> int:
        """How many numbers each cell has."""
        if self.within:
            return 3 if self.grouped else 2
        return len(self.terms) * (5 if self.grouped else 3)


@dataclass(frozen=True)
class PersonProducts(SumQuery):
    """Products of persons' means, summed over persons.

    A person's mean of a term, over her rows that count, is rounded to a whole number x of steps, -units to units. She
    adds floor(x y/units + 1/2) to each pair of terms: what one record with these numbers would add.

    Attributes
    ----------
    units
        How many steps 1 has, a power of 2; every row adds as many at most, up or down, to each term.
    pairs
        The two factors of each sum: 0 for the constant 1, and then the terms' places from 1 on.
    """

    units: int
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def sums(self) -> int:
        """How many numbers there are."""
        return len(self.pairs)


def _columns(term: Term) -> tuple[str, ...]:
    match term:
        case Count():
            return ()
        case Product():
            return term.columns
        case Within():
            return (*(column for column, _ in term.levels), *_columns(term.term))
        case _:
            return (term.column,)


def _required(term: Term) -> tuple[tuple[str, str], ...]:
    """Return the levels that a term names, each with its column."""
    if isinstance(term, Within):
        return term.levels
    return tuple((term.column, level) for level in term.levels) if isinstance(term, Indicator) else ()


def summand(term: Term) -> Count | Indicator | Sum | Product | Condition:
    """Return what a record adds where it adds something."""
    return term.term if isinstance(term, Within) else term


def sides(term: Sum | Product) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the columns that a term multiplies, and their origins."""
    if isinstance(term, Sum):
        return (term.column,), (term.origin,)
    return term.columns, term.origins
