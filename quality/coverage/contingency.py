"""How often 90 % intervals of tables cover the truth, on simulated studies; it goes on where it stopped.

    python quality/coverage/contingency.py --studies 1000       # every cell, up to so many studies each
    python quality/coverage/contingency.py --show               # the table of what has been found, and of the limits

A study has n records of two or three columns whose cells have the probabilities of a fixed table: independent columns,
columns that go together, a table with a structural zero, and one of 3 x 4 x 2 cells. Noise is that of an add-remove
release of rows. Looked at are cells, margins, conditional proportions, one difference and one ratio of proportions, and
Cramer's V; hits are averaged over a study's quantities of one kind first. Study i of a cell is the same on every
machine. `contingency.json` holds what was found. Cramer's V cannot be below 0: its intervals are printed, and not
judged; neither are margins where most studies of a cell say that they lean on the prior. Cells that expect fewer
records than five noise scales are not looked at: their rows say that they are faint. Those of the broken twin, which
takes the noisy counts as exact, must fall outside.
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

from vestry.releases import NoisyStatistics
from vestry.tables.contingency_table import ContingencyReader
from vestry.tables.joint_table import JointTable

FILE = Path(__file__).with_name("contingency.json")
LOW, HIGH = 0.86, 0.95
DRAWS = 2000
Array = np.ndarray
LABELLED = "margins labelled"
KINDS = ("cells", "margins", "conditional", "difference", "ratio", "association")


def tables() -> dict[str, Array]:
    """Return the true probabilities by name; a cell of 0 is declared."""
    alone = np.outer([0.5, 0.3, 0.2], [0.7, 0.3])
    together = np.array([[0.35, 0.05], [0.15, 0.15], [0.05, 0.25]])
    holed = np.array([[0.4, 0.1], [0.2, 0.1], [0.2, 0.0]])
    three = np.random.default_rng(7).dirichlet(np.full(24, 5.0)).reshape(3, 4, 2)
    return {"independent": alone, "together": together, "zero": holed, "three": three}


def answers(table: JointTable) -> dict[str, list[tuple[float, float]]]:
    """Return the intervals of every kind."""

    def ends(frame) -> list[tuple[float, float]]:
        return list(zip(frame["low"], frame["high"], strict=True))

    last, first = table.columns[-1], table.columns[0]
    level, (a, b) = table.levels[-1][-1], table.levels[0][:2]
    return {
        "cells": ends(table.margin(*table.columns)),
        "margins": ends(table.margin(first)) + ends(table.margin(last)),
        "conditional": ends(table.conditional(last, first)),
        "difference": ends(table.difference(last, level, first, a, b)),
        "ratio": ends(table.ratio(last, level, first, a, b)),
        "association": ends(table.association(first, last)),
    }


def study(name: str, n: int, epsilon: float, rng: np.random.Generator, *, broken: bool = False) -> dict[str, float]:
    """Return the share of each kind's intervals that hold the truth."""
    truth = tables()[name]
    columns = tuple(f"c{place}" for place in range(truth.ndim))
    levels = tuple(tuple(f"l{place}" for place in range(size)) for size in truth.shape)
    zeros = frozenset(np.flatnonzero(truth.ravel() == 0).tolist())
    reader, scale = ContingencyReader(columns, levels, zeros, None), 1 / epsilon
    p = -math.expm1(-1 / scale)
    noise = rng.geometric(p, truth.size) - rng.geometric(p, truth.size)
    values = tuple((rng.multinomial(n, truth.ravel()) + noise).tolist())
    statistics = NoisyStatistics(("",) * truth.size, values, "discrete-laplace", scale)
    made = reader.plug_in(statistics) if broken else reader.noise_aware(statistics)
    joint = reader.joint_table(made.draw(rng, DRAWS), "", made)
    found = answers(joint)
    exact = answers(JointTable(columns, levels, truth[None], ""))
    kept = n * truth.ravel() >= 5 * scale
    hits = {
        kind: [low <= at <= high for (low, high), (at, _) in zip(found[kind], exact[kind], strict=True)]
        for kind in KINDS
    }
    hits["cells"] = [hit for hit, large in zip(hits["cells"], kept, strict=True) if large]
    return {**{kind: float(np.mean(each)) for kind, each in hits.items()}, LABELLED: float(joint.leans)}


Study = Callable[[np.random.Generator], dict[str, float]]


def cells() -> Iterator[tuple[str, Study]]:
    """Yield each cell's name and study."""
    for name in tables():
        for n, epsilon in ((300, 0.5), (2000, 0.1), (2000, 1.0)):
            yield f"{name}, n {n}, epsilon {epsilon}", lambda rng, a=(name, n, epsilon): study(*a, rng)
    yield "broken: noise ignored, n 300, epsilon 0.1", lambda rng: study("together", 300, 0.1, rng, broken=True)


CELLS = dict(cells())


def run(studies: int, every: float = 20.0) -> None:
    """Run the studies that are missing, and write what was found every few seconds."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    last = time.monotonic()
    for name, one in CELLS.items():
        nothing = {"studies": 0, "sum": dict.fromkeys((*KINDS, LABELLED), 0.0), "squares": {}}
        each = found.setdefault(name, nothing)
        for place in range(each["studies"], studies):
            hits = one(np.random.default_rng([zlib.crc32(name.encode()), place]))
            for kind, value in hits.items():
                each["sum"][kind] += value
                each["squares"][kind] = each["squares"].get(kind, 0.0) + value * value
            each["studies"] = place + 1
            if time.monotonic() - last > every:
                FILE.write_text(json.dumps(found, indent=1) + "\n")
                last = time.monotonic()
        FILE.write_text(json.dumps(found, indent=1) + "\n")


def judged(name: str, kind: str, mean: float, error: float, labelled: float) -> str:
    """Say whether a cell is inside its limits, to three standard errors."""
    if kind == "margins" and labelled > 0.5:
        return f"labelled in {labelled:.2f}"
    inside = LOW - 3 * error <= mean <= HIGH + 3 * error
    if kind == "association":
        return ""
    if name.startswith("broken"):
        return "" if inside else "outside, as it must be"
    return "" if inside else "OUTSIDE"


def show() -> None:
    """Print the table."""
    found = json.loads(FILE.read_text())
    print(f"Nominal 0.90; limits {LOW} to {HIGH}, to three standard errors.\n")
    for name, each in found.items():
        n = each["studies"]
        labelled = each["sum"][LABELLED] / max(n, 1)
        for kind in KINDS if n > 1 else ():
            mean = each["sum"][kind] / n
            error = math.sqrt(max(each["squares"][kind] / n - mean * mean, 0.0) / (n - 1))
            line = (
                f"{name:<44} {kind:<12} {mean:>6.3f} {error:>6.3f} {n:>5}  {judged(name, kind, mean, error, labelled)}"
            )
            print(line.rstrip())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=0, help="up to so many studies in each cell")
    parser.add_argument("--show", action="store_true", help="print the table")
    given = parser.parse_args()
    for studies in (given.studies // 10, given.studies // 3, given.studies):
        run(studies)
    if given.show:
        show()
