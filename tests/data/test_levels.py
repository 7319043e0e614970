"""A record has one level, whatever its column holds and however it is counted: as a key, alone, or by difference."""

import pytest
from data.tables import Question
from data.test_semantics import agree, row
from share import cases

from vestry.data import Table
from vestry.schema.domain import Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import Count, Indicator, SumQuery

# Declared, undeclared, null, empty, nearly declared, numbers as text; a group of nulls alone, and one of undeclared.
DIRTY = [None, None, "", "a", "b", "b", "c", "c", "c", "z", "A", "a ", "missing", "0", "1", " 1", "1.0", "it's", "é"]
ROWS = [row(ward=value, whole=0) for value in DIRTY]
ROWS += [row(ward=None, whole=1)] * 2 + [row(ward="nobody", whole=2)] * 3

TEXT, SPELLED, NUMBERS, TRUTHS = ("c", "it's", "é", "a", "b"), ("1", "0", "7"), (0, 1, 7), (True, False)
DECLARED = [
    Levels(*values, missing=missing)
    for values in (TEXT, SPELLED, NUMBERS, TRUTHS)
    for missing in ("never", "drop", "level", *({"value": value} for value in values))
]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    from data.conftest import parquet

    return parquet(tmp_path_factory.mktemp("levels"))(ROWS)


@pytest.mark.parametrize(
    "domain", cases(DECLARED, quick=[each for each in DECLARED if isinstance(each.missing, str)]), ids=str
)
@pytest.mark.long
def test_every_way_to_count_a_level(records, domain):
    table = Table(records, {"ward": domain}, neighbours="replace")
    alone = [SumQuery((), (Indicator("ward", (name,)),)) for name in domain.names]
    together = SumQuery((), tuple(Indicator("ward", (name,)) for name in domain.names))
    found = reveal(table.collect(together, row_key=""))
    assert found == reveal(table.collect(SumQuery(("ward",), (Count(),)), row_key=""))
    assert found == tuple(count for tally in alone for count in reveal(table.collect(tally, row_key="")))
    assert sum(found) == len(ROWS) or domain.missing == "drop"


each_policy = pytest.mark.parametrize("missing", ["never", "drop", "level", "middle", "last"])
text_and_numbers = pytest.mark.parametrize("values", [TEXT, NUMBERS], ids=str)


def counted(backend, values, missing, *, keys=(), person=None) -> None:
    """Count each level, none, some and all of them."""
    stand_in = {"middle": 1, "last": -1}
    policy = {"value": values[stand_in[missing]]} if missing in stand_in else missing
    domain = Levels(*values, missing=policy)
    asked = [(), *((name,) for name in domain.names), domain.names[:2], domain.names[1:], domain.names]
    terms = (Count(), *(Indicator("ward", levels) for levels in asked))
    agree(backend, ROWS, Question(SumQuery(keys, terms), {"ward": domain, "whole": Levels(0, 1, 2)}, person, 3, "k"))


@each_policy
@text_and_numbers
def test_dirty_values(backend, values, missing):
    """By the column itself: every dirty value in one query."""
    counted(backend, values, missing, keys=("ward",))


@pytest.mark.long
@each_policy
@text_and_numbers
def test_dirty_values_alone_by_another_column_and_of_persons(backend, values, missing):
    counted(backend, values, missing)
    counted(backend, values, missing, keys=("whole",))
    counted(backend, values, missing, keys=("ward", "whole"), person="id")


def test_a_record_has_one_level_where_the_database_takes_several_for_equal(tmp_path):
    """Under a collation that ignores case every value equals two levels here, and may add to one only."""
    import duckdb

    with duckdb.connect(str(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE records (ward VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO records VALUES ('a'), ('A'), ('A'), ('b'), ('B')")
        assert connection.execute("SELECT count(*) FROM records WHERE ward = 'a'").fetchone() == (3,)
    domain = Levels("z", "a", "A", "b", "B")
    table = Table(f"duckdb://{tmp_path / 'a.db'}/records", {"ward": domain}, neighbours="replace")
    found = reveal(table.collect(SumQuery((), tuple(Indicator("ward", (name,)) for name in domain.names)), row_key=""))
    assert sum(found) == 5
    assert min(found) >= 0
