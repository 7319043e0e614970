"""`vestry release` from a study file to its files and its ledger, and what is refused on the way."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from closed_engines import closed_engines
from study.fault_study import RELEASES, actions, create_arguments, ledger_of, records, study_in, vestry

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.data import Table
from vestry.display.plotting import plot
from vestry.errors import BudgetExceeded, DeclarationMismatch, InvalidParameter, VestryError
from vestry.ledger import Ledger
from vestry.pipeline import release, run
from vestry.posterior import Posterior
from vestry.releases import open_release
from vestry.schema.domain import Levels
from vestry.study import Study
from vestry.study.storage import ReleaseStore

WRITTEN = ["certificate.json", "posterior.nc", "release.json"]
PERSON = '{ person = "patient_id", rows = 2 }'


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(autouse=True)
def _quick_page(request, monkeypatch):
    """The page has its own tests, and takes a second."""
    if request.node.name != "test_the_report_is_written_and_written_again":
        monkeypatch.setattr(
            "vestry.study.report_data.page", lambda story, write=None: f"<html>{len(story.results)} releases</html>"
        )


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder but the ledger."""
    files = (path for path in folder.rglob("*") if path.is_file() and "ledger" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def written(folder: Path, name: str = "readmission") -> list[str]:
    return sorted(path.name for path in (folder / name).iterdir()) if (folder / name).exists() else []


def assert_sound(folder: Path, name: str, sequence: int) -> None:
    """The release's files agree with each other and with the charge of this number."""
    assert written(folder, name) == WRITTEN
    content = (folder / name / "release.json").read_bytes()
    record = json.loads(content)
    assert open_release(folder / name / "release.json").text().encode() == content
    facts = json.loads((folder / name / "certificate.json").read_text())
    assert facts["certificate"] == record["certificate"]
    assert facts["release"] == name
    assert facts["ledger"] == "people.ledger"
    assert facts["entry"] == sequence
    assert facts["release_sha256"] == hashlib.sha256(content).hexdigest()
    lines = {entry.action: entry for entry in ledger_of(folder).entries() if entry.target == sequence}
    assert sorted(lines) == ["open", "release"]
    assert lines["release"].facts["release_sha256"] == facts["release_sha256"]
    assert_readable(folder / name / "posterior.nc")


def assert_readable(path: Path) -> None:
    import xarray

    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        assert list(tree.children) == ["posterior"]
        (values,) = tree["posterior"].data_vars.values()
        assert values.dims[:2] == ("chain", "draw")
        assert "guarantee" in json.loads(tree.attrs["certificate"])


# What is written and what is charged


def prices(folder: Path) -> dict[str, tuple[float | None, float]]:
    """The pure epsilon and the delta that each release was charged."""
    charges = [entry.facts for entry in ledger_of(folder).entries() if entry.action == "charge"]
    named = [(facts["purpose"].partition(":")[0], facts["price"]) for facts in charges]
    return {name: (price["totals"][0] and price["totals"][0] / 1e12, price["failure"] / 1e24) for name, price in named}


@pytest.mark.long
def test_every_kind_of_release(tmp_path):
    study = study_in(tmp_path, *RELEASES)
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [each["name"] for each in told["releases"]] == list(RELEASES)
    assert {each["done"] for each in told["releases"]} == {"released"}
    assert actions(tmp_path) == ["charge"] * len(RELEASES) + ["open", "release"] * len(RELEASES)
    for place, name in enumerate(RELEASES):
        assert_sound(tmp_path, name, 1 + place)
    assert prices(tmp_path) == {
        "readmission": (0.3, 0), "gauss": (None, 0), "stay": (0.2, 0), "wards": (0.25, 0), "draws": (0.4, 1e-8),
        "cut": (0.35, 0),
    }  # fmt: skip
    assert sorted(told["releases"][0]["summary"][0]) == [
        *("group", "high", "interval_method", "low", "mean", "parameter", "sd"),
    ]
    assert [row["group"] for row in told["releases"][0]["summary"]] == ["A", "B", "C"]
    assert [len(row["draw"]) for row in told["releases"][4]["summary"]] == [1, 1]
    assert (tmp_path / "report.html").read_text() == "<html>6 releases</html>"
    assert told["report"] == str(tmp_path / "report.html")
    assert ledger_of(tmp_path).verify().head == told["head"]
    mechanisms = [json.loads((tmp_path / name / "release.json").read_text())["certificate"] for name in RELEASES]
    assert [each["mechanism"] for each in mechanisms] == [
        "laplace",
        "gaussian",
        "laplace",
        "laplace",
        "diffused",
        "ops",
    ]
    assert [each["guarantee"].get("delta") for each in mechanisms] == [None, 1e-8, None, None, 1e-8, None]


@pytest.mark.parametrize("name", ["readmission", "stay"])
@pytest.mark.long
def test_a_person_counts_with_two_rows(tmp_path, name):
    study = study_in(tmp_path, name, unit=PERSON)
    done = vestry("release", study, "--yes")
    assert done.code == 0, done.err
    assert_sound(tmp_path, name, 1)
    claim = json.loads((tmp_path / name / "release.json").read_text())["certificate"]
    assert claim["unit"] == "person=patient_id,rows=2"
    assert claim["population"]["rows"] == 2
    assert claim["population"]["count"] == "private"


@pytest.mark.parametrize(("name", "count"), [("gauss", 200), ("stay", 200), ("readmission", "private")])
def test_under_replace_the_count_is_public_where_there_are_no_groups(tmp_path, name, count):
    study = study_in(tmp_path, name, neighbours="replace", n=7000)
    assert vestry("release", study, "--yes").code == 0
    assert_sound(tmp_path, name, 1)
    record = json.loads((tmp_path / name / "release.json").read_text())
    assert record["certificate"]["population"]["count"] == count
    (found, *_) = record["contents"].values()
    assert found["noisy-statistics"]["count"] == (None if count == "private" else count)


@pytest.mark.slow
def test_the_report_is_written_and_written_again(tmp_path):
    study = study_in(tmp_path, "readmission", "draws")
    assert vestry("release", study, "readmission", "--yes").code == 0
    page = tmp_path / "report.html"
    assert "The probability that readmitted is yes, by ward" in page.read_text()
    page.unlink()
    done = vestry("report", tmp_path, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"report": str(page)}
    assert "<html" in page.read_text()


def test_the_report_of_a_folder(tmp_path):
    study = study_in(tmp_path)
    assert vestry("release", study, "--yes", "--output", tmp_path / "new" / "out").code == 0
    assert not (tmp_path / "report.html").exists()
    assert (tmp_path / "new" / "out" / "report.html").exists()
    assert written(tmp_path / "new" / "out") == WRITTEN
    (tmp_path / "new" / "out" / "report.html").write_text("old")
    assert vestry("report", tmp_path, "--output", tmp_path / "new" / "out").code == 0
    assert (tmp_path / "new" / "out" / "report.html").read_text() == "<html>1 releases</html>"
    (tmp_path / "other.toml").write_text("")
    done = vestry("report", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "one with one .toml file (found: other.toml, study.toml)" in done.err


def test_another_prior_is_free(tmp_path):
    study = study_in(tmp_path)
    assert vestry("release", study, "--yes").code == 0
    head = ledger_of(tmp_path).head()
    file = tmp_path / "readmission" / "release.json"
    told = [json.loads(vestry("posterior", file, *more, "--json").out) for more in ([], ["--prior", "20,2"])]
    means = [[row["mean"] for row in each["rows"]] for each in told]
    assert all(high > low for low, high in zip(*means, strict=True))
    assert ledger_of(tmp_path).head() == head


# Free, and paid again


@pytest.mark.long
def test_what_was_released_before_is_free_and_stays_byte_for_byte(tmp_path):
    study = study_in(tmp_path, "readmission", "gauss")
    assert vestry("release", study, "--yes").code == 0
    before, head = contents(tmp_path), ledger_of(tmp_path).head()
    os.remove(tmp_path / "people.csv")  # not even the records are needed
    done = vestry("release", study, "--json")  # and no --yes
    assert done.code == 0, done.err
    assert [each["done"] for each in json.loads(done.out)["releases"]] == ["released before, free"] * 2
    assert contents(tmp_path) == {name: text for name, text in before.items() if name != "people.csv"}
    assert ledger_of(tmp_path).head() == head


def test_again_pays_again_and_keeps_the_old_release(tmp_path):
    study = study_in(tmp_path)
    assert vestry("release", study, "--yes").code == 0
    first = (tmp_path / "readmission" / "release.json").read_bytes()
    done = vestry("release", study, "readmission", "--yes", "--again", "--json")
    assert json.loads(done.out)["releases"][0]["done"] == "released"
    assert actions(tmp_path) == ["charge", "open", "release"] * 2
    assert (tmp_path / "readmission" / "release.json").read_bytes() != first
    assert (tmp_path / "readmission" / "release-1.json").read_bytes() == first
    assert json.loads((tmp_path / "readmission" / "certificate.json").read_text())["entry"] == 4


def test_again_without_names_is_refused(fresh, tmp_path):
    study, head = fresh
    done = vestry("release", study, "--yes", "--again")
    assert (done.code, done.out) == (2, "")
    assert "name the releases to pay for again" in done.err
    assert_untouched(tmp_path, head)


def test_a_name_given_twice_is_paid_once(tmp_path):
    study = study_in(tmp_path)
    assert vestry("release", study, "readmission", "readmission", "--yes", "--again").code == 0
    assert actions(tmp_path) == ["charge", "open", "release"]


@pytest.mark.long
def test_a_question_that_is_asked_back_finds_its_own_release(tmp_path):
    """The file of another question under the same name is never taken for it."""
    study = study_in(tmp_path)
    text = study.read_text()
    assert vestry("release", study, "--yes").code == 0
    first = (tmp_path / "readmission" / "release.json").read_bytes()
    study.write_text(text.replace("epsilon = 0.3", "epsilon = 0.1"))
    assert vestry("release", study, "--yes").code == 0
    second = (tmp_path / "readmission" / "release.json").read_bytes()
    assert second != first
    study.write_text(text)
    done = vestry("release", study, "--yes")
    assert done.code == 0, done.err
    assert "released before, free" in done.out
    assert (tmp_path / "readmission" / "release.json").read_bytes() == first
    assert (tmp_path / "readmission" / "release-4.json").read_bytes() == second
    assert json.loads((tmp_path / "readmission" / "certificate.json").read_text())["entry"] == 1
    assert actions(tmp_path) == ["charge", "open", "release"] * 2


def test_a_question_under_two_names_is_paid_once(tmp_path):
    study = study_in(tmp_path)
    study.write_text(study.read_text() + f"\n[release.twin]\n{RELEASES['readmission']}\n")
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 0, done.err
    assert [each["done"] for each in json.loads(done.out)["releases"]] == ["released", "released before, free"]
    assert actions(tmp_path) == ["charge", "open", "release"]
    files = [tmp_path / name / "release.json" for name in ("readmission", "twin")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("change", ["lost", "another"])
def test_a_release_that_is_not_here_is_not_made_again(tmp_path, change):
    study = study_in(tmp_path)
    assert vestry("release", study, "--yes").code == 0
    file = tmp_path / "readmission" / "release.json"
    head, content = ledger_of(tmp_path).head(), file.read_bytes()
    file.unlink()
    if change == "another":
        study_in(tmp_path / "elsewhere")
        assert vestry("release", tmp_path / "elsewhere" / "study.toml", "--yes").code == 0
        file.write_bytes((tmp_path / "elsewhere" / "readmission" / "release.json").read_bytes())
    done = vestry("release", study, "--yes")
    assert (done.code, done.out) == (2, "")
    assert "the release readmission must be as entry 1 released it, and is not in this folder;" in done.err
    file.write_bytes(content)
    assert vestry("release", study, "--yes").code == 0
    assert ledger_of(tmp_path).head() == head


# Refused, and nothing charged


def assert_untouched(folder: Path, head: str) -> None:
    assert ledger_of(folder).head() == head
    assert written(folder) == []
    assert not (folder / "report.html").exists()


@pytest.fixture
def fresh(tmp_path):
    """A study, and the head of its ledger."""
    study = study_in(tmp_path)
    return study, ledger_of(tmp_path).head()


def test_a_budget_that_does_not_hold_is_exit_code_three(tmp_path):
    study = study_in(tmp_path, "readmission", "stay", "wards", budget="{ epsilon = 0.4 }")
    head = ledger_of(tmp_path).head()
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (3, "")
    assert done.err.strip() == (
        "vestry: Budget exceeded: after readmission, stay needs epsilon=0.2, and epsilon=0.1 of epsilon=0.4 remains."
        " Nothing was charged; readmission alone would fit. Charge less, or raise the budget with"
        " `vestry ledger amend`."
    )
    assert_untouched(tmp_path, head)
    assert vestry("release", study, "readmission", "--yes").code == 0
    done = vestry("release", study, "stay", "--yes", "--json")
    assert done.code == 3
    assert done.err.startswith("vestry: Budget exceeded: stay needs epsilon=0.2, and epsilon=0.1 of epsilon=0.4")
    assert actions(tmp_path) == ["charge", "open", "release"]


def fails_for_stay(prepared, *given, **named):
    """Collect and draw, but for one release of which the records cannot be read."""
    if prepared.model.columns == ("stay_days",):
        raise VestryError("the records cannot be read.")
    return run(prepared, *given, **named)


def test_what_was_released_is_told_though_the_next_fails_and_that_is_free_later(tmp_path, monkeypatch):
    study = study_in(tmp_path, "readmission", "stay")
    with monkeypatch.context() as patch:
        patch.setattr("vestry.study.runner.run", fails_for_stay)
        done = vestry("release", study, "--yes")
    assert done.code == 2
    assert done.out.startswith("readmission: released\n")
    assert done.err.splitlines()[-1] == "vestry: the records cannot be read."
    assert actions(tmp_path) == ["charge", "charge", "open", "release"]
    assert_sound(tmp_path, "readmission", 1)
    assert not (tmp_path / "stay").exists()
    assert (tmp_path / "report.html").read_text() == "<html>1 releases</html>"
    assert "stay: resumed, at no new cost" in vestry("release", study, "--yes").out
    assert actions(tmp_path) == ["charge", "charge", "open", "release", "open", "release"]


@pytest.mark.long
def test_a_delta_above_what_charges_may_bring_is_told(tmp_path):
    study = study_in(tmp_path, "draws")
    study.write_text(study.read_text().replace("delta = 1e-8", "delta = 1e-6"))
    ledger_of(tmp_path).charge("epsilon=0.1", purpose="first, in equal shares")
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 3
    assert re.search(r"Its own delta 1e-6 is above the 1\.\d+e-7 that remains for charges", done.err), done.err
    assert actions(tmp_path) == ["charge"]


@pytest.mark.long
def test_a_regression_shows_coefficients_and_counts_the_draws_that_it_leaves_out(tmp_path):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    study = study_in(tmp_path, neighbours="replace", budget="{ epsilon = 60, delta = 1e-5 }")
    head = study.read_text().partition("[release")[0]
    study.write_text(
        head + '[release.odds]\nmodel = "logistic"\noutcome = "readmitted"\nsuccess = "yes"\npredictors = ["ward"]\n'
        "draws = 6\nspend = { epsilon = 50, delta = 1e-6 }\n"
    )
    done = vestry("release", study, "--yes")
    assert done.code == 0, done.err
    assert re.search(r"  coefficient +draw 1", done.out)
    assert "  no interval: 6 draws are all that was released; the first 5:\n" in done.out
    file = tmp_path / "odds" / "release.json"
    shown = vestry("posterior", file)
    assert (shown.code, shown.err) == (0, "")
    assert [line.split()[0] for line in shown.out.splitlines()[2:5]] == ["ward[B]", "ward[C]", "intercept"]
    rows = json.loads(vestry("posterior", file, "--json").out)["rows"]
    assert [len(row["values"]) for row in rows] == [6, 6, 6]
    axes = plot(Posterior.from_release(open_release(file)))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["intercept", "ward[C]", "ward[B]"]


@pytest.mark.parametrize(("names", "room"), [(["stay"], "3.8"), (["gauss"], r"[0-3]\.\d+")])
def test_what_is_left_leads_with_what_a_release_may_spend(tmp_path, names, room):
    done = vestry("release", study_in(tmp_path, *names), "--yes")
    words = rf"^Remaining of the budget epsilon=4,delta=1e-6: epsilon=({room}) for the next release, with its own delta"
    (epsilon,) = re.search(words, done.out, re.MULTILINE).groups()
    ledger = ledger_of(tmp_path)
    with pytest.raises(BudgetExceeded, match="Budget exceeded"):
        ledger.charge(f"epsilon={float(epsilon) + 2e-5:.6g}", purpose="more than is left")
    ledger.charge(f"epsilon={epsilon},delta=1e-7", purpose="all that is left")


@pytest.mark.long
def test_a_weakened_posterior_is_told_before_and_after(tmp_path):
    study = study_in(tmp_path, "draws")
    study.write_text(study.read_text().replace("epsilon = 0.4,", "epsilon = 0.02,"))
    assert re.search(r"likelihood_power 0\.0\d+  each record counts \d.* %$", vestry("check", study).out, re.MULTILINE)
    done = vestry("release", study, "--yes")
    assert re.search(r"^  drawn from a posterior in which each record counts \d[.0-9]* %$", done.out, re.MULTILINE)


def test_a_report_that_fails_does_not_hide_what_failed_first(tmp_path, monkeypatch):
    study = study_in(tmp_path, "readmission", "stay")

    def fails(story, write):
        raise VestryError("the page cannot be written.")

    monkeypatch.setattr("vestry.study.report_data.page", fails)
    monkeypatch.setattr("vestry.study.runner.run", fails_for_stay)
    done = vestry("release", study, "--yes", "--json")
    assert done.code == 2
    assert "the records" in done.err
    assert "the page" not in done.err


def test_without_a_terminal_nothing_is_spent_unasked(fresh, tmp_path):
    study, head = fresh
    done = vestry("release", study)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("not 'unconfirmed'; write --yes to skip the confirmation prompt.\n")
    assert_untouched(tmp_path, head)


def test_a_dry_run_needs_neither_data_nor_ledger(tmp_path):
    study = study_in(tmp_path, "readmission", "stay", ledger=False)
    (tmp_path / "people.csv").unlink()
    done = vestry("release", study, "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out == "readmission: would spend at most epsilon=0.3\nstay: would spend at most epsilon=0.2\n"
    done = vestry("release", study, "stay", "--dry-run", "--json")
    assert json.loads(done.out) == {"dry_run": True, "releases": [{"name": "stay", "spend": "epsilon=0.2"}]}
    for name in ("people.csv", "people.ledger"):  # nor are they looked at
        (tmp_path / name).mkdir()
    assert vestry("release", study, "--dry-run").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.ledger", "study.toml"]


def test_a_missing_ledger_is_told_with_the_command_that_makes_it(tmp_path):
    study = study_in(tmp_path / "a study's folder", unit=PERSON, ledger=False)
    done = vestry("release", study, "--yes")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("vestry: study.toml, line 7, study.ledger: there is no ledger at ")
    command = done.err.partition("create it once with: ")[2].strip()
    assert command.startswith("vestry ledger create ")
    assert not (study.parent / "people.ledger").exists()
    assert "There is no ledger yet. Create it once:\n  " + command in vestry("check", study).out
    assert vestry(*shlex.split(command)[1:]).code == 0
    assert vestry("release", study, "--yes").code == 0
    assert ledger_of(study.parent).terms.to_dict() == {
        "dataset": "people", "unit": "person=patient_id,rows=2", "neighbours": "add-remove", "accepts_unproved": False
    }  # fmt: skip


@pytest.mark.parametrize(
    ("owned", "told"),
    [
        ({"unit": PERSON}, "study.toml, line 4, study.unit: the unit asked for is row, but it is person=patient_id,r"),
        ({"neighbours": "replace"}, "study.toml, line 5, study.neighbours: the neighbours relation asked for is add-"),
        ({"budget": "{ epsilon = 9.0 }"}, "study.toml, line 6, study.budget: the budget asked for is epsilon=4,delta"),
    ],
)
def test_a_ledger_that_owns_other_terms_is_refused(tmp_path, owned, told):
    study = study_in(tmp_path, ledger=False)
    terms = {"unit": '"row"', "neighbours": "add-remove", "budget": "{ epsilon = 4.0, delta = 1e-6 }", **owned}
    assert vestry(*create_arguments(tmp_path, *terms.values())).code == 0
    head = ledger_of(tmp_path).head()
    done = vestry("release", study, "--yes")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("vestry: " + told)
    assert_untouched(tmp_path, head)


def test_an_unknown_name(fresh, tmp_path):
    study, head = fresh
    done = vestry("release", study, "readmision", "--yes")
    assert (done.code, done.out) == (2, "")
    assert "a release must be one of the study's (readmission), not 'readmision'; write readmission." in done.err
    assert_untouched(tmp_path, head)


def test_a_missing_data_file_is_refused_before_the_charge(fresh, tmp_path):
    study, head = fresh
    (tmp_path / "people.csv").unlink()
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("vestry: study.toml, line 3, study.data: data must be a file that exists, not ")
    assert_untouched(tmp_path, head)


def test_a_missing_column_is_refused_before_the_charge(fresh, tmp_path):
    study, head = fresh
    (tmp_path / "people.csv").write_text("patient_id,readmitted\np1,yes\n")
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("vestry: study.toml, line 12, columns.ward: a column must be one of the table's, not")
    assert done.err.endswith("'ward'; write its name as the table spells it, a CSV file in its first line.\n")
    assert_untouched(tmp_path, head)


def test_a_missing_person_is_told_where_it_is_named(tmp_path):
    study = study_in(tmp_path, unit=PERSON.replace("patient_id", "patient"))
    head = ledger_of(tmp_path).head()
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("vestry: study.toml, line 4, study.unit.person: a column must be one of the table's, no")
    assert_untouched(tmp_path, head)


@pytest.mark.parametrize(("mark", "named"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_separator_than_the_comma_is_told_and_the_first_line_is_not_shown(fresh, tmp_path, mark, named):
    study, head = fresh
    (tmp_path / "people.csv").write_text((tmp_path / "people.csv").read_text().replace(",", mark))
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("vestry: study.toml, line 3, study.data: data must be a file whose fields are separated")
    assert f"(its first line has {named} and no comma)" in done.err
    assert done.err.endswith(" if that is how it is written, or the file again with commas.\n")
    assert "patient_id" not in done.err
    assert_untouched(tmp_path, head)


def test_a_name_may_hold_a_semicolon(tmp_path):
    study = study_in(tmp_path, "wards")
    (tmp_path / "people.csv").write_text("ward;1\nA\nB\n")
    study.write_text(study.read_text().replace("ward =", '"ward;1" =').replace('"ward"', '"ward;1"'))
    assert vestry("release", study, "--yes", "--json").code == 0


def test_a_column_of_another_type_is_refused_before_the_charge(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    study = study_in(tmp_path, data="people.parquet")
    head = ledger_of(tmp_path).head()
    pq.write_table(pa.table({"ward": ["A"], "readmitted": pa.array([["no"]])}), tmp_path / "people.parquet")
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "vestry: study.toml, line 11, columns.readmitted: the column readmitted must be text, numbers"
    )
    assert_untouched(tmp_path, head)


def test_an_empty_table_of_a_public_count_is_refused_before_the_charge(tmp_path):
    study = study_in(tmp_path, "stay", neighbours="replace", lines=[])
    head = ledger_of(tmp_path).head()
    done = vestry("release", study, "--yes", "--json")
    assert (done.code, done.out) == (2, "")
    assert "the number of records must be at least 1, not 0" in done.err
    assert_untouched(tmp_path, head)


def test_an_empty_table_of_a_private_count_is_a_table_like_others(tmp_path):
    study = study_in(tmp_path, "readmission", "stay", lines=[])
    assert vestry("release", study, "--yes").code == 0
    assert actions(tmp_path) == ["charge"] * 2 + ["open", "release"] * 2


def tried_by_nobody(folder: Path) -> str:
    """Try to write as somebody who is not the super-user, to whom no folder is closed; return what is said."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        code = 70
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            try:
                ReleaseStore(folder).make_room("readmission", 1)
            except VestryError as error:
                os.write(writer, str(error).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


@pytest.mark.parametrize("mode", [0o755, 0o555, 0o600, 0o000])
def test_a_closed_folder_is_one_sentence(mode):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out").mkdir()
        folder.chmod(0o755)
        (folder / "out").chmod(mode)
        if os.getuid() and mode == 0o755:
            (folder / "out").chmod(0o555)
        reason = "Permission denied"
        assert tried_by_nobody(folder / "out") == (
            f"{folder / 'out' / 'readmission'} cannot be written ({reason}); make room or name another folder by"
            " --output."
        )
        (folder / "out").chmod(0o755)


def test_an_output_that_is_no_folder_is_refused_before_the_charge(fresh, tmp_path):
    study, head = fresh
    (tmp_path / "file").write_text("")
    done = vestry("release", study, "--yes", "--output", tmp_path / "file")
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path / 'file'} cannot be written (Not a directory); make room or name" in done.err
    assert_untouched(tmp_path, head)


# What check says is what runs


@pytest.mark.parametrize("data", ["people.csv", "no/*.parquet", "duckdb://people.db/visits"])
def test_check_says_that_the_data_file_is_not_here(tmp_path, data):
    study = study_in(tmp_path, data=data)
    (tmp_path / "people.csv").unlink(missing_ok=True)
    done = vestry("check", study)
    assert done.code == 0
    assert f"\nThe data file {data} is missing; a release needs it.\n" in done.out
    assert json.loads(vestry("check", study, "--json").out)["data"] == "missing"


@pytest.mark.parametrize(
    "data", ["people.csv", "peop*.parquet", "duckdb://people.db/v", "postgresql://h/d/t", "pyspark://t"]
)
def test_check_looks_for_a_file_and_opens_none_and_asks_no_server(tmp_path, data):
    study = study_in(tmp_path, data=data)
    for name in ("people.csv", "people.parquet", "people.db"):
        (tmp_path / name).write_text("nothing that could be read as a table")
    done = vestry("check", study)
    assert (done.code, "is missing" in done.out) == (0, False)
    assert json.loads(vestry("check", study, "--json").out)["data"] == "not read"


@pytest.mark.long
@pytest.mark.parametrize("command", ["check", "plan"])
def test_noise_on_sums_of_numbers_is_told_in_units_of_the_column(tmp_path, command):
    """One record adds at most 30 from the middle and, beside it, as much for the count: 60/0.2 is the scale."""
    study = study_in(tmp_path, "stay", "readmission")
    said = vestry(command, study).out
    assert re.search(r"laplace +scale 300 in units of stay_days", said)
    assert re.search(r"laplace +scale 3\.33333(  |$)", said, re.MULTILINE)  # of counts: 1/0.3
    costs = json.loads(vestry("check", study, "--json").out)["releases"]
    assert [cost["value"] for cost in costs] == pytest.approx([300 / (60 / 2**20), 1 / 0.3], rel=1e-9)


def test_who_declines_spends_nothing(tmp_path, monkeypatch):
    questions: list[str] = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer.confirm", lambda text, **_: questions.append(text) or sys.exit(1))
    assert vestry("release", study_in(tmp_path, "stay")).code == 1
    assert questions == ["Spend on stay?"]
    assert actions(tmp_path) == []


def test_the_mechanism_that_check_names_is_the_one_that_runs(tmp_path):
    """Where the count is private the declared guess decides, in check as in release."""
    study = study_in(tmp_path, "draws")
    guesses = {}
    for n in (20, 100_000):
        text = study.read_text().replace('mechanism = "diffused"\n', "").replace("draws = 2", "draws = 1")
        study.write_text(text.replace("\n\n[columns]", f"\nexpected_rows = {n}\n[columns]", 1) if n == 20 else
                         text.replace("expected_rows = 20\n", f"expected_rows = {n}\n"))  # fmt: skip
        (cost,) = json.loads(vestry("check", study, "--json").out)["releases"]
        done = vestry("release", study, "draws", "--yes", "--again")
        assert done.code == 0, done.err
        ran = json.loads((tmp_path / "draws" / "release.json").read_text())["certificate"]
        assert (ran["mechanism"], ran["value"]) == (cost["mechanism"], cost["value"])
        guesses[n] = cost["mechanism"]
    assert guesses[20] != guesses[100_000]


# In Python


@pytest.fixture
def table(tmp_path):
    study_in(tmp_path)
    return Table(
        tmp_path / "people.csv",
        {"readmitted": Levels("no", "yes"), "ward": Levels("A", "B", "C")},
        neighbours="add-remove",
    )


MODEL = BetaBernoulli("readmitted", success="yes", by="ward")


def test_a_release_in_python(table, tmp_path):
    ledger = ledger_of(tmp_path)
    posterior = release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger, purpose="a first look")
    assert posterior.interval(0.9).loc["A"].shape == (1, 2)
    assert actions(tmp_path) == ["charge", "open", "release"]
    charge = next(entry for entry in ledger.entries() if entry.action == "charge")
    assert charge.facts["purpose"] == "a first look"
    assert charge.facts["price"]["totals"][0] == 3 * 10**11
    with pytest.raises(
        DeclarationMismatch,
        match=r"^the release asked for is new, but it is released before, by entry 1 in the ledger; ",
    ):
        release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger)
    assert len(actions(tmp_path)) == 3
    release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger, again=True)
    assert len(actions(tmp_path)) == 6


def test_a_study_knows_a_release_of_python_by_its_question(table, tmp_path):
    release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger_of(tmp_path))
    (cost,) = Study.open(tmp_path / "study.toml").costs()
    assert cost.state == "released before"


def test_python_refuses_before_the_charge(table, tmp_path):
    ledger = ledger_of(tmp_path)
    ask = {"guarantee": "epsilon=0.3", "ledger": ledger}
    with pytest.raises(BudgetExceeded, match=r"^Budget exceeded: the charge needs discrete-laplace\("):
        release(MODEL, table, **{**ask, "guarantee": "epsilon=5"})
    with pytest.raises(InvalidParameter, match=r"^a column must be one that is declared \(readmitted, ward\), not"):
        release(BetaBernoulli("height", success="yes"), table, **ask)
    other = Table(tmp_path / "people.csv", table.columns, neighbours="replace")
    with pytest.raises(
        DeclarationMismatch, match=r"^the neighbours relation asked for is replace, but it is add-remove in the ledger"
    ):
        release(MODEL, other, **ask)
    person = Table(tmp_path / "people.csv", table.columns, neighbours="add-remove", unit="person=patient_id,rows=2")
    with pytest.raises(
        DeclarationMismatch, match=r"^the unit asked for is person=patient_id,rows=2, but it is row in the ledger"
    ):
        release(MODEL, person, **ask)
    (tmp_path / "people.csv").write_text("\n".join(["patient_id,readmitted", *records(3)]))
    with pytest.raises(InvalidParameter, match=r"^a column must be one of the table's, not 'ward'"):
        release(MODEL, table, **ask)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(InvalidParameter, match=r"^data must be a file that exists"):
        release(MODEL, table, **ask)
    assert actions(tmp_path) == []
    assert Ledger.open(tmp_path / "people.ledger").verify().entries == 1
