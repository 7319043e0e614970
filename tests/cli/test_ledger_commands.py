"""`vestry ledger`: a ledger's life from the command line, as text and as JSON."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from vestry.cli import ledger_commands as module
from vestry.ledger import Ledger
from vestry.privacy.pricing import event

CREATE = (
    *("ledger", "create", "patients.ledger", "--dataset", "patients", "--unit", "row"),
    *("--neighbours", "add-remove", "--budget", "epsilon=1,delta=1e-6"),
)


@pytest.fixture
def run(vestry, tmp_path, monkeypatch):
    """Run a command in a folder of its own and return its text; it must succeed and say nothing on standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "2000")

    def good(*arguments: str) -> str:
        done = vestry(*arguments)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    return good


@pytest.fixture
def made(run):
    """A ledger with three charges: released, opened, charged."""
    run(*CREATE, "--who", "Ann")
    ledger = Ledger.open("patients.ledger")
    ledger.charge("epsilon=0.3", purpose="by ward", who="Bo").open().released(b"x")
    ledger.charge("rho=0.001", purpose="by age", who="Bo").open()
    ledger.charge("epsilon=0.2", purpose="by day", who="Cy")
    return ledger


def one_object(text: str) -> dict:
    """Read exactly one JSON object: nothing before it, nothing after it."""
    record, end = json.JSONDecoder().raw_decode(text)
    assert text[end:] == "\n"
    assert isinstance(record, dict)
    return record


def test_create_prints_where_and_the_head_to_keep(run):
    out = run(*CREATE)
    ledger = Ledger.open("patients.ledger")
    assert out == f"created {ledger.address} with the budget epsilon=1,delta=1e-6\nhead {ledger.head()}\n"
    assert ledger.terms.to_dict() == {
        "dataset": "patients",
        "unit": "row",
        "neighbours": "add-remove",
        "accepts_unproved": False,
    }


def test_create_as_json(run):
    record = one_object(run(*CREATE, "--json"))
    ledger = Ledger.open("patients.ledger")
    assert record == {"ledger": ledger.address, "budget": "epsilon=1,delta=1e-6", "head": ledger.head()}


def test_create_takes_orders_and_unproved_samplers(run):
    run(*CREATE, "--orders", "32,64", "--accept-unproved", "--who", "Ann")
    ledger = Ledger.open("patients.ledger")
    assert ledger.state().filter.orders == (32.0, 64.0)
    assert ledger.terms.accepts_unproved
    assert next(ledger.entries()).facts["who"] == "Ann"


def test_charge_prints_what_is_left(run):
    run(*CREATE)
    out = run("ledger", "charge", "patients.ledger", "epsilon=0.3", "--purpose", "by ward")
    assert out.startswith("charged epsilon=0.3 as entry 1\nremaining: epsilon=0.7")
    record = one_object(
        run("ledger", "charge", "patients.ledger", "epsilon=0.3", "--purpose", "by age", "--who", "Bo", "--json")
    )
    ledger = Ledger.open("patients.ledger")
    assert record["entry"] == 2
    assert record["charged"] == "epsilon=0.3"
    assert record["remaining"]["pure"] == "epsilon=0.4"
    assert record["head"] == ledger.head()
    assert list(ledger.entries())[2].facts["purpose"] == "by age"
    assert list(ledger.entries())[2].facts["who"] == "Bo"


def test_charge_compares_unit_and_neighbours(run):
    run(*CREATE)
    run(
        "ledger",
        "charge",
        "patients.ledger",
        "epsilon=0.3",
        "--purpose",
        "x",
        "--unit",
        "row",
        "--neighbours",
        "add-remove",
    )
    assert Ledger.open("patients.ledger").verify().entries == 2


def test_amend_raises_the_budget(run):
    run(*CREATE)
    out = run("ledger", "amend", "patients.ledger", "--budget", "epsilon=2,delta=1e-6", "--reason", "second wave")
    assert out == "raised the budget to epsilon=2,delta=1e-6 as entry 1\n"
    record = one_object(
        run("ledger", "amend", "patients.ledger", "--budget", "epsilon=3,delta=1e-6", "--reason", "third", "--json")
    )
    ledger = Ledger.open("patients.ledger")
    assert record == {"entry": 2, "budget": "epsilon=3,delta=1e-6", "head": ledger.head()}
    assert str(ledger.state().filter.budget) == "epsilon=3,delta=1e-6"


def test_show_says_what_the_ledger_owns_and_each_charges_state(run, made):
    out = run("ledger", "show", "patients.ledger")
    lines = out.splitlines()
    for name, value in (
        ("ledger", made.address),
        ("dataset", "patients"),
        ("unit", "row"),
        ("neighbours", "add-remove"),
        ("unproved samplers", "refused"),
        ("budget", "epsilon=1,delta=1e-6"),
        ("entries", "7"),
        ("head", made.head()),
    ):
        line = next(line for line in lines if line.startswith(name))
        assert line.removeprefix(name).strip() == value
    (released, opened, charged) = (
        next(line for line in lines if purpose in line) for purpose in ("by ward", "by age", "by day")
    )
    assert released.split()[:3] == ["1", "released", "epsilon=0.3"]
    assert opened.split()[:3] == ["4", "opened", "rho=0.001"]
    assert charged.split()[:3] == ["6", "charged", "epsilon=0.2"]
    assert made.row_key() not in out


def test_show_fits_eighty_columns_whatever_ran(run, made, monkeypatch):
    """A mechanism with many parameters takes no room from the purpose: they are left to --json."""
    monkeypatch.setenv("COLUMNS", "80")
    made.charge(event("discrete-laplace", sensitivity=3.0, scale=30000.0).times(12), purpose="a dozen counts")
    made.charge("epsilon=0.01,delta=1e-9", purpose="with a delta")
    out = run("ledger", "show", "patients.ledger")
    assert max(map(len, out[out.index("entry ") :].splitlines())) <= 80
    line = next(line for line in out.splitlines() if "a dozen" in line)
    assert re.fullmatch(r" *7 +charged +\S+=\S+ +a dozen counts +\d{4}-\d\d-\d\d \d\d:\d\d *", line)
    assert "epsilon=0.01,delta=1e-9" in out
    assert "scale" not in out


def test_show_lists_the_latest_charges(run, made):
    shown = run("ledger", "show", "patients.ledger", "--last", "1")
    assert "by day" in shown
    assert "by age" not in shown
    assert "by day" not in run("ledger", "show", "patients.ledger", "--last", "0")


def test_show_says_how_to_see_the_rest(run):
    run(*CREATE)
    ledger = Ledger.open("patients.ledger")
    for number in range(52):
        ledger.charge("epsilon=0.001", purpose=f"question {number}")
    out = run("ledger", "show", "patients.ledger")
    assert "question 2 " in out
    assert "question 1 " not in out
    assert out.endswith("the latest 50 charges; --last N lists more, and `vestry ledger export` every entry\n")
    everything = run("ledger", "show", "patients.ledger", "--last", "99")
    assert "question 0 " in everything
    assert "the latest" not in everything
    assert len(one_object(run("ledger", "show", "patients.ledger", "--json"))["charges"]) == 52
    assert len(one_object(run("ledger", "show", "patients.ledger", "--json", "--last", "2"))["charges"]) == 2


def test_show_prints_no_control_characters(run, made, monkeypatch):
    """No ledger of ours holds any; a file may come from anywhere."""
    monkeypatch.setattr("vestry.ledger.ledger._text", lambda name, given: given)
    made.charge("epsilon=0.01", purpose="a \x1b[31mred one")
    out = run("ledger", "show", "patients.ledger")
    assert "\x1b" not in out
    assert "a \\x1b[31mred one" in out


@pytest.mark.parametrize(
    "change", ["'\"purpose\"', '\"aim\"'", "'\"totals\":[', '\"totals\":[1,'", '\'"when":\', \'"when":7,"w":\'']
)
def test_show_of_a_changed_line_is_one_sentence(vestry, run, made, change):
    with closing(sqlite3.connect("patients.ledger", isolation_level=None)) as raw:
        raw.execute(f"UPDATE vestry_journal SET body = replace(body, {change}) WHERE sequence = 6")
    done = vestry("ledger", "show", "patients.ledger")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "a line cannot be read" in done.err


def test_backup_and_restore(vestry, run, made):
    head = made.head()
    assert run("ledger", "backup", "patients.ledger", "copy.ledger") == (
        f"copied 7 entries to copy.ledger, and verified them\nhead {head}\n"
    )
    assert "this is a copy" in run("ledger", "show", "copy.ledger")
    assert one_object(run("ledger", "show", "copy.ledger", "--json"))["copy"] is True
    assert run("ledger", "verify", "copy.ledger").endswith(f"head {head}\n")
    done = vestry("ledger", "charge", "copy.ledger", "epsilon=0.1", "--purpose", "x")
    assert (done.code, "is a copy" in done.err) == (2, True)
    assert vestry("ledger", "backup", "patients.ledger", "copy.ledger").code == 2
    record = one_object(
        run("ledger", "restore", "copy.ledger", "new.ledger", "--lost", "nothing", "--reason", "crash", "--json")
    )
    assert record["head"] == Ledger.open("new.ledger").verify(head=head).head
    too_much = vestry("ledger", "restore", "copy.ledger", "other.ledger", "--lost", "epsilon=1", "--reason", "crash")
    assert (too_much.code, Path("other.ledger").exists()) == (3, False)


def test_show_as_json(run, made):
    record = one_object(run("ledger", "show", "patients.ledger", "--json"))
    state = made.state()
    assert record["budget"] == "epsilon=1,delta=1e-6"
    assert record["entries"] == 7
    assert record["head"] == made.head()
    assert [charge["state"] for charge in record["charges"]] == ["released", "opened", "charged"]
    assert [charge["entry"] for charge in record["charges"]] == [1, 4, 6]
    assert [charge["purpose"] for charge in record["charges"]] == ["by ward", "by age", "by day"]
    assert tuple(row["spent"] for row in record["alternatives"]) == state.spent.totals
    assert record["failure"] == {"limit": 125 * 10**15, "spent": 0}
    assert made.row_key() not in json.dumps(record)


def test_show_survives_a_purpose_with_markup(run):
    run(*CREATE)
    run("ledger", "charge", "patients.ledger", "epsilon=0.1", "--purpose", "[red]by[/] [ward]")
    assert "[red]by[/] [ward]" in run("ledger", "show", "patients.ledger")


def test_verify_counts_and_prints_the_head(run, made):
    head = made.head()
    assert run("ledger", "verify", "patients.ledger") == f"7 entries verified\nhead {head}\n"
    assert one_object(run("ledger", "verify", "patients.ledger", "--json")) == {
        "verified": True,
        "entries": 7,
        "head": head,
    }
    first = next(made.entries()).hash
    assert run("ledger", "verify", "patients.ledger", "--head", first) == f"7 entries verified\nhead {head}\n"


def test_export_writes_a_line_for_each_entry(run, made):
    out = run("ledger", "export", "patients.ledger")
    entries = [json.loads(line) for line in out.splitlines()]
    assert entries == [entry.to_dict() for entry in made.entries()]
    assert one_object(run("ledger", "export", "patients.ledger", "--json")) == {"entries": entries}
    assert run("ledger", "export", "patients.ledger", "--output", "a.jsonl") == ""
    assert Path("a.jsonl").read_text() == out
    assert made.row_key() not in out


def test_looking_changes_nothing(run, made):
    before = made.head()
    for command in ("show", "verify", "export"):
        run("ledger", command, "patients.ledger")
    assert made.head() == before


# The examples that the help prints

COMMANDS = ("create", "charge", "amend", "show", "verify", "export", "backup", "restore")


def examples() -> dict[str, list[str]]:
    return {
        info.name or info.callback.__name__: [
            line.replace("\\[", "[") for line in (info.epilog or "").splitlines() if line.startswith("vestry ")
        ]
        for info in module.app.registered_commands
    }


def test_every_command_has_an_example():
    assert {name: bool(lines) for name, lines in examples().items()} == dict.fromkeys(COMMANDS, True)


def test_every_example_of_the_help_runs_in_order(run):
    """The examples tell one story: each is run in the folder that those before it have left."""
    for lines in examples().values():
        for line in lines:
            if "9f2c..." in line:
                kept = Ledger.open("patients.ledger").head()
                line = line.replace("9f2c... (a hash kept elsewhere)", kept)
            program, *arguments = shlex.split(line)
            assert program == "vestry"
            out = run(*arguments)
            assert out.strip() or "--output" in arguments
            if "--json" in arguments:
                one_object(out)
    assert sorted(path.name for path in Path().iterdir() if path.suffix in (".ledger", ".jsonl")) == [
        "patients-copy.ledger",
        "patients.jsonl",
        "patients.ledger",
        "restored.ledger",
        "visits.ledger",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_shows_its_examples(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    out = run("ledger", command, "--help")
    for example in examples()[command]:
        assert example in out
    assert "--json" in out
