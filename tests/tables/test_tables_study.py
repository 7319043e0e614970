"""Counts and tables in a study: checked, planned, released and reported."""

import pandas as pd
import pytest

from vestry.errors import StudyFileError
from vestry.ledger import Ledger
from vestry.study import Study

STUDY = """\
[study]
name = "wards"
data = "wards.csv"
unit = { person = "id", rows = 2 }
neighbours = "add-remove"
budget = { epsilon = 3.0 }
ledger = "wards.ledger"

[columns]
ward = { levels = ["A", "B"] }
sex = { levels = ["f", "m"] }
old = { from = "age > 65" }

[release.persons]
model = "count"
of = "persons"
by = ["ward", "old"]
spend = { epsilon = 1.0 }

[release.together]
model = "table"
columns = ["ward", "sex", "old"]
zeros = [["A", "f", "true"], ["A", "f", "false"]]
spend = { epsilon = 1.0 }
"""


def opened(folder, text: str = STUDY) -> Study:
    (folder / "study.toml").write_text(text)
    return Study.open(folder / "study.toml")


@pytest.mark.long
def test_a_study_of_counts_and_tables_runs(tmp_path):
    rows = [
        {"id": at // 2, "ward": "AB"[at % 2], "sex": "fm"[at % 3 == 0 or at % 2 == 0], "age": at} for at in range(120)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "wards.csv", index=False)
    Ledger.create(
        str(tmp_path / "wards.ledger"),
        dataset="wards",
        unit="person=id,rows=2",
        neighbours="add-remove",
        budget="epsilon=3",
    )
    study = opened(tmp_path)
    assert list(study.check().index) == ["persons", "together"]
    assert len(study.plan()) == 2
    study.release()
    page = (tmp_path / "report.html").read_text()
    assert "The number of persons, by ward and old" in page
    assert "What follows from the cells" in page
    assert "Counts of persons in the table itself" in page


FAULTS = {
    'of = "persons"': ('of = "rows"', "release.persons.of: of must be"),
    'columns = ["ward", "sex", "old"]': (
        'columns = ["ward"]',
        "release.together.columns: columns must be two or three",
    ),
    '["A", "f", "true"]': ('["A", "f"]', "release.together.zeros: zeros must be lists of one level of ward, sex, old"),
}


@pytest.mark.parametrize("old", FAULTS)
def test_a_fault_points_at_its_key(old, tmp_path):
    new, sentence = FAULTS[old]
    with pytest.raises(StudyFileError, match=sentence):
        opened(tmp_path, STUDY.replace(old, new))
