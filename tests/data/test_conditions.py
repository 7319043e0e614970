"""How values fit what is declared of them: on every backend one query, and what a plain reading in Python says."""

from __future__ import annotations

import math
import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from data.columns import WHO, who, who_declared
from data.laws import ROWS as RECORDS
from data.laws import shown
from data.oracle_meaning import _digits, day, level, number, text_of
from data.tables import ROWS
from data.test_same_everywhere import EVERY as WAYS
from data.test_same_everywhere import side_by_side
from data.test_semantics import EVERY, row
from hypothesis import given, settings
from share import examples

from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import CONDITIONS, Condition, Count, Indicator, Sum, SumQuery

pytestmark = pytest.mark.oracle

DOMAINS = {
    "real": Interval(0, 2, missing="drop"),
    "whole": Levels(0, 1, 7),
    "truth": Levels(False, True, missing="level"),
    "ward": Levels("a", "é", "0", missing="drop"),
    "Spelled Number": Interval(-0.5, 2),
    "spelled_truth": Levels(True, False, missing={"value": True}),
}


def tally(*columns: str) -> SumQuery:
    return SumQuery((), tuple(Condition(column, each) for column in columns for each in CONDITIONS))


def condition(value, domain) -> str:
    """Say how a value is read, from the table of meanings alone; of bins, as their interval."""
    domain = getattr(domain, "interval", domain)
    if value is None or value != value or (isinstance(value, (str, bytes)) and text_of(value) is None):
        return "missing"
    if hasattr(domain, "values"):
        classes = [level(each) for each in domain.values]
        return "fits" if level(value) in classes and level(value) is not None else "unmatched"
    if domain.since is not None:
        low, high = domain.since, date.fromordinal(domain.since.toordinal() + int(domain.high))
        if day(value, date.min, date.max) is None:
            return "unmatched"
        return (
            "fits" if day(value, date.min, date.max) == day(value, low, high) + day(low, date.min, low) else "clipped"
        )
    found = number(value)
    return "unmatched" if found is None else "fits" if domain.low <= found <= domain.high else "clipped"


def counts(rows, domains) -> tuple[int, ...]:
    found = {name: [condition(each[name], domain) for each in rows] for name, domain in domains.items()}
    return tuple(found[name].count(each) for name in domains for each in CONDITIONS)


def collected(data, domains, unit="row", **options) -> tuple[int, ...]:
    table = Table(data, domains, unit=unit, neighbours="add-remove", **options)
    table.check(tally(*domains))
    return tuple(reveal(table.collect(tally(*domains), row_key="k")))


@pytest.mark.long
def test_every_troublesome_value(backend):
    assert collected(backend.load(EVERY), DOMAINS) == counts(backend.seen(EVERY), DOMAINS)


@settings(max_examples=examples(20))
@given(rows=ROWS)
@pytest.mark.long
def test_any_table(backend, rows):
    assert collected(backend.load(rows), DOMAINS) == counts(backend.seen(rows), DOMAINS)


@pytest.mark.long
def test_each_record_has_one_condition_in_each_column(backend):
    found = collected(backend.load(EVERY), DOMAINS)
    assert [sum(found[start : start + 4]) for start in range(0, len(found), 4)] == [len(EVERY)] * len(DOMAINS)


@pytest.mark.long
def test_no_record_is_dropped_and_a_person_s_rows_are_bounded(backend):
    rows = [row(ward=None, real=None, id=place % 3) for place in range(12)] + [row(ward="a", id=None)]
    found = collected(backend.load(rows), {"ward": DOMAINS["ward"]}, unit="person=id,rows=2")
    assert found == (0, 6, 0, 0)


def test_dates(tmp_path):
    values = [date(2024, 1, 15), date(2030, 1, 1), None]
    domains = {"day": Interval(date(2024, 1, 1), date(2024, 12, 31))}
    frame = pd.DataFrame({"day": values})
    frame.to_parquet(tmp_path / "days.parquet")
    assert collected(tmp_path / "days.parquet", domains) == (1, 1, 0, 1)
    texts = ["2024-01-15", "15.1.2024", "2030-01-01", " ", "2024-01"]
    found = collected(pd.DataFrame({"day": texts}), domains)
    assert found == (1, 1, 2, 1) == counts([{"day": each} for each in texts], domains)


def test_text_of_another_encoding_is_unmatched_in_every_file(tmp_path):
    (tmp_path / "a.csv").write_bytes("city\ncaf\u00e9\n".encode("latin-1"))
    assert collected(tmp_path / "a.csv", {"city": Levels("caf\u00e9", "th\u00e9")}) == (0, 0, 1, 0)
    (tmp_path / "b.csv").write_text("city\ncaf\u00e9\n", encoding="utf-8")
    assert collected(tmp_path / "b.csv", {"city": Levels("caf\u00e9", "th\u00e9")}) == (1, 0, 0, 0)


def test_exact_levels_are_read_as_they_stand(tmp_path):
    (tmp_path / "a.csv").write_text('mark\n" a"\n"a"\n"  "\n""\n')
    found = collected(tmp_path / "a.csv", {"mark": Levels("a", "b", exact=True)})
    assert found == (1, 1, 2, 0)  # white space alone is text here


def test_values_with_a_dictionary_are_told_apart(tmp_path):
    """Text with a dictionary becomes places of levels elsewhere, and a place does not say why there is none."""
    frame = pd.DataFrame({"mark": pd.Categorical(["a", "A", None, "b", "a"])})
    frame.to_parquet(tmp_path / "marks.parquet")
    for data in (frame, tmp_path / "marks.parquet"):
        assert collected(data, {"mark": Levels("a", "b")}) == (3, 1, 1, 0)


def test_infinities_are_clipped_as_numbers_and_unmatched_as_levels():
    frame = pd.DataFrame({"x": [math.inf, -math.inf, math.nan, 1.0]})
    assert collected(frame, {"x": Interval(0, 2)}) == (1, 1, 0, 2)
    assert collected(frame, {"x": Levels(1, 2)}) == (1, 1, 2, 0)


@pytest.mark.parametrize(
    "terms", [(Condition("a", "missing"), Indicator("a", ("x",))), (Sum("b", 0.0, 1.0), Condition("b", "clipped"))]
)
def test_a_column_is_summed_or_examined(terms):
    domains = {"a": Levels("x", "y"), "b": Interval(0, 1)}
    with pytest.raises(InvalidParameter, match="a column must be summed, or examined for its condition"):
        SumQuery((), (*terms, Count())).check(domains)


def test_an_unknown_condition_is_refused():
    with pytest.raises(InvalidParameter, match="a condition must be one of fits, missing, unmatched, clipped"):
        SumQuery((), (Condition("a", "odd"),)).check({"a": Levels("x", "y")})


def declared_condition(value, declared) -> str:
    """Say how a value of any type is read under what is declared of it."""
    too_long = isinstance(value, (int, Decimal)) and not isinstance(value, bool) and _digits(value) is None
    if declared.reading != "day" or too_long:
        return "missing" if too_long else condition(value, declared.domain)
    if value is None or value != value or (isinstance(value, (str, bytes)) and text_of(value) is None):
        return "missing"
    whole = day(value, date.min, date.max, declared.format)
    if whole is None:
        return "unmatched"
    low, high = (day(end, date.min, date.max) for end in declared.given)
    return "fits" if low <= whole <= high else "clipped"


def one_way(name, seed, tables):
    """Write tables in one way, and compare the condition of every record with the oracle's."""
    columns = side_by_side(Random(seed), tables)
    with tempfile.TemporaryDirectory() as folder:
        cells = {WHO: who(RECORDS), **{key: each for key, (_, each) in columns.items()}}
        written = WAYS[name](Path(folder), cells, Random(seed))
        domains = {key: each.domain for key, (each, _) in columns.items()} | {WHO: who_declared(RECORDS).domain}
        table = Table(written.data(), domains, neighbours="replace", max_rows=1000, **written.options)
        query = SumQuery((WHO,), tally(*columns).terms)
        found = np.array(reveal(table.collect(query, row_key="k"))).reshape(-1, len(columns), len(CONDITIONS))
    for place, (key, (each, cells)) in enumerate(columns.items()):
        for at in range(RECORDS):
            value = written.seen[key][at]
            wanted = declared_condition(value, each)
            said = [name for name, times in zip(CONDITIONS, found[at, place], strict=True) if times]
            assert said == [wanted], f"{cells.kind}, {each}: {shown(value)} is {said}, and means {wanted}"


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.long
def test_every_way_in_says_the_same_of_every_type(name):
    for seed in range(3):
        one_way(name, seed, 12)
