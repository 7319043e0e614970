"""Integer noise k = round(N(0, scale^2)), drawn exactly: a normal number, known as far as its rounding needs.

The normal number is the inverse of its distribution function at a uniform number, of which as many binary digits are
drawn as decide the rounding. With t(m) = P(|k| >= m) = 2 Phi(-(m - 1/2)/scale), m >= 1, and u uniform on [0, 1], |k| is
the number of m with u < t(m), and the sign is a fair bit. Every t(m) is enclosed in interval arithmetic, and what the
first 64 digits of u leave open is decided by more of them: the result is that of real arithmetic with infinitely many
digits.

Where many numbers of one scale are drawn, the first 64 digits of every t(m) are computed once, and u is looked up among
them. For single numbers, and large scales, doubles guess |k|, and t(|k|) and t(|k| + 1) prove the guess. A wrong guess
costs time and never changes a draw. No value plays any part: what time a draw takes depends on the draw alone.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np
from flint import arb
from scipy.special import ndtri

from vestry.noise.bits import Ball, Bits, Uniform
from vestry.noise.log_concave import decide
from vestry.noise.noise_source import NoiseSource

# The digits of a uniform number that are drawn at first.
_FIRST_DIGITS = 64
# By how many bits interval arithmetic is more precise than the digits that it is given.
_GUARD_BITS = 32
_FIRST_PRECISION = _FIRST_DIGITS + _GUARD_BITS
# 2^-64 is reached by t(m) at m = 9.2 scale.
_TABLE_REACH = 10


def rounded_normal(noise: NoiseSource, scale: float, size: int) -> list[int]:
    """Draw `size` integers round(N(0, scale^2)), each independent of the others.

    The order of the values is that of the random bytes: 8 for each uniform number, then a bit for each sign.
    """
    digit_bytes = noise.random_bytes(size * _FIRST_DIGITS // 8)
    digits = np.frombuffer(digit_bytes, dtype="<u8")
    sign_bytes = noise.random_bytes(math.ceil(size / 8))
    signs = np.unpackbits(np.frombuffer(sign_bytes, dtype=np.uint8), count=size)
    bits = Bits(noise)
    if scale * _TABLE_REACH < size:
        magnitudes = _look_up(digits, scale, bits)
    else:
        magnitudes = [_refine(first, scale, bits) for first in digits.tolist()]
    return [-m if minus else m for m, minus in zip(magnitudes, signs, strict=True)]


def _look_up(digits: np.ndarray, scale: float, bits: Bits) -> list[int]:
    """Return the number of m with u < t(m) for each u, from the table of their first digits."""
    table = _table(scale)
    above = np.searchsorted(table, digits, side="right")
    magnitudes = (len(table) - above).tolist()
    # Only where the first digits of u are those of some t(m) do further digits matter.
    undecided = table[above - 1] == digits
    for index in np.flatnonzero(undecided):
        magnitudes[index] = _refine(int(digits[index]), scale, bits)
    return list(magnitudes)


@lru_cache(maxsize=2)
def _table(scale: float) -> np.ndarray:
    """Return the first 64 digits of every t(m), in ascending order; the first entry is 0, for all further m."""
    entries: list[int] = []
    entry: int | None = None
    while entry != 0:
        first_digits = partial(_first_digits, len(entries) + 1, scale)
        entry = decide(_FIRST_PRECISION, first_digits)
        entries.append(entry)
    return np.array(entries[::-1], dtype=np.uint64)


def _first_digits(m: int, scale: float, precision: int) -> int | None:
    """Return floor(2^64 t(m)); None while it is open."""
    shifted = _reaches(m, scale) * 2**_FIRST_DIGITS
    # A ball around a number far below 1 may reach below 0, where t(m) never is.
    if shifted < 1:
        return 0
    return _whole_part(shifted)


def _reaches(m: int, scale: float) -> Ball:
    """Return t(m) = P(|k| >= m), for m >= 1."""
    middle = arb(m) - arb(0.5)
    return _exceeds(middle / arb(scale))


def _exceeds(z: Ball) -> Ball:
    """Return P(|N(0, 1)| > z)."""
    root = arb(2).sqrt()
    return (z / root).erfc()


def _refine(first_digits: int, scale: float, bits: Bits) -> int:
    """Return the number of m with u < t(m), of a uniform number u whose first digits are known."""
    uniform = Uniform(bits, first_digits, _FIRST_DIGITS)
    magnitude = partial(_magnitude, uniform, scale)
    return decide(_FIRST_PRECISION, magnitude)


def _magnitude(uniform: Uniform, scale: float, precision: int) -> int | None:
    """Return the m with t(m + 1) < u < t(m), or None if the digits of this precision prove none."""
    u = uniform.ball(precision - _GUARD_BITS)
    guess = _guess(u, scale, precision)
    if guess is None or not u > _reaches(guess + 1, scale):
        return None
    if guess > 0 and not u < _reaches(guess, scale):
        return None
    return guess


def _guess(u: Ball, scale: float, precision: int) -> int | None:
    """Return where |N(0, scale^2)| exceeds its value with probability u, rounded; None if it cannot be told."""
    middle = u.mid()
    normal_quantile = ndtri(float(middle) / 2)
    z = -arb(normal_quantile)
    # The first guess has 45 bits, which is enough at first; each step of Newton's method doubles them.
    doublings = precision // _FIRST_PRECISION
    for _ in range(doublings.bit_length() if doublings > 1 else 0):
        scaled_density = (-z * z / 2).exp()
        step = (_exceeds(z) - middle) / scaled_density
        z = (z + step * (arb.pi() / 2).sqrt()).mid()
    return _whole_part(z * arb(scale) + arb(0.5))


def _whole_part(number: Ball) -> int | None:
    """Return the largest integer that is at most the number; None if the ball holds several."""
    whole = number.floor().unique_fmpz()
    return None if whole is None else int(whole)
