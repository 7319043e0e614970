"""How often nominal 90 % credible intervals of proportions, means, variances and rates hold the truth.

    python quality/coverage/simple.py                      # each cell to 1,000 studies; goes on where it stopped
    python quality/coverage/simple.py --show               # the table of what was run

A study draws records by NumPy, of a fixed truth, sums them as a release would, adds Laplace noise of the scale that its
guarantee asks for, and reads the posterior. `simple.json` keeps how many studies there were and how many intervals held
the truth. `plug-in` ignores the noise, and is the broken twin.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.conjugate.family import family_from
from vestry.conjugate.gamma_poisson import GammaPoisson
from vestry.conjugate.normal_inverse_gamma import NormalInverseGamma
from vestry.conjugate.normal_mean import NormalMean
from vestry.conjugate.simulation import noisy_statistics
from vestry.model.request import Request
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Certificate, Release
from vestry.schema.domain import Interval, Levels
from vestry.schema.table_schema import TableSchema

RESULTS = Path(__file__).with_suffix(".json")
METHODS = ("noise-aware", "plug-in")
PROB, SAVED = 0.9, 25
NOTHING = Certificate({}, {}, "simulated", "", 0.0, "", "", {})
DOMAINS = {"yes": Levels("n", "y"), "days": Interval(0, 60), "falls": Interval(0, 20)}


@dataclass(frozen=True)
class Cell:
    """A model, its records and their truth.

    Attributes
    ----------
    draw
        Return the sums of n records that a release is made of.
    truth
        The parameters.
    """

    model: Any
    epsilon: float
    n: int
    neighbours: str
    draw: Callable[[int, np.random.Generator], list[float]]
    truth: tuple[float, ...]


def proportion(p: float) -> Callable[[int, np.random.Generator], list[float]]:
    """Draw successes."""
    return lambda n, rng: [float(rng.binomial(n, p))]


def days(n: int, rng: np.random.Generator, *, squares: bool = False) -> list[float]:
    """Draw normal numbers of mean 20 and variance 16, none of them near the ends of [0, 60]."""
    x = np.clip(rng.normal(20.0, 4.0, n), 0, 60)
    return [float(x.sum()), float((x * x).sum())] if squares else [float(x.sum())]


def falls(n: int, rng: np.random.Generator) -> list[float]:
    """Draw counts of mean 2."""
    return [float(np.minimum(rng.poisson(2.0, n), 20).sum())]


YES = BetaBernoulli("yes", success="y")
MEAN = NormalMean("days", variance=16.0, prior=(30.0, 900.0))
BOTH = NormalInverseGamma("days", prior=(30.0, 0.1, 2.0, 100.0))
CELLS = {
    "proportion .3, n = 100, epsilon .1": Cell(YES, 0.1, 100, "replace", proportion(0.3), (0.3,)),
    "proportion .05, n = 1000, epsilon .2": Cell(YES, 0.2, 1000, "add-remove", proportion(0.05), (0.05,)),
    "proportion .5, n = 1000, epsilon 1": Cell(YES, 1.0, 1000, "add-remove", proportion(0.5), (0.5,)),
    "mean, n = 300, epsilon .3": Cell(MEAN, 0.3, 300, "replace", days, (20.0,)),
    "mean, n = 300, epsilon .3, count private": Cell(MEAN, 0.3, 300, "add-remove", days, (20.0,)),
    "mean and variance, n = 1000, epsilon 1": Cell(
        BOTH, 1.0, 1000, "replace", lambda n, rng: days(n, rng, squares=True), (20.0, 16.0)
    ),
    "rate, n = 300, epsilon .3": Cell(GammaPoisson("falls", prior=(1.0, 0.5)), 0.3, 300, "replace", falls, (2.0,)),
}


def study(cell: Cell, seed: list[int]) -> dict[str, list[bool]]:
    """Return for each method whether each parameter's interval holds the truth."""
    rng = np.random.default_rng(seed)
    schema = TableSchema(DOMAINS, Unit(), Neighbours.parse(cell.neighbours))
    request = Request(cell.model, Guarantee.parse(f"epsilon={cell.epsilon}"), "laplace")
    prepared: Any = request.prepare(schema, cell.n if cell.neighbours == "replace" else None)
    units = family_from(prepared.described).to_units(prepared.mechanism.layout, cell.draw(cell.n, rng), cell.n)
    noisy = noisy_statistics(prepared.mechanism, units, rng)
    release = Release(dict(prepared.described), prepared.numbers, {"all": noisy}, NOTHING)
    rows = {method: release.posterior(method=method).rows(PROB) for method in METHODS}
    return {method: [row["low"] <= true <= row["high"] for row, true in zip(each, cell.truth, strict=True)]
            for method, each in rows.items()}  # fmt: skip


def show(results: dict[str, Any]) -> None:
    """Print every cell."""
    for name, cell in results.items():
        for method in METHODS:
            for place, held in enumerate(cell[method]):
                share = held / cell["studies"]
                error = math.sqrt(share * (1 - share) / cell["studies"])
                which = "" if len(cell[method]) == 1 else f", parameter {place + 1}"
                print(f"{name}{which}: {method} {share:.3f} (standard error {error:.3f}, {cell['studies']} studies)")


def main() -> None:
    """Run what is missing, and save now and then."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for number in range(0 if given.show else given.studies):
        for place, (name, cell) in enumerate(CELLS.items()):
            kept = results.setdefault(name, {"studies": 0, **{each: [0] * len(cell.truth) for each in METHODS}})
            if kept["studies"] == number:
                done = study(cell, [2026, place, number])
                kept["studies"] += 1
                for method in METHODS:
                    kept[method] = [a + int(b) for a, b in zip(kept[method], done[method], strict=True)]
        if (number + 1) % SAVED == 0 or number + 1 == given.studies:
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    show(results)


if __name__ == "__main__":
    main()
