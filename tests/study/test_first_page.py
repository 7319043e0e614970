"""What `[study]` says for the report's first page: read, refused, and without a say in any question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from study.fault_study import study_in, vestry
from study.test_config import GOOD

from vestry.errors import StudyFileError
from vestry.ledger import Ledger
from vestry.study import Study
from vestry.study.config import without_folders
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
    data, ledger = tmp_path / "far" / "patients.csv", tmp_path / "far" / "patients.ledger"
    text = GOOD.replace('"patients.csv"', f'"{data}"  # once {data}').replace('"patients.ledger"', f'"{ledger}"')
    (tmp_path / "study.toml").write_text(text)
    told = content(Study.open(tmp_path / "study.toml"), tmp_path / "patients.ledger")
    assert told.ledger == "patients.ledger"
    assert told.source == GOOD.replace('"patients.csv"', '"patients.csv"  # once patients.csv')


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("patients.ledger", "patients.ledger"),
        ("../far/patients.ledger", "../far/patients.ledger"),
        ("/home/ada/patients.ledger", "patients.ledger"),
        ("~/patients.csv", "patients.csv"),
        (r"C:\ada\patients.csv", "patients.csv"),
        ("/home/ada/*.parquet", "*.parquet"),
        ("sqlite:////home/ada/patients.ledger", "sqlite:///patients.ledger"),
        ("sqlite:///patients.ledger", "sqlite:///patients.ledger"),
        ("duckdb:///home/ada/all.duckdb/patients", "duckdb://all.duckdb/patients"),
        ("duckdb://all.duckdb/patients", "duckdb://all.duckdb/patients"),
        ("pyspark:///home/ada/patients.parquet", "pyspark://patients.parquet"),
        ("pyspark://patients", "pyspark://patients"),
        ("postgresql://ada:${VESTRY_WORD}@host/base/patients", "postgresql://host/base/patients"),
        ("postgresql://ada@host:5433/base/ward.stays?sslkey=/home/ada/key", "postgresql://host:5433/base/ward.stays"),
        ("postgres://[::1]/base/patients?user=${VESTRY_USER}", "postgresql://[::1]/base/patients"),
        ("postgresql:///base/patients?host=/run&passfile=/home/ada/x", "postgresql://%2Frun/base/patients"),
    ],
)
def test_an_address_keeps_the_name_of_its_file(written, shown):
    assert without_folders(written) == shown


def test_a_path_with_backslashes_is_shown_by_its_name(tmp_path):
    text = GOOD.replace('"patients.csv"', r'"C:\\ada\\patients.csv"')
    (tmp_path / "study.toml").write_text(text)
    assert Study.open(tmp_path / "study.toml").config.public_text == GOOD


@pytest.mark.long
def test_certificate_and_report_name_a_ledger_by_its_file_alone(tmp_path):
    """Nothing that is handed on tells where the study lay, though the study file does."""
    file = study_in(tmp_path)
    text = file.read_text()
    for name in ("people.csv", "people.ledger"):
        text = text.replace(f'"{name}"', f'"{tmp_path / name}"')
    file.write_text(text)
    assert vestry("release", file, "--yes").code == 0
    handed = [path for path in tmp_path.rglob("*") if path.suffix in (".json", ".html", ".csv") and path != file]
    assert {"certificate.json", "report.html"} <= {path.name for path in handed}
    assert [path.name for path in handed if str(tmp_path) in path.read_text()] == []
    facts = json.loads((tmp_path / "readmission" / "certificate.json").read_text())
    assert facts["ledger"] == "people.ledger"


def test_a_file_that_is_not_a_table_of_results_is_left_alone(tmp_path):
    store, mine = ReleaseStore(tmp_path), tmp_path / "report.csv"
    mine.write_text("patient,stay\n1,2\n")
    store.write_report("<html></html>", "release,value\na,1\n")
    assert mine.read_text() == "patient,stay\n1,2\n"
    mine.write_text("release,value\nold,0\n")
    store.write_report("<html></html>", "release,value\na,1\n")
    assert mine.read_text() == "release,value\na,1\n"
