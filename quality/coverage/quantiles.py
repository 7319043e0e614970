"""How often 90 % intervals of histograms and quantiles cover the truth, on simulated studies; resumable.

    python quality/coverage/quantiles.py --studies 1000       # every cell, up to so many studies each
    python quality/coverage/quantiles.py --show               # the table of what has been found, and of the limits

A study has n values whose bins have the probabilities of a fixed shape: normal, skewed, narrow (most bins are empty),
heaped on every fifth bin, and wide with many bins. Noise is that of an add-remove release of rows, or of replace with a
public number of records. Looked at are the bins that expect five noise scales or more; those that expect fewer, whose
intervals may begin at 0; the distribution function at edges between .02 and .98; the quantiles .1, .25, .5, .75 and .9
of the shape; and the same quantiles of the table itself. Hits are averaged over a study's quantities of one kind first.
A quantile's interval holds it wherever in its bin it lies, or is a miss. Posteriors have 1,024 draws in place of 4,096.

Bins and the distribution function must be covered in .86 to .94; faint bins and quantiles in .86 or more: their
intervals say that they are conservative. Two cells must fall outside: one that takes the noisy counts as exact, and one
that takes bins as levels in no order, by the Dirichlet prior of tables. Study i of a cell is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from vestry.conjugate.sparse_dirichlet import sparse_dirichlet
from vestry.posterior.discrete_noise import Laplace
from vestry.tables import polya_tree
from vestry.tables.bin_posterior import BinPosterior
from vestry.tables.polya_tree import BinDraws

FILE = Path(__file__).with_name("quantiles.json")
LOW, HIGH = 0.86, 0.94
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
KINDS = ("bins", "faint bins", "function", "quantiles", "own quantiles")
CONSERVATIVE = ("faint bins", "quantiles", "own quantiles")
Array = np.ndarray
polya_tree._FEWEST = polya_tree._MOST = 1024


def shape(name: str, bins: int) -> Array:
    """Return the true probabilities."""
    edges = np.linspace(0, 1, bins + 1)
    ladders = {
        "normal": ndtr((edges - 0.45) / 0.12),
        "skewed": -np.expm1(-8 * edges),
        "narrow": ndtr((edges - 0.5) / 0.03),
        "heaped": ndtr((edges - 0.4) / 0.2),
    }
    found = np.diff(ladders[name])
    if name == "heaped":
        found = found * np.where(np.arange(bins) % 5 == 0, 6.0, 0.5)
    return found / found.sum()


def read(noisy: Array, scale: float, count: int | None, how: str) -> BinPosterior:
    """Return the posterior."""
    edges = np.arange(noisy.size + 1.0)
    if how == "levels":
        found = sparse_dirichlet(noisy, noise=Laplace(scale), count=count)
        drawn = found.draw(np.random.default_rng(1), 1024)
        return BinPosterior(edges, BinDraws(np.ones_like(drawn), drawn))
    noise = None if how == "exact" else Laplace(scale)
    return BinPosterior(edges, polya_tree.polya_tree(noisy, noise, count=count, alpha=None))


def study(
    name: str, bins: int, n: int, epsilon: float, rng: np.random.Generator, *, how: str = "", public: bool = False
) -> dict[str, float]:
    """Return the share of each kind's intervals that hold the truth."""
    truth, scale = shape(name, bins), (2 if public else 1) / epsilon
    counts = rng.multinomial(n, truth)
    p = -math.expm1(-1 / scale)
    noisy = (counts + rng.geometric(p, bins) - rng.geometric(p, bins)).astype(float)
    found = read(noisy, scale, n if public else None, how)
    ladder = np.cumsum(truth)

    def holds(marginal, value: float) -> bool:
        low, high = marginal.interval(0.9)
        return low <= value <= high

    def reached(q: float, levels: Array) -> bool:
        low, high = found.quantile(q).interval(0.9)
        place = int(np.searchsorted(levels, q - 1e-12))
        return low <= place and place + 1 <= high

    hits = [holds(found.marginal(at), truth[at]) for at in range(bins)]
    large = n * truth >= 5 * scale
    inner = [at for at in range(1, bins) if 0.02 < ladder[at - 1] < 0.98]
    return {
        "bins": float(np.mean(np.array(hits)[large])) if large.any() else math.nan,
        "faint bins": float(np.mean(np.array(hits)[~large])) if not large.all() else math.nan,
        "function": float(np.mean([holds(found.below(at), ladder[at - 1]) for at in inner])),
        "quantiles": float(np.mean([reached(q, ladder) for q in QUANTILES])),
        "own quantiles": float(np.mean([reached(q, np.cumsum(counts) / n) for q in QUANTILES])),
    }


Study = Callable[[np.random.Generator], dict[str, float]]
DESIGNS = (
    ("normal", 20, 1000, 0.1),
    ("normal", 20, 1000, 1.0),
    ("skewed", 20, 1000, 0.2),
    ("narrow", 40, 2000, 0.2),
    ("heaped", 50, 2000, 0.2),
    ("normal", 64, 300, 0.5),
    ("normal", 64, 300, 0.2),
)


def cells() -> Iterator[tuple[str, Study]]:
    """Yield each cell's name and study."""
    for name, bins, n, epsilon in DESIGNS:
        a = (name, bins, n, epsilon)
        yield f"{name}, {bins} bins, n {n}, epsilon {epsilon}", lambda rng, a=a: study(*a, rng)
    yield (
        "normal, 20 bins, n 1000, epsilon 0.2, replace",
        lambda rng: study("normal", 20, 1000, 0.2, rng, public=True),
    )
    yield "broken: noise ignored, n 300, epsilon 0.2", lambda rng: study("normal", 64, 300, 0.2, rng, how="exact")
    yield "broken: levels in no order, n 300, epsilon 0.2", lambda rng: study("normal", 64, 300, 0.2, rng, how="levels")


CELLS = dict(cells())


def run(studies: int, every: float = 20.0) -> None:
    """Run the studies that are missing, and write what was found every few seconds."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    last = time.monotonic()
    for name, one in CELLS.items():
        nothing = {"studies": 0, "sum": dict.fromkeys(KINDS, 0.0), "squares": dict.fromkeys(KINDS, 0.0)}
        each = found.setdefault(name, nothing)
        for place in range(each["studies"], studies):
            hits = one(np.random.default_rng([zlib.crc32(name.encode()), place]))
            for kind, value in hits.items():
                each["sum"][kind] += value
                each["squares"][kind] += value * value
            each["studies"] = place + 1
            if time.monotonic() - last > every:
                FILE.write_text(json.dumps(found, indent=1) + "\n")
                last = time.monotonic()
        FILE.write_text(json.dumps(found, indent=1) + "\n")


def judged(name: str, kind: str, mean: float, error: float) -> str:
    """Say whether a cell is inside its limits, to three standard errors."""
    high = 1.0 if kind in CONSERVATIVE else HIGH
    inside = LOW - 3 * error <= mean <= high + 3 * error
    if name.startswith("broken"):
        return "" if inside else "outside, as it must be"
    return "" if inside else "OUTSIDE"


def show() -> None:
    """Print the table."""
    found = json.loads(FILE.read_text())
    print(f"Nominal 0.90; limits {LOW} to {HIGH}, of conservative kinds {LOW} to 1, to three standard errors.\n")
    for name, each in found.items():
        n = each["studies"]
        for kind in KINDS if n > 1 else ():
            mean = each["sum"][kind] / n
            if math.isnan(mean):
                continue
            error = math.sqrt(max(each["squares"][kind] / n - mean * mean, 0.0) / (n - 1))
            line = f"{name:<48} {kind:<14} {mean:>6.3f} {error:>6.3f} {n:>5}  {judged(name, kind, mean, error)}"
            print(line.rstrip())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=0, help="up to so many studies in each cell")
    parser.add_argument("--show", action="store_true", help="print the table")
    given = parser.parse_args()
    for studies in (given.studies // 20, given.studies // 5, given.studies // 2, given.studies):
        run(studies)
    if given.show:
        show()
