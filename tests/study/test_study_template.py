"""A study file from a data dictionary, or from names and types: never from values, and what is missing is said."""

from __future__ import annotations

import datetime
import json

import pandas as pd
import pytest
from study.fault_study import vestry

from vestry.schema.domain import Interval, Levels
from vestry.study import Study

PERSON = '{ person = "patient", rows = 3'
DICTIONARY = """\
name,type,levels,low,high,missing,unit,description
smoker,levels,no;yes,,,level,,Smokes now
stay,number,,0,60,drop,days,
visits,count,,,20,,,
admitted,Date,,2020-01-01,2024-12-31,2020-01-01,,
ward name,text,A|B;C,,,A,,
married,boolean,,,,drop,,
age,integer,,,,,years,at admission
remark,,,,,,,
"""


@pytest.fixture
def dictionary(tmp_path):
    (tmp_path / "dictionary.csv").write_text(DICTIONARY)
    return tmp_path / "dictionary.csv"


def completed(folder, **keys):
    """Take the # from what is to be completed, and return the study."""
    text = (folder / "study.toml").read_text()
    text = text.replace('# data = "records.parquet"', 'data = "records.csv"')
    (folder / "study.toml").write_text(text)
    return Study.open(folder / "study.toml").config


def test_a_dictionary_declares_what_it_says(dictionary, tmp_path):
    done = vestry("init", tmp_path / "new", "--from", dictionary)
    assert done.code == 0
    assert "6 of 8 columns are declared; no value was read." in done.out
    config = completed(tmp_path / "new")
    assert dict(config.schema.domains) == {
        "smoker": Levels("no", "yes", missing="level"),
        "stay": Interval(0, 60, missing="drop"),
        "visits": Interval(0, 20),
        "admitted": Interval(
            datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), missing={"value": datetime.date(2020, 1, 1)}
        ),
        "ward name": Levels("A", "B;C", missing={"value": "A"}),
        "married": Levels(False, True, missing="drop"),
    }
    text = (tmp_path / "new" / "study.toml").read_text()
    assert (
        "# age = { interval = [LOW, HIGH] }    # declare the least and the greatest number that count; years; at"
        in text
    )
    assert '# remark = { levels = ["...", "..."] }    # declare its levels, or { interval = [LOW, HIGH] }' in text
    assert config.releases[0].request.model.columns == tuple(config.schema.domains)


def test_each_thing_that_is_missing_is_one_sentence(dictionary, tmp_path):
    dictionary.write_text("name,type,levels\npatient,person,\nage,number,\n")
    vestry("init", tmp_path / "new", "--from", dictionary)
    study = tmp_path / "new" / "study.toml"
    steps = [
        ("study.data: this key is missing", '# data = "records.parquet"', 'data = "records.parquet"'),
        ("study.unit: this key is missing", '# unit = { person = "patient", rows = K', f"unit = {PERSON}"),
        ("columns: no column is declared", "# age = { interval = [LOW, HIGH] }", "age = { interval = [0, 100] }"),
    ]  # fmt: skip
    for sentence, before, after in steps:
        done = vestry("check", study)
        assert done.code == 2
        assert sentence in done.err
        assert before in study.read_text()
        study.write_text(study.read_text().replace(before, after))
    done = vestry("check", study)
    assert done.code == 0
    assert "There is no ledger yet. Create it once:" in done.out


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("age,number,,60,0,,,", "the column age of the dictionary must be one that can be declared"),
        ("age,number,,old,60,,,", "the column age of the dictionary must be one that can be declared"),
        ("age,levels,a;b,,,c,,", "missing must be one of the levels"),
        ("age,levels,1;1.0,,,,,", "these are the same value"),
    ],
)
def test_a_wrong_entry_is_told(dictionary, tmp_path, line, fault):
    dictionary.write_text(DICTIONARY.splitlines()[0] + f"\n{line}\n")
    done = vestry("init", tmp_path / "new", "--from", dictionary)
    assert done.code == 2
    assert fault in done.err
    assert not (tmp_path / "new").exists()


def test_a_table_gives_names_and_types_and_no_value(tmp_path):
    frame = pd.DataFrame(
        {
            "name": ["Smith", "Jones"],
            "kind": pd.Categorical(["rare", "common"]),
            "age": [41, 42],
            "born": [datetime.date(1983, 1, 1)] * 2,
            "well off": [True, False],
        }
    )
    frame.to_parquet(tmp_path / "people.parquet")
    done = vestry("init", tmp_path, "--from", tmp_path / "people.parquet", "--json")
    assert json.loads(done.out) == {"study": str(tmp_path / "study.toml"), "columns": 5, "declared": 1}
    text = (tmp_path / "study.toml").read_text()
    for value in ("Smith", "rare", "41", "1983"):
        assert value not in text
    assert '"well off" = { levels = [false, true], missing = "level" }' in text
    assert "# age = { interval = [LOW, HIGH] }" in text
    assert "# born = { interval = [2020-01-01, 2024-12-31] }" in text
    assert '# kind = { levels = ["...", "..."] }' in text
    assert Study.open(tmp_path / "study.toml").config.data == "people.parquet"
    again = vestry("init", tmp_path, "--from", tmp_path / "people.parquet")
    assert again.code == 2
    assert "without a study.toml" in again.err


def test_a_csv_file_gives_its_first_line(tmp_path):
    (tmp_path / "a.csv").write_text("name;type;levels\nSmith;1,5;2\n")
    vestry("init", tmp_path / "new", "--from", tmp_path / "a.csv", "--header")
    text = (tmp_path / "new" / "study.toml").read_text()
    assert 'data = "../a.csv"\ncsv = { separator = ";" }' in text
    assert text.count('levels = ["...", "..."]') == 3
    assert "Smith" not in text


@pytest.mark.parametrize("first", ["Smith,41,yes", "a,a", "a,2024-01-31", "true,a"])
def test_a_first_line_that_may_be_a_record_is_refused_and_not_shown(tmp_path, first):
    (tmp_path / "a.csv").write_text(f"{first}\nx,y\n")
    done = vestry("init", tmp_path / "new", "--from", tmp_path / "a.csv", "--header")
    assert done.code == 2
    assert "name for each column" in done.err
    assert "Smith" not in done.err
    assert not (tmp_path / "new").exists()


def test_a_first_line_of_text_is_shown_only_if_it_is_said_to_hold_names(tmp_path):
    (tmp_path / "a.csv").write_text("Smith,Berlin,divorced\nJones,Paris,single\n")
    done = vestry("init", tmp_path / "new", "--from", tmp_path / "a.csv")
    assert done.code == 2
    assert "write --header too if it does" in " ".join(done.err.split())
    assert "Smith" not in done.err
    assert not (tmp_path / "new").exists()
    alone = vestry("init", tmp_path / "new", "--header")
    assert alone.code == 2
    assert "--header must be given with --from" in alone.err


def test_a_file_that_is_not_there(tmp_path):
    done = vestry("init", tmp_path / "new", "--from", tmp_path / "a.csv")
    assert done.code == 2
    assert "--from must be a file that exists" in done.err


def test_help_teaches_it():
    done = vestry("init", "--help")
    for words in ("data dictionary", "--from", "name, type", "vestry check prints the command"):
        assert words in " ".join(done.out.split())
