"""The papers' figures, computed again: `python -m reproductions NAME ...`. Reads no data of yours.

python -m reproductions list
python -m reproductions geumlek-fig1 foulds-adversary --quick
python -m reproductions geumlek-fig3 --data tables
python -m reproductions all --output reproduced
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproductions import EXPERIMENTS
from vestry.errors import InvalidParameter, VestryError


def reproduce(names: Sequence[str], folder: Path, *, quick: bool) -> None:
    """Compute experiments again, write NAME.png and NAME.json, and print which claims came out."""
    for name in names:
        if name not in EXPERIMENTS:
            raise InvalidParameter("an experiment", name, "one of " + ", ".join(EXPERIMENTS), "list for all names")
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name} ...", file=sys.stderr)
        start = time.monotonic()
        record = EXPERIMENTS[name].perform(folder, quick=quick)
        seconds = time.monotonic() - start
        print(f"[{number}/{len(names)}] {name} took {seconds:.1f} s", file=sys.stderr)
        print(report(record, folder))


def report(record: dict[str, Any], folder: Path) -> str:
    """Return the files of an experiment and, of each claim, whether it came out."""
    name = record["name"]
    lines = [f"{name}: {folder / name}.png, {folder / name}.json"]
    for claim in record["claims"]:
        verdict = "yes" if claim["holds"] else "NO "
        lines.append(f"  {verdict}  {claim['says']}")
        lines.append(f"       {claim['found']}")
    return "\n".join(lines)


def listing() -> str:
    """Return a line for each experiment: its name, what it shows, its paper and figure."""
    lines = []
    for experiment in EXPERIMENTS.values():
        lines.append(f"{experiment.name:<20}{experiment.summary} [{experiment.paper}, {experiment.figure}]")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(
        prog="python -m reproductions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", metavar="NAME", help="experiments; all or list")
    options.add_argument("--data", type=Path, help="the folder of the papers' tables; or set VESTRY_DATA")
    options.add_argument("--quick", action="store_true", help="fewer repeats and points: a few seconds each")
    options.add_argument("--output", type=Path, default=Path("reproduced"), help="the folder of NAME.png and NAME.json")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; a bad input is one sentence on standard error and exit code 2."""
    options = parser().parse_args(arguments)
    if options.names in ([], ["list"]):
        print(listing())
        return 0
    names = list(EXPERIMENTS) if options.names == ["all"] else list(dict.fromkeys(options.names))
    try:
        if options.data is not None:
            if not options.data.is_dir():
                raise InvalidParameter("--data", str(options.data), "a folder", "the folder that holds the tables")
            os.environ["VESTRY_DATA"] = str(options.data)
        reproduce(names, options.output, quick=options.quick)
    except VestryError as error:
        print(f"reproductions: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
