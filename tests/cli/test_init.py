"""`vestry init` says that rows are protected, and what to write to protect persons."""

from __future__ import annotations

import re

from study.fault_study import vestry

PERSON = 'unit = { person = "patient_id", rows = 3 }'


def test_it_says_what_is_protected(tmp_path):
    done = vestry("init", tmp_path / "new")
    assert done.code == 0
    assert (
        "\nIt protects single rows. If a person may have several, see the lines above unit in study.toml.\n" in done.out
    )


def test_what_it_says_of_persons_works(tmp_path):
    vestry("init", tmp_path)
    study = tmp_path / "study.toml"
    text = study.read_text()
    assert f"#     {PERSON}\n" in text
    person = re.sub('^unit = "row"$', PERSON, text, flags=re.MULTILINE)
    study.write_text(person)
    assert "the unit asked for is person=patient_id,rows=3, but it is row in the ledger" in vestry("check", study).err
    study.write_text(person.replace("patients.ledger", "persons.ledger"))
    done = vestry("check", study)
    assert done.code == 0
    assert (
        "unit person=patient_id,rows=3.\nThere is no ledger yet. Create it once:\n  vestry ledger create " in done.out
    )
