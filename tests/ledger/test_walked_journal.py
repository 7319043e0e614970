"""What was charged, opened or released before is told by lines whose chain was walked, with the index and without."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest
from ledger_processes import PROCESSES, asked

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.data import Table
from vestry.errors import DeclarationMismatch, LedgerCorrupt
from vestry.ledger import Ledger, journal, journal_index
from vestry.ledger.entry import JournalWalk, State
from vestry.ledger.ledger import _append
from vestry.pipeline import release
from vestry.schema.domain import Levels

QUICK = 10
FULL = 200
MODEL = BetaBernoulli("readmitted", success="yes", by="ward")


@pytest.fixture
def table(tmp_path) -> Table:
    people = tmp_path / "people.csv"
    people.write_text("readmitted,ward\n" + "yes,A\nno,B\nno,C\n" * 20)
    columns = {"readmitted": Levels("no", "yes"), "ward": Levels("A", "B", "C")}
    return Table(people, columns, neighbours="add-remove")


@pytest.fixture
def released(make, table) -> Path:
    """A ledger in which the question was charged, opened and released, with other charges before and after."""
    ledger = make(budget="epsilon=5,delta=1e-6")
    ledger.charge("epsilon=0.1", purpose="before")
    release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger)
    ledger.charge("epsilon=0.1", purpose="after").open()
    return Path(ledger.address)


@pytest.fixture
def indexed(released, monkeypatch) -> Path:
    """The same ledger, with its index beside it: every look-up writes one, however short the journal is."""
    monkeypatch.setattr(journal, "LINES_BEHIND", 1)
    Ledger.open(released).journal()
    assert index_of(released).exists()
    return released


@pytest.fixture
def steps(monkeypatch) -> list[int]:
    """The numbers of the lines that are walked."""
    walked = list[int]()
    step = JournalWalk.step

    def recorded(walk, entry):
        walked.append(entry.sequence)
        return step(walk, entry)

    monkeypatch.setattr(JournalWalk, "step", recorded)
    return walked


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.index")


def definition_of(path: Path) -> str:
    (definition,) = [entry.facts["definition"] for entry in Ledger.open(path).entries() if "definition" in entry.body]
    return definition


def flipped_definitions(path: Path, folder: Path, count: int):
    """Yield copies of a ledger's file, each with one flipped bit in the definition of the charge."""
    content = path.read_bytes()
    definition = definition_of(path).encode()
    start = content.index(b'"definition":"' + definition) + len(b'"definition":"')
    bits = range(8 * start, 8 * (start + len(definition)))
    chooser = random.Random(20261119)
    for number in range(count):
        bit = chooser.choice(bits)
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        copy = folder / f"flipped-{number}.ledger"
        copy.write_bytes(flipped)
        yield copy


def assert_nothing_is_paid_again(path: Path, table: Table) -> None:
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify") as refused:
        release(MODEL, table, guarantee="epsilon=0.3", ledger=str(path))
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("count", [QUICK, pytest.param(FULL, marks=pytest.mark.long)])
def test_a_flipped_definition_is_refused_and_never_paid_for_again(released, table, tmp_path, count):
    with pytest.raises(DeclarationMismatch, match=r"released before, by entry 2"):
        release(MODEL, table, guarantee="epsilon=0.3", ledger=str(released))
    for copy in flipped_definitions(released, tmp_path, count):
        assert_nothing_is_paid_again(copy, table)


@pytest.mark.parametrize("count", [QUICK, pytest.param(FULL, marks=pytest.mark.long)])
def test_a_flipped_definition_is_refused_by_an_index_too(indexed, table, tmp_path, count):
    """The index was made before the bit was flipped, so that no line is walked again."""
    index = index_of(indexed).read_bytes()
    for copy in flipped_definitions(indexed, tmp_path, count):
        beside = index_of(copy)
        beside.write_bytes(index)
        beside.chmod(0o600)
        assert_nothing_is_paid_again(copy, table)


def test_a_flipped_definition_is_refused_by_a_handle_that_walked_it(released, table):
    ledger = Ledger.open(released)
    definition = definition_of(released)
    assert ledger.journal().newest_charge(definition).sequence == 2
    with closing(sqlite3.connect(released, isolation_level=None)) as raw:
        raw.execute("UPDATE vestry_journal SET body = replace(body, ?, ?)", (definition, definition[:-1] + "?"))
    with pytest.raises(LedgerCorrupt, match=r"at entry 2: the line was changed"):
        release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger)
    with pytest.raises(LedgerCorrupt, match=r"at entry 2: the line was changed"):
        ledger.resume(2)


# The index


def flipped_indexes(path: Path, count: int):
    """Flip one bit of the index after another, and yield the bit."""
    good = index_of(path).read_bytes()
    chooser = random.Random(20261120)
    for _ in range(count):
        bit = chooser.randrange(8 * len(good))
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        index_of(path).write_bytes(flipped)
        yield bit


@pytest.mark.parametrize("count", [QUICK, pytest.param(FULL, marks=pytest.mark.long)])
def test_a_flipped_index_is_made_anew_and_decides_nothing(indexed, table, steps, count):
    good = index_of(indexed).read_bytes()
    before = indexed.read_bytes()
    for bit in flipped_indexes(indexed, count):
        steps.clear()
        with pytest.raises(DeclarationMismatch, match=r"released before, by entry 2"):
            release(MODEL, table, guarantee="epsilon=0.3", ledger=str(indexed))
        assert len(steps) == 1 + 7, bit  # as it is opened the first line, and then all of them
        assert index_of(indexed).read_bytes() == good
    assert indexed.read_bytes() == before


def test_without_its_digest_a_flipped_index_would_be_believed(indexed, table, monkeypatch):
    """The broken twin: some flipped bit makes the ledger deny the charge, or call it another line."""
    monkeypatch.setattr(journal_index, "_digest", lambda content: bytes(32))
    index_of(indexed).unlink()
    Ledger.open(indexed).journal()
    answers = set[str]()
    for _ in flipped_indexes(indexed, FULL):
        try:
            charge = Ledger.open(indexed).journal().newest_charge(definition_of(indexed))
        except LedgerCorrupt:
            answers.add("refused")
        else:
            answers.add("denied" if charge is None else "told")
    assert answers == {"refused", "denied", "told"}


def test_an_index_saves_the_walk_and_a_stale_one_all_but_the_new_lines(indexed, steps):
    Ledger.open(indexed).journal()
    assert steps == [0]  # the terms, as it is opened
    steps.clear()
    ledger = Ledger.open(indexed)
    ledger.charge("epsilon=0.1", purpose="later")
    ledger.charge("epsilon=0.1", purpose="and later")
    assert ledger.journal().last_line().sequence == 8
    assert steps == [0, 7, 8]
    steps.clear()
    Ledger.open(indexed).journal()
    assert steps == [0]


def test_a_short_journal_has_no_index(released):
    Ledger.open(released).journal()
    assert not index_of(released).exists()


def spoil(kind: str, path: Path, tmp_path: Path, make) -> None:
    """Put something else in the place of an index."""
    index = index_of(path)
    good = index.read_bytes()
    if kind == "of another ledger":
        other = make()
        for number in range(3):
            other.charge("epsilon=0.1", purpose=f"question {number}")
        other.journal()
        index.write_bytes(index_of(Path(other.address)).read_bytes())
    elif kind == "of a copy that went on otherwise":
        Ledger.open(path).backup(tmp_path / "copy.ledger")
        other = Ledger.restore(tmp_path / "copy.ledger", tmp_path / "other.ledger", lost=None, reason="test")
        other.journal()
        Ledger.open(path).charge("epsilon=0.1", purpose="the ledger itself")
        index.write_bytes(index_of(tmp_path / "other.ledger").read_bytes())
    elif kind == "torn":
        index.write_bytes(good[: len(good) // 2])
    elif kind == "empty":
        index.write_bytes(b"")
    elif kind == "longer":
        index.write_bytes(good + b"\0" * 33)
    elif kind == "a link":
        index.rename(tmp_path / "elsewhere")
        index.symlink_to(tmp_path / "elsewhere")
    elif kind == "a pipe":
        index.unlink()
        os.mkfifo(index, 0o600)
    elif kind == "writable by others":
        index.chmod(0o620)
    elif kind == "readable by others":
        index.chmod(0o644)
    else:
        index.unlink()


SPOILT = (
    "of another ledger", "of a copy that went on otherwise", "torn", "empty", "longer", "a link", "a pipe",
    "writable by others", "readable by others", "missing",
)  # fmt: skip


@pytest.mark.parametrize("kind", SPOILT)
def test_another_file_in_its_place_is_made_anew(indexed, tmp_path, make, steps, kind):
    spoil(kind, indexed, tmp_path, make)
    steps.clear()
    ledger = Ledger.open(indexed)
    lines = ledger.summary().entries
    now = ledger.journal()
    assert steps[-lines:] == list(range(lines))
    assert now.newest_charge(definition_of(indexed)).sequence == 2
    assert now.stage(2) == "release"
    assert index_of(indexed).is_file()
    assert not index_of(indexed).is_symlink()
    assert stat.S_IMODE(index_of(indexed).stat().st_mode) == 0o600
    steps.clear()
    Ledger.open(indexed).journal()
    assert steps == [0]


def test_an_older_copy_of_the_ledger_is_not_told_what_the_index_knows(indexed, tmp_path):
    older = indexed.read_bytes()
    charge = Ledger.open(indexed).charge("epsilon=0.1", purpose="later", definition="later")
    assert Ledger.open(indexed).journal().newest_charge("later").sequence == charge.sequence
    indexed.write_bytes(older)
    ledger = Ledger.open(indexed)
    assert ledger.journal().newest_charge("later") is None
    assert ledger.charge("epsilon=0.1", purpose="later", definition="later", once=True).sequence == charge.sequence


@pytest.mark.parametrize("kind", ["a folder that nobody can write", "a folder in its place"])
def test_where_no_index_can_be_written_every_handle_walks_once(indexed, tmp_path, steps, monkeypatch, kind):
    index_of(indexed).unlink()
    if kind == "a folder in its place":
        (index_of(indexed) / "inside").mkdir(parents=True)
    else:
        monkeypatch.setattr("tempfile.mkstemp", refused_by_the_folder)
    steps.clear()
    ledger = Ledger.open(indexed)
    for _ in range(3):
        assert ledger.journal().stage(2) == "release"
    assert steps == [0, *range(7)]
    assert not list(tmp_path.glob("*.part"))


def refused_by_the_folder(**place):
    raise PermissionError(13, "Permission denied")


def test_what_a_killed_process_left_is_removed_after_an_hour(indexed):
    old = indexed.with_name(f".{indexed.name}.index.abc.part")
    young = indexed.with_name(f".{indexed.name}.index.def.part")
    for part in (old, young):
        part.write_bytes(b"half")
    os.utime(old, (time.time() - 4000, time.time() - 4000))
    ledger = Ledger.open(indexed)
    ledger.charge("epsilon=0.1", purpose="later")
    ledger.journal()
    assert not old.exists()
    assert young.exists()


@pytest.mark.long
def test_eight_processes_write_one_index(indexed, steps):
    """Each charges and looks up, again and again; whatever lies in its place at the end is whole."""

    def used(tell):
        ledger = Ledger.open(indexed)
        for number in range(10):
            charge = ledger.charge("epsilon=0.001", purpose="x", definition=f"{os.getpid()}-{number}")
            if Ledger.open(indexed).journal().newest_charge(f"{os.getpid()}-{number}").sequence != charge.sequence:
                tell("another line")

    def all_at_once(tell):
        children = []
        for _ in range(PROCESSES):
            child = os.fork()
            if child == 0:
                used(tell)
                os._exit(0)
            children.append(child)
        for child in children:
            tell(os.waitpid(child, 0)[1])

    assert asked(all_at_once) == [0] * PROCESSES
    assert not list(indexed.parent.glob(".*.part"))
    steps.clear()
    assert Ledger.open(indexed).journal().index.count == 7 + 10 * PROCESSES
    assert len(steps) < 1 + PROCESSES + 1


def filled(ledger: Ledger, lines: int, chooser: random.Random) -> None:
    """Append charges, of which some definitions come back, and open and release some of them."""
    first = ledger.charge("epsilon=0.000001", purpose="x").entry.facts
    state = ledger.state()
    price = type(state.spent).from_dict(first["price"])
    charged = list[int]()
    opened = list[int]()
    with ledger._database.transaction() as (session, head):
        for _ in range(lines):
            number = head.sequence + 1
            action = chooser.choice(["charge", "open", "release"])
            if action == "open" and charged:
                target = charged.pop(chooser.randrange(len(charged)))
                opened.append(target)
                head = _append(session, head, "open", target, {"when": "now"}, state)[1]
            elif action == "release" and opened:
                target = opened.pop(chooser.randrange(len(opened)))
                record = {"release_sha256": f"{number:064x}"}
                head = _append(session, head, "release", target, record, state)[1]
            else:
                state = State(state.filter, state.spent.plus(price))
                record = {**first, "definition": f"question {chooser.randrange(lines)}"}
                head = _append(session, head, "charge", None, record, state)[1]
                charged.append(number)


def assert_as_the_lines_say(ledger: Ledger) -> None:
    """Compare with a plain reading of every line."""
    newest = dict[str, int]()
    stages = dict[int, str]()
    releases = dict[int, str]()
    for entry in ledger.entries():
        if entry.action == "charge":
            stages[entry.sequence] = "charge"
            newest[entry.facts.get("definition", "")] = entry.sequence
        elif entry.target is not None:
            stages[entry.target] = entry.action
            if entry.action == "release":
                releases[entry.target] = entry.facts["release_sha256"]
    newest.pop("")
    now = ledger.journal()
    assert {text: now.newest_charge(text).sequence for text in newest} == newest
    assert now.newest_charge("question") is None
    assert {charge: now.stage(charge) for charge in stages} == stages
    assert {charge: now.release_of(charge) for charge in stages} == {charge: releases.get(charge) for charge in stages}
    assert {now.charge_of_release(sha256) for sha256 in releases.values()} == set(releases)
    assert now.charge_of_release("0" * 64) is None
    assert now.index.never_opened() == [charge for charge, stage in stages.items() if stage == "charge"]
    assert [now.stage(number) for number in (-1, 0, now.index.count)] == [None] * 3


@pytest.mark.parametrize("collide", [False, True])
def test_a_look_up_says_what_the_lines_say(make, monkeypatch, collide):
    """In a handle that extends its index, and in one that reads it from its file; also if all keys are one."""
    chooser = random.Random(20261121)
    if collide:
        monkeypatch.setattr(journal_index, "_key", lambda text: 7)
    ledger = make(budget="epsilon=5,delta=1e-6")
    for lines in (5, 30, 60) if collide else (5, 300, 400):
        filled(ledger, lines, chooser)
        assert_as_the_lines_say(ledger)
    assert index_of(Path(ledger.address)).exists() != collide
    assert_as_the_lines_say(Ledger.open(ledger.address))


def test_a_moment_stays_what_it_was(make):
    ledger = make()
    charge = ledger.charge("epsilon=0.1", purpose="one", definition="a")
    before = ledger.journal()
    charge.open().released(b"x")
    ledger.charge("epsilon=0.1", purpose="two", definition="b")
    assert (before.stage(1), before.newest_charge("b"), before.last_line().sequence) == ("charge", None, 1)
    now = ledger.journal()
    assert (now.stage(1), now.newest_charge("b").sequence, now.last_line().sequence) == ("release", 4, 4)


def test_a_long_walk_tells_how_far_it_is_where_a_terminal_looks_on(make, monkeypatch, capsys):
    monkeypatch.setattr(journal, "TELL_EVERY_S", 0.0)
    monkeypatch.setattr(journal, "LINES_BEHIND", 5)
    ledger = make()
    for number in range(9):
        ledger.charge("epsilon=0.01", purpose=f"question {number}")
    index_of(Path(ledger.address)).unlink(missing_ok=True)
    Ledger.open(ledger.address).journal()
    assert capsys.readouterr().err == ""
    index_of(Path(ledger.address)).unlink()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    Ledger.open(ledger.address).journal()
    assert capsys.readouterr().err == ("checking the ledger: 0 of 10 entries\nchecking the ledger: 5 of 10 entries\n")
