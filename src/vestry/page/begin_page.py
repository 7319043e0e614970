"""The first steps: choose a table, or begin with fictional patients; and let a browser in."""

from __future__ import annotations

import os

from starlette.responses import Response

from vestry.errors import VestryError
from vestry.ledger import Ledger
from vestry.page.guard import COOKIE
from vestry.page.study_draft import create
from vestry.page.visit import Visit
from vestry.study import Study
from vestry.study.example_study import EXAMPLE, example_records
from vestry.study.study_template import template_from

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


def front(visit: Visit) -> Response:
    """Show how far the study is, or how to begin one."""
    if not visit.begun:
        return _beginning(visit)
    draft = visit.draft()
    return visit.page("front.html", fault=draft.fault(), study=draft.section("study"), columns=draft.section("columns"),
                      releases=draft.section("release"))  # fmt: skip


def begin(visit: Visit) -> Response:
    """Write a new study file for a table, from its names and types alone."""
    if visit.begun:
        return visit.go("/")
    if visit.given("file") == "":
        return _beginning(visit, "Choose a file.", 422)
    try:
        path = visit.desk.choice.find(visit.given("file"))
        header = visit.given("header") == "yes"
        template = template_from(str(path), visit.desk.path.parent, header=header)
        create(visit.desk.path, template.text)
    except VestryError as error:
        return _beginning(visit, _in_words(str(error)), 422)
    if header:
        visit.desk.named.add(path)
    return visit.go("/columns", done="begun")


def begin_example(visit: Visit) -> Response:
    """Write the study of fictional patients, its records and its ledger; into an empty place alone."""
    folder = visit.desk.path.parent
    records = folder / "patients.csv"
    ledger = folder / "patients.ledger"
    taken = next((each.name for each in (records, ledger) if os.path.lexists(each)), None)
    if visit.begun:
        return visit.go("/")
    if taken is not None:
        return _beginning(visit, f"There is a file called {taken} already; begin the example in an empty folder.", 422)
    try:
        create(records, example_records())
        create(visit.desk.path, EXAMPLE)
        config = Study.open(visit.desk.path).config
        schema = config.schema
        terms = {"unit": schema.unit, "neighbours": schema.neighbours, "budget": config.budget}
        Ledger.create(ledger, dataset=config.name, **terms)  # type: ignore[arg-type]
    except VestryError as error:
        return _beginning(visit, str(error), 422)
    visit.desk.named.add(records.resolve())
    return visit.go("/columns", done="begun")


def enter(visit: Visit) -> Response:
    """Let a browser in for a one-use token; without one, ask for it."""
    if not visit.form:
        return visit.page("enter.html", status=401 if not visit.session else 200)
    session = visit.desk.entrance.admit(visit.given("key"))
    if session is None:
        said = "This key is wrong, or it was used; open the file that vestry open names once more."
        return visit.page("enter.html", status=403, error=said)
    answer = visit.page("entered.html")
    answer.set_cookie(COOKIE, session, httponly=True, samesite="strict", path="/")
    return answer


def close(visit: Visit) -> Response:
    """End the page; a release that runs is finished first."""
    visit.desk.close()
    return visit.page("closed.html")


def _beginning(visit: Visit, error: str = "", status: int = 200) -> Response:
    files = [(name, name.lower().endswith(_CSV)) for name in visit.desk.choice.files()]
    return visit.page("begin.html", status=status, files=files, error=error, here="/",
                      chosen=visit.given("file"))  # fmt: skip


def _in_words(sentence: str) -> str:
    """Say it without the options of the command line."""
    if "--header" in sentence:
        return "Say first that the first line of this file holds the columns' names: a record there would be shown."
    if "first line is not shown" in sentence:
        return (
            "The first line of this file does not hold a name for each column, each once, and is not shown; write"
            " names into its first line, or describe it in a data dictionary."
        )
    return sentence.replace("--from", "the file")
