"""What a CSV file of 300 columns costs against DuckDB's own reader, all text, the same columns; and how much memory.

Both sides give their columns to the same query in DuckDB, which reads every text. Run alone: `python
benchmarks/wide_csv.py`.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS, ROWS, QUICK_ROWS = 300, 50_000, 10_000
FEW = 3
ROUNDS = 5
MOST_MB = 500


def run(quick: bool = False) -> list[dict]:
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-csv-") as folder:
        plain, quoted = generate(Path(folder), QUICK_ROWS if quick else ROWS)
        rows = [
            *compared("csv, all of 300 columns", plain, COLUMNS, 1.5),
            *compared(f"csv, {FEW} of 300 columns", plain, FEW, 1.5),
            *compared("csv, all of 300 columns, quoted", quoted, COLUMNS, None),
        ]
        megabytes = Path(plain).stat().st_size / 1e6
        memory = measured("vestry", plain)
        peer = f"a limit of {MOST_MB} MB above the imports, for a file of {megabytes:.0f} MB"
        rows.append({"name": "csv, all of 300 columns, peak memory", "value": memory, "unit": "MB",
                     "ratio": memory / MOST_MB, "limit": 1.0, "peer": peer})  # fmt: skip
    return rows


def generate(folder: Path, rows: int) -> tuple[str, str]:
    """Write numbers and texts, some missing, the same each time: once plain, and once with every field in quotes."""
    import duckdb

    number = "CASE WHEN hash(i, {0}) % 20 = 0 THEN NULL ELSE (hash(i, {0}) % 100000) / 10.0 END AS c{0}"
    text = "'lv' || (hash(i, {0}) % 100) AS c{0}"
    columns = ", ".join((number if place % 2 else text).format(place) for place in range(COLUMNS))
    files = str(folder / "plain.csv"), str(folder / "quoted.csv")
    with duckdb.connect() as connection:
        for file, options in zip(files, ("HEADER", "HEADER, FORCE_QUOTE *"), strict=True):
            connection.execute(f"COPY (SELECT {columns} FROM range({rows}) t(i)) TO '{file}' ({options})")
    return files


def compared(name: str, file: str, columns: int, limit: float | None) -> list[dict]:
    """Time both sides in turns, so that whatever else the machine does falls on both alike."""
    times: dict[str, list[float]] = {"duckdb": [], "vestry": []}
    found = {}
    for _ in range(ROUNDS):
        for side, action in ACTIONS.items():
            start = time.perf_counter()
            found[side] = action(file, columns)
            times[side].append(time.perf_counter() - start)
    if found["duckdb"] != found["vestry"]:
        sys.exit("DuckDB and Vestry read different texts")
    seconds = {side: statistics.median(each) for side, each in times.items()}
    return [{"name": name, "value": seconds["vestry"], "unit": "s", "ratio": seconds["vestry"] / seconds["duckdb"],
             "limit": limit, "peer": f"DuckDB's own reader, {seconds['duckdb']:.3g} s"}]  # fmt: skip


def asked(columns: int) -> str:
    return "SELECT count(*), " + ", ".join(f"sum(strlen(c{place}))" for place in range(columns))


def by_duckdb(file: str, columns: int) -> list[tuple]:
    import duckdb

    with duckdb.connect() as connection:
        return connection.execute(
            f"{asked(columns)} FROM read_csv('{file}', all_varchar = true, header = true)"
        ).fetchall()


def by_vestry(file: str, columns: int) -> list[tuple]:
    import duckdb

    from vestry.data.csv_reader import read_csv

    with duckdb.connect() as connection:
        connection.register("records", read_csv(file, [f"c{place}" for place in range(columns)]))
        return connection.execute(f"{asked(columns)} FROM records").fetchall()


ACTIONS = {"duckdb": by_duckdb, "vestry": by_vestry}


def measured(side: str, file: str) -> float:
    """Run one side in a process of its own; return how far its peak memory is above its imports."""
    command = [sys.executable, __file__, "--measure", side, file]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(side: str, file: str) -> None:
    import duckdb  # noqa: F401
    import pyarrow.compute  # noqa: F401

    import vestry.data.csv_reader  # noqa: F401

    before = peak_mb()
    ACTIONS[side](file, COLUMNS)
    print(json.dumps(peak_mb() - before))


def peak_mb() -> float:
    """Return this process's own peak. Linux's ru_maxrss would not do: a child starts with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:4])
        return
    for row in run(quick="--quick" in sys.argv):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
