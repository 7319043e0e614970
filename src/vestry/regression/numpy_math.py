"""The arithmetic of a derivative on numpy arrays."""

from typing import Any

import numpy as np
from numpy import absolute, exp, expm1, log, log1p, maximum, minimum, sqrt, tanh, where
from scipy.special import erfc


def inner(function: Any) -> Any:
    """Return a function that another one calls: as it is."""
    return function


def take_along(values: Any, places: Any) -> Any:
    """Return one value of each row."""
    return np.take_along_axis(values, places[..., None].astype(int), axis=-1)[..., 0]


def one_hot(places: Any, size: int) -> Any:
    """Return a row of indicators for each place."""
    return (places[..., None] == np.arange(size)).astype(float)


__all__ = [
    "absolute", "erfc", "exp", "expm1", "inner", "log", "log1p", "maximum", "minimum", "one_hot", "sqrt", "take_along",
    "tanh", "where",
]  # fmt: skip
