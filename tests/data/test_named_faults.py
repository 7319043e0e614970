"""The faults that the law was written against, one small example each."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.version import Version

from vestry.data import Table
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Indicator, Sum, SumQuery

TRUTHS = [True, False, True, True, False, True]
HUGE = pytest.param(10**5000, id="huge")


def counts(data, levels: Levels, **more) -> tuple[int, ...]:
    """Return how many records have each level of the column x."""
    table = Table(data, {"x": levels}, neighbours="replace", **more)
    return reveal(table.collect(SumQuery(("x",), (Count(),)), row_key="k"))


def total(data, low: float = 0, high: float = 10, grid: float = 0.001) -> int:
    """Return the sum of the column x, in units of the grid."""
    table = Table(data, {"x": Interval(low, high)}, neighbours="replace", max_rows=1000)
    return reveal(table.collect(SumQuery((), (Sum("x", 0.0, grid),)), row_key="k"))[0]


def series(values: list) -> pd.Series:
    """Return a column of the type that pandas finds; pandas 2.2 does not look at a number beyond the doubles."""
    beyond = any(isinstance(value, int) and value > 2**1024 for value in values)
    return pd.Series(values, dtype=object if beyond else None)


@pytest.mark.parametrize("odd", [None, "?", 7, math.nan, HUGE])
@pytest.mark.parametrize("declared", [Levels(False, True), Levels("0", "1"), Levels(0, 1), Levels("false", "true")])
def test_truth_values_of_pandas_beside_an_odd_one(odd, declared):
    frame = pd.DataFrame({"x": series([*TRUTHS, odd])})
    found = counts(frame, declared)
    assert (found[0], found[1]) in {(2 + 1, 4), (2, 4 + 1)}


@pytest.mark.parametrize("odd", [None, "?", True])
def test_truth_values_of_pandas_as_numbers_beside_an_odd_one(odd):
    found = total(pd.DataFrame({"x": pd.Series([*TRUTHS, odd])}), 0, 1)
    assert found == 4000 + 1000 * (odd is True)


@pytest.mark.parametrize("odd", [None, "x", pytest.param("\ud800", id="surrogate"), HUGE, math.nan])
def test_float_persons_of_pandas_beside_an_odd_one(odd):
    """Which two rows of a person count does not depend on what another person is called."""
    ids = [float(at // 4) for at in range(40)]

    def kept(values):
        frame = pd.DataFrame({"id": series(values), "who": [f"r{at}" for at in range(len(values))]})
        domains = {"who": Levels(*(f"r{at}" for at in range(41)))}
        table = Table(frame, domains, unit="person=id,rows=2", neighbours="add-remove")
        return reveal(table.collect(SumQuery(("who",), (Count(),)), row_key="k"))

    assert kept([*ids, 99.0])[:40] == kept([*ids, odd])[:40]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_bare_carriage_return_in_csv_makes_no_record(tmp_path, end):
    def written(remark: str) -> Path:
        path = tmp_path / f"{len(remark)}.csv"
        path.write_bytes(f"id,x,remark{end}1,yes,fine{end}2,no,{remark}{end}3,yes,fine{end}".encode())
        return path

    forged = "a" + "\r9,yes,forged" * 300
    assert counts(written("fine"), Levels("no", "yes")) == counts(written(forged), Levels("no", "yes")) == (1, 2)
    for remark in ("fine", forged):
        assert Table(written(remark), {"x": Levels("no", "yes")}, neighbours="replace").count() == 3
        persons = Table(written(remark), {"x": Levels("no", "yes")}, unit="person=id,rows=5", neighbours="add-remove")
        assert reveal(persons.collect(SumQuery(("x",), (Count(),)), row_key="k")) == (1, 2)


@pytest.mark.parametrize("write", ["pandas", "csv"])
def test_a_bare_carriage_return_that_a_writer_left_unquoted(tmp_path, write):
    path, remarks = tmp_path / "a.csv", ["fine", "one\rtwo\rthree", "fine"]
    if write == "pandas":
        pd.DataFrame({"x": ["yes", "no", "yes"], "remark": remarks}).to_csv(path, index=False, lineterminator="\n")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["x", "remark"])
            writer.writerows(zip(["yes", "no", "yes"], remarks, strict=True))
    assert Table(path, {"x": Levels("no", "yes")}, neighbours="replace").count() == 3
    assert counts(path, Levels("no", "yes")) == (1, 2)


@pytest.mark.parametrize(
    "declared", [Levels(False, True), Levels("0", "1"), Levels(0, 1), Levels("false", "true")], ids=str
)
@pytest.mark.parametrize("values", [[1, 0, 1, 1], [True, False, True, True]], ids=str)
def test_ones_in_csv_beside_a_missing_value(tmp_path, declared, values):
    for odd in (1, None, 0.5):
        path = tmp_path / f"{odd}.csv"
        pd.DataFrame({"x": pd.Series([*values, odd]), "y": 1}).to_csv(path, index=False)
        found = counts(path, declared)
        assert found[1] == 3 + (odd == 1)
        assert found[0] == 1 + (odd != 1)


def test_a_missing_value_in_a_csv_of_one_column_is_a_record(tmp_path):
    path = tmp_path / "a.csv"
    pd.DataFrame({"x": ["a", None, "b", None]}).to_csv(path, index=False)
    assert Table(path, {"x": Levels("a", "b")}, neighbours="replace").count() == 4
    assert counts(path, Levels("a", "b", missing="level")) == (1, 1, 2)
    path.write_bytes(b"x\na\n\n\r\nb\n")
    assert Table(path, {"x": Levels("a", "b")}, neighbours="replace").count() == 4


def test_a_file_of_parquet_has_its_own_types(tmp_path):
    """The first file holds whole numbers, the second fractions; then the first one holds text."""
    rest = pa.table({"x": pa.array([0.4, 0.4, 2.5])})
    for first in ([1, 2], ["1", "2"], [1.0, 2.0], [True, "2"]):
        values = [str(value) if isinstance(first[-1], str) else value for value in first]
        pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet")
        pq.write_table(rest, tmp_path / "b.parquet")
        assert total(tmp_path / "*.parquet") == (3000 + 3300)


def test_a_part_of_parquet_that_is_all_missing(tmp_path):
    pq.write_table(pa.table({"x": pa.nulls(2)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["yes", "no"]}), tmp_path / "b.parquet")
    assert counts(tmp_path / "*.parquet", Levels("no", "yes", missing="level")) == (1, 1, 2)
    assert counts(tmp_path / "a.parquet", Levels("no", "yes", missing="level")) == (0, 0, 2)


def test_a_part_of_parquet_that_lacks_the_column(tmp_path):
    pq.write_table(pa.table({"y": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["yes", "no"]}), tmp_path / "b.parquet")
    assert counts(tmp_path / "*.parquet", Levels("no", "yes", missing="level")) == (1, 1, 2)


@pytest.mark.parametrize("more", [[], ["day=2024-01-31"], ["day=x"], ["day=__HIVE_DEFAULT_PARTITION__"], ["day="]])
def test_names_of_folders_are_text(tmp_path, more):
    for name in ["day=2024-1-1", "day=2024-1-1", "day=2024-1-2", *more]:
        below = tmp_path / name
        below.mkdir(exist_ok=True)
        pq.write_table(pa.table({"y": [1]}), below / f"{len(list(below.iterdir()))}.parquet")
    table = Table(tmp_path / "*" / "*.parquet", {"day": Levels("2024-1-1", "2024-1-2", missing="level")},
                  neighbours="replace")  # fmt: skip
    assert reveal(table.collect(SumQuery(("day",), (Count(),)), row_key="k")) == (2, 1, len(more))


def broken(dictionary: bool) -> pa.Table:
    array = pa.array([b"yes", b"\xff\xfe", b"no", b"yes"]).view(pa.string())
    return pa.table({"x": array.dictionary_encode() if dictionary else array, "y": [1, 2, 3, 4]})


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_that_is_not_utf8(tmp_path, dictionary):
    table = broken(dictionary)
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=dictionary)
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as sink:
        sink.write_table(table)
    for data in (tmp_path / "a.parquet", tmp_path / "a.arrow", table):
        assert counts(data, Levels("no", "yes", missing="level")) == (1, 2, 1)


@pytest.mark.parametrize("odd", [HUGE, pytest.param("\ud800", id="surrogate"), 10**400, "9" * 5000])
def test_objects_that_no_type_holds(odd):
    frame = pd.DataFrame({"x": pd.Series([1, 0, 1, odd], dtype=object)})
    assert counts(frame, Levels(0, 1, missing="level")) == (1, 2, 1)
    assert counts(frame, Levels("0", "1", missing="level")) == (1, 2, 1)
    assert total(frame, 0, 1) in (2000, 3000)


@pytest.mark.parametrize("odd", [None, 0.5])
def test_levels_of_text_over_numbers_with_one_missing(tmp_path, odd):
    frame = pd.DataFrame({"x": [1, 2, 1, odd]})
    frame.to_parquet(tmp_path / "a.parquet")
    for data in (frame, tmp_path / "a.parquet"):
        assert counts(data, Levels("1", "2", missing="level")) == (2, 1, 1)


@pytest.mark.parametrize("text", [{}, {"na_value": math.nan}], ids=["NA", "nan"])
def test_a_lone_surrogate_of_pandas(text):
    if text and Version(pd.__version__) < Version("2.3"):
        pytest.skip("this version of pandas has no text whose missing values are nan")
    dtype = pd.StringDtype("python", **text)
    frame = pd.DataFrame({"x": pd.Series(["yes", "no", "\ud800"], dtype=dtype)})
    assert counts(frame, Levels("no", "yes", missing="level")) == (1, 1, 1)


def test_a_lone_surrogate_of_pandas_objects():
    frame = pd.DataFrame({"x": pd.Series(["yes", "no", "\ud800"], dtype=object)})
    assert counts(frame, Levels("no", "yes", missing="level")) == (1, 1, 1)


def test_a_lone_surrogate_of_polars():
    polars = pytest.importorskip("polars", reason="pip install polars")
    frame = polars.DataFrame({"x": polars.Series(["yes", "no", "\ud800"], dtype=polars.Object)})
    assert counts(frame, Levels("no", "yes", missing="level")) == (1, 1, 1)


@pytest.mark.long
def test_an_estimator_is_fitted_beside_a_missing_truth_value():
    """A truth value of Polars may be missing; the other rows are what they were."""
    polars = pytest.importorskip("polars", reason="pip install polars")
    from vestry.estimators import PrivateLogisticRegression

    for last in (True, None):
        frame = polars.DataFrame({"a": [True, False, True, last], "b": [False, False, True, True]})
        chosen = {"bounds": (0, 1), "classes": ("a", "b"), "ledger": None, "neighbours": "replace"}
        model = PrivateLogisticRegression("mu=1", **chosen).fit(frame, ["a", "b", "a", "b"])
        assert model.coef_.shape == (1, 2)


@pytest.mark.parametrize("radius", [1e39, 1e300])
def test_a_ball_that_single_precision_does_not_hold(radius):
    """Refused by its declaration, or fitted: never a failure that a record decides."""
    from vestry.errors import InvalidParameter
    from vestry.estimators import Ball, PrivateLogisticRegression

    def fit(longest: float) -> bool:
        rows = np.array([[1.0, 2.0], [-1.0, 0.5], [longest, longest], [0.5, 0.5]])
        try:
            ball = Ball(radius)
            chosen = {"bounds": ball, "classes": ("a", "b"), "ledger": None, "neighbours": "replace"}
            PrivateLogisticRegression("mu=1", **chosen).fit(rows, ["a", "b", "a", "b"])
        except InvalidParameter:
            return False
        return True

    assert fit(1.0) == fit(radius)


def test_an_indicator_and_a_key_agree_on_a_level():
    frame = pd.DataFrame({"x": pd.Series([*TRUTHS, None])})
    table = Table(frame, {"x": Levels(False, True, missing="level")}, neighbours="replace")
    found = reveal(table.collect(SumQuery((), tuple(Indicator("x", (name,)) for name in ("false", "true", "missing"))),
                                 row_key="k"))  # fmt: skip
    assert found == (2, 4, 1)
