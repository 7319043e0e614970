"""Records to predict for, given as columns: each column is read at once, so that a million rows take a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.validation import is_number


def level_name(level: object) -> str:
    """Return a level as a release writes it: 4 is "4", and True is "true"."""
    whole = isinstance(level, (float, np.floating)) and float(level).is_integer()
    text = str(int(level)) if whole else str(level)  # type: ignore[call-overload]
    return text.lower() if isinstance(level, (bool, np.bool_)) else text


def level_places(column: str, values: Any, levels: Sequence[str]) -> np.ndarray:
    """Return the place of each value among a column's levels, -1 where it is missing; refuse another level.

    The refusal names a value only if it is the only one: a column of records may be private.
    """
    import pandas as pd

    given: Any = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=object)
    codes, distinct = pd.factorize(given)
    known = {name: place for place, name in enumerate(levels)}
    places = [known.get(level_name(each)) for each in distinct]
    if None in places:
        shown = distinct[places.index(None)] if len(given) == 1 else "another level"
        raise InvalidParameter(f"a level of {column}", shown, "one of " + ", ".join(levels), f'"{levels[0]}"')
    return np.asarray(np.append(np.array(places, dtype=np.intp), -1)[codes])


def column_numbers(column: str, values: Any, instead: str) -> Array:
    """Return a column of numbers; refuse what is none, or missing."""
    given = np.asarray(values)
    if given.dtype.kind in "iuf":
        numbers = given.astype(np.float64)
    else:
        numbers = np.array([float(each) if is_number(each) else np.nan for each in given.tolist()])
    if not np.isfinite(numbers).all():
        shown = given.tolist()[0] if given.size == 1 else "what is not a number"
        raise InvalidParameter(f"the value of {column}", shown, "a number", instead)
    return numbers
