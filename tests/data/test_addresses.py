"""A password can stand in an address in many ways; it is used, and no file, message, repr or log shows it."""

from __future__ import annotations

import logging
import pickle
import sys
import traceback

import pytest

import vestry
from vestry.cli import main
from vestry.data import connect
from vestry.errors import VestryError
from vestry.ledger import Ledger

SECRET = "correct-horse-7"

# Where the password may stand as ${SECRET}, and what else is filled in: {host} is the server's.
WAYS = {
    "before the host": "postgresql://keeper:${SECRET}@/postgres/answers?host={host}",
    "a key": "postgresql://keeper@/postgres/answers?host={host}&password=${SECRET}",
    "a key in capitals": "postgresql://keeper@/postgres/answers?host={host}&PASSWORD=${SECRET}",
    "a key in other letters": "postgresql://keeper@/postgres/answers?host={host}&pass%77ord=${SECRET}",
    "of a certificate too": "postgresql://keeper:${SECRET}@/postgres/answers?host={host}&sslpassword=${SECRET}",
    "in options too": "postgresql://keeper:${SECRET}@/postgres/answers?host={host}&options=-capplication_name=${SECRET}",
    "in a name too": "postgresql://keeper:${SECRET}@/postgres/answers?host={host}&application_name=${SECRET}",
    "everything by key": "postgresql:///postgres/answers?host={host}&user=keeper&password=${SECRET}",
}
WRITTEN = {name: way.replace("${SECRET}", SECRET) for name, way in WAYS.items()}
# What may hold anything is shown as it was typed, and is nobody's password.
del WRITTEN["in options too"], WRITTEN["in a name too"]


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


@pytest.mark.parametrize("way", WRITTEN.values(), ids=WRITTEN)
def test_a_password_that_is_written_out_is_refused_and_not_repeated(way):
    address = way.replace("{host}", "localhost")
    with pytest.raises(VestryError, match="must be free of secrets") as refused:
        connect(address)
    assert SECRET not in shown(refused.value)
    table = vestry.Table(address, {"answer": vestry.Levels("no", "yes")}, neighbours="replace")
    assert SECRET not in repr(table)


@pytest.mark.parametrize("way", WRITTEN.values(), ids=WRITTEN)
def test_a_study_file_with_a_password_is_refused_and_not_repeated(way, tmp_path, monkeypatch, capsys):
    path = study(tmp_path, way.replace("{host}", "localhost"))
    said = command(monkeypatch, capsys, "check", path)
    assert "line 4, study.data" in said
    assert "free of secrets" in said
    assert SECRET not in said


def test_another_key_is_refused():
    with pytest.raises(VestryError, match="keys are connection parameters") as refused:
        connect(f"postgresql://u@h/d/t?pgpassword={SECRET}")
    assert SECRET not in shown(refused.value)


def study(folder, data):
    path = folder / "study.toml"
    path.write_text(
        f"""
[study]
name = "answers"
data = "{data}"
unit = "row"
neighbours = "add-remove"
budget = {{ epsilon = 9.0 }}
ledger = "answers.ledger"
[columns]
answer = {{ levels = ["no", "yes"] }}
[release.yes]
model = "beta-bernoulli"
column = "answer"
success = "yes"
spend = {{ epsilon = 1.0 }}
"""
    )
    return path


def command(monkeypatch, capsys, *arguments) -> str:
    monkeypatch.setattr(sys, "argv", ["vestry", *map(str, arguments)])
    with pytest.raises(SystemExit, match=r"^\d$"):
        main()
    printed = capsys.readouterr()
    return printed.out + printed.err


@pytest.fixture(scope="module")
def keeper(server):
    """A role that must give a password, and a table that it may read."""
    psycopg = pytest.importorskip("psycopg", reason="pip install 'vestry[postgres]'")
    rules = server / "pg_hba.conf"
    rules.write_text("local all keeper scram-sha-256\n" + rules.read_text())
    with psycopg.connect(f"postgresql://postgres@/postgres?host={server}", autocommit=True) as connection:
        connection.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{SECRET}'")
        connection.execute("CREATE TABLE answers (answer text)")
        connection.execute("INSERT INTO answers SELECT 'yes' FROM generate_series(1, 300)")
        connection.execute("GRANT SELECT ON answers TO keeper")
        connection.execute("SELECT pg_reload_conf()")
    return server


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_password_is_used_and_never_shown(way, keeper, tmp_path, monkeypatch, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    address = way.replace("{host}", str(keeper))
    path = study(tmp_path, address)
    Ledger.create(tmp_path / "answers.ledger", dataset="d", unit="row", neighbours="add-remove", budget="epsilon=9")
    monkeypatch.setenv("SECRET", "not it")
    said = command(monkeypatch, capsys, "release", path, "--yes")
    assert "must be a PostgreSQL database that can be reached" in said
    monkeypatch.setenv("SECRET", SECRET)
    said += command(monkeypatch, capsys, "release", path, "--yes")
    assert "yes: released" in said
    said += command(monkeypatch, capsys, "report", path) + command(monkeypatch, capsys, "ledger", "show", "answers")
    with connect(address) as source:
        assert source.rows(source.parts[0].aggregate(n=source.parts[0].count()))[0]["n"] == 300
        said += repr(source) + repr(source.backend) + str(vars(source.backend)) + source.backend.db_identity
        said += repr(pickle.dumps(source.backend.__getstate__()))
    with pytest.raises(VestryError, match="a table that this user can read") as refused:
        connect(address.replace("/answers?", "/others?"))
    said += shown(refused.value) + caplog.text
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 4
    assert SECRET not in said
    assert not any(SECRET.encode() in content for content in files)


@pytest.mark.slow
def test_a_variable_that_is_not_set_is_named(keeper, monkeypatch):
    monkeypatch.delenv("SECRET", raising=False)
    with pytest.raises(VestryError, match=r"write export SECRET=\.\.\. first"):
        connect(WAYS["a key"].replace("{host}", str(keeper)))
