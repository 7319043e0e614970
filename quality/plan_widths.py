"""Whether the widths that `plan` expects are those of real releases, for every model; it goes on where it stopped.

    python quality/plan_widths.py --releases 200        # every case, up to so many releases each
    python quality/plan_widths.py --show                # the table of what has been found, and a verdict

A case is a model with a guarantee and a number of records. Release i draws parameters and records as a plan supposes
them (from the prior; what a plan supposes where there is none stands in its model's `forecast`), groups of one size,
writes them into a data frame, and releases it as a user would: with a ledger and noise from the operating system. Its
width is the mean over the intervals that a plan looks at. Parameters of one number are spread evenly over the prior.
The mean over all releases, divided by the plan's width, must lie between 0.85 and 1.15. The plan is asked anew each
time; `plan_widths.json` holds what was released. Draws have no interval: what is compared is 3.29 standard deviations
of a release's draws. Estimates of regressions over rows and hidden states have neither.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv, gammaincinv, ndtri

import vestry
from vestry import pipeline
from vestry.conjugate.sparse_dirichlet import SparsePrior
from vestry.model.request import WIDE, Request, averaged_model
from vestry.planning import best_forecast, compare_mechanisms
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.registry import MODELS
from vestry.schema.domain import domain_from
from vestry.schema.table_schema import TableSchema
from vestry.tables.bin_forecast import SUPPOSED
from vestry.tables.polya_tree import polya_tree

FILE = Path(__file__).with_name("plan_widths.json")
WITHIN, RELEASES = 0.15, 200
LOOKED_AT = 4
# A case runs so long before the next one has its turn, in seconds.
TURN_S = 30.0
WARDS, SEXES, GRADES = ["A", "B", "C"], ["f", "m"], ["mild", "some", "much"]
SITES, CODES = [f"s{place}" for place in range(8)], [f"c{place}" for place in range(80)]
DOMAINS = {
    "yes": domain_from({"levels": ["no", "yes"]}),
    "ward": domain_from({"levels": WARDS}),
    "sex": domain_from({"levels": SEXES}),
    "grade": domain_from({"levels": GRADES}),
    "site": domain_from({"levels": SITES}),
    "code": domain_from({"levels": CODES}),
    "days": domain_from({"interval": [0, 60]}),
    "visits": domain_from({"count": 20}),
    "wait": domain_from({"interval": [0.01, 60]}),
    "share": domain_from({"interval": [0, 1]}),
    "x": domain_from({"interval": [-1, 1]}),
    "w": domain_from({"interval": [-1, 1]}),
    "y": domain_from({"interval": [-1, 1]}),
}
Rng = np.random.Generator
Frame = dict[str, Any]
# Makes up n records; of parameters of one number, the third is where in the prior this release lies.
Make = Callable[[Rng, int, float], Frame]


def words(flags: np.ndarray) -> np.ndarray:
    """Return yes and no."""
    return np.where(flags, "yes", "no")


def proportion(rng: Rng, n: int, place: float) -> Frame:
    """Make up one proportion."""
    return {"yes": words(rng.random(n) < betaincinv(2, 3, place))}


def proportions(by: str, names: list[str]) -> Make:
    """Make up a proportion in each group."""

    def make(rng: Rng, n: int, place: float) -> Frame:
        group = np.arange(n) % len(names)
        return {"yes": words(rng.random(n) < rng.beta(2, 3, len(names))[group]), by: np.array(names)[group]}

    return make


def wards(rng: Rng, n: int, place: float) -> Frame:
    """Make up shares of wards."""
    return {"ward": rng.choice(WARDS, n, p=rng.dirichlet([1, 1, 1]))}


def codes(rng: Rng, n: int, place: float) -> Frame:
    """Make up shares of many levels, of which some never occur, from the default prior."""
    return {"code": rng.choice(CODES, n, p=SparsePrior(len(CODES)).draw(rng, 1)[0])}


def cells(rng: Rng, n: int, place: float) -> Frame:
    """Make up a table of wards and sexes, from the default prior."""
    which = rng.choice(6, n, p=SparsePrior(6).draw(rng, 1)[0])
    return {"ward": np.array(WARDS)[which // 2], "sex": np.array(SEXES)[which % 2]}


def known_cells(rng: Rng, n: int, place: float) -> Frame:
    """Make up a table of wards and grades, from a declared prior."""
    which = rng.choice(9, n, p=rng.dirichlet(np.ones(9)))
    return {"ward": np.array(WARDS)[which // 3], "grade": np.array(GRADES)[which % 3]}


def in_bins(bins: int) -> Make:
    """Make up values of so many bins of equal width, spread as a plan supposes."""

    def make(rng: Rng, n: int, place: float) -> Frame:
        shares = polya_tree(np.zeros(bins), None, count=None, alpha=SUPPOSED).shares
        which = rng.choice(bins, n, p=shares[rng.integers(len(shares))])
        return {"days": 60 * (which + rng.random(n)) / bins}

    return make


def mean(rng: Rng, n: int, place: float) -> Frame:
    """Make up a mean of known variance."""
    return {"days": rng.normal(30 + 5 * ndtri(place), math.sqrt(50), n)}


def means(rng: Rng, n: int, place: float) -> Frame:
    """Make up a mean of known variance at each site."""
    site = np.arange(n) % len(SITES)
    return {"days": rng.normal(rng.normal(30, 5, len(SITES))[site], math.sqrt(50)), "site": np.array(SITES)[site]}


def mean_and_variance(rng: Rng, n: int, place: float) -> Frame:
    """Make up a mean and a variance."""
    variance = 1000 / gammaincinv(20, place)
    return {"days": rng.normal(rng.normal(30, math.sqrt(variance)), math.sqrt(variance), n)}


def rate(rng: Rng, n: int, place: float) -> Frame:
    """Make up a rate of counts."""
    return {"visits": np.minimum(rng.poisson(gammaincinv(4, place) / 2, n), 20)}


def rates(rng: Rng, n: int, place: float) -> Frame:
    """Make up a rate of counts at each site."""
    site = np.arange(n) % len(SITES)
    return {"visits": np.minimum(rng.poisson(rng.gamma(4, 0.5, len(SITES))[site]), 20), "site": np.array(SITES)[site]}


def waiting(rng: Rng, n: int, place: float) -> Frame:
    """Make up a rate of times."""
    return {"wait": rng.exponential(20 / gammaincinv(4, place), n)}


def part(rng: Rng, n: int, place: float) -> Frame:
    """Make up numbers between 0 and 1 whose mean has the prior."""
    middle = betaincinv(2, 3, place)
    return {"share": rng.beta(4 * middle, 4 * (1 - middle), n)}


def classes(rng: Rng, n: int, place: float) -> Frame:
    """Make up two classes of one size and what they are like."""
    return _classes(rng, n, rng.dirichlet(np.ones(3), (2, 2)))


def unknown_classes(rng: Rng, n: int, place: float) -> Frame:
    """Make up two classes of one size, and what they are like from the default prior."""
    return _classes(rng, n, np.stack([SparsePrior(3).draw(rng, 2) for _ in range(2)]))


def _classes(rng: Rng, n: int, tables: np.ndarray) -> Frame:
    yes = np.arange(n) % 2
    ladders = np.cumsum(tables, axis=2)
    places = [np.minimum((rng.random(n)[:, None] > ladders[each][yes]).sum(axis=1), 2) for each in range(2)]
    return {"yes": words(yes == 1), "ward": np.array(WARDS)[places[0]], "grade": np.array(GRADES)[places[1]]}


def line(rng: Rng, n: int, place: float) -> Frame:
    """Make up a regression, as a plan does."""
    x = rng.uniform(-1, 1, n)
    return {"x": x, "y": _line(rng, np.column_stack([np.ones(n), x]))}


def lines(rng: Rng, n: int, place: float) -> Frame:
    """Make up a regression in each ward."""
    ward = np.arange(n) % 3
    x, y = rng.uniform(-1, 1, n), np.empty(n)
    for each in range(3):
        y[ward == each] = _line(rng, np.column_stack([np.ones((ward == each).sum()), x[ward == each]]))
    return {"x": x, "y": y, "ward": np.array(WARDS)[ward]}


def plane(rng: Rng, n: int, place: float) -> Frame:
    """Make up a regression on two numbers and a column of levels."""
    x, w, ward = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n), rng.integers(0, 3, n)
    features = np.column_stack([np.ones(n), x, w, ward == 1, ward == 2])
    return {"x": x, "w": w, "ward": np.array(WARDS)[ward], "y": _line(rng, features)}


def _line(rng: Rng, features: np.ndarray) -> np.ndarray:
    theta = rng.normal(0, 1, features.shape[1])
    theta *= min(1.0, 0.5 / (features @ theta).std())
    theta[0] = np.clip(theta[0], -0.5, 0.5)
    return features @ theta + rng.normal(0, 0.25, len(features))


def effects(rng: Rng, n: int, several: int) -> tuple[np.ndarray, Frame]:
    """Make up linear predictors of cells of ward and sex: coefficients of 0.5 or -0.5, as a plan does."""
    ward, sex = rng.integers(0, 3, n), rng.integers(0, 2, n)
    features = np.column_stack([ward == 1, ward == 2, sex == 1])
    frame = {"ward": np.array(WARDS)[ward], "sex": np.array(SEXES)[sex]}
    return features @ rng.choice([-0.5, 0.5], (3, several)), frame


def odds(rng: Rng, n: int, place: float) -> Frame:
    """Make up a logistic regression."""
    eta, frame = effects(rng, n, 1)
    return {**frame, "yes": words(rng.random(n) < 1 / (1 + np.exp(-eta[:, 0])))}


def grades(rng: Rng, n: int, place: float) -> Frame:
    """Make up a regression of several classes."""
    eta, frame = effects(rng, n, 2)
    shares = np.exp(np.column_stack([np.zeros(n), eta]))
    ladder = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    return {**frame, "grade": np.array(GRADES)[(rng.random(n)[:, None] > ladder[:, :2]).sum(axis=1)]}


def counts(rng: Rng, n: int, place: float) -> Frame:
    """Make up a Poisson regression."""
    eta, frame = effects(rng, n, 1)
    return {**frame, "visits": np.minimum(rng.poisson(5 * np.exp(eta[:, 0])), 20)}


def half_missing(rng: Rng, n: int, place: float) -> Frame:
    """Make up values of which half are missing, in every column."""
    yes, days = words(rng.random(n) < 0.5).astype(object), rng.uniform(0, 60, n)
    yes[rng.permutation(n)[: n // 2]] = None
    days[rng.permutation(n)[: n // 2]] = math.nan
    return {"yes": yes, "days": days}


# What of a release a plan looks at: its rows and the records made up, to widths of each kind.
Rows = list[dict[str, Any]]
Look = Callable[[Rows, Frame], list[float]]


def of_what(row: dict[str, Any]) -> str:
    """Return what a row is of: A for probability[A]."""
    return str(row["parameter"]).partition("[")[2].removesuffix("]")


def every(rows: Rows, made: Frame) -> list[float]:
    """Return the mean width of all parameters."""
    return [float(np.mean([_width(row) for row in rows]))]


def kinds(rows: Rows, made: Frame) -> list[float]:
    """Return the width of each parameter, which are of different kinds."""
    return [_width(row) for row in rows]


def first(rows: Rows, made: Frame) -> list[float]:
    """Return the mean width of the first cells of a table."""
    return every(rows[:LOOKED_AT], made)


def largest(*columns: str) -> Look:
    """Return the mean width of the largest levels, or cells, of those that occur."""

    def look(rows: Rows, made: Frame) -> list[float]:
        names = pd.Series([", ".join(cell) for cell in zip(*(made[each] for each in columns), strict=True)])
        kept = set(names.value_counts().index[:LOOKED_AT])
        return every([row for row in rows if of_what(row) in kept], made)

    return look


def largest_bins(rows: Rows, made: Frame) -> list[float]:
    """Return the mean width of the bins with the most records."""
    counts, _ = np.histogram(made["days"], len(rows), (0, 60))
    return every([rows[at] for at in np.argsort(-counts)[:LOOKED_AT]], made)


def tables(rows: Rows, made: Frame) -> list[float]:
    """Return the mean width of all but the classes' own probabilities."""
    return every([row for row in rows if ": " in of_what(row)], made)


def tables_that_occur(rows: Rows, made: Frame) -> list[float]:
    """Return the mean over tables of the mean width of the levels that occur."""
    frame, found = pd.DataFrame(made), []
    for group, part in frame.groupby("yes"):
        for column in ("ward", "grade"):
            kept = {f"{column}: {level}" for level in part[column].unique()}
            found += every([row for row in rows if row["group"] == group and of_what(row) in kept], made)
    return [float(np.mean(found))]


def missing(rows: Rows, made: Frame) -> list[float]:
    """Return the mean width of the shares of missing values."""
    return every([row for row in rows if of_what(row).endswith("missing")], made)


def coefficients(rows: Rows, made: Frame) -> list[float]:
    """Return the mean width of a regression's coefficients."""
    return every([row for row in rows if row["parameter"].startswith("coefficient")], made)


def slopes(rows: Rows, made: Frame) -> list[float]:
    """Return the same without intercepts."""
    return coefficients([row for row in rows if "intercept" not in row["parameter"]], made)


def _width(row: dict[str, Any]) -> float:
    return float(row["high"] - row["low"])


@dataclass(frozen=True)
class Asked:
    """A model, who makes up its records, what a plan looks at, and how many records and rows a person there are."""

    model: Any
    make: Make
    look: Look = every
    n: int = 1000
    rows: int = 1
    draws: int | None = None


def model(name: str, **keys: Any) -> Any:
    """Return a model by its name."""
    return MODELS[name](**keys)


def _beta(**keys: Any) -> Any:
    return model("beta-bernoulli", column="yes", success="yes", prior=(2, 3), **keys)


def _normal(**keys: Any) -> Any:
    return model("normal-mean", column="days", variance=50.0, prior=(30.0, 25.0), **keys)


def _poisson(**keys: Any) -> Any:
    return model("gamma-poisson", column="visits", prior=(4.0, 2.0), **keys)


def _linear(*predictors: str, **keys: Any) -> Any:
    return model("linear", outcome="y", predictors=predictors, method="moments", **keys)


def _by_table(name: str, outcome: str, **keys: Any) -> Any:
    return model(name, outcome=outcome, predictors=("ward", "sex"), method="table", **keys)


SPARSE = "dirichlet-categorical"
ASKED = {
    "proportion": Asked(_beta(), proportion),
    "categories": Asked(model(SPARSE, column="ward", prior=(1.0, 1.0, 1.0)), wards),
    "categories, 80 levels": Asked(model(SPARSE, column="code"), codes, largest("code"), 3000),
    "mean": Asked(_normal(), mean),
    "mean and variance": Asked(
        model("normal-inverse-gamma", column="days", prior=(30.0, 1.0, 20.0, 1000.0)), mean_and_variance, kinds),
    "rate": Asked(_poisson(), rate),
    "waiting": Asked(model("gamma-exponential", column="wait", prior=(4.0, 20.0)), waiting),
    "naive Bayes": Asked(
        model("naive-bayes", target="yes", features=("ward", "grade"), prior=1.0), classes, tables, 2000),
    "line": Asked(_linear("x"), line, coefficients, 20_000),
    "logistic by table": Asked(_by_table("logistic", "yes", success="yes"), odds, slopes, 3000),
    "Poisson by table": Asked(_by_table("poisson", "visits"), counts, slopes, 3000),
    "table": Asked(model("table", columns=("ward", "sex")), cells, largest("ward", "sex")),
    "count by ward": Asked(model("count", by="ward"), wards),
    "histogram": Asked(model("histogram", column="days", bins=12), in_bins(12), largest_bins, 2000),
    "quantiles": Asked(model("quantile", column="days", quantiles=(0.25, 0.5, 0.75), bins=30), in_bins(30), n=2000),
    "quality": Asked(model("quality", columns=("yes", "days")), half_missing, missing),
}  # fmt: skip
VARIANTS = {
    "proportions by ward": Asked(_beta(by="ward"), proportions("ward", WARDS)),
    "naive Bayes, default prior": Asked(
        model("naive-bayes", target="yes", features=("ward", "grade")), unknown_classes, tables_that_occur, 2000),
    "lines by ward": Asked(_linear("x", by="ward"), lines, coefficients, 60_000),
    "plane with levels": Asked(_linear("x", "w", "ward"), plane, coefficients, 20_000),
    "multinomial by table": Asked(_by_table("logistic", "grade"), grades, slopes, 3000),
    "table, known prior": Asked(model("table", columns=("ward", "grade"), prior=1.0), known_cells, first),
}  # fmt: skip
POOLED = {
    "proportions, 8 sites": Asked(_beta(by="site", pool=True), proportions("site", SITES), n=1600),
    "means, 8 sites": Asked(_normal(by="site", pool=True), means, n=1600),
    "rates, 8 sites": Asked(_poisson(by="site", pool=True), rates, n=8000),
}
PERSONS = {
    "proportion": Asked(_beta(), proportion, n=3000, rows=3),
    "categories": Asked(model(SPARSE, column="ward", prior=(1.0, 1.0, 1.0)), wards, n=3000, rows=3),
    "mean": Asked(_normal(), mean, n=3000, rows=3),
    "rate": Asked(_poisson(), rate, n=3000, rows=3),
    "line": Asked(_linear("x"), line, coefficients, 60_000, 3),
    "count by ward": Asked(model("count", by="ward", of="persons"), wards, n=3000, rows=3),
}
FOUND = {"levels that occur": Asked(model("levels", column="site"), means, n=4000)}
DRAWS = {
    "proportion": Asked(_beta(), proportion, draws=20),
    "mean": Asked(_normal(), mean, draws=20),
    "statistical query": Asked(model("statistical-query", column="share", prior=(2.0, 3.0)), part, draws=20),
}


@dataclass(frozen=True)
class Case:
    """What is asked, with a guarantee, of which neighbours."""

    asked: Asked
    spend: str
    neighbours: str

    @property
    def mechanism(self) -> str:
        """The noise, or how draws are made."""
        if self.asked.draws is not None:
            return "diffused"
        return "gaussian" if "delta" in self.spend else "laplace"


LITTLE, MUCH, GAUSSIAN = "epsilon=0.1", "epsilon=1", "epsilon=0.5,delta=1e-6"
SPENDS = ((LITTLE, "add-remove"), (MUCH, "replace"), (GAUSSIAN, "add-remove"))


def _cases() -> Iterator[tuple[str, Case]]:
    for kind, questions, spends in (
        ("", ASKED, SPENDS),
        ("", VARIANTS, SPENDS[1:]),
        ("pooled ", POOLED, SPENDS[1:]),
        ("persons: ", PERSONS, ((MUCH, "add-remove"), (GAUSSIAN, "add-remove"))),
        ("", FOUND, ((GAUSSIAN, "add-remove"), (GAUSSIAN, "replace"))),
        ("draws: ", DRAWS, ((GAUSSIAN, "replace"),)),
    ):
        for name, asked in questions.items():
            for spend, relation in spends:
                yield f"{kind}{name}; {spend}, {relation}", Case(asked, spend, relation)


CASES = dict(_cases())
# The step from one release's place in the prior to the next: their fractions fill (0, 1) evenly.
_STEP = (math.sqrt(5) - 1) / 2


def table_of(case: Case, made: Frame) -> vestry.Table:
    """Return the records made up; a person's rows are alike."""
    rows = case.asked.rows
    frame = pd.DataFrame({name: np.repeat(np.asarray(values), rows) for name, values in made.items()})
    columns = {name: DOMAINS[name] for name in frame}
    unit: Any = "row"
    if rows > 1:
        frame["person"] = np.arange(len(frame)) // rows
        unit = f"person=person,rows={rows}"
    return vestry.Table(frame, columns, unit=unit, neighbours=case.neighbours)


@cache
def planned(case: Case) -> tuple[float, ...]:
    """Return the widths that a plan expects of the mechanism that a release will take, one for each kind."""
    asked = case.asked
    unit = Unit("person", asked.rows) if asked.rows > 1 else Unit()
    schema = TableSchema(DOMAINS, unit, Neighbours.parse(case.neighbours))
    question = averaged_model(asked.model, unit, None, of_draws=asked.draws is not None)
    guarantee = Guarantee.parse(case.spend, neighbours=schema.neighbours)
    request = Request(question, guarantee, case.mechanism, asked.draws)
    found = best_forecast(compare_mechanisms(request, schema, expected_rows=asked.n))
    return (math.nan if found.width is None else found.width, *(each[1] for each in found.further))


def calibrate_once(request: Request, schema: TableSchema, count: int | None) -> Any:
    """Return what a release is calibrated to; all releases of a case are calibrated alike, which takes long."""
    key = request, schema.neighbours, schema.unit, count
    if key not in _CALIBRATED:
        _CALIBRATED[key] = _calibrate(request, schema, count)
    return _CALIBRATED[key]


_CALIBRATED: dict[Any, Any] = {}
_calibrate = pipeline.calibrate


def released(name: str, release: int, folder: Path) -> list[float]:
    """Make up records, release once, and return the widths, one for each kind of parameter."""
    case, rng = CASES[name], np.random.default_rng([zlib.crc32(name.encode()), release])
    asked, place = case.asked, folder / f"{time.monotonic_ns()}.ledger"
    made = asked.make(rng, asked.n // asked.rows, (0.5 + release * _STEP) % 1)
    table = table_of(case, made)
    ledger = vestry.Ledger.create(
        place, dataset="made up", unit=table.unit, neighbours=case.neighbours, budget=Guarantee.parse(case.spend)
    )
    found = vestry.release(
        asked.model, table, guarantee=case.spend, ledger=ledger, mechanism=case.mechanism, draws=asked.draws
    )
    place.unlink()
    if asked.draws is None:
        return asked.look(found.rows(), made)
    drawn = found.sample()["all"][:, :LOOKED_AT]
    unbiased = 1 - 1 / (4 * asked.draws)  # of a sample's deviation, for normal draws
    return [float(np.mean(WIDE * drawn.std(axis=0, ddof=1) / unbiased))]


def run(name: str, kept: dict[str, Any], releases: int, folder: Path) -> None:
    """Release until a case has so many, or its turn is over."""
    widths, end = kept.setdefault(name, []), time.monotonic() + TURN_S
    while len(widths) < releases and time.monotonic() < end:
        widths.append([float(f"{each:.6g}") for each in released(name, len(widths), folder)])
        save(kept)


def save(kept: dict[str, Any]) -> None:
    """Write what was found, a case a line, in one step."""
    lines_ = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in CASES if name in kept)
    other = FILE.with_suffix(".part")
    other.write_text(f"{{\n{lines_}\n}}\n")
    other.replace(FILE)


def show(kept: dict[str, Any]) -> int:
    """Print what was found, what is outside and a verdict; return the exit code."""
    print(f"{'case':<66} {'releases':>8} {'plan':>9} {'found':>9} {'ratio':>6} {'error':>6}")
    outside, short = [], []
    for name, case in CASES.items():
        widths = np.array(kept.get(name, []), dtype=float)
        if len(widths) < RELEASES:
            short.append(name)
        if not len(widths):
            continue
        for plan, own in zip(planned(case), widths.T, strict=True):
            ratio, error = own.mean() / plan, own.std() / math.sqrt(len(own)) / plan
            far = not abs(ratio - 1) <= WITHIN
            outside += [name] if far else []
            numbers = f"{len(own):>8} {plan:9.4g} {own.mean():9.4g} {ratio:6.3f} {error:6.3f}"
            print(f"{name:<66} {numbers}{'  OUTSIDE' if far else ''}")
    far, few = len(set(outside)), len(short)
    print(f"{len(CASES)} cases: {far} more than {WITHIN:.0%} off, {few} with fewer than {RELEASES} releases")
    return 1 if outside or short else 0


def main() -> None:
    """Release, and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=RELEASES)
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose names begin so")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    names = [name for name in CASES if name.startswith(tuple(given.only))]
    pipeline.calibrate = calibrate_once
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # ledgers of made-up data need no disk
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        while not given.show and any(len(kept.get(name, ())) < given.releases for name in names):
            for name in names:
                run(name, kept, given.releases, Path(folder))
    sys.exit(show(kept))


if __name__ == "__main__":
    main()
