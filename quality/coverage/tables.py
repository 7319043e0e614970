"""Whether 90 % intervals of a regression by noisy tables hold the truth in nine of ten simulated studies.

    python quality/coverage/tables.py                  # each cell to 1,000 studies; goes on where it stopped
    python quality/coverage/tables.py --studies 100 logistic-24
    python quality/coverage/tables.py --show           # the table of what was run
    python quality/coverage/tables.py --adult 20       # releases of Adult at epsilon 1 and 0.1, beside exact counts

A study draws the predictors' levels, each column with shares from a Dirichlet distribution (concentration 3; `sparse`
0.5, so that many cells are empty), coefficients from the prior (sd .5, the intercept's 2, of counts .5; `fixed` cells
keep them at .5 and -.5 in turn and read with the default prior), the outcome, and the noise of the release. Then the
posterior is computed as a release is read. In every fifth study the table is also taken as exact (plug-in), and read
without noise. `tables.json` keeps, by cell: studies, refusals, and for each coefficient how often the interval held the
truth, and sums of widths.

Adult (Parquet, in the folder that VESTRY_DATA names): more than 50K by sex, four kinds of education, age by decades (to
29, 30s, 40s, 50s, from 60) and hours (to 34, 35 to 44, from 45; `forty`: to 39, 40, from 41); how wide intervals are
beside those of the exact table, and how often they hold its posterior mean.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vestry.mechanisms.additive_noise import calibrate_noise
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moments import LevelColumn
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_model import USUAL_PRECISION
from vestry.regression.table_reader import WIDER, TablePosterior, TableReader

RESULTS = Path(__file__).with_suffix(".json")
TAU, SAVED, COMPARED, HIGH = 0.5, 5, 5, 8


@dataclass(frozen=True)
class Cell:
    """One kind of study."""

    sizes: tuple[int, ...]
    n: int
    epsilon: float
    classes: int = 2
    noise: str = "discrete-laplace"
    concentration: float = 3.0
    neighbours: str = "add-remove"
    fixed: bool = False

    @property
    def reader(self) -> TableReader:
        """The additive regression on all columns; no classes are counts."""
        columns = tuple(LevelColumn(f"x{k}", tuple("abcdefgh"[:size])) for k, size in enumerate(self.sizes))
        classes = tuple((name, (name,)) for name in "abcdefgh"[: self.classes])
        table = OutcomeTable(columns, "y", classes, None if classes else HIGH)
        precision = USUAL_PRECISION if self.fixed else TAU**-2
        return TableReader(table, tuple((each.name,) for each in columns), precision)


FEW, MANY = (3, 4, 2), (2, 4, 5, 3)
CELLS = {
    "logistic-24": Cell(FEW, 2_000, 0.5),
    "logistic-24-n500": Cell(FEW, 500, 0.2),
    "logistic-24-sparse": Cell(FEW, 2_000, 0.1, concentration=0.5),
    "logistic-24-gaussian": Cell(FEW, 2_000, 0.5, noise="discrete-gaussian"),
    "logistic-24-replace": Cell(FEW, 2_000, 0.5, neighbours="replace"),
    "logistic-24-fixed": Cell(FEW, 2_000, 0.5, fixed=True),
    "multinomial-12": Cell((3, 4), 2_000, 0.5, classes=3),
    "multinomial-12-noisy": Cell((3, 4), 1_000, 0.1, classes=3),
    "poisson-24": Cell(FEW, 2_000, 0.5, classes=0),
    "poisson-24-noisy": Cell(FEW, 1_000, 0.2, classes=0),
    "logistic-120": Cell(MANY, 30_000, 1.0),
    "logistic-120-sparse": Cell(MANY, 10_000, 0.5, concentration=0.5),
}


def mechanism(cell: Cell) -> Any:
    """Return the release's mechanism, as a study would calibrate it."""
    adjacency = Adjacency("add-remove") if cell.neighbours == "add-remove" else Adjacency("replace", 1, cell.n)
    text = f"epsilon={cell.epsilon}" + ("" if "laplace" in cell.noise else ",delta=1e-6")
    return calibrate_noise(cell.noise, cell.reader.table.layout(adjacency), adjacency, Guarantee.parse(text))


def noise(run: Any, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return integer noise of the mechanism's scale."""
    if run.noise == "discrete-gaussian":
        return np.rint(rng.normal(0, run.scale, size))
    stop = -np.expm1(-1 / run.scale)
    return rng.geometric(stop, size) - rng.geometric(stop, size)


def study(cell: Cell, reader: TableReader, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the true coefficients and the exact table."""
    table, shares = reader.table, np.ones(1)
    for size in cell.sizes:
        shares = np.outer(shares, rng.dirichlet(np.full(size, cell.concentration))).ravel()
    records = rng.multinomial(cell.n, shares)
    d, linear = len(reader.features), max(1, cell.classes - 1)
    spread = np.append(np.full(d - 1, TAU), WIDER * TAU if cell.classes else TAU)
    theta = rng.normal(0, spread, (linear, d))
    if cell.fixed:
        theta = np.where(np.arange(d) % 2, -TAU, TAU) * np.ones((linear, 1))
    outcomes = reader.outcomes_at(theta.reshape(1, -1), table.cells)[0]
    if cell.classes:
        return theta.ravel(), np.array([rng.multinomial(*each) for each in zip(records, outcomes.T, strict=True)])
    sums = [np.minimum(rng.poisson(rate, n), HIGH).sum() for rate, n in zip(outcomes[0], records, strict=True)]
    return theta.ravel(), np.column_stack([records * table.units, sums])


def ends_of(found: Any, size: int) -> np.ndarray | None:
    """Return the ends of the coefficients' intervals; None if they are refused."""
    if not isinstance(found, TablePosterior):
        return None
    return np.quantile(found.theta[:, :size], [0.05, 0.95], axis=0)


def run_study(cell: Cell, run: Any, seed: list[int]) -> dict[str, Any]:
    """Return what one study adds to a cell's sums."""
    rng, reader = np.random.default_rng(seed), cell.reader
    theta, exact = study(cell, reader, rng)
    noisy = exact + noise(run, exact.shape, rng).astype(int)
    given = run.statistics(tuple(map(int, noisy.ravel())))
    made = {"aware": lambda: reader.noise_aware(given)}
    if seed[1] % COMPARED == 0:
        made["plug-in"] = lambda: reader.plug_in(given)
        made["exact"] = lambda: reader.plug_in(run.statistics(tuple(map(int, exact.ravel()))))
    record: dict[str, Any] = {"studies": 1, "refused": 0, "misfits": 0}
    for name, make in made.items():
        found = make()
        ends = ends_of(found, len(theta))
        record["refused"] += name == "aware" and ends is None
        record[f"{name}-studies"] = int(ends is not None)
        if ends is None:
            ends = np.full((2, len(theta)), np.nan)
        record[name] = ((ends[0] <= theta) & (theta <= ends[1])) * 1.0
        record[f"{name}-width"] = np.nan_to_num(ends[1] - ends[0])
        if name == "aware" and isinstance(found, TablePosterior):
            record["misfits"] = int(any(each.misfit for each in found.fit))
    if record.get("exact-studies") and record["aware-studies"]:
        record["ratios"] = float(np.mean(record["aware-width"] / record["exact-width"]))
    return record


def load() -> dict[str, Any]:
    """Return the sums so far."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def save(name: str, sums: dict[str, Any]) -> None:
    """Write a cell's sums beside the others'."""
    every = load()
    every[name] = {key: np.asarray(value).tolist() for key, value in sums.items()}
    RESULTS.write_text(json.dumps(every, indent=1) + "\n")


def run_cell(name: str, studies: int) -> None:
    """Bring a cell to so many studies, and save now and then."""
    cell, place = CELLS[name], list(CELLS).index(name)
    run = mechanism(cell)
    sums = {key: np.array(value) for key, value in load().get(name, {}).items()}
    for number in range(int(sums.get("studies", np.zeros(()))), studies):
        for key, value in run_study(cell, run, [place, number]).items():
            sums[key] = sums.get(key, 0) + np.array(value)
        if number % SAVED == SAVED - 1 or number == studies - 1:
            save(name, sums)


def show() -> None:
    """Print coverage and mean width of the coefficients, by cell."""
    print(f"{'cell':<24}{'studies':>8}{'refused':>8}{'misfit':>7}   cover  width  plug-in  x exact  of each")
    for name, sums in load().items():
        if name.startswith("adult"):
            print(name, {key: np.round(value, 3).tolist() for key, value in sums.items()})
            continue
        answered = max(1, sums["studies"] - sums["refused"])
        aware = np.array(sums["aware"]) / answered
        width, plug, ratio = np.mean(sums["aware-width"]) / answered, np.nan, np.nan
        if sums.get("exact-studies"):
            plug = np.mean(sums["plug-in"]) / max(1, sums["plug-in-studies"])
            ratio = sums.get("ratios", np.nan) / sums["exact-studies"]
        each = " ".join(f"{x:.2f}" for x in aware[:12])
        print(
            f"{name:<24}{sums['studies']:>8}{sums['refused']:>8}{sums['misfits']:>7}   {aware.mean():.3f} {width:>6.3f}"
            f"  {plug:>7.3f}  {ratio:>7.2f}  {each}"
        )


def adult_table(hours: tuple[int, int]) -> tuple[TableReader, np.ndarray]:
    """Return the regression of Adult with these edges of hours, and its exact table."""
    import pandas as pd

    frame = pd.read_parquet(Path(os.environ.get("VESTRY_DATA", "data")) / "adult.parquet")
    frame.columns = [name.strip().lower().replace("-", "_") for name in frame.columns]
    school = frame["education_num"].clip(1, 16)
    places = {
        "sex": (frame["sex"].astype(str).str.strip() == "Male").astype(int),
        "education": np.digitize(school, [9, 11, 13]),
        "age": np.digitize(frame["age"], [30, 40, 50, 60]),
        "hours": np.digitize(frame["hours_per_week"], hours),
    }
    rich = frame["income"].astype(str).str.contains(">50K").to_numpy().astype(int)
    columns = tuple(LevelColumn(name, tuple("abcde"[: int(each.max()) + 1])) for name, each in places.items())
    table = OutcomeTable(columns, "income", (("poor", ("poor",)), ("rich", ("rich",))))
    shape = tuple(len(each.levels) for each in columns)
    cell = np.ravel_multi_index(tuple(np.asarray(each) for each in places.values()), shape)
    counts = np.bincount(2 * cell + rich, minlength=table.size).reshape(-1, 2)
    return TableReader(table, tuple((each.name,) for each in columns), USUAL_PRECISION), counts


def exact_fit(reader: TableReader, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mode and width of 90 % intervals without noise, by Newton's method; of so many records it is normal."""
    x, prior = reader.table.features(reader.terms, reader.table.cells), reader.precisions
    theta, records = np.zeros(len(prior)), counts.sum(axis=1)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ theta))
        hessian = x.T @ (x * (records * p * (1 - p))[:, None]) + np.diag(prior)
        theta += np.linalg.solve(hessian, x.T @ (counts[:, 1] - records * p) - prior * theta)
    return theta, 3.29 * np.sqrt(np.diag(np.linalg.inv(hessian)))


def adult(releases: int) -> None:
    """Release Adult's table so many times, and compare with what the exact one says."""
    for name, hours, epsilon in (("", (35, 45), 1.0), ("", (35, 45), 0.1), ("-forty", (40, 41), 1.0)):
        reader, exact = adult_table(hours)
        adjacency = Adjacency("add-remove")
        layout = reader.table.layout(adjacency)
        run = calibrate_noise("discrete-laplace", layout, adjacency, Guarantee.parse(f"epsilon={epsilon}"))
        mean, width = exact_fit(reader, exact)
        held, ratios, rng = [], [], np.random.default_rng([int(10 * epsilon)])
        for _ in range(releases):
            noisy = exact + noise(run, exact.shape, rng).astype(int)
            ends = ends_of(reader.noise_aware(run.statistics(tuple(map(int, noisy.ravel())))), len(mean))
            if ends is not None:
                held.append((ends[0] <= mean) & (mean <= ends[1]))
                ratios.append((ends[1] - ends[0]) / width)
        record = {"releases": releases, "refused": releases - len(held), "holds": np.mean(held, axis=0)}
        save(f"adult-epsilon-{epsilon:g}{name}", {**record, "width_ratio": np.mean(ratios, axis=0)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Coverage of regression by noisy tables.")
    parser.add_argument("cells", nargs="*", help="all if none is named")
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--adult", type=int, default=0, metavar="RELEASES")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    if given.adult:
        adult(given.adult)
    elif not given.show:
        for each in given.cells or CELLS:
            run_cell(each, given.studies)
    show()
