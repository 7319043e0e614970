"""How often 90 % intervals of a table's margins hold the truth, labelled and not, on tables that are made up anew.

    python quality/coverage/margins.py --seconds 150 --seed 101

Tables have 3 x 3 to 4 x 3 x 2 cells: margins from Dirichlet(2), their product times independent gamma(4) factors. They
have 150 to 1,500 records, and noise of epsilon 0.2 to 1. The limit of the label was chosen on other tables
(`contingency.py`).
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from vestry.releases import NoisyStatistics
from vestry.tables.contingency_table import ContingencyReader

SHAPES = ((3, 3), (5, 4), (6, 2), (2, 2, 2), (3, 3, 2), (4, 3, 2))


def made_up_table(rng: np.random.Generator) -> np.ndarray:
    """Return the probabilities of the cells."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    table = rng.gamma(4.0, 0.25, shape)
    for axis, size in enumerate(shape):
        table = np.moveaxis(np.moveaxis(table, axis, -1) * rng.dirichlet(np.full(size, 2.0)), -1, axis)
    return table / table.sum()


def study(rng: np.random.Generator) -> tuple[bool, float]:
    """Return whether margins are labelled, and the share of their intervals that hold the truth."""
    truth, n, scale = made_up_table(rng), int(rng.choice([150, 300, 600, 1500])), 1 / rng.choice([0.2, 0.5, 1.0])
    columns = tuple(f"c{axis}" for axis in range(truth.ndim))
    levels = tuple(tuple(f"l{place}" for place in range(size)) for size in truth.shape)
    stop = -math.expm1(-1 / scale)
    noise = rng.geometric(stop, truth.size) - rng.geometric(stop, truth.size)
    values = tuple((rng.multinomial(n, truth.ravel()) + noise).tolist())
    reader = ContingencyReader(columns, levels, frozenset(), None)
    posterior = reader.noise_aware(NoisyStatistics(("",) * truth.size, values, "discrete-laplace", float(scale)))
    table, hits = reader.joint_table(posterior.draw(rng, 1500), "", posterior), []
    for axis, column in enumerate(columns):
        exact = truth.sum(axis=tuple(other for other in range(truth.ndim) if other != axis))
        frame = table.margin(column)
        hits += [low <= x <= high for low, high, x in zip(frame["low"], frame["high"], exact, strict=True)]
    return table.leans, float(np.mean(hits))


def main() -> None:
    """Run for so long, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--seed", type=int, default=101)
    given = parser.parse_args()
    rng, end = np.random.default_rng(given.seed), time.monotonic() + given.seconds
    shares: dict[bool, list[float]] = {False: [], True: []}
    while time.monotonic() < end:
        leans, share = study(rng)
        shares[leans].append(share)
    for leans, each in shares.items():
        error = np.std(each) / math.sqrt(max(1, len(each)))
        print(f"{'labelled' if leans else 'not labelled':<14}{len(each):>6} tables  {np.mean(each):.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
