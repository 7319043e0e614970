"""How soon the page answers a turned budget, and how much memory it takes over a thousand requests."""

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_MS, LIMIT_MB = 100.0, 300.0
STUDY = """
[study]
name = "visits"
data = "visits.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 2.0, delta = 1e-6 }
ledger = "visits.ledger"
expected_rows = 2000

[columns]
readmitted = { levels = ["no", "yes"] }
ward = { levels = ["A", "B", "C", "D"], missing = "drop" }
stay_days = { interval = [0, 60] }

[release.readmission]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
by = "ward"
spend = { epsilon = 0.3 }

[release.stay]
model = "normal-mean"
column = "stay_days"
variance = 50
prior = [10, 100]
spend = { epsilon = 0.2 }

[release.wards]
model = "dirichlet-categorical"
column = "ward"
spend = { epsilon = 0.2 }
"""


def run(quick: bool = False) -> list[dict]:
    """Measure in a process that does nothing else, since memory is of a process."""
    count = 100 if quick else 1000
    done = subprocess.run([sys.executable, __file__, str(count)], capture_output=True, text=True, check=True)
    median, most, memory = map(float, done.stdout.split())
    return [
        {"name": "page: one slider turned, of three", "value": median, "unit": "ms", "ratio": median / LIMIT_MS,
         "limit": 1.0, "peer": f"{LIMIT_MS:g} ms; of 20 the slowest took {most:.0f} ms"},
        {"name": f"page: memory after {count} requests", "value": memory, "unit": "MB", "ratio": memory / LIMIT_MB,
         "limit": 1.0, "peer": f"{LIMIT_MB:g} MB"},
    ]  # fmt: skip


def _measure(count: int) -> tuple[float, float, float]:
    """Return the median time of turns that were not asked before and its 19th of 20, in ms; and the memory in MB."""
    from vestry.page.file_choice import FileChoice
    from vestry.page.guard import PageAddress
    from vestry.page.routes import application
    from vestry.page.visit import Desk

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(STUDY)
        desk, address = Desk(path, FileChoice.of(path.parent)), PageAddress.at(1)
        session = desk.entrance.admit(desk.entrance.token)
        app = application(desk, address, peer=lambda client, server: None)
        headers = {"host": address.authority, "cookie": f"vestry={session}", "sec-fetch-site": "same-origin"}
        loop = asyncio.new_event_loop()

        def get(path: str, query: str = "") -> float:
            start = time.perf_counter()
            status = loop.run_until_complete(_get(app, path, query, headers))
            if status != 200:
                raise RuntimeError(f"{path} answered {status}")
            return 1e3 * (time.perf_counter() - start)

        get("/budget")
        turns = [get("/budget/turn", f"step-{name}={step}") for step in range(5, 70, 3)
                 for name in ("readmission", "stay", "wards")]  # fmt: skip
        paths = ["/", "/columns", "/protect", "/questions", "/budget", "/check", "/ledger", "/learn", "/budget/turn"]
        for place in range(count):
            get(paths[place % len(paths)], f"step-stay={place % 75}")
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return statistics.median(turns), statistics.quantiles(turns, n=20)[-1], memory


async def _get(app, path: str, query: str, headers: dict[str, str]) -> int:
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
             "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "root_path": "",
             "scheme": "http", "http_version": "1.1", "client": ("127.0.0.1", 2),
             "server": ("127.0.0.1", 1)}  # fmt: skip
    sent = []

    async def receive() -> dict:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


if __name__ == "__main__":
    print(*_measure(int(sys.argv[1])))
