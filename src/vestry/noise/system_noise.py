"""The only noise of the package: operating-system entropy and OpenDP's exact samplers.

Private values never make it fail: what does not fit is clipped. Clipping moves no two values apart, so it never
enlarges a sensitivity. A refusal is for the wrong type alone, and shows the type.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from numbers import Integral, Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

from vestry.errors import InvalidParameter, NoiseNotReproducible, NoiseUnavailable
from vestry.noise.noise_source import NoiseSource
from vestry.validation import is_number, require_number, require_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


Number = TypeVar("Number", int, float)


@final
class SystemNoise(NoiseSource):
    """Noise from the operating system's entropy, without state and without a seed.

    Discrete Laplace and Gaussian noise, and lattice points, come from OpenDP. It samples exactly, in rational
    arithmetic, from a cryptographic generator that the operating system seeds and that a forked process seeds
    anew. Rounded normals are made of `random_bytes`. The time that a draw takes depends on the draw.
    """

    __slots__ = ()

    def discrete_laplace(self, values: Sequence[int], *, scale: float) -> list[int]:
        """Add to each integer its own k, drawn with probability proportional to exp(-|k| / scale)."""
        scale, exact = check_scale(scale), integers(values)
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return _draw(dp.m.make_laplace(*space, scale=scale), exact)

    def discrete_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        """Add to each integer its own k, drawn with probability proportional to exp(-k^2 / (2 scale^2))."""
        scale, exact = check_scale(scale), integers(values)
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
        return _draw(dp.m.make_gaussian(*space, scale=scale), exact)

    def rounded_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        """Add to each integer its own k = round(N(0, scale^2))."""
        from vestry.noise.rounded_normal import rounded_normal

        scale = check_scale(scale)
        exact = integers(values)
        draws = rounded_normal(self, scale, len(exact))
        return [int64(value + extra) for value, extra in zip(exact, draws, strict=True)]

    def lattice_gaussian(self, values: Sequence[float], *, scale: float, exponent: int) -> list[float]:
        """Round each double to the lattice 2^exponent Z and add discrete Gaussian noise on that lattice."""
        scale, exponent, exact = check_scale(scale), check_exponent(exponent), doubles(values)
        dp = _opendp()
        # OpenDP asks for the size, because rounding enlarges the sensitivity of every coordinate.
        domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=len(exact))
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale, k=exponent)
        return [finite(noisy) for noisy in _draw(measurement, exact)]

    def stream(self) -> np.random.Generator:
        """Give a fresh generator for draws in bulk, with its own key."""
        from vestry.noise.secure_generator import Stream

        return Stream()

    def random_bytes(self, count: int) -> bytes:
        """Give `count` bytes of the operating system's entropy."""
        return os.urandom(check_count(count))

    def __reduce_ex__(self, *_: Any) -> NoReturn:
        raise NoiseNotReproducible("SystemNoise()", "copied or pickled", "make one where it is used")

    __reduce__ = __reduce_ex__

    def __repr__(self) -> str:
        return "SystemNoise()"


@cache
def _opendp() -> Any:
    """Import what is used of OpenDP at its first use and turn on its samplers, once for the whole process.

    Its front door imports all of it, which takes ten times as long.
    """
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return SimpleNamespace(
        m=measurements,
        vector_domain=domains.vector_domain,
        atom_domain=domains.atom_domain,
        l1_distance=metrics.l1_distance,
        l2_distance=metrics.l2_distance,
    )


def _draw(measurement: Any, values: list[Number]) -> list[Number]:
    """Run a measurement, and pass on no exception of its making: it may quote a value."""
    with suppress(Exception):
        return list(measurement(values))
    # Raised outside the handler, so that not even its context leads to the one it replaces.
    raise NoiseUnavailable


LOWEST_INTEGER, HIGHEST_INTEGER = -(2**63), 2**63 - 1
LARGEST_DOUBLE = sys.float_info.max


def integers(values: Any) -> list[int]:
    """List the values as integers of 64 bits."""
    return [int64(value) for value in _of_kind(Integral, values, plural="integers")]


def doubles(values: Any) -> list[float]:
    """List the values as finite doubles."""
    return [finite(value) for value in _of_kind(Real, values, plural="numbers")]


def int64(number: Any) -> int:
    """Clip an integer to 64 bits."""
    return min(max(int(number), LOWEST_INTEGER), HIGHEST_INTEGER)


def finite(number: Any) -> float:
    """Clip a number to the finite doubles, and turn NaN into 0."""
    try:
        double = float(number)
    except OverflowError:  # an integer beyond the doubles
        double = math.copysign(math.inf, 1 if number > 0 else -1)
    return 0.0 if math.isnan(double) else min(max(double, -LARGEST_DOUBLE), LARGEST_DOUBLE)


def _of_kind(kind: type, values: Any, *, plural: str) -> list[Any]:
    listed = list(values) if isinstance(values, Iterable) else None
    strangers = [values] if listed is None else [each for each in listed if not isinstance(each, kind)]
    if listed is None or strangers:
        raise InvalidParameter("values", type(strangers[0]), f"a sequence of {plural}", f"a list of {plural}")
    return listed


LOWEST_EXPONENT, HIGHEST_EXPONENT = -1074, 1023
"""The exponents of the powers of two that are doubles."""


def check_scale(scale: Any) -> float:
    """Return the smallest double that is at least `scale`, if that is a finite number above 0.

    Rounding goes up, so the noise is never smaller than what was asked.
    """
    if is_number(scale) and scale > 0 and float(scale) < scale:
        scale = math.nextafter(float(scale), math.inf)
    return require_number("scale", scale, "for example scale=1.5", above=0)


def check_exponent(exponent: Any) -> int:
    """Return `exponent` if 2**exponent is a double."""
    ends = {"least": LOWEST_EXPONENT, "most": HIGHEST_EXPONENT}
    return require_whole("exponent", exponent, "for example exponent=-20", **ends)


def check_count(count: Any) -> int:
    """Return `count` if it is a whole number of at least 0."""
    return require_whole("count", count, "for example count=16", least=0)
