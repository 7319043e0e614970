"""Two releases at half the budget, read together, against one at the whole: how often 90 % intervals cover, how wide.

    python quality/coverage/combine.py --studies 1000           # every cell, up to so many studies each
    python quality/coverage/combine.py --show                   # the table of what has been found

A cell is a model, a noise and a way: `one` release at the whole budget; `same`, two at half of it from the same table;
`other`, two at the whole budget from two tables of half the records, who share nobody; and the broken twin `doubled`,
which reads two releases of the same people as of other people. It has a 32nd of the noise: where noise is large, to
count people twice hardly matters. Half of epsilon has twice the Laplace scale, half of rho sqrt(2) times the Gaussian
one. Parameters come from the prior, records from the model. Study i of a cell is the same on every machine: its
generator is seeded by the model, the noise and i, so that ways are compared on the same tables. `combine.json` holds
what was found.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import vestry
from vestry.mechanisms.additive_noise import NOISE_OF
from vestry.releases import Certificate, NoisyStatistics, Release

FILE = Path(__file__).with_name("combine.json")
LOW, HIGH = 0.86, 0.95
# Scales of the noise of the whole budget, by model: about as large as the sampling error, so that it matters.
SCALES = {"proportion": 8.0, "private proportion": 8.0, "categories": 8.0, "rate": 25.0, "mean": 1500.0, "count": 8.0}
RECORDS = 400
GRID = 0.01
CLAIM = Certificate({"epsilon": 0.5}, {"kind": "pure", "count": 1}, "laplace", "scale", 2.0, "", "row", {"rows": 1})
FAMILIES: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "proportion": ({"name": "beta-bernoulli"}, (1.0, 1.0)),
    "private proportion": ({"name": "beta-bernoulli"}, (1.0, 1.0)),
    "categories": ({"name": "dirichlet-categorical"}, (1.0, 1.0, 1.0, 1.0)),
    "rate": ({"name": "gamma-poisson", "high": 20.0}, (2.0, 1.0)),
    "mean": ({"name": "normal-mean", "variance": 4.0, "low": 0.0, "high": 10.0, "dimension": 1}, (5.0, 1.0)),
    "count": ({"name": "count", "of": "records"}, ()),
}
WAYS = ("one", "same", "other", "doubled")


def noisy(rng: np.random.Generator, sums: list[int], noise: str, scale: float, count: int | None, grid: float) -> Any:
    """Return the sums with integer noise."""
    if noise == "laplace":
        chance = -math.expm1(-1 / scale)
        extra = rng.geometric(chance, len(sums)) - rng.geometric(chance, len(sums))
    else:
        extra = np.rint(rng.normal(0, scale, len(sums))).astype(int)
    names = tuple(f"n{place}" for place in range(len(sums)))
    values = tuple(int(s + e) for s, e in zip(sums, extra, strict=True))
    return NoisyStatistics(names, values, NOISE_OF[noise], scale, grid, count)


def table(rng: np.random.Generator, model: str, theta: Any, n: int) -> tuple[list[int], int | None, float]:
    """Return the true sums of n records, the public number of them, and what one unit stands for."""
    if model == "count":
        return [n], None, 1.0
    if model == "categories":
        return rng.multinomial(n, theta).tolist(), n, 1.0
    if model == "rate":
        return [int(rng.poisson(n * theta))], n, 1.0
    if model == "mean":
        return [round(float(rng.normal(n * (theta - 5), math.sqrt(4.0 * n))) / GRID)], n, GRID
    s = int(rng.binomial(n, theta))
    return ([s, n - s], None, 1.0) if model == "private proportion" else ([s], n, 1.0)


def drawn(rng: np.random.Generator, model: str) -> Any:
    """Draw the parameter from the prior."""
    if model == "categories":
        return rng.dirichlet(np.ones(4))
    if model == "rate":
        return rng.gamma(2.0)
    return rng.normal(5.0, 1.0) if model == "mean" else rng.random()


def study(model: str, noise: str, way: str, rng: np.random.Generator) -> tuple[float, float]:
    """Return the share of intervals that hold the truth, and their mean width."""
    family, prior = FAMILIES[model]
    theta = drawn(rng, model)
    scale = SCALES[model] / (32 if way == "doubled" else 1)
    half = scale * (2 if noise == "laplace" else math.sqrt(2))
    labels = ("a", "b", "c", "d") if model == "categories" else ()
    if way == "other":
        tables = [table(rng, model, theta, RECORDS // 2) for _ in range(2)]
        parts = [noisy(rng, *each[:1], noise, scale, *each[1:]) for each in tables]
    else:
        sums, count, grid = table(rng, model, theta, RECORDS)
        parts = [
            noisy(rng, sums, noise, scale if way == "one" else half, count, grid)
            for _ in range(1 if way == "one" else 2)
        ]
    releases = [Release(family, prior, {"all": each}, CLAIM, None, labels) for each in parts]
    found = releases[0].posterior() if way == "one" else vestry.combine(*releases, same_people=way == "same")
    truth = np.atleast_1d(RECORDS if model == "count" else theta)
    ends = [found.distributions["all"].marginal(place).interval(0.9) for place in range(len(truth))]
    hits = [low <= x <= high for (low, high), x in zip(ends, truth, strict=True)]
    return float(np.mean(hits)), float(np.mean([high - low for low, high in ends]))


def cells() -> Iterator[tuple[str, str, str]]:
    """Yield every model, noise and way."""
    for model in FAMILIES:
        for noise in ("laplace", "gaussian"):
            for way in WAYS:
                if not (way == "doubled" and model == "count"):  # there it is another question
                    yield model, noise, way


def run(studies: int, every: float = 20.0) -> None:
    """Run the studies that are missing, and write what was found every few seconds."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    last = time.monotonic()
    for model, noise, way in cells():
        each = found.setdefault(f"{model}, {noise}, {way}", {"studies": 0, "sum": 0.0, "squares": 0.0, "width": 0.0})
        for place in range(each["studies"], studies):
            rng = np.random.default_rng([zlib.crc32(f"{model}, {noise}".encode()), place])
            hits, width = study(model, noise, way, rng)
            sums = {key: each[key] + value for key, value in (("sum", hits), ("squares", hits**2), ("width", width))}
            each.update(studies=place + 1, **sums)
            if time.monotonic() - last > every:
                FILE.write_text(json.dumps(found, indent=1) + "\n")
                last = time.monotonic()
        FILE.write_text(json.dumps(found, indent=1) + "\n")


def judged(name: str, mean: float, error: float) -> str:
    """Say whether a cell is inside its limits, to three standard errors."""
    inside = LOW - 3 * error <= mean <= HIGH + 3 * error
    if name.endswith("doubled"):
        return "NOT OUTSIDE" if inside else "outside, as it must be"
    return "" if inside else "OUTSIDE"


def show() -> None:
    """Print the table."""
    found = json.loads(FILE.read_text())
    print(f"Nominal 0.90; limits {LOW} to {HIGH}, to three standard errors.\n")
    print(f"{'cell':<40} {'covers':>7} {'error':>6} {'width':>8} {'of one':>7} {'studies':>8}")
    for name, each in found.items():
        n = each["studies"]
        if n > 1:
            mean, width = each["sum"] / n, each["width"] / n
            error = math.sqrt(max(each["squares"] / n - mean * mean, 0.0) / (n - 1))
            one = found[f"{name.rpartition(', ')[0]}, one"]
            ratio = width / (one["width"] / one["studies"])
            line = f"{name:<40} {mean:>7.3f} {error:>6.3f} {width:>8.4g} {ratio:>7.3f} {n:>8}  "
            print((line + judged(name, mean, error)).rstrip())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=0, help="up to so many studies in each cell")
    parser.add_argument("--show", action="store_true", help="print the table")
    given = parser.parse_args()
    run(given.studies)
    if given.show:
        show()
