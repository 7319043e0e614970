"""An interval in bins is a column of levels: where edges belong, what lies beyond, and what is refused."""

from __future__ import annotations

import math
from datetime import date

import pandas as pd
import pytest

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.schema.domain import Interval, Levels, domain_from
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, SumQuery

AGE = Interval(0, 120).bins(0, 18, 40, 65, 120)
VISIT = Interval(date(2020, 1, 1), date(2022, 1, 1)).bins("2020-01-01", date(2021, 1, 1), "2022-01-01")


def counted(domain, values) -> list[int]:
    table = Table(pd.DataFrame({"x": pd.Series(values, dtype=object)}), {"x": domain}, neighbours="add-remove")
    return list(reveal(table.collect(SumQuery(("x",), (Count(),)), row_key="k")))


def test_each_bin_is_a_level_with_a_name_that_says_where_its_edges_belong():
    assert isinstance(AGE, Levels)
    assert AGE.names == ("0 to <18", "18 to <40", "40 to <65", "65 to 120")
    assert VISIT.names == ("2020-01-01 to <2021-01-01", "2021-01-01 to 2022-01-01")
    assert Interval(-0.5, 1e16).bins(-0.5, 0.25, 1e16).names == ("-0.5 to <0.25", "0.25 to 10000000000000000")


def test_an_edge_belongs_to_the_bin_above_it_and_the_last_to_the_last():
    assert counted(AGE, [0, 17.999, 18, "39.9", 40, 64, 65, 119, 120]) == [2, 2, 2, 3]


def test_what_lies_beyond_is_clipped_and_what_is_missing_follows_the_interval():
    beyond = [-5, math.inf, -math.inf, 500, "1e5"]
    assert counted(AGE, beyond) == [2, 0, 0, 3]
    odd = [None, math.nan, "old", ""]
    assert counted(AGE, odd) == [4, 0, 0, 0]
    assert counted(Interval(0, 120, missing="drop").bins(0, 18, 120), odd) == [0, 0]
    assert counted(Interval(0, 120, missing={"value": 18}).bins(0, 18, 120), odd) == [0, 4]
    assert counted(Interval(0, 120).bins(0, 18, 120, missing="level"), [*odd, 3]) == [1, 0, 4]


def test_numbers_that_count_as_zero_lie_above_an_edge_of_zero():
    assert counted(Interval(-1, 1).bins(-1, 0, 1), [-0.0, -1e-101, 1e-300, -1e-99]) == [1, 3]


def test_dates_are_cut_at_dates():
    values = [date(2019, 5, 1), "2020-12-31", date(2021, 1, 1), "2024-01-01"]
    assert counted(VISIT, values) == [2, 2]


@pytest.mark.parametrize("domain", [
    AGE, VISIT, Interval(0, 120, missing="drop").bins(0, 18, 120), Interval(0, 9).bins(0, 2, 9, missing="level"),
    Interval(0, 120, missing={"value": 18}).bins(0, 18, 120),
])  # fmt: skip
def test_a_study_file_writes_and_reads_it(domain):
    assert domain_from(domain.to_dict()) == domain


def test_a_count_may_be_in_bins():
    assert domain_from({"count": 20, "bins": [0, 1, 5, 20]}).names == ("0 to <1", "1 to <5", "5 to 20")


@pytest.mark.parametrize("edges", [[0, 120], [0, 40, 18, 120], [0, 18, 18, 120], [1, 18, 120], [0, 18, 119],
                                   [0, "18", 120], [0, math.nan, 120], [0, True, 120], []])  # fmt: skip
def test_edges_that_do_not_cut_the_interval_are_refused(edges):
    with pytest.raises(InvalidParameter, match=r"increasing from 0\.0 to 120\.0, the ends of the interval"):
        domain_from({"interval": [0, 120], "bins": edges})


def test_dates_are_not_cut_at_numbers():
    with pytest.raises(InvalidParameter, match=r"bins = \[2020-01-01, 2020-12-31, 2022-01-01\]"):
        Interval(date(2020, 1, 1), date(2022, 1, 1)).bins(0, 300, 731)


@pytest.mark.parametrize(("record", "words"), [
    ({"interval": [0, 9], "bins": 3}, "a list of edges"),
    ({"levels": ["a", "b"], "bins": [0, 1, 2]}, "both with bins"),
    ({"interval": [0, 9], "missing": "level"}, '"never", "drop" or'),
])  # fmt: skip
def test_bins_elsewhere_are_refused(record, words):
    with pytest.raises(InvalidParameter, match=words):
        domain_from(record)


def test_missing_values_are_declared_of_the_interval():
    with pytest.raises(InvalidParameter, match='"level", or declared of the interval'):
        Interval(0, 9).bins(0, 3, 9, missing="drop")


def test_a_study_counts_by_bins(tmp_path):
    from vestry.study import config

    file = tmp_path / "study.toml"
    file.write_text(
        '[study]\nname = "n"\ndata = "a.csv"\nunit = "row"\nneighbours = "add-remove"\nbudget = { epsilon = 1 }\n'
        'ledger = "a.ledger"\n[columns]\nage = { interval = [0, 120], bins = [0, 18, 120] }\n'
        '[release.ages]\nmodel = "beta-bernoulli"\ncolumn = "age"\nsuccess = "18 to 120"\nspend = { epsilon = 1 }\n'
    )
    spec = config.read(file).release("ages")
    assert spec.request.model.success == "18 to 120"
