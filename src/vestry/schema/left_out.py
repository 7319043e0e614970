"""What becomes of a record whose value is missing, or is nothing that was declared.

A record is left out of every statistic of the column, unless its declaration says otherwise. Where that costs nothing
it is counted: under add-remove, if the unit is a row, each record lies in one cell and adds 1 there, so that cells for
the records that are left out change no sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vestry.privacy.neighbours import Neighbours
from vestry.schema.domain import DROP, LEVEL, NEVER, Bins, Domain, Interval
from vestry.schema.table_schema import Population, TableSchema

Reason = Literal["missing", "other"]
REASONS: tuple[Reason, ...] = ("missing", "other")


@dataclass(frozen=True)
class Kept:
    """No record is left out: a value that fits nothing counts as `fallback`, a level or a number."""

    fallback: str | float


@dataclass(frozen=True)
class OwnLevel:
    """No record is left out: what fits nothing is a level of its own."""


@dataclass(frozen=True)
class LeftOut:
    """Records are left out; `counted` if they are counted by reason."""

    counted: bool

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons by which they are counted."""
        if self.counted:
            return REASONS
        return ()


Treatment = Kept | OwnLevel | LeftOut


def treatment_of(schema: TableSchema, column: str) -> Treatment:
    """Return what becomes of values that are missing or unmatched.

    Under add-remove the promise `never` changes nothing that is public, since the number of records is private in any
    case: records that break it are left out. Under replace it keeps the number public, so what breaks it becomes the
    first level or the low end.
    """
    domain = schema.domain(column)
    replaces = schema.neighbours is Neighbours.REPLACE
    left_out = domain.missing == DROP or (domain.missing == NEVER and not replaces)
    if left_out:
        return LeftOut(counts_left_out(schema.population))
    if domain.missing == LEVEL:
        return OwnLevel()
    return Kept(_fallback(domain))


def counts_left_out(population: Population) -> bool:
    """Return True if records that are left out can be counted without a larger sensitivity."""
    return population.neighbours is Neighbours.ADD_REMOVE and population.unit.person is None


def _fallback(domain: Domain) -> str | float:
    if isinstance(domain, Interval):
        return domain.stand_in
    if isinstance(domain, Bins):
        return domain.interval.stand_in
    return domain.texts[domain.values.index(domain.stand_in)]
