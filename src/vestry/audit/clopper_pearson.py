"""Bounds on a probability from how often its event was seen: those of Clopper and Pearson (1934).

Each bound fails with probability at most `level`, whatever the probability: the binomial distribution is used as it
is, without any limit theorem.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv


def at_least(hits: Any, trials: int, *, level: float) -> NDArray[np.float64]:
    """Return the p at which so many hits or more have probability `level`; 0 where there are none."""
    seen = np.asarray(hits)
    return np.where(seen > 0, betaincinv(np.maximum(seen, 1), trials - seen + 1, level), 0.0)


def at_most(hits: Any, trials: int, *, level: float) -> NDArray[np.float64]:
    """Return the p at which so many hits or fewer have probability `level`; 1 where nothing else was seen."""
    seen = np.asarray(hits)
    return np.where(seen < trials, betainccinv(seen + 1, np.maximum(trials - seen, 1), level), 1.0)
