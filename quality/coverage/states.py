"""Whether cells that are called p sure of their hidden state are right in p of the cases: simulated logs at epsilon 1.

    python quality/coverage/states.py                      # each cell to 1,000 logs; goes on where it stopped
    python quality/coverage/states.py --show               # the table of what was run

A study is one log: states that last, entries whose features depend on the state, counts with noise, and the posterior
of every region's state at every month by 4 chains of 200 sweeps, as a release is read by default. Sampled states are
named as the planted ones by their emission tables. By how sure the most probable state was, a study gives the number of
calls, the sum of their probabilities, and how many were right; and of the 90 % credible intervals of the emission
tables their number, .9 of it, and how many hold the planted value. `states.json` keeps the sums over studies of these
three, and of their products. The standard error is that of a ratio over logs, as the calls of one log depend on each
other, and at least that of independent calls. A line is outside where right and sure differ by more than .03 and two
standard errors.

`plug-in` takes noisy counts for exact, and is the broken twin: it must fall outside.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from vestry.hmm import blocked_gibbs, noise_aware_gibbs
from vestry.hmm.hidden_states import match_states
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace

sys.path.insert(0, str(Path(__file__).parents[2]))
from reproductions.proportion import discrete_noise

RESULTS = Path(__file__).with_suffix(".json")
METHODS = ("noise-aware", "plug-in")
EDGES = (0.0, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, np.inf)
PARTS = {"all": (0.0, np.inf), "above .9": (0.9, np.inf)} | {
    f"from {low:.2f}": (low, high) for low, high in pairwise(EDGES)
}
TABLES, PROB = "tables' intervals", 0.9
SAVED = 5
SWEEPS, CHAINS = 200, 4
WITHIN = 0.03

CALM_AND_TENSE = (np.array([[0.6, 0.3, 0.1], [0.1, 0.4, 0.5]]), np.array([[0.9, 0.1], [0.6, 0.4]]))


@dataclass(frozen=True)
class Cell:
    """One kind of log.

    Attributes
    ----------
    noise
        Of every count, by the sensitivity of its layout at epsilon 1.
    entries
        The least and the largest number of entries of a region in a month.
    totals
        Whether cells are public: noisy totals, and features of two levels counted by the first.
    levels, states
        Of each feature, and of the chain; tables are drawn from a flat Dirichlet for every log.
    tables
        The tables, if they are the same for every log.
    stay
        The chance that a state stays.
    """

    noise: Laplace | DiscreteGaussian
    entries: tuple[int, int]
    totals: bool = False
    levels: tuple[int, ...] = (3, 2)
    states: int = 2
    tables: tuple[np.ndarray, ...] | None = None
    stay: float = 0.88
    regions: int = 5
    months: int = 18


# Replace, F features: 2 F for private cells; for public ones 1 for two levels and 2 for more. The Gaussian scale is the
# least at delta 1e-6 for an l2 sensitivity of 2.
CELLS = {
    "public cells, 20 to 60 entries": Cell(Laplace(3.0), (20, 60), totals=True, tables=CALM_AND_TENSE),
    "private cells, 20 to 60 entries": Cell(Laplace(4.0), (20, 60), tables=CALM_AND_TENSE),
    "private cells, 5 to 25 entries": Cell(Laplace(4.0), (5, 25), tables=CALM_AND_TENSE),
    "public cells, 5 to 25 entries": Cell(Laplace(3.0), (5, 25), totals=True, tables=CALM_AND_TENSE),
    "tables drawn anew, private": Cell(Laplace(6.0), (20, 60), levels=(4, 3, 2)),
    "three states, Gaussian": Cell(DiscreteGaussian(8.45), (20, 60), levels=(5, 4), states=3, months=30),
}


def simulate(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray], Any]:
    """Return planted states and tables, noisy counts by feature, and noisy totals or None."""
    path = np.zeros((cell.regions, cell.months), int)
    path[:, 0] = rng.integers(cell.states, size=cell.regions)
    for t in range(1, cell.months):
        other = (path[:, t - 1] + rng.integers(1, cell.states, size=cell.regions)) % cell.states
        path[:, t] = np.where(rng.random(cell.regions) < cell.stay, path[:, t - 1], other)
    drawn = cell.tables or tuple(rng.dirichlet(np.ones(size), cell.states) for size in cell.levels)
    tables = [np.asarray(table) for table in drawn]
    entries = rng.integers(cell.entries[0], cell.entries[1] + 1, size=path.shape)
    counts = [rng.multinomial(entries, table[path]).astype(float) for table in tables]
    if cell.totals:
        counts = [n[..., :1] if n.shape[-1] == 2 else n for n in counts]
    noisy = [n + discrete_noise(rng, cell.noise, n.size).reshape(n.shape) for n in counts]
    totals = entries + discrete_noise(rng, cell.noise, entries.size).reshape(entries.shape) if cell.totals else None
    return path, tables, noisy, totals


def sample(method: str, cell: Cell, noisy: list[np.ndarray], totals: Any, rng: np.random.Generator) -> Any:
    """Return the draws of one method, their states named alike."""
    given = {"states": cell.states, "sweeps": SWEEPS, "burn_in": SWEEPS // 2, "chains": CHAINS, "rng": rng}
    if method == "noise-aware":
        return match_states(noise_aware_gibbs(noisy, noise=cell.noise, totals=totals, **given).states, None, None)
    full = noisy
    if totals is not None:
        full = [np.concatenate([n, totals[..., None] - n], axis=-1) if n.shape[-1] == 1 else n for n in noisy]
    return match_states(blocked_gibbs(full, **given), None, None)


def study(cell: Cell, seed: list[int]) -> dict[str, np.ndarray]:
    """Simulate one log; return for each method and part the calls, the sum of their probabilities, the right ones."""
    rng = np.random.default_rng(seed)
    path, tables, noisy, totals = simulate(cell, rng)
    planted = np.concatenate(tables, axis=-1)
    return {method: judged(sample(method, cell, noisy, totals, rng), path, planted) for method in METHODS}


def judged(draws: Any, path: np.ndarray, planted: np.ndarray) -> np.ndarray:
    """Compare draws with what was planted: one row for each of PARTS, (calls, sum of probabilities, right ones)."""
    states = len(planted)
    shares = np.stack([(draws.paths == k).mean(axis=(0, 1)) for k in range(states)], axis=-1)
    wide = np.concatenate(draws.emissions, axis=-1)  # chains, draws, states, levels
    distance = ((wide.mean(axis=(0, 1))[:, None] - planted[None]) ** 2).sum(axis=-1)
    names = linear_sum_assignment(distance)[1]
    sure, right = shares.max(axis=-1).ravel(), (names[shares.argmax(axis=-1)] == path).ravel()
    low, high = np.quantile(wide, [(1 - PROB) / 2, (1 + PROB) / 2], axis=(0, 1))
    hold = (low <= planted[names]) & (planted[names] <= high)
    rows = [(sure >= least) & (sure < most) for least, most in PARTS.values()]
    calls = [(int(row.sum()), float(sure[row].sum()), int(right[row].sum())) for row in rows]
    return np.array([*calls, (hold.size, PROB * hold.size, int(hold.sum()))], float)


def add(sums: dict[str, Any], done: dict[str, np.ndarray]) -> None:
    """Add one study to the sums over studies: how many, of each number, and of each product of two."""
    sums["studies"] = sums.get("studies", 0) + 1
    for method, rows in done.items():
        kept = sums.setdefault(method, {})
        for part, row in zip((*PARTS, TABLES), rows, strict=True):
            before = np.array(kept.get(part, np.zeros((4, 3))))
            kept[part] = (before + np.vstack([row, np.outer(row, row)])).round(4).tolist()


def ratio(studies: int, part: list[list[float]]) -> dict[str, float]:
    """Return calls, mean probability, share right, and the standard error of the difference of these two.

    With gap the difference, the residual of a log is right - sure - gap calls; they add up to 0.
    """
    total, sure, right = part[0]
    if total == 0:
        return {"calls": 0, "sure": float("nan"), "right": float("nan"), "standard_error": float("nan")}
    gap, mean = (right - sure) / total, sure / total
    weights = np.array([-gap, -1.0, 1.0])
    squares = float(weights @ np.array(part[1:]) @ weights)
    by_logs = np.sqrt(max(squares, 0.0) * studies / max(studies - 1, 1)) / total
    error = max(by_logs, np.sqrt(mean * (1 - mean) / total))
    return {"calls": int(total), "sure": mean, "right": right / total, "standard_error": float(error)}


def summary(sums: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Return for each method the calibration of each part."""
    return {method: {name: ratio(sums["studies"], part) for name, part in sums[method].items()} for method in METHODS}


def show(results: dict[str, Any]) -> None:
    """Print every cell."""
    for name, sums in results.items():
        print(f"\n{name}: {sums['studies']} logs")
        for method, rows in summary(sums).items():
            for part, row in rows.items():
                if row["calls"]:
                    gap = row["right"] - row["sure"]
                    note = "" if abs(gap) <= WITHIN + 2 * row["standard_error"] else "  outside"
                    print(
                        f"  {method:<12} {part:<16} {row['calls']:>7} calls, {row['sure']:.3f} sure,"
                        f" {row['right']:.3f} right, {gap:+.3f} (standard error {row['standard_error']:.3f}){note}"
                    )


def main() -> None:
    """Run what is missing, a log of each cell in turn, and save now and then."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--cell", choices=list(CELLS))
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wanted = [] if given.show else [name for name in CELLS if given.cell in (None, name)]
    for number in range(given.studies):
        for name in wanted:
            sums = results.setdefault(name, {"studies": 0})
            if sums["studies"] == number:
                add(sums, study(CELLS[name], [2026, list(CELLS).index(name), number]))
        if (number + 1) % SAVED == 0 or number + 1 == given.studies:
            RESULTS.write_text(json.dumps(results) + "\n")
    show(results)


if __name__ == "__main__":
    main()
