"""Addresses of servers: shown as typed, filled in the connection alone."""

from __future__ import annotations

import json
import os
import pickle

import pytest

from vestry.errors import InvalidParameter, LedgerUnavailable, VestryError
from vestry.ledger import Ledger
from vestry.server_address import KEYS, SECRETS, ServerAddress, parse_address

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "parameters", "table"),
    [
        (
            "postgresql://u:${A}@h:5433/db",
            {"user": "u", "password": SECRET, "host": "h", "port": "5433", "dbname": "db"},
            None,
        ),
        ("postgres://u@h/db?password=${A}", {"user": "u", "password": SECRET, "host": "h", "dbname": "db"}, None),
        (
            "postgresql://u@/db?HOST=/run&PassWord=${A}",
            {"user": "u", "password": SECRET, "host": "/run", "dbname": "db"},
            None,
        ),
        ("postgresql://h/db?pass%77ord=%24%7BA%7D", {"password": SECRET, "host": "h", "dbname": "db"}, None),
        (
            "postgresql://h/db/ward.stays?sslpassword=${A}",
            {"sslpassword": SECRET, "host": "h", "dbname": "db"},
            "ward.stays",
        ),
        (
            "postgresql://h/db?options=-csearch_path%3D${A}",
            {"options": f"-csearch_path={SECRET}", "host": "h", "dbname": "db"},
            None,
        ),
        ("postgresql://a%40b@[::1]:${A}/d%2Fb", {"user": "a@b", "host": "::1", "port": SECRET, "dbname": "d/b"}, None),
        ("postgresql+psycopg://${A}/db", {"host": SECRET, "dbname": "db"}, None),
        ("postgresql:///db", {"dbname": "db"}, None),
    ],
)
def test_an_address_is_shown_as_typed_and_filled_for_the_connection(text, parameters, table, monkeypatch):
    monkeypatch.setenv("A", SECRET)
    address = parse_address(text)
    assert address.fill() == parameters
    assert address.table == table
    assert address.shown == str(address) == text
    assert repr(address) == f"ServerAddress({text!r})"
    assert SECRET.encode() not in pickle.dumps(address)
    assert address.has_variables == ("A" in text)
    monkeypatch.delenv("A")
    if address.has_variables:
        with pytest.raises(InvalidParameter, match=r"^the environment variable must be set, not 'A'; write export A"):
            address.fill()


REFUSED = {
    "a password": "postgresql://u:hunter2@h/db",
    "a password of numbers with a slash": "postgresql://u:5432/hunter2@h/db",
    "a password with an at": "postgresql://u:a@hunter2@h/db",
    "a password with a question mark": "postgresql://u:hun?ter2@h/db",
    "a password with a hash": "postgresql://u:hunter2#@h/db",
    "half a variable": "postgresql://u:hunter2${A}@h/db",
    "a password in the query": "postgresql://u@h/db?password=hunter2",
    "whatever its case": "postgresql://u@h/db?PASSWORD=hunter2",
    "and encoded": "postgresql://u@h/db?p%61ssword=hunter2",
    "of a key": "postgresql://u@h/db?sslpassword=hunter2",
    "twice": "postgresql://u@h/db?password=${A}&PASSWORD=hunter2",
    "twice, both filled": "postgresql://hunter2:${A}@h/db?password=${A}",
    "an unknown key": "postgresql://u@h/db?pw=hunter2",
    "a service": "postgresql://u@h/db?service=hunter2",
    "a key without a value": "postgresql://u@h/db?hunter2=1",
    "a port that is none": "postgresql://u@h:hunter2/db",
    "three parts": "postgresql://u@h/db/table/hunter2",
    "an at in the path": "postgresql://h/hunter2@b",
    "another scheme": "mysql://u:hunter2@h/db",
    "a control character": "postgresql://u@h/hunter2\x1b[31m",
    "no scheme": "hunter2",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_not_repeated(kind, monkeypatch):
    monkeypatch.setenv("A", SECRET)
    with pytest.raises(
        InvalidParameter, match=r"^an address must be .*; write postgresql://USER:\$\{VARIABLE\}@"
    ) as caught:
        parse_address(REFUSED[kind])
    assert "hun" not in str(caught.value)
    assert "hun" not in repr(caught.value.__dict__)


def test_keys_are_lower_case_and_secrets_are_among_them():
    assert SECRETS < KEYS
    assert all(key == key.lower() for key in KEYS)


def test_a_servers_words_are_shown_only_where_nothing_was_filled_in(monkeypatch):
    monkeypatch.setenv("A", SECRET)
    words = f'FATAL: unrecognized configuration parameter "{SECRET}"'
    assert parse_address("postgresql://h/db").reason(words) == words
    assert parse_address("postgresql://h/db?options=${A}").reason(words) == "the server's own log says why"
    known = f'FATAL: password authentication failed for user "{SECRET}"'
    assert parse_address("postgresql://${A}@h/db").reason(known) == "password authentication failed"


def test_a_ledger_has_no_table():
    with pytest.raises(InvalidParameter, match=r"^a ledger's address must be a database without a table"):
        Ledger.open("postgresql://u@h/db/table")
    assert isinstance(parse_address("postgresql://u@h/db"), ServerAddress)


# Against a real server

WAYS = {
    "after the user": "postgresql://clerk:${CLERK}@/{db}?host={folder}",
    "password": "postgresql://clerk@/{db}?host={folder}&password=${CLERK}",
    "PASSWORD": "postgresql://clerk@/{db}?host={folder}&PASSWORD=${CLERK}",
    "encoded": "postgresql://clerk@/{db}?host={folder}&%70assword=%24%7BCLERK%7D",
    "sslpassword too": "postgresql://clerk:${CLERK}@/{db}?host={folder}&sslmode=prefer&sslpassword=${CLERK}",
    "an option": "postgresql://clerk:${CLERK}@/{db}?host={folder}&options=-capplication_name%3D${CLERK_TOKEN}",
    "the application": "postgresql://clerk:${CLERK}@/{db}?host={folder}&application_name=${CLERK_TOKEN}",
}


def everything_said(ledger: Ledger, tmp_path) -> str:
    """All that a ledger shows, writes and keeps, apart from its connection."""
    ledger.charge("epsilon=0.1", purpose="one").open().released(b"x")
    ledger.backup(tmp_path / "copy.ledger")
    said = [ledger.address, repr(ledger), str(ledger), repr(ledger._database.address), repr(ledger._database._engine)]
    said += [repr(ledger._database.__dict__), repr(ledger.__dict__), repr(ledger._database._engine.url)]
    said += [json.dumps(entry.to_dict()) for entry in ledger.entries()]
    for wrong in (
        lambda: ledger.charge("epsilon=9", purpose="x"),
        lambda: ledger.resume(99),
        lambda: ledger.verify(head="0"),
    ):
        try:
            wrong()
        except VestryError as error:
            said += [str(error), repr(error), repr(error.__dict__), repr(error.__context__), repr(error.__cause__)]
    return "\n".join(said) + (tmp_path / "copy.ledger").read_bytes().decode("latin-1")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_no_password_is_shown_kept_or_journalled(server, make, tmp_path, monkeypatch, way):
    monkeypatch.setenv("CLERK", server.password)
    monkeypatch.setenv("CLERK_TOKEN", "battery-staple")
    url = WAYS[way].replace("{db}", server.fresh()).replace("{folder}", str(server.folder))
    ledger = make(address=url)
    assert ledger.address == url
    said = everything_said(ledger, tmp_path)
    for secret in (server.password, "battery-staple"):
        assert secret not in said
    assert Ledger.open(url).verify().entries == 4


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_no_wrong_password_is_shown_either(server, monkeypatch, way):
    monkeypatch.setenv("CLERK", "wrong battery")
    monkeypatch.setenv("CLERK_TOKEN", "wrong staple")
    url = WAYS[way].replace("{db}", server.fresh()).replace("{folder}", str(server.folder))
    with pytest.raises(
        LedgerUnavailable, match=r"\(password authentication failed\); mend that and try again\.$"
    ) as caught:
        Ledger.open(url)
    assert "wrong" not in f"{caught.value} {caught.value!r} {caught.value.__dict__}"
    assert os.linesep not in str(caught.value)


@pytest.mark.slow
def test_a_copy_of_a_ledger_on_a_server_is_restored_to_a_file_and_to_a_server(server, make, tmp_path):
    ledger = make("epsilon=1", address=server.url(server.fresh()))
    ledger.charge("epsilon=0.1", purpose="one").open().released(b"x")
    waiting = ledger.charge("epsilon=0.1", purpose="waits")
    assert ledger.backup(tmp_path / "copy.ledger").head == ledger.head()
    for address in (tmp_path / "new.ledger", server.url(server.fresh())):
        found = Ledger.restore(tmp_path / "copy.ledger", address, lost="epsilon=0.3", reason="crash")
        assert found.state().spent.totals[0] == 5 * 10**11
        assert found.verify(head=ledger.head()).entries == 8
        with pytest.raises(VestryError, match=r"has its open already"):
            found.resume(waiting.sequence).open()
        found.charge("epsilon=0.5", purpose="the rest")


@pytest.mark.slow
def test_an_older_dump_put_back_on_a_server_is_noticed(server, make):
    name = server.fresh()
    ledger = make(address=server.url(name))
    ledger.charge("epsilon=0.1", purpose="one")
    server.run("CREATE TABLE old_head AS SELECT * FROM vestry_head", name)
    ledger.charge("epsilon=0.1", purpose="two")
    server.run("DELETE FROM vestry_journal WHERE sequence = 2; DELETE FROM vestry_head;"
               " INSERT INTO vestry_head SELECT * FROM old_head", name)  # fmt: skip
    with pytest.raises(VestryError, match=r"at entry 2: it lacks a line that was there before"):
        ledger.charge("epsilon=0.1", purpose="two again")
