"""Names of released integers: which records a number counts, or which part of a value it sums.

A name is a set of coordinates, one for each column. As a set it does not depend on the order in which a question lists
its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from vestry.schema.left_out import Reason

# A partition has the terms s^2, 2 s f and f^2; a sphere s, f and sqrt(8) s f.
MomentTerm = Literal["square", "product", "remainder", "complement", "value", "scaled product"]


@dataclass(frozen=True)
class LevelBlock:
    """The column has one of these levels."""

    column: str
    levels: frozenset[str]


@dataclass(frozen=True)
class Bin:
    """The column lies in [lower, upper); the last bin of a column includes its upper end."""

    column: str
    lower: Fraction
    upper: Fraction


@dataclass(frozen=True)
class Moment:
    """A term of the column's value f, scaled to [0, 1], and of s = 1 - f."""

    column: str
    term: MomentTerm


@dataclass(frozen=True)
class MissingLevel:
    """The column's value fits nothing that is declared, which is a level of its own."""

    column: str


@dataclass(frozen=True)
class Excluded:
    """The record is left out because of this column, and counted here."""

    column: str
    reason: Reason


Coordinate = LevelBlock | Bin | Moment | MissingLevel | Excluded
Name = frozenset[Coordinate]


def includes(whole: Coordinate, part: Coordinate) -> bool:
    """Return True if everything in `part` is in `whole`."""
    match whole, part:
        case LevelBlock(), LevelBlock():
            return part.levels <= whole.levels
        case Bin(), Bin():
            return whole.lower <= part.lower and part.upper <= whole.upper
        case _:
            return whole == part


def is_excluded(name: Name) -> bool:
    """Return True if the number counts records that a question on these columns leaves out."""
    kinds = {type(coordinate) for coordinate in name}
    return Excluded in kinds
