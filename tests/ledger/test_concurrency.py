"""Many processes at one ledger, and processes that are killed."""

from __future__ import annotations

import socket
import stat
import threading
import time
from pathlib import Path

import pytest
from ledger_processes import PROCESSES, sequences, work

from vestry.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerCorrupt,
    LedgerExists,
    LedgerMissing,
    LedgerUnavailable,
)
from vestry.ledger import Ledger, journal
from vestry.ledger import database as database_module


def pure_spent(ledger: Ledger) -> int:
    """The units of pure epsilon that were spent."""
    return ledger.state().spent.totals[0]


# Eight processes


def fits_exactly(address: object, opened_before: str) -> None:
    """Sixty charges of 0.01 fit into 0.6, whoever makes them."""
    accepted = work("race", address, PROCESSES, "epsilon=0.01", opened_before)["accepted"]
    assert len(accepted) == PROCESSES
    assert sequences(accepted) == list(range(1, 61))
    ledger = Ledger.open(address)
    assert pure_spent(ledger) == 6 * 10**11
    assert ledger.verify().entries == 61
    assert [entry.action for entry in ledger.entries()] == ["create"] + ["charge"] * 60


@pytest.mark.long
@pytest.mark.parametrize("opened", ["opened-after", "opened-before"])
def test_eight_processes_accept_exactly_what_fits(make, opened):
    fits_exactly(make("epsilon=0.6").address, opened)


@pytest.mark.long
def test_a_charge_too_large_for_the_rest_is_refused_while_smaller_ones_fit(make):
    ledger = make("epsilon=0.1")
    accepted = work("race", ledger.address, PROCESSES, "epsilon=0.03", "opened-after")["accepted"]
    assert sequences(accepted) == [1, 2, 3]
    assert pure_spent(ledger) == 9 * 10**10
    ledger.charge("epsilon=0.01", purpose="the rest")
    assert ledger.verify().entries == 5


@pytest.mark.long
def test_processes_that_dawdle_after_reading_accept_exactly_what_fits(make):
    ledger = make("epsilon=0.2")
    accepted = work("slow-race", ledger.address, PROCESSES, "epsilon=0.01", "BEGIN IMMEDIATE")["accepted"]
    assert sequences(accepted) == list(range(1, 21))
    assert ledger.verify().entries == 21


@pytest.mark.long
@pytest.mark.parametrize("begins", ["BEGIN", "SELECT 1"])
def test_the_broken_twin_turns_processes_away(make, begins):
    """A transaction that begins as a reader fails as it comes to write, because another wrote since it read.

    It does not overspend: with BEGIN, SQLite refuses to write on an old snapshot, at once and without waiting; with no
    transaction at all, two lines of one number collide. But processes whose charges fit are turned away.
    """
    ledger = make("epsilon=0.2")
    told = work("slow-race", ledger.address, PROCESSES, "epsilon=0.01", begins)["accepted"]
    errors = [fact for facts in told for fact in facts if not isinstance(fact, int)]
    assert errors
    assert {error["error"] for error in errors} == {"LedgerUnavailable"}
    assert pure_spent(ledger) <= 2 * 10**11
    ledger.verify()


def test_eight_threads_accept_exactly_what_fits(make):
    ledger = make("epsilon=0.4")
    accepted, failed = [], []
    start = threading.Barrier(PROCESSES)

    def charging():
        start.wait()
        try:
            for _ in range(100):
                accepted.append(ledger.charge("epsilon=0.01", purpose="thread").sequence)
        except BudgetExceeded:
            return
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=charging) for _ in range(PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(accepted) == list(range(1, 41))
    assert ledger.verify().entries == 41


def one_opens(address: object) -> None:
    ledger = Ledger.open(address)
    charge = ledger.charge("epsilon=0.01", purpose="once")
    told = work("openings", address, PROCESSES, charge.sequence)["told"]
    assert sorted(facts == ["opened"] for facts in told) == [False] * (PROCESSES - 1) + [True]
    for facts in told:
        assert facts == ["opened"] or facts[0]["error"] == "LedgerStateError"
    assert [entry.action for entry in ledger.entries()].count("open") == 1
    ledger.verify()


@pytest.mark.long
def test_one_of_eight_processes_opens_a_charge(make):
    one_opens(make().address)


def one_creates(address: object) -> None:
    heads = work("creations", address, PROCESSES)["heads"]
    assert all(len(facts) == 1 for facts in heads)
    errors = [fact for (fact,) in heads if isinstance(fact, dict)]
    assert errors == []
    made = [fact for (fact,) in heads if fact is not None]
    assert made == [Ledger.open(address).verify().head]


@pytest.mark.long
def test_one_of_eight_processes_creates_the_ledger(tmp_path):
    path = tmp_path / "new.ledger"
    one_creates(path)
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith("new.ledger")] == []


# Killed processes


def assert_whole(fact: dict) -> None:
    """The ledger verified, with the head of the round before in its chain, and nothing is out of place."""
    assert "error" not in fact, fact
    assert fact["lost"] == []
    assert fact["uncharged"] == []
    assert fact["unwritten"] == []


def withstands_kills(ledger: Ledger, releases: Path, kills: int) -> None:
    facts = work("killed", ledger.address, releases, kills, 20260)
    for fact in facts:
        assert_whole(fact)
    assert len(facts) == kills
    # The kills fell in the middle of things: charges were left that nobody released.
    assert facts[-1]["unfinished"] >= kills // 10
    assert facts[-1]["entries"] > kills // 2
    ledger.charge("epsilon=1e-7", purpose="after")


@pytest.mark.long
def test_one_hundred_kills_lose_no_charge_and_leave_no_free_release(make, tmp_path):
    releases = tmp_path / "releases"
    releases.mkdir()
    withstands_kills(make("epsilon=0.1"), releases, 100)


@pytest.fixture
def steps(make, tmp_path):
    """What is found after a kill before each statement of one cycle."""
    releases = tmp_path / "releases"
    releases.mkdir()
    return lambda order: work("stepped", make("epsilon=0.1").address, releases, order)


@pytest.mark.long
def test_a_kill_before_any_statement_leaves_the_ledger_whole(steps):
    facts = steps("in order")
    for fact in facts:
        assert_whole(fact)
    told = [fact["told"] for fact in facts]
    assert told[0] == []  # killed before the charge began
    assert told[-1][-1] == "whole"  # and at last not at all
    # Each of the three transactions begins, reads, writes two rows and commits: it can die at five places at least.
    assert len(facts) > 15
    assert sum(facts == [] for facts in told) >= 5
    assert sum(len(facts) == 1 for facts in told) >= 10


@pytest.mark.long
def test_the_broken_twin_leaves_a_release_that_was_never_opened(steps):
    """A worker that writes its release before the opening is committed is caught by the same look."""
    assert any(fact["uncharged"] for fact in steps("early") if "error" not in fact)


def nothing_lost_and_nothing_twice(result: dict, charges: int, kills: int) -> None:
    """Each acknowledged charge is there once, each intention at most once, and the totals are those of the lines."""
    assert result["kills"] == kills
    assert result["acknowledged"] >= charges
    assert result["lost"] == []
    assert result["entries"] == result["intentions"] + 1
    assert result["intentions"] >= result["acknowledged"]
    assert result["spent"] == result["intentions"] * 10**5


@pytest.mark.long
def test_kills_under_eight_processes_lose_nothing_and_repeat_nothing(make):
    result = work("stress", make("epsilon=1").address, 200, PROCESSES, 10, 15)
    nothing_lost_and_nothing_twice(result, 200, 10)
    assert result["errors"] == 0, result["messages"]


@pytest.mark.slow
def test_ten_thousand_charges_by_eight_processes_under_five_hundred_kills(make):
    result = work("stress", make("epsilon=1").address, 10_000, PROCESSES, 500, 15, patience_s=3600)
    nothing_lost_and_nothing_twice(result, 10_000, 500)
    assert result["errors"] == 0, result["messages"]


# PostgreSQL


@pytest.fixture
def postgres(server):
    """The URL of an empty database."""
    return server.url(server.fresh())


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["opened-after", "opened-before"])
def test_eight_processes_on_postgresql(make, postgres, opened):
    make("epsilon=0.6", address=postgres)
    fits_exactly(postgres, opened)


@pytest.mark.slow
def test_one_of_eight_processes_opens_a_charge_on_postgresql(make, postgres):
    make(address=postgres)
    one_opens(postgres)


@pytest.mark.slow
def test_creates_race_on_postgresql(postgres):
    one_creates(postgres)


@pytest.mark.slow
def test_kills_on_postgresql(make, postgres, tmp_path):
    releases = tmp_path / "releases"
    releases.mkdir()
    withstands_kills(make("epsilon=0.1", address=postgres), releases, 30)


@pytest.mark.slow
def test_ten_thousand_charges_on_postgresql_under_five_hundred_killed_connections(make, postgres):
    make("epsilon=1", address=postgres)
    result = work("stress-server", postgres, 10_000, PROCESSES, 500, 15, patience_s=3600)
    nothing_lost_and_nothing_twice(result, 10_000, 500)
    assert 250 < result["errors"] <= 500  # a connection may be killed between two charges


@pytest.mark.slow
def test_create_never_overwrites_on_postgresql(make, postgres):
    head = make(address=postgres).head()
    with pytest.raises(
        LedgerExists, match=r"^there is a ledger at postgresql.* already; nothing was changed: open it, or"
    ):
        make("epsilon=9", address=postgres)
    assert Ledger.open(postgres).verify().head == head


@pytest.mark.slow
@pytest.mark.parametrize(
    "held",
    ["SELECT * FROM vestry_head FOR UPDATE", "LOCK TABLE vestry_head IN ACCESS EXCLUSIVE MODE"],
    ids=["row", "table"],
)
def test_a_lock_that_another_session_holds_is_waited_for_no_longer_than_on_sqlite(make, postgres, monkeypatch, held):
    import psycopg

    ledger = make(address=postgres)
    charge = ledger.charge("epsilon=0.1", purpose="one")
    monkeypatch.setattr(database_module, "PATIENCE_S", 0.5)
    waiting = Ledger.open(postgres)
    with psycopg.connect(postgres) as other:
        other.execute(held)
        for use in (
            lambda: waiting.charge("epsilon=0.1", purpose="two"),
            lambda: waiting.resume(charge.sequence).open(),
            lambda: waiting.amend("epsilon=2,delta=1e-6", reason="more"),
        ):
            start = time.monotonic()
            with pytest.raises(LedgerUnavailable, match=r"is in use and stayed locked for 0\.5 s; try again\.$"):
                use()
            assert time.monotonic() - start < 10
    assert waiting.charge("epsilon=0.1", purpose="two").sequence == 2
    assert waiting.verify().entries == 3


@pytest.mark.slow
def test_the_index_of_a_ledger_on_a_server_lies_in_the_cache_folder(make, postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(journal, "LINES_BEHIND", 1)
    ledger = make(address=postgres)
    ledger.charge("epsilon=0.1", purpose="one", definition="a").open()
    assert ledger.journal().stage(1) == "open"
    (index,) = (tmp_path / "cache" / "vestry").iterdir()
    assert stat.S_IMODE(index.stat().st_mode) == 0o600
    assert stat.S_IMODE(index.parent.stat().st_mode) == 0o700
    ledger.charge("epsilon=0.1", purpose="two", definition="b")
    assert Ledger.open(postgres).journal().newest_charge("b").sequence == 3
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert Ledger.open(postgres).journal().newest_charge("b").sequence == 3


@pytest.mark.slow
def test_a_whole_life_on_postgresql(make, postgres):
    ledger = make(address=postgres)
    charge = ledger.charge("epsilon=0.3", purpose="one")
    charge.open().released(b"x")
    ledger.charge("rho=0.001", purpose="two")
    ledger.amend("epsilon=2,delta=1e-6", reason="more")
    assert [e.action for e in ledger.entries()] == ["create", "charge", "open", "release", "charge", "amend"]
    again = Ledger.open(postgres)
    assert again.terms == ledger.terms
    assert again.verify(head=ledger.head()).entries == 6
    with pytest.raises(BudgetExceeded, match=r"^Budget exceeded: the charge needs epsilon=5,"):
        again.charge("epsilon=5", purpose="too much")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vestry_journal SET body = replace(body, 'one', 'One') WHERE sequence = 1",
        "UPDATE vestry_journal SET target = 1 WHERE sequence = 3",
        "DELETE FROM vestry_journal WHERE sequence = 2",
        "UPDATE vestry_head SET state = replace(state, '600000000000', '500000000000')",
        "UPDATE vestry_head SET row_key = reverse(row_key)",
        "DELETE FROM vestry_head",
    ],
)
def test_a_change_on_postgresql_is_found(make, server, change):
    name = server.fresh()
    ledger = make(address=server.url(name))
    ledger.charge("epsilon=0.3", purpose="one")
    ledger.charge("epsilon=0.3", purpose="two").open()
    ledger.verify()
    server.run(change, name)
    with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify"):
        ledger.verify()


@pytest.mark.slow
def test_an_empty_database_is_no_ledger(postgres):
    with pytest.raises(LedgerMissing, match=r"^there is no ledger at .*; make one with `vestry ledger create`\.$"):
        Ledger.open(postgres)


@pytest.mark.slow
def test_a_password_comes_from_the_environment(make, server, monkeypatch):
    url = server.url(server.fresh(), "clerk:${CLERK_PASSWORD}")
    monkeypatch.setenv("CLERK_PASSWORD", server.password)
    ledger = make(address=url)
    ledger.charge("epsilon=0.1", purpose="with a password")
    for shown in (ledger.address, repr(ledger)):
        assert server.password not in shown
        assert "clerk:${CLERK_PASSWORD}@" in shown


@pytest.mark.slow
def test_a_wrong_password_is_one_sentence(make, server, monkeypatch):
    url = server.url(server.fresh(), "clerk:${CLERK_PASSWORD}")
    monkeypatch.setenv("CLERK_PASSWORD", "wrong battery")
    for use in (lambda: Ledger.open(url), lambda: make(address=url)):
        with pytest.raises(LedgerUnavailable, match=r"password authentication failed") as caught:
            use()
        assert "wrong battery" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_an_unknown_database_is_one_sentence(server):
    with pytest.raises(LedgerUnavailable, match=r'database "nowhere" does not exist') as caught:
        Ledger.open(server.url("nowhere"))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_an_unreachable_server_is_one_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    for url in (f"postgresql://postgres@127.0.0.1:{port}/ledger", f"postgresql://postgres@/ledger?host={tmp_path}"):
        with pytest.raises(LedgerUnavailable, match=r"^the ledger at postgresql.* cannot be used \(") as caught:
            Ledger.open(url)
        assert "\n" not in str(caught.value)


# Addresses that are refused before any server is asked


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://clerk:hunter2@localhost/ledger",
        "postgres://clerk:hunter2@localhost/ledger",
        "postgresql+psycopg://clerk:hunter2@localhost/ledger",
        "postgresql://clerk@localhost/ledger?password=hunter2",
        "postgresql://clerk@localhost/ledger?sslpassword=hunter2",
        "postgresql://clerk@localhost/ledger?password=${A}&password=hunter2",
        "postgresql://clerk:hunter2${A}@localhost/ledger",
        "postgresql://clerk:hunter2@localhost:port/ledger",
        "mysql://clerk:hunter2@localhost/ledger",
    ],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(url, monkeypatch):
    monkeypatch.setenv("A", "x")
    with pytest.raises(InvalidParameter, match=r"^a ledger's address must be .*\$\{VARIABLE\}") as caught:
        Ledger.open(url)
    assert "hunter2" not in str(caught.value)


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(InvalidParameter, match=r"^the environment variable must be set, not 'NOT_THERE'; write export"):
        Ledger.open("postgresql://clerk:${NOT_THERE}@localhost/ledger")
