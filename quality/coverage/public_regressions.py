"""Whether intervals of linear regressions hold on public tables: fifty releases of each whole table by noisy moments.

    pip install plotnine                                                 # carries the diamonds; no dependency of Vestry
    python quality/coverage/public_regressions.py --data FOLDER          # goes on where it stopped
    python quality/coverage/public_regressions.py --show                 # the table of the results

abalone          4,177 shells (UCI, abalone.parquet in FOLDER or in $VESTRY_DATA): rings by sex and shell weight
abalone-length   the same with length, which goes with the shell weight (they are collinear)
diamonds         53,940 diamonds (plotnine): price by carat, depth and cut

Bounds and levels are declared from the tables' descriptions. A release goes the whole way: ledger, query, noise,
posterior. Its 90 % credible intervals of the coefficients hold the least-squares estimate of the whole table or not.
They allow for sampling error, too, which that estimate does not have; so they hold it more often than nine times in ten
where the noise is small, and about nine times in ten where it rules.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import vestry
from vestry.errors import NoInterval

RESULTS = Path(__file__).with_suffix(".json")
RELEASES, PROB, EPSILONS = 50, 0.9, (1, 5)


def abalone(folder: Path) -> pd.DataFrame:
    """Return the shells."""
    return pd.read_parquet(folder / "abalone.parquet")


def diamonds(folder: Path) -> pd.DataFrame:
    """Return the diamonds."""
    found = find_spec("plotnine")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install plotnine")
    return pd.read_csv(Path(found.submodule_search_locations[0]) / "data" / "diamonds.csv")


SHELLS = {
    "rings": vestry.Interval(0, 30),
    "shell_weight": vestry.Interval(0, 1.1),
    "length": vestry.Interval(0, 0.9),
    "sex": vestry.Levels("F", "I", "M"),
}
STONES = {
    "price": vestry.Interval(0, 20_000),
    "carat": vestry.Interval(0, 6),
    "depth": vestry.Interval(40, 80),
    "cut": vestry.Levels("Fair", "Good", "Very Good", "Premium", "Ideal"),
}
TABLES: dict[str, tuple[Callable[[Path], pd.DataFrame], dict[str, Any], str, tuple[str, ...]]] = {
    "abalone": (abalone, SHELLS, "rings", ("shell_weight", "sex")),
    "abalone-length": (abalone, SHELLS, "rings", ("length", "shell_weight", "sex")),
    "diamonds": (diamonds, STONES, "price", ("carat", "depth", "cut")),
}


def least_squares(frame: pd.DataFrame, columns: dict[str, Any], outcome: str, predictors: tuple[str, ...]) -> Any:
    """Return the whole table's estimate and the widths of its 90 % intervals, by NumPy alone; the intercept last."""
    features = []
    for name in predictors:
        levels = getattr(columns[name], "values", None)
        features += [frame[name]] if levels is None else [frame[name] == level for level in levels[1:]]
    x = np.column_stack([*features, np.ones(len(frame))]).astype(float)
    y = frame[outcome].to_numpy(float)
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    s2 = ((y - x @ theta) ** 2).sum() / (len(y) - len(theta))
    return theta, 3.2897 * np.sqrt(s2 * np.diag(np.linalg.inv(x.T @ x)))


def run(name: str, epsilon: float, folder: Path) -> dict[str, Any]:
    """Release once; return which intervals hold the estimate, and their widths as multiples of those without noise."""
    load, columns, outcome, predictors = TABLES[name]
    frame = load(folder)[[outcome, *predictors]]
    truth, widths = least_squares(frame, columns, outcome, predictors)
    guarantee = f"epsilon={epsilon},delta=1e-6"
    with tempfile.TemporaryDirectory() as place:
        terms = {"unit": "row", "neighbours": "add-remove", "budget": guarantee}
        ledger = vestry.Ledger.create(str(Path(place) / "table.ledger"), dataset=name, **terms)
        table = vestry.Table(frame, {key: columns[key] for key in frame}, neighbours="add-remove")
        model = vestry.LinearRegression(outcome=outcome, predictors=predictors)
        posterior = vestry.release(model, table, guarantee=guarantee, ledger=ledger)
    try:
        ends = posterior.interval(PROB)[["low", "high"]].to_numpy()[: len(truth)]
    except NoInterval:
        return {"refused": True}
    holds = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    ratio = (ends[:, 1] - ends[:, 0]) / widths
    return {"refused": False, "holds": holds.astype(int).tolist(), "ratio": ratio.round(3).tolist()}


def show(known: dict[str, list[dict[str, Any]]]) -> None:
    """Print one line for each table and epsilon."""
    print("| table, epsilon | releases | refused | holds, by coefficient | all | times the width without noise |")
    print("|---|---|---|---|---|---|")
    for name, releases in known.items():
        answered = [each for each in releases if not each["refused"]]
        if not answered:
            print(f"| {name} | {len(releases)} | {len(releases)} | | | |")
            continue
        holds = np.mean([each["holds"] for each in answered], axis=0)
        ratio = np.median([each["ratio"] for each in answered], axis=0)
        words = " ".join(f"{x:.2f}" for x in holds), " ".join(f"{x:.1f}" for x in ratio)
        refused = len(releases) - len(answered)
        print(f"| {name} | {len(releases)} | {refused} | {words[0]} | {holds.mean():.3f} | {words[1]} |")


def main() -> None:
    """Run what is not in the file of results yet, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the results, and run nothing")
    parser.add_argument("--data", default=os.environ.get("VESTRY_DATA", "."), help="the folder of abalone.parquet")
    parser.add_argument("--releases", type=int, default=RELEASES, help="releases of each table")
    given = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in () if given.show else TABLES:
        for epsilon in EPSILONS:
            rows = known.setdefault(f"{name}, {epsilon}", [])
            while len(rows) < given.releases:
                rows.append(run(name, epsilon, Path(given.data)))
                RESULTS.write_text(json.dumps(known) + "\n")
    show(known)


if __name__ == "__main__":
    main()
