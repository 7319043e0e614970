"""Gradients on a GPU: what share of the memory's speed they reach, against a copy measured in the same run.

Run by itself on a machine with a CUDA GPU and JAX: `python benchmarks/gpu.py [--tune] [--json FILE]`. Rows are stored
as float32 and made on the device; all arithmetic is in doubles.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from vestry.regression import numpy_math, pallas, xla
from vestry.regression.losses import Logistic

SHAPES = [(10_000_000 // 64 * 64, 64), (10_000_000 // 64 * 64, 100), (2_000_000 // 64 * 64, 784)]
LIMIT = 0.8


def seconds(action, repeats: int = 9, together: int = 10) -> float:
    """Time an action that the device runs: several in a row, so that the host's own time does not count."""
    action().block_until_ready()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        last = [action() for _ in range(together)][-1]
        last.block_until_ready()
        found.append((time.perf_counter() - start) / together)
    return statistics.median(found)


def made(jax, rows: int, features: int, stored: int):
    """Make rows on the device, padded with zero columns, and outcomes."""
    jnp = jax.numpy

    def make(key):
        x = jax.random.uniform(key, (rows, stored), jnp.float32, -1.0, 1.0) / np.float32(np.sqrt(features))
        return jnp.where(jnp.arange(stored) < features, x, 0)

    x = jax.jit(make)(jax.random.key(rows + features))
    y = jnp.where(jax.random.uniform(jax.random.key(1), (rows,)) < 0.5, -1.0, 1.0).astype(jnp.float64)
    return x.block_until_ready(), y.block_until_ready()


def copy_speed(jax, x) -> float:
    """Return bytes read and written a second by a copy of the rows."""
    copy = jax.jit(lambda a: a + np.float32(1))
    return 2 * x.nbytes / seconds(lambda: copy(x))


def off(loss, program, x, y, theta, features: int) -> float:
    """Return the relative error of a gradient on the first rows, against numpy in doubles."""
    some = 199_936
    part = (x[:some], y[:some])
    found = np.asarray(program(theta, (part,)))
    rows, outcomes = np.asarray(part[0], dtype=np.float64)[:, :features], np.asarray(part[1])
    wanted = loss.derivative(numpy_math)(rows @ np.asarray(theta), outcomes) @ rows
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true", help="try several ways to cut the work")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    given = parser.parse_args()
    import jax

    loss, rows_out = Logistic(), []
    with jax.enable_x64(True):
        print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
        print(f"{'features':>8} {'kernel':<34} {'ms':>8} {'GB/s':>8} {'of a copy':>10} {'error':>9}")
        for rows, features in SHAPES:
            stored = features + -features % 8
            x, y = made(jax, rows, features, stored)
            speed = copy_speed(jax, x)
            theta = jax.numpy.asarray(np.random.default_rng(0).normal(size=features))
            layouts = [pallas.layout_for(stored)]
            if given.tune:
                layouts = [
                    pallas.TileLayout(numbers=numbers, warps=warps, programs=programs, stages=stages)
                    for numbers, warps, programs, stages in itertools.product(
                        (1024, 2048, 4096), (1, 2, 4, 8), (1056, 1584, 2112), (1,)
                    )
                ]
            kernels = [(layout, pallas._programs(loss, layout, False).total) for layout in layouts]
            best = None
            for layout, program in kernels:
                name = f"n{layout.numbers} w{layout.warps} p{layout.programs} s{layout.stages}"
                try:
                    taken = seconds(lambda run=program, pair=(x, y), at=theta: run(at, (pair,)), 7)
                    error = off(loss, program, x, y, theta, features)
                except Exception as problem:  # a layout that does not compile is no candidate
                    print(f"{features:>8} {name:<34} {type(problem).__name__}: {str(problem)[:200]}")
                    continue
                share = rows * features * 4 / taken / speed
                print(f"{features:>8} {name:<34} {1e3 * taken:>8.3f} {rows * features * 4 / taken / 1e9:>8.0f}"
                      f" {share:>10.2f} {error:>9.1e}", flush=True)  # fmt: skip
                if best is None or share > best["value"]:
                    best = {"name": f"fused gradient, {features} features", "value": share, "unit": "of a copy",
                            "layout": name, "error": error, "ratio": LIMIT / share, "limit": 1.0}  # fmt: skip
            if best:
                rows_out.append(best)
            blocks = (
                x[: rows // 2048 * 2048, :features].reshape(-1, 2048, features),
                y[: rows // 2048 * 2048].reshape(-1, 2048),
            )
            plain = xla._plain(loss).total
            try:
                taken = seconds(lambda run=plain, pair=blocks, at=theta: run(at, (pair,)), 7)
                share = rows * features * 4 / taken / speed
                print(f"{features:>8} {'plain XLA':<34} {1e3 * taken:>8.3f} {rows * features * 4 / taken / 1e9:>8.0f}"
                      f" {share:>10.2f}  copy {speed / 1e9:.0f} GB/s", flush=True)  # fmt: skip
                rows_out.append(
                    {"name": f"plain XLA gradient, {features} features", "value": share, "unit": "of a copy"}
                )
            except Exception as problem:
                print(f"{features:>8} plain XLA: {type(problem).__name__}: {str(problem)[:200]}")
            del x, y, blocks
    if given.json:
        given.json.write_text(json.dumps(rows_out, indent=2) + "\n")


if __name__ == "__main__":
    main()
