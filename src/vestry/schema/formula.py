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
class FormulaPart:
    """A part of an expression; `place` counts its characters from 1."""

    place: int = field(kw_only=True, compare=False)

    @property
    def kind(self) -> str | None:
        """What it is; None for a column, which is what is asked of it."""
        return TRUTH

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """The parts of which it is made."""
        return ()


@dataclass(frozen=True)
class ColumnName(FormulaPart):
    """A column of the table."""

    column: str

    @property
    def kind(self) -> str | None:
        """What is asked of it."""
        return None


@dataclass(frozen=True)
class Constant(FormulaPart):
    """A number, a text in quotes, a date or a truth value."""

    value: float | str | bool | datetime.date

    @property
    def kind(self) -> str:
        """What it is."""
        kinds = ((bool, TRUTH), (float, NUMBER), (str, TEXT))
        return next((kind for each, kind in kinds if isinstance(self.value, each)), DATE)


@dataclass(frozen=True)
class Arithmetic(FormulaPart):
    """Two numbers and + - * or / between them; - with one number is its negative."""

    sign: str
    numbers: tuple[FormulaPart, ...]

    @property
    def kind(self) -> str:
        """A number."""
        return NUMBER

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """The numbers."""
        return self.numbers


@dataclass(frozen=True)
class DatePart(FormulaPart):
    """The year or the month of a date, or the days from the second date to the first."""

    function: str
    dates: tuple[FormulaPart, ...]

    @property
    def kind(self) -> str:
        """A number."""
        return NUMBER

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """The dates."""
        return self.dates


@dataclass(frozen=True)
class Comparison(FormulaPart):
    """Whether two parts of one kind are equal, unequal or in an order."""

    sign: str
    left: FormulaPart
    right: FormulaPart

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """Both sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class Membership(FormulaPart):
    """Whether a part is one of a list."""

    item: FormulaPart
    among: tuple[Constant, ...]

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """The part, and the list."""
        return (self.item, *self.among)


@dataclass(frozen=True)
class Junction(FormulaPart):
    """Several conditions with `and`, or with `or`, between them."""

    word: str
    conditions: tuple[FormulaPart, ...]

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """The conditions."""
        return self.conditions


@dataclass(frozen=True)
class Negation(FormulaPart):
    """Not a condition."""

    condition: FormulaPart

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """The condition."""
        return (self.condition,)


@dataclass(frozen=True)
class Reading(FormulaPart):
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


def walk(part: FormulaPart) -> Iterator[FormulaPart]:
    """Yield a part, and all of which it is made."""
    yield part
    for each in part.parts:
        yield from walk(each)
