"""Whether the widths that `plan` expects are those of real releases, for every model; it goes on where it stopped.

    python quality/plan_widths.py --releases 200        # every case, up to so many releases each
    python quality/plan_widths.py --show                # the table of what has been found

A case is a model with a guarantee and a number of records. Release i draws parameters from the prior and records from
the model, groups of one size, writes them into a data frame, and releases it as a user would: with a ledger and noise
from the operating system. Its width is the mean over the intervals that a plan looks at. The mean over all releases,
divided by the plan's width, must lie between 0.85 and 1.15; what lies outside by less than three standard errors is
open until there are more releases. `plan_widths.json` holds what was found; the plan is asked anew each time.
Draws, regressions by draws and hidden states have no interval to compare.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import vestry
from vestry.model.request import Request, TableSchema, question_of
from vestry.planning import best_forecast, compare_mechanisms
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.registry import MODELS
from vestry.schema.domain import domain_from

FILE = Path(__file__).with_name("plan_widths.json")
WITHIN = 0.15
LOOKED_AT = 4
# A case runs so long before the next one has its turn, in seconds.
TURN_S = 20.0
WARDS, KINDS = ["A", "B", "C"], [f"k{place}" for place in range(12)]
DOMAINS = {
    "yes": domain_from({"levels": ["no", "yes"]}),
    "ward": domain_from({"levels": WARDS}),
    "kind": domain_from({"levels": KINDS}),
    "days": domain_from({"interval": [0, 60]}),
    "visits": domain_from({"count": 20}),
    "wait": domain_from({"interval": [0.01, 60]}),
    "x": domain_from({"interval": [-1, 1]}),
    "y": domain_from({"interval": [-1, 1]}),
}
Rng = np.random.Generator
Frame = dict[str, Any]


def words(flags: np.ndarray) -> list[str]:
    """Return yes and no."""
    return np.where(flags, "yes", "no").tolist()


def proportion(rng: Rng, n: int) -> Frame:
    """Make up one proportion."""
    return {"yes": words(rng.random(n) < rng.beta(2, 3))}


def proportions(rng: Rng, n: int) -> Frame:
    """Make up a proportion in each ward."""
    ward = rng.integers(0, 3, n)
    return {"yes": words(rng.random(n) < rng.beta(2, 3, 3)[ward]), "ward": np.array(WARDS)[ward].tolist()}


def wards(rng: Rng, n: int) -> Frame:
    """Make up shares of wards."""
    return {"ward": rng.choice(WARDS, n, p=rng.dirichlet([1, 1, 1])).tolist()}


def mean(rng: Rng, n: int) -> Frame:
    """Make up a mean of known variance."""
    return {"days": rng.normal(rng.normal(30, 5), math.sqrt(50), n)}


def mean_and_variance(rng: Rng, n: int) -> Frame:
    """Make up a mean and a variance."""
    variance = 1000 / rng.gamma(20)
    return {"days": rng.normal(rng.normal(30, math.sqrt(variance)), math.sqrt(variance), n)}


def rate(rng: Rng, n: int) -> Frame:
    """Make up a rate of counts."""
    return {"visits": np.minimum(rng.poisson(rng.gamma(4) / 2, n), 20)}


def waiting(rng: Rng, n: int) -> Frame:
    """Make up a rate of times."""
    return {"wait": rng.exponential(20 / rng.gamma(4), n)}


def classes(rng: Rng, n: int) -> Frame:
    """Make up two classes of one size and what they are like."""
    yes = rng.random(n) < 0.5
    kinds = rng.dirichlet(np.ones(3), 2)
    ward = np.array([rng.choice(WARDS, p=kinds[int(each)]) for each in yes])
    return {"yes": words(yes), "ward": ward.tolist()}


def line(rng: Rng, n: int) -> Frame:
    """Make up a regression, as a plan does."""
    x = rng.uniform(-1, 1, n)
    slope, start = np.clip(rng.normal(0, 1, 2), -0.5, 0.5)
    return {"x": x, "y": np.clip(start + slope * x + rng.normal(0, 0.25, n), -1, 1)}


def fitting(rng: Rng, n: int) -> Frame:
    """Make up values that fit what is declared."""
    return {"yes": words(rng.random(n) < 0.5), "days": rng.uniform(0, 60, n)}


@dataclass(frozen=True)
class Case:
    """A model, what it is asked with, and who makes up its records."""

    model: Any
    make: Callable[[Rng, int], Frame]
    spend: str
    neighbours: str
    n: int
    rows: int = 1


def model(name: str, **keys: Any) -> Any:
    """Return a model by its name."""
    return MODELS[name](**keys)


ASKED: dict[str, tuple[Any, Callable[[Rng, int], Frame]]] = {
    "proportion": (model("beta-bernoulli", column="yes", success="yes", prior=(2, 3)), proportion),
    "proportions": (model("beta-bernoulli", column="yes", success="yes", by="ward", prior=(2, 3)), proportions),
    "categories": (model("dirichlet-categorical", column="ward", prior=(1.0, 1.0, 1.0)), wards),
    "mean": (model("normal-mean", column="days", variance=50.0, prior=(30.0, 25.0)), mean),
    "mean and variance": (
        model("normal-inverse-gamma", column="days", prior=(30.0, 1.0, 20.0, 1000.0)), mean_and_variance),
    "rate": (model("gamma-poisson", column="visits", prior=(4.0, 2.0)), rate),
    "waiting": (model("gamma-exponential", column="wait", prior=(4.0, 20.0)), waiting),
    "classes": (model("naive-bayes", target="yes", features=("ward",), prior=1.0), classes),
    "line": (model("linear", outcome="y", predictors=("x",), method="moments"), line),
    "quality": (model("quality", columns=("yes", "days")), fitting),
}  # fmt: skip
SPENDS = {"laplace 0.1": "epsilon=0.1", "laplace 1": "epsilon=1", "gaussian": "epsilon=0.5,delta=1e-6"}
CASES = {
    f"{name}, {spent}, {relation}": Case(*ASKED[name], spend, relation, 20_000 if name == "line" else 1000)
    for name in ASKED
    for spent, spend in SPENDS.items()
    for relation in ("add-remove", "replace")
} | {
    f"persons: {name}, {spent}, add-remove": Case(*ASKED[name], spend, "add-remove", 3000, rows=3)
    for name in ("proportion", "proportions", "categories", "mean", "rate")
    for spent, spend in SPENDS.items()
}  # fmt: skip


def table_of(case: Case, rng: Rng) -> vestry.Table:
    """Make up the records; a person's rows are alike."""
    made = case.make(rng, case.n // case.rows)
    frame = pd.DataFrame({name: np.repeat(np.asarray(values), case.rows) for name, values in made.items()})
    columns = {name: DOMAINS[name] for name in frame}
    unit: Any = "row"
    if case.rows > 1:
        frame["person"] = np.repeat(np.arange(case.n // case.rows), case.rows)
        unit = f"person=person,rows={case.rows}"
    return vestry.Table(frame, columns, unit=unit, neighbours=case.neighbours)


def planned(case: Case, table: vestry.Table) -> dict[str, float]:
    """Return the widths that a plan expects of the mechanism that a release will take, by what they are of."""
    unit = Unit("person", case.rows) if case.rows > 1 else Unit()
    schema = TableSchema(table.columns, unit, Neighbours.parse(case.neighbours))
    asked, _ = question_of(case.model, unit, None, drawn=False)
    mechanism = "gaussian" if "delta" in case.spend else "laplace"
    request = Request(asked, Guarantee.parse(case.spend, neighbours=schema.neighbours), mechanism)
    found = best_forecast(compare_mechanisms(request, schema, expected_rows=case.n))
    return {"first": math.nan if found.width is None else found.width} | {each[0]: each[1] for each in found.further}


def released(case: Case, table: vestry.Table, folder: Path) -> list[float]:
    """Release once, and return the widths, one for each kind of parameter."""
    place = folder / f"{time.monotonic_ns()}.ledger"
    ledger = vestry.Ledger.create(
        place, dataset="made up", unit=table.unit, neighbours=case.neighbours, budget=Guarantee.parse(case.spend)
    )
    mechanism = "gaussian" if "delta" in case.spend else "laplace"
    found = vestry.release(case.model, table, guarantee=case.spend, ledger=ledger, mechanism=mechanism)
    place.unlink()
    rows = [row["high"] - row["low"] for row in found.rows()]
    if case.model.name == "linear":
        return [float(np.mean(rows[:-2]))]  # beside coefficients there are the residual spread and R squared
    if case.model.name == "normal-inverse-gamma":
        return rows
    return [float(np.mean(rows[:LOOKED_AT] if found.by is None else rows))]


def run(name: str, kept: dict[str, Any], releases: int, folder: Path) -> None:
    """Release until a case has so many, or its turn is over."""
    case, end = CASES[name], time.monotonic() + TURN_S
    record = kept.setdefault(name, {"planned": [], "widths": []})
    record["planned"] = list(planned(case, table_of(case, np.random.default_rng(0))).values())
    while len(record["widths"]) < releases and time.monotonic() < end:
        rng = np.random.default_rng([zlib.crc32(name.encode()), len(record["widths"])])
        table = table_of(case, rng)
        record["widths"].append(released(case, table, folder))
        FILE.write_text(json.dumps(kept, indent=1) + "\n")


def show(kept: dict[str, Any]) -> None:
    """Print what was found, and what is outside."""
    print(f"{'case':<48} {'releases':>8} {'plan':>9} {'found':>9} {'ratio':>6} {'error':>6}")
    for name, record in kept.items():
        widths = np.array(record["widths"], dtype=float)
        for plan, own in zip(record["planned"], widths.T, strict=False):
            found, error = own.mean(), own.std() / math.sqrt(len(own))
            ratio = 1.0 if plan == found == 0 else found / plan
            share = error / max(found, 1e-12)
            far = abs(ratio - 1) - WITHIN
            judged = "" if far <= 0 else "  open" if far <= 3 * share * ratio else "  OUTSIDE"
            numbers = f"{len(own):>8} {plan:9.4g} {found:9.4g} {ratio:6.3f} {share:6.3f}"
            print(f"{name:<48} {numbers}{judged}")


def main() -> None:
    """Release, and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    names = [name for name in CASES if given.only in name]
    with tempfile.TemporaryDirectory() as folder:
        while not given.show and any(len(kept.get(name, {"widths": ()})["widths"]) < given.releases for name in names):
            for name in names:
                run(name, kept, given.releases, Path(folder))
    for name, record in kept.items():
        record["planned"] = list(planned(CASES[name], table_of(CASES[name], np.random.default_rng(0))).values())
    FILE.write_text(json.dumps(kept, indent=1) + "\n")
    show(kept)


if __name__ == "__main__":
    main()
