"""What a release of sums over the records needs, whichever model asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vestry.data import Table
from vestry.data.overflow import check_bound
from vestry.mechanisms.release import Mechanism
from vestry.model.request import Model
from vestry.schema.domain import Domain
from vestry.schema.private import Private
from vestry.schema.statistics import SumQuery


@dataclass(frozen=True)
class PreparedSums:
    """All that a release needs but the ledger's leave and the records: see `PreparedRelease`.

    Attributes
    ----------
    tally
        What is collected, in one query.
    """

    model: Model
    described: Mapping[str, Any]
    numbers: tuple[float, ...]
    mechanism: Mechanism
    tally: SumQuery
    groups: tuple[str, ...]
    labels: tuple[str, ...]

    def check(self, table: Table) -> None:
        """Try all that can fail without touching values."""
        table.check(self.tally)

    def collect(self, table: Table, *, row_key: str) -> Private:
        """Sum over the records."""
        return table.collect(self.tally, row_key=row_key)

    def check_bound(self, domains: Mapping[str, Domain], largest: int) -> None:
        """Refuse sums that 64 bits cannot hold."""
        check_bound(self.tally, domains, largest)
