"""What a model says of a table: a family with its prior, and what each record adds to its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from vestry.errors import InvalidParameter
from vestry.families import Family
from vestry.mechanisms.additive import Layout
from vestry.statistics.domain import Domain, Interval, Levels
from vestry.statistics.tally import Tally


class Model(Protocol):
    """A likelihood, the columns it reads, and a prior."""

    @property
    def by(self) -> str | None:
        """The column whose levels are the groups; None if there are none."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, `by` included."""

    def family(self, domains: Mapping[str, Domain]) -> Family:
        """Return the family, with the numbers that the domains declare; refuse columns that do not fit."""

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the prior's numbers."""

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Return what is collected for noisy statistics: the integers of the layout, by group."""

    def drawn(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Return what is collected for posterior draws: the sums of the statistic and the count, by group."""

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return what each parameter of a group is of; nothing if there is one."""

    def question(self) -> str:
        """Say in words what is asked."""

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""


def levels_of(domains: Mapping[str, Domain], column: str) -> Levels:
    """Return the declared levels of a column, or refuse."""
    domain = declared(domains, column)
    if not isinstance(domain, Levels):
        raise InvalidParameter(f"the column {column}", "an interval", "levels", f'{column} = {{ levels = ["a", "b"] }}')
    return domain


def interval_of(domains: Mapping[str, Domain], column: str) -> Interval:
    """Return the declared interval of a column, or refuse."""
    domain = declared(domains, column)
    if not isinstance(domain, Interval):
        raise InvalidParameter(f"the column {column}", "levels", "an interval", f"{column} = {{ interval = [0, 60] }}")
    return domain


def declared(domains: Mapping[str, Domain], column: str) -> Domain:
    """Return the declared domain of a column, or refuse: nothing is inferred."""
    if not isinstance(column, str) or column not in domains:
        named = ", ".join(domains) or "none"
        raise InvalidParameter("a column", column, f"one that is declared ({named})", f"declare {column}")
    return domains[column]


def groups_of(domains: Mapping[str, Domain], by: str | None) -> tuple[str, ...]:
    """Return the names of the groups: the levels of `by`, or `all`."""
    return ("all",) if by is None else levels_of(domains, by).names


def by_words(by: str | None) -> str:
    """Return the end of a question."""
    return "" if by is None else f", by {by}"
