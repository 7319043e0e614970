"""Readings that overlap in several threads say nothing meanwhile, and leave the process as it was."""

import logging
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import ibis
import numpy as np
import pytest

from vestry.data.quiet_reading import quietly
from vestry.data.source import connect
from vestry.errors import VestryError

FAILURE = VestryError("the reading failed.")
SECONDS = 20


def process_state():
    """Return what a reading changes of the process."""
    return (
        list(warnings.filters),
        warnings.showwarning,
        logging.root.manager.disable,
        logging.getLogger("duckdb").disabled,
        logging.getLogger("host").isEnabledFor(logging.INFO),
        ibis.options.sql.fuse_selects,
    )


@pytest.fixture
def host(caplog):
    """A host application that logs everything, and takes warnings for errors."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("duckdb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = process_state()
        yield caplog
        assert process_state() == before


def run_overlapping(first, second):
    """Run two functions in two threads: the second begins inside the first, and ends after it.

    Each is called with a function that it calls once, inside.
    """
    first_is_inside, second_is_inside, first_ended = (threading.Event() for _ in range(3))

    def at_first():
        first_is_inside.set()
        assert second_is_inside.wait(SECONDS)

    def at_second():
        second_is_inside.set()
        assert first_ended.wait(SECONDS)

    def run_first():
        first(at_first)
        first_ended.set()

    def run_second():
        assert first_is_inside.wait(SECONDS)
        second(at_second)

    with ThreadPoolExecutor(2) as pool:
        for future in (pool.submit(run_first), pool.submit(run_second)):
            future.result(SECONDS)


def loud(inside=lambda: None):
    """A reading that talks about a value, before and after the other one ends."""
    for _ in range(2):
        warnings.warn("value 4711", UserWarning, stacklevel=1)
        logging.getLogger("duckdb").critical("value 4711")
        logging.getLogger("made meanwhile").error("value 4711")
        np.array([np.longdouble("1e400")]).astype(np.float64)
        inside()
        inside = int  # once


def test_two_readings_that_overlap_leave_the_process_as_it_was(host):
    def read(inside):
        quietly(lambda: loud(inside), FAILURE)

    run_overlapping(read, read)
    assert "4711" not in host.text
    logging.getLogger("host").info("still heard")
    assert "still heard" in host.text


def test_a_reading_that_fails_beside_another_leaves_the_process_as_it_was(host):
    def fail(inside):
        def reading():
            loud(inside)
            raise ValueError("value 4711")

        with pytest.raises(VestryError, match=r"^the reading failed\.$"):
            quietly(reading, FAILURE)

    run_overlapping(fail, lambda inside: quietly(lambda: loud(inside), FAILURE))
    assert "4711" not in host.text


def test_many_readings_leave_the_process_as_it_was(host):
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(quietly, loud, FAILURE) for _ in range(400)]:
            future.result(SECONDS)
    assert "4711" not in host.text


def test_two_queries_that_overlap_leave_ibis_as_it_was(host, monkeypatch):
    """A query is written step by step, by an option that belongs to the whole process."""
    import pyarrow as pa

    def query(inside):
        with connect(pa.table({"a": [1, 2]})) as source:
            ask = source.backend.to_pyarrow

            def watched(expression):
                inside()
                assert not ibis.options.sql.fuse_selects
                return ask(expression)

            monkeypatch.setattr(source.backend, "to_pyarrow", watched)
            rows = source.rows(source.parts[0].count().as_table())
            assert [list(row.values()) for row in rows] == [[2]]

    run_overlapping(query, query)


def test_a_reading_leaves_the_planner_of_someone_elses_connection_alone():
    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE records (a INTEGER)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Ibis's own calls
        records = connection.table("records")
    ask = "SELECT current_setting('disabled_optimizers')"

    def read(inside):
        with connect(records) as source, source.around():
            inside()
            assert connection.con.execute(ask).fetchone() == ("",)

    run_overlapping(read, read)
