"""Rows and outcomes as they are given, each value read by itself, without an error that depends on a value.

What a value means is the same as in a table (`vestry.schema.meaning`): text that is a number is that number, true
is 1, and what has no meaning is missing. A type that was inferred from other values plays no part. Only what holds no
single values is refused by its type: sparse matrices, complex numbers. No message shows a value, or how many rows there
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vestry.data.quiet_reading import quietly
from vestry.errors import InvalidParameter
from vestry.schema.meaning import level_text, number

_NUMBERS = "biuf"
# Bytes of a double: wider floats may be beyond it.
_DOUBLE = 8


def features(given: Any) -> np.ndarray:
    """Return rows of numbers (n, d)."""
    if hasattr(given, "toarray"):
        raise InvalidParameter("X", "sparse", "a dense array", "X.toarray()")
    rows = quietly(lambda: _rows(given), _unreadable("X"))
    if rows.ndim != 2:
        raise InvalidParameter(
            "X",
            f"of {rows.ndim} dimension{'s' * (rows.ndim != 1)}",
            "of two dimensions, rows and features",
            "X.reshape(-1, 1) for one feature, or X.reshape(1, -1) for one row (Reshape your data)",
        )
    if rows.shape[1] == 0:
        raise InvalidParameter(
            "X", "0 feature(s) (shape=(, 0)) while a minimum of 1 is required.", "rows with features", "a column"
        )
    return rows


def outcomes(given: Any, owner: str) -> np.ndarray:
    """Return outcomes (n,), of any type; a column is read as such, with scikit-learn's warning."""
    from sklearn.utils.validation import column_or_1d

    if given is None:
        raise InvalidParameter(
            "y", None, f"given: {owner} requires y to be passed, but the target y is None", "fit(X, y)"
        )
    values = quietly(lambda: _outcomes(given), _unreadable("y"))
    if values.ndim == 2 and values.shape[1] == 1:
        return np.asarray(column_or_1d(values, warn=True))
    if values.ndim != 1:
        raise InvalidParameter("y", f"of {values.ndim} dimensions", "a 1d array, one outcome per row", "one column")
    return values


def same_length(rows: np.ndarray, y: np.ndarray) -> None:
    """Refuse rows without outcomes; how many there are is not said."""
    if len(rows) != len(y):
        raise InvalidParameter("y", "of another length", "of as many outcomes as X has rows", "one outcome for each")


def numbers(y: np.ndarray) -> np.ndarray:
    """Return outcomes as doubles, NaN where one is not a number."""
    if y.dtype.kind in _NUMBERS:
        return y.astype(np.float64, copy=False)
    return np.array([number(value) for value in y.ravel()], dtype=np.float64).reshape(y.shape)


def class_places(y: np.ndarray, classes: Sequence[Any], other: int) -> np.ndarray:
    """Return the place of each label among the classes; `other` for a label that is none of them."""
    known = {level_text(label): float(place) for place, label in enumerate(classes)}
    if y.dtype.kind not in _NUMBERS:
        return np.array([known.get(level_text(label), float(other)) for label in y], dtype=np.float64)
    place_of = np.full(len(y), float(other))
    for label in np.unique(y[~np.isnan(y)] if y.dtype.kind == "f" else y):
        place_of[y == label] = known.get(level_text(label), float(other))
    return place_of


def _rows(given: Any) -> np.ndarray:
    """Return rows of numbers, of any shape; numbers beyond the doubles are infinite."""
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):
        return _frame(given)
    if isinstance(given, (list, tuple)):
        return _listed(given)
    values = np.asarray(given)
    if values.dtype.kind == "c":
        raise InvalidParameter("X", "complex", "of real numbers (Complex data not supported)", "X.real")
    return values if values.dtype.kind in _NUMBERS and values.dtype.itemsize <= _DOUBLE else numbers(values)


def _outcomes(given: Any) -> np.ndarray:
    """Return outcomes as an array: of a list without a type that is guessed from the values."""
    if isinstance(given, (list, tuple)):
        return _objects(given)
    if hasattr(given, "to_numpy"):
        return np.asarray(given.to_numpy())
    return np.asarray(given)


def _frame(given: Any) -> np.ndarray:
    """Read a data frame column by column; of a type that holds numbers at once, of another value by value."""
    columns = [_column(given[name]) for name in given.columns]
    return np.column_stack(columns) if columns else np.zeros((len(given), 0))


def _column(series: Any) -> np.ndarray:
    kind = getattr(series.dtype, "kind", None)
    if isinstance(kind, str) and kind in _NUMBERS:  # pandas
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind is None and (series.dtype.is_numeric() or str(series.dtype) == "Boolean"):  # Polars
        import polars

        return np.asarray(series.cast(polars.Float64).to_numpy())
    return np.array([number(value) for value in series], dtype=np.float64)


def _listed(given: Sequence[Any]) -> np.ndarray:
    """Read a list of rows; what is not a number is NaN."""
    width = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else None for row in given}
    if len(width) != 1 or None in width:
        if width == {None}:
            return np.zeros(len(given))
        raise InvalidParameter("X", "a list", "rows of one length", "as many numbers in every row")
    return np.array([[number(value) for value in row] for row in given], dtype=np.float64)


def _objects(given: Sequence[Any]) -> np.ndarray:
    """Return a list as an array of objects: no type is guessed from the values."""
    if given and all(isinstance(value, (list, tuple)) for value in given):
        if {len(value) for value in given} != {1}:
            return np.zeros((len(given), 2))
        return _objects([value[0] for value in given])[:, None]
    values = np.empty(len(given), dtype=object)
    for row, value in enumerate(given):
        values[row] = value
    return values


def _unreadable(name: str) -> InvalidParameter:
    """Return the error of an argument that could not be read; it says no more, since numpy's may quote a value."""
    return InvalidParameter(name, "what was given", "an array of numbers", f"{name} as a numpy array")
