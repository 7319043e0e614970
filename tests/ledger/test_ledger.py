"""The ledger on SQLite: what it writes down, what it refuses, and that no change goes unnoticed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from vestry.errors import (
    BudgetExceeded,
    DeclarationMismatch,
    InvalidParameter,
    LedgerCorrupt,
    LedgerExists,
    LedgerMissing,
    LedgerStateError,
    LedgerUnavailable,
    VestryError,
)
from vestry.ledger import Ledger, OpenCharge
from vestry.ledger import database as database_module
from vestry.ledger import ledger as journal_module
from vestry.ledger.database import Database
from vestry.ledger.privacy_filter import PrivacyFilter
from vestry.privacy import pricing, profile
from vestry.privacy.event import compose
from vestry.privacy.guarantee import GaussianDP, PureDP
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.privacy.pricing import event

TERMS = {"dataset": "patients", "unit": "row", "neighbours": "add-remove"}


def actions(ledger: Ledger) -> list[str]:
    return [entry.action for entry in ledger.entries()]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


# Making and opening


def test_create_writes_one_line_with_everything_it_owns(make):
    ledger = make(unit="person=patient_id,rows=3", who="Ann")
    (first,) = ledger.entries()
    facts = first.facts
    assert (first.sequence, first.action, first.target) == (0, "create", None)
    assert facts["dataset"] == "patients"
    assert facts["unit"] == "person=patient_id,rows=3"
    assert facts["neighbours"] == "add-remove"
    assert facts["accepts_unproved"] is False
    assert facts["filter"]["budget"] == "epsilon=1,delta=1e-6"
    assert facts["who"] == "Ann"
    assert set(facts["versions"]) == {"python", "vestry", "opendp"}
    assert ledger.row_key() not in first.body
    assert len(ledger.row_key()) == 32


def test_two_ledgers_have_two_keys(make):
    assert make().row_key() != make().row_key()


def test_open_reads_back_what_create_wrote(make):
    made = make(unit="person=patient_id,rows=3", neighbours="replace", accepts_unproved=True)
    found = Ledger.open(made.address)
    assert found.terms == made.terms
    assert found.terms.unit == Unit("patient_id", 3)
    assert found.terms.neighbours is Neighbours.REPLACE
    assert found.terms.accepts_unproved
    assert found.state() == made.state()
    assert found.row_key() == made.row_key()
    assert found.head() == made.head()


def test_a_path_a_string_and_a_url_name_the_same_ledger(make):
    made = make()
    for address in (made.address, Path(made.address), f"sqlite:///{made.address}"):
        assert Ledger.open(address).head() == made.head()


@pytest.mark.parametrize("name", ["a b.ledger", "100%.ledger", "what?.ledger", "a#b.ledger", "ä.ledger", "-x.ledger"])
def test_any_file_name_will_do(tmp_path, name):
    Ledger.create(tmp_path / name, **TERMS, budget="epsilon=1").charge("epsilon=0.1", purpose="x")
    assert Ledger.open(tmp_path / name).verify().entries == 2
    assert {path.name for path in tmp_path.iterdir()} <= {name, f"{name}-journal"}


def test_open_makes_no_file(tmp_path):
    with pytest.raises(LedgerMissing, match=r"^there is no ledger at .*; make one with `vestry ledger create`\.$"):
        Ledger.open(tmp_path / "no.ledger")
    assert list(tmp_path.iterdir()) == []


def test_create_never_overwrites(make, tmp_path):
    ledger = make()
    ledger.charge("epsilon=0.3", purpose="one")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for taken in (ledger.address, tmp_path / "notes.txt", tmp_path / "folder", tmp_path / "dangling"):
        with pytest.raises(
            LedgerExists, match=r"^there is something at .* already; nothing was changed: name another place\.$"
        ):
            make(address=taken)
    assert ledger.verify().entries == 2
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_create_leaves_nothing_where_it_fails(tmp_path):
    with pytest.raises(InvalidParameter, match=r"^epsilon must be a number above 0"):
        Ledger.create(tmp_path / "a.ledger", **TERMS, budget="epsilon=0")
    with pytest.raises(LedgerUnavailable, match=r"cannot be used \(No such file or directory\)"):
        Ledger.create(tmp_path / "no" / "a.ledger", **TERMS, budget="epsilon=1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": ""}, r"^dataset must be one line of text, not empty"),
        ({"dataset": "two\nlines"}, r"^dataset must be one line of text"),
        ({"dataset": None}, r"^dataset must be one line of text"),
        ({"dataset": "x" * 1001}, r"^dataset must be one line of text"),
        ({"unit": "rows"}, r'^unit must be "row" or "person=COLUMN,rows=K"'),
        ({"unit": "person=id,rows=0"}, r"^rows must be a whole number of at least 1"),
        ({"neighbours": "both"}, r"^neighbours must be one of replace, add-remove"),
        ({"neighbours": None}, r"^neighbours must be one of replace, add-remove"),
        ({"budget": 1}, r"^a guarantee must be text or a guarantee"),
        ({"budget": GaussianDP(1, neighbours="replace")}, r"neighbours relation asked for is replace"),
        ({"who": ""}, r"^who must be one line of text"),
        ({"address": ""}, r"^a ledger's address must be a path or a URL"),
        ({"address": "a\0b"}, r"^a ledger's address must be a path or a URL"),
        ({"address": 7}, r"^a ledger's address must be a path or a URL"),
        ({"address": "mysql://localhost/x"}, r"^a ledger's address must be a path or a postgresql:// URL"),
    ],
    ids=str,
)
def test_create_says_what_is_wrong(tmp_path, change, message):
    arguments = {"address": tmp_path / "a.ledger", **TERMS, "budget": "epsilon=1", **change}
    with pytest.raises(VestryError, match=message):
        Ledger.create(arguments.pop("address"), **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_new_ledger_is_not_the_ghost_of_an_old_one(tmp_path):
    """A killed process may leave the log of an old ledger behind, which SQLite would play into the new file."""
    path = tmp_path / "a.ledger"
    script = (
        "import os, sys; from vestry.ledger import Ledger;"
        "ledger = Ledger.create(sys.argv[1], dataset='old', unit='row', neighbours='replace', budget='epsilon=9');"
        "ledger.charge('epsilon=2', purpose='x');"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert path.exists()
    path.unlink()
    try:
        made = Ledger.create(path, **TERMS, budget="epsilon=1")
    except VestryError:
        return  # refused: fine too
    assert made.state().filter.budget == PureDP(1)
    found = Ledger.open(path)
    assert found.terms.dataset == "patients"
    assert found.verify().entries == 1


def test_a_reader_does_not_hold_up_a_charge(make, monkeypatch):
    monkeypatch.setattr(database_module, "PATIENCE_S", 0.1)
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="one")
    lines = ledger.entries()
    assert next(lines).action == "create"
    ledger.charge("epsilon=0.1", purpose="two")
    assert [entry.action for entry in lines] == ["charge"]  # it sees the moment at which it began
    assert actions(ledger) == ["create", "charge", "charge"]


def test_a_ledger_held_for_long_is_reported_and_not_waited_for_ever(make, monkeypatch):
    monkeypatch.setattr(database_module, "PATIENCE_S", 0.1)
    ledger = make()
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match=r"is in use and stayed locked for 0\.1 s; try again\.$"):
            ledger.charge("epsilon=0.1", purpose="x")
        other.execute("ROLLBACK")
    ledger.charge("epsilon=0.1", purpose="x")


# Charging


def test_three_charges_fit_and_the_fourth_is_refused_without_a_trace(make):
    ledger = make()
    for number in (1, 2, 3):
        assert ledger.charge("epsilon=0.3", purpose="one").sequence == number
    before, state = ledger.head(), ledger.state()
    with pytest.raises(BudgetExceeded, match=r"needs epsilon=0\.3, and epsilon=0\.1") as caught:
        ledger.charge("epsilon=0.3", purpose="one too many")
    assert caught.value.exit_code == 3
    assert caught.value.budget == "epsilon=1,delta=1e-6"
    assert caught.value.remaining["pure"] == "epsilon=0.1"
    assert str(caught.value) == (
        f"Budget exceeded: the charge needs epsilon=0.3, and {caught.value.left} of epsilon=1, delta=1e-6 remains."
        " Charge less, or raise the budget with `vestry ledger amend`."
    )
    assert (ledger.head(), ledger.state()) == (before, state)
    assert actions(ledger) == ["create", "charge", "charge", "charge"]
    ledger.charge("epsilon=0.1", purpose="the rest")
    assert ledger.verify().entries == 5


def test_a_charge_writes_down_what_ran_at_what_price_and_why(make):
    ledger = make()
    charge = ledger.charge(event("gaussian", sensitivity=1, scale=50, count=2), purpose="ward means", who="Bo")
    (_, entry) = ledger.entries()
    assert entry == charge.entry
    facts = entry.facts
    assert facts["event"] == {
        "kind": "gaussian",
        "count": 2,
        "parameters": {"sensitivity": 1.0, "scale": 50.0},
        "neighbours": "add-remove",
    }
    assert facts["purpose"] == "ward means"
    assert facts["who"] == "Bo"
    spent = ledger.state().spent
    assert facts["price"] == spent.to_dict()
    assert spent.totals[0] is None  # no pure price
    assert spent.totals[-2:] == (4 * 10**8, 8 * 10**8)  # rho 2/(2 50^2), mu^2 2/50^2


def test_a_guarantee_may_be_text_or_an_object(make):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="text")
    ledger.charge(PureDP(0.1), purpose="object")
    ledger.charge(PureDP(0.1, neighbours="add-remove"), purpose="bound")
    assert ledger.state().spent.totals[0] == 3 * 10**11


def test_another_relation_is_refused(make):
    ledger = make()
    for what in (
        PureDP(0.1, neighbours="replace"),
        event("pure", epsilon=0.1, neighbours="replace"),
        compose(event("pure", epsilon=0.1, neighbours="replace")),
    ):
        with pytest.raises(DeclarationMismatch, match=r"^the neighbours relation asked for is replace.* add-remove"):
            ledger.charge(what, purpose="x")
    assert actions(ledger) == ["create"]


def test_require_compares_unit_and_neighbours(make):
    ledger = make(unit="person=patient_id,rows=3")
    ledger.require()
    ledger.require(unit="person=patient_id,rows=3", neighbours="add-remove")
    ledger.require(unit=Unit("patient_id", 3), neighbours=Neighbours.ADD_REMOVE)
    for unit in ("row", "person=patient_id,rows=4", "person=id,rows=3"):
        with pytest.raises(
            DeclarationMismatch, match=r"^the unit asked for is .*, but it is person=.*,rows=3 in the ledger"
        ):
            ledger.require(unit=unit)
    with pytest.raises(DeclarationMismatch, match=r"relation asked for is replace, but it is add-remove in the ledger"):
        ledger.require(neighbours="replace")


def test_assumptions_are_refused_unless_the_ledger_accepts_them(make):
    strict, loose = make(), make(accepts_unproved=True)
    with pytest.raises(DeclarationMismatch, match=r"use of unproved samplers.*make a ledger with --accept-unproved"):
        strict.charge("epsilon=0.1", purpose="chain", assumptions=["converged"])
    assert actions(strict) == ["create"]
    charge = loose.charge("epsilon=0.1", purpose="chain", assumptions=["converged"])
    assert charge.entry.facts["assumptions"] == ["converged"]
    assert "assumptions" not in loose.charge("epsilon=0.1", purpose="exact").entry.facts


@pytest.mark.parametrize("purpose", ["", "  ", "two\nlines", "bell\a", None, 3, "x" * 1001])
def test_a_purpose_is_one_line(make, purpose):
    ledger = make()
    with pytest.raises(InvalidParameter, match=r"^purpose must be one line of text, not empty"):
        ledger.charge("epsilon=0.1", purpose=purpose)
    assert actions(ledger) == ["create"]


def gaussian_profile(epsilon: float) -> float:
    return profile.gaussian(epsilon, mu=0.05)


@pytest.mark.parametrize("composed", [False, True], ids=["alone", "in a composition"])
def test_a_profile_is_written_as_the_curve_it_was_charged_at(make, composed):
    ledger = make()
    ran = event("profile", profile=gaussian_profile, count=2)
    if composed:
        ran = compose(ran, event("pure", epsilon=0.01))
    charge = ledger.charge(ran, purpose="profile")
    written = charge.entry.facts["event"]
    curve = written["parts"][0] if composed else written
    assert curve["kind"] == "renyi"
    assert curve["count"] == 2
    assert curve["neighbours"] == "add-remove"
    orders = ledger.state().filter.orders
    assert curve["parameters"]["orders"] == list(orders)
    for order, epsilon in zip(orders, curve["parameters"]["epsilons"], strict=True):
        assert epsilon == pytest.approx(order * 0.05**2 / 2, rel=1e-3)
        assert epsilon >= order * 0.05**2 / 2
    totals = charge.entry.facts["price"]["totals"]
    assert totals[0] is None
    if not composed:
        for total, epsilon in zip(totals[1:-2], curve["parameters"]["epsilons"], strict=True):
            assert abs(total - 2 * epsilon * 10**12) <= 2
    assert ledger.verify().entries == 2


def test_a_profile_without_a_curve_is_refused_before_it_is_charged(make):
    ledger = make("epsilon=1")
    with pytest.raises(InvalidParameter, match=r"^an event given by a profile must be bounded at one of the ledger's"):
        ledger.charge(event("profile", profile=gaussian_profile), purpose="x")
    assert actions(ledger) == ["create"]


def test_a_ledger_is_read_without_the_law_of_its_events(make, monkeypatch):
    ledger = make()
    own = pricing.Pricing(
        {"epsilon": pricing.Rule("above 0", lambda x: x > 0)},
        pure=lambda epsilon: pricing.exact(epsilon),
        renyi=lambda order, epsilon: epsilon,
    )
    with monkeypatch.context() as here:
        here.setattr(pricing, "PRICINGS", dict(pricing.PRICINGS))
        here.setattr("vestry.privacy.accountant.PRICINGS", pricing.PRICINGS)
        pricing.register("of-tomorrow", own)
        charge = ledger.charge(event("of-tomorrow", epsilon=0.2), purpose="new kind")
    assert "of-tomorrow" not in pricing.PRICINGS
    with pytest.raises(InvalidParameter, match=r"^kind must be one of"):
        event("of-tomorrow", epsilon=0.2)
    found = Ledger.open(ledger.address)
    assert found.verify().entries == 2
    assert list(found.entries())[1].facts["event"]["kind"] == "of-tomorrow"
    assert found.state().spent.totals[0] == 2 * 10**11
    found.resume(charge.sequence).open().released(b"x")
    found.charge("epsilon=0.2", purpose="an old kind")
    assert found.verify().entries == 5


# From charged to opened to released


def test_a_charge_is_opened_once_and_released_once(make):
    ledger = make()
    charge = ledger.charge("epsilon=0.1", purpose="x")
    with pytest.raises(LedgerStateError, match=r"^charge 1 is not opened yet; open it before its release\.$"):
        OpenCharge(charge).released(b"x")
    opened = charge.open()
    with pytest.raises(LedgerStateError, match=r"^charge 1 has its open already; charge again to draw again\.$"):
        charge.open()
    release = opened.released(b"content")
    with pytest.raises(LedgerStateError, match=r"^charge 1 has its release already"):
        opened.released(b"content")
    with pytest.raises(LedgerStateError, match=r"^charge 1 has its open already"):
        charge.open()
    assert [(e.action, e.target) for e in ledger.entries()] == [
        ("create", None),
        ("charge", None),
        ("open", 1),
        ("release", 1),
    ]
    # sha256 of b"content", from the sha256sum program
    assert release.facts["release_sha256"] == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert ledger.verify().entries == 4


def test_opening_costs_nothing_more(make):
    ledger = make()
    charge = ledger.charge("epsilon=0.1", purpose="x")
    before = ledger.state()
    charge.open().released(b"x")
    assert ledger.state() == before


def test_charges_move_on_independently(make):
    ledger = make()
    one, two = (ledger.charge("epsilon=0.1", purpose="x") for _ in range(2))
    two_opened = two.open()
    one_opened = one.open()
    one_opened.released(b"1")
    two_opened.released(b"2")
    assert [(e.action, e.target) for e in ledger.entries()][3:] == [
        ("open", 2),
        ("open", 1),
        ("release", 1),
        ("release", 2),
    ]
    assert ledger.verify().entries == 7


def test_a_charge_is_resumed_until_it_is_opened(make):
    ledger = make()
    charge = ledger.charge("epsilon=0.1", purpose="x")
    resumed = Ledger.open(ledger.address).resume(charge.sequence)
    assert resumed.entry == charge.entry
    resumed.open()
    with pytest.raises(LedgerStateError, match=r"^charge 1 has its open already"):
        charge.open()
    with pytest.raises(LedgerStateError, match=r"^charge 1 has its open already"):
        ledger.resume(charge.sequence).open()


def test_only_a_charge_is_resumed(make):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="x").open()
    for number, action in ((0, "create"), (2, "open")):
        with pytest.raises(LedgerStateError, match=rf"^entry {number} is of action {action}; name a charge\.$"):
            ledger.resume(number)
    for number in (3, -1, 10**9):
        with pytest.raises(LedgerStateError, match=rf"^the ledger has no entry {number}; see `vestry ledger show`\.$"):
            ledger.resume(number)


def test_the_database_itself_refuses_a_second_opening(make):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="x").open()
    with closing(sqlite3.connect(ledger.address)) as raw, pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute("INSERT INTO vestry_journal SELECT 3, action, target, body, hash, hash || '' FROM vestry_journal"
                    " WHERE sequence = 2")  # fmt: skip


# Raising the budget


def test_amend_raises_the_budget_and_keeps_what_was_spent(make):
    ledger = make()
    for _ in range(3):
        ledger.charge("epsilon=0.3", purpose="x")
    other = Ledger.open(ledger.address)
    entry = ledger.amend("epsilon=2,delta=1e-6", reason="second wave", who="Cy")
    assert entry.facts["reason"] == "second wave"
    assert entry.facts["who"] == "Cy"
    assert str(ledger.state().filter.budget) == "epsilon=2,delta=1e-6"
    assert ledger.state().filter.orders == PrivacyFilter.from_dict(next(ledger.entries()).facts["filter"]).orders
    for user in (ledger, other, Ledger.open(ledger.address)):
        user.charge("epsilon=0.3", purpose="after")
    assert ledger.state().spent.totals[0] == 18 * 10**11
    with pytest.raises(BudgetExceeded, match=r"and epsilon=0\.2.* of epsilon=2, delta=1e-6 remains"):
        other.charge("epsilon=0.3", purpose="too much")
    assert ledger.verify().entries == 8


@pytest.mark.parametrize(
    "budget",
    ["epsilon=0.9,delta=1e-6", "epsilon=1,delta=1e-6", "epsilon=1,delta=9e-7", "epsilon=5,delta=1e-7"],
)
def test_amend_never_lowers(make, budget):
    ledger = make()
    with pytest.raises(InvalidParameter, match=r"^an amended budget must be at least epsilon=1,delta=1e-6, and more"):
        ledger.amend(budget, reason="x")
    assert actions(ledger) == ["create"]
    assert str(ledger.state().filter.budget) == "epsilon=1,delta=1e-6"


@pytest.mark.parametrize("budget", ["epsilon=5", "rho=5", "mu=5", "order=10,epsilon=5"])
def test_amend_keeps_the_definition(make, budget):
    ledger = make()
    with pytest.raises(
        DeclarationMismatch, match=r"^the privacy definition asked for is .*; raise the budget in its own definition\.$"
    ):
        ledger.amend(budget, reason="x")
    assert actions(ledger) == ["create"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon=1", "epsilon=1.5"),
        ("rho=0.1", "rho=0.2"),
        ("mu=1", "mu=2"),
        ("order=8,epsilon=1", "order=8,epsilon=2"),
    ],
)
def test_amend_works_in_every_definition(make, old, new):
    ledger = make(old)
    ledger.amend(new, reason="x")
    assert str(ledger.state().filter.budget) == new
    with pytest.raises(InvalidParameter, match=r"^an amended budget must be at least"):
        ledger.amend(old, reason="x")
    assert ledger.verify().entries == 2


def test_a_renyi_budget_keeps_its_order(make):
    ledger = make("order=8,epsilon=1")
    with pytest.raises(VestryError, match=r"order=8,epsilon=1"):
        ledger.amend("order=9,epsilon=2", reason="x")
    assert actions(ledger) == ["create"]


def test_amend_needs_a_reason(make):
    with pytest.raises(InvalidParameter, match=r"^reason must be one line of text"):
        make().amend("epsilon=2,delta=1e-6", reason="")


# Export


def test_entries_are_written_as_plain_values(make):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="x").open()
    lines = [json.loads(json.dumps(entry.to_dict())) for entry in ledger.entries()]
    assert [line["sequence"] for line in lines] == [0, 1, 2]
    assert all(set(line) == {"sequence", "action", "target", "body", "previous", "hash"} for line in lines)
    assert [line["previous"] for line in lines[1:]] == [line["hash"] for line in lines[:-1]]
    assert ledger.row_key() not in json.dumps(lines)


# A kept head


def row(connection: sqlite3.Connection) -> dict[str, object]:
    connection.row_factory = sqlite3.Row
    return dict(connection.execute("SELECT * FROM vestry_head").fetchone())


def put(connection: sqlite3.Connection, head: dict[str, object]) -> None:
    connection.execute("DELETE FROM vestry_head")
    marks = ",".join("?" * len(head))
    connection.execute(f"INSERT INTO vestry_head ({','.join(head)}) VALUES ({marks})", tuple(head.values()))


def test_a_kept_head_is_found_after_growth(make):
    ledger = make()
    heads = [ledger.head()]
    for _ in range(3):
        heads.append(ledger.charge("epsilon=0.1", purpose="x").entry.hash)
    for head in heads:
        assert ledger.verify(head=head).head == heads[-1]


def test_a_cut_tail_is_found_by_a_kept_head(make):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="one")
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
        earlier = row(raw)
        charge = ledger.charge("epsilon=0.1", purpose="two")
        charge.open()
        kept = ledger.head()
        raw.execute("DELETE FROM vestry_journal WHERE sequence > 1")
        put(raw, earlier)
    fresh = Ledger.open(ledger.address)
    assert fresh.verify().entries == 2  # the chain itself holds
    for head in (kept, charge.entry.hash):
        with pytest.raises(LedgerCorrupt, match=r"no line has the hash asked for.*the tail was cut"):
            fresh.verify(head=head)


def test_a_swapped_file_is_found_by_a_kept_head(make):
    ledger, other = make(), make()
    with pytest.raises(LedgerCorrupt, match=r"no line has the hash asked for.*the file was swapped"):
        other.verify(head=ledger.head())


def test_the_head_depends_on_every_line_before(make, monkeypatch):
    """Rewrite one word of history and seal every line anew: the totals are the same, the head is not."""
    monkeypatch.setattr(journal_module, "_now", lambda: "2026-01-01T00:00:00.000+00:00")
    monkeypatch.setattr("vestry.noise.SystemNoise.random_bytes", lambda self, count: bytes(count))

    def lived(first, second):
        ledger = make("epsilon=1", who="Ann")
        ledger.charge("epsilon=0.1", purpose=first, who="Ann").open().released(b"x")
        ledger.charge("epsilon=0.1", purpose=second, who="Ann")
        ledger.amend("epsilon=2", reason="more", who="Ann")
        return ledger.head()

    assert lived("one", "two") == lived("one", "two")
    assert len({lived("one", "two"), lived("One", "two"), lived("one", "Two")}) == 3


# Changes by hand


@pytest.fixture
def tampered(tmp_path, whole):
    """A ledger with every action, and a connection to change it by."""
    path = tmp_path / "a.ledger"
    path.write_bytes(whole)
    ledger = Ledger.open(path)
    ledger.verify()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous=OFF")
        yield ledger, raw


def changes(value: object, *, every: int) -> list[object]:
    """Change one bit: one in each byte of a text, and all eight in some; a few in a number."""
    if isinstance(value, int):
        return [value ^ (1 << bit) for bit in range(8)] + [-1 - value, None, "x"]
    if value is None:
        return [0, 1, 4, "x"]
    content = value.encode()
    changed: list[object] = []
    for place in range(len(content)):
        bits = range(8) if place % every == 0 else [place % 7]
        for bit in bits:
            other = bytearray(content)
            other[place] ^= 1 << bit
            changed.append(bytes(other))
    return [*changed, b"", content[:-1], content + b" "]


TEXT = "CAST(? AS TEXT)"


def rows(raw: sqlite3.Connection, table: str) -> list[tuple[int, dict[str, object]]]:
    names = [column[1] for column in raw.execute(f"PRAGMA table_info({table})")]
    found = raw.execute(f"SELECT rowid, {', '.join(names)} FROM {table} ORDER BY rowid").fetchall()
    return [(row[0], dict(zip(names, row[1:], strict=True))) for row in found]


@pytest.mark.long
def test_any_changed_byte_of_any_column_of_any_row_is_found(tampered):
    ledger, raw = tampered
    unnoticed, tried, columns = [], 0, set()
    for table in ("vestry_journal", "vestry_head"):
        for rowid, values in rows(raw, table):
            for column, value in values.items():
                if (table, column) == ("vestry_head", "format"):
                    continue  # below
                for other in changes(value, every=32):
                    mark = TEXT if isinstance(other, bytes) else "?"
                    try:
                        raw.execute(f"UPDATE {table} SET {column} = {mark} WHERE rowid = ?", (other, rowid))
                    except sqlite3.IntegrityError:
                        continue  # the database refuses this one itself
                    number = other if column in ("sequence", "id") and isinstance(other, int) else rowid
                    try:
                        ledger.verify()
                    except LedgerCorrupt:
                        pass
                    except Exception as error:
                        unnoticed.append((table, rowid, column, other, repr(error)))
                    else:
                        unnoticed.append((table, rowid, column, other, "verified"))
                    raw.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, number))
                    tried += 1
                    columns.add((table, column, rowid))
    assert unnoticed == []
    ledger.verify()  # and back again
    assert tried > 4000
    assert len(columns) == 8 * 6 + 6


@pytest.mark.parametrize("number", [0, 1, 3, 99, -1])
def test_another_format_is_left_alone(tampered, number):
    ledger, raw = tampered
    raw.execute("UPDATE vestry_head SET format = ?", (number,))
    for use in (
        ledger.verify,
        lambda: Ledger.open(ledger.address),
        lambda: ledger.charge("epsilon=0.01", purpose="x"),
        lambda: ledger.amend("epsilon=3,delta=1e-6", reason="x"),
        lambda: ledger.resume(4).open(),
    ):
        with pytest.raises(LedgerUnavailable, match=rf"has format {number}, and this version .* reads format 2;"):
            use()
    assert len(rows(raw, "vestry_journal")) == 8


@pytest.mark.parametrize("number", range(8))
def test_a_missing_line_is_found(tampered, number):
    ledger, raw = tampered
    raw.execute("DELETE FROM vestry_journal WHERE sequence = ?", (number,))
    with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify"):
        ledger.verify()
    for sequence in range(number + 1, 8):
        raw.execute("UPDATE vestry_journal SET sequence = ? WHERE sequence = ?", (sequence - 1, sequence))
    with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify"):
        ledger.verify()


def test_a_ledger_without_lines_or_head_is_found(tampered):
    ledger, raw = tampered
    head = row(raw)
    raw.row_factory = None
    raw.execute("DELETE FROM vestry_head")
    for use in (ledger.verify, ledger.state, lambda: ledger.charge("epsilon=0.01", purpose="x")):
        with pytest.raises(LedgerCorrupt, match=r"it has no head"):
            use()
    put(raw, head)
    ledger.verify()
    raw.execute("DELETE FROM vestry_journal")
    with pytest.raises(LedgerCorrupt, match=r"it has no first line"):
        ledger.verify()


def test_a_ledger_without_its_first_line_is_found_as_it_is_opened(tampered):
    ledger, raw = tampered
    raw.execute("DELETE FROM vestry_journal WHERE sequence = 0")
    with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify"):
        Ledger.open(ledger.address)


@pytest.mark.parametrize(("one", "two"), [(a, b) for a in range(8) for b in range(a + 1, 8)])
def test_two_swapped_lines_are_found(tampered, one, two):
    ledger, raw = tampered
    for old, new in ((one, 100), (two, one), (100, two)):
        raw.execute("UPDATE vestry_journal SET sequence = ? WHERE sequence = ?", (new, old))
    with pytest.raises(LedgerCorrupt, match=rf"^the ledger does not verify at entry {one}:"):
        ledger.verify()


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("place", [8, 9, -1])
def test_a_repeated_line_is_found(tampered, number, place, monkeypatch):
    ledger, raw = tampered
    monkeypatch.setattr(Database, "require_sound", lambda self: None)  # which would miss the index
    raw.execute("DROP INDEX IF EXISTS vestry_journal_once")
    columns = "action, target, body, previous, hash"
    raw.execute(
        f"INSERT INTO vestry_journal (sequence, {columns}) SELECT ?, {columns} FROM vestry_journal WHERE sequence = ?",
        (place, number),
    )
    with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify at entry"):
        ledger.verify()


def test_verify_names_the_first_bad_line(tampered):
    ledger, raw = tampered
    raw.execute("UPDATE vestry_journal SET body = replace(body, 'two', 'Two') WHERE sequence = 4")
    raw.execute("UPDATE vestry_journal SET body = replace(body, 'three', 'Three') WHERE sequence = 6")
    with pytest.raises(
        LedgerCorrupt, match=r"^the ledger does not verify at entry 4: .*restore it from a copy"
    ) as caught:
        ledger.verify()
    assert caught.value.sequence == 4


def test_totals_lowered_by_hand_are_refused_by_the_next_charge(make):
    ledger = make("epsilon=1")
    ledger.charge("epsilon=0.9", purpose="x")
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
        head = row(raw)
        assert "900000000000" in head["state"]
        put(raw, {**head, "state": head["state"].replace("900000000000", "100000000000")})
        for use in (
            lambda: ledger.charge("epsilon=0.5", purpose="x"),
            lambda: Ledger.open(ledger.address).charge("epsilon=0.5", purpose="x"),
            lambda: ledger.resume(1).open(),
            lambda: ledger.amend("epsilon=2", reason="x"),
        ):
            with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify.* head"):
                use()
        assert len(rows(raw, "vestry_journal")) == 2


def test_a_limit_raised_by_hand_is_refused_by_the_next_charge(make):
    ledger = make("epsilon=1")
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
        head = row(raw)
        put(raw, {**head, "state": head["state"].replace("1000000000000", "9000000000000")})
        with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify.* head"):
            Ledger.open(ledger.address).charge("epsilon=5", purpose="x")


def test_an_older_head_is_refused_by_the_next_charge(make):
    """A head of before, put back whole, belongs to a line that is not the last."""
    ledger = make("epsilon=1")
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
        earlier = row(raw)
        ledger.charge("epsilon=0.9", purpose="x")
        put(raw, earlier)
        with pytest.raises(VestryError, match=r"ledger"):
            ledger.charge("epsilon=0.9", purpose="x")
        with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify"):
            ledger.verify()
        assert len(rows(raw, "vestry_journal")) == 2


@pytest.mark.long
@pytest.mark.parametrize("column", ["state", "hash", "content", "sequence"])
def test_no_changed_byte_of_the_head_is_built_upon(tampered, column):
    """A charge and an opening are refused, in a sentence of ours, and write nothing."""
    ledger, raw = tampered
    ((rowid, head),) = rows(raw, "vestry_head")
    wrong = []
    for other in changes(head[column], every=8):
        if other is None:
            continue
        mark = TEXT if isinstance(other, bytes) else "?"
        raw.execute(f"UPDATE vestry_head SET {column} = {mark} WHERE rowid = ?", (other, rowid))
        for use in (lambda: ledger.charge("epsilon=0.001", purpose="x"), lambda: ledger.resume(4).open()):
            try:
                use()
            except VestryError:
                pass
            except Exception as error:
                wrong.append((other, repr(error)))
            else:
                wrong.append((other, "accepted"))
                raw.execute("DELETE FROM vestry_journal WHERE sequence > 7")
                put(raw, head)
        raw.execute(f"UPDATE vestry_head SET {column} = ? WHERE rowid = ?", (head[column], rowid))
    assert wrong == []
    assert len(rows(raw, "vestry_journal")) == 8
    ledger.verify()


# A chain that is whole and yet breaks a rule: whoever can recompute the hashes cannot make verify accept these


def test_verify_finds_a_charge_beyond_the_budget(make, monkeypatch):
    ledger = make("epsilon=1")
    with monkeypatch.context() as broken:
        broken.setattr(PrivacyFilter, "holds", lambda self, spent: True)
        ledger.charge("epsilon=5", purpose="x")
    with pytest.raises(LedgerCorrupt, match=r"at entry 1: the charge exceeds the budget"):
        ledger.verify()


def test_verify_finds_an_amendment_that_lowers(make, monkeypatch):
    ledger = make("epsilon=1")
    with monkeypatch.context() as broken:
        broken.setattr(PrivacyFilter, "covers", lambda self, other: True)
        ledger.amend("epsilon=0.5", reason="x")
    with pytest.raises(LedgerCorrupt, match=r"at entry 1: the amendment lowers the budget"):
        ledger.verify()


def test_verify_finds_a_release_without_its_opening(make, monkeypatch):
    ledger = make("epsilon=1")
    charge = ledger.charge("epsilon=0.5", purpose="x")
    with monkeypatch.context() as broken:
        broken.setitem(journal_module.BEFORE, "release", "charge")
        OpenCharge(charge).released(b"x")
    with pytest.raises(LedgerCorrupt, match=r"at entry 2: the line follows no charge in the right state"):
        ledger.verify()


# Files that are no ledgers


def truncated(content: bytes, keep: float) -> bytes:
    return content[: int(len(content) * keep)]


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE accounts (number, amount)")
        raw.execute("INSERT INTO accounts VALUES (1, 2)")
        raw.commit()


NO_LEDGERS = {
    "random bytes": lambda path, good: path.write_bytes(bytes((7 * i * i + i) % 256 for i in range(5000))),
    "text": lambda path, good: path.write_text("dear diary\n" * 500),
    "empty": lambda path, good: path.write_bytes(b""),
    "a header alone": lambda path, good: path.write_bytes(good[:100]),
    "a third": lambda path, good: path.write_bytes(truncated(good, 0.34)),
    "two thirds": lambda path, good: path.write_bytes(truncated(good, 0.67)),
    "another database": lambda path, good: other_database(path),
}


@pytest.mark.parametrize("kind", NO_LEDGERS)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path, whole, kind):
    path = tmp_path / "a.ledger"
    NO_LEDGERS[kind](path, whole)
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match=r"is damaged or is not a ledger; restore it from a copy") as caught:
        Ledger.open(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    with pytest.raises(LedgerExists, match=r"already; nothing was changed"):
        Ledger.create(path, **TERMS, budget="epsilon=1")
    assert path.read_bytes() == before


def test_a_folder_is_no_ledger(tmp_path):
    with pytest.raises(LedgerUnavailable, match=r"^the ledger at .* cannot be used \(unable to open database file\)"):
        Ledger.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_of_another_format_is_not_changed(tmp_path, whole):
    path = tmp_path / "a.ledger"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("UPDATE vestry_head SET format = 99")
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailable, match=r"has format 99, .* open it with the version that wrote it\.$"):
        Ledger.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_bit_anywhere_in_the_file_is_harmless_or_a_sentence(tmp_path, whole, seed):
    """Free space may change unnoticed; what the ledger says may not, and nothing fails in another way."""
    found = []
    for step in range(60):
        place = (step * 7919 + seed * 104729) % len(whole)
        path = tmp_path / f"flipped-{step}.ledger"
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << step % 8)]) + whole[place + 1 :])
        try:
            verified = Ledger.open(path).verify()
        except VestryError as error:
            found.append(str(error))
        else:
            assert verified.entries == 8
    assert found
    assert [message for message in found if "\n" in message] == []


def test_a_lost_file_is_missed(make):
    ledger = make()
    os.unlink(ledger.address)
    with pytest.raises(LedgerMissing, match=r"^there is no ledger at"):
        Ledger.open(ledger.address)
