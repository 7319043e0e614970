"""Planted values show nowhere, whatever is asked and whatever fails; and neighbours fail in the same words.

In files that DuckDB reads, in PostgreSQL and in Spark.
"""

from __future__ import annotations

import importlib
import io
import itertools
import json
import logging
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from closed_engines import closed_engines
from data.conftest import SLOW, SPARK_FOLDER
from study.fault_study import HEADER, Done, actions, records, study_in, vestry

from vestry.cli import main
from vestry.data.query import Query
from vestry.data.source import Source
from vestry.errors import VestryError
from vestry.mechanisms.additive_noise import Additive
from vestry.noise import SystemNoise
from vestry.schema.private import Private
from vestry.study import Study

NUMBER, TEXT = "48151.62342", "CANARY-48151"
# What of them must not show: the number also in other notations, and as a double. Five digits alone are not a sign:
# the ledger is full of numbers.
SIGNS = (TEXT, TEXT.lower(), "48151.6", "4815162", "4.81516", struct.pack("<d", float(NUMBER)).decode("latin-1"))
PERSON = '{ person = "patient_id", rows = 2 }'

# An unknown level, numbers out of range, text for a number, undeclared columns, a person's name.
PLANTED = [
    f"{TEXT},{TEXT},{TEXT},{NUMBER},{TEXT}",
    f"{TEXT},A,yes,{TEXT},{NUMBER}",
    f"{NUMBER},B,{NUMBER},-{NUMBER},{TEXT}",
    f"{NUMBER},{NUMBER},no,,{TEXT}",
]
# Neighbours of the table with the planted records: some changed, some removed.
TABLES = {"planted": [*PLANTED, *records(60)], "changed": records(64), "removed": records(60)}


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(autouse=True)
def _quick_page(request, monkeypatch):
    if "whole" not in request.node.name:
        monkeypatch.setattr("vestry.study.report_data.page", lambda story, write=None: f"<html>{story}</html>")


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog):
    caplog.set_level(logging.DEBUG)


@pytest.fixture(autouse=True)
def temporary(request, tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder of its own for temporary files; not for those of a server, which holds the records."""
    if "postgresql" in request.node.name or "database" in request.fixturenames:
        request.getfixturevalue("server")
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def shown(text: str) -> list[str]:
    return [sign for sign in SIGNS if sign in text]


@pytest.fixture
def silent(request, tmp_path, capfd, caplog):
    """Check that nothing which was printed, logged, raised or written shows a planted value.

    Where Spark runs, also what its own process says and what it leaves in its own folders; but for the shuffle files,
    which hold names of persons as long as its process lives: see the test of a process that has ended.
    """

    def spark_files() -> dict[Path, bytes]:
        found = request.config.stash.get(SPARK_FOLDER, tmp_path / "no Spark").rglob("*")
        return {path: path.read_bytes() for path in found if path.is_file() and not path.name.startswith("shuffle_")}

    before = spark_files()

    def check(*said: object, folder: Path | None = None) -> None:
        for path, content in spark_files().items():
            assert shown(content.removeprefix(before.get(path, b"")).decode("latin-1")) == [], path
        out, err = capfd.readouterr()
        for text in (out, err, caplog.text, *(repr(vars(record)) for record in caplog.records), *map(str, said)):
            assert shown(text) == [], text
        for path in (folder or tmp_path).rglob("*"):
            assert shown(path.name) == []
            if path.is_file() and not path.name.startswith("people.") | path.name.startswith("whole."):
                content = path.read_bytes()
                assert shown(content.decode("latin-1")) == [], path
        ledgers = [path for path in (folder or tmp_path).rglob("people.ledger*") if path.is_file()]
        for path in ledgers:
            assert shown(path.read_bytes().decode("latin-1")) == [], path

    return check


def told(error: BaseException) -> str:
    """All that an error can say of itself and of what came before it."""
    seen, chain = [], [error]
    while chain:
        each = chain.pop()
        seen += [str(each), repr(each), repr(each.args), repr(vars(each)), *traceback.format_exception(each)]
        chain += [more for more in (each.__cause__, each.__context__) if more is not None]
    return "\n".join(seen)


def plain(done: Done, folder: Path) -> tuple[int, str, str]:
    """What a command said, without its folder, for comparison."""
    said = (
        re.sub(r"not '(pyspark://)?/[^;]*;", "not <path>;", text.replace(str(folder), ""))
        for text in (done.out, done.err)
    )
    return done.code, *said


# Where the records are


Written = Callable[..., Path]


@pytest.fixture(params=["csv", pytest.param("postgresql", marks=SLOW), pytest.param("pyspark", marks=SLOW)])
def written(request) -> Written:
    """Write a study as `study_in` does, its records in a file, in PostgreSQL, or where Spark reads them."""
    if request.param == "csv":
        return study_in
    if request.param == "postgresql":
        database = request.getfixturevalue("database")
        return lambda folder, *names, lines, **more: study_in(folder, *names, data=database.load(lines), **more)
    request.getfixturevalue("spark")

    def in_spark(folder, *names, lines, **more):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "people.parquet").write_bytes(parquet(lines))
        return study_in(folder, *names, data=f"pyspark://{folder}/people.parquet", **more)

    return in_spark


class Database:
    """A PostgreSQL server with a user who may read the tables that are loaded, and nothing else."""

    _numbers = itertools.count()

    def __init__(self, server: Path) -> None:
        self.server, self.table = server, ""
        self.ask("DROP OWNED BY reader" if self.ask("SELECT 1 FROM pg_roles WHERE rolname = 'reader'") else
                 "CREATE ROLE reader LOGIN")  # fmt: skip

    def ask(self, statement: str) -> list[tuple]:
        """Ask as the owner of all."""
        with self.connection() as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    def connection(self):
        import psycopg

        return psycopg.connect(f"postgresql://postgres@/postgres?host={self.server}", autocommit=True)

    def load(self, lines: list[str]) -> str:
        """Make a table of text from lines of CSV; return its address, with a limit on the time of a statement."""
        self.table = f"people{next(self._numbers)}"
        names = HEADER.split(",")
        self.ask(f"CREATE TABLE {self.table} ({', '.join(f'{name} text' for name in names)})")
        self.ask(f"GRANT SELECT ON {self.table} TO reader")
        with self.connection() as connection:
            rows = [[value or None for value in line.split(",")] for line in lines]
            holes = ", ".join(["%s"] * len(names))
            connection.cursor().executemany(f"INSERT INTO {self.table} VALUES ({holes})", rows)
        limit = "options=-c%20statement_timeout%3D400"
        return f"postgresql://reader@/postgres/{self.table}?host={self.server}&{limit}"


@pytest.fixture
def database(server) -> Database:
    pytest.importorskip("psycopg", reason="pip install 'vestry[postgres]'")
    return Database(server)


# Nothing fails


@pytest.mark.long
@pytest.mark.parametrize("unit", [pytest.param('"row"', marks=pytest.mark.slow), PERSON])
def test_every_command_is_silent_when_all_goes_well(tmp_path, temporary, silent, written, unit):
    study = written(tmp_path, "readmission", unit=unit, lines=TABLES["planted"])
    file = tmp_path / "readmission" / "release.json"
    commands = [
        ("check", study), ("check", study, "--json"), ("plan", study), ("release", study, "--dry-run"),
        ("release", study, "--yes"),
        ("release", study, "--json"), ("release", study, "readmission", "--yes", "--again", "--json"),
        ("report", tmp_path),
        ("posterior", file), ("posterior", file, *(() if unit == PERSON else ("--prior", "2,2")), "--json"),
        ("ledger", "show", tmp_path / "people.ledger"), ("ledger", "show", tmp_path / "people.ledger", "--json"),
        ("ledger", "verify", tmp_path / "people.ledger"),
        ("ledger", "export", tmp_path / "people.ledger", "--output", tmp_path / "lines.jsonl"),
    ]  # fmt: skip
    for command in commands:
        done = vestry(*command)
        assert done.code == 0, done.err
        silent(done.out, done.err)
    assert list(temporary.iterdir()) == []
    opened = Study.open(study)
    silent(repr(opened.table), repr(opened), repr(opened.ledger), repr(opened.release()))


@pytest.mark.long
def test_plan_needs_neither_records_nor_a_ledger(tmp_path):
    study = study_in(tmp_path, ledger=False)
    (tmp_path / "people.csv").unlink()
    done = vestry("plan", study)
    assert (done.code, done.err) == (0, "")


@pytest.mark.slow
def test_the_whole_page_is_silent(tmp_path, silent):
    study = study_in(tmp_path, lines=TABLES["planted"])
    assert vestry("release", study, "--yes").code == 0
    silent((tmp_path / "report.html").read_text())


def test_the_planted_values_are_found_where_they_are(tmp_path, silent):
    """The look is not blind: a file, a message and a log record that show a value are found."""
    study_in(tmp_path, lines=TABLES["planted"])
    silent("nothing")
    with pytest.raises(AssertionError, match=TEXT):
        silent(f"a value {TEXT}")
    (tmp_path / "copy.bin").write_bytes(b"\0" + NUMBER.encode())
    with pytest.raises(AssertionError, match=r"copy\.bin"):
        silent()
    (tmp_path / "copy.bin").unlink()
    logging.getLogger("anything").debug("a value %s", NUMBER)
    with pytest.raises(AssertionError, match=NUMBER):
        silent()


def test_the_cost_and_the_confirmation_are_the_same_for_neighbours(tmp_path, written):
    said = []
    for name, lines in TABLES.items():
        folder = tmp_path / name
        study = written(folder, "readmission", "stay", lines=lines)
        said.append([plain(vestry(*command), folder) for command in
                     (["check", study], ["release", study], ["release", study, "--dry-run", "--json"])])  # fmt: skip
    assert said[0] == said[1] == said[2]
    assert [each[0] for each in said[0]] == [0, 2, 0]


# Something fails


def csv(lines: list[str], header: str = HEADER) -> bytes:
    return ("\n".join([header, *lines]) + "\n").encode()


def parquet(lines: list[str], **changed: object) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [line.split(",") for line in lines]
    columns = {name: [row[place] or None for row in rows] for place, name in enumerate(HEADER.split(","))}
    target = io.BytesIO()
    pq.write_table(pa.table({**columns, **changed}), target, use_dictionary=False, compression="NONE")
    return target.getvalue()


def of_lists(lines: list[str]) -> bytes:
    return parquet(lines, readmitted=[[float(NUMBER)]] * len(lines))


def of_lists_of_persons(lines: list[str]) -> bytes:
    return parquet(lines, patient_id=[[NUMBER]] * len(lines))


def truncated(lines: list[str]) -> bytes:
    whole = parquet(lines)
    return whole[: len(whole) // 2]


def scrambled(lines: list[str]) -> bytes:
    whole = parquet(lines)
    half = len(whole) // 3
    return whole[:4] + b"\xff" * half + whole[4 + half :]


# What is wrong with the file: its suffix, how it is written, what is said, and what the ledger has after it.
FILES: dict[str, tuple[str, Callable[[list[str]], bytes], str, list[str]]] = {
    "a missing column": ("csv", lambda lines: csv(lines, HEADER.replace("ward", "war")), "must be one of the ta", []),
    "a missing person": ("csv", lambda lines: csv(lines, HEADER.replace("patient_id", "p")), "one of the table's", []),
    "a wrong type": ("parquet", of_lists, "the column readmitted must be text, numbers", []),
    "a person of a wrong type": ("parquet", of_lists_of_persons, "the column patient_id must be text, numbers", []),
    "a truncated file": ("parquet", truncated, "a file that can be read as parquet", []),
    "another format": ("parquet", csv, "a file that can be read as parquet", []),
    "broken pages": ("parquet", scrambled, "the data could not be read, and nothing was summed", ["charge"]),
    "names twice": ("csv", lambda lines: csv(lines, HEADER.replace("note", "ward")), "a different name for each", []),
    "no text": ("csv", lambda lines: b"\xff\xfe" + csv(lines), "is whole, text in UTF-8 below a line of names.", []),
}


# What Spark says of the same files.
UNREADABLE = "a table or path that Spark can read"
IN_SPARK = {
    fault: (suffix, made, UNREADABLE if message.startswith("a file that can be read") else message, charged)
    for fault, (suffix, made, message, charged) in FILES.items()
    if suffix == "parquet"
}


@pytest.mark.parametrize(
    ("fault", "scheme"),
    [*((fault, "") for fault in FILES), *(pytest.param(fault, "pyspark://", marks=SLOW) for fault in IN_SPARK)],
)
def test_a_file_that_cannot_be_used(tmp_path, silent, fault, scheme, request):
    if scheme:
        request.getfixturevalue("spark")
    suffix, made, message, charged = (IN_SPARK if scheme else FILES)[fault]
    said = []
    for name, lines in TABLES.items():
        if name == "changed" and not charged:
            continue  # what fails before any record is read
        folder = tmp_path / name
        data = f"{scheme}{folder}/people.{suffix}" if scheme else f"people.{suffix}"
        study = study_in(folder, unit=PERSON, data=data, lines=lines)
        (folder / f"people.{suffix}").write_bytes(made(lines))
        done = vestry("release", study, "--yes", "--json")
        assert done.code == 2
        assert message in done.err
        assert done.err.strip().count("\n") == 0
        said.append(plain(done, folder))
        silent(done.out, done.err, folder=folder)
        assert actions(folder) == charged
        if name == "planted":
            with pytest.raises(VestryError, match=re.escape(message)) as caught:
                Study.open(study).release()
            silent(told(caught.value), folder=folder)
    assert len(set(said)) == 1


def breaking(self, table, *, row_key):
    """A query that casts text to a number, so that the engine quotes the text as it fails."""
    return table.aggregate(s0=table["ward"].cast("int64").sum().cast("string"))


LOGGERS = [logging.getLogger(name) for name in ("duckdb", "psycopg", "pyspark", "py4j")]


def quoting(*given, **named):
    """A backend that quotes a record as it fails, from a deep chain."""
    for logger in LOGGERS:
        logger.error("could not read %s", TEXT)
    try:
        raise KeyError(TEXT)
    except KeyError:
        raise RuntimeError(f"cannot cast {NUMBER} of {TEXT}") from OSError(TEXT)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "message", "charged"),
    [
        (Query, "expression", breaking, "the data could not be read, and nothing was summed", ["charge"]),
        (Source, "rows", quoting, "the data could not be read, and nothing was summed", ["charge"]),
        (Source, "explain", None, "the query could not be prepared, and nothing was read", []),
        (Query, "read", quoting, "the data could not be read, and nothing was summed", ["charge"]),
    ],
)
@pytest.mark.long
def test_a_backend_that_quotes_a_record(tmp_path, silent, monkeypatch, written, request, owner, name, broken, message,
                                        charged):  # fmt: skip
    said = []
    if broken is None:
        engine = {"csv": "duckdb", "postgresql": "postgres"}.get(request.node.callspec.params["written"], "pyspark")
        backend = importlib.import_module(f"ibis.backends.{engine}").Backend
        ask = backend.raw_sql
        monkeypatch.setattr(
            backend,
            "raw_sql",
            lambda self, query, **more: (quoting if str(query).startswith("EXPLAIN") else ask)(self, query, **more),
        )
    elif name == "expression":
        real = Query.expression
        monkeypatch.setattr(
            Query,
            "expression",
            lambda self, table, *, row_key: (breaking if row_key else real)(self, table, row_key=row_key),
        )
    else:
        monkeypatch.setattr(owner, name, broken)
    for kind in ("planted", "changed"):
        folder = tmp_path / kind
        study = written(folder, lines=TABLES[kind])
        done = vestry("release", study, "--yes", "--json")
        assert (done.code, done.out) == (2, "")
        assert message in done.err
        said.append(plain(done, folder))
        silent(done.err, folder=folder)
        assert actions(folder) == charged
        assert not (folder / "readmission").exists()
        with pytest.raises(VestryError, match=message) as caught:
            Study.open(study).release()
        silent(told(caught.value), folder=folder)
    assert said[0] == said[1]


def test_a_backend_that_quotes_a_record_as_the_public_count_is_asked(tmp_path, silent, monkeypatch, written):
    study = written(tmp_path, "stay", neighbours="replace", lines=TABLES["planted"])
    monkeypatch.setattr(Source, "rows", quoting)
    with pytest.raises(VestryError, match="the data could not be read, and nothing was summed") as caught:
        Study.open(study).release()
    silent(told(caught.value))
    assert actions(tmp_path) == []


def test_a_refused_budget_is_the_same_for_neighbours(tmp_path, silent, written):
    said = []
    for name, lines in TABLES.items():
        folder = tmp_path / name
        study = written(folder, lines=lines, budget="{ epsilon = 0.2 }")
        done = vestry("release", study, "--yes")
        assert done.code == 3
        said.append(plain(done, folder))
        silent(done.out, done.err, folder=folder)
        assert actions(folder) == []
    assert said[0] == said[1] == said[2]


NO_NOISE = "vestry: no noise could be drawn, so nothing was released; check the system's entropy."


@pytest.fixture
def no_noise(monkeypatch):
    from vestry.errors import NoiseUnavailable

    def none(self, values, *, scale):
        raise NoiseUnavailable

    monkeypatch.setattr(SystemNoise, "discrete_laplace", none)


def test_noise_that_cannot_be_drawn_is_noticed_before_the_charge(tmp_path, no_noise):
    study = study_in(tmp_path)
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out, done.err.strip()) == (2, "", NO_NOISE)
    assert actions(tmp_path) == []


def test_noise_that_cannot_be_drawn_later_is_the_same_for_neighbours(tmp_path, silent, monkeypatch, written, no_noise):
    monkeypatch.setattr("vestry.pipeline.rehearse", lambda mechanism, **named: 0)
    said = []
    for name, lines in TABLES.items():
        folder = tmp_path / name
        study = written(folder, lines=lines)
        done = vestry("release", study, "--yes", "--json")
        assert done.code == 2
        said.append([plain(done, folder), plain(vestry("release", study, "--yes", "--json"), folder)])
        silent(said[-1], folder=folder)
        assert actions(folder) == ["charge", "open"]
    assert said[0] == said[1] == said[2]
    assert said[0][0][2].strip() == NO_NOISE
    assert "was opened by entry 1 and its release was lost" in said[0][1][2]


def test_a_fault_inside_the_mechanism_shows_no_sum(tmp_path, silent, monkeypatch, written):
    """Even an error that nobody foresaw has no private value in its text: frames are shown without their values."""
    study = written(tmp_path, lines=[f"{TEXT},A,yes,1,x"] * 48151)
    held = []

    def failing(self, private, opened, noise):
        held.append(private)
        return {}[private]

    monkeypatch.setattr(Additive, "release", failing)
    with pytest.raises(Exception, match=r"private value|Private") as caught:
        Study.open(study).release()
    said = [told(caught.value), repr(held), str(held[0])]
    silent(*said)
    assert not [text for text in said if "48151" in text]
    assert isinstance(held[0], Private)


# A server that fails

UNREAD, UNPREPARED = "the data could not be read, and nothing was summed", "the query could not be prepared"
# What becomes of the table in PostgreSQL; what is said if it is so from the start, and if it becomes so just before the
# query. A connection is lost only if there is one; a person's name of any type can be read once the schema was checked.
SERVER_FAULTS = {
    "dropped": ("DROP TABLE {table}", "data must be a table that this user can read", UNREAD),
    "a missing column": ("ALTER TABLE {table} RENAME ward TO war", "a column must be one of the table's", UNREAD),
    "a wrong type": (
        f"ALTER TABLE {{table}} ALTER readmitted TYPE float8[] USING ARRAY[{NUMBER}]",
        "the column readmitted must be text, numbers", UNREAD,
    ),
    "a person of a wrong type": (
        f"ALTER TABLE {{table}} ALTER patient_id TYPE float8[] USING ARRAY[{NUMBER}]",
        "the column patient_id must be text, numbers", None,
    ),
    "permission denied": ("REVOKE SELECT ON {table} FROM reader", UNPREPARED, UNREAD),
    "permission denied for a column": (
        "REVOKE SELECT ON {table} FROM reader; GRANT SELECT (ward, patient_id) ON {table} TO reader",
        UNPREPARED, UNREAD,
    ),
    "a lost connection": (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'", None, UNREAD
    ),
    "a statement timeout": ("LOCK {table} IN ACCESS EXCLUSIVE MODE", UNPREPARED, UNREAD),
    "a policy that fails on a record": (
        "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; CREATE FUNCTION f{table}(text) RETURNS boolean LANGUAGE sql AS "
        "'SELECT $1::int > 0'; CREATE POLICY p ON {table} TO reader USING (f{table}(note))",
        UNREAD, UNREAD,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "late"),
    [(fault, late) for fault, said in SERVER_FAULTS.items() for late in (False, True) if said[1 + late] is not None],
)
def test_a_server_that_fails(tmp_path, silent, monkeypatch, database, fault, late):
    statement, message = SERVER_FAULTS[fault][0], SERVER_FAULTS[fault][1 + late]
    rows, said = Source.rows, []
    for name, lines in TABLES.items():
        folder = tmp_path / name
        study = study_in(folder, unit=PERSON, data=database.load(lines))
        with ExitStack() as held, monkeypatch.context() as patch:

            def strike(held=held):
                connection = held.enter_context(database.connection())
                connection.autocommit = fault != "a statement timeout"  # a lock is held, all else is committed
                connection.execute(statement.format(table=database.table))

            if late:
                patch.setattr(Source, "rows", lambda *given, strike=strike: (strike(), rows(*given))[1])
            else:
                strike()
            done = vestry("release", study, "--yes", "--json")
            with pytest.raises(VestryError, match=r"could not be|must be") as caught:
                Study.open(study).release()
        assert (done.code, done.out) == (2, "")
        assert message in done.err
        said.append(plain(done, folder))
        silent(done.err, told(caught.value), folder=folder)
        assert actions(folder) == (["charge"] if message == UNREAD else [])
        assert not (folder / "readmission").exists()
    assert said[0] == said[1] == said[2]


@pytest.mark.slow
def test_a_server_that_fails_would_have_shown_it(database):
    """The sample is bad: what this server says quotes a record."""
    database.load(TABLES["planted"])
    with pytest.raises(Exception, match=TEXT):
        database.ask(f"SELECT note::int FROM {database.table}")


@pytest.mark.slow
def test_a_file_that_vanishes_before_spark_reads_it(tmp_path, silent, monkeypatch, spark):
    rows, said = Source.rows, []
    for name, lines in TABLES.items():
        folder = tmp_path / name
        study = study_in(folder, unit=PERSON, data=f"pyspark://{folder}/people.parquet")
        (folder / "people.parquet").write_bytes(parquet(lines))

        def struck(self, expression, path=folder / "people.parquet"):
            path.unlink()
            return rows(self, expression)

        monkeypatch.setattr(Source, "rows", struck)
        done = vestry("release", study, "--yes", "--json")
        assert (done.code, done.out) == (2, "")
        assert UNREAD in done.err
        said.append(plain(done, folder))
        silent(done.err, folder=folder)
        assert actions(folder) == ["charge"]
    assert said[0] == said[1] == said[2]


PROCESS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from study.fault_study import vestry
from vestry.mechanisms.additive_noise import Additive
release, end = Additive.release, sys.argv[3]
def released(*given):
    for path in Path(os.environ["SPARK_LOCAL_DIRS"]).rglob("shuffle_*.data"):
        os.write(1, path.name.encode())
    return os.kill(os.getpid(), signal.SIGKILL) if end == "killed" else release(*given)
Additive.release = released
done = vestry("release", sys.argv[1], "--yes")
print(done.out)
print(done.err, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code", "left"),
    [("killed", -signal.SIGKILL, ["charge", "open"]), ("ended", 0, ["charge", "open", "release"])],
)
def test_a_process_that_ends_leaves_no_record_behind(tmp_path, temporary, silent, written, request, end, code, left):
    study = written(tmp_path, unit=PERSON, lines=TABLES["planted"])
    tests = Path(__file__).resolve().parent.parent
    # Spark's Java ends when its parent has, and then standard error is closed.
    own = {**os.environ, "SPARK_LOCAL_DIRS": str(temporary), "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={temporary}"}
    command = [sys.executable, "-c", PROCESS, study, tests, end]
    done = subprocess.run(command, capture_output=True, text=True, env=own, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert actions(tmp_path) == left
    silent(done.stdout, done.stderr)
    assert ("shuffle_" in done.stdout) is (request.node.callspec.params["written"] == "pyspark")  # there was something
    assert all(path.is_dir() for path in temporary.rglob("*"))
    assert not (tmp_path / "core").exists()


# Progress


class Terminal(io.StringIO):
    """Standard error as a terminal sees it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.long
def test_progress_shows_names_and_time_and_no_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    said = []
    for count in (1111, 2222):
        folder = tmp_path / str(count)
        study = study_in(folder, "readmission", "stay", lines=records(count))
        screen = Terminal()
        monkeypatch.setattr(sys, "argv", ["vestry", "release", str(study), "--yes", "--json"])
        with redirect_stderr(screen), redirect_stdout(io.StringIO()), pytest.raises(SystemExit, match="0"):
            main()
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
        lines = {re.sub(r"[^ -~]", "", line).strip() for line in re.split(r"[\r\n]+", text)} - {""}
        said.append({re.sub(r"\d+:\d\d:\d\d", "TIME", line) for line in lines})
        assert "calibrating TIME" in said[-1]
        assert not [line for line in lines if str(count) in line]
    assert said[0] | said[1] <= {
        f"{name} TIME" for name in ("calibrating", "releasing", "readmission", "stay", "report")
    }
    assert "readmission TIME" in said[0] | said[1]


def test_the_outcome_says_nothing_of_the_count_where_it_is_private(tmp_path):
    study = study_in(tmp_path, lines=records(48151 // 10))
    done = vestry("release", study, "--yes", "--json")
    record = json.loads(done.out)
    assert set(record) == {"releases", "left", "head", "report"}
    assert set(record["releases"][0]) == {"name", "done", "summary"}
    claim = json.loads((tmp_path / "readmission" / "certificate.json").read_text())
    assert "4815" not in json.dumps(claim["certificate"])
