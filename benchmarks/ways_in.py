"""What each way in costs: sums by group of the same records, against DuckDB's own SQL over the same Parquet file.

Time is the median of rounds in turns; memory is the peak of a process of its own, above what the imports take. Run
alone: `python benchmarks/ways_in.py`.
"""

import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS, QUICK_ROWS = 4_000_000, 400_000
ROUNDS = 3
WAYS = (
    "parquet", "folder", "arrow-file", "arrow-table", "arrow-dataset", "arrow-reader", "pandas", "polars",
    "polars-lazy", "duckdb-relation", "delta", "csv", "csv.gz",
)  # fmt: skip
PEER = """SELECT ward, count(*), sum(CAST(floor(greatest(least(stay, 60), 0) * 1000 + 0.5) AS BIGINT))
    FROM '{}' GROUP BY ward"""


def run(quick: bool = False) -> list[dict]:
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-ways-") as folder:
        generate(Path(folder), QUICK_ROWS if quick else ROWS)
        times = {way: [] for way in ("peer", *WAYS)}
        for _ in range(ROUNDS):
            for way in times:
                times[way].append(timed(folder, way))
        seconds = {way: statistics.median(each) for way, each in times.items()}
        return [row(folder, way, seconds) for way in WAYS]


def row(folder: str, way: str, seconds: dict[str, float]) -> dict:
    megabytes = float(subprocess.check_output([sys.executable, __file__, folder, way]))
    return {"name": f"way in: {way}, peak {megabytes:.0f} MB", "value": seconds[way], "unit": "s",
            "ratio": seconds[way] / seconds["peer"], "limit": None,
            "peer": f"SQL by hand over the Parquet file, {seconds['peer']:.3g} s"}  # fmt: skip


def generate(folder: Path, rows: int) -> None:
    """Write the same records once for every way."""
    import deltalake
    import duckdb
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    ward = "substr('ABCD', CAST(1 + hash(i) % 4 AS BIGINT), 1) AS ward"
    query = f"SELECT {ward}, (hash(i, 1) % 70000) / 1000.0 AS stay FROM range({rows}) t(i)"
    (folder / "parts").mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{folder / 'a.parquet'}'")
        connection.execute(f"COPY ({query}) TO '{folder / 'a.csv'}' (HEADER)")
    table = pq.read_table(folder / "a.parquet")
    for part in range(8):
        size = rows // 8
        pq.write_table(table.slice(part * size, size), folder / "parts" / f"{part}.parquet")
    feather.write_feather(table, str(folder / "a.arrow"), compression="uncompressed")
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes(), 1))
    deltalake.write_deltalake(str(folder / "delta"), table)


def opened(folder: Path, way: str):
    """Return what Vestry is given; what is in memory is put there first."""
    import pyarrow.parquet as pq

    file = folder / "a.parquet"
    match way:
        case "parquet" | "csv" | "csv.gz":
            return folder / f"a.{way}"
        case "folder":
            return folder / "parts"
        case "arrow-file":
            return folder / "a.arrow"
        case "arrow-table":
            return pq.read_table(file)
        case "arrow-dataset":
            import pyarrow.dataset as ds

            return ds.dataset(str(folder / "parts"))
        case "arrow-reader":
            return pq.read_table(file).to_reader()
        case "pandas":
            return pq.read_table(file).to_pandas()
        case "polars" | "polars-lazy":
            import polars

            return polars.read_parquet(file) if way == "polars" else polars.scan_parquet(file)
        case "duckdb-relation":
            import duckdb

            return duckdb.connect().read_parquet(str(file))
        case _:
            import deltalake

            return deltalake.DeltaTable(str(folder / "delta"))


def timed(folder: str, way: str) -> float:
    if way == "peer":
        import duckdb

        start = time.perf_counter()
        duckdb.connect().execute(PEER.format(Path(folder) / "a.parquet")).fetchall()
        return time.perf_counter() - start
    data = opened(Path(folder), way)
    start = time.perf_counter()
    ask(data)
    return time.perf_counter() - start


def ask(data) -> None:
    from vestry import Interval, Levels, Table
    from vestry.schema.statistics import Count, Sum, SumQuery

    table = Table(data, {"ward": Levels("A", "B", "C", "D"), "stay": Interval(0, 60)}, neighbours="add-remove")
    table.collect(SumQuery(("ward",), (Count(), Sum("stay", 0.0, 0.001))), row_key="k")


def peak(folder: str, way: str) -> float:
    """Return the peak of this process in MB, above what it takes once a small table was asked."""
    import pyarrow as pa

    ask(pa.table({"ward": ["A"], "stay": [1.0]}))
    data = opened(Path(folder), way)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew; ru_maxrss would begin with the parent's
    before = _status("VmRSS")
    ask(data)
    return _status("VmHWM") - before


def _status(name: str) -> float:
    """Return a number of the kernel's about this process, in MB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(peak(sys.argv[1], sys.argv[2]))
    else:
        print(json.dumps(run(), indent=2))
