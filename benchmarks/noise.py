"""How fast privacy's noise is drawn, beside numpy's ordinary generator in the same run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from vestry.noise import SystemNoise
from vestry.noise.rounded_normal import rounded_normal

SCALE = 20.0
REPEATS = 5


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Time each sampler against its peer on the same number of draws."""
    noise, rng = SystemNoise(), np.random.default_rng()
    stream = noise.stream()
    exact, bulk = (2_000, 200_000) if quick else (50_000, 5_000_000)
    integers, doubles = [0] * exact, [0.0] * exact
    return [
        row(
            "discrete Laplace, OpenDP",
            lambda: noise.discrete_laplace(integers, scale=SCALE),
            "numpy rng.laplace",
            lambda: rng.laplace(scale=SCALE, size=exact),
            draws=exact,
        ),
        row(
            "discrete Gaussian, OpenDP",
            lambda: noise.discrete_gaussian(integers, scale=SCALE),
            "numpy rng.normal",
            lambda: rng.normal(scale=SCALE, size=exact),
            draws=exact,
        ),
        row(
            "lattice Gaussian, OpenDP",
            lambda: noise.lattice_gaussian(doubles, scale=SCALE, exponent=-20),
            "numpy rng.normal",
            lambda: rng.normal(scale=SCALE, size=exact),
            draws=exact,
        ),
        row(
            "one discrete Laplace draw, OpenDP",
            lambda: noise.discrete_laplace([0], scale=SCALE),
            "numpy rng.laplace",
            lambda: rng.laplace(scale=SCALE, size=1),
            draws=1,
        ),
        row(
            "bulk stream, normal",
            lambda: stream.standard_normal(bulk),
            "numpy default_rng normal",
            lambda: rng.standard_normal(bulk),
            draws=bulk,
        ),
        row(
            "bulk stream, uniform",
            lambda: stream.random(bulk),
            "numpy default_rng uniform",
            lambda: rng.random(bulk),
            draws=bulk,
        ),
        *rounded_rows(exact),
    ]


# How many numbers one release of each kind draws, and the noise's scale: counts of a table, moments of a regression.
ROUNDED = {
    "a table of counts": (None, SCALE),
    "15 counts": (15, SCALE),
    "15 moments": (15, 1e8),
}
# A draw may take this many times as long as the peer's.
MOST_OF_PEER = 1.5


def rounded_rows(many: int) -> list[dict[str, Any]]:
    """Time rounded normals against the discrete Gaussian of OpenDP, and count the random bits that they take."""
    rows = []
    noise = SystemNoise()
    for name, (size, scale) in ROUNDED.items():
        zeros = [0] * (size or many)
        calls = max(1, min(many, 3000) // len(zeros))
        rounded = timed_calls(noise.rounded_gaussian, zeros, scale, calls)
        discrete = timed_calls(noise.discrete_gaussian, zeros, scale, calls)
        rows.append(
            {
                "name": f"rounded Gaussian, {name}",
                "value": rounded * 1e6,
                "unit": "us a draw",
                "ratio": rounded / discrete,
                "limit": MOST_OF_PEER,
                "peer": f"discrete Gaussian of OpenDP, {discrete * 1e6:.3g} us",
            }
        )
        counting = CountingBytes()
        for _ in range(calls):
            rounded_normal(counting, scale, len(zeros))
        bits = 8 * counting.taken / (calls * len(zeros))
        entropy = math.log2(scale * math.sqrt(2 * math.pi * math.e))
        rows.append(
            {
                "name": f"rounded Gaussian, {name}, random bits",
                "value": bits,
                "unit": "bits a draw",
                "ratio": bits / entropy,
                "peer": f"the noise's entropy, {entropy:.3g} bits",
            }
        )
    return rows


def timed_calls(sample: Callable[..., list[int]], values: list[int], scale: float, calls: int) -> float:
    """Return the seconds that one draw takes, in calls of so many values."""

    def work() -> None:
        for _ in range(calls):
            sample(values, scale=scale)

    return fastest(work) / (calls * len(values))


class CountingBytes:
    """The system's random bytes, counted."""

    def __init__(self) -> None:
        self.taken = 0

    def random_bytes(self, count: int) -> bytes:
        """Give `count` bytes of the operating system's entropy."""
        self.taken += count
        return os.urandom(count)


def row(
    name: str, ours: Callable[[], object], peer: str, theirs: Callable[[], object], *, draws: int
) -> dict[str, Any]:
    """Report our draws a second, and their ratio to the peer's."""
    speed = draws / fastest(ours)
    return {"name": name, "value": speed, "unit": "draws/s", "peer": peer, "ratio": speed / (draws / fastest(theirs))}


def fastest(work: Callable[[], object]) -> float:
    """Time the best of a few runs, after one that loads what is loaded late."""
    work()
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    for line in run():
        print(f"{line['name']:36} {line['value']:14,.0f} {line['unit']}  {line['ratio']:8.4f} x {line['peer']}")
