"""Derived columns in a study file: faults point at their line, questions are what they were, a release runs."""

import re
from pathlib import Path

import pandas as pd
import pytest

from vestry.errors import StudyFileError
from vestry.ledger import Ledger
from vestry.privacy.guarantee import PureDP
from vestry.study import Study

STUDY = """\
[study]
name = "hearts"
data = "hearts.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 1.0 }
ledger = "hearts.ledger"

[columns]
ward = { levels = ["A", "B"] }
visit = { interval = [2020-01-01, 2024-12-31] }
disease = { from = "num > 0" }
age = { from = "days(visit, birth) / 365.25", interval = [0, 110], missing = "drop" }

[release.disease]
model = "beta-bernoulli"
column = "disease"
success = true
by = "ward"
spend = { epsilon = 0.5 }

[release.age]
model = "normal-mean"
column = "age"
variance = 100
prior = [50, 1000]
spend = { epsilon = 0.5 }
"""


def opened(text: str, folder: Path) -> Study:
    (folder / "study.toml").write_text(text)
    return Study.open(folder / "study.toml")


FAULTS = [
    ("num > 0", "num >> 0", 12, "columns.disease.from", "at character 6 of from there must be a value, not '>'"),
    ("num > 0", "num + 1", 12, "columns.disease.from", "a column must be levels"),
    ("num > 0", "age > 1", 12, "columns.disease.from", "a column of the table, not a derived one"),
    ("num > 0", "visit > 1", 12, "columns.disease.from", "a number, and a date is declared"),
    ("days(visit, birth)", "days(visit)", 13, "columns.age.from", "a function with two dates"),
    ("days(visit, birth) / 365.25", "visit > birth", 13, "columns.age.from", "must be true and false"),
    ('"row"', '{ person = "age", rows = 2 }', 13, "columns.age.from", "the person must be a column of the table"),
    ("[0, 110]", "[110, 0]", 13, "columns.age.interval", "a low end below the high end"),
    ('"num > 0"', "3", 12, "columns.disease.from", "one line of text"),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "sentence"), FAULTS, ids=[each[1] for each in FAULTS])
def test_a_fault_points_at_its_line(old, new, line, key, sentence, tmp_path):
    with pytest.raises(
        StudyFileError, match=re.escape(f"study.toml, line {line}, {key}: ") + ".*" + re.escape(sentence)
    ):
        opened(STUDY.replace(old, new, 1), tmp_path)


def definitions(text: str, folder: Path) -> dict[str, str]:
    config = opened(text, folder).config
    return {each.name: each.request.definition(config.schema) for each in config.releases}


def test_a_question_includes_its_expression_and_no_other(tmp_path):
    plain = STUDY.replace('{ from = "num > 0" }', "{ levels = [false, true] }")
    first, other = definitions(STUDY, tmp_path), definitions(STUDY.replace("num > 0", "num > 1"), tmp_path)
    assert first["disease"] != other["disease"]
    assert first["age"] == other["age"]
    assert first["disease"] != definitions(plain, tmp_path)["disease"]
    assert definitions(STUDY.replace("num > 0", "num  >0"), tmp_path) == first
    # A question without derived columns is what it was, whatever is derived beside it.
    bare = plain.replace(STUDY[STUDY.index("age = {") : STUDY.index("\n[release.disease]")], "")
    bare = bare[: bare.index("[release.age]")]
    assert definitions(plain, tmp_path)["disease"] == definitions(bare, tmp_path)["disease"]
    # How a column is read that is declared elsewhere is part of the question; where it is clipped is not.
    formatted = STUDY.replace("2024-12-31] }", '2024-12-31], format = "%d.%m.%Y" }')
    assert definitions(formatted, tmp_path)["age"] != first["age"]
    assert definitions(STUDY.replace("2024-12-31", "2025-12-31"), tmp_path) == first


@pytest.mark.long
def test_a_release_of_derived_columns_runs(tmp_path):
    rows = [{"num": n, "ward": w, "birth": "1960-01-01", "visit": "2020-01-01"} for n in (0, 1, 2) for w in "AB"]
    pd.DataFrame(rows).to_csv(tmp_path / "hearts.csv", index=False)
    owned = {"dataset": "hearts", "unit": "row", "neighbours": "add-remove", "budget": PureDP(1.0)}
    Ledger.create(str(tmp_path / "hearts.ledger"), **owned)
    study = opened(STUDY, tmp_path)
    assert study.data_faults() == ()
    study.release()
    assert {each.parent.name for each in tmp_path.rglob("release.json")} == {"disease", "age"}
    page = (tmp_path / "report.html").read_text()
    assert "disease = num &gt; 0" in page
