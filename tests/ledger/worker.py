"""Charges ledgers from forked processes, and kills them. A script: `python worker.py MODE ADDRESS ...`, one JSON out.

It imports everything once and forks from there, so that a process costs milliseconds. The forking process itself never
opens a ledger: a database connection must not cross a fork.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from vestry.errors import BudgetExceeded, LedgerExists, LedgerUnavailable, VestryError
from vestry.ledger import Ledger

MOST = 200  # charges of one process, so that a ledger that refuses nothing ends too
TERMS = {"dataset": "patients", "unit": "row", "neighbours": "add-remove"}


def forked(work: Callable[[Callable[[object], None]], None]) -> tuple[int, int]:
    """Run `work(tell)` in a child; return its process id and the pipe on which it tells, a line of JSON at a time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    os.close(reader)
    try:
        work(lambda fact: os.write(writer, json.dumps(fact).encode() + b"\n"))
        code = 0
    except VestryError as error:
        os.write(writer, json.dumps({"error": type(error).__name__, "message": str(error)}).encode() + b"\n")
        code = 2
    except BaseException as error:
        os.write(writer, json.dumps({"error": repr(error)}).encode() + b"\n")
        code = 1
    os._exit(code)


def told(child: int, reader: int) -> list:
    """Read what a child told until its end, and end it properly."""
    with os.fdopen(reader) as lines:
        facts = [json.loads(line) for line in lines]
    os.waitpid(child, 0)
    return facts


def asked(work: Callable[[Callable[[object], None]], None]) -> list:
    return told(*forked(work))


class Started:
    """A door that opens for all children at once."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def wait(self) -> None:
        os.close(self._writer)
        os.read(self._reader, 1)

    def open(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


def race(address: str, processes: int, guarantee: str, opened_before: bool) -> dict:
    """Charge from many processes at once, each until it is refused."""
    shared = Ledger.open(address) if opened_before else None
    start = Started()

    def charging(tell: Callable[[object], None]) -> None:
        ledger = shared or Ledger.open(address)
        start.wait()
        for _ in range(MOST):
            try:
                tell(ledger.charge(guarantee, purpose="race", who=f"process {os.getpid()}").sequence)
            except BudgetExceeded:
                return

    children = [forked(charging) for _ in range(processes)]
    start.open()
    return {"accepted": [told(*child) for child in children]}


def openings(address: str, processes: int, charge: int) -> dict:
    """Open one charge from many processes at once."""
    start = Started()

    def opening(tell: Callable[[object], None]) -> None:
        resumed = Ledger.open(address).resume(charge)
        start.wait()
        resumed.open()
        tell("opened")

    children = [forked(opening) for _ in range(processes)]
    start.open()
    return {"told": [told(*child) for child in children]}


def creations(address: str, processes: int) -> dict:
    """Create one ledger from many processes at once."""
    start = Started()

    def creating(tell: Callable[[object], None]) -> None:
        start.wait()
        try:
            tell(Ledger.create(address, **TERMS, budget="epsilon=1").head())
        except LedgerExists:
            tell(None)

    children = [forked(creating) for _ in range(processes)]
    start.open()
    return {"heads": [told(*child) for child in children]}


def cycle(ledger: Ledger, releases: Path, tell: Callable[[object], None]) -> None:
    """Charge, open, write the release, commit the release."""
    charge = ledger.charge("epsilon=1e-7", purpose="work")
    tell(charge.sequence)
    opened = charge.open()
    opened.released(written(releases, charge.sequence))


def early_cycle(ledger: Ledger, releases: Path, tell: Callable[[object], None]) -> None:
    """The broken twin: write the release before its opening is committed."""
    charge = ledger.charge("epsilon=1e-7", purpose="work")
    tell(charge.sequence)
    content = written(releases, charge.sequence)
    charge.open().released(content)


def written(releases: Path, number: int) -> bytes:
    content = json.dumps({"charge": number}).encode()
    temporary = releases / f"{number}.{os.getpid()}.part"
    temporary.write_bytes(content)
    temporary.rename(releases / f"{number}.json")
    return content


def found(address: str, releases: Path, promised: list[int], head: str | None) -> dict:
    """Look at the ledger from a process of its own, and say everything that is not as it must be."""

    def looking(tell: Callable[[object], None]) -> None:
        ledger = Ledger.open(address)
        verified = ledger.verify(head=head)
        done: dict[int, set[str]] = {}
        hashes = {}
        for entry in ledger.entries():
            if entry.action != "create":
                done.setdefault(entry.sequence if entry.target is None else entry.target, set()).add(entry.action)
            if entry.action == "release":
                hashes[entry.target] = entry.facts["release_sha256"]
        files = {int(path.stem): path for path in releases.glob("*.json")}
        tell(
            {
                "entries": verified.entries,
                "head": verified.head,
                "lost": [number for number in promised if "charge" not in done.get(number, ())],
                "uncharged": [number for number in files if not {"charge", "open"} <= done.get(number, set())],
                "unwritten": [
                    number
                    for number, digest in hashes.items()
                    if number not in files or hashlib.sha256(files[number].read_bytes()).hexdigest() != digest
                ],
                "unfinished": sum("release" not in actions for actions in done.values()),
            }
        )

    return asked(looking)[0]


def copied(address: str, releases: Path, kills: int, seed: int) -> Iterator[dict]:
    """Kill a worker at a random moment and look at a copy of the file, with its journal and without."""
    for number, (promised, _) in enumerate(kill_after_kill(address, releases, kills, seed)):
        folder = releases / f"copy-{number}"
        (folder / "alone").mkdir(parents=True)
        journal = Path(address + "-journal")
        shutil.copy(address, folder / "whole.ledger")
        shutil.copy(address, folder / "alone" / "whole.ledger")
        hot = journal.exists() and any(journal.read_bytes()[:28])
        if journal.exists():
            shutil.copy(journal, folder / "whole.ledger-journal")
        whole = found(str(folder / "whole.ledger"), releases, promised, None)
        alone = found(str(folder / "alone" / "whole.ledger"), releases, promised, None)
        yield {**whole, "hot": hot, "alone": "error" not in alone and alone["lost"] == []}


def killed(address: str, releases: Path, kills: int, seed: int) -> Iterator[dict]:
    """Kill a worker at a random moment, look, and go on with the same ledger."""
    head = None
    for promised, errors in kill_after_kill(address, releases, kills, seed):
        yield from errors  # which the test will not like
        fact = found(address, releases, promised, head)
        head = fact.get("head", head)
        yield fact


def kill_after_kill(address: str, releases: Path, kills: int, seed: int) -> Iterator[tuple[list[int], list[dict]]]:
    """Kill workers; after each yield every charge that was acknowledged so far, and what else the worker told."""

    def working(tell: Callable[[object], None]) -> None:
        ledger = Ledger.open(address)
        tell("ready")
        while True:
            cycle(ledger, releases, tell)

    rng = random.Random(seed)
    promised: list[int] = []
    for _ in range(kills):
        child, reader = forked(working)
        # Let it make a few charges, so that a slow machine has its kills in the middle too.
        seen, lines = b"", rng.randrange(3)
        while seen.count(b"\n") <= lines and (more := os.read(reader, 1)):
            seen += more
        time.sleep(rng.uniform(0, 0.006))
        os.kill(child, signal.SIGKILL)
        facts = [json.loads(line) for line in seen.splitlines()] + told(child, reader)
        promised += [fact for fact in facts if isinstance(fact, int)]
        yield promised, [fact for fact in facts if isinstance(fact, dict)]


class Stress:
    """Many processes that charge one ledger without end, while processes or their connections are killed."""

    def __init__(self, address: str, processes: int, seed: int) -> None:
        self.address = address
        self.rng = random.Random(seed)
        self.numbers = iter(range(10**9))
        self.children: dict[int, int] = {}  # the pipe of each process
        self.acknowledged: dict[str, int] = {}
        self.errors: list[str] = []
        self.rests: dict[int, bytes] = {}
        for _ in range(processes):
            self.start()

    def start(self) -> None:
        name = next(self.numbers)

        def charging(tell: Callable[[object], None]) -> None:
            ledger = Ledger.open(self.address)
            for count in range(10**9):
                intention = f"process {name}, charge {count}"
                try:
                    tell([intention, ledger.charge("epsilon=1e-7", purpose=intention).sequence])
                except LedgerUnavailable as error:
                    tell({"error": str(error)})

        child, reader = forked(charging)
        self.children[reader], self.rests[reader] = child, b""

    def hear(self, readers: list[int]) -> None:
        """Take in what processes told; a line that was cut by a kill was not acknowledged."""
        for reader in readers:
            *lines, self.rests[reader] = (self.rests[reader] + os.read(reader, 1 << 16)).split(b"\n")
            for fact in map(json.loads, lines):
                if isinstance(fact, dict):
                    self.errors.append(fact["error"])
                else:
                    assert fact[0] not in self.acknowledged
                    self.acknowledged[fact[0]] = fact[1]

    def kill(self, reader: int) -> None:
        os.kill(self.children[reader], signal.SIGKILL)
        os.waitpid(self.children.pop(reader), 0)
        while select.select([reader], [], [], 0)[0]:
            before = len(self.acknowledged), self.rests[reader]
            self.hear([reader])
            if before == (len(self.acknowledged), self.rests[reader]):
                break
        os.close(reader)

    def run(self, charges: int, kills: int, disturb: Callable[[], object]) -> dict:
        """Go on until so many charges were acknowledged and so many kills were made, then say what is found."""
        done, start = 0, time.monotonic()
        while len(self.acknowledged) < charges or done < kills:
            self.hear(select.select(list(self.children), [], [], 10)[0])
            if done < kills and len(self.acknowledged) >= done * charges / kills:
                time.sleep(self.rng.uniform(0, 0.003))
                done += bool(disturb())
        for reader in list(self.children):
            self.kill(reader)
        return {**asked(self.found)[0], "kills": done, "seconds": time.monotonic() - start}

    def found(self, tell: Callable[[object], None]) -> None:
        ledger = Ledger.open(self.address)
        verified = ledger.verify()
        purposes = {entry.facts["purpose"]: entry.sequence for entry, _ in ledger.charges()}
        tell(
            {
                "acknowledged": len(self.acknowledged),
                "entries": verified.entries,
                "spent": ledger.state().spent.totals[0],
                "lost": [name for name, number in self.acknowledged.items() if purposes.get(name) != number],
                "intentions": len(purposes),
                "errors": len(self.errors),
                "messages": sorted({error.partition("(")[2] for error in self.errors}),
            }
        )


def stress(address: str, charges: int, processes: int, kills: int, seed: int) -> dict:
    """Kill processes at random moments and start others."""
    world = Stress(address, processes, seed)

    def disturb() -> bool:
        world.kill(world.rng.choice(list(world.children)))
        world.start()
        return True

    return world.run(charges, kills, disturb)


def stress_server(address: str, charges: int, processes: int, kills: int, seed: int) -> dict:
    """Kill connections at random moments; the processes go on."""
    import psycopg

    world = Stress(address, processes, seed)
    with psycopg.connect(address, autocommit=True) as admin:  # no process is forked from here on
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

        def disturb() -> bool:
            pids = [pid for (pid,) in admin.execute(f"SELECT pid {others} ORDER BY pid").fetchall()]
            return (
                bool(pids) and admin.execute("SELECT pg_terminate_backend(%s)", [world.rng.choice(pids)]).fetchone()[0]
            )

        return world.run(charges, kills, disturb)


class Watched(sqlite3.Connection):
    """A connection that counts its steps, dies at one of them, dawdles after reading, or begins in another way."""

    steps = 0
    dies_before: int | None = None
    begins: str | None = None
    dawdles = 0.0

    def cursor(self, factory: type[sqlite3.Cursor] | None = None) -> sqlite3.Cursor:
        return super().cursor(WatchedCursor)

    def commit(self) -> None:
        self.step()
        super().commit()
        self.step()

    @classmethod
    def step(cls) -> None:
        if Watched.steps == Watched.dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        Watched.steps += 1


class WatchedCursor(sqlite3.Cursor):
    """Its cursor: every statement is a step."""

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        Watched.step()
        if Watched.begins is not None and statement.startswith("BEGIN"):
            statement = Watched.begins
        done = super().execute(statement, *values)
        if statement.startswith("SELECT"):
            time.sleep(Watched.dawdles)
        return done


def watched() -> None:
    """Make every later connection to SQLite a watched one."""
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: connect(*args, factory=Watched, **kwargs)


def stepped(address: str, releases: Path, work: Callable[..., None]) -> Iterator[dict]:
    """Kill a worker before each statement and around each commit of one cycle."""
    promised: list[int] = []
    head = None
    for step in range(1000):

        def once(tell: Callable[[object], None], step: int = step) -> None:
            watched()
            ledger = Ledger.open(address)
            Watched.steps, Watched.dies_before = 0, step
            work(ledger, releases, tell)
            tell("whole")

        facts = asked(once)
        promised += [fact for fact in facts if isinstance(fact, int)]
        fact = found(address, releases, promised, head)
        head = fact.get("head", head)
        yield {**fact, "told": facts}
        if "whole" in facts or "error" in fact:
            return


def main(mode: str, address: str, *rest: str) -> None:
    match mode, *rest:
        case "race", processes, guarantee, opened_before:
            result: object = race(address, int(processes), guarantee, opened_before == "opened-before")
        case "slow-race", processes, guarantee, begins:
            watched()
            Watched.begins, Watched.dawdles = begins, 0.002
            result = race(address, int(processes), guarantee, False)
        case "openings", processes, charge:
            result = openings(address, int(processes), int(charge))
        case "creations", processes:
            result = creations(address, int(processes))
        case "killed", releases, kills, seed:
            result = list(killed(address, Path(releases), int(kills), int(seed)))
        case "stress", charges, processes, kills, seed:
            result = stress(address, int(charges), int(processes), int(kills), int(seed))
        case "stress-server", charges, processes, kills, seed:
            result = stress_server(address, int(charges), int(processes), int(kills), int(seed))
        case "copied", releases, kills, seed:
            result = list(copied(address, Path(releases), int(kills), int(seed)))
        case "stepped", releases, order:
            result = list(stepped(address, Path(releases), early_cycle if order == "early" else cycle))
        case _:
            raise SystemExit(f"no mode {mode} with {len(rest)} more arguments")
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
