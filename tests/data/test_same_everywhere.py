"""The same table gives the same sums through every format, frame and backend, and they are the oracle's.

A file holds many tables side by side: each has one or two columns of values that every format can carry, in a type
of its own or as text, and what is declared of them.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, time
from pathlib import Path
from random import Random

import pytest
from data import oracle_meaning as oracle
from data.columns import KINDS, WHO, Cells, Declared, bins, days, levels, numbers, who
from data.laws import ROWS, contributions, shown
from data.servers import postgres, spark_parquet
from data.writers import NEWER, WRITERS, Writer
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

EVERY = {**WRITERS, **NEWER}
ONCE = {"arrow-reader"}

# Texts that a table may hold beside those of the kinds; each format writes them as they are.
TEXTS = ["TRUE", "tRuE", "+1", "1e5", "0001", "-0", "-1.50", "1.", "00.5", "NaN", "Infinity", "-inf", "1_0", "١",
         "1e400", "\t2 ", "x" * 100, "x" * 101, "0" * 100, "1" * 101, "a b", "ı", "13:45", "24:00", "13:45:60",
         "2024-01-31", "2024-02-30", "2024-1-31", "0000-01-01", "9999-12-31", "2024-01-31 00:00", "2024-01-31T24:00",
         "2024-01-31T13:45:00.50", "2024-01-31T13:45:00.1234567", "2024-01-31T13:45+02:00", "2024-01-31T11:45:00Z",
         "2024-01-31 11:45Z", "2023-12-31T23:30:00-0100", "2024-01-31T01:45+02"]  # fmt: skip
MEANT = [levels("1", "+1", "1e5", "-1.5"), levels("2024-01-31", "2024-01-31T13:45:00.5", "2024-01-31T11:45:00Z"),
         levels("2024-01-31T13:45:00.123456", "13:45:00", "2023-12-31"), levels("x" * 100, "a b", "0001"),
         numbers(-2, 2), numbers(0, 86400), numbers(-1e29, 1e29), days(date(2024, 1, 1), date(2024, 12, 31)),
         days(date(2000, 1, 1), date(2050, 1, 1)), bins(-2, 0, 1, 2),
         bins(date(2023, 1, 1), date(2024, 1, 31), date(2025, 1, 1))]  # fmt: skip


def drawn(rng: Random, name: str) -> tuple[Declared, Cells]:
    """Draw a column; one value in eight is missing."""
    kind = rng.choice([*KINDS, "text", "text"])
    pool, known = (TEXTS, MEANT) if kind == "text" and rng.random() < 0.7 else KINDS[kind]
    values = tuple(None if rng.random() < 0.125 else rng.choice(pool) for _ in range(ROWS))
    return rng.choice(known), Cells(kind, values)


def side_by_side(rng: Random, tables: int) -> dict[str, tuple[Declared, Cells]]:
    found = {f"t{table}c{at}": drawn(rng, "") for table in range(tables) for at in range(rng.choice([1, 2]))}
    return {"folder": (KINDS["text"][1][0], Cells("text", tuple(rng.choice(["a", "b", "007"]) for _ in range(ROWS)))),
            **found}  # fmt: skip


def agrees(name: str, writer: Writer, columns: dict[str, tuple[Declared, Cells]], rng: Random) -> int:
    """Compare what every record adds with the oracle's; return how many values a writer wrote with another meaning."""
    rewritten = 0
    with tempfile.TemporaryDirectory() as folder:
        written = writer(Path(folder), {WHO: who(ROWS), **{key: cells for key, (_, cells) in columns.items()}}, rng)
        assert not written.refused
        declared = {key: given for key, (given, _) in columns.items()}
        found = contributions(written, declared, counted=name not in ONCE)
    wrong = []
    for key, (each, cells) in columns.items():
        for at, value in enumerate(cells.values):
            seen = written.seen[key][at]
            rewritten += each.code(seen) != each.code(value)
            if found[f"r{at}", key] != each.added(seen):
                wrong.append(f"{name}, {cells.kind}, {each}: {shown(seen)} adds {found[f'r{at}', key]}, "
                             f"and means {each.added(seen)}")  # fmt: skip
    assert not wrong, "\n".join(wrong[:6])
    return rewritten


def held(writers: dict[str, Writer], *, files: int, tables: int) -> None:
    rewritten, cells = 0, 0

    @settings(max_examples=files, phases=[Phase.explicit, Phase.generate])
    @given(seed=st.integers(0, 2**32 - 1))
    def law(seed: int) -> None:
        nonlocal rewritten, cells
        columns = side_by_side(Random(seed), tables)
        for name, writer in writers.items():
            rewritten += agrees(name, writer, columns, Random(seed))
            cells += ROWS * len(columns)

    law()
    print(f"{rewritten} of {cells} values were written with another meaning")
    assert rewritten <= 0.05 * cells


@pytest.mark.parametrize("name", EVERY)
def test_the_same_table_gives_the_same_sums(name):
    held({name: EVERY[name]}, files=1, tables=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_two_thousand_tables_give_the_same_sums(name):
    """The same seeds for every format only if they are fixed; the oracle is the same in any case."""
    held({name: EVERY[name]}, files=84, tables=24)


@pytest.mark.slow
def test_postgresql_gives_the_same_sums(server):
    held({"postgresql": postgres(server)}, files=50, tables=6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Spark, about Pandas
def test_spark_gives_the_same_sums(spark):
    held({"pyspark": spark_parquet}, files=30, tables=6)


# The table of meanings, by hand: what the oracle itself must say.
CLASSES = [
    ("1", [1, 1.0, "1", "1.0", True, "true", "True", "TRUE", " 1 ", "\r1\n", b"1"]),
    ("0", [0, 0.0, -0.0, "0", "-0.0", "0.00", False, "false", "False", "FALSE"]),
    ("1.5", ["1.50", 1.5, "1.5"]),
    ("007", ["007"]),
    ("+1", ["+1"]),
    ("1e5", ["1e5"]),
    ("tRuE", ["tRuE"]),
    ("2024-01-31", [date(2024, 1, 31), datetime(2024, 1, 31), "2024-01-31T00:00", "2024-01-31 00:00:00.000"]),
    ("2024-01-31T13:45:00.5", [datetime(2024, 1, 31, 13, 45, 0, 500000), "2024-01-31 13:45:00.50"]),
    ("2024-01-31T11:45:00Z", [datetime(2024, 1, 31, 11, 45, tzinfo=UTC), "2024-01-31T13:45+02:00"]),
    ("2024-01-31T00:00:00Z", ["2024-01-31T00:00Z", "2024-01-31 02:00+0200"]),
    ("13:45:00", [time(13, 45), "13:45", "13:45:00.000"]),
    (None, [None, "", "  ", float("nan"), float("inf"), 2.0**53, "x" * 101, 10**100]),
    ("9007199254740991", [2.0**53 - 1, 2**53 - 1, "9007199254740991"]),
    ("0.0000001", [1e-7, "0.0000001", "0.00000010"]),
    ("2024-1-1", ["2024-1-1"]),
]


@pytest.mark.parametrize(("name", "values"), CLASSES, ids=lambda given: str(given)[:20])
def test_the_oracle_says_what_the_table_says(name, values):
    assert [oracle.level(value) for value in values] == [name] * len(values)
