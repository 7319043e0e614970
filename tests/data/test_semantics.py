"""Every backend sums as the oracle does, whatever the table holds."""

import math

import pytest
from data.tables import REALS, ROWS, SPELLED, TRUTHS, TYPES, WARDS, Question, questions
from data.tally_oracle import sums
from hypothesis import Phase, given, settings
from share import cases, examples

from vestry.data import Table
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Indicator, Product, Sum, SumQuery, Within

EXAMPLES = {"parquet": 20, "csv": 8, "arrow": 5, "pandas": 8, "polars": 8, "duckdb": 5, "postgresql": 40, "pyspark": 8}
SERVERS = ("postgresql", "pyspark")


def asked(table: Table, question: Question) -> tuple[int, ...]:
    table.check(question.tally)
    return reveal(table.collect(question.tally, row_key=question.key))


def agree(backend, rows, question) -> None:
    table = Table(backend.load(rows), question.domains, unit=question.unit, neighbours="add-remove", max_rows=10**6)
    expected = sums(
        backend.seen(rows),
        question.tally,
        question.domains,
        unit=question.person,
        keep=question.rows,
        key=question.key,
    )
    assert asked(table, question) == expected


@pytest.mark.examples
def test_any_table(backend):
    phases = [Phase.explicit, Phase.generate] + [Phase.shrink] * (backend.name not in SERVERS)

    @settings(max_examples=examples(EXAMPLES[backend.name]), phases=phases)
    @given(ROWS, questions())
    def law(rows, question):
        agree(backend, rows, question)

    law()


def row(**values):
    plain = {"real": 0.0, "whole": 0, "truth": False, "ward": "a", "Spelled Number": "0", "spelled_truth": "0"}
    return {**plain, "id": 1, "name": "ann", "float_id": 1.0, **values}


# Every troublesome value, each in a row of its own and all in one table.
LONGEST = max(len(REALS), len(SPELLED), len(WARDS), len(TRUTHS))
EVERY = [
    row(
        **{
            "real": REALS[place % len(REALS)],
            "ward": WARDS[place % len(WARDS)],
            "Spelled Number": SPELLED[place % len(SPELLED)],
            "spelled_truth": TRUTHS[place % len(TRUTHS)],
            "id": place % 7 or None,
        }
    )
    for place in range(LONGEST)
]
POLICIES = ["never", "drop", {"value": 2.5}]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_every_troublesome_number(backend, policy):
    domains = {"real": Interval(-1, 3, policy), "Spelled Number": Interval(-1, 3, policy)}
    terms = (
        Count(),
        Sum("real", 0.0, 1.0),
        Sum("Spelled Number", 0.0, 1.0),
        Product(("real", "Spelled Number"), (0.5, -1.0), 0.1),
    )
    agree(backend, EVERY, Question(SumQuery((), terms), domains, None, 1, ""))


@pytest.mark.parametrize("policy", ["never", "drop", "level"], ids=str)
def test_every_troublesome_level(backend, policy):
    domains = {
        "ward": Levels("b", "a", "é", "0", missing=policy),
        "spelled_truth": Levels(True, False, missing=policy),
        "Spelled Number": Levels(1, 2, 0, missing=policy),
    }
    terms = (Count(3), Indicator("Spelled Number", ("1", "0")))
    agree(backend, EVERY, Question(SumQuery(("ward", "spelled_truth"), terms), domains, None, 1, ""))


@pytest.mark.parametrize("person", [None, "id"])
def test_sums_and_counts_within_levels(backend, person):
    """As regressions by moments ask for them: numbers by indicators, and indicators by indicators."""
    domains = {"ward": Levels("b", "a", "é"), "spelled_truth": Levels(True, False), "real": Interval(-1, 3)}
    number, both = Sum("real", 1.0, 0.001), (("ward", "a"), ("spelled_truth", "false"))
    terms = (Count(7), number, *(Within(both[:k], each) for k in (1, 2) for each in (Count(5), number)))
    agree(backend, EVERY, Question(SumQuery((), terms), domains, person, 2, "k"))


@pytest.mark.parametrize("rows", cases([1, 2, 5], quick=[2]))
def test_rows_are_chosen_among_those_that_count_and_before_they_are_summed(backend, rows):
    domains = {
        "ward": Levels("a", "b", missing="level"),
        "real": Interval(0, 3),
        "Spelled Number": Interval(0, 3, "drop"),
    }
    terms = (Count(), Sum("real", 0.0, 0.5), Sum("Spelled Number", 0.0, 0.001))
    agree(backend, EVERY * 2, Question(SumQuery(("ward",), terms), domains, "id", rows, "k"))


@pytest.mark.parametrize(
    ("values", "person", "policy"),
    [
        ([1.0, math.nan, 2.0], None, "never"),
        ([1.0, math.nan, 2.0], "float_id", "never"),
        ([math.nan, math.nan, -0.0], None, "drop"),
    ],
)
def test_what_a_file_claims_of_its_values_is_not_believed(backend, values, person, policy):
    """A Parquet file's least and greatest value leave NaN out, so a planner that trusts them would not look for it."""
    rows = [row(real=value, float_id=value) for value in values]
    terms = (Count(), Sum("real", 0.0, 0.1), Product(("real", "real"), (0.0, 0.0), 0.1))
    domains = {"real": Interval(-1, 3, policy)}
    agree(backend, rows, Question(SumQuery((), terms), domains, person, 1, ""))


def test_declared_numbers_arrive_to_the_last_bit(backend):
    """A literal that an engine reads as a decimal is off by an ulp: the grid here shows it."""
    awkward = [0.30000000000000004, 1 / 3, 0.1 + 0.7, 2 / 3, 0.12345678901234566]
    terms = tuple(Sum("real", origin, 2.0**-56) for origin in awkward)
    domains = {"real": Interval(0.1, 0.9)}
    table = Table(backend.load([row(real=value) for value in awkward]), domains, neighbours="replace", max_rows=10)
    tally = SumQuery((), terms)
    assert reveal(table.collect(tally, row_key="")) == sums([row(real=value) for value in awkward], tally, domains)


@pytest.mark.long
def test_the_order_of_the_table_and_other_persons_play_no_part(backend):
    domains = {"real": Interval(0, 3), "ward": Levels("a", "b")}
    tally = SumQuery(("ward",), (Count(), Sum("real", 0.0, 0.1)))
    own = [row(real=value, id=9) for value in (0.1, 0.7, 1.5, 2.0, 2.5, 2.5)]
    others = [row(real=value, ward="b", id=place) for place, value in enumerate([None, 1.0, 2.0, math.inf])]

    def of_nine(rows):
        table = Table(backend.load(rows), domains, unit="person=id,rows=2", neighbours="replace")
        return reveal(table.collect(tally, row_key="k"))[:2]

    assert of_nine(own) == of_nine(others + own[::-1])
    assert of_nine(own)[0] == 2


@pytest.mark.long
def test_another_key_chooses_others(backend):
    domains = {"real": Interval(0, 3)}
    tally = SumQuery((), (Sum("real", 0.0, 0.001),))
    table = Table(
        backend.load([row(real=place / 50) for place in range(150)]),
        domains,
        unit="person=id,rows=1",
        neighbours="replace",
    )
    assert len({reveal(table.collect(tally, row_key=key)) for key in ("a", "b", "c", "d")}) > 1


def test_an_empty_table_is_all_zeros(backend):
    domains = {"ward": Levels("a", "b", missing="level"), "real": Interval(0, 3)}
    table = Table(backend.load([]), domains, neighbours="replace")
    for keys, cells in (((), 1), (("ward",), 3)):
        tally = SumQuery(keys, (Count(), Sum("real", 0.0, 1.0)))
        assert reveal(table.collect(tally, row_key="")) == (0, 0) * cells
    assert table.count() == 0


def test_the_count_and_a_tally_that_reads_no_column(backend):
    table = Table(backend.load(EVERY), {"ward": Levels("a", "b")}, neighbours="replace")
    assert table.count() == len(EVERY)
    assert reveal(table.collect(SumQuery((), (Count(2),)), row_key="")) == (2 * len(EVERY),)


def test_sums_larger_than_declared_are_still_exact(backend):
    """More records than `max_rows` allows, and 64 bits do not hold their sum."""
    domains = {"real": Interval(0, 3)}
    table = Table(backend.load([row(real=3.0)] * 30), domains, neighbours="replace", max_rows=1)
    grid = 2.0**-59
    table.check(tally := SumQuery((), (Sum("real", 0.0, grid),)))
    assert reveal(table.collect(tally, row_key="")) == (30 * 3 * 2**59,)


def test_the_types_are_those_of_the_rows():
    assert set(EVERY[0]) == set(TYPES)
