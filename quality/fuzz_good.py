"""A folder of good files for `fuzz.py`: studies, releases of every family with a certificate, and a ledger."""

# ruff: noqa: E501 - tables
from __future__ import annotations

import contextlib
import hashlib
import io
import json
from pathlib import Path

# The head of each good ledger, by its name, once the folder is made.
HEAD: dict[str, str] = {}

EVERY = """
[study]
name = "every model"
data = "patients.csv"
unit = { person = "patient_id", rows = 3 }
neighbours = "replace"
budget = { epsilon = 20.0, delta = 1e-6 }
ledger = "every.ledger"
dataset = "patients"
expected_rows = 2000
max_rows = 1000000

[columns]
readmitted = { levels = ["no", "yes"] }
ward = { levels = ["A", "B", "C", "D"], missing = "level" }
stay_days = { interval = [0, 60], missing = { value = 0 } }
visits = { interval = [0, 12] }
side = { levels = ["left", "right"] }

[release.share]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
by = "ward"
prior = [1, 1]
spend = { epsilon = 0.3 }

[release.wards]
model = "dirichlet-categorical"
column = "ward"
spend = { rho = 0.02 }
purpose = "yearly report"

[release.stay]
model = "normal-mean"
column = ["stay_days"]
variance = 50
prior = [10, 100]
spend = { epsilon = 0.2 }

[release.spread]
model = "normal-inverse-gamma"
column = "stay_days"
prior = [10, 1, 2, 50]
spend = { mu = 0.2 }

[release.drawn]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
mechanism = "diffused"
draws = 2
prior = [6, 12]
spend = { epsilon = 1.0, delta = 1e-7 }

[release.truncated]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
mechanism = "ops"
draws = 1
truncation = 0.05
spend = { epsilon = 1.0 }

[release.classes]
model = "naive-bayes"
features = ["ward"]
target = "readmitted"
spend = { epsilon = 0.5 }

[release.states]
model = "hmm"
sequence = { region = "ward", time = "readmitted" }
features = ["side"]
states = 2
spend = { epsilon = 0.5 }

[release.odds]
model = "logistic"
outcome = "readmitted"
success = "yes"
predictors = ["stay_days", "ward"]
spend = { epsilon = 1.0, delta = 1e-7 }

[release.line]
model = "linear"
outcome = "stay_days"
predictors = ["ward"]
method = "output"
spend = { epsilon = 1.0, delta = 1e-7 }
"""


def make_good_folder(folder: Path) -> None:
    """Write everything; nothing is released from data, the releases are made by hand."""
    from vestry.cli.init_command import init
    from vestry.ledger import Ledger

    with contextlib.redirect_stdout(io.StringIO()):
        init(folder)
    ledger = Ledger.open(folder / "patients.ledger")
    for place in range(9):
        charge = ledger.charge("epsilon=0.01", purpose=f"charge {place}")
        if place % 2:
            charge.open().released(b"a release")
    HEAD["patients.ledger"] = ledger.head()
    (folder / "every.toml").write_text(EVERY, encoding="utf-8")
    for name, text in _releases().items():
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    (folder / "readmission").mkdir()
    release = (folder / "beta-bernoulli.json").read_text(encoding="utf-8")
    (folder / "readmission" / "release.json").write_text(release, encoding="utf-8")
    (folder / "readmission" / "certificate.json").write_text(_facts(release), encoding="utf-8")


def _facts(release: str) -> str:
    return json.dumps(
        {
            "certificate": json.loads(release)["certificate"],
            "release": "readmission",
            "question": "The probability that readmitted is yes, by ward",
            "purpose": "The probability that readmitted is yes, by ward",
            "ledger": "patients.ledger",
            "entry": 2,
            "spent": "epsilon=0.3",
            "remaining": "epsilon=0.7",
            "release_sha256": hashlib.sha256(release.encode()).hexdigest(),
        }
    )


def _releases() -> dict[str, str]:
    from vestry.releases import Certificate, Draws, NoisyStatistics, Release

    guarantee = {"epsilon": 0.3, "neighbours": "add-remove"}
    ran = {"kind": "discrete-laplace", "count": 1, "neighbours": "add-remove", "scale": 10 / 3, "sensitivity": 1}
    people = {"neighbours": "add-remove", "rows": 1, "count": "private", "groups": 1}
    versions = {"python": "3.11.2", "vestry": "0.1.0", "opendp": "0.16.0"}
    claim = Certificate(guarantee, ran, "laplace", "scale", 10 / 3, "[DworkMNS06]", "row", people, (), versions)

    def noisy(names: str, *values: int, count: int | None = None, grid: float = 1.0, scale: float = 10 / 3) -> object:
        named = tuple(names.split())
        return NoisyStatistics(named, values, "discrete-laplace", scale, grid, count, 1.0 if grid == 1 else 2**-19)

    ends = {"low": 0.0, "high": 60.0}
    grid = 60 / 2**20
    wards = {name: noisy("successes failures", 61 + place, 423 - 9 * place) for place, name in enumerate("ABCD")}
    features = {"features": ["type", "size"], "levels": [["a", "b", "c"], ["s", "l"]]}
    table = "type=a type=b type=c size=s size=l"
    made = {
        "beta-bernoulli": Release({"name": "beta-bernoulli"}, (1.0, 1.0), wards, claim, "ward"),
        "public-count": Release({"name": "beta-bernoulli"}, (1.0, 1.0), {"all": noisy("successes", 61, count=400)}, claim),
        "dirichlet-categorical": Release(
            {"name": "dirichlet-categorical", "categories": 3}, (1.0,) * 3, {"all": noisy("a b c", 41, 66, -2)}, claim,
            None, ("a", "b", "c"),
        ),
        "normal-mean": Release(
            {"name": "normal-mean", "variance": 50.0, **ends, "dimension": 1}, (10.0, 100.0),
            {"all": noisy("sum count", -21_100_000, 752_000_000, grid=grid, scale=2**20 / 0.2)}, claim,
        ),
        "normal-inverse-gamma": Release(
            {"name": "normal-inverse-gamma", **ends}, (10.0, 1.0, 2.0, 50.0),
            {"all": noisy("sum squares", -21_100_000, 400_000_000, count=1500, grid=grid, scale=2**20 / 0.2)}, claim,
        ),
        "gamma-poisson": Release(
            {"name": "gamma-poisson", "low": 0.0, "high": 9.0}, (2.0, 1.0), {"all": noisy("sum", 4000, count=900)}, claim
        ),
        "gamma-exponential": Release(
            {"name": "gamma-exponential", "low": 0.1, "high": 20.0}, (2.0, 1.0),
            {"all": noisy("sum", -30_000_000, count=900, grid=19.9 / 2**20, scale=1e6)}, claim,
        ),
        "naive-bayes": Release(
            {"name": "naive-bayes", "target": "class", "classes": ["x", "y"], **features}, (1.0,),
            {"x": noisy(table, 30, 20, 10, 33, 28), "y": noisy(table, 9, 44, 3, 20, 31)}, claim, "class",
            ("this class", "type: a", "type: b", "type: c", "size: s", "size: l"),
        ),
        "hmm": Release(
            {"name": "hmm", "states": 2, "cell": "private", "sequence": {"region": "r", "time": "t"}, "regions": ["n", "s"],
             "times": ["1", "2", "3"], **features, "totals": False}, (1.0, 1.0),
            {"n": noisy("c" + " c" * 14, *range(15)), "s": noisy("c" + " c" * 14, *range(15, 0, -1))}, claim, "r",
            ("type: a", "type: b", "type: c", "size: s", "size: l"),
        ),
        "linear": Release(
            {"name": "linear", "method": "posterior", "loss": {"name": "huber", "threshold": 0.25},
             "features": ["age", "ward=B", "intercept"], "classes": [], "intercept": True, "scales": [[50.0, 40.0], None],
             "outcome": [30.0, 30.0]}, (0.001,), {"all": Draws(((0.1, 0.2, -0.3), (0.15, 0.1, -0.2)))}, claim, None,
            ("age", "ward=B", "intercept"),
        ),
        "draws": Release({"name": "beta-bernoulli"}, (6.0, 12.0), {"all": Draws(((0.17,), (0.2,), (0.15,)))}, claim),
    }  # fmt: skip
    return {name: release.text() for name, release in made.items()}
