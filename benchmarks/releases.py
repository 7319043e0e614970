"""What releases cost as people run them: again, for the first time, and of many levels and groups.

Commands are timed from outside, imports and all, against `vestry ledger show` in the same run.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HEAD = """
[study]
name = "bench"
data = "people.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 1000.0, delta = 1e-6 }
ledger = "people.ledger"

[columns]
yes = { levels = ["n", "y"] }
ward = { levels = ["A", "B", "C", "D"] }
stay = { interval = [0, 60] }
code = { levels = [%s] }
"""
PROPORTION = 'model = "beta-bernoulli"\ncolumn = "yes"\nsuccess = "y"\n'
LEVELS = 'model = "dirichlet-categorical"\ncolumn = "code"\n'
SIX = {
    "by_ward": PROPORTION + 'by = "ward"\n',
    "proportion": PROPORTION,
    "stay": 'model = "normal-mean"\ncolumn = "stay"\nvariance = 50\nprior = [10, 100]\n',
    "wards": 'model = "dirichlet-categorical"\ncolumn = "ward"\n',
    "bayes": 'model = "naive-bayes"\nfeatures = ["ward"]\ntarget = "yes"\n',
    "stay_by_ward": 'model = "normal-mean"\ncolumn = "stay"\nby = "ward"\nvariance = 50\nprior = [10, 100]\n',
}
FIRST_S = 1.5  # what a first release may take beside imports, query and draw


def run(quick: bool = False) -> list[dict]:
    rounds = 2 if quick else 5
    return [*again(rounds), *first(rounds), *large("levels", quick), *large("groups", quick)]


def study(folder: Path, releases: dict[str, str], levels: int = 2) -> Path:
    """Write a study with these releases, its records and its ledger."""
    from vestry import Ledger

    folder.mkdir(parents=True)
    listed = ", ".join(f'"{place}"' for place in range(levels))
    text = HEAD % listed + "".join(
        f"\n[release.{name}]\n{each}spend = {{ epsilon = 0.5 }}\n" for name, each in releases.items()
    )
    (folder / "study.toml").write_text(text)
    rng = np.random.default_rng(1)
    rows = zip(*(rng.choice(list(each), 10_000) for each in ("ny", "ABCD")), rng.integers(0, 60, 10_000),
               rng.integers(0, levels, 10_000), strict=True)  # fmt: skip
    (folder / "people.csv").write_text(
        "yes,ward,stay,code\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    )
    terms = {"dataset": "bench", "unit": "row", "neighbours": "add-remove", "budget": "epsilon=1000,delta=1e-6"}
    Ledger.create(folder / "people.ledger", **terms)
    return folder / "study.toml"


def command(*words: object, code: int = 0) -> float:
    """Run a command, and return its wall time."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "from vestry.cli import main; main()", *map(str, words)], capture_output=True, text=True
    )
    if done.returncode != code:
        raise RuntimeError(done.stderr)
    return time.perf_counter() - start


def row(name: str, value: float, show_s: float, limit: float | None = None) -> dict:
    """Set a command's time against `vestry ledger show`."""
    peer = f"vestry ledger show, {show_s:.2g} s"
    return {"name": name, "value": value, "unit": "s", "ratio": value / show_s, "limit": limit, "peer": peer}


def again(rounds: int) -> list[dict]:
    """Time what exists, in turns with the ledger's own command."""
    found = []
    for count in (1, 6):
        with tempfile.TemporaryDirectory() as name:
            path = study(Path(name) / "study", dict(list(SIX.items())[:count]))
            command("release", path, "--yes")
            times = [(command("release", path), command("ledger", "show", path.with_name("people.ledger")))
                     for _ in range(rounds)]  # fmt: skip
        release_s, show_s = (statistics.median(each) for each in zip(*times, strict=True))
        found.append(row(f"release again, {count} of {count}", release_s, show_s, 3.0))
    return found


def first(rounds: int) -> list[dict]:
    """Time a first release in a warm process, and take off its query and its draw."""
    from vestry import Study
    from vestry.data import Table
    from vestry.mechanisms.additive_noise import Additive

    found = []
    for count in (1, 4):
        seconds = []
        for turn in range(rounds + 1):  # the first warms the imports
            beside: list[float] = []
            owners = [(Table, "collect"), (Table, "check"), (Additive, "release")]
            real = [getattr(owner, name) for owner, name in owners]
            with tempfile.TemporaryDirectory() as name:
                path = study(Path(name) / "study", dict(list(SIX.items())[:count]))
                for (owner, which), call in zip(owners, real, strict=True):
                    setattr(owner, which, timed(call, beside))
                try:
                    start = time.perf_counter()
                    Study.open(path).release()
                    whole = time.perf_counter() - start
                finally:
                    for (owner, which), call in zip(owners, real, strict=True):
                        setattr(owner, which, call)
            if turn:
                seconds.append((whole - sum(beside)) / count)
        value = statistics.median(seconds)
        found.append({"name": f"first release beside query and draw, {count}", "value": value, "unit": "s",
                      "ratio": value / FIRST_S, "limit": 1.0, "peer": f"{FIRST_S} s for each"})  # fmt: skip
    return found


def timed(call, seconds: list[float]):
    def run(*given, **named):
        start = time.perf_counter()
        try:
            return call(*given, **named)
        finally:
            seconds.append(time.perf_counter() - start)

    return run


def large(kind: str, quick: bool) -> list[dict]:
    """Time the largest that is released, and the refusal of what is larger."""
    body = LEVELS if kind == "levels" else PROPORTION + 'by = "code"\n'
    sizes = ((250, 1000) if quick else (1000, 2500)), ((200_000,) if kind == "levels" else (20_000,))
    found = []
    with tempfile.TemporaryDirectory() as name:
        for size in sizes[0]:
            path = study(Path(name) / f"{size}", {"large": body}, size)
            show_s, release_s = (
                command("ledger", "show", path.with_name("people.ledger")),
                command("release", path, "--yes"),
            )
            found.append(row(f"release of {size:,} {kind}", release_s, show_s))
        for size in sizes[1]:
            path = study(Path(name) / f"{size}", {"large": body}, size)
            show_s, check_s = command("ledger", "show", path.with_name("people.ledger")), command("check", path, code=2)
            found.append(row(f"check refuses {size:,} {kind}", check_s, show_s, 5.0))
    return found
