"""Quantiles of public tables by Vestry, OpenDP and diffprivlib: error side by side at the same epsilon, in one run.

    make .venv-peer/.done                                       # diffprivlib needs an environment of its own
    VESTRY_DATA=DIR python quality/quantile_peers.py --runs 15  # every table and epsilon; writes quantile_peers.json
    python quality/quantile_peers.py --show                     # the table, as docs/quantiles.md has it

Adult's age and hours, Abalone's whole and shell weight. Intervals, candidates and bins are those of the codebooks, and
are written down here. Asked for are the median alone, and the three quartiles together, at one epsilon in all: OpenDP
and diffprivlib choose each quantile by an exponential mechanism of its own, and share epsilon among them; a release of
Vestry has one histogram for all. Errors are absolute, from the quantile of the table itself, in units of the column;
ages and hours are whole numbers, so every library's answer is rounded to one.

OpenDP runs at add-remove, by `make_private_quantile` over as many candidates as Vestry has edges of bins; diffprivlib
by `tools.quantile`, which takes the number of records as public (replace). Vestry is shown under both. Its answer is
the mean of the posterior; how often its 90 % interval holds the table's own quantile, and how wide it is, is shown too.
The other two offer no interval.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import vestry
from vestry.tables.quantiles import Quantiles

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".json")
PEER = ROOT / ".venv-peer" / "bin" / "python"
# The file, the interval, the number of bins, and whether values are whole numbers.
COLUMNS = {
    "age": ("adult", (16.5, 90.5), 74, True),
    "hours_per_week": ("adult", (0.5, 99.5), 99, True),
    "whole_weight": ("abalone", (0.0, 3.0), 100, False),
    "shell_weight": ("abalone", (0.0, 1.2), 100, False),
}
EPSILONS = (0.1, 1.0)
QUARTILES, MEDIAN = (0.25, 0.5, 0.75), (0.5,)
ASKED = {"median": MEDIAN, "quartiles": QUARTILES}


def values_of(column: str) -> np.ndarray:
    """Return a column of a public table, clipped to its interval."""
    name, ends, _, _ = COLUMNS[column]
    frame = pd.read_parquet(Path(os.environ["VESTRY_DATA"]) / f"{name}.parquet", columns=[column])
    return frame[column].to_numpy(float).clip(*ends)


def own(column: str, epsilon: float, neighbours: str, runs: int) -> list[dict[str, Any]]:
    """Release as a user would, and return what each release says of the quartiles."""
    _, (low, high), bins, _ = COLUMNS[column]
    frame, found = pd.DataFrame({column: values_of(column)}), []
    table = vestry.Table(frame, {column: vestry.Interval(low, high)}, neighbours=neighbours)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for run in range(runs):
            ledger = vestry.Ledger.create(
                f"{folder}/{run}.ledger", dataset="d", unit="row", neighbours=neighbours, budget=f"epsilon={epsilon}"
            )
            model = Quantiles(column, QUARTILES, bins)
            rows = vestry.release(model, table, guarantee=f"epsilon={epsilon}", ledger=ledger).rows()
            found.append({key: [row[key] for row in rows] for key in ("mean", "low", "high")})
    return found


def opendp(column: str, quantiles: tuple[float, ...], epsilon: float, runs: int) -> list[list[float]]:
    """Choose each quantile among candidates, at an equal share of epsilon."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    _, (low, high), bins, whole = COLUMNS[column]
    steps = np.linspace(low, high, bins + 1)
    candidates = [float(each) for each in (steps[:-1] + 0.5 if whole else steps)]
    domain, metric = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    values = values_of(column).tolist()

    def measure(alpha: float) -> Any:
        def made(scale: float) -> Any:
            return dp.m.make_private_quantile(domain, metric, dp.max_divergence(), candidates, alpha, scale)

        return made(dp.binary_search_param(made, d_in=1, d_out=epsilon / len(quantiles), T=float))

    chosen = [measure(alpha) for alpha in quantiles]
    return [[float(each(values)) for each in chosen] for _ in range(runs)]


def diffprivlib(runs: int) -> dict[str, list[list[float]]]:
    """Ask diffprivlib in its own environment, all columns in one process."""
    if not PEER.exists():
        sys.exit("diffprivlib is not installed: make .venv-peer/.done")
    with tempfile.TemporaryDirectory() as folder:
        for column in COLUMNS:
            np.save(f"{folder}/{column}.npy", values_of(column))
        asked = {
            f"{column}, {kind}, {epsilon}": [f"{folder}/{column}.npy", COLUMNS[column][1], quantiles, epsilon]
            for column in COLUMNS
            for kind, quantiles in ASKED.items()
            for epsilon in EPSILONS
        }
        script = Path(__file__).with_name("quantile_peer_diffprivlib.py")
        made = subprocess.run(
            [PEER, script, str(runs)], input=json.dumps(asked), capture_output=True, text=True, check=True
        )
    found: dict[str, list[list[float]]] = json.loads(made.stdout)
    return found


def error(column: str, quantiles: tuple[float, ...], answers: Any) -> tuple[float, float] | None:
    """Return the mean absolute error over runs and quantiles, and its standard error; nothing without answers."""
    if len(answers) < 2:
        return None
    truth = np.quantile(values_of(column), quantiles, method="inverted_cdf")
    found = np.array(answers, dtype=float)
    found = np.rint(found) if COLUMNS[column][3] else found
    each = np.abs(found - truth).mean(axis=1)
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))


def compare(runs: int) -> None:
    """Run everything, and write it down column by column."""
    kept, theirs = {}, diffprivlib(runs)
    for column in COLUMNS:
        for epsilon in EPSILONS:
            releases = {near: own(column, epsilon, near, runs) for near in ("add-remove", "replace")}
            for kind, quantiles in ASKED.items():
                at = [QUARTILES.index(q) for q in quantiles]
                truth = np.quantile(values_of(column), quantiles, method="inverted_cdf")
                row: dict[str, Any] = {"runs": runs}
                for near, made in releases.items():
                    ends = np.array([[each["low"], each["high"]] for each in made])[:, :, at]
                    row[f"vestry, {near}"] = error(column, quantiles, [np.array(each["mean"])[at] for each in made])
                    row[f"held, {near}"] = float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
                    row[f"width, {near}"] = float((ends[:, 1] - ends[:, 0]).mean())
                row["opendp"] = error(column, quantiles, opendp(column, quantiles, epsilon, runs))
                answers = theirs[f"{column}, {kind}, {epsilon}"]
                row["diffprivlib"], row["diffprivlib answered"] = error(column, quantiles, answers), len(answers)
                kept[f"{column}, {kind}, {epsilon}"] = row
                FILE.write_text(json.dumps(kept, indent=1) + "\n")
                print(column, kind, epsilon, row, flush=True)


def show() -> None:
    """Print the table."""
    print("| column, asked, epsilon | Vestry, add-remove | OpenDP, add-remove | Vestry, replace | diffprivlib |"
          " Vestry's 90 % interval: width; held the truth |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for name, row in json.loads(FILE.read_text()).items():
        parts = [row[each] for each in ("vestry, add-remove", "opendp", "vestry, replace", "diffprivlib")]
        errors = " | ".join("fails" if each is None else f"{each[0]:.2g} ({each[1]:.1g})" for each in parts)
        print(f"| {name} | {errors} | {row['width, add-remove']:.2g}; {row['held, add-remove']:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=0, help="releases of each library")
    parser.add_argument("--show", action="store_true", help="print the table")
    given = parser.parse_args()
    if given.runs:
        compare(given.runs)
    if given.show:
        show()
