"""What one `vestry release` of a study with one release runs through, and what it does more than once.

    python quality/release_path.py             # files, functions, and the counts below
    python quality/release_path.py --list      # also each file, with how many of its functions ran

Counted are the package's functions that run while no module is imported, in every thread, in a new process. A
comprehension or a lambda belongs to the function around it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import vestry
from vestry.cli import main as command

PACKAGE = f"{Path(vestry.__file__).parent}/"
STUDY = """[study]
name = "people"
data = "people.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 1.0, delta = 1e-6 }
ledger = "people.ledger"

[columns]
readmitted = { levels = ["no", "yes"] }
ward = { levels = ["A", "B", "C"] }

[release.readmission]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
by = "ward"
spend = { epsilon = 0.3 }
"""
LEDGER = "--dataset people --unit row --neighbours add-remove --budget epsilon=1.0,delta=1e-6"
COUNTED = {
    "Ledger.open": ("Ledger.open",),
    "reads of the ledger's state": ("State.read",),
    "reads of its whole journal": ("Ledger.entries", "Ledger.charges"),
    "calibrations": ("Request.prepared", "Request.prepare"),
    "posteriors computed": ("Posterior.from_release", "Release.posterior"),
}
_FUNCTION = 0x3  # the flags of a function's code, which a class body has not


class Watch:
    """Counts calls by file and qualified name."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._thread = threading.local()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take note of a call or a return."""
        code, importing = frame.f_code, getattr(self._thread, "importing", 0)
        if code.co_name == "<module>":
            self._thread.importing = importing + {"call": 1, "return": -1}.get(event, 0)
            return
        ours = code.co_filename.startswith(PACKAGE) and code.co_flags & _FUNCTION == _FUNCTION
        if ours and event == "call" and not importing:
            self.calls[code.co_filename.removeprefix(PACKAGE), code.co_qualname] += 1


def watched(folder: Path) -> Counter[tuple[str, str]]:
    """Make a study, release it once, and return what ran."""
    rows = [f"{'ABC'[i % 3]},{'yes' if i % 4 == 0 else 'no'}" for i in range(240)]
    (folder / "people.csv").write_text("\n".join(["ward,readmitted", *rows]) + "\n")
    (folder / "study.toml").write_text(STUDY)
    run("ledger", "create", str(folder / "people.ledger"), *LEDGER.split())
    watch = Watch()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        run("release", str(folder / "study.toml"), "--yes")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return watch.calls


def run(*arguments: str) -> None:
    """Run a command in this process."""
    sys.argv = ["vestry", *arguments]
    try:
        command()
    except SystemExit as ended:
        if ended.code:
            raise


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also print each file")
    given = parser.parse_args()
    sys.argv, shown = sys.argv[:1], sys.stdout
    sys.stdout = sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        calls = watched(Path(folder))
    sys.stdout = shown
    files = Counter(file for file, _ in {(file, name.partition(".<locals>.<")[0]) for file, name in calls})
    print(f"{'files':30}{len(files):5}\n{'functions':30}{files.total():5}")
    for what, names in COUNTED.items():
        print(f"{what:30}{sum(count for (_, name), count in calls.items() if name in names):5}")
    if given.list:
        print(*(f"{count:5}  {file}" for file, count in sorted(files.items())), sep="\n")


if __name__ == "__main__":
    main()
