"""What is declared is read by the same meaning: two levels of one class are refused, and `exact` switches it off."""

from __future__ import annotations

import csv
from datetime import date, datetime
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data import oracle_meaning as oracle

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.schema.design_matrix import Design
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal, reveal_rows
from vestry.schema.statistics import Count, Sum, SumQuery

SPELLINGS = ["1", "1.0", "true", "True", "TRUE", "tRuE", "01", "+1", "1e0", " 1 ", "1.", "0", "-0", "-0.0", "false",
             "1.5", "1.50", "2024-01-31", "2024-01-31T00:00", "2024-01-31 00:00:00.0", "2024-01-31T00:00Z", "13:45",
             "13:45:00", "a", "A", " a", "é", "e\u0301", "NA", "yes", "t"]  # fmt: skip


def test_two_levels_are_refused_exactly_if_the_oracle_says_they_are_one():
    for one, other in combinations(SPELLINGS, 2):
        same = oracle.level(one) == oracle.level(other)
        try:
            Levels(one, other)
        except InvalidParameter:
            assert same, (one, other)
        else:
            assert not same, (one, other)


@pytest.mark.parametrize("values", [("true", "1"), ("a", " a"), ("1.5", "1.50"), ("2024-01-31", "2024-01-31T00:00")])
def test_levels_of_one_class_need_exact(values, tmp_path):
    with pytest.raises(InvalidParameter, match="exact"):
        Levels(*values)
    domain = Levels(*values, exact=True, missing="level")
    frame = pd.DataFrame({"x": [*values, values[0], "other", None]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(y=1).to_csv(tmp_path / "a.csv", index=False)
    for data in (frame, tmp_path / "a.parquet", tmp_path / "a.csv"):
        table = Table(data, {"x": domain}, neighbours="replace")
        assert reveal(table.collect(SumQuery(("x",), (Count(),)), row_key="k")) == (2, 1, 2)


@pytest.mark.parametrize("given", [(True, False), (1, 0), ("1", "0"), ("true", "false"), ("1.0", "0.00"), (" 1", "0 ")])
def test_levels_may_be_declared_in_any_spelling(given):
    frame = pd.DataFrame(
        {"x": pd.Series([1, True, "1", "1.0", "True", 1.0, Decimal("1.0"), 0, "x", None], dtype=object)}
    )
    table = Table(frame, {"x": Levels(*given, missing="level")}, neighbours="replace")
    assert reveal(table.collect(SumQuery(("x",), (Count(),)), row_key="k")) == (7, 1, 2)


LOW, HIGH = date(2020, 1, 1), date(2024, 12, 31)
GERMAN = ["31.12.2023", "1.2.2024", "01.02.2024", " 29.2.2024 ", "30.2.2024", "31.12.1999", "1.1.2030", "", "2024",
          None, "1.2.24", "1.2.2024 10:00", "x", "00.01.2024", 20240131]  # fmt: skip


def days_of(data, form: str | None = None) -> int:
    domain = Interval(LOW, HIGH, format=form)
    assert (domain.low, domain.high) == (0.0, float((HIGH - LOW).days))
    table = Table(data, {"x": domain}, neighbours="replace", max_rows=1000)
    return reveal(table.collect(SumQuery((), (Sum("x", 0.0, 1.0),)), row_key="k"))[0]


@pytest.mark.parametrize("form", ["%d.%m.%Y", None])
def test_days_in_a_declared_format(tmp_path, form):
    wanted = sum(oracle.day(value, LOW, HIGH, form) or 0.0 for value in GERMAN)
    texts = [None if value is None else str(value) for value in GERMAN]
    with Path(tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["x", "y"], *([text, 1] for text in texts)])
    pq.write_table(pa.table({"x": texts}), tmp_path / "a.parquet")
    frame = pd.DataFrame({"x": pd.Series(GERMAN, dtype=object)})
    for data in (tmp_path / "a.csv", tmp_path / "a.parquet", frame):
        assert days_of(data, form) == wanted
    assert (wanted > 0) is (form is not None)


def test_days_are_those_of_dates_timestamps_and_text(tmp_path):
    values = [date(2024, 1, 31), datetime(2024, 1, 31, 23, 59), "2024-01-31", "2024-01-31T10:00", date(1990, 1, 1),
              45000, 45000.5, True, "13:45", "2024-1-31", date(2050, 1, 1), None]  # fmt: skip
    wanted = sum(oracle.day(value, LOW, HIGH) or 0.0 for value in values)
    assert days_of(pd.DataFrame({"x": pd.Series(values, dtype=object)})) == wanted


def features_of(values: list) -> list[tuple[float, ...]]:
    """Return the rows that a regression reads: the way past the sums."""
    frame = pd.DataFrame({"x": pd.Series(values), "z": pd.Series(values), "y": ["a", "b"] * (len(values) // 2)})
    domains = {"x": Levels("0", "1", missing="level"), "z": Interval(0, 1), "y": Levels("a", "b")}
    private = Table(frame, domains, neighbours="add-remove").rows(Design(("x", "z"), domains, "y", "b"), row_key="k")
    return sorted((*map(float, row), float(outcome)) for rows, outcomes in reveal_rows(private)
                  for row, outcome in zip(rows, outcomes, strict=True))  # fmt: skip


@pytest.mark.parametrize("odd", [None, "?", float("nan"), "\r", pytest.param(10**5000, id="huge"), 0.5])
@pytest.mark.long
def test_the_rows_of_a_regression_do_not_change_with_another(odd):
    base = [True, False, True, False, True, False, True]
    before, after = features_of([*base, True]), features_of([*base, odd])
    others = features_of([*base, True])
    others.remove((1.0, 0.0, 1.0, 1.0, 1.0))  # the record itself: level 1, at the high end, intercept, outcome b
    for row in others:
        assert row in after
        after.remove(row)
    assert len(after) == 1
    assert len(before) == len(base) + 1


def test_a_dropped_record_drops_no_other(tmp_path):
    def written(odd: object) -> Path:
        path = tmp_path / "a.csv"
        pd.DataFrame({"who": list("abcd"), "x": pd.Series([1, 0, 1, odd])}).to_csv(path, index=False)
        return path

    for odd in (1, None, "x\ry", 0.5):
        domains = {"who": Levels(*"abcd"), "x": Levels("0", "1", missing="drop")}
        table = Table(written(odd), domains, neighbours="add-remove")
        assert reveal(table.collect(SumQuery(("who", "x"), (Count(),)), row_key="k"))[:6] == (0, 1, 1, 0, 0, 1)
