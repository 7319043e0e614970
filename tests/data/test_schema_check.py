"""Names and types of columns against what is declared: every fault is one sentence, and no value is read or shown."""

from __future__ import annotations

import datetime

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from study.fault_study import vestry

from vestry.data import Table
from vestry.schema.domain import Interval, Levels

DAYS = Interval(datetime.date(2024, 1, 1), datetime.date(2024, 12, 31))
TYPES = {
    "text": pa.string(),
    "number": pa.float64(),
    "whole": pa.int64(),
    "truth": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us"),
    "clock": pa.time64("us"),
    "many": pa.list_(pa.int64()),
    "kind": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.fixture(scope="module", params=["parquet", "duckdb", "arrow"])
def data(request, tmp_path_factory):
    """Return a table of every type and no record."""
    folder = tmp_path_factory.mktemp("types")
    table = pa.table({name: pa.array([], dtype) for name, dtype in TYPES.items()})
    if request.param == "arrow":
        return table
    if request.param == "parquet":
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"
    with duckdb.connect(str(folder / "t.db")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE records AS FROM given")
    return f"duckdb://{folder / 't.db'}/records"


def faults(data, columns, **options):
    return Table(data, columns, neighbours="add-remove", **options).schema_faults()


MONTHS, WORDS = Levels("2024-01", "2024-02"), Levels("no", "yes")


@pytest.mark.parametrize(
    ("column", "domain", "fault"),
    [
        ("text", WORDS, None),
        ("text", Interval(0, 1), None),
        ("text", DAYS, None),
        ("kind", WORDS, None),
        ("number", Interval(0, 1), None),
        ("number", Levels(0, 1), None),
        ("number", WORDS, "number holds numbers, and no declared level can be one; every value would count as missing"),
        (
            "whole",
            DAYS,
            "whole holds numbers, and an interval of dates is declared; every value would count as missing",
        ),
        ("truth", Levels(False, True), None),
        ("truth", Levels("no", "true"), None),
        ("truth", Interval(0, 1), None),
        ("truth", WORDS, "truth holds truth values, and no declared level can be one"),
        ("day", DAYS, None),
        ("day", Levels("2024-01-31", "2024-02-29"), None),
        ("day", MONTHS, "day holds dates, and no declared level can be one"),
        (
            "day",
            Interval(0, 31),
            "day holds dates, and an interval of numbers is declared; declare an interval of dates",
        ),
        ("moment", MONTHS, "moment holds times with a date, and no declared level can be one"),
        ("moment", DAYS, None),
        ("clock", Interval(0, 86400), None),
        ("clock", WORDS, "clock holds times of day, and no declared level can be one"),
        ("many", Interval(0, 1), "many holds lists or records, which are not single values"),
    ],
)
def test_types(data, column, domain, fault):
    found = faults(data, {column: domain})
    assert len(found) == (fault is not None)
    assert fault is None or found[0].startswith(fault)


def test_a_name_in_other_letters_is_suggested(data):
    assert faults(data, {"Text ": WORDS, "whole": Interval(0, 1)}) == (
        'there is no column Text ; write "text", as the data have it',
    )
    assert faults(data, {"ward": WORDS, "whole": Interval(0, 1)}) == ("there is no column ward",)


def test_the_person_is_looked_for_too(data):
    options = {"unit": "person=Id,rows=2"}
    assert faults(data, {"whole": Interval(0, 1)}, **options) == ("there is no column Id",)
    assert faults(data, {"whole": Interval(0, 1)}, unit="person=text,rows=2") == ()


def test_a_first_line_that_is_a_record_is_not_shown(tmp_path):
    (tmp_path / "a.csv").write_text("no,41,Smith\nyes,42,Jones\n")
    found = faults(tmp_path / "a.csv", {"smoker": WORDS, "age": Interval(0, 100)})
    assert len(found) == 1
    assert found[0].startswith("none of the declared columns is in the data; a CSV file begins with its names")
    assert "Smith" not in str(found)
    near = faults(tmp_path / "a.csv", {"smoker": WORDS, "No": WORDS})
    assert near == ("there is no column smoker", 'there is no column No; write "no", as the data have it')


def test_a_csv_file_has_names_alone(tmp_path):
    (tmp_path / "a.csv").write_text("day,age\n")
    assert faults(tmp_path / "a.csv", {"day": MONTHS, "age": DAYS}) == ()


def test_a_frame_has_the_types_of_its_columns():
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-31"])})
    assert faults(frame, {"day": MONTHS})[0].startswith("day holds times with a date")


STUDY = """
[study]
name = "clinic"
data = "clinic.parquet"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 1.0 }
ledger = "clinic.ledger"

[columns]
smoker = { levels = ["no", "yes"] }
month = { levels = ["2024-01", "2024-02"] }

[release.smoking]
model = "beta-bernoulli"
column = "smoker"
success = "yes"
spend = { epsilon = 0.4 }
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    frame = pd.DataFrame({"Smoker": ["no", "yes"], "month": [datetime.date(2024, 1, 31)] * 2})
    frame.to_parquet(tmp_path / "clinic.parquet")
    return tmp_path / "study.toml"


def test_check_with_data_says_what_is_wrong_and_ends_with_2(study):
    assert vestry("check", study).code == 0
    done = vestry("check", study, "--data")
    assert done.code == 2
    assert done.err.startswith(
        "vestry: clinic.parquet does not have what study.toml declares: there is no column smoker;"
    )
    assert 'write "Smoker", as the data have it; month holds dates, and no declared level can be one' in done.err
    assert "smoking" in done.out  # what each release would cost is shown all the same
    assert '"data_faults": [' in vestry("check", study, "--data", "--json").out


def test_check_with_data_that_fit(study):
    fitting = STUDY.replace("smoker", "Smoker").replace(
        'levels = ["2024-01", "2024-02"]', "interval = [2024-01-01, 2024-12-31]"
    )
    study.write_text(fitting)
    done = vestry("check", study, "--data")
    assert done.code == 0
    assert (
        "The columns of clinic.parquet have the declared names, and types that can hold what is declared." in done.out
    )


def test_check_with_data_that_are_not_there(study):
    (study.parent / "clinic.parquet").unlink()
    done = vestry("check", study, "--data")
    assert done.code == 2
    assert "study.toml, line 4" in done.err
    assert "a file that exists" in done.err
