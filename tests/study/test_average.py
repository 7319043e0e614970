"""`average`: which question is asked of persons with several rows, what was asked before, and where it is said."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from closed_engines import closed_engines
from study.fault_study import RELEASES, actions, ledger_of, study_in, vestry

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.errors import DeclarationMismatch, InvalidParameter, StudyFileError
from vestry.model.request import Request
from vestry.persons.person_average import PersonAverage
from vestry.pipeline import release
from vestry.privacy.guarantee import Guarantee
from vestry.releases import open_release
from vestry.study import Study

PERSON = '{ person = "patient_id", rows = 3 }'
PERSONS, ROWS = "Each person weighs 1, whatever the number of her rows.", "Each row counts once."


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture
def page(request, monkeypatch):
    """The page has its own tests, and takes a second."""
    monkeypatch.setattr("vestry.study.report_data.page", lambda story, write=None: "<html></html>")


def written(path: Path, average: str) -> None:
    """Write the key under every release."""
    path.write_text(re.sub(r"(?m)^average = .*\n", "", path.read_text()))
    if average:
        path.write_text(
            path.read_text().replace("[release.", "[release.").replace("spend =", f'average = "{average}"\nspend =')
        )


def released(study: Path, *options: str) -> dict:
    done = vestry("release", study, "--yes", "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)["releases"][0]


def charges(folder: Path) -> int:
    return actions(folder).count("charge")


@pytest.mark.long
def test_a_new_question_is_about_persons_and_says_so(tmp_path, page):
    study = study_in(tmp_path, "readmission", unit=PERSON)
    found = released(study)
    assert found["note"].startswith(PERSONS)
    assert "normal approximation" in found["note"]
    made = open_release(tmp_path / "readmission" / "release.json")
    assert made.family["average"] == "person"
    assert made.posterior().label == "normal approximation"
    assert made.posterior().to_arviz().attrs["note"].startswith(PERSONS)
    facts = json.loads((tmp_path / "readmission" / "certificate.json").read_text())
    assert facts["question"] == "The probability that readmitted is yes, by ward, each person weighing 1"
    shown = vestry("posterior", tmp_path / "readmission" / "release.json")
    assert shown.out.startswith(PERSONS)
    assert vestry("release", study).out.count(PERSONS) == 1
    # The noise is that of one record, and not of three.
    assert made.certificate.event["parameters"]["sensitivity"] * next(
        iter(made.contents.values())
    ).grid == pytest.approx(1, rel=1e-12)


@pytest.mark.long
def test_rows_are_asked_for_by_name_and_say_what_they_leave_out(tmp_path, page):
    study = study_in(tmp_path, "readmission", unit=PERSON)
    written(study, "row")
    found = released(study)
    assert found["note"].startswith(ROWS)
    assert "takes a person's rows as independent" in found["note"]
    made = open_release(tmp_path / "readmission" / "release.json")
    assert made.family == {"name": "beta-bernoulli"}
    assert made.certificate.event["parameters"]["sensitivity"] == 3


@pytest.mark.long
def test_a_row_is_not_asked_of_persons(tmp_path, page):
    assert "note" not in released(study_in(tmp_path / "row", "readmission"))
    one = study_in(tmp_path / "one", "readmission", unit='{ person = "patient_id", rows = 1 }')
    assert "note" not in released(one)


def definitions(path: Path) -> tuple[str, ...]:
    config = Study.open(path).config
    return tuple(spec.request.definition(config.schema) for spec in config.releases)


def test_rows_and_persons_are_two_questions(tmp_path):
    study = study_in(tmp_path, "readmission", "stay", "wards", unit=PERSON)
    persons = definitions(study)
    written(study, "row")
    rows = definitions(study)
    written(study, "person")
    assert definitions(study) == persons
    assert not set(persons) & set(rows)


@pytest.mark.long
def test_without_the_key_persons_are_meant_whatever_was_asked_before(tmp_path, page):
    study = study_in(tmp_path, "readmission", unit=PERSON)
    written(study, "row")
    assert released(study)["note"].startswith(ROWS)
    written(study, "")
    assert released(study)["note"].startswith(PERSONS)
    assert charges(tmp_path) == 2
    written(study, "person")
    assert released(study)["done"] == "released before, free"
    assert charges(tmp_path) == 2


@pytest.mark.long
def test_python_asks_the_same_questions(tmp_path, page):
    study = Study.open(study_in(tmp_path, "readmission", unit=PERSON))
    table, ledger = study.table, ledger_of(tmp_path)
    model = BetaBernoulli("readmitted", success="yes")
    ask = {"guarantee": "epsilon=0.3", "ledger": ledger}
    assert release(model, table, average="row", **ask).note.startswith(ROWS)
    assert release(model, table, average="person", **ask).note.startswith(PERSONS)
    with pytest.raises(DeclarationMismatch, match="released before, by entry"):
        release(model, table, **ask)  # without the key persons are meant
    other = BetaBernoulli("readmitted", success="no")
    assert release(other, table, **ask).label == "normal approximation"
    drawn = release(other, table, guarantee="epsilon=0.4,delta=1e-8", ledger=ledger, draws=1, mechanism="diffused")
    assert (drawn.label, drawn.note) == ("released draws", "")


@pytest.mark.parametrize(
    ("name", "unit", "average", "sentence"),
    [
        ("readmission", '"row"', "person", "average must be row or omitted where the unit is a row, not 'person'"),
        ("draws", PERSON, "person", "average must be row or omitted where draws are released, not 'person'"),
        ("readmission", PERSON, "patient", "average must be one of person, row, not 'patient'"),
    ],
)
def test_what_cannot_be_averaged_is_refused_at_its_line(name, unit, average, sentence, tmp_path):
    study = study_in(tmp_path, name, unit=unit, ledger=False)
    written(study, average)
    with pytest.raises(StudyFileError, match=rf"line \d+, release.{name}.average: {re.escape(sentence)}"):
        Study.open(study)


def test_groups_of_persons_are_not_pooled(tmp_path):
    study = study_in(tmp_path, "readmission", unit=PERSON, ledger=False)
    study.write_text(study.read_text() + "pool = true\n")
    with pytest.raises(StudyFileError, match=r'pool must be omitted for averages over persons.*write average = "row"'):
        Study.open(study)
    written(study, "row")
    assert Study.open(study).config.releases[0].request.model.pool


def test_a_model_without_an_average_is_refused():
    from vestry.conjugate.gamma_exponential import GammaExponential
    from vestry.model.request import averaged_model
    from vestry.privacy.neighbours import Unit

    model = GammaExponential("days")
    with pytest.raises(InvalidParameter, match="average must be row or omitted for gamma-exponential, not 'person'"):
        averaged_model(model, Unit("id", 3), "person", of_draws=False)
    assert averaged_model(model, Unit("id", 3), None, of_draws=False) == model


@pytest.mark.long
def test_a_plan_is_of_the_question_that_will_be_asked(tmp_path):
    study = study_in(tmp_path, "readmission", "stay", "wards", unit=PERSON, ledger=False, n=3000)
    plan = Study.open(study).plan()
    width = plan.xs("laplace", level="mechanism")[["width", "width_without_privacy"]]
    # 1,000 persons: of a proportion in each of three groups, of a mean between 0 and 60, of three shares.
    assert (width["width"] >= width["width_without_privacy"]).all()
    assert 0.05 < width.loc["readmission", "width"] < 0.2
    assert 0.5 < width.loc["stay", "width"] < 2
    assert "scale 5 in units of a person's weight" in vestry("plan", study, "stay").out


@pytest.mark.long
def test_another_prior_is_refused_because_none_is_used(tmp_path, page):
    released(study_in(tmp_path, "readmission", unit=PERSON))
    done = vestry("posterior", tmp_path / "readmission" / "release.json", "--prior", "2,2")
    assert done.code == 2
    assert "prior must be omitted for an average over persons" in " ".join(done.err.split())


@pytest.mark.long
def test_the_page_says_which_question_is_answered(tmp_path):
    study = study_in(tmp_path, *RELEASES.keys() & {"readmission", "stay", "wards"}, unit=PERSON)
    released(study)
    page = html.unescape((tmp_path / "report.html").read_text())
    assert page.count(PERSONS) == 3
    assert "Sums are of persons' weights." in page
    assert "each person weighing 1" in page
    made = [
        open_release(tmp_path / name / "release.json").posterior().rows() for name in ("readmission", "stay", "wards")
    ]
    few = sum("note" in row for rows in made for row in rows)
    assert page.count("the normal approximation is rough") == few


def test_mechanisms_are_noises():
    model = PersonAverage(BetaBernoulli("readmitted", success="yes"))
    assert Request(model, Guarantee.parse("epsilon=1")).candidates() == ("laplace",)
    assert Request(model, Guarantee.parse("epsilon=1,delta=1e-6")).candidates() == ("laplace", "gaussian")
