"""The questions: the releases of the study, and the form of each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from vestry.errors import InvalidParameter, VestryError
from vestry.model.request import can_average
from vestry.page.column_form import kind_of
from vestry.page.question_form import (
    CHOICES,
    MORE_QUESTIONS,
    NAME,
    NAMES,
    QUESTIONS,
    SPEND,
    common_fields,
    fields_of,
    release_from,
    values_of,
)
from vestry.page.study_draft import StudyDraft
from vestry.page.visit import Visit
from vestry.registry import MODELS
from vestry.schema.domain import Domain, Levels, domain_from


def questions(visit: Visit, error: str = "", status: int = 200) -> Response:
    """List the questions of the study, and those that may be added."""
    draft = visit.draft()
    rows = [(name, _words(record), _spend_words(record)) for name, record in draft.section("release").items()]
    more = {name: MORE_QUESTIONS.get(name, (name, "")) for name in MODELS if name not in QUESTIONS}
    return visit.page("questions.html", status=status, rows=rows, first=QUESTIONS, more=more, error=error,
                      columns=draft.section("columns"), seal=draft.seal, here="/questions")  # fmt: skip


def question(visit: Visit) -> Response:
    """Show the form of one question."""
    draft, name = visit.draft(), visit.query_field("name")
    record = draft.section("release", name) if name else {}
    model = str(record.get("model", visit.query_field("model")))
    if model not in MODELS:
        return questions(visit, "Choose one of the questions below.", 404)
    spend = record.get("spend", {"epsilon": 0.3} if not record else {})
    return _question_page(visit, draft, model, name, values_of(record), spend if isinstance(spend, Mapping) else {})


def save_question(visit: Visit) -> Response:
    """Write a question into the file, if the study's reader accepts it."""
    draft = visit.draft()
    before, name, model = visit.given("before"), visit.given("name"), visit.given("model")
    if model not in MODELS:
        return questions(visit, "Choose one of the questions below.", 422)
    try:
        if not NAME.fullmatch(name):
            raise InvalidParameter("a question's name", name, "at most 64 letters, digits, - and _", "readmission")
        known = draft.section("release")
        if name != before and name in known:
            raise InvalidParameter("a question's name", name, "not another question's", "another name")
        if before and before != name:
            raise InvalidParameter("a question's name", name, f"{before}, as it was", before)
        record = release_from(model, visit.form, draft.section("columns"), known.get(name, {}))
        changed = draft.with_release(name, record)
        fault = changed.fault()
        if fault is not None and f"{getattr(fault, 'key', '')}.".startswith(f"release.{name}."):
            raise VestryError(getattr(fault, "reason", str(fault)))
        changed.save(visit.given("seal"))
    except VestryError as error:
        spend = {key: visit.given(key) for key in SPEND if visit.given(key)}
        return _question_page(visit, draft, model, before or "", _shown(visit, model), spend, str(error), name)
    return visit.go("/questions", done="saved")


def delete_question(visit: Visit) -> Response:
    """Take a question out of the file; what was released stays where it is."""
    draft, name = visit.draft(), visit.given("name")
    if name not in draft.section("release"):
        return questions(visit, "There is no question of this name.", 404)
    try:
        draft.without(("release",), name).save(visit.given("seal"))
    except VestryError as error:
        return questions(visit, str(error), 409)
    return visit.go("/questions", done="removed")


def _question_page(
    visit: Visit, draft: StudyDraft, model: str, name: str, values: Mapping[str, Any], spend: Mapping[str, Any],
    error: str = "", written: str = "",
) -> Response:  # fmt: skip
    columns = draft.section("columns")
    levels = {column: domain.names for column, domain in _domains(columns).items() if isinstance(domain, Levels)}
    title, example = {**MORE_QUESTIONS, **QUESTIONS}.get(model, (model, ""))
    return visit.page(
        "question.html", status=422 if error else 200, model=model, title=title, example=example, question=name,
        written=written or name or _fresh_name(draft, model), own=fields_of(model), common=common_fields(),
        values=values, spend={key: str(value) for key, value in spend.items()},
        columns={column: _kind_words(record) for column, record in columns.items()},
        levels=levels, others=_weighing_persons(draft, model), choices=CHOICES, error=error, seal=draft.seal,
        here="/questions",
    )  # fmt: skip


def _shown(visit: Visit, model: str) -> dict[str, Any]:
    """Return what the user wrote, to be shown again."""
    shown: dict[str, Any] = {}
    for each in (*fields_of(model), *common_fields()):
        given = [value for key, value in visit.form if key == each.name]
        if each.kind == "pair":
            shown[each.key] = {part: visit.given(f"{each.name}-{part}") for part in ("region", "time")}
        elif each.kind == "flag":
            shown[each.key] = bool(given)
        elif given:
            shown[each.key] = given if each.kind in ("columns", "groups") else given[0]
    return shown


def _fresh_name(draft: StudyDraft, model: str) -> str:
    known = draft.section("release")
    word = NAMES.get(model, model)
    names = (word if number == 1 else f"{word}-{number}" for number in range(1, 10**6))
    return next(name for name in names if name not in known)


def _words(record: Any) -> str:
    if not isinstance(record, Mapping):
        return "this is not a question yet"
    title, _ = {**MORE_QUESTIONS, **QUESTIONS}.get(str(record.get("model")), (str(record.get("model", "")), ""))
    about = [record.get(key) for key in ("column", "outcome", "columns", "features", "formula") if record.get(key)]
    named = "; ".join(", ".join(map(str, each)) if isinstance(each, list) else str(each) for each in about)
    by = record.get("by")
    groups = f", by {', '.join(map(str, by)) if isinstance(by, list) else by}" if by else ""
    return f"{title} {named}{groups}".strip()


def _spend_words(record: Any) -> str:
    spend = record.get("spend") if isinstance(record, Mapping) else None
    return ", ".join(f"{key} = {value}" for key, value in spend.items()) if isinstance(spend, Mapping) else ""


def _weighing_persons(draft: StudyDraft, model: str) -> dict[str, str]:
    """Return the questions that weigh each person once, by model, if this one takes her rows as independent."""
    unit = draft.section("study").get("unit")
    several = isinstance(unit, Mapping) and unit.get("rows") != 1
    if not several or not hasattr(MODELS[model], "family_type") or can_average(MODELS[model]):
        return {}
    known = {**QUESTIONS, **MORE_QUESTIONS}
    return {name: known[name][0] for name in known if name in MODELS and can_average(MODELS[name])}


def _domains(columns: Mapping[str, Any]) -> dict[str, Domain]:
    """Return what the columns may contain; what is not declared rightly yet is omitted."""
    domains = {}
    for column, record in columns.items():
        with suppress(VestryError, TypeError, AttributeError):
            domains[column] = domain_from(record)
    return domains


def _kind_words(record: Any) -> str:
    """Say in a word or two what a column is declared to be."""
    words = {"levels": "one of a few values", "number": "a number", "count": "a count", "date": "a date"}
    known = record if isinstance(record, Mapping) else {}
    return words.get(kind_of(known), "computed") + (", in bins" if "bins" in known else "")
