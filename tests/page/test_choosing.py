"""Which files may be chosen and what is shown of them: names and types, and never a value."""

from __future__ import annotations

import pytest
from page.browser import Browser
from study.fault_study import study_in, vestry
from study.test_leak import PERSON, PLANTED, SIGNS

from vestry.errors import InvalidParameter
from vestry.page.file_choice import FileChoice
from vestry.page.routes import GET


def test_files_inside_the_folders_alone_may_be_chosen(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    outside.mkdir()
    for path in (
        inside / "a.csv",
        inside / "deep" / "b.parquet",
        inside / "notes.txt",
        inside / ".c.csv",
        outside / "s.csv",
    ):
        path.write_text("x")
    (inside / "link.csv").symlink_to(outside / "s.csv")
    (inside / "near.csv").symlink_to(inside / "a.csv")
    (inside / "loop.csv").symlink_to(inside / "loop.csv")
    (inside / "folder").symlink_to(outside)
    choice = FileChoice.of(inside)
    assert choice.files() == ["a.csv", "deep/b.parquet", "near.csv"]
    assert choice.find("near.csv") == inside / "a.csv"
    for name in ("../outside/s.csv", str(outside / "s.csv"), "link.csv", "loop.csv", "folder/s.csv", "deep/../a.csv",
                 "a.csv\0", "", "/etc/passwd", ".c.csv", "notes.txt"):  # fmt: skip
        with pytest.raises(InvalidParameter, match="a file must be one of those that are shown"):
            choice.find(name)
    both = FileChoice.of(inside, outside)
    assert both.find(str(outside / "s.csv")) == outside / "s.csv"
    assert "link.csv" in both.files()


def test_a_link_that_is_turned_around_after_it_was_shown(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out.csv").write_text("secret,names\n")
    (tmp_path / "in" / "a.csv").write_text("ward,readmitted\n")
    browser = Browser(tmp_path / "in")
    fields = [*browser.fields("/", "/begin"), ("header", "yes")]
    (tmp_path / "in" / "a.csv").unlink()
    (tmp_path / "in" / "a.csv").symlink_to(tmp_path / "out.csv")
    assert browser.send("/begin", fields).status_code == 422
    assert not (tmp_path / "in" / "study.toml").exists()
    assert not [text for text in browser.seen if "secret" in text]


@pytest.mark.parametrize("first", ["A,yes,12", "a,a,b", "a,2024-01-01,b", "a,true,b"])
def test_a_first_line_that_may_be_a_record_is_not_shown(tmp_path, first):
    (tmp_path / "people.csv").write_text(f"{first}\nCANARY,yes,13\n")
    browser = Browser(tmp_path)
    for fields in ({"file": "people.csv"}, {"file": "people.csv", "header": "yes"}):
        answer = browser.fill("/", "/begin", fields)
        assert answer.status_code == 422
        assert first not in answer.text
        assert "CANARY" not in answer.text
    assert not (tmp_path / "study.toml").exists()


def test_names_of_a_csv_file_are_shown_after_the_user_has_said_so(tmp_path):
    study_in(tmp_path)
    browser = Browser(tmp_path)
    assert "patient_id" not in browser.get("/columns").text
    assert browser.fill("/columns", "/columns/names").status_code == 422
    answer = browser.fill("/columns", "/columns/names", header="yes")
    assert (answer.path, "patient_id" in answer.text) == ("/columns?done=named", True)


def test_data_that_lie_elsewhere_are_not_looked_at(tmp_path):
    (tmp_path / "in").mkdir()
    study_in(tmp_path / "in", data="../people.csv")
    (tmp_path / "people.csv").write_text("patient_id,ward\n")
    browser = Browser(tmp_path / "in")
    assert "patient_id" not in browser.get("/columns").text


@pytest.mark.long
@pytest.mark.parametrize("unit", ['"row"', PERSON])
def test_planted_values_show_on_no_page(tmp_path, unit):
    study_in(tmp_path, "readmission", "stay", lines=[*PLANTED, *PLANTED], unit=unit)
    browser = Browser(tmp_path)
    browser.fill("/columns", "/columns/names", header="yes")
    browser.fill("/release", "/release", typed="people")
    browser.desk.job.wait()
    assert browser.desk.job.progress.status == "done"
    for path in GET:
        for query in ("", "?name=note", "?name=readmission", "?model=table", "?verify=1", "?step-stay=3"):
            assert browser.get(path + query).status_code < 500
    browser.fill("/column?name=note", "/column", levels="A")
    (tmp_path / "people.csv").unlink()
    for path in GET:
        browser.get(path)
    assert len(browser.seen) > 100
    for text in browser.seen:
        assert not [sign for sign in SIGNS if sign in text]


def test_without_the_extra_its_install_line_is_said(tmp_path, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith(("vestry.page.", "uvicorn", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = vestry("open", tmp_path)
    assert done.code == 2
    assert "vestry open needs an extra; install it with: pip install 'vestry[page]'" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere/study.toml",), "in a folder that is there"),
        (("data.csv",), "a .toml file"),
        (("--data", "nowhere"), "a folder that is there"),
        (("--port", "99999"), "port"),
    ],
)
def test_wrong_arguments(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    done = vestry("open", *arguments)
    assert (done.code, said in done.err) == (2, True)
