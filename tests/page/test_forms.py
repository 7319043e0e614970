"""Every model has its form, and a form writes what a study file would: there and back, for all of them."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest
from page.browser import Browser, Forms
from share import cases

from vestry.page.column_form import declaration, fields_of, kind_of
from vestry.page.question_form import COMMON_HELP, HELP, MORE_QUESTIONS, QUESTIONS
from vestry.page.question_form import fields_of as question_fields
from vestry.page.study_draft import StudyDraft
from vestry.registry import MODELS
from vestry.study import Study

pytestmark = pytest.mark.property

COLUMNS = """
[study]
name = "s"
data = "s.parquet"
unit = "row"
neighbours = "replace"
budget = { epsilon = 9, delta = 1e-5 }
ledger = "s.ledger"

[columns]
yes = { levels = [false, true] }
ward = { levels = ["A", "B", "C"] }
month = { levels = [1, 2, 3] }
age = { interval = [0, 120], bins = [0, 18, 65, 120] }
stay = { interval = [0, 60] }
share = { interval = [0, 1] }
wait = { interval = [1, 60] }
visits = { count = 9 }
cases = { count = 9, bins = [0, 3, 9] }
"""
# Of each model the lines that a person would write.
LINES = {
    "beta-bernoulli": 'column = "yes"\nsuccess = true\nby = ["ward", "month"]\nprior = [2, 2]\npool = true',
    "dirichlet-categorical": 'column = "ward"\nprior = [1, 2, 3]',
    "normal-mean": 'column = "stay"\nvariance = 50\nprior = [10, 100]\nby = "ward"\nwant = { width = 0.5 }',
    "gamma-poisson": 'column = "visits"\nprior = [2, 1.5]',
    "gamma-exponential": 'column = "wait"\nby = "ward"',
    "normal-inverse-gamma": 'column = "stay"\nprior = [10, 1, 2, 50]',
    "statistical-query": 'column = "share"',
    "logistic": 'outcome = "yes"\npredictors = ["stay", "ward"]\nprior_precision = 2\nsuccess = true',
    "poisson": 'outcome = "visits"\npredictors = ["ward", "age"]\ninteractions = ["ward:age"]',
    "linear": 'formula = "stay ~ visits + ward"',
    "naive-bayes": 'features = ["ward", "month"]\ntarget = "yes"\nprior = 1',
    "hmm": 'sequence = { region = "ward", time = "month" }\nfeatures = ["yes"]\nstates = 3\ncell = "public"',
    "quality": 'columns = ["ward", "stay"]\npurpose = "first of all"',
    "count": 'by = "ward"',
    "histogram": 'column = "stay"\nbins = 12',
    "quantile": 'column = "stay"\nquantiles = [0.25, 0.5]\nbins = [0, 5, 10, 60]\nby = "ward"',
    "levels": 'column = "diagnosis"\nleast = 3',
    "table": 'columns = ["yes", "ward"]\nzeros = [["true", "A"], ["false", "B"]]',
}


def spend_of(model: str) -> dict[str, float]:
    return {"epsilon": 0.3, **({"delta": 1e-7} if model == "levels" else {})}


def test_every_model_is_asked_in_plain_words():
    assert set(QUESTIONS) | set(MORE_QUESTIONS) == set(MODELS) == set(LINES)
    assert len(QUESTIONS) == 6
    for model in MODELS:
        assert {each.key for each in question_fields(model)} <= set(HELP), model
    assert all(words.endswith(".") for _, words in (*HELP.values(), *COMMON_HELP.values()))


def test_a_form_offers_what_fits(tmp_path):
    """Levels of bins and conditions can be chosen, groups are of columns of levels, and a name is a common word."""
    (tmp_path / "study.toml").write_text(f'{COLUMNS}long = {{ from = "stay > 7" }}\n[release.share]\nmodel = "count"\n')
    page = Browser(tmp_path).get("/question?model=beta-bernoulli").text
    assert 'name="name" type="text" value="share-2"' in page
    for level in ("65 to 120", "true", "C"):
        assert f'<option value="{level}">' in page
    groups = re.findall('name="key-by" value="([a-z]+)"', page)
    assert groups == ["yes", "ward", "month", "age", "cases", "long"]
    assert ">stay: a number</option>" in page
    assert ">age: a number, in bins</option>" in page


def test_a_question_that_takes_rows_as_independent_names_those_that_weigh_persons(tmp_path):
    said = "this question takes them as independent"
    persons = COLUMNS.replace('unit = "row"', 'unit = { person = "ward", rows = 3 }')
    for text, model, warned in (
        (persons, "normal-inverse-gamma", True),
        (persons, "normal-mean", False),
        (persons, "count", False),
        (COLUMNS, "normal-inverse-gamma", False),
    ):
        (tmp_path / "study.toml").write_text(text)
        page = Browser(tmp_path).get(f"/question?model={model}").text
        assert (said in page) == ('href="/question?model=normal-mean"' in page) == warned, model


@pytest.mark.parametrize("model", cases(LINES, quick=["beta-bernoulli", "table", "hmm"]))
def test_a_question_goes_through_its_form_and_stays_what_it_was(tmp_path, model):
    path = tmp_path / "study.toml"
    spend = ", ".join(f"{key} = {value}" for key, value in spend_of(model).items())
    path.write_text(f'{COLUMNS}\n[release.it]   # why\nmodel = "{model}"\n{LINES[model]}\nspend = {{ {spend} }}\n')
    before = path.read_text()
    spec = Study.open(path).config.release("it")
    browser = Browser(tmp_path)
    answer = browser.fill("/question?name=it", "/question")
    assert answer.path == "/questions?done=saved", answer.text
    assert path.read_text() == before
    browser.fill("/question?name=it", "/question", {"epsilon": "0.4", "key-purpose": "again"})
    after = Study.open(path).config.release("it")
    assert after.request.model == spec.request.model
    assert (after.request.guarantee.value, after.purpose) == (0.4, "again")


@pytest.mark.parametrize("model", LINES)
def test_a_new_question_is_what_the_lines_say(tmp_path, model):
    path = tmp_path / "study.toml"
    path.write_text(COLUMNS)
    browser = Browser(tmp_path)
    record = tomllib.loads(LINES[model])
    given = {"name": "it", **{key: str(value) for key, value in spend_of(model).items()}}
    for key, value in record.items():
        if key == "sequence":
            given |= {f"key-{key}-{part}": name for part, name in value.items()}
        elif key == "zeros":
            given["key-zeros"] = "\n".join(", ".join(each) for each in value)
        elif key == "want":
            given["key-want"] = str(value["width"])
        elif isinstance(value, bool):
            given[f"key-{key}"] = ("true" if value else "false") if key == "success" else "yes" if value else None
        elif key in ("columns", "features", "predictors", "by"):
            given[f"key-{key}"] = value if isinstance(value, list) else [value]
        else:
            given[f"key-{key}"] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    answer = browser.fill(f"/question?model={model}", "/question", given)
    assert answer.path == "/questions?done=saved", answer.text
    assert tomllib.loads(path.read_text())["release"]["it"] == {
        "model": model,
        **record,
        "spend": spend_of(model),
    }


DECLARED = [
    '{ levels = ["A", "B"] }',
    "{ levels = [1, 2, 30] }",
    "{ levels = [false, true], missing = \"level\" }",
    '{ levels = [" a", "b"], exact = true, missing = { value = "b" } }',
    "{ interval = [0, 60], missing = { value = 0 } }",
    '{ interval = [-1.5, 2], bins = [-1.5, 0, 2], missing = "level" }',
    "{ interval = [2020-01-01, 2024-12-31], format = \"%d.%m.%Y\", missing = { value = 2021-01-01 } }",
    "{ count = 9, bins = [0, 3, 9], missing = \"drop\" }",
    '{ interval = [0, 120], from = "2 * stay" }',
    '{ from = "stay > 3" }',
]  # fmt: skip


@pytest.mark.parametrize("line", DECLARED)
def test_a_declaration_goes_through_its_form_and_stays_what_it_was(line):
    record = tomllib.loads(f"x = {line}")["x"]
    if record.get("exact"):
        record["levels"] = ["a", "b"]  # white space at the ends of a line cannot be written in a form
    assert declaration(kind_of(record) or "levels", fields_of(record)) == record


# The file


def draft_of(tmp_path: Path, text: str) -> StudyDraft:
    (tmp_path / "study.toml").write_text(text)
    return StudyDraft.of(tmp_path / "study.toml")


def test_an_edit_changes_its_own_line_alone(tmp_path):
    text = COLUMNS.replace("[columns]", "[columns]   # what they hold\n# new = { levels = [] }   # to be declared")
    draft = draft_of(tmp_path, text)
    changed = draft.with_value(("columns",), "new", {"levels": ["a", "b"]})
    assert [line for line in changed.text.splitlines() if line not in text.splitlines()] == [
        'new = { levels = ["a", "b"] }'
    ]
    assert len(changed.text.splitlines()) == len(text.splitlines())
    odd = changed.with_value(("columns",), 'odd "name" = #', {"count": 3})
    assert odd.section("columns")['odd "name" = #'] == {"count": 3}
    assert odd.without(("columns",), 'odd "name" = #').record == changed.record


def test_a_file_is_written_whole_with_its_mode(tmp_path):
    draft = draft_of(tmp_path, COLUMNS)
    draft.path.chmod(0o640)
    changed = draft.with_value(("study",), "name", "other")
    changed.save(hashlib.sha256(COLUMNS.encode()).hexdigest())
    assert draft.path.read_text() == COLUMNS.replace('"s"', '"other"', 1)
    assert draft.path.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_file_that_is_no_toml_is_told_with_its_line(tmp_path):
    (tmp_path / "study.toml").write_text("[study\n")
    browser = Browser(tmp_path)
    for path, status in (("/", 422), ("/columns", 422), ("/questions", 422), ("/check", 200)):
        answer = browser.get(path)
        assert (answer.status_code, "study.toml, line 1" in answer.text) == (status, True)


def test_htmx_is_the_file_that_is_recorded():
    import json
    from importlib.resources import files

    folder = files("vestry.page").joinpath("static")
    record = json.loads(folder.joinpath("htmx.json").read_text())
    content = folder.joinpath("htmx.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == record["sha256"]
    assert f'version:"{record["version"]}"'.encode() in content
    assert "Zero-Clause BSD" in folder.joinpath("htmx.LICENSE").read_text()


def test_the_reader_of_forms_reads_forms():
    shown = (
        '<form action="/a"><input name="x" value="1"><input type="radio" name="y" value="2" checked>'
        '<textarea name="z">3</textarea></form>'
    )
    (form,) = Forms(shown).forms
    assert parse_qsl(urlencode(form["fields"])) == [("x", "1"), ("y", "2"), ("z", "3")]
