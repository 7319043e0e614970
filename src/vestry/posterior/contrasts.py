"""How two groups compare: difference, ratio or odds ratio of their parameters, from joint draws of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import Array


def _ratio(a: Array, b: Array) -> Array:
    if min(a.min(), b.min()) <= 0:
        raise InvalidParameter("scale", "ratio", "asked of what is above 0", 'scale="difference"')
    return a / b


def _odds_ratio(a: Array, b: Array) -> Array:
    if max(a.max(), b.max()) >= 1:
        raise InvalidParameter("scale", "odds ratio", "asked of probabilities", 'scale="ratio"')
    return _ratio(a / (1 - a), b / (1 - b))


# The name of each way, the sign between the groups, and the number itself.
SCALES: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "difference": ("-", np.subtract),
    "ratio": ("/", _ratio),
    "odds ratio": ("odds /", _odds_ratio),
}


def contrast_rows(
    groups: tuple[str, str],
    draws: tuple[Array, Array],
    parameters: Sequence[str],
    tail: float,
    scale: str,
    outer: Callable[[Array], tuple[Array, Array]] = lambda draws: (draws, draws),
) -> list[dict[str, Any]]:
    """Return one row for each parameter; `tail` is the probability below an interval. `prob_positive` is P(a > b).

    `outer` says how low and how high draws leave what they are of; an interval takes that in.
    """
    sign, compare = SCALES[scale]
    compared = compare(*draws)
    above = (draws[0] > draws[1]).mean(axis=0)
    (a_low, a_high), (b_low, b_high) = map(outer, draws)
    lows, highs = compare(a_low, b_high), compare(a_high, b_low)
    ends = np.array([np.quantile(lows, tail, axis=0), np.quantile(highs, 1 - tail, axis=0)])
    return [
        {
            "contrast": f"{groups[0]} {sign} {groups[1]}",
            "parameter": parameter,
            "mean": float(values.mean()),
            "sd": float(values.std()),
            "low": float(low),
            "high": float(high),
            "prob_positive": float(positive),
        }
        for parameter, values, (low, high), positive in zip(parameters, compared.T, ends.T, above, strict=True)
    ]
