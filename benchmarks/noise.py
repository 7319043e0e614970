"""How fast privacy's noise is drawn, beside numpy's ordinary generator in the same run."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from vestry.noise import SystemNoise

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
    ]


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
