"""A small study in a folder, and the command line called in this process, for tests of releases, faults and leaks."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from vestry.cli import main
from vestry.ledger import Ledger

RELEASES = {
    "readmission": 'model = "beta-bernoulli"\ncolumn = "readmitted"\nsuccess = "yes"\nby = "ward"\n'
    "spend = { epsilon = 0.3 }",
    "gauss": 'model = "beta-bernoulli"\ncolumn = "readmitted"\nsuccess = "yes"\nmechanism = "gaussian"\n'
    "spend = { epsilon = 0.5, delta = 1e-8 }",
    "stay": 'model = "normal-mean"\ncolumn = "stay_days"\nvariance = 50\nprior = [10, 100]\nspend = { epsilon = 0.2 }',
    "wards": 'model = "dirichlet-categorical"\ncolumn = "ward"\nspend = { epsilon = 0.25 }',
    "draws": 'model = "beta-bernoulli"\ncolumn = "readmitted"\nsuccess = "yes"\nmechanism = "diffused"\ndraws = 2\n'
    "prior = [2, 2]\nspend = { epsilon = 0.4, delta = 1e-8 }",
    "cut": 'model = "beta-bernoulli"\ncolumn = "readmitted"\nsuccess = "yes"\nmechanism = "ops"\ndraws = 1\n'
    "truncation = 0.05\nspend = { epsilon = 0.35 }",
}

HEADER = "patient_id,ward,readmitted,stay_days,note"


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


def vestry(*arguments: object) -> Done:
    """Run `vestry ARGUMENTS` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", ["vestry", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Done(code, out.getvalue(), err.getvalue())


def records(count: int = 200, seed: int = 3) -> list[str]:
    """Make up lines of a CSV file."""
    rng = np.random.default_rng(seed)
    return [
        f"p{rng.integers(80)},{rng.choice(list('ABC'))},{'yes' if rng.random() < 0.3 else 'no'},"
        f"{rng.gamma(2.5, 4):.1f},said nothing"
        for _ in range(count)
    ]


def study_in(
    folder: Path,
    *names: str,
    unit: str = '"row"',
    neighbours: str = "add-remove",
    budget: str = "{ epsilon = 4.0, delta = 1e-6 }",
    data: str = "people.csv",
    lines: Iterable[str] | None = None,
    n: int | None = None,
    ledger: bool = True,
) -> Path:
    """Write a study file, its records and, unless told otherwise, its ledger."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = names or ("readmission",)
    text = (
        f'[study]\nname = "people"\ndata = "{data}"\nunit = {unit}\nneighbours = "{neighbours}"\nbudget = {budget}\n'
        f'ledger = "people.ledger"\n{"" if n is None else f"expected_rows = {n}"}\n\n'
        '[columns]\nreadmitted = { levels = ["no", "yes"] }\nward = { levels = ["A", "B", "C"] }\n'
        "stay_days = { interval = [0, 60] }\n"
    )
    text += "".join(f"\n[release.{name}]\n{RELEASES[name]}\n" for name in chosen)
    path = folder / "study.toml"
    path.write_text(text)
    if data == "people.csv":
        (folder / data).write_text("\n".join([HEADER, *(records() if lines is None else lines)]) + "\n")
    if ledger:
        made = vestry(*create_arguments(folder, unit, neighbours, budget))
        assert made.code == 0, made.err
    return path


def create_arguments(folder: Path, unit: str, neighbours: str, budget: str) -> list[object]:
    """The arguments that make the study's ledger."""
    plain = unit.strip('"') if unit.startswith('"') else _spelled(unit)
    return ["ledger", "create", folder / "people.ledger", "--dataset", "people", "--unit", plain,
            "--neighbours", neighbours, "--budget", _spelled(budget)]  # fmt: skip


def ledger_of(folder: Path) -> Ledger:
    """Open the study's ledger."""
    return Ledger.open(folder / "people.ledger")


def actions(folder: Path) -> list[str]:
    """What the ledger's lines say, after the first."""
    return [entry.action for entry in ledger_of(folder).entries()][1:]


def _spelled(table: str) -> str:
    """Write { epsilon = 1, delta = 2 } as epsilon=1,delta=2."""
    return table.strip("{} ").replace(" ", "").replace('"', "")
