"""What is wrong with a declaration by the names and types of a table's columns alone. No value is read.

A name of the table is shown only if it is a declared one in other letters or spaces: a file's first line may hold a
record and not names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vestry.data.source import usable
from vestry.schema.domain import Domain, Levels, underlying
from vestry.schema.meaning import instant_of, is_number, time_of


def schema_faults(
    types: Mapping[str, Any], domains: Mapping[str, Domain | None], person: str | None
) -> tuple[str, ...]:
    """Say which declared columns the table does not have, or has as a type that cannot hold what is declared.

    Parameters
    ----------
    types
        The table's columns, with their types; of a CSV file all are text.
    domains
        What is declared; None for a column that a derived one is made of.
    person
        The column of the person, if that is the unit.
    """
    wanted: dict[str, Domain | None] = {**dict.fromkeys(filter(None, (person,))), **domains}
    absent = [column for column in wanted if column not in types]
    if len(absent) == len(wanted) and not any(_near(column, types) for column in absent):
        return (_NONE,)
    return (
        *(_absence(column, types) for column in absent),
        *(fault for column in wanted if column in types for fault in _misfit(column, types[column], wanted[column])),
    )


_NONE = "none of the declared columns is in the data; a CSV file begins with its names, and csv.separator divides them"


def _absence(column: str, types: Mapping[str, Any]) -> str:
    near = _near(column, types)
    return (
        f'there is no column {column}; write "{near}", as the data have it' if near else f"there is no column {column}"
    )


def _near(column: str, types: Mapping[str, Any]) -> str | None:
    """Return a column of the table whose name is the same but for case, white space and marks."""
    return next((name for name in types if _plain(name) == _plain(column)), None)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold()) or name


def _misfit(column: str, dtype: Any, domain: Domain | None) -> Iterator[str]:
    """Yield what a column's type makes impossible: a domain that no value of it can be of."""
    kind = type_words(dtype)
    domain = None if domain is None else underlying(domain)
    if not usable(dtype):
        yield f"{column} holds {kind}, which are not single values; name another column, or a view that has one"
    elif isinstance(domain, Levels):
        if not any(_may_be(text, dtype) for text in domain.texts):
            yield f"{column} holds {kind}, and no declared level can be one; every value would count as missing"
    elif domain is not None and domain.since is None and (dtype.is_date() or dtype.is_timestamp()):
        instead = "declare an interval of dates, [2020-01-01, 2024-12-31]"
        yield f"{column} holds {kind}, and an interval of numbers is declared; {instead}"
    elif domain is not None and domain.since is not None and not (_is_open(dtype) or dtype.is_temporal()):
        yield f"{column} holds {kind}, and an interval of dates is declared; every value would count as missing"


def _may_be(text: str, dtype: Any) -> bool:
    """Tell whether a value of a type can be the level with this text."""
    if dtype.is_boolean():
        return text in ("0", "1")
    if dtype.is_numeric():
        return is_number(text)
    if dtype.is_date() or dtype.is_timestamp():
        return instant_of(text) is not None
    return not dtype.is_time() or time_of(text) is not None


def _is_open(dtype: Any) -> bool:
    """Tell whether a type says nothing of what its values mean."""
    return any(getattr(dtype, f"is_{name}")() for name in ("string", "unknown", "null", "uuid"))


def type_words(dtype: Any) -> str:
    """Return what a column of a type holds, in words."""
    kinds = {"boolean": "truth values", "numeric": "numbers", "date": "dates", "timestamp": "times with a date"}
    kinds |= {"time": "times of day", "interval": "durations", "string": "text", "nested": "lists or records"}
    return next((words for name, words in kinds.items() if getattr(dtype, f"is_{name}")()), "values of another type")
