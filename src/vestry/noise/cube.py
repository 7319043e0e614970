"""Integer noise that is uniform on a random cube: P(k) ~ exp(-max |k_i|/scale) for a vector k of d integers.

The K-norm mechanism of the cube [HardtT10, sec. 4], on integers. Draw m with probability proportional to

    w_m = (2m + 1)^d e^(-m/scale),   m = 0, 1, 2, ...,

and each coordinate uniformly from -m to m. Then P(k) is proportional to the sum of e^(-m/scale) over m >= max |k_i|,
that is to exp(-max |k_i|/scale). m is found by the inverse of its distribution function in ball arithmetic: a
comparison that the balls leave open is made again with more digits, so the draw is exact.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

import flint
from flint import arb

from vestry.noise.bits import Ball, Bits, BitSource, Uniform
from vestry.noise.densities import ball
from vestry.noise.log_concave import decide
from vestry.noise.noise_source import NoiseSource

# Bits with which a draw begins.
_PRECISION = 128


def cube_noise(noise: NoiseSource, size: int, scale: float) -> list[int]:
    """Draw the noise of `size` integers together.

    Privacy
    -------
    Any neighbours: (D/scale)-DP for integers none of which moves by more than D, by the triangle inequality of the
    largest distance.
    """
    bits = Bits(noise)
    toss = Uniform(bits)
    edge = decide(_PRECISION, lambda precision: _edge(toss.ball(precision), size, scale))
    return [_below(bits, 2 * edge + 1) - edge for _ in range(size)]


def _edge(toss: Ball, size: int, scale: float) -> int | None:
    """Return the least m at which the distribution function exceeds a uniform number; None while that is open."""
    ladder, total = _ladder(size, scale, flint.ctx.prec)
    wanted = toss * total
    low, high = -1, len(ladder) - 1
    if not wanted < ladder[high]:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if wanted < ladder[middle]:
            high = middle
        elif wanted > ladder[middle]:
            low = middle
        else:
            return None
    return high


@lru_cache(maxsize=4)
def _ladder(size: int, scale: float, precision: int) -> tuple[list[Ball], Ball]:
    """Return the sums of weights up to each m, and that of all, in this precision."""
    # From size x scale on weights fall; each further scale takes off a factor of about e.
    last = math.ceil(scale * (size + 4 * math.sqrt(size * precision) + precision))
    rate = 1 / ball(scale)
    weights = [arb(2 * m + 1) ** size * (-rate * m).exp() for m in range(last + 1)]
    fall = (size / (arb(last) + arb(0.5)) - rate).exp()  # the most that a later weight is of the one before it
    sums = list(accumulate(weights))
    return sums, sums[-1] + weights[-1] * fall / (1 - fall) * arb(0.5, 0.5)


def _below(bits: BitSource, number: int) -> int:
    """Draw a whole number below another, each equally likely."""
    while True:
        candidate = bits.take(number.bit_length())
        if candidate < number:
            return candidate
