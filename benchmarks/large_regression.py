"""Regressions at size: moments of ten columns against the same sums by hand in DuckDB; logistic rows kept on Spark.

Run alone for other sizes: `python benchmarks/large_regression.py --rows 100000000 --spark-rows 10000000`. The second
part starts Spark as `local-cluster[2,1,2048]`, two executors beside the driver, and is left out without pyspark or
Java.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS, QUICK_ROWS = 100_000_000, 2_000_000
SPARK_ROWS, QUICK_SPARK_ROWS = 10_000_000, 200_000
PIECE, ROUNDS = 5_000_000, 3
COLUMNS, FEATURES = 10, 20
MASTER = "local-cluster[2,1,2048]"
LIMIT_MB = 500
# What 1 has in units, as moments count.
HALF = 2**19


def run(quick: bool = False, rows: int | None = None, spark_rows: int | None = None) -> list[dict]:
    rows = rows or (QUICK_ROWS if quick else ROWS)
    spark_rows = spark_rows or (QUICK_SPARK_ROWS if quick else SPARK_ROWS)
    return [*moments(rows), *on_spark(spark_rows)]


def generate(folder: Path, rows: int, columns: dict[str, str]) -> None:
    """Write pieces of a table, the same each time: a column is an expression of the record's number i."""
    import duckdb

    chosen = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        for piece, start in enumerate(range(0, rows, PIECE)):
            numbers = f"range({start}, {min(start + PIECE, rows)}) t(i)"
            connection.execute(f"COPY (SELECT {chosen} FROM {numbers}) TO '{folder}/{piece}.parquet'")


# --- moments ----------------------------------------------------------------------------------------------------------


def ends(place: int) -> tuple[float, float]:
    """Return the declared interval of a column."""
    return -5.0 * place, 60.0 + place


def moments(rows: int) -> list[dict]:
    """Time the sums of all products of ten columns, in turns, so that whatever else runs falls on both alike."""
    columns = {f"x{k}": f"(hash(i, {k}) % {75_000 + 7_000 * k}) / 1000.0 - {5 * k + 5}" for k in range(COLUMNS)}
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-large-") as folder:
        generate(Path(folder), rows, columns)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**30
        pattern, found, times, work = f"{folder}/*.parquet", {}, {"hand": [], "vestry": []}, {"hand": [], "vestry": []}
        by_vestry(f"{folder}/0.parquet")
        for _ in range(ROUNDS):
            for name, action in (("hand", by_hand), ("vestry", by_vestry)):
                start, busy = time.perf_counter(), time.process_time()
                found[name] = action(pattern)
                times[name].append(time.perf_counter() - start)
                work[name].append(time.process_time() - busy)
                print(f"{name}: {times[name][-1]:.1f} s, processor {work[name][-1]:.1f} s", file=sys.stderr, flush=True)
    if found["hand"] != found["vestry"]:
        sys.exit("the moments by hand and by Vestry differ")
    hand, ours = (statistics.median(times[name]) for name in ("hand", "vestry"))
    ratio = statistics.median(a / b for a, b in zip(times["vestry"], times["hand"], strict=True))
    by_hand_s, ours_s = (statistics.median(work[name]) for name in ("hand", "vestry"))
    peer = f"the same sums by hand in DuckDB, {hand:.3g} s; {size:.1f} GiB, load {os.getloadavg()[0]:.1f}"
    name, processor = f"moments, {rows:,} rows of {COLUMNS} columns", f"by hand, {by_hand_s:.3g} s"
    return [
        {"name": name, "value": ours, "unit": "s", "ratio": ratio, "limit": 1.3, "peer": peer},
        {"name": f"{name}, processor", "value": ours_s, "unit": "s", "ratio": ours_s / by_hand_s, "peer": processor},
    ]


def by_vestry(pattern: str) -> list[int]:
    from vestry import Interval, Table
    from vestry.regression.moments import Moments
    from vestry.schema.private import reveal

    domains = {f"x{k}": Interval(*ends(k)) for k in range(COLUMNS)}
    tally = Moments.of(tuple(domains), domains).tally(count=True)
    table = Table(pattern, domains, neighbours="add-remove", max_rows=10**9)
    return list(reveal(table.collect(tally, row_key="benchmark")))


def by_hand(pattern: str) -> list[int]:
    """Sum the upper triangle of bounded, rounded values, as somebody would write it who knows what is summed."""
    import duckdb

    middles, reaches = zip(
        *(((low + high) / 2, (high - low) / 2) for low, high in map(ends, range(COLUMNS))), strict=True
    )
    bounded = [
        f"CASE WHEN x{k} IS NULL OR isnan(x{k}) THEN {low} ELSE greatest(least(x{k}, {high}), {low}) END"
        f" - {middles[k]} AS z{k}"
        for k, (low, high) in enumerate(map(ends, range(COLUMNS)))
    ]
    sums = [f"sum(floor(z{k} / {reaches[k] / HALF!r} + 0.5)::BIGINT)" for k in range(COLUMNS)]
    sums += [
        f"sum(floor(z{j} * z{k} / {reaches[j] * reaches[k] / HALF!r} + 0.5)::BIGINT)"
        for j in range(COLUMNS)
        for k in range(j, COLUMNS)
    ]
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        inner = f"SELECT {', '.join(bounded)} FROM read_parquet('{pattern}')"
        found = connection.execute(f"SELECT {', '.join(sums)}, count(*) * {HALF} FROM ({inner})").fetchone()
    return [int(value) for value in found]


# --- rows on Spark ----------------------------------------------------------------------------------------------------


def on_spark(rows: int) -> list[dict]:
    """Measure a minimum over rows that stay on executors, in a driver of its own, and the same in memory in another."""
    if importlib.util.find_spec("pyspark") is None or (shutil.which("java") is None and "JAVA_HOME" not in os.environ):
        print("skipped: logistic rows on Spark, which need pyspark and Java", file=sys.stderr)
        return []
    columns = {f"x{k}": f"(hash(i, {k}) % 2001) / 1000.0 - 1" for k in range(FEATURES)}
    eta = " + ".join(f"{(-1) ** k * (1 + k) / FEATURES} * ({columns[f'x{k}']})" for k in range(FEATURES))
    chance = f"1 / (1 + exp(-({eta})))"
    columns["y"] = f"CASE WHEN (hash(i, 99) % 1000000) / 1e6 < {chance} THEN 'yes' ELSE 'no' END"
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-large-") as folder:
        table = Path(folder) / "rows"
        table.mkdir()
        generate(table, rows, columns)
        here, there = (_measured(place, str(table), rows) for place in ("memory", "spark"))
    apart = sum((a - b) ** 2 for a, b in zip(here["theta"], there["theta"], strict=True)) ** 0.5
    named, load = f"logistic rows on Spark, {rows:,} by {FEATURES}", f"load {os.getloadavg()[0]:.1f}"
    passes = f"{there['passes']} passes, {MASTER}, {load}"
    return [
        {"name": f"{named}, driver's memory", "value": there["peak_mb"], "unit": "MB",
         "ratio": there["peak_mb"] / LIMIT_MB, "limit": 1.0, "peer": f"{LIMIT_MB} MB, peak of the Python driver"},
        {"name": f"{named}, time", "value": there["seconds"], "unit": "s",
         "ratio": there["seconds"] / here["seconds"], "peer": f"in memory, {here['seconds']:.3g} s; {passes}"},
        {"name": f"{named}, distance", "value": apart, "unit": "",
         "ratio": apart / (2 * there["tolerance"]), "limit": 1.0,
         "peer": f"the minimum in memory; each certified to {there['tolerance']:.2g}"},
    ]  # fmt: skip


def _measured(place: str, folder: str, rows: int) -> dict:
    """Run one side in a process of its own."""
    command = [sys.executable, __file__, "--measure", place, folder, str(rows)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def measure(place: str, folder: str, rows: int) -> None:
    """Minimise the objective of a release over the rows; print where the minimum is, and what it took."""
    import numpy as np

    from vestry import Interval, Levels, Table
    from vestry.data import spark_rows
    from vestry.privacy.guarantee import Guarantee
    from vestry.privacy.neighbours import Adjacency
    from vestry.regression.certified_minimum import RidgeObjective
    from vestry.regression.losses import Logistic
    from vestry.regression.method import regression
    from vestry.regression.problem import LinearProblem
    from vestry.schema.design_matrix import Design
    from vestry.schema.private import reveal_rows

    domains = {**{f"x{k}": Interval(-1, 1) for k in range(FEATURES)}, "y": Levels("no", "yes")}
    design = Design(tuple(f"x{k}" for k in range(FEATURES)), domains, "y", "yes")
    problem = LinearProblem(Logistic(), FEATURES + 1, design.norm, Adjacency("add-remove"), rows)
    made = regression(problem, Guarantee.parse("epsilon=1,delta=1e-6"), method="objective")
    # The random term of a release, of a size that it has, the same on both sides.
    linear = np.random.default_rng(0).normal(0, made.scale, FEATURES + 1)
    objective = RidgeObjective(problem, made.regularisation, 2 * float(np.linalg.norm(linear)))
    near = max(made.tolerance, objective.finest)
    passes, sums = [], spark_rows.SparkRows.sums

    def counted(self, function):
        passes.append(function)
        print(f"pass {len(passes)}", file=sys.stderr, flush=True)
        return sums(self, function)

    spark_rows.SparkRows.sums = counted
    session = started(folder) if place == "spark" else None
    data = f"pyspark://{folder}" if place == "spark" else f"{folder}/*.parquet"
    start = time.perf_counter()
    found = reveal_rows(
        Table(data, domains, neighbours="add-remove", max_rows=rows).rows(design, row_key="k", stay=True)
    )
    theta = objective.minimum(found, linear, near, stream=np.random.default_rng(0), device="cpu")
    seconds = time.perf_counter() - start
    told = {"theta": theta.tolist(), "seconds": seconds, "peak_mb": peak_mb(), "passes": len(passes)}
    print(json.dumps({**told, "tolerance": near}))
    if session is not None:
        session.stop()


def started(folder: str):
    """Start Spark with two executors of one core and 2 GiB each, in processes of their own."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(Path(folder).parent / "local"),
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def peak_mb() -> float:
    """Return this process's own peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=QUICK_ROWS)
    parser.add_argument("--spark-rows", type=int, default=QUICK_SPARK_ROWS)
    parser.add_argument("--only", choices=("moments", "spark"), help="one of the two parts")
    parser.add_argument("--measure", nargs=3, metavar=("SIDE", "FOLDER", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        place, folder, rows = given.measure
        measure(place, folder, int(rows))
        return
    found = [] if given.only == "spark" else moments(given.rows)
    found += [] if given.only == "moments" else on_spark(given.spark_rows)
    for row in found:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
