"""Bad input: the exact exit code, one line on standard error that says what to write, and nothing charged."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from closed_engines import closed_engines

from vestry.ledger import Ledger

# What the installed script does, whether or not it is installed beside this interpreter.
COMMAND = (sys.executable, "-c", "import sys; from vestry.cli import main; sys.argv[0] = 'vestry'; sys.exit(main())")
TERMS = ("--dataset", "patients", "--unit", "row", "--neighbours", "add-remove")


def refused(done, code: int, fragment: str) -> None:
    """One sentence of ours on standard error, and no word on standard output."""
    assert "Traceback" not in done.err
    assert done.code == code, done
    assert done.out == ""
    assert re.fullmatch(r"vestry: [^\n]+\n", done.err), done.err
    assert fragment in done.err


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A folder with a nearly spent ledger, a spent one for persons, and files that are none."""
    folder = tmp_path_factory.mktemp("model")
    with closed_engines():
        rows = {"dataset": "patients", "unit": "row", "neighbours": "add-remove"}
        spent = Ledger.create(folder / "patients.ledger", **rows, budget="epsilon=1,delta=1e-6")
        spent.charge("epsilon=0.9", purpose="nearly all")
        persons = {"dataset": "visits", "unit": "person=id,rows=3", "neighbours": "replace"}
        Ledger.create(folder / "visits.ledger", **persons, budget="rho=0.1").charge("rho=0.1", purpose="all")
    (folder / "random.ledger").write_bytes(bytes((7 * i * i + i) % 256 for i in range(5000)))
    (folder / "empty.ledger").write_bytes(b"")
    (folder / "folder.ledger").mkdir()
    with closing(sqlite3.connect(folder / "other.ledger")) as raw:
        raw.execute("CREATE TABLE t (x)")
    (folder / "notes.txt").write_text("mine")
    return folder


@pytest.fixture
def place(model, tmp_path, monkeypatch) -> Path:
    """A copy of it, as the current folder."""
    folder = tmp_path / "place"
    shutil.copytree(model, folder)
    monkeypatch.chdir(folder)
    return folder


def seen(folder: Path) -> dict[str, object]:
    """Everything that must stay as it is: names, contents of what is no ledger, heads and lengths of ledgers."""
    names = sorted(path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm", "-journal")))
    contents = {name: (folder / name).read_bytes() for name in ("random.ledger", "empty.ledger", "notes.txt")}
    other = (folder / "other.ledger").read_bytes()
    ledgers = [Ledger.open(folder / name).verify() for name in ("patients.ledger", "visits.ledger")]
    return {"names": names, "contents": contents, "other": other, "ledgers": ledgers}


GUARANTEES = [
    ("epsilon=0", "epsilon must be a number above 0 and finite, not 0.0; write for example epsilon=1."),
    ("epsilon=-1", "epsilon must be a number above 0 and finite, not -1.0; write for example epsilon=1."),
    ("epsilon=nan", "epsilon must be a number above 0 and finite, not nan; write for example epsilon=1."),
    ("epsilon=inf", "epsilon must be a number above 0 and finite, not inf; write for example epsilon=1."),
    ("epsilon=-inf", "epsilon must be a number above 0 and finite"),
    ("epsilon=1e999", "epsilon must be a number above 0 and finite"),
    ("epsilon=1e-999", "epsilon must be a number above 0 and finite"),
    ("1", "a guarantee must be key=number pairs, each key once, not '1'; write epsilon=1, or epsilon=1,delta=1e-6"),
    ("", "a guarantee must be key=number pairs"),
    ("epsilon", "a guarantee must be key=number pairs"),
    ("epsilon=", "epsilon must be a decimal number, not ''; write for example epsilon=1."),
    ("epsilon=one", "epsilon must be a decimal number"),
    ('epsilon="1"', "epsilon must be a decimal number"),
    ("epsilon = 1 1", "epsilon must be a decimal number"),
    ("epsilon: 1", "a guarantee must be key=number pairs"),
    ("{epsilon = 1}", "a guarantee's key must be one of epsilon, delta, order, rho, mu, not '{epsilon'"),
    ("[budget]\nepsilon = 1", "write epsilon=1, or epsilon=1,delta=1e-6"),
    ("epsilon=1,epsilon=2", "each key once"),
    ("epsilon=1,", "a guarantee must be key=number pairs"),
    ("epsilon=0.1234567890123456", "epsilon must be a decimal of at most 15 significant digits"),
    ("epsilon=1,delta=0", "delta must be a number above 0 and below 1, not 0.0; write for example delta=1e-6"),
    ("epsilon=1,delta=1", "delta must be a number above 0 and below 1, not 1.0"),
    ("epsilon=1,delta=1.5", "delta must be a number above 0 and below 1, not 1.5"),
    ("epsilon=1,delta=-1e-6", "delta must be a number above 0 and below 1"),
    ("epsilon=1,delta=nan", "delta must be a number above 0 and below 1, not nan"),
    ("epsilon=0,delta=1e-6", "epsilon must be a number above 0 and finite"),
    ("order=1,epsilon=1", "order must be a number above 1 and finite, not 1.0; write for example order=10."),
    ("order=0.5,epsilon=1", "order must be a number above 1 and finite, not 0.5"),
    ("order=-3,epsilon=1", "order must be a number above 1 and finite"),
    ("order=inf,epsilon=1", "order must be a number above 1 and finite"),
    ("order=2,epsilon=0", "epsilon must be a number above 0 and finite"),
    ("rho=0", "rho must be a number above 0 and finite, not 0.0; write for example rho=0.5."),
    ("rho=nan", "rho must be a number above 0 and finite"),
    ("mu=-1", "mu must be a number above 0 and finite, not -1.0; write for example mu=1."),
    ("mu=inf", "mu must be a number above 0 and finite"),
    ("gamma=1", "a guarantee's key must be one of epsilon, delta, order, rho, mu, not 'gamma'"),
    ("epsilon=1,gamma=1", "a guarantee's key must be one of epsilon, delta, order, rho, mu, not 'gamma'"),
    ("Epsilon=1", "a guarantee's key must be one of epsilon, delta, order, rho, mu, not 'Epsilon'"),
    ("epsilon=1,rho=1", "a guarantee must be a known combination of keys"),
    ("delta=1e-6", "a guarantee must be a known combination of keys"),
    ("order=2", "a guarantee must be a known combination of keys"),
]


@pytest.mark.parametrize(("guarantee", "fragment"), GUARANTEES, ids=[repr(g) for g, _ in GUARANTEES])
@pytest.mark.parametrize("command", ["convert", "create", "charge", "amend"])
def test_no_guarantee(vestry, place, command, guarantee, fragment):
    before = seen(place)
    done = {
        "convert": lambda: vestry("convert", guarantee),
        "create": lambda: vestry("ledger", "create", "new.ledger", *TERMS, "--budget", guarantee),
        "charge": lambda: vestry("ledger", "charge", "patients.ledger", guarantee, "--purpose", "x"),
        "amend": lambda: vestry("ledger", "amend", "patients.ledger", "--budget", guarantee, "--reason", "x"),
    }[command]()
    refused(done, 2, fragment)
    assert seen(place) == before


CASES = {
    # convert
    "no conversion to pure": (2, "convert mu=1 --to epsilon", "ask for (epsilon, delta) with --to delta=1e-6"),
    "no conversion to rho": (2, "convert order=9,epsilon=1 --to rho", "needs a bound at every order"),
    "no conversion to mu": (2, "convert rho=1 --to mu", "no theorem bounds it by a Gaussian trade-off curve"),
    "a higher order": (2, "convert order=9,epsilon=1 --to order=10", "ask for an order up to 9"),
    "a delta too small": (
        2,
        "convert epsilon=1,delta=1e-5 --to delta=1e-6",
        "its own delta is 1e-5; ask for a larger one",
    ),
    "a failure has no rho": (2, "convert epsilon=1,delta=1e-5 --to rho", "only (epsilon, delta) allows that"),
    "nothing meets it": (2, "convert epsilon=1 --to rho --meet", "epsilon=1 cannot be reached"),
    "no target": (
        2,
        "convert epsilon=1 --to bits",
        "--to must be a privacy definition, not 'bits'; write delta=1e-5, epsilon=1,",
    ),
    "a target without its number": (
        2,
        "convert epsilon=1 --to delta",
        "--to must be a privacy definition, not 'delta'",
    ),
    "a target with a number": (2, "convert epsilon=1 --to rho=1", "--to must be a privacy definition, not 'rho=1'"),
    "delta 0 as target": (2, "convert mu=1 --to delta=0", "delta must be a number above 0 and below 1"),
    "delta 1 as target": (2, "convert mu=1 --to delta=1", "delta must be a number above 0 and below 1"),
    "order 1 as target": (2, "convert mu=1 --to order=1", "order must be a number above 1 and finite"),
    "epsilon nan as target": (2, "convert mu=1 --to epsilon=nan", "epsilon must be a number above 0 and finite"),
    "a group of none": (2, "convert epsilon=1 --group 0", "a group's size must be a whole number of at least 1, not 0"),
    "a negative group": (2, "convert epsilon=1 --group -2", "a whole number of at least 1, not -2"),
    "half a group": (2, "convert epsilon=1 --group 1.5", "'--group'"),
    "a group too large": (
        2,
        "convert epsilon=1,delta=1e-6 --group 50",
        "delta would reach 1; start from a smaller delta",
    ),
    "a group too large for the order": (2, "convert order=3,epsilon=1 --group 4", "its order must be above 4"),
    "no relation": (2, "convert epsilon=1 --neighbours both", "neighbours must be one of replace, add-remove"),
    "no other relation": (2, "convert epsilon=1 --to-neighbours all", "neighbours must be one of replace"),
    "replace from nothing": (
        2,
        "convert epsilon=1 --to-neighbours replace",
        "only add-remove implies the other relation",
    ),
    "add-remove from replace": (
        2,
        "convert epsilon=1 --neighbours replace --to-neighbours add-remove",
        "the neighbours relation asked for is replace",
    ),
    # how a command is called
    "no such command": (2, "buzz", "No such command 'buzz'; see --help."),
    "no such option": (2, "convert epsilon=1 --into rho", "No such option: --into"),
    "no guarantee": (2, "convert", "Missing argument 'GUARANTEE'; see --help."),
    "no purpose": (2, "ledger charge patients.ledger epsilon=0.01", "Missing option '--purpose'; see --help."),
    "no neighbours": (
        2,
        "ledger create new.ledger --dataset d --unit row --budget epsilon=1",
        "Missing option '--neighbours'; see --help.",
    ),
    "no unit": (
        2,
        "ledger create new.ledger --dataset d --neighbours replace --budget epsilon=1",
        "Missing option '--unit'; see --help.",
    ),
    # create
    "a unit of rows": (
        2,
        "ledger create new.ledger --dataset d --unit rows --neighbours replace --budget epsilon=1",
        'unit must be "row" or "person=COLUMN,rows=K", not \'rows\'; write row, or person=patient_id,rows=3.',
    ),
    "a person without rows": (
        2,
        "ledger create new.ledger --dataset d --unit person=id --neighbours replace --budget epsilon=1",
        "write row, or person=patient_id,rows=3.",
    ),
    "no rows": (
        2,
        "ledger create new.ledger --dataset d --unit person=id,rows=0 --neighbours replace --budget epsilon=1",
        "rows must be a whole number of at least 1",
    ),
    "another relation": (
        2,
        "ledger create new.ledger --dataset d --unit row --neighbours swap --budget epsilon=1",
        "write replace or add-remove.",
    ),
    "a ledger that exists": (
        2,
        "ledger create patients.ledger {terms} --budget epsilon=1",
        "already; nothing was changed",
    ),
    "a file that exists": (2, "ledger create notes.txt {terms} --budget epsilon=1", "already; nothing was changed"),
    "a folder that exists": (
        2,
        "ledger create folder.ledger {terms} --budget epsilon=1",
        "already; nothing was changed",
    ),
    "a missing folder": (
        2,
        "ledger create nowhere/new.ledger {terms} --budget epsilon=1",
        "cannot be used (No such file or directory)",
    ),
    "a folder that is a file": (
        2,
        "ledger create notes.txt/new.ledger {terms} --budget epsilon=1",
        "(Not a directory)",
    ),
    "a folder nobody can write": (2, "ledger create /proc/new.ledger {terms} --budget epsilon=1", "cannot be used ("),
    "a name too long": (2, "ledger create {long} {terms} --budget epsilon=1", "cannot be used (File name too long)"),
    "useless orders": (
        2,
        "ledger create new.ledger {terms} --budget epsilon=1,delta=1e-6 --orders 2,4",
        "order must be larger for the budget, about 16",
    ),
    "one useless order": (
        2,
        "ledger create new.ledger {terms} --budget epsilon=1,delta=1e-6 --orders 32,2",
        "not 2.0; write a larger order.",
    ),
    "order 1": (
        2,
        "ledger create new.ledger {terms} --budget epsilon=1,delta=1e-6 --orders 1",
        "order must be a number above 1",
    ),
    "order nan": (
        2,
        "ledger create new.ledger {terms} --budget epsilon=1,delta=1e-6 --orders 32,nan",
        "order must be a number above 1 and finite",
    ),
    "orders that are no numbers": (
        2,
        "ledger create new.ledger {terms} --budget epsilon=1,delta=1e-6 --orders high,low",
        "order must be a decimal number",
    ),
    "orders without delta": (
        2,
        "ledger create new.ledger {terms} --budget epsilon=1 --orders 32",
        "write orders only with an epsilon,delta budget.",
    ),
    "a tiny budget": (
        2,
        "ledger create new.ledger {terms} --budget epsilon=1e-13",
        "at least 1e-12 in each definition",
    ),
    "a password": (
        2,
        "ledger create postgresql://clerk:hunter2@localhost/x {terms} --budget epsilon=1",
        "write postgresql://USER:${VARIABLE}@HOST/DATABASE and set VARIABLE in the environment.",
    ),
    "a variable that is not set": (
        2,
        "ledger show postgresql://clerk:${VESTRY_NOT_SET}@localhost/x",
        "the environment variable must be set, not 'VESTRY_NOT_SET'; write export VESTRY_NOT_SET=... first.",
    ),
    "another server": (
        2,
        "ledger show mysql://localhost/x",
        "a ledger's address must be a path or a postgresql:// URL",
    ),
    # charge and amend
    "spent": (
        3,
        "ledger charge patients.ledger epsilon=0.3 --purpose x",
        "Budget exceeded: the charge needs epsilon=0.3, and epsilon=0.1",
    ),
    "spent to the last": (3, "ledger charge visits.ledger rho=1e-12 --purpose x", "and nothing of"),
    "no price in this currency": (3, "ledger charge visits.ledger order=9,epsilon=1e-6 --purpose x", "Budget exceeded"),
    "a failure without a share": (
        3,
        "ledger charge patients.ledger epsilon=0.01,delta=5e-7 --purpose x",
        "Its own delta 5e-7 is above the 1.25e-7 that remains for charges with their own delta. Charge less, or raise",
    ),
    "an empty purpose": (
        2,
        "ledger charge patients.ledger epsilon=0.01 --purpose {empty}",
        "purpose must be one line of",
    ),
    "an empty name": (
        2,
        "ledger charge patients.ledger epsilon=0.01 --purpose x --who {empty}",
        "who must be one line of text, not empty, not ''; write for example who=\"yearly report\"",
    ),
    "another unit": (
        2,
        "ledger charge patients.ledger epsilon=0.01 --purpose x --unit person=id,rows=3",
        "asked for is person=id,rows=3, but it is row in the ledger; use the ledger's own unit, or another ledger.",
    ),
    "another person": (
        2,
        "ledger charge visits.ledger rho=0.01 --purpose x --unit person=id,rows=4",
        "but it is person=id,rows=3 in the ledger",
    ),
    "other neighbours": (
        2,
        "ledger charge patients.ledger epsilon=0.01 --purpose x --neighbours replace",
        "the neighbours relation asked for is replace, but it is add-remove in the ledger; state it as add-remove",
    ),
    "a lower budget": (
        2,
        "ledger amend patients.ledger --budget epsilon=0.9,delta=1e-6 --reason x",
        "an amended budget must be at least epsilon=1,delta=1e-6, and more",
    ),
    "the same budget": (
        2,
        "ledger amend patients.ledger --budget epsilon=1,delta=1e-6 --reason x",
        "write a larger budget",
    ),
    "another currency": (
        2,
        "ledger amend patients.ledger --budget rho=9 --reason x",
        "but it is epsilon=1,delta=1e-6 in the ledger; raise the budget in its own definition.",
    ),
    "an empty reason": (
        2,
        "ledger amend patients.ledger --budget epsilon=2,delta=1e-6 --reason {empty}",
        "reason must be",
    ),
    # verify, show, export
    "a short head": (
        2,
        "ledger verify patients.ledger --head 9f2c",
        "--head must be a hash of 64 hexadecimal digits, not '9f2c'; write the head that create or verify printed.",
    ),
    "a head of other letters": (2, "ledger verify patients.ledger --head {zs}", "a hash of 64 hexadecimal digits"),
    "a head in capitals": (2, "ledger verify patients.ledger --head {capitals}", "a hash of 64 hexadecimal digits"),
    "an unknown head": (2, "ledger verify patients.ledger --head {zeros}", "the tail was cut or the file was swapped"),
    "a negative number of lines": (
        2,
        "ledger show patients.ledger --last -1",
        "--last must be a whole number of at least 0",
    ),
    "an output that exists": (2, "ledger export patients.ledger --output notes.txt", "(File exists); name a new file."),
    "an output below a file": (
        2,
        "ledger export patients.ledger --output notes.txt/a.jsonl",
        "(Not a directory); name a",
    ),
    "an output in no folder": (2, "ledger export patients.ledger --output nowhere/a.jsonl", "name a new file."),
}
WORDS = {
    "{empty}": "",
    "{zs}": "z" * 64,
    "{zeros}": "0" * 64,
    "{capitals}": "A" * 64,
    "{long}": "x" * 300,
}


def words(line: str) -> list[str]:
    parts = [list(TERMS) if part == "{terms}" else [WORDS.get(part, part)] for part in line.split()]
    return [word for part in parts for word in part]


@pytest.mark.parametrize("name", CASES)
def test_bad_input(vestry, place, monkeypatch, name):
    monkeypatch.delenv("VESTRY_NOT_SET", raising=False)
    code, line, fragment = CASES[name]
    before = seen(place)
    done = vestry(*words(line))
    refused(done, code, fragment)
    assert "hunter2" not in done.err
    assert seen(place) == before


EVERY_USE = {
    "charge": ("charge", "{}", "epsilon=0.01", "--purpose", "x"),
    "amend": ("amend", "{}", "--budget", "epsilon=2,delta=1e-6", "--reason", "x"),
    "show": ("show", "{}"),
    "verify": ("verify", "{}"),
    "export": ("export", "{}"),
}


@pytest.mark.parametrize("use", EVERY_USE)
@pytest.mark.parametrize(
    ("path", "fragment"),
    [
        ("missing.ledger", "there is no ledger at {folder}/missing.ledger; make one with `vestry ledger create`."),
        ("nowhere/missing.ledger", "make one with `vestry ledger create`."),
        ("notes.txt/missing.ledger", "make one with `vestry ledger create`."),
        ("random.ledger", "{folder}/random.ledger is damaged or is not a ledger; restore it from a copy"),
        ("empty.ledger", "is damaged or is not a ledger; restore it from a copy"),
        ("other.ledger", "is damaged or is not a ledger; restore it from a copy"),
        ("notes.txt", "is damaged or is not a ledger; restore it from a copy"),
        ("folder.ledger", "cannot be used (unable to open database file)"),
        (
            "",
            "a ledger's address must be a path or a URL, not ''; write patients.ledger, or postgresql://USER:${VARIABLE}",
        ),
    ],
    ids=lambda value: value.split(" ")[0],
)
def test_no_ledger(vestry, place, use, path, fragment):
    before = seen(place)
    done = vestry("ledger", *(path if word == "{}" else word for word in EVERY_USE[use]))
    refused(done, 2, fragment.replace("{folder}", str(place)))
    assert seen(place) == before


def test_a_line_break_in_a_path_does_not_break_the_sentence(vestry, place):
    refused(vestry("ledger", "show", "two\nlines.ledger"), 2, "there is no ledger at")
    refused(vestry("ledger", "create", "no\nwhere/a.ledger", *TERMS, "--budget", "epsilon=1"), 2, "cannot be used")
    refused(vestry("ledger", "export", "patients.ledger", "--output", "no\nwhere/x"), 2, "cannot be written")


def test_a_line_break_in_a_guarantee_does_not_break_the_sentence(vestry, place):
    before = seen(place)
    refused(vestry("ledger", "charge", "patients.ledger", "epsilon=\n0.5", "--purpose", "x"), 3, "needs epsilon=0.5,")
    assert seen(place) == before


CHANGES = {
    "a purpose": "UPDATE vestry_journal SET body = replace(body, 'nearly all', 'almost all') WHERE sequence = 1",
    "a body that is no JSON": "UPDATE vestry_journal SET body = 'x' || body WHERE sequence = 1",
    "a body of another kind": "UPDATE vestry_journal SET body = '[]' WHERE sequence = 1",
    "the first body": "UPDATE vestry_journal SET body = 'x' || body WHERE sequence = 0",
    "an action": "UPDATE vestry_journal SET action = 'chargf' WHERE sequence = 1",
    "a target": "UPDATE vestry_journal SET target = 7 WHERE sequence = 1",
    "a target of an opening": "UPDATE vestry_journal SET target = 7, action = 'open' WHERE sequence = 1",
    "a missing line": "DELETE FROM vestry_journal WHERE sequence = 0",
    "no head": "DELETE FROM vestry_head",
    "a state": "UPDATE vestry_head SET state = replace(state, '900000000000', '100000000000')",
    "a state of fewer totals": "UPDATE vestry_head SET state = replace(state, '[900000000000,', '[900000000000.')",
    "a state without totals": "UPDATE vestry_head SET state = replace(state, '\"totals\":[', '\"totals\":[[')",
    "a state that is no JSON": "UPDATE vestry_head SET state = 'x' || state",
    "bytes that are no text": "UPDATE vestry_journal SET body = CAST(x'ff' AS TEXT) WHERE sequence = 1",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_ledger_is_refused_by_verify_and_never_a_traceback(vestry, place, change):
    with closing(sqlite3.connect("patients.ledger", isolation_level=None)) as raw:
        assert raw.execute(CHANGES[change]).rowcount == 1
        before = raw.execute("SELECT count(*) FROM vestry_journal").fetchone()
    refused(vestry("ledger", "verify", "patients.ledger"), 2, "restore it from a copy, and spend nothing from it.")
    for use in ("show", "export"):
        done = vestry("ledger", *("patients.ledger" if word == "{}" else word for word in EVERY_USE[use]))
        if done.code:
            refused(done, 2, "ledger")
    if "state" in change or change == "no head":
        refused(vestry("ledger", "charge", "patients.ledger", "epsilon=0.01", "--purpose", "x"), 2, "does not verify")
    with closing(sqlite3.connect("patients.ledger")) as raw:
        assert raw.execute("SELECT count(*) FROM vestry_journal").fetchone() == before


# The same from outside


def outside(*arguments: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **more)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "code", "fragment"),
    [
        (("convert", "1"), 2, "write epsilon=1, or epsilon=1,delta=1e-6"),
        (("convert", "epsilon=0"), 2, "write for example epsilon=1."),
        (("ledger", "charge", "patients.ledger", "epsilon=0.3", "--purpose", "x"), 3, "and epsilon=0.1"),
        (("ledger", "verify", "random.ledger"), 2, "restore it from a copy"),
        (("ledger", "show", "missing.ledger"), 2, "make one with `vestry ledger create`."),
    ],
)
def test_bad_input_from_a_shell(place, arguments, code, fragment):
    before = seen(place)
    done = outside(*arguments, cwd=place, env={**os.environ, "PYTHONWARNINGS": "error"})
    assert done.returncode == code
    assert done.stdout == ""
    assert re.fullmatch(r"vestry: [^\n]+\n", done.stderr)
    assert fragment in done.stderr
    assert seen(place) == before
