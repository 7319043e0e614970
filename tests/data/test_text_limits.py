"""Text in a database, which the engine itself reads: white space, length, truth words and the zero that is negative."""

from __future__ import annotations

import duckdb
import pytest

from vestry.data import Table
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Sum, SumQuery

BLANKS = [" ", "\t", "\n", "\r", "\x0b", "\x0c"]


def asked(tmp_path, values: list[str], domain, query: SumQuery) -> tuple[int, ...]:
    path = tmp_path / "a.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE OR REPLACE TABLE records (x VARCHAR)")
        connection.executemany("INSERT INTO records VALUES (?)", [[value] for value in values])
    table = Table(f"duckdb://{path}/records", {"x": domain}, neighbours="replace", max_rows=1000)
    return reveal(table.collect(query, row_key="k"))


def numbers(tmp_path, values: list[str]) -> tuple[int, ...]:
    """Return how many values are numbers, and their sum in hundredths; each is at most 2."""
    return asked(tmp_path, values, Interval(0, 2, missing="drop"), SumQuery((), (Count(), Sum("x", 0.0, 0.01))))


def levels(tmp_path, values: list[str], *own: str) -> tuple[int, ...]:
    return asked(tmp_path, values, Levels(*own, missing="level"), SumQuery(("x",), (Count(),)))


@pytest.mark.parametrize("blank", BLANKS, ids=repr)
def test_white_space_around_text_is_no_part_of_it(blank, tmp_path):
    assert numbers(tmp_path, [f"{blank}1{blank}", f"{blank}{blank}0.5"]) == (2, 150)
    assert levels(tmp_path, [f"{blank}a", f"b{blank}", f"a{blank}b"], "a", "b") == (1, 1, 1)


def test_a_number_has_at_most_100_characters(tmp_path):
    assert numbers(tmp_path, ["0" * 99 + "1"]) == (1, 100)
    assert numbers(tmp_path, ["0" * 100 + "1"]) == (0, 0)
    assert levels(tmp_path, ["1." + "0" * 98, "1." + "0" * 99], "0", "1") == (0, 1, 1)


def test_truth_words_are_1_and_0(tmp_path):
    assert numbers(tmp_path, ["true", "True", "TRUE"]) == (3, 300)
    assert numbers(tmp_path, ["false", "False", "FALSE"]) == (3, 0)
    assert levels(tmp_path, ["true", "FALSE", "yes", "-0", "-0.0", "1.50", "1.5"], "0", "1", "1.5") == (3, 1, 2, 1)
