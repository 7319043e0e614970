"""Who is protected: a row or a person, and which change is hidden; and what the report's first page says."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from vestry.errors import InvalidParameter, VestryError
from vestry.page.column_pages import known_names, lacking
from vestry.page.study_draft import StudyDraft
from vestry.page.visit import Visit
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.report.guarantee_section import protected
from vestry.study.config import IMPRINT
from vestry.study.toml_table import check_text

# What the report's first page says: key, label, what to write.
PAPERS = (
    ("title", "Title", "What the report is called."),
    ("issuer", "Issuer", "Who issues it."),
    ("contact", "Contact", "Whom readers may ask."),
    ("purpose", "Purpose", "Why the data are used."),
)


def protect(visit: Visit) -> Response:
    """Show the form."""
    draft = visit.draft()
    study = draft.section("study")
    unit = study.get("unit", "row")
    person = isinstance(unit, Mapping)
    fields = {
        "unit": "person" if person else "row",
        "person": str(unit.get("person", "")) if isinstance(unit, Mapping) else "",
        "rows": str(unit.get("rows", "")) if isinstance(unit, Mapping) else "",
        "neighbours": str(study.get("neighbours", "add-remove")),
        "expected_rows": str(study.get("expected_rows", "")),
        **{key: str(study.get(key, "")) for key in IMPRINT},
    }
    return _shown(visit, draft, fields)


def save_protect(visit: Visit) -> Response:
    """Write unit, neighbours and the first page's words into the file."""
    draft = visit.draft()
    try:
        changed = draft.with_value(("study",), "unit", _unit(visit, draft))
        neighbours = str(Neighbours.parse(visit.given("neighbours")))
        changed = changed.with_value(("study",), "neighbours", neighbours)
        changed = changed.with_value(("study",), "expected_rows", _rows(visit.given("expected_rows")))
        for key, _, _ in PAPERS:
            text = visit.given(key)
            if text:
                check_text(key, text)
            changed = changed.with_value(("study",), key, text or None)
        changed.save(visit.given("seal"))
    except VestryError as error:
        return _shown(visit, draft, dict(visit.form), str(error))
    return visit.go("/questions" if not visit.given("stay") else "/protect", done="saved")


def _unit(visit: Visit, draft: StudyDraft) -> Any:
    if visit.given("unit") == "row":
        return "row"
    if visit.given("unit") != "person":
        raise InvalidParameter("unit", visit.given("unit"), "a row or a person", "one of them")
    if not visit.given("person"):
        raise InvalidParameter("person", "nothing", "the column that identifies a person", "its name")
    if lacking(visit, draft, visit.given("person")):
        raise InvalidParameter("person", visit.given("person"), "a column of the table", "its name as the table has it")
    try:
        rows = int(visit.given("rows"))
    except ValueError:
        raise InvalidParameter("rows", visit.given("rows"), "a whole number from 1", "3") from None
    Unit(visit.given("person"), rows)
    return {"person": visit.given("person"), "rows": rows}


def _rows(text: str) -> int | None:
    if not text:
        return None
    try:
        rows = int(text)
    except ValueError:
        rows = 0
    if not 1 <= rows <= 10**12:
        raise InvalidParameter("the expected number of records", text, "a whole number from 1", "2000")
    return rows


def _shown(visit: Visit, draft: StudyDraft, fields: Mapping[str, str], error: str = "") -> Response:
    owned = ""
    with suppress(VestryError):
        study = draft.study()
        if study.has_ledger():
            terms = study.ledger.terms
            owned = protected(terms.unit, terms.neighbours)
    known = {"unit": "row", "person": "", "rows": "", "neighbours": "", "expected_rows": ""}
    blank = {**known, **dict.fromkeys(IMPRINT, "")}
    return visit.page("protect.html", status=422 if error else 200, fields={**blank, **fields}, papers=PAPERS,
                      owned=owned, names=known_names(visit, draft), error=error,
                      seal=draft.seal, here="/protect")  # fmt: skip
