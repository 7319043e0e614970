"""Random bits on demand, and real numbers that are known as far as their bits were asked for."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol, final

from flint import arb, fmpz

from vestry.noise.after_fork import renew_after_fork
from vestry.noise.noise_source import NoiseSource

Ball = Any
"""A real number known up to a radius; `flint.arb` has no type stubs."""

BLOCK_BYTES = 4096


class BitSource(Protocol):
    """Anything that gives fair and independent bits."""

    def take(self, count: int) -> int:
        """Give `count` bits as an integer below 2^count."""


@final
class Bits:
    """Bits of a noise source, in order and each used once. They are fetched in blocks; what is left over is dropped.

    A child process made by `os.fork` fetches a block of its own, so parent and child never share a bit.
    """

    __slots__ = ("__weakref__", "_held", "_left", "_noise")

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget the bits that were fetched and not used."""
        self._held = 0
        self._left = 0

    def take(self, count: int) -> int:
        """Give the next `count` bits as an integer below 2^count."""
        while self._left < count:
            self._held = self._held << 8 * BLOCK_BYTES | int.from_bytes(self._noise.random_bytes(BLOCK_BYTES), "big")
            self._left += 8 * BLOCK_BYTES
        self._left -= count
        taken = self._held >> self._left
        self._held &= (1 << self._left) - 1
        return taken

    def __repr__(self) -> str:
        return "Bits()"


@final
class Uniform:
    """A uniform number of [0, 1], of which as many binary digits exist as were asked for.

    Its first `known` digits may have been drawn already, as the integer `digits`.
    """

    __slots__ = ("_digits", "_known", "_source")

    def __init__(self, source: BitSource, digits: int = 0, known: int = 0) -> None:
        self._source = source
        self._digits = digits
        self._known = known

    def ball(self, precision: int) -> Ball:
        """Enclose it by its first `precision` digits, or more if more are known."""
        more = precision - self._known
        if more > 0:
            self._digits = self._digits << more | self._source.take(more)
            self._known = precision
        return (arb(fmpz(self._digits)) + _DIGIT) * _power(-self._known)


_DIGIT = arb(0.5, 0.5)  # what follows the last digit: somewhere in [0, 1]


@cache
def _power(exponent: int) -> Ball:
    """Return 2^exponent, exactly."""
    return arb((1, exponent))
