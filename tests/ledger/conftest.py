"""A ledger to work on, and a real PostgreSQL server for the slow tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from closed_engines import closed_engines
from postgres_server import running_server

from vestry.ledger import Ledger
from vestry.privacy import profile
from vestry.privacy.pricing import event


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> bytes:
    """The file of a ledger that has seen every action."""
    path = tmp_path_factory.mktemp("whole") / "a.ledger"
    terms = {"dataset": "patients", "unit": "row", "neighbours": "add-remove"}
    with closed_engines():
        ledger = Ledger.create(path, **terms, budget="epsilon=1,delta=1e-6", accepts_unproved=True, who="Ann")
        ledger.charge("epsilon=0.1", purpose="one", who="Ann").open().released(b"one")
        by_profile = event("profile", profile=lambda epsilon: profile.gaussian(epsilon, mu=0.05))
        ledger.charge(by_profile, purpose="two", who="Bo", assumptions=["converged"])
        ledger.amend("epsilon=2,delta=1e-6", reason="more", who="Cy")
        ledger.charge("epsilon=0.01,delta=1e-9", purpose="three", who="Bo").open()
        found = [entry.action for entry in ledger.entries()]
        assert found == ["create", "charge", "open", "release", "charge", "amend", "charge", "open"]
    return path.read_bytes()


@pytest.fixture
def make(tmp_path):
    """Make a ledger in a folder of its own."""
    numbers = count()

    def made(budget="epsilon=1,delta=1e-6", *, address=None, **more) -> Ledger:
        terms = {"dataset": "patients", "unit": "row", "neighbours": "add-remove", **more}
        return Ledger.create(address or tmp_path / f"{next(numbers)}.ledger", budget=budget, **terms)

    return made


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL server, reached through a socket in its folder."""

    folder: Path
    numbers: Iterator[int]
    password: str = "correct horse"  # of the role `clerk`

    def run(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(f"postgresql://postgres@/{database}?host={self.folder}", autocommit=True) as connection:
            connection.execute(statement)

    def fresh(self) -> str:
        """Make an empty database and return its name."""
        name = f"ledger{next(self.numbers)}"
        self.run(f"CREATE DATABASE {name} OWNER clerk")
        return name

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server where the role `clerk` must give a password; `postgres` need not. Indexes lie in a folder of ours."""
    with pytest.MonkeyPatch.context() as patch, running_server() as folder:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        started = Server(folder, count())
        started.run(f"CREATE ROLE clerk LOGIN PASSWORD '{started.password}'")
        rules = folder / "pg_hba.conf"
        rules.write_text("local all clerk scram-sha-256\n" + rules.read_text())
        started.run("SELECT pg_reload_conf()")
        yield started
