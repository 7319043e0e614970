"""A study file from elsewhere is not a program: what it may fill into an address, and when it is connected to."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from closed_engines import closed_engines

import vestry
from vestry.errors import InvalidParameter, StudyFileError
from vestry.server_address import parse_address
from vestry.study import Study

pytest.importorskip("psycopg")

STUDY = """\
[study]
name = "readmissions"
data = "{data}"
unit = "row"
neighbours = "add-remove"
budget = {{ epsilon = 1 }}
ledger = "{ledger}"

[columns]
readmitted = {{ levels = ["no", "yes"] }}

[release.readmission]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
spend = {{ epsilon = 0.5 }}
"""


def study(folder: Path, *, data: str = "patients.csv", ledger: str = "patients.ledger") -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(data=data, ledger=ledger))
    return path


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("VESTRY_WORD", "hunter2")
    monkeypatch.setenv("HOME_SECRET", "hunter3")
    with closed_engines():
        yield


# What may be filled in

REFUSED = [
    "postgresql://u:${HOME_SECRET}@h/d",
    "postgresql://${HOME_SECRET}@h/d",
    "postgresql://u@${VESTRY_WORD}/d",
    "postgresql://u@x.${VESTRY_WORD}.example/d",
    "postgresql://u@h:${VESTRY_WORD}/d",
    "postgresql://u@h/${VESTRY_WORD}",
    "postgresql://u@h/d${HOME_SECRET}",
    "postgresql://u@h/d?options=-c%20a=${VESTRY_WORD}",
    "postgresql://u@h/d?application_name=${VESTRY_WORD}",
    "postgresql://u@h/d?passfile=${VESTRY_WORD}",
    "postgresql://u@/d?host=${VESTRY_WORD}",
    "postgresql://u@/d?host=%24%7BVESTRY_WORD%7D",
    "postgresql://u@h/d?password=${PGPASSWORD}",
    "postgresql://u@h/d?password=${vestry_word}",
    "postgresql://u:${MY_VESTRY_WORD}@h/d",
]
ALLOWED = [
    "postgresql://u:${VESTRY_WORD}@h/d",
    "postgresql://${VESTRY_WORD}:${VESTRY_WORD}@h/d",
    "postgresql://h/d?user=${VESTRY_WORD}&password=${VESTRY_WORD}",
    "postgresql://u@h/d",
]


@pytest.mark.parametrize("key", ["data", "ledger"])
@pytest.mark.parametrize("address", REFUSED)
def test_a_study_file_fills_in_nothing_else(tmp_path, key, address):
    written = re.sub("(/d[^?]*)", r"\1/t", address, count=1) if key == "data" else address
    with pytest.raises(StudyFileError, match=rf"study\.{key}: {key} must be .*VESTRY_.*; write {key} = ") as error:
        Study.open(study(tmp_path, **{key: written}))
    assert "hunter" not in str(error.value)


@pytest.mark.parametrize("address", ALLOWED)
def test_a_study_file_fills_in_user_and_password(tmp_path, address):
    assert Study.open(study(tmp_path, ledger=address)).config.ledger == address


@pytest.mark.parametrize("address", [*REFUSED, *ALLOWED])
def test_an_address_of_python_is_free(address, monkeypatch):
    for name in re.findall(r"\$\{(\w+)\}", address):
        monkeypatch.setenv(name, "5432")
    filled = parse_address(address).fill()
    assert not any("${" in value for value in filled.values())


@pytest.mark.parametrize("key", ["data", "ledger"])
def test_the_password_of_another_server_is_not_sent(tmp_path, monkeypatch, key):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    opened = Study.open(study(tmp_path, **{key: "postgresql://u@h/d/t" if key == "data" else "postgresql://u@h/d"}))
    with pytest.raises(StudyFileError, match=rf"study\.{key}: {key} must be free of PGPASSWORD"):
        _ = opened.table if key == "data" else opened.ledger


# When it is connected to


class Listening:
    """A server of someone else's that counts who comes, and what is said."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(8))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listening() -> Iterator[Listening]:
    server = Listening()
    yield server
    server.close()


@pytest.fixture
def command(capsys, monkeypatch):
    from vestry.cli import main

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["vestry", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit, match=r"^\d+$") as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


@pytest.mark.parametrize("key", ["data", "ledger"])
def test_check_names_the_server_and_connects_with_data_alone(tmp_path, listening, command, key):
    table = "/t" if key == "data" else ""
    named = f"postgresql://{listening.address}/d{table}"
    path = study(tmp_path, **{key: f"postgresql://u:${{VESTRY_WORD}}@{listening.address}/d{table}?sslmode=disable"})
    code, out, err = command("check", path)
    assert (code, err) == (0, "")
    assert f"on a server, {named}; vestry check --data connects to it" in out
    assert "readmission" in out
    code, out, _ = command("check", path, "--json")
    record = json.loads(out)
    assert record["servers"] == {key: named}
    assert record["ledger"] == ("not asked" if key == "ledger" else "missing")
    assert not listening.heard
    (tmp_path / "patients.csv").write_text("readmitted\nno\n")
    code, out, err = command("check", path, "--data")
    assert code == 2
    assert listening.heard
    assert "hunter2" not in out + err


def test_a_study_without_a_server_says_nothing_of_one(tmp_path, command):
    code, out, _ = command("check", study(tmp_path))
    assert code == 0
    assert "on a server" not in out


def test_the_report_names_server_and_table_alone(tmp_path):
    ledger = "postgresql://ada:${VESTRY_WORD}@host/base?sslkey=/home/ada/key"
    data = "postgresql://ada:${VESTRY_WORD}@host:5433/base/ward.stays?passfile=/home/ada/words"
    config = Study.open(study(tmp_path, data=data, ledger=ledger)).config
    assert config.ledger_name == "postgresql://host/base"
    assert 'data = "postgresql://host:5433/base/ward.stays"' in config.public_text
    assert not re.search("ada|VESTRY|sslkey|passfile", config.public_text + config.ledger_name)


def test_python_connects_where_it_is_told(tmp_path, listening):
    with pytest.raises(vestry.errors.LedgerUnavailable, match="cannot be used"):
        vestry.Ledger.open(f"postgresql://u:${{HOME_SECRET}}@{listening.address}/d?sslmode=disable")
    assert listening.heard
    with pytest.raises(InvalidParameter, match="set"):
        parse_address("postgresql://u:${NOT_SET}@h/d").fill()
