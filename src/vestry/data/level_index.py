"""The place of a value among a few, by functions of DuckDB that never fail.

DuckDB evaluates such a function once for each entry of a column's dictionary. It evaluates CASE, and arithmetic that
may overflow, once for each record: three times as long as the counts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any


def looked_up(value: Any, values: Sequence[Any], missing: int | None) -> Any:
    """Return the place of a value, counted from 0, and the place `missing` if it is not there; null for None.

    `list_position` counts from 1 and is null if it finds nothing, and `greatest` passes over nulls. So whatever belongs
    at place 0 is left out of the list.
    """
    position, greatest = _functions()
    if missing is None:
        return position(list(values), value) - 1
    others = [each for place, each in enumerate(values) if place != missing]
    found = greatest(position(others, value), 0)  # 0 is what is missing, and the rest are numbered from 1
    if missing == 0:
        return found
    # The numbers of the places 1, 2, ...: those before `missing` have moved up by one.
    numbers = [*range(2, missing + 1), 0, *range(missing + 1, len(others) + 1)]
    return greatest(position(numbers, found), 0)


@cache
def _functions() -> tuple[Any, Any]:
    import ibis

    def list_position(values, value) -> int:  # type: ignore[no-untyped-def, empty-body]
        ...

    def greatest(one, other) -> int:  # type: ignore[no-untyped-def, empty-body]
        ...

    return ibis.udf.scalar.builtin(list_position), ibis.udf.scalar.builtin(greatest)
