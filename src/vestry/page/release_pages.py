"""Check, release and read: what it would cost, the typed confirmation, the report, the ledger."""

from __future__ import annotations

import hmac
from contextlib import suppress
from typing import Any

from starlette.responses import HTMLResponse, Response

from vestry.errors import VestryError
from vestry.files import read_bytes
from vestry.ledger import Ledger
from vestry.noise import SystemNoise
from vestry.page.guard import REPORT_POLICY
from vestry.page.study_draft import FileChanged
from vestry.page.visit import Visit
from vestry.report.guarantee_section import protected
from vestry.study import Study
from vestry.study.storage import REPORT, RESULTS

# How many lines of a ledger are shown, the newest ones.
_LINES = 100


def check(visit: Visit, error: str = "", status: int = 200) -> Response:
    """Show what each release would cost and whether it fits, and what is still missing."""
    draft = visit.draft()
    facts: dict[str, Any] = {"seal": draft.seal, "error": error, "here": "/check"}
    try:
        study = draft.study()
        known = _facts(study)
    except VestryError as fault:
        return visit.page("check.html", status=status, fault=str(fault), ready=False, **facts)
    return visit.page("check.html", status=status, fault="", **known, **facts)


def _facts(study: Study) -> dict[str, Any]:
    config = study.config
    has_ledger, lacks_data = study.has_ledger(), study.lacks_data()
    costs = study.costs()
    faults: tuple[str, ...] = ()
    if not lacks_data:
        with suppress(VestryError):
            faults = study.data_faults()
    rows = [
        (cost.name, cost.question, cost.spend, cost.mechanism,
         study.format_parameter(cost.name, cost.parameter, cost.value),
         cost.state if cost.state != "new" else "fits" if cost.fits else "does not fit the budget")
        for cost in costs
    ]  # fmt: skip
    due = [cost.name for cost in costs if cost.state == "new"]
    fits = all(cost.fits for cost in costs)
    return {
        "rows": rows,
        "has_ledger": has_ledger,
        "lacks_data": lacks_data,
        "data": config.data,
        "data_faults": faults,
        "fits": fits,
        "due": due,
        "remaining": study.remaining(),
        "protects": protected(config.schema.unit, config.schema.neighbours),
        "budget": str(config.budget),
        "ledger": config.ledger,
        "dataset": config.dataset or config.name,
        "ready": has_ledger and not lacks_data and not faults and (fits or not due),
    }


def create_ledger(visit: Visit) -> Response:
    """Make the ledger that the study names, with the study's terms; once."""
    draft = visit.draft()
    try:
        if draft.seal != visit.given("seal"):
            raise FileChanged(draft.path.name)
        study = draft.study()
        config = study.config
        if study.has_ledger():
            return visit.go("/check")
        address = config.ledger if "://" in config.ledger else str(config.folder / config.ledger)
        Ledger.create(
            address,
            dataset=config.dataset or config.name,
            unit=config.schema.unit,
            neighbours=config.schema.neighbours,
            budget=config.budget,
        )
    except VestryError as error:
        return check(visit, str(error), 422)
    return visit.go("/check", done="ledger")


def release(visit: Visit, error: str = "", status: int = 200) -> Response:
    """Ask for the typed confirmation of what would be spent."""
    if visit.desk.job.running:
        return visit.go("/progress")
    draft = visit.draft()
    facts: dict[str, Any] = {"seal": draft.seal, "error": error, "here": "/release"}
    try:
        study = draft.study()
        known = _facts(study)
        if not known["ready"]:
            return visit.go("/check")
        head = study.ledger.head()
    except VestryError as fault:
        return visit.page("check.html", status=status, fault=str(fault), ready=False, **{**facts, "here": "/check"})
    chosen = {value for name, value in visit.form if name == "release"}
    # A key for each confirmation that is shown: it pays once.
    key = SystemNoise().random_bytes(16).hex()
    return visit.page("release.html", status=status, **known, **facts, key=key, head=head, chosen=chosen,
                      first=_first(study, known["due"]), typed=study.config.name)  # fmt: skip


def _first(study: Study, due: list[str]) -> str:
    """Return the release that says whether values fit, if it and others are still to be paid for."""
    names = [each.name for each in study.config.releases if each.request.model.name == "quality" and each.name in due]
    return names[0] if names and len(due) > 1 else ""


def spend(visit: Visit) -> Response:
    """Release what was confirmed. What was confirmed before, with the same key, is not begun again."""
    job, key = visit.desk.job, visit.given("key")
    if job.used(key) or job.running:
        return visit.go("/progress")
    if len(key) != 32:
        return release(visit, "The confirmation has no key; confirm it here.", 422)
    draft = visit.draft()
    try:
        if not hmac.compare_digest(draft.seal, visit.given("seal")):
            raise FileChanged(draft.path.name)
        study = draft.study()
        if not hmac.compare_digest(study.ledger.head(), visit.given("head")):
            return release(visit, "The ledger was written to meanwhile; look at what would be spent again.", 409)
    except VestryError as error:
        return release(visit, str(error), 409)
    except TypeError:  # text that is not ASCII
        return release(visit, "The confirmation cannot be read; confirm it here.", 422)
    known = [each.name for each in study.config.releases]
    names = list(dict.fromkeys(value for name, value in visit.form if name == "release"))
    if not names or any(name not in known for name in names):
        return release(visit, "Choose at least one question.", 422)
    if visit.given("typed") != study.config.name:
        return release(visit, f"To confirm, type the study's name: {study.config.name}.", 422)
    job.begin(key, study, names)
    return visit.go("/progress")


def progress(visit: Visit) -> Response:
    """Show how far a release is; looking at it spends nothing."""
    return visit.page("progress.html", progress=visit.desk.job.progress, here="/release")


def progress_piece(visit: Visit) -> Response:
    """Return the part of that page that changes."""
    return HTMLResponse(visit.markup("progress_piece.html", progress=visit.desk.job.progress))


def results(visit: Visit) -> Response:
    """Say where the report is, and what it holds."""
    folder = visit.desk.path.parent
    return visit.page("results.html", report=(folder / REPORT).is_file(), table=(folder / RESULTS).is_file(),
                      here="/results")  # fmt: skip


def report(visit: Visit) -> Response:
    """Serve the report, which may do nothing but be read."""
    path = visit.desk.path.parent / REPORT
    try:
        real = path.resolve(strict=True)
        if real != path.parent.resolve() / REPORT:
            raise FileNotFoundError
        content = read_bytes(real)
    except OSError:
        return visit.page("results.html", status=404, report=False, table=False, here="/results")
    return Response(content, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


def ledger(visit: Visit, error: str = "", status: int = 200) -> Response:
    """Show what was spent, what remains, and the ledger's newest lines."""
    facts: dict[str, Any] = {"error": error, "here": "/ledger", "verified": ""}
    try:
        study = visit.study()
        if not study.has_ledger():
            return visit.page("ledger.html", status=status, fault="There is no ledger yet; the page Check makes it.",
                              **facts)  # fmt: skip
        book = study.ledger
        now = book.summary()
        if visit.query_field("verify"):
            facts["verified"] = f"{book.verify().entries} entries verified: no line was changed."
        lines = list(book.entries())[-_LINES:]
    except VestryError as fault:
        return visit.page("ledger.html", status=status, fault=str(fault), **facts)
    filter, spent = now.state
    rows = [
        (str(line.sequence), str(line.facts.get("when", "")).replace("T", " ")[:16], line.action, _purpose(line),
         str(line.facts.get("who", "")))
        for line in reversed(lines)
    ]  # fmt: skip
    terms = book.terms
    return visit.page("ledger.html", status=status, fault="", rows=rows, budget=str(filter.budget),
                      spent=filter.amounts_spent(spent), remaining=filter.left(spent), head=now.head,
                      dataset=terms.dataset, protects=protected(terms.unit, terms.neighbours),
                      **facts)  # fmt: skip


def _purpose(line: Any) -> str:
    if line.target is not None:
        return f"of entry {line.target}"
    return str(line.facts.get("purpose", line.facts.get("reason", line.facts.get("dataset", ""))))
