"""What a gradient over all rows costs: against reading the rows, and against two passes of numpy, in the same run."""

import importlib.util
import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from vestry.regression import numpy_math
from vestry.regression.gradient import chain, gradient
from vestry.regression.loss import LangevinStep
from vestry.regression.losses import Logistic

# Rows and features of three public datasets, intercept included.
SHAPES = {"Abalone": (4_177, 10), "Adult": (32_561, 105), "MNIST 3/8": (11_982, 785)}
WALK = {"likelihood_power": 1.0, "prior_precision": 1.0, "step_size": 1e-6, "radius": 10.0}
LOSS = Logistic()


def run(quick: bool = False) -> list[dict]:
    if importlib.util.find_spec("numba") is None:
        print("skipped: the extra `glm` is not installed", file=sys.stderr)
        return []
    repeats, rows = 10 if quick else 40, []
    for name, shape in SHAPES.items():
        for dtype in (np.float64, np.float32):
            rows += one_shape(f"{name} {dtype.__name__}", shape, dtype, repeats)
    return [*rows, small_chain(), call(), *linear(quick)]


def one_shape(name: str, shape: tuple[int, int], dtype: type, repeats: int) -> list[dict]:
    """Time a gradient against a read of the same rows by as many threads, and against numpy."""
    x, y, theta = example(shape, dtype)
    along, reading = gradient(LOSS, [(x, y)], device="cpu"), reader(x)
    wide, derivative = x.astype(np.float64), LOSS.derivative(numpy_math)
    ours, read = interleaved(repeats, lambda: along(theta), reading)
    # On its own: its threads wait in a busy loop and would disturb the others.
    (numpy,) = interleaved(repeats, lambda: wide.T @ derivative(wide @ theta, y))
    # A read from the cache is no measure: two multiplications of each number and a tanh a row take longer.
    limit = None if x.nbytes < 2**20 else 4.0
    return [
        {"name": f"gradient, {name}", "value": x.nbytes / ours / 1e9, "unit": "GB/s", "ratio": ours / read,
         "limit": limit, "peer": f"a read, {x.nbytes / read / 1e9:.0f} GB/s"},
        {"name": f"gradient, {name}", "value": 1e6 * ours, "unit": "us", "ratio": ours / numpy, "limit": 1.0,
         "peer": f"numpy, float64, {1e6 * numpy:.0f} us"},
    ]  # fmt: skip


def small_chain() -> dict:
    """Time a step of the compiled chain where only its overhead counts."""
    x, y, theta = example(SHAPES["Abalone"], np.float64)
    walk, noise = chain(LOSS, [(x, y)], LangevinStep(**WALK), device="cpu"), np.zeros((1000, len(theta)))
    value = 1e3 * min(interleaved(5, lambda: walk.run(theta, noise)))
    return {"name": "chain, one step, Abalone float64", "value": value, "unit": "us", "ratio": value / 25,
            "limit": 1.0, "peer": "25 us"}  # fmt: skip


def call() -> dict:
    """Time the call of a gradient that has nothing to do."""
    along = gradient(LOSS, [(np.ones((1, 1)), np.ones(1))], device="cpu")
    theta = np.ones(1)
    value = 1e6 * min(interleaved(200, lambda: along(theta)))
    return {"name": "gradient, call from Python", "value": value, "unit": "us", "ratio": value / 10, "limit": 1.0,
            "peer": "10 us"}  # fmt: skip


def linear(quick: bool) -> list[dict]:
    """Time growing numbers of rows; the ratio is of the time of a row to that at the start."""
    rows, first = [], math.nan
    for count in (10_000, 100_000, 1_000_000):
        x, y, theta = example((count, 20), np.float32)
        along = gradient(LOSS, [(x, y)], device="cpu")
        each = min(interleaved(5 if quick else 20, lambda along=along, theta=theta: along(theta))) / count
        first = each if math.isnan(first) else first
        rows.append({"name": f"gradient, {count:,} rows of 20", "value": 1e9 * each, "unit": "ns/row",
                     "ratio": each / first, "limit": 2.0, "peer": "10,000 rows"})  # fmt: skip
    return rows


def example(shape: tuple[int, int], dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32).astype(dtype) / dtype(math.sqrt(shape[1]))
    return x, rng.choice([-1.0, 1.0], shape[0]), rng.standard_normal(shape[1])


def reader(x: np.ndarray):
    """Return a function that reads every number once, by all threads if there are many numbers."""
    import numba

    @numba.njit(fastmath={"reassoc"}, nogil=True)
    def total(values):
        result = values.dtype.type(0)
        for i in range(len(values)):
            result += values[i]
        return result

    flat, threads = x.reshape(-1), len(os.sched_getaffinity(0)) if x.size >= 2**18 else 1
    parts = np.array_split(flat, threads)
    if threads == 1:
        return lambda: total(flat)
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(total, parts))


def interleaved(repeats: int, *actions) -> list[float]:
    """Return the best time of each action in seconds, taken in turn so that all see the same machine."""
    for action in actions:
        action()
    best = [math.inf] * len(actions)
    for _ in range(repeats):
        for i, action in enumerate(actions):
            start = time.perf_counter()
            action()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    from run import print_table

    print_table(run(quick="--quick" in sys.argv))
