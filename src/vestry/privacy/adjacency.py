"""Which neighbouring datasets a declaration allows."""

from __future__ import annotations

from dataclasses import dataclass

from vestry.errors import InvalidParameter
from vestry.privacy.neighbours import Neighbours


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
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidParameter(name, value, "a whole number of at least 1", f"for example {name}=100")
        if self.count is not None and self.neighbours is Neighbours.ADD_REMOVE:
            raise InvalidParameter(
                "count", self.count, "private under add-remove", "count=None, or declare neighbours=replace"
            )
        if self.count is not None and self.groups > 1:
            raise InvalidParameter("count", self.count, "private where there are groups", "count=None")
        if self.count is not None and self.rows > self.count:
            raise InvalidParameter("rows", self.rows, f"at most the count, {self.count}", "fewer rows a unit")

    @property
    def replaces(self) -> bool:
        """Whether a unit's records may change into others."""
        return self.neighbours is Neighbours.REPLACE

    @property
    def changes(self) -> int:
        """How many records neighbours may differ by, added and removed: a record that is replaced is both."""
        return self.rows * (2 if self.replaces else 1)
