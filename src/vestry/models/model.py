"""What models share in reading a declaration, and in writing one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from vestry.errors import InvalidParameter
from vestry.statistics.domain import Domain, Interval, Levels

# The width of a normal 90 % interval, in standard deviations.
WIDE = 2 * 1.6448536269514722


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
        near = difflib.get_close_matches(str(column), domains, 1)
        named, instead = ", ".join(domains) or "none", near[0] if near else f"what {column} may contain under columns"
        raise InvalidParameter("a column", column, f"one that is declared ({named})", instead)
    return domains[column]


def groups_of(domains: Mapping[str, Domain], by: str | None) -> tuple[str, ...]:
    """Return the names of the groups: the levels of `by`, or `all`."""
    return ("all",) if by is None else levels_of(domains, by).names


def declaration(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's declaration, as a study file writes it; a prior comes last."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    last = {"prior": plain.pop("prior")} if "prior" in plain else {}
    return {"model": name, **plain, **last}
