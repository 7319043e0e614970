"""What a charge costs against a bare INSERT and COMMIT in the same journal mode, and what a long journal costs."""

import hashlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vestry.ledger import Ledger
from vestry.ledger.entry import State
from vestry.ledger.journal import LINES_BEHIND
from vestry.ledger.ledger import _append

ROUNDS = 60
BLOCK = 10
# How long it may take to find out whether a request was charged before.
LOOK_UP_MS = 50.0
LOOKS = 21


def run(quick: bool = False) -> list[dict]:
    entries = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory(dir=".") as folder:
        short, long = make(Path(folder) / "short.ledger"), make(Path(folder) / "long.ledger")
        middle = make(Path(folder) / "middle.ledger")
        fill(middle, entries // 10)
        fill(long, entries)
        actions = {
            "bare": bare_insert(Path(folder) / "bare.db"),
            "short": lambda: short.charge("epsilon=0.0001", purpose="benchmark"),
            "long": lambda: long.charge("epsilon=0.0001", purpose="benchmark"),
        }
        times: dict[str, list[float]] = {name: [] for name in actions}
        # In turns, so that whatever else the machine does falls on all three alike; in blocks, because one
        # connection's write empties the other's page cache.
        for _ in range(ROUNDS):
            for name, action in actions.items():
                times[name] += [timed(action) for _ in range(BLOCK)]
        looks = [row for ledger in (middle, long) for row in looking(ledger)]
        looks += looking_up(make(Path(folder) / "asked.ledger"), 20_000 if quick else 200_000)
    bare_us, short_us, long_us = (1e6 * statistics.median(times[key]) for key in ("bare", "short", "long"))
    return [
        {"name": "ledger charge", "value": short_us, "unit": "us", "ratio": short_us / bare_us, "limit": 4.0,
         "peer": f"bare INSERT+COMMIT, same journal mode and sync, {bare_us:.0f} us"},
        {"name": f"ledger charge, {entries:,} entries present", "value": long_us, "unit": "us",
         "ratio": long_us / short_us, "limit": 1.5, "peer": "the empty ledger"},
        *looks,
    ]  # fmt: skip


def looking(ledger: Ledger) -> list[dict]:
    """Verify and show, in a process of its own each, as from the command line; memory is the most that was resident."""
    entries = ledger.summary().entries
    rows = []
    for name, arguments in {"verify": ["verify"], "show": ["show"], "show --json": ["show", "--json"]}.items():
        seconds, megabytes = measured(["ledger", arguments[0], ledger.address, *arguments[1:]])
        rows.append({"name": f"ledger {name}, {entries:,} entries", "value": seconds, "unit": "s"})
        rows.append({"name": f"ledger {name}, {entries:,} entries, memory", "value": megabytes, "unit": "MB"})
    return rows


def looking_up(ledger: Ledger, entries: int) -> list[dict]:
    """Open the ledger and look up a request that was charged and one that was not, each time in a new handle.

    The index has every line, or is as far behind as it may be before it is written anew.
    """
    fill(ledger, entries)
    walk_s = timed(ledger.journal)
    rows = [{"name": f"ledger walk, {entries:,} entries", "value": walk_s, "unit": "s"}]
    for lines in (0, LINES_BEHIND - 1):
        if lines:
            fill(ledger, lines + 1)
        milliseconds = [1e3 * timed(lambda: asked(ledger.address, entries // 2)) for _ in range(LOOKS)]
        middle = statistics.median(milliseconds)
        name = f"ledger look-up, {entries:,} entries, {lines} not indexed"
        rows.append({"name": name, "value": middle, "unit": "ms", "ratio": middle / LOOK_UP_MS, "limit": 1.0,
                     "peer": f"{LOOK_UP_MS:g} ms; the slowest of {LOOKS} took {max(milliseconds):.0f} ms"})  # fmt: skip
    return rows


def asked(address: str, number: int) -> None:
    journal = Ledger.open(address).journal()
    charge = journal.newest_charge(definition_of(number))
    if charge is None or charge.sequence != number or journal.newest_charge("never asked") is not None:
        raise SystemExit("the look-up found another charge")


def definition_of(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def measured(arguments: list[str]) -> tuple[float, float]:
    """Return seconds and megabytes of one command, start of the program and imports included."""
    script = (
        "import sys, time; start = time.perf_counter()\n"
        "from vestry.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "most = next(int(line.split()[1]) / 1024 for line in lines if line.startswith('VmHWM:'))\n"
        "print(time.perf_counter() - start, most, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stderr.split())
    return seconds, megabytes


def make(path: Path) -> Ledger:
    return Ledger.create(
        path, dataset="benchmark", unit="row", neighbours="replace", budget="epsilon=1000,delta=1e-6", who="benchmark"
    )


def fill(ledger: Ledger, entries: int) -> None:
    """Append many charges in one transaction, each a true line of the chain with a definition of its own."""
    first = ledger.charge("epsilon=0.0001", purpose="benchmark").entry.facts
    state = ledger.state()
    price = type(state.spent).from_dict(first["price"])
    with ledger._database.transaction() as (session, head):
        for _ in range(entries - 2):
            state = State(state.filter, state.spent.plus(price))
            record = {**first, "definition": definition_of(head.sequence + 1)}
            _, head = _append(session, head, "charge", None, record, state)


def bare_insert(path: Path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=PERSIST")
    connection.execute("PRAGMA synchronous=EXTRA")
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
