"""The whole journey by forms: from an empty folder to a report; wrong inputs; two tabs, reloads, repeated requests."""

from __future__ import annotations

import re

import pytest
from page.browser import Browser
from share import cases
from study.fault_study import HEADER, actions, records, study_in

from vestry.study import Study

DATA = "\n".join([HEADER, *records(60)]) + "\n"


def declare(browser: Browser) -> None:
    """Everything before the first release, by forms."""
    assert browser.fill("/", "/begin", file="people.csv", header="yes").path == "/columns?done=begun"
    browser.fill("/column?name=ward", "/column", levels="A\nB\nC")
    browser.fill("/column?name=readmitted", "/column", levels="no\nyes")
    browser.fill("/column?name=stay_days&kind=number", "/column", low="0", high="60")
    browser.fill("/protect", "/protect", unit="row", neighbours="add-remove", expected_rows="60")
    browser.fill("/questions", "/question/delete", name="quality")
    asked = {"name": "readmission", "key-column": "readmitted", "key-success": "yes", "key-by": ["ward"]}
    assert browser.fill("/question?model=beta-bernoulli", "/question", asked).path == "/questions?done=saved"


@pytest.fixture
def browser(tmp_path, monkeypatch) -> Browser:
    monkeypatch.setattr(
        "vestry.study.report_data.page", lambda story, write=None: f"<html><h1>{story.title}</h1></html>"
    )
    (tmp_path / "people.csv").write_text(DATA)
    return Browser(tmp_path)


@pytest.fixture
def studied(browser, tmp_path) -> Browser:
    """A study that could be released at once."""
    study_in(tmp_path)
    return browser


def test_from_an_empty_folder_to_a_report(browser, tmp_path):
    declare(browser)
    assert "Make the ledger" in browser.get("/check").text
    assert "There is no ledger yet" in browser.get("/ledger").text
    assert browser.get("/release").path == "/check"
    assert browser.fill("/budget", "/budget", {"step-readmission": "40", "next": "check"}).path == "/check?done=saved"
    assert browser.fill("/check", "/ledger/create").path == "/check?done=ledger"
    assert browser.fill("/release", "/release", typed="people").path == "/progress"
    browser.desk.job.wait()
    assert browser.desk.job.progress.outcomes == (("readmission", "released"),)
    assert "All was released" in browser.get("/progress").text
    assert "hx-trigger" not in browser.get("/progress/piece").text
    report = browser.get("/report")
    assert report.text.startswith("<html><h1>")
    assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "Read the report" in browser.get("/results").text
    assert "3 entries verified" not in browser.get("/ledger").text
    assert "4 entries verified" in browser.get("/ledger?verify=1").text
    assert [entry.action for entry in Study.open(tmp_path / "study.toml").ledger.entries()][1:] == [
        "charge", "open", "release"
    ]  # fmt: skip
    assert not [text for text in browser.seen if "said nothing" in text]


@pytest.mark.long
def test_the_file_means_the_same_as_one_written_by_hand(browser, tmp_path):
    declare(browser)
    by_form = Study.open(tmp_path / "study.toml").config
    (tmp_path / "hand.toml").write_text(
        '[study]\nname = "people"\ndata = "people.csv"\nunit = "row"\nneighbours = "add-remove"\n'
        'budget = { epsilon = 1.0, delta = 1e-6 }\nledger = "people.ledger"\nexpected_rows = 60\n'
        '[columns]\nward = { levels = ["A", "B", "C"] }\nreadmitted = { levels = ["no", "yes"] }\n'
        "stay_days = { interval = [0, 60] }\n"
        '[release.readmission]\nmodel = "beta-bernoulli"\ncolumn = "readmitted"\nsuccess = "yes"\nby = "ward"\n'
        "spend = { epsilon = 0.3 }\n"
    )
    by_hand = Study.open(tmp_path / "hand.toml").config
    assert (by_form.schema, by_form.budget, by_form.expected_rows) == (by_hand.schema, by_hand.budget, 60)
    assert by_form.releases == by_hand.releases
    assert "# A study, begun from the names and types" in (tmp_path / "study.toml").read_text()
    assert 'neighbours = "add-remove"         # or "replace"' in (tmp_path / "study.toml").read_text()


def test_a_person_and_the_first_page(studied, tmp_path):
    studied.fill(
        "/protect", "/protect", unit="person", person="patient_id", rows="2", title="Who comes back", issuer="Us"
    )
    config = Study.open(tmp_path / "study.toml").config
    assert (str(config.schema.unit), config.imprint) == (
        "person=patient_id,rows=2",
        {"title": "Who comes back", "issuer": "Us"},
    )
    assert "is row in the ledger" in studied.get("/check").text


def test_a_person_is_identified_by_a_column_of_the_table(browser, tmp_path):
    browser.fill("/", "/begin", file="people.csv", header="yes")
    before = (tmp_path / "study.toml").read_bytes()
    answer = browser.fill("/protect", "/protect", unit="person", person="nobody", rows="2")
    assert (answer.status_code, "Person must be a column of the table" in answer.text) == (422, True)
    assert (tmp_path / "study.toml").read_bytes() == before


WRONG = [
("/column?name=note", "/column", {"levels": "A, B"}, "two or more, each on a line of its own"),
        ("/column?name=note", "/column", {"levels": "A\nA"}, "different from each other"),
        ("/column?name=note", "/column", {"levels": "A\nB", "level_type": "whole"}, "a whole number"),
        ("/column?name=note", "/column", {"levels": "A\nB", "level_type": "truth"}, "true or false"),
        ("/column?name=note", "/column", {"levels": "A\nB", "missing": "value", "missing_value": "C"},
         "one of the levels"),
        ("/column?name=note&kind=number", "/column", {"low": "a", "high": "1"}, "a number"),
        ("/column?name=note&kind=number", "/column", {"low": "2", "high": "1"}, "below the high end"),
        ("/column?name=note&kind=number", "/column", {"low": "0", "high": "inf"}, "a number"),
        ("/column?name=note&kind=number", "/column", {"low": "0", "high": "9", "bins": "0, 5"}, "three edges"),
        ("/column?name=note&kind=count", "/column", {"high": "2.5"}, "a whole number"),
        ("/column?name=note&kind=date", "/column", {"low": "yesterday", "high": "2024-01-01"}, "a day"),
        ("/column?name=note&kind=date", "/column", {"low": "2024-01-01", "high": "2023-12-31"},
         "the first day must be before the last day, 2023-12-31"),
        ("/column?name=note&kind=date", "/column",
         {"low": "2020-01-01", "high": "2024-01-01", "format": "%q"}, "%y, %m, %d"),
        ("/column", "/column", {"name": "", "levels": "A\nB"}, "one line of text"),
        ("/column?name=note", "/column", {"levels": "A\nB", "from": "1 +"}, "at character"),
        ("/protect", "/protect", {"unit": "person", "person": "", "rows": "2"}, "identifies a person"),
        ("/protect", "/protect", {"unit": "person", "person": "id", "rows": "many"}, "a whole number"),
        ("/protect", "/protect", {"unit": "ward"}, "a row or a person"),
        ("/protect", "/protect", {"neighbours": "none"}, "neighbours"),
        ("/protect", "/protect", {"expected_rows": "-3"}, "a whole number"),
        ("/question?model=beta-bernoulli", "/question", {"name": "a b"}, "letters, digits"),
        ("/question?model=beta-bernoulli", "/question", {"name": "readmission"}, "not another question"),
        ("/question?model=beta-bernoulli", "/question", {"name": "x", "key-column": ""}, "column is needed"),
        ("/question?model=beta-bernoulli", "/question",
         {"name": "x", "key-column": "readmitted", "key-success": "maybe"}, "success"),
        ("/question?model=normal-mean", "/question",
         {"name": "x", "key-column": "stay_days", "key-variance": "big", "key-prior": "0, 1"}, "a number"),
        ("/question?model=normal-inverse-gamma", "/question",
         {"name": "x", "key-column": "stay_days", "key-prior": ""}, "prior is needed. the mean that you expect"),
        ("/question?model=count", "/question", {"name": "x", "epsilon": ""}, "a number above 0"),
        ("/question?model=count", "/question", {"name": "x", "epsilon": "-1"}, "epsilon"),
        ("/question?model=count", "/question", {"name": "x", "epsilon": "1", "rho": "1"}, "known combination"),
        ("/budget", "/budget", {"total-epsilon": "much"}, "a number"),
        ("/budget", "/budget", {"total-epsilon": "", "total-delta": "1e-6"}, "epsilon must be a number above 0"),
        ("/budget", "/budget", {"step-readmission": "99"}, "a whole number from 0 to 75"),
        ("/release", "/release", {"typed": "People"}, "type the study&#39;s name"),
        ("/release", "/release", {"typed": "people", "release": []}, "choose at least one"),
        ("/release", "/release", {"typed": "people", "release": ["../x"]}, "choose at least one"),
        ("/release", "/release", {"typed": "people", "key": ""}, "no key"),
]  # fmt: skip


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 4])
def test_wrong_inputs_are_refused_and_shown_again(studied, tmp_path, every):
    before = (tmp_path / "study.toml").read_bytes()
    for page, action, fields, said in WRONG[::-every]:
        answer = studied.fill(page, action, fields)
        assert answer.status_code == 422, (page, fields)
        assert said in re.search('role="alert".*?</p>', answer.text, re.DOTALL)[0].lower(), (page, fields)
        for value in fields.values():
            if value and isinstance(value, str) and "\n" not in value and action == "/column":
                assert f'"{value}"' in answer.text or f">{value}<" in answer.text
    assert (tmp_path / "study.toml").read_bytes() == before
    assert actions(tmp_path) == []


EDITS = [
    ("/column?name=ward", "/column", {"levels": "A\nB"}),
    ("/protect", "/protect", {"unit": "row", "title": "x"}),
    ("/question?name=readmission", "/question", {"epsilon": "0.7"}),
    ("/questions", "/question/delete", {}),
    ("/column?name=ward", "/column/forget", {}),
    ("/budget", "/budget", {"step-readmission": "10"}),
    ("/release", "/release", {"typed": "people"}),
]


@pytest.mark.parametrize(
    ("page", "action", "fields"),
    cases(EDITS, quick=[EDITS[0], EDITS[-1]]),
)
def test_a_file_that_was_changed_meanwhile_is_not_overwritten(studied, tmp_path, page, action, fields):
    shown = {**dict(studied.fields(page, action)), **fields}
    path = tmp_path / "study.toml"
    path.write_text("# by hand\n" + path.read_text())
    answer = studied.send(action, list(shown.items()))
    assert "was changed meanwhile" in answer.text
    assert path.read_text().count("\n[") == 3
    assert path.read_text().startswith("# by hand\n")
    assert actions(tmp_path) == []


def test_comments_are_kept(tmp_path):
    from vestry.study.example_study import EXAMPLE

    (tmp_path / "study.toml").write_text(EXAMPLE)
    browser = Browser(tmp_path)
    browser.fill("/column?name=ward", "/column", levels="A\nB\nC")
    browser.fill("/question?name=stay", "/question", {"epsilon": "0.25"})
    browser.fill("/protect", "/protect", expected_rows="500")
    browser.fill("/question?model=count", "/question", {"name": "many", "epsilon": "0.1"})
    text = (tmp_path / "study.toml").read_text()
    for line in EXAMPLE.splitlines():
        comment = line.partition("#")[2]
        assert comment in text
    changed = [line for line in text.splitlines() if line not in EXAMPLE.splitlines()]
    assert changed == [
        "expected_rows = 500              # a guess at the number of records: check, plan and \"auto\" go by it",
        'ward       = { levels = ["A", "B", "C"], missing = "drop" }',
        "spend = { epsilon = 0.25 }",
        "[release.many]",
        'model = "count"',
        "spend = { epsilon = 0.1 }",
    ]  # fmt: skip


# Nothing is paid twice


def test_a_repeated_request_pays_once(studied, tmp_path):
    fields = [*(each for each in studied.fields("/release", "/release") if each[0] != "typed"), ("typed", "people")]
    for _ in range(3):  # a double click, a reload
        assert studied.send("/release", fields).path == "/progress"
    studied.desk.job.wait()
    assert studied.send("/release", fields).path == "/progress"
    assert actions(tmp_path) == ["charge", "open", "release"]


def test_a_confirmation_holds_for_the_ledger_that_it_showed(studied, tmp_path):
    fields = [*(each for each in studied.fields("/release", "/release") if each[0] != "typed"), ("typed", "people")]
    Study.open(tmp_path / "study.toml").ledger.charge("epsilon=0.1", purpose="another tab")
    answer = studied.send("/release", fields)
    assert (answer.status_code, "The ledger was written to meanwhile" in answer.text) == (409, True)
    assert actions(tmp_path) == ["charge"]


@pytest.mark.long
def test_two_tabs_pay_once(studied, tmp_path):
    tabs = [
        [*(each for each in studied.fields("/release", "/release") if each[0] != "typed"), ("typed", "people")]
        for _ in range(2)
    ]
    studied.send("/release", tabs[0])
    studied.desk.job.wait()
    answer = studied.send("/release", tabs[1])
    assert (answer.status_code, "The ledger was written to meanwhile" in answer.text) == (409, True)
    again = [each for each in studied.fields("/release", "/release") if each[0] != "typed"]
    studied.send("/release", [*again, ("typed", "people")])
    studied.desk.job.wait()
    assert studied.desk.job.progress.outcomes == (("readmission", "released before, free"),)
    assert actions(tmp_path) == ["charge", "open", "release"]


@pytest.mark.long
def test_another_server_goes_on_where_one_was_killed(studied, tmp_path, monkeypatch):
    from vestry.mechanisms.additive_noise import Additive

    kept = Additive.release
    monkeypatch.setattr("vestry.pipeline.public_count", lambda *given: None)
    monkeypatch.setattr(Study, "release", lambda self, *names, **more: self.ledger.charge("epsilon=0.1", purpose="x"))
    studied.fill("/release", "/release", typed="people")
    studied.desk.job.wait()
    monkeypatch.undo()
    assert Additive.release is kept
    monkeypatch.setattr("vestry.study.report_data.page", lambda story, write=None: "<html></html>")
    other = Browser(tmp_path)
    assert "Nothing is being released" in other.get("/progress").text
    other.fill("/release", "/release", typed="people")
    other.desk.job.wait()
    assert other.desk.job.progress.status == "done"
    assert actions(tmp_path) == ["charge", "charge", "open", "release"]


def test_a_budget_that_is_exceeded_is_told_and_nothing_is_charged(browser, tmp_path):
    study_in(tmp_path, budget="{ epsilon = 0.2 }")
    assert "does not fit the budget" in browser.get("/check").text
    assert browser.get("/release").path == "/check"
    assert "Together they do not fit" in browser.get("/budget").text
    assert actions(tmp_path) == []


def test_what_fails_is_told_in_a_sentence(studied, monkeypatch, tmp_path):
    def failing(*given, **named):
        raise RuntimeError("a record: CANARY")

    monkeypatch.setattr(Study, "release", failing)
    studied.fill("/release", "/release", typed="people")
    studied.desk.job.wait()
    assert "RuntimeError" in studied.get("/progress").text
    monkeypatch.setattr(Study, "costs", failing)
    assert studied.get("/check").status_code == 500
    assert not [text for text in studied.seen if "CANARY" in text or "Traceback" in text]


# Turning the budget


def test_turning_answers_with_the_pieces_that_change(studied):
    wide = studied.get("/budget/turn?step-readmission=10").text
    short = studied.get("/budget/turn?step-readmission=60").text
    widths = [float(re.search(r"width</dt><dd>([0-9.]+)", text)[1]) for text in (wide, short)]
    guesses = [float(re.search(r"at most ([0-9.]+)", text)[1]) for text in (wide, short)]
    assert widths[0] > 2 * widths[1]
    assert guesses[0] < guesses[1] - 20
    assert 'hx-swap-oob="true"' in wide
    assert "<html" not in wide


def test_an_untouched_slider_changes_nothing(studied, tmp_path):
    before = (tmp_path / "study.toml").read_bytes()
    assert studied.fill("/budget", "/budget", {"next": "check"}).status_code == 200
    assert (tmp_path / "study.toml").read_bytes() == before


def test_the_lesson_shows_two_shapes_that_differ_by_the_factor():
    import math

    from vestry.page.lesson_page import WITH, WITHOUT, lesson, probability

    for epsilon in (0.1, 1.0, 3.0):
        ratios = [probability(x, WITH, epsilon) / probability(x, WITHOUT, epsilon) for x in range(-20, 70)]
        assert max(ratios) == pytest.approx(math.exp(epsilon))
        assert min(ratios) == pytest.approx(math.exp(-epsilon))
        assert sum(probability(x, WITH, epsilon) for x in range(-900, 900)) == pytest.approx(1)
        gain = sum(max(probability(x, WITH, epsilon) - probability(x, WITHOUT, epsilon), 0) for x in range(-900, 900))
        assert gain <= math.tanh(epsilon / 2) + 1e-12  # the guess that is shown bounds the best one
        assert len(lesson(epsilon).answers[0]) == 12


def test_the_example_begins_in_an_empty_folder_alone(tmp_path):
    browser = Browser(tmp_path)
    assert browser.fill("/", "/example").path == "/columns?done=begun"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["patients.csv", "patients.ledger", "study.toml"]
    assert browser.get("/check").status_code == 200
    (tmp_path / "study.toml").unlink()
    answer = browser.fill("/", "/example")
    assert (answer.status_code, "is a file called patients.csv already" in answer.text) == (422, True)


def test_a_run_is_begun_once_however_often_it_is_asked_for():
    import threading

    from vestry.page.release_job import ReleaseJob

    begun, end = [], threading.Event()

    class Slow:
        def release(self, *names, **more):
            begun.append(names)
            end.wait(20)

    job, answers = ReleaseJob(), []
    clicks = [threading.Thread(target=lambda: answers.append(job.begin("key", Slow(), ["a"]))) for _ in range(8)]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    assert sorted(answers) == [False] * 7 + [True]
    assert not job.begin("another key", Slow(), ["a"])  # one runs
    end.set()
    job.wait()
    assert not job.begin("key", Slow(), ["a"])
    assert job.begin("a new key", Slow(), ["b"])
    job.wait()
    assert begun == [("a",), ("b",)]
    assert job.progress.status == "done"
