"""What a charge costs against a bare INSERT and COMMIT on the same file, and whether a long journal slows it."""

import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from vestry.ledger import Ledger
from vestry.ledger.database import _HEAD, Head
from vestry.ledger.journal import _append
from vestry.ledger.state import State

ROUNDS = 60
BLOCK = 10


def run(quick: bool = False) -> list[dict]:
    entries = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory(dir=".") as folder:
        short, long = make(Path(folder) / "short.ledger"), make(Path(folder) / "long.ledger")
        fill(long, entries)
        actions = {
            "bare": bare_insert(Path(folder) / "short.ledger"),
            "short": lambda: short.charge("epsilon=0.0001", purpose="benchmark"),
            "long": lambda: long.charge("epsilon=0.0001", purpose="benchmark"),
        }
        times: dict[str, list[float]] = {name: [] for name in actions}
        # In turns, so that whatever else the machine does falls on all three alike; in blocks, because one
        # connection's write empties the other's page cache.
        for _ in range(ROUNDS):
            for name, action in actions.items():
                times[name] += [timed(action) for _ in range(BLOCK)]
        start = time.perf_counter()
        verified = long.verify()
        verify_s = time.perf_counter() - start
    bare_us, short_us, long_us = (1e6 * statistics.median(times[key]) for key in ("bare", "short", "long"))
    return [
        {"name": "ledger charge", "value": short_us, "unit": "us", "ratio": short_us / bare_us, "limit": 4.0,
         "peer": f"bare INSERT+COMMIT on the same file, {bare_us:.0f} us"},
        {"name": f"ledger charge, {entries:,} entries present", "value": long_us, "unit": "us",
         "ratio": long_us / short_us, "limit": 1.5, "peer": "the empty ledger"},
        {"name": f"ledger verify, {verified.entries:,} entries", "value": verify_s, "unit": "s"},
    ]  # fmt: skip


def make(path: Path) -> Ledger:
    return Ledger.create(
        path, dataset="benchmark", unit="row", neighbours="replace", budget="epsilon=1000,delta=1e-6", who="benchmark"
    )


def fill(ledger: Ledger, entries: int) -> None:
    """Append many charges in one transaction, each a true line of the chain."""
    first = ledger.charge("epsilon=0.0001", purpose="benchmark").entry.facts
    state = ledger.state()
    price = type(state.spent).from_dict(first["price"])
    with ledger._database.transaction() as (session, head):
        for _ in range(entries - 2):
            state = State(state.filter, state.spent.plus(price))
            _append(session, head, "charge", None, first, state)
            head = Head(*session.one(_HEAD))


def bare_insert(path: Path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    body = "x" * 600  # about as long as a journal line

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO bare (body) VALUES (?)", (body,))
        connection.execute("COMMIT")

    return insert


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
