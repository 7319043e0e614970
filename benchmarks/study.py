"""What a release costs beside its query: calibration, ledger, noise, posterior and files; and Spark against DuckDB."""

import importlib.util
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

STUDY = """
[study]
name = "bench"
data = "people.parquet"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 100.0, delta = 1e-6 }
ledger = "people.ledger"

[columns]
yes = { levels = ["n", "y"] }
ward = { levels = ["A", "B", "C", "D"] }

[release.first]
model = "beta-bernoulli"
column = "yes"
success = "y"
by = "ward"
spend = { epsilon = 0.5 }
"""


def run(quick: bool = False) -> list[dict]:
    return [overhead(3 if quick else 10), *against_spark(200_000 if quick else 2_000_000)]


def people(path: Path, size: int) -> None:
    rng = np.random.default_rng(1)
    yes, ward = (rng.choice(list(levels), size).tolist() for levels in ("ny", "ABCD"))
    parquet.write_table(pa.table({"yes": yes, "ward": ward}), path)


def overhead(rounds: int) -> dict:
    """Time a whole release through the study, and the query alone."""
    from vestry import Ledger, Study
    from vestry.study.release_costs import calibrated

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "study.toml").write_text(STUDY)
        people(folder / "people.parquet", 10_000)
        terms = {"dataset": "bench", "unit": "row", "neighbours": "add-remove", "budget": "epsilon=100,delta=1e-6"}
        Ledger.create(folder / "people.ledger", **terms)
        study = Study.open(folder / "study.toml")
        tally = calibrated(study.config, study.config.releases[0], None).tally
        study.release()
        whole, query = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            study.table.collect(tally, row_key="key")
            query.append(time.perf_counter() - start)
            start = time.perf_counter()
            study.release(again=True)
            whole.append(time.perf_counter() - start)
    release_s, query_s = statistics.median(whole), statistics.median(query)
    return {"name": "study release without its query", "value": (release_s - query_s) * 1e3, "unit": "ms",
            "ratio": release_s / query_s, "peer": f"the query of 10,000 rows, {query_s * 1e3:.0f} ms"}  # fmt: skip


def against_spark(size: int) -> list[dict]:
    if importlib.util.find_spec("pyspark") is None:
        return []
    from vestry import Levels, Table
    from vestry.schema.statistics import Count, Indicator, SumQuery

    columns = {"yes": Levels("n", "y"), "ward": Levels("A", "B", "C", "D")}
    tally = SumQuery(("ward",), (Indicator("yes", ("y",)), Count()))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "people.parquet"
        people(path, size)
        times = {}
        for kind, data in (("duckdb", str(path)), ("spark", f"pyspark://{path}")):
            table = Table(data, columns, neighbours="add-remove")
            table.collect(tally, row_key="key")  # starts the engine
            start = time.perf_counter()
            table.collect(tally, row_key="key")
            times[kind] = time.perf_counter() - start
    return [{"name": f"data tally on Spark, {size:,} rows", "value": times["spark"], "unit": "s",
             "ratio": times["spark"] / times["duckdb"], "peer": f"DuckDB, {times['duckdb']:.3g} s"}]  # fmt: skip
