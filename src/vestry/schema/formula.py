"""The small language of derived columns, as a tree: what may be written, apart from how it is read and computed.

    expr := expr ("and"|"or") expr | "not" expr | term (("="|"!="|"<"|"<="|">"|">="|"in") term)?
    term := column | literal | list | term ("+"|"-"|"*"|"/") term | "-" term
          | year(d) | month(d) | days(d1, d2) | ( expr )

A value is missing if what it is made of is: arithmetic and comparisons with a missing value are missing, and `and`,
`or` and `not` are those of SQL, where false and missing is false, and true or missing is true. No value is an error.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field

# What a part of an expression is.
NUMBER, DATE, TEXT, TRUTH = "number", "date", "text", "truth value"
# What the functions take; each gives a number.
FUNCTIONS = {"year": 1, "month": 1, "days": 2}


@dataclass(frozen=True)
class Part:
    """A part of an expression; `place` counts its characters from 1."""

    place: int = field(kw_only=True, compare=False)

    @property
    def kind(self) -> str | None:
        """What it is; None for a column, which is what is asked of it."""
        return TRUTH

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of which it is made."""
        return ()


@dataclass(frozen=True)
class ColumnName(Part):
    """A column of the table."""

    column: str

    @property
    def kind(self) -> str | None:
        """What is asked of it."""
        return None


@dataclass(frozen=True)
class Constant(Part):
    """A number, a text in quotes, a date or a truth value."""

    value: float | str | bool | datetime.date

    @property
    def kind(self) -> str:
        """What it is."""
        kinds = ((bool, TRUTH), (float, NUMBER), (str, TEXT))
        return next((kind for each, kind in kinds if isinstance(self.value, each)), DATE)


@dataclass(frozen=True)
class Arithmetic(Part):
    """Two numbers and + - * or / between them; - with one number is its negative."""

    sign: str
    numbers: tuple[Part, ...]

    @property
    def kind(self) -> str:
        """A number."""
        return NUMBER

    @property
    def parts(self) -> tuple[Part, ...]:
        """The numbers."""
        return self.numbers


@dataclass(frozen=True)
class DatePart(Part):
    """The year or the month of a date, or the days from the second date to the first."""

    function: str
    dates: tuple[Part, ...]

    @property
    def kind(self) -> str:
        """A number."""
        return NUMBER

    @property
    def parts(self) -> tuple[Part, ...]:
        """The dates."""
        return self.dates


@dataclass(frozen=True)
class Comparison(Part):
    """Whether two parts of one kind are equal, unequal or in an order."""

    sign: str
    left: Part
    right: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """Both sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class Membership(Part):
    """Whether a part is one of a list."""

    item: Part
    among: tuple[Constant, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The part, and the list."""
        return (self.item, *self.among)


@dataclass(frozen=True)
class Junction(Part):
    """Several conditions with `and`, or with `or`, between them."""

    word: str
    conditions: tuple[Part, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The conditions."""
        return self.conditions


@dataclass(frozen=True)
class Negation(Part):
    """Not a condition."""

    condition: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """The condition."""
        return (self.condition,)


@dataclass(frozen=True)
class Reading(Part):
    """A column as it is read for its place: a number, a date or a truth value, or whether it is one of these texts.

    Attributes
    ----------
    column
        Which.
    of
        What is asked of it.
    format
        How text writes its dates; None for ISO 8601.
    among
        The texts, where it is compared with texts.
    exact
        Whether they are compared as they stand.
    """

    column: str
    of: str
    format: str | None = None
    among: tuple[str, ...] = ()
    exact: bool = False

    @property
    def kind(self) -> str:
        """What is asked of it; of a text whether it is the same, a truth value."""
        return TRUTH if self.of == TEXT else self.of


def walk(part: Part) -> Iterator[Part]:
    """Yield a part, and all of which it is made."""
    yield part
    for each in part.parts:
        yield from walk(each)
