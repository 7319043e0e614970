"""Values that occur are those of level columns: the same classes on every backend, each counted as its level would be.

What is expected is written from the table of meanings (`oracle_meaning`) and from the rules of `value_counts`.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from hashlib import md5
from pathlib import Path
from random import Random

import pandas as pd
import pytest
from data import oracle_meaning as oracle
from data.columns import KINDS, WHO, Cells, who
from data.laws import ROWS
from data.servers import postgres, spark_parquet
from data.tables import SPELLED, TRUTHS, WARDS, WHOLES
from data.test_same_everywhere import EVERY, TEXTS
from data.test_semantics import row
from share import cases

from vestry.data import Table
from vestry.errors import InvalidParameter, PrivateValue, VestryError
from vestry.schema.domain import Levels
from vestry.schema.private import PrivateCounts, reveal, reveal_counts
from vestry.schema.statistics import Count, SumQuery

CARRIED = re.compile("-?[0-9]+[.]e-?[0-9]+|[+-]iNf")


def value(given: object) -> str | None:
    """Return the value that a cell is, by the oracle; None where nothing is counted."""
    text = oracle.level(given)
    if text is None or CARRIED.fullmatch(text) or any(mark < " " and mark not in "\t\n\r" for mark in text):
        return None
    small = isinstance(given, float) and not given.is_integer() and not 1e-3 <= abs(given) <= 1e7
    return None if small else text


def found(table: Table, column: str, *, least: int = 1, most: int = 1, key: str = "k") -> dict[str, int]:
    table.check_values(column, least=least, most=most)
    return dict(reveal_counts(table.count_values(column, least=least, most=most, row_key=key)))


def counted(values: list) -> dict[str, int]:
    return dict(Counter(text for text in map(value, values) if text is not None))


def of_persons(rows: list[dict], column: str, person: str, most: int, key: str) -> dict[str, int]:
    """Each value of a person once, and the first ones by the hash of key, person and value."""
    held: dict[str, set[str]] = {}
    for each in rows:
        name, text = oracle.person(each[person]), oracle.level(each[column])
        if name is not None and text is not None:
            held.setdefault(name, set()).add(text)
    counts: Counter[str] = Counter()
    for name, texts in held.items():
        marks = {md5(f"{key}|{name}|{md5(text.encode()).hexdigest()}|0".encode()).hexdigest(): text for text in texts}
        counts.update(marks[mark] for mark in sorted(marks)[:most])
    return {text: count for text, count in counts.items() if value(text) is not None}


# Every kind of text in the table that all backends load, and numbers and truth values beside it.
ROWS_OF_ALL = [
    row(
        ward=WARDS[place % len(WARDS)],
        whole=WHOLES[place % len(WHOLES)],
        truth=TRUTHS[place % len(TRUTHS)] if isinstance(TRUTHS[place % len(TRUTHS)], (bool, type(None))) else None,
        **{"Spelled Number": SPELLED[place % len(SPELLED)], "id": place // 3},
    )
    for place in range(3 * len(SPELLED))
]


@pytest.mark.parametrize("column", cases(["ward", "whole", "truth", "Spelled Number"], quick=["Spelled Number"]))
def test_every_backend_finds_the_same_values(backend, column):
    table = Table(backend.load(ROWS_OF_ALL), {}, neighbours="add-remove")
    assert found(table, column) == counted([each[column] for each in backend.seen(ROWS_OF_ALL)])


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.long
def test_every_backend_takes_the_same_values_of_a_person(backend, most):
    """Names of persons are whole numbers here, and values plain text: the choice is by hashes of both."""
    rows = [row(ward=f"w{place * 7 % 5}", id=place % 4) for place in range(24)] + [row(ward="alone", id=None)]
    table = Table(backend.load(rows), {}, unit=f"person=id,rows={most}", neighbours="add-remove")
    expected = of_persons(rows, "ward", "id", most, "key")
    assert found(table, "ward", most=most, key="key") == expected
    assert sum(expected.values()) == 4 * most


@pytest.mark.parametrize("name", cases(EVERY, quick=[]))
def test_every_format_finds_the_same_values(name):
    """Columns of every kind, typed or spelled, in every format and frame."""
    _agree_on(EVERY[name], name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Spark, about Pandas
def test_servers_find_the_same_values(server, spark):
    for place in range(5):
        _agree_on(postgres(server), "postgresql", seed=place)
        _agree_on(spark_parquet, "spark", seed=place)


def _agree_on(writer, name: str, seed: int = 0) -> None:
    rng = Random(seed)
    columns = {"folder": Cells("text", tuple(rng.choice(["a", "b", "007"]) for _ in range(ROWS)))}
    for at, kind in enumerate([*rng.sample(list(KINDS), 4), "text"]):
        pool = TEXTS if kind == "text" else KINDS[kind][0]
        columns[f"c{at}"] = Cells(kind, tuple(None if rng.random() < 0.1 else rng.choice(pool) for _ in range(ROWS)))
    with tempfile.TemporaryDirectory() as folder:
        written = writer(Path(folder), {WHO: who(ROWS), **columns}, rng)
        for key, cells in columns.items():
            if key in written.refused:
                continue
            table = Table(written.data(), {}, neighbours="add-remove", **written.options)
            assert found(table, key) == counted(written.seen[key]), (name, cells.kind)


HOSTILE = [
    "x" * 101, "x" * 100, "a\x1b[31m", "\x00bad", "a\nb", "'; DROP TABLE records; --", "${HOME}", "{{ 7 }}", "=1+1",
    "\u202egnp.exe", "half\ud800", "  padded  ", "1.e16", "+iNf", 1e300, 1e-300, float("inf"), object(), [1], {"a": 1},
    "", " \t", "\u0661", "0", "00", "TRUE", True, "\x1f", "nul\x00l", "|", "a|1",
]  # fmt: skip


def test_hostile_values_harm_nothing():
    frame = pd.DataFrame({"text": pd.Series(HOSTILE * 3, dtype=object), "id": list(range(3 * len(HOSTILE)))})
    one = found(Table(frame, {}, neighbours="add-remove"), "text")
    expected = {
        "x" * 100: 3, "a\nb": 3, "'; DROP TABLE records; --": 3, "${HOME}": 3, "{{ 7 }}": 3, "=1+1": 3,
        "\u202egnp.exe": 3, "half\ufffd\ufffd\ufffd": 3, "padded": 3, "\u0661": 3, "0": 3, "00": 3, "1": 6, "|": 3,
        "a|1": 3,
    }  # fmt: skip
    assert one == expected
    assert found(Table(frame, {}, unit="person=id,rows=1", neighbours="replace"), "text") == expected


def test_what_is_found_can_be_declared_and_counts_the_same(tmp_path):
    """The values as levels: every record that was counted has its level, and no other has."""
    values = [each for kind in KINDS.values() for each in kind[0]] + TEXTS + HOSTILE
    frame = pd.DataFrame({"text": pd.Series([*values, *values[:50]], dtype=object)})
    counts = found(Table(frame, {}, neighbours="add-remove"), "text")
    domain = Levels(*counts, missing="level")
    assert set(domain.texts) == set(counts)
    declared = Table(frame, {"text": domain}, neighbours="replace")
    told = reveal(declared.collect(SumQuery(("text",), (Count(),)), row_key=""))
    assert dict(zip(domain.names, told[:-1], strict=False)) == counts
    assert sum(told) == len(frame)


def test_values_below_least_stay_in_the_engine():
    frame = pd.DataFrame({"text": ["a"] * 5 + ["b"] * 3 + [" b "] + ["c"] * 2})
    assert found(Table(frame, {}, neighbours="add-remove"), "text", least=4) == {"a": 5, "b": 4}


@pytest.mark.long
def test_a_collation_joins_nothing(tmp_path):
    """Under a collation that ignores case an engine shows whichever spelling it met first: that would be a record's."""
    import duckdb

    with duckdb.connect(str(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE records (ward VARCHAR COLLATE NOCASE, id INTEGER)")
        connection.execute("INSERT INTO records VALUES ('a', 1), ('A', 1), ('A', 2), ('b', 3), ('B', 3), (' B', 4)")
    address = f"duckdb://{tmp_path / 'a.db'}/records"
    expected = {"a": 1, "A": 2, "b": 1, "B": 2}
    assert found(Table(address, {}, neighbours="add-remove"), "ward") == expected
    two = Table(address, {}, unit="person=id,rows=2", neighbours="add-remove")
    assert found(two, "ward", most=2) == expected
    one = Table(address, {}, unit="person=id,rows=1", neighbours="add-remove")
    assert sum(found(one, "ward").values()) == 4


@pytest.mark.long
def test_parts_of_several_types_are_one_table(tmp_path):
    """A value has one class whatever the type of the file it lies in, and a person is one person there."""
    pd.DataFrame({"code": [1, 2, 2], "id": [1, 1, 2]}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"code": ["1", " 2", "x"], "id": ["1", "2", "3"]}).to_parquet(tmp_path / "b.parquet")
    pd.DataFrame({"code": [1.0, 2.0, 0.5], "id": [1, 4, 4]}).to_parquet(tmp_path / "c.parquet")
    pd.DataFrame({"other": [1], "id": [9]}).to_parquet(tmp_path / "d.parquet")
    assert found(Table(tmp_path, {}, neighbours="add-remove"), "code") == {"1": 3, "2": 4, "x": 1, "0.5": 1}
    persons = Table(tmp_path, {}, unit="person=id,rows=9", neighbours="add-remove")
    assert found(persons, "code", most=9) == {"1": 1, "2": 3, "x": 1, "0.5": 1}


@pytest.mark.long
def test_one_person_moves_each_of_a_few_counts_by_one():
    """Whatever rows a person has: the distances of which the price is told, by every change of one person."""
    rng = Random(3)
    for _ in range(8):
        frame = pd.DataFrame(
            {"text": [rng.choice("abcd") for _ in range(12)], "id": [rng.choice("pqr") for _ in range(12)]}
        )
        most = rng.choice([1, 2, 3])
        unit = f"person=id,rows={most}"
        before = Counter(found(Table(frame, {}, unit=unit, neighbours="add-remove"), "text", most=most))
        without = frame[frame["id"] != "p"]
        after = Counter(found(Table(without, {}, unit=unit, neighbours="add-remove"), "text", most=most))
        moved = {text: before[text] - after[text] for text in "abcd"}
        assert set(moved.values()) <= {0, 1}
        assert sum(moved.values()) <= most


def test_nothing_of_it_shows_and_what_is_not_there_is_refused():
    table = Table(pd.DataFrame({"text": ["secret"] * 9}), {}, neighbours="add-remove")
    private = table.count_values("text", least=1, most=1, row_key="k")
    assert repr(private) == "PrivateCounts(...)"
    with pytest.raises(PrivateValue, match="private"):
        list(private)
    with pytest.raises(InvalidParameter, match=r"^a column must be one of the table's, not 'words'"):
        table.check_values("words", least=1, most=1)
    assert isinstance(private, PrivateCounts)


def test_a_failure_tells_nothing(tmp_path):
    (tmp_path / "a.csv").write_text("text\nsecret\n")
    table = Table(tmp_path / "a.csv", {}, neighbours="add-remove")
    table.check_values("text", least=1, most=1)
    (tmp_path / "a.csv").unlink()
    with pytest.raises(VestryError, match="must be a file that exists") as caught:
        table.count_values("text", least=1, most=1, row_key="k")
    assert "secret" not in str(caught.value)


def values_of(values: list, **options) -> dict[str, int]:
    return found(Table(pd.DataFrame({"x": values}), {}, neighbours="replace"), "x", **options)


def test_doubles_that_every_engine_writes_alike_are_values_and_others_are_missing():
    shown = [0.5, -0.5, 0.001, -0.001, 6_000_000.5, 9_999_999.5, 3.0, 1e10, 2.0**53 - 1, -(2.0**53) + 1]
    missing = [0.0009, -0.0009, 0.00075, 10_000_000.5, -10_000_000.5, 2.0**53, -(2.0**53), 1e300, math.inf, math.nan]
    assert {value(each) for each in missing} == {None}
    assert values_of([*shown, *missing]) == counted(shown)


@pytest.mark.parametrize("least", [1, 2, 3])
def test_values_that_fewer_hold_stay_where_they_are(least):
    held = {"a": 1, "b": 2, "c": 3, "d": 4}
    values = [text for text, count in held.items() for _ in range(count)]
    assert values_of(values, least=least) == {text: count for text, count in held.items() if count >= least}


@pytest.mark.parametrize("files", [1, 2, 3])
def test_the_values_of_all_files_are_counted(files, tmp_path):
    """Files whose columns have other types are parts of their own."""
    for index, kind in enumerate(["float64", "int64", "str"][:files]):
        pd.DataFrame({"x": [1, 2, 2]}).astype(kind).to_parquet(tmp_path / f"{index}.parquet")
    assert found(Table(tmp_path / "*.parquet", {}, neighbours="replace"), "x") == {"1": files, "2": 2 * files}


def test_times_and_instants_are_values_to_the_microsecond():
    texts = ["23:59:59", "00:00:01.000001", "12:30:00.5", "1969-12-31T23:59:59.999999", "2024-02-29T12:00:01Z"]
    assert values_of(texts) == dict.fromkeys(texts, 1)


@pytest.mark.parametrize("text", ["0", "1"])
def test_any_text_may_be_the_only_level_that_is_named(text):
    assert values_of([text, text]) == {text: 2}
