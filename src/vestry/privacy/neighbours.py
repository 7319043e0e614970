"""Whose change is hidden: the neighbours relation and the protected unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from vestry.errors import InvalidParameter


class Neighbours(Enum):
    """Two datasets are neighbours if one unit was replaced, or if one unit was added or removed."""

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"

    @classmethod
    def parse(cls, given: object) -> Neighbours:
        """Read `replace` or `add-remove`."""
        if isinstance(given, cls):
            return given
        for relation in cls:
            if given == relation.value:
                return relation
        raise InvalidParameter("neighbours", given, 'one of "replace" and "add-remove"', "replace or add-remove")

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
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise InvalidParameter("rows", self.rows, "a whole number of at least 1", "person=patient_id,rows=3")
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
