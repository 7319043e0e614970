"""A planted value shows in no message, traceback, log, warning or standard stream, whatever fails."""

import gc
import itertools
import logging
import traceback

import numpy as np
import pytest
from data.conftest import arrow
from data.test_semantics import row

from vestry.data import Table
from vestry.data.query import Query
from vestry.data.source import Source
from vestry.errors import InvalidParameter, VestryError
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Sum, SumQuery

CANARY = "canary4711"
ROWS = [row(ward=CANARY, **{"Spelled Number": CANARY, "name": CANARY}), row(ward="a")]
DOMAINS = {"ward": Levels("a", "b"), "real": Interval(0, 3)}
TALLY = SumQuery(("ward",), (Count(), Sum("real", 0.0, 1.0)))


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog):
    caplog.set_level(logging.DEBUG)


@pytest.fixture
def silent(capfd, caplog):
    """Check that an error, and everything that was written on its way, keeps the planted value."""

    def check(error: BaseException) -> None:
        assert error.__cause__ is None
        assert error.__context__ is None
        out, err = capfd.readouterr()
        told = [str(error), repr(error), "".join(traceback.format_exception(error)), out, err, caplog.text]
        assert not [text for text in told if CANARY in text]

    return check


def breaking(self, table, *, row_key):
    """A query that casts text to a number, so that the engine quotes the text as it fails."""
    return table.aggregate(s0=table["ward"].cast("int64").sum().cast("string"))


def test_a_query_that_fails_on_a_value(backend, silent, monkeypatch):
    table = Table(backend.load(ROWS), DOMAINS, neighbours="replace")
    table.check(TALLY)
    monkeypatch.setattr(Query, "expression", breaking)
    with pytest.raises(VestryError, match="the data could not be read, and nothing was summed") as caught:
        table.collect(TALLY, row_key="k")
    silent(caught.value)


@pytest.mark.long
def test_the_query_that_fails_would_have_shown_it(backend):
    """The sample is bad: without the wall the engine quotes the value."""
    from vestry.data.source import connect

    with connect(backend.load(ROWS)) as source, pytest.raises(Exception, match=CANARY):
        source.rows(breaking(None, source.parts[0], row_key=""))
    gc.collect()


def test_a_connection_that_is_lost(backend, silent, monkeypatch):
    table = Table(backend.load(ROWS), DOMAINS, neighbours="replace")
    rows = Source.rows

    def lost(self, expression):
        if self.kind == "postgresql":
            self.backend.con.close()
        elif self.kind == "pyspark":
            raise ConnectionError(CANARY)
        else:
            self.backend.con.close()
        return rows(self, expression)

    monkeypatch.setattr(Source, "rows", lost)
    for ask in (lambda: table.collect(TALLY, row_key="k"), table.count):
        with pytest.raises(VestryError, match="the data could not be read") as caught:
            ask()
        silent(caught.value)


@pytest.mark.parametrize(
    ("domains", "unit", "message"),
    [
        ({"ward": Levels("a", "b"), "many": Levels("a", "b")}, "row", "the column many must be text, numbers"),
        ({"ward": Levels("a", "b"), "many": Interval(0, 3)}, "row", "the column many must be text, numbers"),
        ({"ward": Levels("a", "b"), "Ward": Interval(0, 3)}, "row", "a column must be one of the table's"),
        ({"ward": Levels("a", "b"), "real": Interval(0, 3)}, "person=many,rows=1", "the column many must be text"),
        (
            {"ward": Levels("a", "b"), "real": Interval(0, 3)},
            "person=who,rows=1",
            "a column must be one of the table's",
        ),
    ],
)
def test_a_column_that_is_not_there_or_holds_no_single_values(domains, unit, message, silent):
    import pyarrow as pa

    records = arrow(ROWS).append_column("many", pa.array([[0], [1]], pa.list_(pa.int64())))
    keyed = [name for name, domain in domains.items() if isinstance(domain, Levels)]
    terms = tuple(Sum(name, 0.0, 1.0) for name, domain in domains.items() if isinstance(domain, Interval))
    tally = SumQuery(tuple(keyed), (Count(), *terms))
    table = Table(records, domains, unit=unit, neighbours="replace")
    for ask in (lambda: table.check(tally), lambda: table.collect(tally, row_key="k")):
        with pytest.raises(InvalidParameter, match=message) as caught:
            ask()
        silent(caught.value)


def test_text_that_is_no_number_is_no_error(backend, silent):
    domains = {"ward": Interval(0, 3), "Spelled Number": Interval(0, 3), "name": Interval(0, 3)}
    tally = SumQuery((), tuple(Sum(column, 0.0, 1.0) for column in domains))
    table = Table(backend.load(ROWS), domains, neighbours="replace")
    table.check(tally)
    assert repr(table.collect(tally, row_key="k")) == "Private(...)"


@pytest.mark.parametrize(
    "line",
    [b"a,1,2,3", b"a", b'a"b,1', b"\xff\xfe,1", b"a," + b"1" * 300_000, b"\x00,1", b'""""a""",1', b'"a\nb,1\na,1\n",1'],
    ids=["too many", "too few", "stray quote", "no text", "long", "zero", "quotes", "several lines"],
)
def test_an_odd_record_is_one_record_and_no_error(tmp_path, line):
    """Whatever a record holds, the records after it count as before. A text of several lines injects no records."""
    found = []
    for broken in ([], [line], [line, line]):
        path = tmp_path / f"{len(broken)}.csv"
        path.write_bytes(b"\n".join([b"ward,real", b"a,1", *broken, b"a,1", b"b,1"]) + b"\n")
        table = Table(path, DOMAINS, neighbours="replace")
        table.check(TALLY)
        assert table.count() == 3 + len(broken)
        found.append(reveal(table.collect(TALLY, row_key="k")))
    steps = [np.subtract(more, less) for less, more in itertools.pairwise(found)]
    assert steps[0].tolist() == steps[1].tolist()


def test_an_open_quote_is_no_error(tmp_path):
    """No writer leaves one; it swallows what follows, and tells nothing."""
    (tmp_path / "a.csv").write_bytes(b'ward,real\na,1\n"a,1\nb,1\n')
    table = Table(tmp_path / "a.csv", DOMAINS, neighbours="add-remove")
    assert sum(reveal(table.collect(SumQuery((), (Count(),)), row_key="k"))) == 2


def test_a_parquet_file_whose_pages_are_broken(tmp_path, silent):
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(arrow(ROWS * 500), path, use_dictionary=False, compression="NONE")
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * (len(whole) // 2) + whole[4 + len(whole) // 2 :])
    table = Table(path, DOMAINS, neighbours="replace")
    table.check(TALLY)
    with pytest.raises(VestryError, match="the data could not be read") as caught:
        table.collect(TALLY, row_key="k")
    silent(caught.value)


def test_a_table_shows_its_kind_and_its_columns(backend):
    table = Table(backend.load(ROWS), DOMAINS, neighbours="replace")
    frames = {"arrow": "pyarrow.Table", "pandas": "pandas.DataFrame", "polars": "polars.DataFrame"}
    kind = frames.get(backend.name, backend.name)
    assert repr(table) == str(table) == f"Table({kind}, columns: ward, real)"
    assert CANARY not in repr(vars(table).get("columns"))


def test_objects_in_a_frame_are_never_an_error(silent):
    import pandas as pd

    trouble = [CANARY, 1, 2.5, None, float("nan"), True, pd.NA, pd.NaT, [CANARY], {CANARY: 1}, b"canary4711", object()]
    trouble += ["\ud800", 10**400, 1j]
    table = Table(pd.DataFrame({"ward": trouble, "real": trouble}), DOMAINS, neighbours="replace")
    table.check(TALLY)
    assert repr(table.collect(TALLY, row_key="k")) == "Private(...)"
    assert table.count() == len(trouble)


@pytest.mark.slow
def test_the_log_of_spark_is_silent_and_then_speaks_again(pyspark, spark, spark_log, monkeypatch, silent):
    table = Table(pyspark.load(ROWS), DOMAINS, neighbours="replace")
    before = spark_log.read_text()
    monkeypatch.setattr(Query, "expression", breaking)
    with pytest.raises(VestryError, match="the data could not be read") as caught:
        table.collect(TALLY, row_key="k")
    silent(caught.value)
    assert CANARY not in spark_log.read_text()[len(before) :]
    with pytest.raises(Exception, match=CANARY):
        spark.sql(f"SELECT CAST('{CANARY}' || rand() AS int)").collect()
    assert CANARY in spark_log.read_text()
