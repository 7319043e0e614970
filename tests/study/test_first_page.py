"""What `[study]` says for the report's first page: read, refused, and without a say in any question."""

from __future__ import annotations

from pathlib import Path

import pytest
from study.test_config import GOOD

from vestry.errors import StudyFileError
from vestry.ledger import Ledger
from vestry.study import Study
from vestry.study.report_data import report_content
from vestry.study.storage import ReleaseStore

IMPRINT = """\
title = "Readmissions & stays"
issuer = "Quality office"
contact = "quality@hospital.example"
date = 2026-01-31
purpose = "To see where patients come back"
"""


def study(folder: Path, imprint: str = "", **changes: str) -> Study:
    text = GOOD.replace("[study]\n", f"[study]\n{imprint}")
    for old, new in changes.items():
        text = text.replace(f'{old} = "patients.{old}"', f'{old} = "{new}"')
    (folder / "study.toml").write_text(text)
    return Study.open(folder / "study.toml")


def content(opened: Study, address: str | Path):
    config = opened.config
    ledger = Ledger.create(address, dataset="patients", unit="row", neighbours="add-remove", budget=config.budget)
    return report_content(config, ledger, ledger.summary(), ReleaseStore(config.folder), {})


def test_the_first_page_is_declared(tmp_path):
    told = content(study(tmp_path, IMPRINT), tmp_path / "patients.ledger")
    assert (told.title, told.issuer, told.contact) == (
        "Readmissions & stays",
        "Quality office",
        "quality@hospital.example",
    )
    assert (told.date, told.purpose) == ("2026-01-31", "To see where patients come back")


def test_without_it_the_study_has_its_name(tmp_path):
    told = content(study(tmp_path), tmp_path / "patients.ledger")
    assert (told.title, told.issuer, told.contact, told.date, told.purpose) == ("readmissions", "", "", "", "")


def test_no_question_depends_on_it(tmp_path):
    hashes = [
        [spec.request.definition(opened.config.schema) for spec in opened.config.releases]
        for opened in (study(tmp_path), study(tmp_path, IMPRINT))
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) > 1


@pytest.mark.parametrize(
    "line", ["issuer = 3", 'contact = ""', "date = 3.5", "date = 2026-01-31T10:00:00", 'title = "a\\nb"']
)
def test_what_is_not_one_line_of_text_is_refused(line, tmp_path):
    key = line.partition(" =")[0]
    with pytest.raises(StudyFileError, match=rf"line 2, study\.{key}: .*; write {key} = "):
        study(tmp_path, f"{line}\n")


def test_no_folder_of_this_machine_is_told(tmp_path):
    told = content(study(tmp_path, ledger=str(tmp_path / "far" / "patients.ledger")), tmp_path / "patients.ledger")
    assert told.ledger == "patients.ledger"


def test_a_file_that_is_not_a_table_of_results_is_left_alone(tmp_path):
    store, mine = ReleaseStore(tmp_path), tmp_path / "report.csv"
    mine.write_text("patient,stay\n1,2\n")
    store.write_report("<html></html>", "release,value\na,1\n")
    assert mine.read_text() == "patient,stay\n1,2\n"
    mine.write_text("release,value\nold,0\n")
    store.write_report("<html></html>", "release,value\na,1\n")
    assert mine.read_text() == "release,value\na,1\n"
