"""Numbers by which outputs are ordered; the events of an audit are tails of a score.

Any score is valid. The log-likelihood ratio is the best one: by the lemma of Neyman and Pearson its tails attain the
hockey-stick divergence at every epsilon. Without it the coordinates and their sum are tried, and, where outputs repeat,
the ratio of how often each was seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestry.errors import InvalidParameter
from vestry.numerics import Array

# Coordinates beyond this many are not tried one by one.
MOST_COORDINATES = 16


@dataclass(frozen=True)
class Score:
    """A function of outputs, of shape (trials, coordinates), and what it is called."""

    name: str
    function: Callable[[Array], Any]

    def __call__(self, outputs: Array) -> Array:
        """Return one number per trial. What is not a number counts as below every other."""
        values = np.asarray(self.function(outputs), dtype=float)
        if values.shape != (len(outputs),):
            raise InvalidParameter(
                f"the shape of the {self.name}", values.shape, f"({len(outputs)},)", "one number per trial"
            )
        return np.where(np.isnan(values), -np.inf, values)


def scores(first: Array, second: Array, log_ratio: Callable[[Any], Any] | None) -> list[Score]:
    """Return what to try, from the half of the outputs on which events are chosen."""
    width = first.shape[1]
    candidates = [] if log_ratio is None else [Score("log-likelihood ratio", log_ratio)]
    if width == 1:
        candidates.append(Score("output", lambda outputs: outputs[:, 0]))
    else:
        candidates += [_coordinate(i) for i in range(min(width, MOST_COORDINATES))]
        candidates.append(Score("sum", lambda outputs: outputs.sum(axis=1)))
    seen = _seen(first, second)
    return candidates if seen is None else [*candidates, seen]


def _coordinate(i: int) -> Score:
    return Score(f"coordinate {i}", lambda outputs: outputs[:, i])


def _seen(first: Array, second: Array) -> Score | None:
    """Score an output by log((seen from first + 1/2)/(seen from second + 1/2)), if outputs repeat."""
    pooled = np.concatenate([_keys(first), _keys(second)])
    values, where = np.unique(pooled, return_inverse=True)
    if len(values) > len(pooled) / 4:
        return None
    counts = [np.bincount(part, minlength=len(values)) for part in (where[: len(first)], where[len(first) :])]
    ratios = np.log((counts[0] + 0.5) / (counts[1] + 0.5))

    def ratio(outputs: Array) -> Array:
        keys = _keys(outputs)
        index = np.minimum(np.searchsorted(values, keys), len(values) - 1)
        return np.where(values[index] == keys, ratios[index], 0.0)

    return Score("log-ratio of times seen", ratio)


def _keys(outputs: Array) -> NDArray[Any]:
    """Return one comparable key per trial: the number itself, or the bytes of the row."""
    if outputs.shape[1] == 1:
        return outputs[:, 0]
    rows = np.ascontiguousarray(outputs + 0.0)  # -0 and 0 are one number
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]


def as_outputs(given: Any, trials: int) -> Array:
    """Read what a mechanism returned: one real number per trial, or one row of them."""
    try:
        read = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise InvalidParameter("a mechanism's outputs", type(given), "real numbers", "an array of them") from None
    if read.ndim == 0 or len(read) != trials or math.prod(read.shape) == 0:
        raise InvalidParameter(
            "the shape of a mechanism's outputs", read.shape, f"({trials}, ...)", "one number or one row per trial"
        )
    return read.reshape(trials, -1)
