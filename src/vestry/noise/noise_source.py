"""The seam through which all of privacy's randomness comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


class NoiseSource(Protocol):
    """A source of noise: every value gets its own independent draw, and no draw can be repeated.

    The package has one implementation, `SystemNoise`. It takes no seed. Tests bring their own.

    No value makes a method fail: what does not fit is clipped. Scales, exponents and counts are public, and
    are refused when they are out of range. A value of the wrong type is refused without showing it.
    """

    __slots__ = ()

    def discrete_laplace(self, values: Sequence[int], *, scale: float) -> list[int]:
        """Add to each integer its own k, drawn with probability proportional to exp(-|k| / scale).

        Values are clipped to 64 bits before the noise, and results after it. The first enlarges no
        sensitivity, the second is post-processing.

        Privacy
        -------
        Any neighbours: (l1_sensitivity / scale)-DP, by the triangle inequality in the exponent.
        """

    def discrete_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        """Add to each integer its own k, drawn with probability proportional to exp(-k^2 / (2 scale^2)).

        The variance is at most scale^2. Values and results are clipped as for `discrete_laplace`.

        Privacy
        -------
        Any neighbours: rho-zCDP with rho = l2_sensitivity^2 / (2 scale^2) [CanonneKS20, Thm 14]. Not mu-GDP
        with mu = l2_sensitivity / scale: for neighbours one apart the total variation, which is the
        probability of k = 0, exceeds the 2 Phi(mu / 2) - 1 that mu-GDP would promise.
        """

    def rounded_gaussian(self, values: Sequence[int], *, scale: float) -> list[int]:
        """Add to each integer its own k = round(N(0, scale^2)).

        The variance is scale^2 + 1/12, to eight digits from scale = 1 on. Values and results are clipped as for
        `discrete_laplace`.

        Privacy
        -------
        Any neighbours: mu-GDP with mu = l2_sensitivity / scale, alone and composed. For integers x, x + k is
        round(x + N(0, scale^2)): post-processing of the Gaussian mechanism [DongRS22, Thm 2.7].
        """

    def lattice_gaussian(self, values: Sequence[float], *, scale: float, exponent: int) -> list[float]:
        """Round each double to the lattice 2^exponent Z and add discrete Gaussian noise on that lattice.

        With s = 2^exponent the result is s (floor(x / s + 1/2) + k) in exact arithmetic, and k has
        probability proportional to exp(-(k s)^2 / (2 scale^2)). It is then rounded to the nearest double
        and clipped to the finite ones, which is post-processing. An infinite x counts as the largest double
        of its sign and NaN as 0, and the sensitivity is that of the values so read.

        Privacy
        -------
        Any neighbours, d values: rho-zCDP with rho = (l2_sensitivity + s sqrt(d))^2 / (2 scale^2), because
        rounding moves each value by at most s / 2 on either side [CanonneKS20, Thm 14]. Where all values
        lie on the lattice already, rho = l2_sensitivity^2 / (2 scale^2). Not mu-GDP with mu =
        l2_sensitivity / scale, even there, for the reason given at `discrete_gaussian`.
        """

    def stream(self) -> np.random.Generator:
        """Give a fresh generator for draws in bulk, with its own key.

        Its doubles are rounded. Added to a private value they betray it in the low bits [Mironov12]: there,
        use the methods above.
        """

    def random_bytes(self, count: int) -> bytes:
        """Give `count` independent uniform bytes."""
