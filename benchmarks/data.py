"""What a tally costs against the same sums by hand in DuckDB, and against pandas; and how much memory it takes.

Run alone for another size: `python benchmarks/data.py --rows 5000000`.
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS, QUICK_ROWS, PANDAS_ROWS = 100_000_000, 5_000_000, 5_000_000
PIECE = 5_000_000
ROUNDS = 3
GRID = 1 / 1024


def run(quick: bool = False, rows: int | None = None) -> list[dict]:
    rows = rows or (QUICK_ROWS if quick else ROWS)
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-data-") as folder:
        generate(Path(folder), rows)
        pattern = f"{folder}/*.parquet"
        times: dict[str, list[float]] = {"vestry": [], "hand": []}
        found = {}
        warm(pattern)
        # In turns, so that whatever else the machine does falls on both alike.
        for _ in range(ROUNDS):
            for name, action in (("hand", by_hand), ("vestry", by_vestry)):
                start = time.perf_counter()
                found[name] = action(pattern)
                times[name].append(time.perf_counter() - start)
        if found["hand"] != found["vestry"]:
            sys.exit("the sums by hand and by Vestry differ")
        hand_s, vestry_s = (statistics.median(times[name]) for name in ("hand", "vestry"))
        peaks = {name: measured(name, pattern)["peak_mb"] for name in ("hand", "vestry")}
        persons = measured("persons", f"{folder}/0.parquet")
        few = min(rows, PANDAS_ROWS)
        small = {name: measured(name, f"{folder}/0.parquet") for name in ("vestry", "pandas")}
        if small["vestry"]["sums"] != small["pandas"]["sums"]:
            sys.exit("the sums by pandas and by Vestry differ")
    return [
        {"name": f"data tally, {rows:,} rows of Parquet", "value": vestry_s, "unit": "s", "ratio": vestry_s / hand_s,
         "limit": 1.3, "peer": f"the same sums by hand in DuckDB, {hand_s:.3g} s"},
        {"name": f"data tally, peak memory, {rows:,} rows", "value": peaks["vestry"], "unit": "MB",
         "ratio": peaks["vestry"] / peaks["hand"], "peer": f"by hand in DuckDB, {peaks['hand']:.0f} MB"},
        {"name": f"data tally, {few:,} rows", "value": small["vestry"]["seconds"], "unit": "s",
         "ratio": small["vestry"]["seconds"] / small["pandas"]["seconds"], "limit": 1.0,
         "peer": f"pandas, {small['pandas']['seconds']:.3g} s"},
        {"name": f"data tally, peak memory, {few:,} rows", "value": small["vestry"]["peak_mb"], "unit": "MB",
         "ratio": small["vestry"]["peak_mb"] / small["pandas"]["peak_mb"], "limit": 1.0,
         "peer": f"pandas, {small['pandas']['peak_mb']:.0f} MB"},
        {"name": f"data tally, 2 rows a person, {few:,} rows", "value": persons["seconds"], "unit": "s",
         "ratio": persons["seconds"] / small["vestry"]["seconds"], "peer": "unit row"},
    ]  # fmt: skip


def generate(folder: Path, rows: int) -> None:
    """Write pieces of a table with missing, unknown and out-of-range values, the same each time."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        for piece, start in enumerate(range(0, rows, PIECE)):
            connection.execute(f"""
                COPY (
                    SELECT
                        hash(i) % ({rows} // 3) AS person,
                        CASE WHEN hash(i, 1) % 50 = 0 THEN NULL
                             ELSE substr('ABCDEFGHI', 1 + (hash(i, 2) % 9)::INT, 1) END AS ward,
                        CASE hash(i, 3) % 40 WHEN 0 THEN NULL WHEN 1 THEN 'nan'::DOUBLE WHEN 2 THEN 'inf'::DOUBLE
                             ELSE (hash(i, 4) % 70000) / 1000.0 - 5 END AS stay,
                        CASE WHEN hash(i, 5) % 5 = 0 THEN 'yes' ELSE 'no' END AS readmitted
                    FROM range({start}, {min(start + PIECE, rows)}) t(i)
                ) TO '{folder}/{piece}.parquet'
            """)


def by_vestry(pattern: str, unit: str = "row") -> list[int]:
    from vestry.data import Table
    from vestry.schema.domain import Interval, Levels
    from vestry.schema.private import reveal
    from vestry.schema.statistics import Count, Indicator, Product, Sum, SumQuery

    domains = {
        "ward": Levels(*"ABCDEFGH", missing="level"),
        "stay": Interval(0, 60),
        "readmitted": Levels("no", "yes"),
    }
    terms = (Count(), Indicator("readmitted", ("yes",)), Sum("stay", 0.0, GRID))
    terms += (Product(("stay", "stay"), (0.0, 0.0), GRID),)
    table = Table(pattern, domains, unit=unit, neighbours="add-remove", max_rows=10**9)
    return list(reveal(table.collect(SumQuery(("ward",), terms), row_key="benchmark")))


def by_hand(pattern: str) -> list[int]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        found = connection.execute(f"""
            SELECT cell, count(*), count(*) FILTER (readmitted = 'yes'), sum(floor(x / {GRID} + 0.5)::BIGINT),
                   sum(floor(x * x / {GRID} + 0.5)::BIGINT)
            FROM (
                SELECT CASE WHEN ward IN ('A', 'B', 'C', 'D', 'E', 'F', 'G', 'H') THEN ward ELSE 'missing' END AS cell,
                       CASE WHEN stay IS NULL OR isnan(stay) THEN 0 ELSE least(greatest(stay, 0), 60) END AS x,
                       readmitted
                FROM read_parquet('{pattern}')
            ) GROUP BY cell ORDER BY cell
        """).fetchall()
    return [int(value) for _, *sums in found for value in sums]


def by_pandas(pattern: str) -> list[int]:
    import numpy as np
    import pandas as pd

    frame = pd.read_parquet(pattern, columns=["ward", "stay", "readmitted"])
    cell = frame["ward"].where(frame["ward"].isin(list("ABCDEFGH")), "missing")
    x = frame["stay"].fillna(0).clip(0, 60)
    terms = pd.DataFrame(
        {
            "one": 1,
            "yes": (frame["readmitted"] == "yes").astype("int64"),
            "x": np.floor(x / GRID + 0.5).astype("int64"),
            "xx": np.floor(x * x / GRID + 0.5).astype("int64"),
        }
    )
    return [int(value) for row in terms.groupby(cell).sum().to_numpy() for value in row]


def warm(pattern: str) -> None:
    """Import both sides and bring the files into the page cache."""
    first = pattern.replace("*", "0")
    by_vestry(first)
    by_hand(pattern)


def measured(name: str, pattern: str) -> dict:
    """Run one side in a process of its own; return its sums, its time without imports, and its peak memory."""
    command = [sys.executable, __file__, "--measure", name, pattern]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(name: str, pattern: str) -> None:
    actions = {
        "vestry": by_vestry,
        "hand": by_hand,
        "pandas": by_pandas,
        "persons": lambda path: by_vestry(path, "person=person,rows=2"),
    }
    # Each side imports what it needs and no more: it counts in the memory, not in the time.
    importlib.import_module({"hand": "duckdb", "pandas": "pandas"}.get(name, "ibis"))
    start = time.perf_counter()
    sums = actions[name](pattern)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), "sums": sums}))


def peak_mb() -> float:
    """Return this process's own peak. Linux's ru_maxrss would not do: a child starts with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=QUICK_ROWS)
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "PATTERN"))
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
        return
    for row in run(rows=given.rows):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
