"""The scikit-learn estimators: time against LogisticRegression, memory, growth, and test error on public datasets.

The error needs Abalone and Adult as parquet files and MNIST's threes and eights: `--data DIR`, or the variable
VESTRY_DATA. Without them it is left out. Bounds and levels are those of the codebooks, written down here; nothing is
learnt from the files.
"""

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

GUARANTEE = "epsilon=1,delta=1e-6"
SHAPE = (32_561, 104)  # of Adult, with every level of its codebook an indicator
# The most that the mean test error of objective perturbation may be, at (1, 1e-6) and add-remove.
TARGETS = {"Abalone": 0.25, "Adult": 0.165}
MEASUREMENTS = {
    "length": (0, 1), "diameter": (0, 0.8), "height": (0, 0.5), "whole_weight": (0, 3), "shucked_weight": (0, 1.5),
    "viscera_weight": (0, 0.8), "shell_weight": (0, 1.2),
}  # fmt: skip
NUMBERS = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)}
AMOUNTS = {"capital_gain": 100_000, "capital_loss": 5_000}  # on a log scale
LEVELS = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "marital_status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent"
    " Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners"
    " Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native_country": "United-States",
}


def run(quick: bool = False, folder: str | None = None, runs: int | None = None) -> list[dict]:
    if any(importlib.util.find_spec(name) is None for name in ("sklearn", "numba")):
        print("skipped: the extra `glm` is not installed", file=sys.stderr)
        return []
    rows = [*against_sklearn(3 if quick else 7), memory(), *linear(), naive_bayes()]
    folder = folder or os.environ.get("VESTRY_DATA")
    if folder is None:
        print("skipped: test errors, which need --data DIR or VESTRY_DATA", file=sys.stderr)
        return rows
    return rows + errors(Path(folder), runs or (5 if quick else 50))


def learner(radius: float, max_rows: int, **options):
    from vestry.estimators import Ball, PrivateLogisticRegression

    options = {"guarantee": GUARANTEE, "method": "objective", **options}
    return PrivateLogisticRegression(
        bounds=Ball(radius), classes=(0, 1), ledger=None, neighbours="add-remove", max_rows=max_rows, **options
    )


def example(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return made-up rows of norm about 3, and outcomes that depend on them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, features)) * (3 / math.sqrt(features))
    chance = 1 / (1 + np.exp(-2 * x @ rng.standard_normal(features)))
    return x, (rng.random(rows) < chance).astype(int)


def naive_bayes() -> dict:
    """Time a million predictions of naive Bayes of five features against scikit-learn's, both from bins."""
    from sklearn.naive_bayes import CategoricalNB

    from vestry.estimators import PrivateNaiveBayes

    edges = [-4, -2, -1, 0, 1, 2, 4]
    x, y = example(1_000_000, 5)
    given = {"bins": edges, "classes": (0, 1), "prior": 1.0, "ledger": None, "neighbours": "add-remove"}
    ours = PrivateNaiveBayes("epsilon=1", **given).fit(x, y)
    peer = CategoricalNB().fit(np.searchsorted(edges[1:-1], x[:10_000]), y[:10_000])
    start = time.perf_counter()
    ours.predict_proba(x)
    middle = time.perf_counter()
    peer.predict_proba(np.searchsorted(edges[1:-1], x))
    own, theirs = middle - start, time.perf_counter() - middle
    named = {"name": "predict a million by naive Bayes", "value": own, "unit": "s"}
    return {**named, "ratio": own / theirs, "limit": 2, "peer": "scikit-learn's CategoricalNB"}


def against_sklearn(repeats: int) -> list[dict]:
    """Time all to one tolerance: a gradient of at most lam t proves that the minimum is within t.

    The peer that goes so far is newton-cholesky; lbfgs, the default, stops short of it. Times are those of the
    processor, of all threads together: neither a busy machine nor a second processor helps anyone. BLAS has one
    thread, since several wait for each other, and waiting counts.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    from vestry.estimators.bounds import Ball, encoder_of
    from vestry.privacy.guarantee import Guarantee
    from vestry.privacy.neighbours import Adjacency
    from vestry.regression.losses import Logistic
    from vestry.regression.objective_perturbation import objective_perturbation
    from vestry.regression.problem import LinearProblem

    found = []
    for name, (count, features) in (("Adult's shape", SHAPE), ("100,000 rows of 20", (100_000, 20))):
        x, y = example(count, features)
        private = learner(3.6, len(y)).fit(x, y)
        lam = private.release_.prior[0]
        norm = encoder_of(Ball(3.6), None, features=features, intercept=True).norm
        problem = LinearProblem(Logistic(), features + 1, norm, Adjacency("add-remove"), len(y))
        near = objective_perturbation(problem, Guarantee.parse(GUARANTEE), regularisation=lam).tolerance / 2
        options = {"C": 1 / lam, "tol": lam * near / len(y) / math.sqrt(features), "max_iter": 10_000}
        peers = [LogisticRegression(solver=solver, **options) for solver in ("newton-cholesky", "lbfgs")]
        with threadpool_limits(1):
            fits = [partial(model.fit, x, y) for model in (private, *peers)]
            ours, *theirs = best(repeats, *fits, clock=time.process_time)
        for peer, seconds, most in zip(peers, theirs, (1.0, None), strict=True):
            row = {"name": f"objective perturbation, {name}", "value": ours, "unit": "s", "ratio": ours / seconds}
            found.append({**row, "limit": most, "peer": f"{peer.solver}, the same tolerance, {seconds:.2f} s"})
    return found


def memory() -> dict:
    """Measure the peak of a process that makes rows and fits, less what its imports and a small fit take."""
    rows, features = 200_000, 100
    found = subprocess.run(
        [sys.executable, __file__, "--peak", str(rows), str(features)], capture_output=True, text=True, check=True
    )
    peak, size = float(found.stdout), 8 * rows * features
    return {"name": f"peak memory, {rows:,} rows of {features}", "value": peak / 2**20, "unit": "MiB",
            "ratio": peak / size, "limit": 2.5, "peer": f"the rows, {size / 2**20:.0f} MiB"}  # fmt: skip


def peak(rows: int, features: int) -> None:
    """Print how many bytes the rows and their fit add to the process."""
    x, y = example(100, features)
    learner(3.6, 100).fit(x, y)
    # Much regularised, gradients are quicker than records one by one: their loops are compiled too.
    learner(3.6, 100, regularisation=1e6).fit(x, y)
    before = resident()
    x = np.random.default_rng(0).random((rows, features))
    learner(3.6, rows).fit(x, np.arange(rows) % 2)
    learner(3.6, rows, regularisation=1e6).fit(x, np.arange(rows) % 2)
    print(resident("VmHWM") - before)


def resident(what: str = "VmRSS") -> int:
    """Return how many bytes the process has now, or had at most; a child's usage would count its parent's too."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[what].split()[0])


def linear() -> list[dict]:
    """Time growing numbers of rows, by the public rule; the ratio is of the time of a row to that at the start."""
    found, first = [], math.nan
    for count in (10_000, 100_000, 1_000_000):
        x, y = example(count, 20)
        model = learner(3.6, count)
        each = best(3 if count < 10**6 else 1, lambda model=model, x=x, y=y: model.fit(x, y))[0] / count
        first = each if math.isnan(first) else first
        found.append({"name": f"objective perturbation, {count:,} rows of 20", "value": 1e6 * each, "unit": "us/row",
                      "ratio": each / first, "limit": 2.0, "peer": "10,000 rows"})  # fmt: skip
    return found


def errors(folder: Path, runs: int) -> list[dict]:
    """Return the mean test error of each method by its public rule, and of LogisticRegression without privacy."""
    from sklearn.linear_model import LogisticRegression

    found = []
    for name, splits, radius in (
        ("Abalone", abalone(folder, runs), 2.0),
        ("Adult", adult(folder), math.sqrt(12)),
        ("MNIST 3 v 8", digits(folder), 10.0),
    ):
        models = {"not private": LogisticRegression(C=100.0, max_iter=10_000)}
        for method in ("objective", "posterior", "output"):
            models[method] = learner(radius, len(splits[0][1]), method=method)
        for method, model in models.items():
            count = len(splits) if method == "not private" else runs
            values = []
            for number in range(count):
                x, y, test, truth = splits[number % len(splits)]
                values.append(float(np.mean(model.fit(x, y).predict(test) != truth)))
                print(f"\r{name}, {method}: {number + 1} of {count}", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(count)) if count > 1 else 0.0
            row = {"name": f"test error, {name}, {method}", "value": mean, "unit": f"+-{error:.4f}"}
            if name in TARGETS:
                limit = 1.0 if method == "objective" else None
                row |= {"ratio": mean / TARGETS[name], "limit": limit}
            found.append({**row, "peer": f"{TARGETS.get(name, '')} {count} runs".strip()})
        x, y, test, truth = splits[0]
        found += peer(name, (x, y, test, truth), radius, runs)
    return found


def peer(name: str, split: tuple[np.ndarray, ...], radius: float, runs: int) -> list[dict]:
    """Return the test error of diffprivlib at its pure epsilon 1, where VESTRY_PEER names a Python that has it."""
    python = os.environ.get("VESTRY_PEER")
    if python is None:
        print("skipped: diffprivlib, which needs VESTRY_PEER, a Python that has it", file=sys.stderr)
        return []
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, **dict(zip(("x", "y", "test", "truth"), split, strict=True)))
        file.flush()
        script = Path(__file__).with_name("peer_diffprivlib.py")
        done = subprocess.run(
            [python, str(script), file.name, str(radius), "1.0", str(runs)], capture_output=True, text=True, check=True
        )
    told = json.loads(done.stdout)
    said = f"pure epsilon 1; {told['seconds']:.2f} s a fit"
    unit = f"+-{told['standard_error']:.4f}"
    return [{"name": f"test error, {name}, diffprivlib", "value": told["error"], "unit": unit, "peer": said}]


def abalone(folder: Path, runs: int) -> list[tuple[np.ndarray, ...]]:
    """Return splits of four fifths and one fifth: more than nine rings, by sex and seven measurements."""
    table = columns(folder / "abalone.parquet")
    x = np.column_stack(
        [*(scaled(table[name], *ends) for name, ends in MEASUREMENTS.items()), *(table["sex"] == s for s in "MFI")]
    )
    y, found = (table["rings"] >= 10).astype(int), []
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: len(y) * 4 // 5], order[len(y) * 4 // 5 :]
        found.append((x[train], y[train], x[test], y[test]))
    return found


def adult(folder: Path) -> list[tuple[np.ndarray, ...]]:
    """Return the one split that the dataset comes with: more than 50,000 a year."""
    table = columns(folder / "adult.parquet")
    x = np.column_stack(
        [
            *(scaled(table[name], *ends) for name, ends in NUMBERS.items()),
            *(np.log1p(np.clip(table[name], 0, most)) / np.log1p(most) for name, most in AMOUNTS.items()),
            *(table[name] == level for name, levels in LEVELS.items() for level in levels.split()),
        ]
    ).astype(float)
    y, train = (table["income"] == ">50K").astype(int), table["split"] == "train"
    return [(x[train], y[train], x[~train], y[~train])]


def digits(folder: Path) -> list[tuple[np.ndarray, ...]]:
    """Return threes and eights, pixels from 0 to 1; nothing if the file is not there."""
    data = np.load(folder / "mnist_3_8.npz")
    x, test = (data[f"x_{part}"].reshape(len(data[f"x_{part}"]), -1) / 255.0 for part in ("train", "test"))
    return [(x, (data["y_train"] == 8).astype(int), test, (data["y_test"] == 8).astype(int))]


def columns(path: Path) -> dict[str, np.ndarray]:
    import duckdb

    return {name: np.asarray(values) for name, values in duckdb.read_parquet(str(path)).fetchnumpy().items()}


def scaled(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.clip((values - low) / (high - low) * 2 - 1, -1, 1)


def best(repeats: int, *actions, clock=time.perf_counter) -> list[float]:
    """Return the best time of each action in seconds, taken in turn so that all see the same machine."""
    found = [math.inf] * len(actions)
    for _ in range(repeats):
        for place, action in enumerate(actions):
            start = clock()
            action()
            found[place] = min(found[place], clock() - start)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--data", help="the folder with abalone.parquet and adult.parquet")
    parser.add_argument("--runs", type=int, help="fits of each method")
    parser.add_argument("--peak", nargs=2, type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peak:
        peak(*asked.peak)
    else:
        from run import print_table

        print_table(run(quick=asked.quick, folder=asked.data, runs=asked.runs))
