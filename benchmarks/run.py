"""Run every benchmark, print one table and write bench-output/bench.json: `make bench`, or with --quick; names choose.

A row is a ratio against a peer or a limit measured in the same run, so that it means the same on every machine.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import accounting
import audit
import conjugate
import data
import estimators
import events
import exact
import gradient
import groups
import hmm
import langevin
import large_regression
import ledger
import noise
import page
import plans
import releases
import study
import ways_in
import wide_csv

_MODULES = (
    ledger, accounting, conjugate, noise, exact, audit, data, study, releases, gradient, langevin, estimators, hmm,
    events, wide_csv, ways_in, groups, plans, page, large_regression,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of benchmarks: all unless given")
    arguments = parser.parse_args()
    quick, chosen = arguments.quick, arguments.names or [module.__name__ for module in _MODULES]
    if unknown := set(chosen) - {module.__name__ for module in _MODULES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(m.__name__ for m in _MODULES)}")
    rows = []
    for module in (each for each in _MODULES if each.__name__ in chosen):
        print(f"running {module.__name__} ...", file=sys.stderr, flush=True)
        rows += module.run(quick=quick)
    print_table(rows)
    folder = Path("bench-output")
    folder.mkdir(exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(rows, indent=2) + "\n")
    print(f"\nwritten to {folder / 'bench.json'}")
    missed = [row["name"] for row in rows if holds(row) == "no"]
    sys.exit(f"above their limit: {', '.join(missed)}" if missed else 0)


def holds(row: dict) -> str:
    """Say whether a row's ratio is within its limit; nothing where it has none."""
    return "" if row.get("limit") is None else "yes" if row["ratio"] <= row["limit"] else "no"


def print_table(rows: list[dict]) -> None:
    print(f"{'what':<48} {'value':>12} {'unit':<10} {'ratio':>8} {'limit':>6} {'holds':>5}  against")
    for row in rows:
        limit = "" if row.get("limit") is None else f"{row['limit']:g}"
        ratio = "" if row.get("ratio") is None else f"{row['ratio']:.3g}"
        print(
            f"{row['name']:<48} {row['value']:>12.4g} {row['unit']:<10} {ratio:>8} {limit:>6} {holds(row):>5} "
            f" {row.get('peer') or ''}"
        )


if __name__ == "__main__":
    main()
