"""Rows that stay on Spark: the same sums as rows in memory, in parts of any size, and nothing else comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from data.conftest import parquet
from data.test_rows import DESIGN, DOMAINS
from data.test_secrecy import CANARY
from data.test_semantics import EVERY

from vestry import Interval, Ledger, Levels, LogisticRegression, Table, open_release, release
from vestry.data import spark_rows
from vestry.data.databases import _same_interpreter, _spark_setting
from vestry.data.source import Source
from vestry.errors import VestryError
from vestry.privacy.neighbours import Adjacency
from vestry.regression.certified_minimum import RidgeObjective
from vestry.regression.losses import Logistic
from vestry.regression.newton import PASSES
from vestry.regression.newton_sums import GradientPass
from vestry.regression.problem import LinearProblem
from vestry.schema.design_matrix import Design
from vestry.schema.private import reveal_rows

SLOW = pytest.mark.slow
THETA = np.linspace(-1, 1, len(DESIGN.features))


def moments():
    """Return what executors run: the number of rows, and sums that differ for any two sets of rows.

    A function inside a function is carried whole: executors have Vestry, and not its tests.
    """

    def function(blocks):
        import numpy as np

        found = [np.zeros(0)]
        for rows, outcomes in blocks:
            found.append(np.exp(rows.astype(np.float64) @ np.arange(1, rows.shape[1] + 1)) * (3 + outcomes))
        rows = np.concatenate(found)
        return np.array([len(rows), rows.sum(), (rows * rows).sum()])

    return function


def failing():
    """Return what fails on an executor, and quotes."""

    def function(blocks, quoted=CANARY):
        raise ValueError(quoted + str(next(blocks)))

    return function


def table(data, **more):
    return Table(data, DOMAINS, **{"neighbours": "add-remove", **more})


def totals(rows):
    return sum(rows.sums(moments())) if hasattr(rows, "sums") else moments()(iter(rows))


@SLOW
@pytest.mark.parametrize("unit", ["row", "person=id,rows=2"])
@pytest.mark.parametrize("most", [10**6, 17, 1])
def test_the_same_rows_count_as_in_memory(pyspark, spark, tmp_path, unit, most):
    """Also where there are more than were declared: the same of them, by the same key."""
    here = reveal_rows(table(parquet(tmp_path)(EVERY * 3), unit=unit, max_rows=most).rows(DESIGN, row_key="k"))
    spark.read.parquet(pyspark.load(EVERY * 3).removeprefix("pyspark://")).repartition(5).createOrReplaceTempView(
        "many"
    )
    held = table("pyspark://many", unit=unit, max_rows=most).rows(DESIGN, row_key="k", stay=True)
    assert repr(held) == "PrivateRows(...)"
    there = reveal_rows(held)
    assert isinstance(there, spark_rows.SparkRows)
    assert totals(there) == pytest.approx(totals(here), rel=1e-12)
    assert totals(there)[0] == min(most, totals(here)[0])
    gradient = sum(there.sums(GradientPass(Logistic(), THETA)))
    assert gradient == pytest.approx(GradientPass(Logistic(), THETA)(iter(here)), rel=1e-12, abs=1e-12)


@SLOW
def test_another_key_keeps_other_rows(pyspark):
    data = pyspark.load(EVERY * 3)
    kept = [table(data, max_rows=9).rows(DESIGN, row_key=key, stay=True) for key in ("a", "b")]
    one, other = (totals(reveal_rows(each)) for each in kept)
    assert one[0] == other[0] == 9
    assert one[1] != pytest.approx(other[1], rel=1e-9)


@SLOW
def test_elsewhere_rows_are_read(tmp_path):
    here = table(parquet(tmp_path)(EVERY))
    assert not here.can_stay(DESIGN, moments())
    assert isinstance(reveal_rows(here.rows(DESIGN, row_key="k", stay=True)), tuple)


@SLOW
def test_a_failure_on_an_executor_says_nothing(pyspark, spark_log, capfd, caplog):
    held = table(pyspark.load(EVERY))
    rows = reveal_rows(held.rows(DESIGN, row_key="k", stay=True))
    before = spark_log.stat().st_size  # other tests write there, too
    for ask, said in (
        (lambda: rows.sums(failing()), "the data could not be read on Spark"),
        (lambda: held.can_stay(DESIGN, failing()), "nothing was charged"),
    ):
        with pytest.raises(VestryError, match=said) as caught:
            ask()
        assert caught.value.__context__ is None
        out, err = capfd.readouterr()
        log = spark_log.read_bytes()[before:].decode()
        assert CANARY not in out + err + caplog.text + str(caught.value) + log


def test_another_version_on_the_executors_is_refused():
    frame = SimpleNamespace(
        mapInArrow=lambda *_: SimpleNamespace(collect=lambda: [SimpleNamespace(version="0.0.1", sums=b"")])
    )
    with pytest.raises(VestryError, match=r"another version of vestry.*PYSPARK_PYTHON"):
        spark_rows._collect(frame, lambda _: iter(()))


class Settings(dict):
    """Settings of a session, as Spark has them."""

    set = dict.__setitem__


def test_a_setting_is_changed_back_even_where_a_query_fails():
    session = SimpleNamespace(conf=Settings(limit="65535"))
    with _spark_setting(session, "limit", "8000"):
        assert session.conf["limit"] == "8000"
    with pytest.raises(KeyError, match="failed"), _spark_setting(session, "limit", "8000"):
        session.conf["failed"]
    assert session.conf["limit"] == "65535"


@pytest.mark.parametrize(
    ("master", "chosen", "used"),
    [
        ("local[*]", "python3", sys.executable),
        ("local", "python3", sys.executable),
        ("local-cluster[2,1,2048]", "python3", sys.executable),
        ("local[*]", "/opt/python", "/opt/python"),
        ("spark://host:7077", "python3", "python3"),
        ("yarn", "python3", "python3"),
    ],
)
def test_executors_on_this_machine_run_this_interpreter_unless_another_was_chosen(master, chosen, used):
    context = SimpleNamespace(master=master, pythonExec=chosen)
    with _same_interpreter(context):
        assert context.pythonExec == used
    assert context.pythonExec == chosen


REGRESSION = """
import sys
from pyspark.sql import SparkSession
from vestry import Interval, Ledger, Levels, LogisticRegression, Table, VestryError, release

session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("ERROR")
session.sql("SELECT 0.5D AS x, 'yes' AS y UNION ALL SELECT -0.5D, 'no'").createOrReplaceTempView("records")
table = Table("pyspark://records", {"x": Interval(-1, 1), "y": Levels("no", "yes")}, neighbours="add-remove",
              max_rows=100)
ledger = Ledger.create(sys.argv[1], dataset="rows", unit="row", neighbours="add-remove", budget="epsilon=2,delta=1e-5")
model = LogisticRegression(outcome="y", success="yes", predictors=("x",), method="objective")
try:
    release(model, table, guarantee="epsilon=1,delta=1e-6", ledger=ledger)
except VestryError as error:
    print(error)
print("entries:", len(list(ledger.entries())))
session.stop()
"""


@SLOW
@pytest.mark.parametrize("chosen", [None, "/usr/bin/env"])
def test_spark_works_as_it_comes(spark, tmp_path, chosen):
    """The `python3` that Spark would find fails; so does the one that was chosen, before anything is charged."""
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    if chosen is not None:
        environment["PYSPARK_PYTHON"] = chosen
    command = [sys.executable, "-c", REGRESSION, str(tmp_path / "rows.ledger")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    if chosen is None:
        assert done.stdout.splitlines() == ["entries: 4"]
    else:
        said, entries = done.stdout.splitlines()
        assert "nothing was charged" in said
        assert "set the environment variable PYSPARK_PYTHON" in said
        assert entries == "entries: 1"


@SLOW
def test_spark_makes_methods_that_java_compiles_while_it_reads(pyspark, spark, monkeypatch):
    """Of a frame that a query asks for; afterwards the session is as before."""
    name, seen = "spark.sql.codegen.hugeMethodLimit", []
    before, collect = spark.conf.get(name), spark_rows._collect
    monkeypatch.setattr(spark_rows, "_collect", lambda *given: seen.append(spark.conf.get(name)) or collect(*given))
    reveal_rows(table(pyspark.load(EVERY)).rows(DESIGN, row_key="k", stay=True)).sums(moments())
    assert seen == ["8000"]
    assert spark.conf.get(name) == before != "8000"


# --- whole regressions ------------------------------------------------------------------------------------------------

WIDE = {**{f"x{j}": Interval(-1, 1) for j in range(4)}, "y": Levels("no", "yes")}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("rows") / "rows.parquet"
    x = rng.uniform(-1, 1, (20_000, 4))
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-3 * x[:, 0] + x[:, 1])), "yes", "no")
    pq.write_table(pa.table({**{f"x{j}": x[:, j] for j in range(4)}, "y": y}), path)
    return path


@pytest.fixture
def counted(monkeypatch):
    """Count the passes, and let no row come to this process."""
    passes, sums = [], spark_rows.SparkRows.sums

    def summed(self, function):
        passes.append(type(function).__name__)
        return sums(self, function)

    def refused(self, expression):
        raise AssertionError("rows were read")

    monkeypatch.setattr(spark_rows.SparkRows, "sums", summed)
    monkeypatch.setattr(Source, "columns", refused)
    return passes


@SLOW
def test_the_minimum_is_the_one_in_memory_within_the_certified_tolerance(spark, records):
    design = Design(("x0", "x1", "x2", "x3"), WIDE, "y", "yes")
    here, there = (
        reveal_rows(Table(data, WIDE, neighbours="add-remove", max_rows=20_000).rows(design, row_key="k", stay=True))
        for data in (records, f"pyspark://{records}")
    )
    objective = RidgeObjective(LinearProblem(Logistic(), 5, design.norm, Adjacency("add-remove"), 20_000), 20.0, 50.0)
    linear, near = np.array([20.0, -30.0, 10.0, 0.0, 5.0]), 1e-6
    found = [
        objective.minimum(rows, linear, near, stream=np.random.default_rng(0), device="cpu") for rows in (here, there)
    ]
    assert np.linalg.norm(found[0] - found[1]) <= 2 * near
    assert np.linalg.norm(found[0]) > 0.1


@SLOW
@pytest.mark.parametrize("method", ["objective", "output"])
def test_a_release_makes_the_public_number_of_passes_and_reads_no_row(spark, records, tmp_path, counted, method):
    terms = {"unit": "row", "neighbours": "add-remove", "budget": "epsilon=2,delta=1e-5"}
    ledger = Ledger.create(tmp_path / "rows.ledger", dataset="rows", **terms)
    table = Table(f"pyspark://{records}", WIDE, neighbours="add-remove", max_rows=25_000)
    model = LogisticRegression(outcome="y", success="yes", predictors=("x0", "x1", "x2", "x3"), method=method)
    release(model, table, guarantee="epsilon=1,delta=1e-6", ledger=ledger, path=tmp_path / "a.json")
    assert counted == ["NewtonPass"] * (PASSES - 1) + ["GradientPass"]
    first, second, *_ = open_release(tmp_path / "a.json").contents["all"].values[0]
    assert first > 0.5 > second


@SLOW
def test_executors_that_cannot_sum_cost_nothing(spark, records, tmp_path, monkeypatch):
    terms = {"unit": "row", "neighbours": "add-remove", "budget": "epsilon=2,delta=1e-5"}
    ledger = Ledger.create(tmp_path / "rows.ledger", dataset="rows", **terms)
    table = Table(f"pyspark://{records}", WIDE, neighbours="add-remove", max_rows=25_000)
    model = LogisticRegression(outcome="y", success="yes", predictors=("x0",), method="objective")
    monkeypatch.setattr("vestry.regression.regression_model.made_up_pass", lambda _: failing())
    with pytest.raises(VestryError, match="nothing was charged"):
        release(model, table, guarantee="epsilon=1,delta=1e-6", ledger=ledger)
    assert len(list(ledger.entries())) == 1
