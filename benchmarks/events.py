"""Event logs: naive Bayes counts against the same counts by hand, and what a posterior costs after the counts."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

ROWS, QUICK_ROWS, ROUNDS = 10_000_000, 1_000_000, 7
LEVELS = {
    "kind": ("battle", "raid", "find"),
    "civilians": ("no", "yes"),
    "side_a": ("no", "yes"),
    "side_b": ("no", "yes"),
    "region": tuple(f"r{i}" for i in range(8)),
    "month": tuple(f"m{i}" for i in range(24)),
}
FEATURES = ("kind", "civilians", "side_a", "side_b")


def run(quick: bool = False) -> list[dict]:
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-events-") as folder:
        large, small = (generate(Path(folder), count) for count in (rows, 10_000))
        ways = {"careful": by_careful_hand, "plain": by_plain_hand, "vestry": by_vestry}
        times: dict[str, list[float]] = {name: [] for name in ways}
        expected = by_vestry(large)  # imports
        for _ in range(ROUNDS):
            for name, action in ways.items():
                start = time.perf_counter()
                found = action(large)
                times[name].append(time.perf_counter() - start)
                if found != expected:
                    sys.exit("the counts differ")
        careful, plain, ours = (statistics.median(times[name]) for name in ways)
        after = {count: posterior_time(path, folder) for count, path in ((10_000, small), (rows, large))}
    return [
        {"name": f"naive Bayes counts, {rows:,} entries", "value": ours, "unit": "s", "ratio": ours / plain,
         "limit": 1.3, "peer": f"the plainest SQL by hand, which trusts every value, {plain:.3g} s"},
        {"name": f"naive Bayes counts, {rows:,} entries, undeclared", "value": ours, "unit": "s",
         "ratio": ours / careful, "limit": None,
         "peer": f"the quickest SQL by hand that counts undeclared values as declared, {careful:.3g} s"},
        {"name": f"states after the counts, {rows:,} entries", "value": 1e3 * after[rows], "unit": "ms",
         "ratio": after[rows] / after[10_000], "limit": 1.5, "peer": "10,000 entries"},
    ]  # fmt: skip


def generate(folder: Path, rows: int) -> str:
    import duckdb

    picked = ", ".join(
        f"{list(names)!r}[1 + (hash(i, {place}) % {len(names)})::INT] AS {column}"
        for place, (column, names) in enumerate(LEVELS.items())
    )
    path = str(folder / f"log-{rows}.parquet")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {picked} FROM range({rows}) t(i)) TO '{path}'")
    return path


def by_careful_hand(path: str) -> list[int]:
    """Count what is missing or undeclared at its first level, as the declaration says: the quickest SQL we know."""
    import duckdb

    region = f"greatest(list_position({list(LEVELS['region'])!r}, region), 1)"
    sums = [f"coalesce(sum(({c} = '{level}')::BIGINT), 0)" for c in FEATURES for level in LEVELS[c][1:]]
    with duckdb.connect() as connection:
        query = f"SELECT {region} AS place, count(*), {', '.join(sums)} FROM '{path}' GROUP BY place ORDER BY place"
        rows = connection.execute(query).fetchall()
    counts = []
    for _, entries, *others in rows:
        for c in FEATURES:
            known, others = others[: len(LEVELS[c]) - 1], others[len(LEVELS[c]) - 1 :]
            counts += [int(entries - sum(known)), *map(int, known)]
    return counts


def by_plain_hand(path: str) -> list[int]:
    import duckdb

    sums = ", ".join(f"sum(({c} = '{level}')::BIGINT)" for c in FEATURES for level in LEVELS[c])
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT region, {sums} FROM '{path}' GROUP BY region ORDER BY region").fetchall()
    return [int(x) for row in rows for x in row[1:]]


def table(path: str):
    from vestry import Levels, Table

    columns = {name: Levels(*levels) for name, levels in LEVELS.items()}
    return Table(path, columns, unit="row", neighbours="add-remove")


def by_vestry(path: str) -> list[int]:
    from vestry.schema.private import reveal
    from vestry.schema.statistics import Indicator, SumQuery

    terms = tuple(Indicator(column, (level,)) for column in FEATURES for level in LEVELS[column])
    return list(reveal(table(path).collect(SumQuery(("region",), terms), row_key="k")))


def posterior_time(path: str, folder: str) -> float:
    """Release a log's counts, and time the states that are sampled from them."""
    from vestry import Guarantee, Ledger, Posterior
    from vestry.hmm.hmm_model import HiddenMarkovModel
    from vestry.model.request import Request
    from vestry.pipeline import charge_for, prepare, run

    name, log = Path(path).stem, table(path)
    terms = {"dataset": name, "unit": "row", "neighbours": "add-remove", "budget": "epsilon=9"}
    ledger = Ledger.create(f"{folder}/{name}.ledger", **terms)
    model = HiddenMarkovModel(sequence={"region": "region", "time": "month"}, features=FEATURES, states=2)
    request = Request(model, Guarantee.parse("epsilon=5", neighbours="add-remove"), "laplace")
    ready = prepare(request, log, ledger)
    released = run(ready, log, charge_for(ready.mechanism, ledger, "a test"))
    Posterior.from_release(released).states()  # compiles
    found = []
    for _ in range(5):
        start = time.perf_counter()
        Posterior.from_release(released).states()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


if __name__ == "__main__":
    for each in run():
        print(each)
