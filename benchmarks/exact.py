"""What an exact draw of a release costs, and how that varies with the posterior: 50 ms at most.

Each row is the 99th percentile over single draws, each with its law set up anew, as a release does.
"""

import time

import numpy as np

from vestry.noise import SystemNoise, exact_sampling
from vestry.noise.bits import Bits
from vestry.noise.grid import PROBABILITY_GRID as GRID

LIMIT_MS = 50.0
BETAS = ((0.3, 0.7), (5.0, 8.0), (1e3, 2e3), (1e6, 2e6), (1e8, 1e8), (1.0, 1e8))
TRUNCATED = ((8.0, 5.0), (3.0, 60.0), (2.0, 5e3), (1e8, 1e8), (1.0, 1e8))
GAMMAS = (0.3, 7.0, 1e3, 1e6, 1e8)
DIRICHLETS = ((1.0, 2.0, 3.0), (0.01,) * 3, (1e8, 3e7, 1.0, 1.0, 0.5), (1.0,) * 100)
CUT = (
    ((1.0, 2.0, 3.0), 0.1),
    ((1e8, 1e8, 1e8), 0.1),
    ((1e8, 1.0, 1.0), 0.3),
    ((1e8, 3e7, 1.0, 1.0, 0.5), 0.1),
    ((0.01,) * 5, 0.001),
    ((0.5,) * 5, 0.15),
    ((1.0,) * 5, 0.199),
    ((1.0,) * 10, 0.09),
    ((2.0,) * 30, 0.02),
)


def run(quick: bool = False) -> list[dict]:
    repeats = 50 if quick else 300
    bits = Bits(SystemNoise())
    rows = [measured(f"exact Beta({a:g}, {b:g})", lambda a=a, b=b: exact_sampling.beta(bits, a, b, grid=GRID), repeats)
            for a, b in BETAS]  # fmt: skip
    rows += [measured(f"exact Beta({a:g}, {b:g}) on [0.2, 0.8]",
                      lambda a=a, b=b: exact_sampling.beta(bits, a, b, grid=GRID, low=0.2, high=0.8), repeats)
             for a, b in TRUNCATED]  # fmt: skip
    rows += [measured(f"exact Gamma({a:g})", lambda a=a: exact_sampling.gamma(bits, a, 2.5, grid=GRID), repeats)
             for a in GAMMAS]  # fmt: skip
    rows.append(measured("exact normal", lambda: exact_sampling.normal(bits, 3.0, 1e6, grid=GRID), repeats))
    rows += [measured(f"exact Dirichlet({shown(alphas)})",
                      lambda x=alphas: exact_sampling.dirichlet(bits, x, grid=GRID), repeats)
             for alphas in DIRICHLETS]  # fmt: skip
    rows += [measured(f"exact Dirichlet({shown(alphas)}) >= {low:g}",
                      lambda x=alphas, a=low: exact_sampling.dirichlet(bits, x, grid=GRID, low=a), repeats)
             for alphas, low in CUT]  # fmt: skip
    return [*rows, bulk(bits, 2_000 if quick else 20_000)]


def shown(alphas: tuple[float, ...]) -> str:
    return f"{len(alphas)} x {alphas[0]:g}" if len(set(alphas)) == 1 else ", ".join(f"{x:g}" for x in alphas)


def measured(name: str, action, repeats: int) -> dict:
    """Time single draws; the median is printed too, because run time should vary little."""
    action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(1e3 * (time.perf_counter() - start))
    middle, late = np.quantile(times, (0.5, 0.99))
    return {"name": name, "value": float(late), "unit": "ms (p99)", "median": float(middle),
            "ratio": float(late) / LIMIT_MS, "limit": 1.0, "peer": f"{LIMIT_MS:g} ms; median {middle:.2f}"}  # fmt: skip


def bulk(bits: Bits, size: int) -> dict:
    """Draw many from one posterior, against numpy's doubles."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    exact_sampling.beta(bits, 300.0, 700.0, grid=GRID, size=size)
    ours = (time.perf_counter() - start) / size
    start = time.perf_counter()
    rng.beta(300, 700, 10**6)
    theirs = (time.perf_counter() - start) / 10**6
    return {"name": "exact Beta draws, many of one posterior", "value": 1 / ours, "unit": "draws/s",
            "ratio": theirs / ours, "peer": "numpy rng.beta"}  # fmt: skip
