"""Rows and outcomes as they are given, read without an error that depends on a value.

What has a type is refused by its type: text, objects, complex numbers, sparse matrices. A list has none, so what in it
is no number counts as missing. No message shows a value, or how many rows there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter

_NUMBERS = "biuf"


def features(given: Any) -> np.ndarray:
    """Return rows of numbers (n, d)."""
    if hasattr(given, "toarray"):
        raise InvalidParameter("X", "sparse", "a dense array", "X.toarray()")
    rows = _frame(given) if hasattr(given, "columns") and hasattr(given, "to_numpy") else _array("X", given)
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
    if isinstance(given, (list, tuple)):
        found = _objects(given)
    else:
        found = _quietly("y", lambda: given.to_numpy() if hasattr(given, "to_numpy") else np.asarray(given))
    if found.ndim == 2 and found.shape[1] == 1:
        return np.asarray(column_or_1d(found, warn=True))
    if found.ndim != 1:
        raise InvalidParameter("y", f"of {found.ndim} dimensions", "a 1d array, one outcome a row", "one column")
    return found


def same_length(rows: np.ndarray, y: np.ndarray) -> None:
    """Refuse rows without outcomes; how many there are is not said."""
    if len(rows) != len(y):
        raise InvalidParameter("y", "of another length", "of as many outcomes as X has rows", "one outcome for each")


def check_numbers(y: np.ndarray) -> None:
    """Refuse outcomes whose type is no number; objects may be anything."""
    if y.dtype.kind not in _NUMBERS + "O":
        raise InvalidParameter("y", f"of type {_type(y)}", "of numbers", "y as numbers")


def numbers(y: np.ndarray) -> np.ndarray:
    """Return outcomes as doubles, NaN where one is no number."""
    if y.dtype.kind in _NUMBERS:
        return y.astype(np.float64)
    return np.array([_number(value) for value in y], dtype=np.float64)


def check_labels(y: np.ndarray, classes: Sequence[Any]) -> None:
    """Refuse labels whose type is not that of the declared classes; objects may be anything."""
    text = isinstance(classes[0], str)
    if y.dtype.kind not in ("UTO" if text else _NUMBERS + "O"):
        kind = "text" if text else "numbers"
        raise InvalidParameter(
            "y", f"of type {_type(y)}", f"of {kind}, as the declared classes are", "classes of the type of y"
        )


def places(y: np.ndarray, classes: Sequence[Any], other: int) -> np.ndarray:
    """Return the place of each label among the classes; `other` for a label that is none of them."""
    found = np.full(len(y), float(other))
    if y.dtype.kind == "O":
        known: Mapping[Any, int] = {label: place for place, label in enumerate(classes)}
        for row, label in enumerate(y):
            if isinstance(label, Hashable):
                found[row] = _place(known, label, other)
        return found
    for place, label in enumerate(classes):
        found[y == label] = place
    return found


def _place(known: Mapping[Any, int], label: Any, other: int) -> int:
    try:
        return known.get(label, other)
    except Exception:  # a tuple that holds a list, or an equality that fails: none of the classes
        return other


def _frame(given: Any) -> np.ndarray:
    """Read a data frame whose columns are all numbers or truth values, by their types."""
    kinds = getattr(given, "dtypes", ())
    for name, kind in zip(given.columns, kinds, strict=True):
        own = getattr(kind, "kind", None)
        fits = own in _NUMBERS if isinstance(own, str) else kind.is_numeric() or str(kind) == "Boolean"
        if not fits:
            raise InvalidParameter(
                f"column {name!r} of X", f"of type {kind}", "of numbers", "it as numbers, or as declared indicators"
            )
    pandas = hasattr(given, "iloc")
    plain = pandas and all(isinstance(kind, np.dtype) for kind in kinds)
    if plain or not pandas:
        return _typed("X", _quietly("X", given.to_numpy))
    return _typed("X", _quietly("X", lambda: given.to_numpy(dtype=np.float64, na_value=np.nan)))


def _array(name: str, given: Any) -> np.ndarray:
    if isinstance(given, (list, tuple)):
        return _listed(given)
    return _typed(name, _quietly(name, lambda: np.asarray(given)))


def _typed(name: str, found: np.ndarray) -> np.ndarray:
    if found.dtype.kind == "c":
        raise InvalidParameter(name, "complex", "of real numbers (Complex data not supported)", f"{name}.real")
    if found.dtype.kind not in _NUMBERS:
        raise InvalidParameter(name, f"of type {_type(found)}", "of numbers", f"{name}.astype(float)")
    return found


def _type(found: np.ndarray) -> str:
    """Name the type, without the length of the longest text that numpy adds."""
    return found.dtype.name.rstrip("0123456789") if found.dtype.kind in "SU" else found.dtype.name


def _listed(given: Sequence[Any]) -> np.ndarray:
    """Read a list of rows; what is no number is NaN."""
    width = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else None for row in given}
    if len(width) != 1 or None in width:
        if width == {None}:
            return np.zeros(len(given))
        raise InvalidParameter("X", "a list", "rows of one length", "as many numbers in every row")
    return np.array([[_number(value) for value in row] for row in given], dtype=np.float64)


def _objects(given: Sequence[Any]) -> np.ndarray:
    """Return a list as an array of objects: no type is guessed from the values."""
    if given and all(isinstance(value, (list, tuple)) for value in given):
        if {len(value) for value in given} != {1}:
            return np.zeros((len(given), 2))
        return _objects([value[0] for value in given])[:, None]
    found = np.empty(len(given), dtype=object)
    for row, value in enumerate(given):
        found[row] = value
    return found


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception:
        return float("nan")


def _quietly(name: str, read: Any) -> np.ndarray:
    """Read, and say no more than that it failed: an error of numpy's may quote a value."""
    try:
        found: np.ndarray = read()
    except Exception:
        found = np.zeros(())
    else:
        return found
    raise InvalidParameter(name, "what was given", "an array of numbers", f"{name} as a numpy array")
