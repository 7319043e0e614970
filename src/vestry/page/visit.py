"""One request and what it may use: the study file, the form, the query; and the answers that a page can give."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from vestry.page.file_choice import FileChoice
from vestry.page.guard import Entrance
from vestry.page.release_job import ReleaseJob
from vestry.page.study_draft import StudyDraft
from vestry.study import Study

# The steps of the journey: path, name.
STEPS = (
    ("/columns", "Columns"),
    ("/protect", "Who is protected"),
    ("/questions", "Questions"),
    ("/budget", "Budget"),
    ("/check", "Check"),
    ("/release", "Release"),
    ("/results", "Report"),
    ("/ledger", "Ledger"),
)
# What was done, in a sentence; a redirect names one of these and never brings words of its own.
DONE = {
    "begun": "The study file is there. Declare the columns that you want to use.",
    "saved": "Saved in the study file.",
    "removed": "Removed from the study file.",
    "ledger": "The ledger is there. It keeps what is spent from now on.",
    "named": "The first line holds names. No record was read.",
}


@dataclass(frozen=True)
class Desk:
    """What all requests share.

    Attributes
    ----------
    path
        The study file, which need not be there yet.
    choice
        The files that may be chosen.
    entrance, job
        Who is in, and what is being released.
    named
        Files whose first line holds names, as the user has said.
    close
        Ends the page.
    """

    path: Path
    choice: FileChoice
    entrance: Entrance = field(default_factory=Entrance)
    job: ReleaseJob = field(default_factory=ReleaseJob)
    named: set[Path] = field(default_factory=set)
    close: Callable[[], None] = lambda: None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass(frozen=True)
class Visit:
    """One request.

    Attributes
    ----------
    desk, session, path
        What is shared, whose request it is, and what it asks for.
    query, form
        The fields of the address, and of the form.
    """

    desk: Desk
    session: str
    path: str
    query: list[tuple[str, str]]
    form: list[tuple[str, str]]

    def query_field(self, name: str) -> str:
        """Return a field of the address; nothing if it is not there."""
        return next((value for key, value in self.query if key == name), "")

    def given(self, name: str) -> str:
        """Return a field of the form, without white space around it; nothing if it is not there."""
        return next((value.strip() for key, value in self.form if key == name), "")

    @property
    def begun(self) -> bool:
        """Whether there is a study file."""
        return self.desk.path.exists()

    def draft(self) -> StudyDraft:
        """Return the study file as it is now."""
        return StudyDraft.of(self.desk.path)

    def study(self) -> Study:
        """Return the study, which must be whole."""
        return self.draft().study()

    def page(self, template: str, *, status: int = 200, **facts: Any) -> Response:
        """Return a page; `seal` is the hash of the study file that its forms carry."""
        return HTMLResponse(self.markup(template, **facts), status_code=status)

    def markup(self, template: str, **facts: Any) -> str:
        """Return a page or a piece of one as text."""
        given = {"seal": "", "here": self.path, **facts, "error": _sentence(facts.get("error", ""))}
        done = DONE.get(self.query_field("done"), "") if not given["error"] else ""
        text: str = _template(template).render(
            **given,
            done=done,
            begun=self.begun,
            steps=STEPS if self.begun else (),
            name=self.desk.path.name,
            folder=str(self.desk.path.parent),
            token=lambda action: self.desk.entrance.form_token(self.session, action),
            link=link,
        )
        return text

    def go(self, path: str, **query: str) -> Response:
        """Send the browser to another page, by GET."""
        return RedirectResponse(link(path, **query), status_code=303)


def link(path: str, **query: str) -> str:
    """Write an address of the page."""
    return f"{path}?{urlencode(query)}" if query else path


def _sentence(text: str) -> str:
    """Begin with a capital letter, unless the first word is a name."""
    return text[:1].upper() + text[1:] if text.split(" ")[0].isalpha() else text


@cache
def _templates() -> Environment:
    loader = PackageLoader("vestry.page", "html")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _template(name: str) -> Any:
    return _templates().get_template(name)
