"""The cases of `same_numbers.py`: command lines, and the folder in which they run.

The folder holds two studies of 0.1.0 with their releases (`tests/study/version_0_1_0`), whose ledgers have an earlier
format, and of each of their releases one study file for each unit and neighbours, whose ledgers are made by the first
cases.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

DATA = Path(__file__).parent.parent / "tests" / "study" / "version_0_1_0"


@dataclass(frozen=True)
class Case:
    """A command line, without --json; which of its files are compared; whether it takes long, or only prepares."""

    line: str
    files: tuple[str, ...] = ()
    slow: bool = False
    compared: bool = True


FAMILIES = {
    "beta-bernoulli": "--prior 6,12",
    "dirichlet-categorical": "--prior 2,3,4",
    "normal-mean": "--prior 0,9 --variance 4 --low -5 --high 5",
    "gamma-poisson": "--prior 3,2 --low 0 --high 5",
    "gamma-exponential": "--prior 3,20 --low 0.5 --high 20",
    "normal-inverse-gamma": "--prior 0,1,2,3 --low -5 --high 5",
}
POPULATIONS = ("--n 100", "--count private", "--neighbours add-remove", "--neighbours add-remove --rows 3")
# A guarantee to meet, and the value of the parameter for a curve.
MECHANISMS = {
    "laplace": ("epsilon=0.7", "7"),
    "gaussian": ("rho=0.02", "7"),
    "discrete-gaussian": ("rho=0.02", "7"),
    "direct": ("order=2,epsilon=3", "1"),
    "diffused": ("epsilon=1,delta=1e-5", "0.3"),
    "concentrated": ("epsilon=1,delta=1e-5", "0.3"),
    "ops": ("epsilon=1", "2.8"),
}


def calibrations() -> Iterator[str]:
    """Every mechanism of every family, for every population; a few with other options."""
    for mechanism, family, population in product(MECHANISMS, FAMILIES, POPULATIONS):
        yield f"calibrate {_asked(mechanism, family, population)} --guarantee {MECHANISMS[mechanism][0]}"
    beta = "--family beta-bernoulli --prior 6,12 --n 100"
    for guarantee in ("epsilon=1,delta=1e-6", "mu=0.5", "order=8,epsilon=0.3"):
        yield f"calibrate gaussian {beta} --guarantee {guarantee}"
        yield f"calibrate laplace {beta} --guarantee {guarantee}"
        yield f"calibrate diffused {beta} --draws 3 --guarantee {guarantee}"
    for family, mechanism in product(("beta-bernoulli", "normal-mean"), ("diffused", "concentrated")):
        asked = _asked(mechanism, family, "--n 100")
        yield f"calibrate {asked} --analysis renyi --guarantee epsilon=1,delta=1e-5"
        yield f"calibrate {asked} --guarantee order=5,epsilon=0.1"
    for mechanism in ("laplace", "gaussian", "diffused"):
        plane = _asked(mechanism, "normal-mean", "--n 50 --dimension 3").replace("0,9", "0,0,0,9")
        yield f"calibrate {plane} --guarantee {MECHANISMS[mechanism][0]}"
    yield f"calibrate {_asked('laplace', 'normal-mean', '--n 100')} --grid 0.25 --guarantee epsilon=0.7"
    yield "calibrate ops --family beta-bernoulli --prior 6,12 --n 100 --truncation 0.01 --draws 2 --guarantee epsilon=2"


def curves() -> Iterator[str]:
    """The curve of every mechanism of every family."""
    for mechanism, family, population in product(MECHANISMS, FAMILIES, ("--n 100", "--neighbours add-remove")):
        yield f"curve {_asked(mechanism, family, population)} --at {MECHANISMS[mechanism][1]} --delta 1e-6"
    yield f"curve {_asked('diffused', 'beta-bernoulli', '--n 100')} --guarantee epsilon=1,delta=1e-5 --orders 2,9.5"


def _asked(mechanism: str, family: str, population: str) -> str:
    truncation = " --truncation 0.05" if mechanism == "ops" else ""
    return f"{mechanism} --family {family} {FAMILIES[family]} {population}{truncation}"


def conversions() -> Iterator[str]:
    """Every guarantee into every privacy definition, both ways; groups, and neighbours."""
    given = ("epsilon=0.7", "epsilon=1,delta=1e-5", "order=8,epsilon=0.3", "rho=0.2", "mu=0.6")
    targets = ("epsilon", "epsilon=1.5", "delta=1e-4", "order=4", "rho", "mu")
    for guarantee, target, meet in product(given, targets, ("", " --meet")):
        yield f"convert {guarantee} --to {target}{meet}"
    for guarantee in given:
        yield f"convert {guarantee} --group 3"
        yield f"convert {guarantee} --group 2 --to delta=1e-3"
        yield f"convert {guarantee} --neighbours add-remove --to-neighbours replace"


def regressions() -> Iterator[str]:
    """Mechanisms of linear models, by each analysis."""
    both = "epsilon=1,delta=1e-5"
    all_ = ("", " --neighbours add-remove", " --neighbours add-remove --rows 2", " --rows 2")
    gibbs = "gibbs --lipschitz 1 --strong-convexity 100"
    for population, analysis in product(all_, ("gdp", "renyi", "minami-theorem-7", "minami-corollary-8")):
        yield f"calibrate {gibbs} --guarantee {both} --analysis {analysis}{population}"
    for population, kind in product(all_, ("glm-concentrated", "glm-diffused")):
        yield f"calibrate {kind} --n 1000 --norm 1 --prior-precision 0.001 --guarantee {both}{population}"
        yield f"calibrate {kind} --n 500 --norm 2 --prior-precision 0.01 --draws 3 --guarantee rho=0.1{population}"
    objective = "objective --lipschitz 1 --smoothness 0.25 --regularisation 10"
    for population, analysis in product(
        all_, ("auto", "general", "one-sided", "one-sided-replace", "redberg", "lecture")
    ):
        yield f"calibrate {objective} --guarantee {both} --analysis {analysis}{population}"
    langevin = "langevin --lipschitz 1 --strong-convexity 1 --smoothness 10 --steps 10,20 --step-size 0.1,0.05"
    for population in all_:
        yield f"calibrate {objective} --two-sided --guarantee {both}{population}"
        yield f"calibrate output --lipschitz 1 --regularisation 10 --tolerance 0.001 --guarantee {both}{population}"
        yield f"calibrate output --lipschitz 1 --regularisation 10 --guarantee mu=0.5{population}"
        yield f"calibrate {langevin}{population}"
        yield f"calibrate {langevin} --slack 0.001 --start 0.5 --draws 2 --likelihood-power 0.3{population}"
        yield f"curve {langevin} --at 0.3 --delta 1e-6{population}"
        yield f"curve {objective} --at 5 --delta 1e-6{population}"
        yield f"curve output --lipschitz 1 --regularisation 10 --at 0.5 --delta 1e-6{population}"
        yield f"curve {gibbs} --at 0.5 --delta 1e-6{population}"


# Of these, the plan is simulated.
PLANNED = (
    "readmission", "infection", "types", "stay", "pain", "falls", "waits", "spread", "diffused", "concentrated",
    "ops", "falls_drawn", "pain_drawn", "odds", "odds_objective", "line", "classes", "classes_ops", "states_public",
)  # fmt: skip
RELATIONS = ("replace", "add-remove")
UNITS = {"row": '"row"', "person": '{ person = "patient_id", rows = 2 }'}
OTHER_PRIORS = {
    "beta-bernoulli": "2,5", "dirichlet-categorical": "1,1,1", "normal-mean": "0,1000", "gamma-poisson": "5,3",
    "gamma-exponential": "2,2", "normal-inverse-gamma": "5,2,3,40", "naive-bayes": "2", "hmm": "3,2",
}  # fmt: skip
QUICK = (
    "geumlek-fig1", "geumlek-match", "geumlek-tightness", "foulds-fig1", "foulds-fig2", "foulds-are",
    "foulds-adversary", "minami-fig1", "minami-temperatures", "lecture-utility",
)  # fmt: skip
SLOW = ("geumlek-fig2", "geumlek-fig3", "foulds-hmm", "foulds-ais", "foulds-mh")


def make_folder(folder: Path) -> None:
    """Write the studies."""
    for name in RELATIONS:
        with tarfile.open(DATA / f"{name}.tar.gz") as archive:
            archive.extractall(folder / name, filter="data")
    head, columns, releases = _parts(folder / "replace")
    for neighbours, unit, release in product(RELATIONS, UNITS, releases):
        text = re.sub(r"(?m)^unit = .*$", f"unit = {UNITS[unit]}\nlargest = 400", head).replace("replace", neighbours)
        path = folder / f"{neighbours}-{unit}" / f"{release}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([text, columns, releases[release]]))


def _parts(folder: Path) -> tuple[str, str, dict[str, str]]:
    """Return the first table of a study file, its columns, and each release."""
    tables = re.split(r"(?m)^(?=\[)", (folder / "study.toml").read_text())
    named = {table.partition("]")[0].removeprefix("["): table for table in tables if table.strip()}
    releases = {name.removeprefix("release."): text for name, text in named.items() if name.startswith("release.")}
    return named["study"], named["columns"], releases


def studies(folder: Path) -> Iterator[Case]:
    """Check and plan."""
    for neighbours, (unit, said) in product(RELATIONS, UNITS.items()):
        told = said.strip('"{} ').replace(" ", "").replace('"', "")
        line = f"ledger create {neighbours}-{unit}/patients.ledger --dataset x --unit {told} --neighbours {neighbours}"
        yield Case(f"{line} --budget epsilon=100,delta=1e-3", compared=False)
        for path in sorted((folder / f"{neighbours}-{unit}").glob("*.toml")):
            yield Case(f"check {neighbours}-{unit}/{path.name}")
    for kind, name in product(("replace-row", "add-remove-person"), PLANNED):
        yield Case(f"plan {kind}/{name}.toml", slow=(kind, name) == ("add-remove-person", "types"))
    yield Case("plan replace-row/readmission.toml --width 0.3")
    yield Case("plan add-remove-row/stay.toml --width 8", slow=True)


def posteriors(folder: Path) -> Iterator[str]:
    """Every release of both studies: as it is, plug-in, at another level, with another prior."""
    for path in sorted(folder.glob("*/*/release.json")) + sorted(folder.glob("*/python.json")):
        text, line = path.read_text(), f"posterior {path.relative_to(folder)}"
        yield line
        family = re.findall(r'"name": "([a-z-]+)"', text)[0]
        if family not in OTHER_PRIORS or '"draws":' in text:
            continue
        prior = "1,2,3,4" if path.parent.name == "wards" else OTHER_PRIORS[family]
        yield f"{line} --prior {prior} --level 0.5"
        yield f"{line} --plug-in"
        if family == "hmm":
            yield f"{line} --states 3 --sweeps 100"
            yield f"{line} --states 3 --sweeps 100 --plug-in"


def cases(folder: Path) -> Iterator[Case]:
    """Return every case; `folder` is one that `make_folder` has made."""
    for lines in (conversions(), calibrations(), curves(), regressions()):
        yield from map(Case, lines)
    yield from map(Case, posteriors(folder))
    yield from studies(folder)
    for name in QUICK + SLOW:
        yield Case(f"reproduce {name} --quick --output out", (f"out/{name}.json",), slow=name in SLOW)
