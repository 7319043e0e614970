"""The backend of docs/extending/backend.md, as the page has it: held to what every way in is held to."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from random import Random

import pytest
from data import test_one_reading as one_reading
from data import test_same_everywhere as same_everywhere
from data.test_ways_in import EXPECTED, RECORDS, sums
from data.writers import Cells, Columns, Made, Written, carried, spelled

from vestry.data import Table
from vestry.errors import InvalidParameter, VestryError
from vestry.registry import SOURCES
from vestry.schema.domain import Levels
from vestry.schema.statistics import Count, SumQuery

pytestmark = pytest.mark.property

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "backend.md"
NAME = "sqlite://FILE/TABLE"


@pytest.fixture(autouse=True)
def registered():
    """Run the page's first block, which ends in the line that registers the backend."""
    block = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[0]
    exec(block, {})
    yield
    del SOURCES[NAME]


def saved(path: Path, columns: dict[str, list]) -> str:
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE records ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        database.executemany(f"INSERT INTO records VALUES ({marks})", zip(*columns.values(), strict=True))
    database.close()
    return f"sqlite://{path}/records"


def sqlite_file(folder: Path, columns: Columns, rng: Random) -> Written:
    """Write each value as SQLite holds it, and what it does not hold as text."""

    def kept(cells: Cells) -> Made:
        values = [value if isinstance(value, (int, float, bytes)) else spelled(value, rng) for value in cells.values]
        with sqlite3.connect(":memory:") as database:
            seen = [database.execute("SELECT ?", (value,)).fetchone()[0] for value in values]
        database.close()
        return values, seen

    made, seen, refused = carried(columns, kept)
    address = saved(folder / "a.sqlite", made)
    return Written(lambda: address, seen, refused)


@pytest.mark.long
def test_the_same_sums_as_duckdb(tmp_path):
    records = {name: [str(each) if name == "visit" and each else each for each in RECORDS[name].to_pylist()]
               for name in RECORDS.column_names}  # fmt: skip
    assert sums(saved(tmp_path / "a.sqlite", records)) == sums(RECORDS) == EXPECTED


@pytest.mark.long
def test_one_record_changes_no_other():
    assert one_reading.held("sqlite", sqlite_file, examples=2, changes=2).pairs == 32


@pytest.mark.long
def test_every_value_has_its_meaning():
    kinds = {"sqlite": sqlite_file}
    same_everywhere.held(kinds, files=3, tables=3)


def test_what_is_refused(tmp_path):
    address = saved(tmp_path / "a.sqlite", {"ward": ["A"]})
    domains = {"ward": Levels("A", "B")}
    tally = SumQuery(("ward",), (Count(),))
    for wrong, message in (
        ("sqlite://records", "data must be a file and a table"),
        (address.replace("a.sqlite", "b.sqlite"), "data must be a file that exists"),
        (address.replace("/records", "/wards"), "data must be a table of the file"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            Table(wrong, domains, neighbours="replace").check(tally)
    (tmp_path / "a.sqlite").write_bytes(b"not a database, and a secret")
    with pytest.raises(VestryError, match=r"data must be a table that can be read, not 'sqlite://...'"):
        Table(address, domains, neighbours="replace").check(tally)
