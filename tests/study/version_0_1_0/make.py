"""Made the files beside it, once, with version 0.1.0 (commit 97a9dbf); it runs with no other version.

    PYTHONPATH=OLD/src python tests/study/version_0_1_0/make.py tests/study/version_0_1_0

Noise has no seed, so another run makes other releases. Each archive is a study's folder as 0.1.0 left it, without
posterior.nc and report.html; expected.json is what 0.1.0 said of it. Beside what is released lie, in both studies:

- `waiting`: charged, and not opened;
- `saved`: opened and saved as release-N.json, and the process ended before the ledger was told;
- python.json: made by `vestry.release(..., path=)`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shlex
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from vestry.models.run import charge_for, ready_for

import vestry
from vestry.cli import main
from vestry.errors import NoConversion
from vestry.ledger.journal import Opened
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.study import Study

ROWS = 200
COLUMNS = """
[columns]
ward = { levels = ["A", "B", "C"], missing = "level" }
type = { levels = ["emergency", "planned", "transfer"] }
readmitted = { levels = ["no", "yes"] }
infected = { levels = [0, 1], missing = { value = 0 } }
insured = { levels = [true, false] }
age = { interval = [0, 100] }
stay_days = { interval = [0, 60], missing = { value = 0 } }
pain_before = { interval = [0, 10] }
pain_after = { interval = [0, 10] }
falls = { count = 6 }
wait_hours = { interval = [0.1, 24], missing = "drop" }
score = { interval = [0, 1] }
month = { levels = ["2024-01", "2024-02", "2024-03", "2024-04"] }
site = { levels = ["north", "south"] }
"""
RELEASES = """
[release.readmission]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
by = "ward"
spend = { epsilon = 0.5 }
purpose = "yearly report"

[release.infection]
model = "beta-bernoulli"
column = "infected"
success = 1
prior = [2, 20]
mechanism = "gaussian"
spend = { rho = 0.05 }

[release.types]
model = "dirichlet-categorical"
column = "type"
spend = { mu = 0.5 }

[release.wards]
model = "dirichlet-categorical"
column = "ward"
by = "readmitted"
prior = [1, 2, 3, 0.5]
spend = { epsilon = 1.0, delta = 1e-6 }

[release.stay]
model = "normal-mean"
column = "stay_days"
variance = 50
prior = [10, 100]
spend = { epsilon = 0.5 }

[release.pain]
model = "normal-mean"
column = ["pain_before", "pain_after"]
variance = 4
prior = [5, 9]
by = "site"
spend = { rho = 0.1 }

[release.falls]
model = "gamma-poisson"
column = "falls"
prior = [2, 1]
spend = { epsilon = 0.5 }

[release.waits]
model = "gamma-exponential"
column = "wait_hours"
spend = { epsilon = 1.0 }

[release.spread]
model = "normal-inverse-gamma"
column = "stay_days"
prior = [10, 1, 2, 50]
spend = { epsilon = 1.0 }

[release.query]
model = "statistical-query"
column = "score"
prior = [3, 3]
mechanism = "diffused"
draws = 2
spend = { epsilon = 1.0, delta = 1e-6 }

[release.diffused]
model = "beta-bernoulli"
column = "insured"
success = true
prior = [6, 12]
mechanism = "diffused"
draws = 2
spend = { epsilon = 1.0, delta = 1e-6 }

[release.concentrated]
model = "dirichlet-categorical"
column = "type"
prior = [3, 3, 3]
mechanism = "concentrated"
draws = 1
spend = { epsilon = 1.0, delta = 1e-6 }

[release.direct]
model = "beta-bernoulli"
column = "insured"
success = false
prior = [60, 60]
mechanism = "direct"
draws = 1
spend = { order = 2, epsilon = 0.5 }

[release.ops]
model = "dirichlet-categorical"
column = "type"
mechanism = "ops"
draws = 2
truncation = 0.05
spend = { epsilon = 1.0 }

[release.odds]
model = "logistic"
outcome = "readmitted"
success = "yes"
predictors = ["age", "ward"]
draws = 2
spend = { epsilon = 2.0, delta = 1e-6 }

[release.odds_objective]
model = "logistic"
outcome = "readmitted"
success = "yes"
predictors = ["age", "stay_days"]
method = "objective"
spend = { epsilon = 2.0, delta = 1e-6 }

[release.odds_of_types]
model = "logistic"
outcome = "type"
predictors = ["age", "site"]
method = "output"
radius = 1.0
spend = { epsilon = 2.0, delta = 1e-6 }

[release.line]
model = "linear"
outcome = "stay_days"
predictors = ["age", "type"]
method = "output"
regularisation = 20
spend = { epsilon = 2.0, delta = 1e-6 }

[release.line_posterior]
model = "linear"
outcome = "pain_after"
predictors = ["pain_before"]
intercept = false
threshold = 2
prior_precision = 50
spend = { epsilon = 2.0, delta = 1e-6 }

[release.classes]
model = "naive-bayes"
features = ["type", "infected"]
target = "readmitted"
spend = { epsilon = 1.0 }

[release.classes_ops]
model = "naive-bayes"
features = ["type", "site"]
target = "readmitted"
mechanism = "ops"
draws = 1
truncation = 0.05
spend = { epsilon = 2.0 }

[release.density]
model = "naive-bayes"
features = ["site", "type", "readmitted"]
prior = 0.5
spend = { rho = 0.1 }

[release.states]
model = "hmm"
sequence = { region = "site", time = "month" }
features = ["readmitted", "type"]
states = 2
spend = { epsilon = 2.0 }

[release.states_public]
model = "hmm"
sequence = { region = "site", time = "month" }
features = ["readmitted", "type"]
states = 3
cell = "public"
prior = [2, 1]
spend = { rho = 0.5 }

[release.waiting]
model = "beta-bernoulli"
column = "readmitted"
success = "no"
by = "site"
spend = { epsilon = 0.25 }

[release.saved]
model = "dirichlet-categorical"
column = "month"
by = "site"
spend = { epsilon = 0.25 }
"""
STUDIES = {
    "add-remove": """
[study]
name = "add or remove a person"
data = "patients.csv"
unit = { person = "patient_id", rows = 2 }
neighbours = "add-remove"
budget = { epsilon = 100.0, delta = 1e-3 }
ledger = "patients.ledger"
dataset = "patients"
n = 200
largest = 400
""",
    "replace": """
[study]
name = "replace a row"
data = "patients.csv"
unit = "row"
neighbours = "replace"
budget = { epsilon = 100.0, delta = 1e-3 }
ledger = "patients.ledger"
n = 150

[release.diffused_by_site]
model = "beta-bernoulli"
column = "insured"
success = true
prior = [6, 12]
by = "site"
mechanism = "diffused"
draws = 2
spend = { epsilon = 1.0, delta = 1e-6 }

[release.falls_drawn]
model = "gamma-poisson"
column = "falls"
prior = [3, 2]
mechanism = "concentrated"
draws = 1
spend = { epsilon = 1.0, delta = 1e-6 }

[release.pain_drawn]
model = "normal-mean"
column = "pain_after"
variance = 100
prior = [5, 1]
draws = 1
spend = { epsilon = 1.0, delta = 1e-6 }
""",
}
# Other posteriors of the same releases; every release has its own as well.
OTHERS = [
    ("readmission", "--prior", "2,5", "--level", "0.5"),
    ("readmission", "--plug-in"),
    ("wards", "--prior", "1,1,1,1"),
    ("types", "--plug-in"),
    ("stay", "--prior", "0,1000"),
    ("stay", "--plug-in"),
    ("falls", "--plug-in"),
    ("waits", "--prior", "2,2"),
    ("spread", "--prior", "5,2,3,40"),
    ("spread", "--plug-in"),
    ("classes", "--prior", "2"),
    ("classes", "--plug-in"),
    ("states", "--states", "3", "--sweeps", "100"),
]


def make(folder: Path) -> None:
    """Write an archive for each study, and what is expected of both."""
    expected: dict[str, Any] = {"made_by": "vestry 0.1.0 (commit 97a9dbf), by make.py", "studies": {}}
    for name, head in STUDIES.items():
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            expected["studies"][name] = _study(head + COLUMNS + RELEASES)
            with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
                archive.add(place, arcname=".", filter=_kept)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def _kept(file: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(file.name).name
    if name in ("posterior.nc", "report.html"):
        return None
    if name.startswith("patients.ledger-"):
        raise AssertionError("the ledger is still open")
    file.uid = file.gid = file.mtime = 0
    file.uname = file.gname = ""
    file.mode = 0o755 if file.isdir() else 0o644
    return file


def _study(text: str) -> dict[str, Any]:
    Path("study.toml").write_text(text)
    write_patients(Path("patients.csv"))
    study = Study.open("study.toml")
    said(*shlex.split(study.create_command())[1:])
    names = [each.name for each in study.declaration.releases if each.name not in ("waiting", "saved")]
    with contextlib.suppress(ValueError):  # the page, written last, cannot draw an objective for persons of two rows
        said("release", "study.toml", *names, "--yes")
    _charge_only(study, "waiting")
    _save_only(study, "saved")
    _release_from_python(study)
    ledger = study.ledger
    return {
        "names": names,
        "head": ledger.head(),
        "row_key": ledger.row_key(),
        "spent": ledger.state().spent.to_dict(),
        "left": ledger.state().filter.left(ledger.state().spent),
        "entries": [entry.hash for entry in ledger.entries()],
        "posteriors": [_posterior(name) for name in names] + [_posterior(*each) for each in OTHERS],
        "python": said("posterior", "python.json"),
        "prices": {name: _price(json.loads(Path(name, "release.json").read_text())["certificate"]) for name in names},
    }


def _posterior(name: str, *options: str) -> dict[str, Any]:
    return {"release": name, "options": options, "record": said("posterior", f"{name}/release.json", *options)}


def _price(certificate: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the event of a certificate costs, in the definition of its guarantee; None if it has no price."""
    numbers = {key: value for key, value in certificate["guarantee"].items() if key != "neighbours"}
    guarantee = Guarantee.parse(numbers, neighbours=certificate["guarantee"]["neighbours"])
    with contextlib.suppress(NoConversion):
        return accountant.price(Event.from_dict(certificate["event"]), guarantee).to_dict()
    return None


def said(*arguments: str) -> dict[str, Any]:
    """Return what a command prints as JSON."""
    sys.argv, out = ["vestry", *arguments, "--json"], io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    return dict(json.loads(out.getvalue()))


def _charge_only(study: Study, name: str) -> None:
    """Charge, as a process that ended just after it."""
    file, asked = study.declaration, study.declaration.release(name)
    ready = ready_for(asked.request, study.table, study.ledger, n=file.n)
    charge_for(asked.request, ready, file.frame, study.ledger, purpose=f"{name}: {asked.purpose}")


def _save_only(study: Study, name: str) -> None:
    """Release, as a process that ended just before it told the ledger."""

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    whole, Opened.released = Opened.released, ends
    try:
        with contextlib.suppress(KeyboardInterrupt):
            study.release(name)
    finally:
        Opened.released = whole


def _release_from_python(study: Study) -> None:
    table = study.table
    model = vestry.GammaPoisson("falls", by="site", prior=(1.0, 2.0))
    vestry.release(model, table, guarantee="epsilon=0.5", ledger=study.ledger, path="python.json")


def write_patients(path: Path) -> None:
    """Write 200 records, two of each person; some lack a value, some are outside what is declared."""
    rng = np.random.default_rng(20240131)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["patient_id", "ward", "type", "readmitted", "infected", "insured", "age", "stay_days",
                        "pain_before", "pain_after", "falls", "wait_hours", "score", "month", "site"])  # fmt: skip
        for row in range(ROWS):
            age, ward = rng.uniform(18, 95), rng.integers(0, 3)
            ill = rng.random() < 0.2 + 0.3 * (ward == 1)
            stay, before = rng.gamma(2, 4 + age / 20), rng.normal(6, 2)
            table.writerow([
                row // 2, "" if row % 23 == 0 else "ABC"[ward], rng.choice(["emergency", "planned", "transfer"]),
                "yes" if ill else "no", int(rng.random() < 0.1), "true" if rng.random() < 0.7 else "false",
                round(age), "" if row % 19 == 0 else round(stay, 1), round(before, 1),
                round(before - rng.exponential(2), 1), rng.poisson(0.8),
                "" if row % 17 == 0 else round(rng.exponential(3), 2), round(rng.beta(2, 3), 3),
                f"2024-0{1 + row * 4 // ROWS}", "north" if rng.random() < 0.5 else "south",
            ])  # fmt: skip


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
