"""How many records or persons there are, by group, as a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.conjugate.simulation import noisy_statistics
from vestry.conjugate.table_forecast import LEVEL
from vestry.errors import InvalidParameter
from vestry.model.counted_cells import PERSONS, RECORDS, CountedCells
from vestry.model.histograms import NOISES, calibrate_counts
from vestry.model.request import (
    MOST_GROUPS,
    By,
    PreparedSums,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    check_grouping,
    counts_publicly,
    declaration,
    grouping,
    groups_of,
)
from vestry.schema.domain import Domain
from vestry.schema.table_schema import TableSchema
from vestry.tables.count_posterior import count_reader

# Simulated releases of a forecast.
_RELEASES = 40


@dataclass(frozen=True)
class RecordCount:
    """The number of records, or of persons, in the table: by group, or in all.

    Attributes
    ----------
    by
        A column of levels, or several: one count for each. If omitted there is one count.
    of
        `records`; or `persons`, where the unit is a person: those who have a row that counts, in each group where they
        have one.
    """

    by: By = None
    of: str = RECORDS

    name: ClassVar[str] = "count"
    reader: ClassVar[Any] = staticmethod(count_reader)
    column_keys: ClassVar[tuple[str, ...]] = ("by",)
    mechanisms: ClassVar[tuple[str, ...]] = NOISES

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return grouping(self.by)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse what cannot be counted, or group records."""
        check_grouping(self.by)
        if self.of not in (RECORDS, PERSONS):
            raise InvalidParameter("of", self.of, f'"{RECORDS}" or "{PERSONS}"', f'of = "{RECORDS}"')
        groups_of(domains, self.by)

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations."""
        self.check(schema.domains)
        if self.of == PERSONS and schema.unit.person is None:
            instead = 'of = "records", or unit = { person = "patient_id", rows = 3 }'
            raise InvalidParameter("of", self.of, "records where the unit is a row", instead)
        if self.of == RECORDS and counts_publicly(schema, self):
            allowed = "asked where it is private: under replace the number of rows is public"
            raise InvalidParameter("a count", "the number of all rows", allowed, 'by = "ward", or no release')
        adjacency, counts = adjacency_of(schema, self, None), CountedCells(self.columns, self.of)
        mechanism = calibrate_counts(
            request.mechanism, counts.layout(adjacency, (self.of,)), adjacency, request.guarantee
        )
        counts.query.check(schema.domains)
        groups = groups_of(schema.domains, self.by)
        return PreparedSums(self, {"name": self.name, "of": self.of}, (), mechanism, counts.query, groups, ())

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected width of a 90 % interval; without noise the count is known."""
        reader, widths = count_reader(prepared.described, ()), []
        for _ in range(_RELEASES):
            low, high = reader.noise_aware(noisy_statistics(prepared.mechanism, [n], rng)).interval(LEVEL)
            widths.append(high - low)
        return float(np.mean(widths)), 0.0, None

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many counts a release has."""
        return Size(len(groups_of(domains, self.by)), MOST_GROUPS, "groups")

    def question(self) -> str:
        """Say in words what is asked."""
        by = f", by {' and '.join(self.columns)}" if self.columns else ""
        return f"The number of {self.of}{by}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, {"by": self.by, "of": self.of})
