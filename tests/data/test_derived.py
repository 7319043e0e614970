"""Derived columns are the oracle's on every format, frame and backend, for hostile values, and cost no sensitivity.

A record's derived value follows from that record alone. A file holds many tables of eight records, one below the other:
what every single record comes to is compared.
"""

from __future__ import annotations

import math
import tempfile
from datetime import date
from pathlib import Path
from random import Random

import pandas as pd
import pytest
from data.columns import KINDS, WHO, Cells
from data.formula_oracle import DATES, FORMAT, NUMBERS, TEXTS, TRUTHS, columns_of, compute, number, truth, written
from data.servers import postgres, spark_parquet
from data.test_same_everywhere import TEXTS as HOSTILE
from data.writers import NEWER, WRITERS, Writer
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from share import cases

from vestry.data import Table
from vestry.data.query import Query
from vestry.data.source import connect
from vestry.errors import FormulaError, InvalidParameter
from vestry.privacy.neighbours import Unit
from vestry.schema.derivation import check_derived
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Sum, SumQuery

EVERY = {**WRITERS, **NEWER}
ROWS = 8
GRID, LOW, HIGH, STAND_IN = 2.0**-20, -50.0, 50.0, 7.25
SPELLED = [
    "1e31",
    "1e30",
    "1.0000000000000002e30",
    "1e-31",
    "9.9e-31",
    "-1e-30",
    "-1e30",
    "1e400",
    "-inf",
    "nan",
    "0.1",
]
SPELLED += ["0.2", "-0.0", "3", "2", "abc", "", "13:45", "TRUE", "1e-400", "12", "0x10"]
DOUBLES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.1, 0.2, 3.0, 2.0, 1e30, 1.1e30, 1e-30, 9e-31]
STAMPS = ["31.01.2024", "29.2.2020", "30.02.2020", "2024-01-31", "01.01.0001", "31.12.9999", "1.1.24", "", "x"]
POOLS = {
    "text": [*HOSTILE, *SPELLED, "0001-01-01T00:30+01:00", "9999-12-31T23:30-01:00"],
    "spelled": SPELLED, "double": DOUBLES, "stamp": STAMPS,
    **{kind: KINDS[kind][0] for kind in ("truth", "whole", "real", "decimal", "day", "moment", "zoned")},
    "long-ago": [date.min, date.max, date(1, 1, 2), date(9999, 12, 30), date(1900, 2, 28), date(2000, 2, 29)],
    "word": ["a", "b", " a ", "007", "1.5", "true", "é", "it's", "2024-01-31T00:00", "13:45:00", 'q"q', "x" * 101, ""],
}  # fmt: skip
CARRIED = {"long-ago": "day", "word": "text", "stamp": "text"}
ASKED = {
    **dict.fromkeys(NUMBERS, ("whole", "real", "double", "decimal", "spelled", "text", "truth")),
    **dict.fromkeys(DATES, ("day", "moment", "zoned", "text", "long-ago")),
    **dict.fromkeys(TEXTS, ("word", "text", "truth", "whole", "day", "double")),
    **dict.fromkeys(TRUTHS, ("truth", "text", "word", "whole")),
    "stamp": ("stamp",),
}
# What is declared of the table's own columns: its ends and stand-ins play no part in an expression.
DECLARED = {
    **{name: Interval(0, 1, missing={"value": 1}) for name in NUMBERS},
    **{name: Interval(date(2020, 1, 1), date(2021, 1, 1)) for name in DATES},
    "stamp": Interval(date(2020, 1, 1), date(2021, 1, 1), format=FORMAT),
    TRUTHS[0]: Levels(True, False),
    TRUTHS[1]: Levels(False, True),
}


def expressions(rng: Random, count: int) -> dict[str, tuple[str, tuple, str]]:
    """Return derived columns by name: their kind, their tree and their text; too long ones are drawn again."""
    found: dict[str, tuple[str, tuple, str]] = {}
    while len(found) < count:
        kind = rng.choice(["number", "truth", "truth"])
        tree = (number if kind == "number" else truth)(rng, rng.choice([1, 2, 3]))
        text = written(tree, rng)
        if columns_of(tree) and len(text) <= 900 and tree[0] != "column":
            try:
                check_derived("d", {**DECLARED, "d": domain_of(kind, text)}, None)
            except FormulaError as error:
                if "too large or too small" in str(error):
                    continue
                raise
            found[f"e{len(found)}"] = (kind, tree, text)
    return found


def domain_of(kind: str, text: str) -> Levels | Interval:
    if kind == "truth":
        return Levels(False, True, missing="level", derived=text)
    return Interval(LOW, HIGH, missing={"value": STAND_IN}, derived=text)


def meant(kind: str, tree: tuple, row: dict) -> int:
    """Return what the query must say: the place of a truth value, 2 for a missing one; a number in units."""
    found = compute(tree, row, kind)
    if kind == "truth":
        return 2 if found is None else int(found)
    code = STAND_IN if found is None else min(max(found, LOW), HIGH)
    return math.floor((code - LOW) / GRID + 0.5)


def values_of(data: object, derived: dict, options: dict, rows: int) -> dict[int, list[int]]:
    """Return what every record comes to, by its number."""
    domains = {
        **DECLARED,
        WHO: Interval(0, rows),
        **{name: domain_of(kind, text) for name, (kind, _, text) in derived.items()},
    }
    truths = [name for name, (kind, _, _) in derived.items() if kind == "truth"]
    numbers = [name for name in derived if name not in truths]
    tally = SumQuery(tuple(truths), (Sum(WHO, 0.0, 1.0), *(Sum(name, LOW, GRID) for name in numbers)))
    table = Table(data, domains, neighbours="replace", max_rows=10**6, **options)
    query = Query(tally, domains, Unit())
    with connect(table.data, columns=query.wanted, dialect=table.csv) as source:
        query.check_schema(source)
        batches = [
            [column.tolist() for column in batch.values()]
            for batch in source.columns(query.records(source, row_key=""))
        ]
    records = [record for batch in batches for record in zip(*batch, strict=True)]
    order = [*truths, WHO, *numbers]
    found = [dict(zip(order, record, strict=True)) for record in records]
    return {each[WHO]: [each[name] for name in derived] for each in found}


def agrees(writer: Writer, seed: int, *, tables: int, count: int) -> None:
    rng = Random(seed)
    rows = tables * ROWS
    derived = expressions(rng, count)
    used = sorted(set().union(*(columns_of(tree) for _, tree, _ in derived.values())))
    cells = {WHO: Cells("whole", tuple(range(rows)))}
    for name in used:
        kind = rng.choice(ASKED[name])
        values = tuple(None if rng.random() < 0.125 else rng.choice(POOLS[kind]) for _ in range(rows))
        cells[name] = Cells(CARRIED.get(kind, kind), values)
    cells["folder"] = Cells("text", tuple(rng.choice(["a", "b"]) for _ in range(rows)))
    with tempfile.TemporaryDirectory() as folder:
        made = writer(Path(folder), cells, rng)
        assert not made.refused
        found = values_of(made.data(), derived, made.options, rows)
    assert sorted(found) == list(range(rows))
    wrong = []
    for at in range(rows):
        row = {name: made.seen[name][at] for name in used}
        for (kind, tree, text), value in zip(derived.values(), found[at], strict=True):
            if value != meant(kind, tree, row):
                wrong.append(f"{text}: {({name: row[name] for name in columns_of(tree)})} gives {value}, "
                             f"and means {meant(kind, tree, row)} ({compute(tree, row, kind)})")  # fmt: skip
    assert not wrong, f"seed {seed}\n" + "\n".join(wrong[:6])


def held(writer: Writer, *, files: int, tables: int, count: int = 8) -> None:
    @settings(max_examples=files, phases=[Phase.explicit, Phase.generate])
    @given(seed=st.integers(0, 2**32 - 1))
    def law(seed: int) -> None:
        agrees(writer, seed, tables=tables, count=count)

    law()


QUICK = ["csv"]


@pytest.mark.parametrize("name", cases(EVERY, quick=QUICK))
def test_derived_values_are_the_oracles(name):
    held(EVERY[name], files=1, tables=1 if name in ("hive", "parquet-files", "pandas-files") else 4, count=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arrow-table", "csv", "duckdb-file", "pandas-frame", "parquet"])
def test_derived_values_of_ten_thousand_tables_are_the_oracles(name):
    held(EVERY[name], files=100, tables=100)


@pytest.mark.slow
def test_derived_values_of_ten_thousand_tables_are_the_oracles_on_postgresql(server):
    held(postgres(server), files=100, tables=100)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Spark, about Pandas
def test_derived_values_of_ten_thousand_tables_are_the_oracles_on_spark(spark):
    held(spark_parquet, files=100, tables=100)


FRAME = pd.DataFrame(
    {
        "who": ["x", "x", "x", "y", None],
        "ward": pd.Categorical([" A", "B", "A", "C", None]),
        "stay": ["1", "2.5", "", "1e31", "7"],
    }
)


def counted(columns: dict, tally: SumQuery, unit: str = "row") -> tuple[int, ...]:
    table = Table(FRAME, columns, unit=unit, neighbours="add-remove", max_rows=100)
    table.check(tally)
    return reveal(table.collect(tally, row_key="k"))


def test_truth_tables():
    """Every pair of true, false and missing, as SQL has them."""
    values = {"true": True, "false": False, "missing": None}
    frame = pd.DataFrame([{"a": a, "b": b} for a in values for b in values])
    texts = {"and": "a and b", "or": "a or b", "not": "not a"}
    columns = {name: Levels(False, True, missing="level", derived=text) for name, text in texts.items()}
    rows = {f"r{at}": row for at, row in frame.iterrows()}
    columns["r"] = Levels(*rows)
    table = Table(frame.assign(r=list(rows)), columns, neighbours="add-remove")
    found = {name: reveal(table.collect(SumQuery(("r", name), (Count(),)), row_key="")) for name in texts}
    read = {
        name: [("false", "true", "missing")[each.index(1)] for each in split3(sums)] for name, sums in found.items()
    }
    assert read["and"] == ["true", "false", "missing", "false", "false", "false", "missing", "false", "missing"]
    assert read["or"] == ["true", "true", "true", "true", "false", "missing", "true", "missing", "missing"]
    assert read["not"] == ["false"] * 3 + ["true"] * 3 + ["missing"] * 3


def split3(sums: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [sums[at : at + 3] for at in range(0, len(sums), 3)]


@pytest.mark.long
def test_one_column_may_have_several_names():
    """Its own levels, coarser ones by another name, exact ones, and a condition, in one query of a category."""
    columns = {
        "ward": Levels("A", "B", missing="level"),
        "spaced": Levels(" A", "A", missing="level", exact=True, derived="ward"),
        "other": Levels(False, True, missing="level", derived="not ward in ('A', 'B')"),
    }
    for name, sums in {"ward": (2, 1, 2), "spaced": (1, 1, 3), "other": (3, 1, 1)}.items():
        assert counted(columns, SumQuery((name,), (Count(),))) == sums
    both = counted(columns, SumQuery(("ward", "spaced", "other"), (Count(),)))
    assert sum(both) == 5
    assert both[0] == 1  # ward A, with a blank before it, and not another one


@pytest.mark.long
def test_rows_of_a_person_are_chosen_by_what_is_derived():
    columns = {"long": Levels(False, True, missing="level", derived="stay * 2 > 4")}
    tally = SumQuery(("long",), (Count(),))
    assert counted(columns, tally, "person=who,rows=3") == (1, 1, 2)
    assert sum(counted(columns, tally, "person=who,rows=1")) == 2


def test_a_column_that_an_expression_needs_must_be_in_the_table():
    columns = {"long": Levels(False, True, derived="length > 4")}
    with pytest.raises(InvalidParameter, match="a column must be one of the table's, not 'length'"):
        counted(columns, SumQuery(("long",), (Count(),)))


def test_the_names_and_types_of_an_expression_are_compared_with_the_data():
    columns = {"long": Levels(False, True, derived="length > 4"), "short": Levels(False, True, derived="Stay < 2")}
    table = Table(FRAME, columns, neighbours="replace")
    assert table.schema_faults() == (
        "there is no column length",
        'there is no column Stay; write "stay", as the data have it',
    )
