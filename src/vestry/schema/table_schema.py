"""What is declared of a table: its columns, whose privacy is protected, and against which neighbours."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from vestry.errors import InvalidParameter
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Domain, Interval, Levels

# The largest number of records that is assumed where none is declared.
DEFAULT_MAX_ROWS = 10**12


@dataclass(frozen=True)
class Population:
    """Whose privacy is protected, and which tables are neighbours."""

    unit: Unit
    neighbours: Neighbours


@dataclass(frozen=True)
class TableSchema:
    """The declarations of a table.

    Attributes
    ----------
    domains
        What each column may contain.
    unit, neighbours
        As the ledger owns them.
    max_rows
        The largest number of records, where their number is private.
    """

    domains: Mapping[str, Domain]
    unit: Unit
    neighbours: Neighbours
    max_rows: int = DEFAULT_MAX_ROWS

    @property
    def population(self) -> Population:
        """Whose privacy is protected, and which tables are neighbours."""
        return Population(self.unit, self.neighbours)

    def domain(self, column: str) -> Domain:
        """Return the declared domain of a column; raise if there is none."""
        if column not in self.domains:
            names = ", ".join(self.domains)
            near = difflib.get_close_matches(column, self.domains, 1)
            instead = near[0] if near else f"what {column} may contain under columns"
            raise InvalidParameter("a column", column, f"one that is declared ({names})", instead)
        return self.domains[column]

    def levels(self, column: str) -> Levels:
        """Return the declared levels of a column; raise if it has none."""
        domain = self.domain(column)
        if isinstance(domain, Levels):
            return domain
        instead = f'{column} = {{ levels = ["a", "b"] }}'
        raise InvalidParameter(f"the column {column}", "an interval", "levels", instead)

    def interval(self, column: str) -> Interval:
        """Return the declared interval of a column; raise if it has none."""
        domain = self.domain(column)
        if isinstance(domain, Interval):
            return domain
        instead = f"{column} = {{ interval = [0, 60] }}"
        raise InvalidParameter(f"the column {column}", "levels", "an interval", instead)
