"""Normal numbers in bulk, each within a stated distance of an exact one.

A chain of thousands of steps needs millions of normals, too many to draw exactly. Numpy's own are made by a rejection
that is not exactly normal, by an amount that nobody has bounded. Here each is Phi^-1 of a uniform number that is
known to at least 48 bits relatively: then there is an exactly normal number within `ERROR` of it, always, and a proof
that allows a step to be off by so much covers it. What is released is drawn exactly all the same, by
`exact_sampling`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

# How far a drawn number may be from an exactly normal one. A share v of the tail known to 2^-48 of itself, or a double
# of it (2^-53), moves Phi^-1 by at most 2^-48/|z| or 2^-53 * 0.7; ndtri is within 16 units in the last place, and |z|
# is below 39. (The tests compare with interval arithmetic.)
ERROR = 2.0**-43

_TINY = np.uint64(2**48)


def normals(stream: np.random.Generator, size: int | tuple[int, ...]) -> np.ndarray:
    """Draw standard normals: a sign, and Phi^-1 of v in (0, 1/2), v = (k + 1/2)/2^64 for 63 random bits k.

    Where k has fewer than 48 bits, more are drawn below it, until there are 48: the tail is as fine as the middle.
    """
    words = stream.integers(0, 2**64, size=size, dtype=np.uint64)
    shape = words.shape
    words = words.ravel()
    negative = (words & np.uint64(1)).astype(bool)
    words >>= np.uint64(1)
    tail = (words.astype(np.float64) + 0.5) * 2.0**-64
    for place in np.flatnonzero(words < _TINY):
        tail[place] = _finer(int(words[place]), stream)
    values = -ndtri(tail)
    values[negative] *= -1
    return np.asarray(values.reshape(shape))


def _finer(bits: int, stream: np.random.Generator) -> float:
    """Return (k + 1/2)/2^(64 + more) with so many more bits below k that it is known to 48."""
    more = 0
    while bits < _TINY and more < 896:
        bits = (bits << 64) | int(stream.integers(0, 2**64, dtype=np.uint64))
        more += 64
    return float((2 * bits + 1) * 2.0 ** -(65 + more))
