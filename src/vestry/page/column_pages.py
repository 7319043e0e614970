"""The columns: names and types as the data have them, and what each may contain as the user declares it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.responses import Response

from vestry.data.source import dialect_from
from vestry.errors import InvalidParameter, VestryError
from vestry.page.column_form import (
    KINDS,
    LACKS,
    LEVEL_TYPES,
    MISSING,
    declaration,
    fields_of,
    kind_of,
    kind_of_type,
)
from vestry.page.study_draft import StudyDraft
from vestry.page.visit import Visit
from vestry.study.study_template import column_types

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_LONGEST = 1000


def columns(visit: Visit, error: str = "", status: int = 200) -> Response:
    """List the columns."""
    draft = visit.draft()
    declared = draft.section("columns")
    types, asks, fault = _types(visit, draft)
    rows = [(name, _type_words(types.get(name)), _declared_words(declared.get(name))) for name in {**types, **declared}]
    path = _path(visit, draft)
    untyped = bool(types) and path is not None and path.name.lower().endswith(_CSV)
    facts = {"rows": rows, "asks": asks, "fault": fault, "error": error, "seal": draft.seal, "here": "/columns",
             "untyped": untyped}  # fmt: skip
    return visit.page("columns.html", status=status, person=_person(draft), **facts)


def known_names(visit: Visit, draft: StudyDraft) -> list[str]:
    """Return the names of columns that may be shown: declared ones, and those of the data."""
    return list(dict.fromkeys([*_types(visit, draft)[0], *draft.section("columns")]))


def lacking(visit: Visit, draft: StudyDraft, name: str) -> bool:
    """Tell whether the table is known to have no such column."""
    types = _types(visit, draft)[0]
    return bool(types) and name not in types


def names(visit: Visit) -> Response:
    """Note that the first line of the CSV file holds names, as the user says, if it looks like it."""
    draft = visit.draft()
    path = _path(visit, draft)
    if path is None:
        return visit.go("/columns")
    if visit.given("header") != "yes":
        return columns(visit, "Say first that the first line holds names: a record there would be shown.", 422)
    try:
        column_types(str(path), _dialect(draft), header=True)
    except VestryError:
        sentence = "The first line does not hold a name for each column, each once, and is not shown."
        return columns(visit, sentence, 422)
    visit.desk.named.add(path)
    return visit.go("/columns", done="named")


def column(visit: Visit) -> Response:
    """Show the form of one column, by kind."""
    draft, name = visit.draft(), visit.query_field("name")
    record = draft.section("columns", name)
    types, _, _ = _types(visit, draft)
    kind = visit.query_field("kind") or kind_of(record) or kind_of_type(types.get(name))
    return _column_page(visit, draft, name, kind if kind in KINDS else "levels", fields_of(record))


def save_column(visit: Visit) -> Response:
    """Declare one column."""
    draft = visit.draft()
    name, kind = visit.given("name"), visit.given("kind")
    try:
        if not name or not name.isprintable() or len(name) > _LONGEST:
            raise InvalidParameter("a column's name", name, "one line of text", "the name that the data have for it")
        given = dict(visit.form)
        changed = draft.with_value(("columns",), name, declaration(kind, given))
        _check_column(changed, name)
        changed.save(visit.given("seal"))
    except VestryError as error:
        kind = kind if kind in KINDS else "levels"
        shown = {**fields_of({}), **{key: value for key, value in visit.form if key in fields_of({})}}
        return _column_page(visit, draft, name, kind, shown, str(error))
    return visit.go("/columns", done="saved")


def forget_column(visit: Visit) -> Response:
    """Take a declaration out of the file; the column is then not read."""
    draft = visit.draft()
    try:
        draft.without(("columns",), visit.given("name")).save(visit.given("seal"))
    except VestryError as error:
        return columns(visit, str(error), 409)
    return visit.go("/columns", done="removed")


def _column_page(
    visit: Visit, draft: StudyDraft, name: str, kind: str, fields: Mapping[str, str], error: str = ""
) -> Response:
    facts = {"kinds": KINDS, "missing": MISSING, "level_types": LEVEL_TYPES, "fields": fields, "here": "/columns",
             "lacks": LACKS}  # fmt: skip
    declared = name in draft.section("columns")
    return visit.page("column.html", status=422 if error else 200, column=name, kind=kind, declared=declared,
                      error=error, seal=draft.seal, fresh=not name, **facts)  # fmt: skip


def _check_column(draft: StudyDraft, name: str) -> None:
    """Refuse a declaration that the study's reader refuses; what else is wrong with the file can wait."""
    fault = draft.fault()
    key = getattr(fault, "key", "")
    if fault is not None and (key == f"columns.{name}" or key.startswith(f"columns.{name}.")):
        raise VestryError(getattr(fault, "reason", str(fault)))


def _types(visit: Visit, draft: StudyDraft) -> tuple[dict[str, Any], bool, str]:
    """Return names and types, whether to ask about a CSV file's first line, and why nothing is known."""
    path = _path(visit, draft)
    if path is None:
        return {}, False, ""
    is_csv = path.name.lower().endswith(_CSV)
    if is_csv and path not in visit.desk.named:
        return {}, True, ""
    try:
        return dict(column_types(str(path), _dialect(draft), header=is_csv)), False, ""
    except VestryError as error:
        return {}, False, str(error)


def _path(visit: Visit, draft: StudyDraft) -> Path | None:
    """Return the file of the records, if it is one that may be looked at; None if it is elsewhere."""
    data = draft.section("study").get("data")
    if not isinstance(data, str) or "://" in data:
        return None
    try:
        path = (visit.desk.path.parent / data).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    inside = any(path.is_relative_to(folder) for folder in visit.desk.choice.folders)
    return path if inside and path.is_file() else None


def _dialect(draft: StudyDraft) -> Any:
    given = draft.section("study").get("csv")
    return dialect_from(given if isinstance(given, Mapping) else None)


def _person(draft: StudyDraft) -> str:
    unit = draft.section("study").get("unit")
    return str(unit.get("person", "")) if isinstance(unit, Mapping) else ""


def _type_words(dtype: Any) -> str:
    if dtype is None:
        return ""
    words = {"string": "text", "boolean": "true or false", "integer": "whole numbers", "numeric": "numbers",
             "date": "dates", "timestamp": "times"}  # fmt: skip
    return next((word for kind, word in words.items() if getattr(dtype, f"is_{kind}")()), "other")


def _declared_words(record: Any) -> str:
    """Say in a few words what is declared; nothing if nothing is."""
    if not isinstance(record, Mapping):
        return ""
    kind = kind_of(record)
    shown = fields_of(record)
    words = {
        "levels": f"one of {', '.join(shown['levels'].splitlines()[:6])}"
        + (" ..." if shown["levels"].count("\n") > 5 else ""),
        "number": f"a number from {shown['low']} to {shown['high']}",
        "count": f"a count up to {shown['high']}",
        "date": f"a date from {shown['low']} to {shown['high']}",
    }
    bins = f", in bins {shown['bins']}" if shown["bins"] else ""
    derived = f", computed as {shown['from']}" if shown["from"] else ""
    missing = {"drop": "; omitted if missing", "level": "; missing is a level",
               "value": f"; {shown['missing_value']} if missing"}.get(shown["missing"], "")  # fmt: skip
    return words.get(kind, "computed") + bins + derived + missing
