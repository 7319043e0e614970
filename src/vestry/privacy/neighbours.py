"""Whose change is hidden: the neighbours relation, also called adjacency, and the protected unit.

`Adjacency` says which neighbouring datasets a declaration allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from vestry.errors import DeclarationMismatch, InvalidParameter
from vestry.validation import require_choice, require_whole


class Neighbours(Enum):
    """Two datasets are neighbours if one unit was replaced, or if one unit was added or removed."""

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"

    @classmethod
    def parse(cls, given: object) -> Neighbours:
        """Read `replace` or `add-remove`."""
        if isinstance(given, cls):
            return given
        return cls(require_choice("neighbours", given, [each.value for each in cls], "replace or add-remove"))

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise InvalidParameter("neighbours", value, "replace or add-remove", 'Neighbours("add-remove")')

    @classmethod
    def bind(cls, stated: Neighbours | None, given: object) -> Neighbours | None:
        """Return the relation given, or the one stated where none is; refuse if both are and they differ."""
        if given is None:
            return stated
        relation = cls.parse(given)
        if stated not in (None, relation):
            raise DeclarationMismatch("neighbours relation", str(stated), str(relation), f"state it as {relation}")
        return relation

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Unit:
    """Whose privacy is protected: a row, or a person with at most `rows` rows.

    Attributes
    ----------
    person
        The name of the column that identifies a person; None if the unit is a row.
    rows
        How many rows of one person count at most.
    """

    person: str | None = None
    rows: int = 1

    def __post_init__(self) -> None:
        if self.person is not None and (not isinstance(self.person, str) or not _COLUMN.fullmatch(self.person)):
            raise InvalidParameter(
                "person", self.person, "the name of a column, without , or =", "person=patient_id,rows=3"
            )
        object.__setattr__(self, "rows", require_whole("rows", self.rows, "person=patient_id,rows=3"))
        if self.person is None and self.rows != 1:
            raise InvalidParameter(
                "rows", self.rows, "1 where the unit is a row", "unit=row, or person=patient_id,rows=3"
            )

    @classmethod
    def parse(cls, given: object) -> Unit:
        """Read `row` or `person=COLUMN,rows=K`."""
        if isinstance(given, cls):
            return given
        if given == "row":
            return cls()
        match = _PERSON.fullmatch(given) if isinstance(given, str) else None
        if match is None:
            raise InvalidParameter("unit", given, '"row" or "person=COLUMN,rows=K"', "row, or person=patient_id,rows=3")
        return cls(person=match["person"], rows=int(match["rows"]))

    def __str__(self) -> str:
        return "row" if self.person is None else f"person={self.person},rows={self.rows}"


_COLUMN = re.compile(r"[^,=\n]+")
_PERSON = re.compile(r"person=(?P<person>[^,=\n]+),\s*rows=(?P<rows>[0-9]{1,9})")


@dataclass(frozen=True)
class Adjacency:
    """Whose change is hidden, and whether the number of records is public.

    Attributes
    ----------
    neighbours
        `replace` or `add-remove`.
    rows
        How many records one unit has at most.
    count
        The number of records where it is public; None where it is private. It can be public under `replace` only:
        adding or removing a unit changes it.
    groups
        How many groups the records fall into, by declared levels. Under `replace` a record may move from one to
        another, so no group's count is public.
    """

    neighbours: Neighbours
    rows: int = 1
    count: int | None = None
    groups: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours.parse(self.neighbours))
        for name, value in (("rows", self.rows), ("count", self.count), ("groups", self.groups)):
            if value is not None:
                object.__setattr__(self, name, require_whole(name, value, f"for example {name}=100"))
        if self.count is not None and self.neighbours is Neighbours.ADD_REMOVE:
            raise InvalidParameter(
                "count", self.count, "private under add-remove", "count=None, or declare neighbours=replace"
            )
        if self.count is not None and self.groups > 1:
            raise InvalidParameter("count", self.count, "private where there are groups", "count=None")
        if self.count is not None and self.rows > self.count:
            raise InvalidParameter("rows", self.rows, f"at most the count, {self.count}", "fewer rows per unit")

    @property
    def replaces(self) -> bool:
        """Whether a unit's records may change into others."""
        return self.neighbours is Neighbours.REPLACE

    @property
    def changes(self) -> int:
        """How many records neighbours may differ by, added and removed: a record that is replaced is both."""
        return self.rows * (2 if self.replaces else 1)
