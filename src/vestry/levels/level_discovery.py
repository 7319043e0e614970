"""Which values of a column occur, as a model: for columns whose levels nobody has listed.

What is shown are texts from the records, with how many hold each. A value that few hold is not seen, and nothing tells
how many such values there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.levels.level_reader import found_words, level_reader, shown_words
from vestry.mechanisms.additive_noise import NOISE_OF
from vestry.mechanisms.level_threshold import LevelThreshold, calibrate_threshold
from vestry.model.counted_cells import PERSONS, RECORDS
from vestry.model.histograms import NOISES
from vestry.model.request import MOST_GROUPS, Request, Size, WidthPair, adjacency_of, declaration
from vestry.privacy.neighbours import Unit
from vestry.releases import NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.private import PrivateCounts
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_whole

# The probability of a forecast's interval; the largest number that `least` and `per_person` may be.
_PROB, _MOST = 0.9, 10**9


@dataclass(frozen=True)
class LevelDiscovery:
    """The values of a column that occur, of those that enough hold, with how many do.

    Attributes
    ----------
    column
        A column of the table. It need not be declared, and what is declared of it plays no part: the values that are
        found can be declared as its levels later.
    least
        Values that fewer records (or persons) hold are never shown, whatever the noise says. Each above 1 raises the
        threshold by 1.
    per_person
        Where the unit is a person: how many different values of each count at most; as many as rows, if omitted.
    """

    column: str
    least: int = 1
    per_person: int | None = None

    name: ClassVar[str] = "levels"
    reader: ClassVar[Any] = staticmethod(level_reader)
    column_keys: ClassVar[tuple[str, ...]] = ()
    mechanisms: ClassVar[tuple[str, ...]] = NOISES
    by: ClassVar[None] = None
    columns: ClassVar[tuple[str, ...]] = ()
    uses_count: ClassVar[bool] = False
    brings_delta: ClassVar[bool] = True
    asks_undeclared: ClassVar[bool] = True
    shows: ClassVar[str] = "shows texts from the records"

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse a column that is not one of the table's, and numbers that do not fit."""
        if not isinstance(self.column, str) or not self.column:
            raise InvalidParameter("column", self.column, "the name of a column of the table", 'column = "diagnosis"')
        if self.column in domains and domains[self.column].derived is not None:
            instead = "the column that it is derived from"
            raise InvalidParameter("column", self.column, "a column of the table, not a derived one", instead)
        require_whole("least", self.least, "least = 10", most=_MOST)
        if self.per_person is not None:
            require_whole("per_person", self.per_person, "per_person = 1", most=_MOST)

    def values(self, unit: Unit) -> int:
        """Return how many different values of a unit count at most."""
        if self.per_person is None:
            return unit.rows
        if unit.person is None:
            raise InvalidParameter("per_person", self.per_person, "omitted where the unit is a row", "no per_person")
        return min(self.per_person, unit.rows)

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedLevels:
        """Calibrate from declarations."""
        self.check(schema.domains)
        unit, adjacency = schema.unit, adjacency_of(schema, self, None)
        if self.column == unit.person:
            allowed = "another one than that of the person, which nobody shares"
            raise InvalidParameter("column", self.column, allowed, 'column = "diagnosis"')
        own = self.values(unit)
        of = RECORDS if unit.person is None else PERSONS
        mechanism = calibrate_threshold(
            NOISE_OF[request.mechanism],
            adjacency,
            request.guarantee,
            values=own * (2 if adjacency.replaces else 1),
            least=self.least,
            of=of,
        )
        described = {
            "name": self.name,
            "column": self.column,
            "of": of,
            "least": self.least,
            "margin": mechanism.margin,
        }
        return PreparedLevels(self, described, mechanism, own)

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the width of a count's 90 % interval, where it is large; without noise the count is known."""
        mechanism: LevelThreshold = prepared.mechanism
        noisy = NoisyStatistics(("value",), (4 * mechanism.threshold,), mechanism.noise, mechanism.scale)
        (count,) = level_reader(prepared.described, ()).counts(noisy).values()
        low, high = count.interval(_PROB)
        return high - low, 0.0, None

    def caution(self, prepared: Any, schema: TableSchema, n: int) -> str:
        """Say what is shown, and which values are found how often."""
        mechanism: LevelThreshold = prepared.mechanism
        of, seen = mechanism.of, found_words(mechanism.probability_shown, mechanism.threshold, mechanism.of)
        return f"{shown_words(of, self.least)}; {seen}"

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return one: how many values will be found is not known."""
        return Size(1, MOST_GROUPS, "values")

    def question(self) -> str:
        """Say in words what is asked."""
        return f"Which values of {self.column} occur, and how often"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it; what is at its default is omitted."""
        own = {"least": self.least} if self.least != 1 else {}
        bound = {"per_person": self.per_person} if self.per_person is not None else {}
        return declaration(self.name, {"column": self.column, **own, **bound})


@dataclass(frozen=True)
class PreparedLevels:
    """All that a release of values needs except the ledger's leave and the records: see `PreparedRelease`.

    Attributes
    ----------
    most
        How many different values of a person count.
    """

    model: LevelDiscovery
    described: Mapping[str, Any]
    mechanism: LevelThreshold
    most: int

    numbers: ClassVar[tuple[float, ...]] = ()
    groups: ClassVar[tuple[str, ...]] = ("all",)
    labels: ClassVar[tuple[str, ...]] = ()

    def check(self, table: Table) -> None:
        """Try all that can fail without touching values."""
        table.check_values(self.model.column, least=self.model.least, most=self.most)

    def collect(self, table: Table, *, row_key: str) -> PrivateCounts:
        """Count how many hold each value."""
        limits = {"least": self.model.least, "most": self.most}
        return table.count_values(self.model.column, row_key=row_key, **limits)

    def check_bound(self, domains: Mapping[str, Domain], max_rows: int) -> None:
        """Nothing is summed that 64 bits could not hold: counts are at most `max_rows`."""
