"""What models share in reading a declaration, and in writing one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from vestry.errors import InvalidParameter
from vestry.schema.domain import Domain, Interval, Levels

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


def listing(columns: tuple[str, ...], mark: str = ", ") -> str:
    """Name a few columns, and count the rest: a question stays one line that a ledger can write."""
    shown = columns if len(columns) <= _FEW else columns[:_FEW]
    more = [f"{len(columns) - len(shown)} more"] if len(shown) < len(columns) else []
    return mark.join([*shown, *more])


def purpose_of(question: str) -> str:
    """Return a question as a ledger can write it: printable, and with room for a release's name before it."""
    text = "".join(each if each.isprintable() else " " for each in question).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def check_names(model: Any) -> None:
    """Refuse columns that are not named by text, and groups by more than one column."""
    try:
        by, columns = model.by, tuple(model.columns)
    except (AttributeError, KeyError, TypeError):
        instead = 'for example BetaBernoulli("readmitted", success="yes")'
        raise InvalidParameter("a model", type(model).__name__, "one whose columns are named", instead) from None
    if not isinstance(by, str | None):
        raise InvalidParameter("by", by, "the name of one column", 'by="ward", or a column that holds both')
    for column in columns:
        if not isinstance(column, str):
            raise InvalidParameter("a column", column, "its name", 'for example "readmitted"')


# How many columns a question names, and how long a purpose is, at most.
_FEW, _LONGEST = 12, 900


def declaration(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's declaration, as a study file writes it; a prior comes last."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    last = {"prior": plain.pop("prior")} if "prior" in plain else {}
    return {"model": name, **plain, **last}
