"""What the samplers' numbers may be."""

from __future__ import annotations

import math

import numpy as np

from vestry.errors import InvalidParameter


def whole(name: str, value: object, least: int) -> int:
    """Check a number of states, sweeps or chains."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidParameter(name, value, f"a whole number of at least {least}", f"for example {name}={least}")
    return int(value)


def positive(name: str, value: float) -> float:
    """Check a concentration, a scale or a temperature."""
    if isinstance(value, bool) or not 0 < value < math.inf:
        raise InvalidParameter(name, value, "above 0 and finite", f"for example {name}=1.0")
    return float(value)


def kept(draws: object, burn_in: object) -> tuple[int, int]:
    """Check how many steps are made, and how many of the first are left out."""
    total, left_out = whole("the number of draws", draws, 1), whole("burn_in", burn_in, 0)
    if left_out >= total:
        raise InvalidParameter("burn_in", burn_in, "below the number of draws", f"for example {total // 2}")
    return total, left_out
