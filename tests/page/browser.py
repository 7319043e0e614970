"""A browser for tests: it sends what a real one sends, and fills in the forms that a page shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlencode

import page.extra  # noqa: F401 - skips, if it is not there

from vestry.page.file_choice import FileChoice
from vestry.page.guard import PageAddress
from vestry.page.routes import application
from vestry.page.visit import Desk

FORM = "application/x-www-form-urlencoded"
OWN = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


class Forms(HTMLParser):
    """The forms of a page: where each is sent, and what its fields say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[dict] = []
        self._select = self._area = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form":
            self.forms.append({"action": given.get("action", ""), "fields": []})
        if not self.forms:
            return
        fields = self.forms[-1]["fields"]
        if tag == "input" and "name" in given:
            picked = given.get("type") not in ("radio", "checkbox") or "checked" in given
            if picked:
                fields.append((given["name"], given.get("value", "")))
        elif tag == "select":
            self._select = [given["name"], None]
        elif tag == "option" and self._select:
            if self._select[1] is None or "selected" in given:
                self._select[1] = given.get("value", "")
        elif tag == "textarea":
            self._area = [given["name"], ""]

    def handle_data(self, data):
        if self._area:
            self._area[1] += data

    def handle_endtag(self, tag):
        if tag == "select" and self._select:
            self.forms[-1]["fields"].append(tuple(self._select))
            self._select = None
        elif tag == "textarea" and self._area:
            self.forms[-1]["fields"].append(tuple(self._area))
            self._area = None


@dataclass(frozen=True)
class Answer:
    """What a page answered."""

    status_code: int
    headers: dict[str, str]
    content: bytes
    path: str

    @property
    def text(self) -> str:
        return self.content.decode()


LOOP = asyncio.new_event_loop()


def ask(app, method, path, headers, body=b"", client=("127.0.0.1", 50000), server=("127.0.0.1", 4321), pieces=None):
    """Send one request to an application, as a server would; header names are a list or a mapping."""
    given = list(headers.items()) if isinstance(headers, dict) else headers
    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(target),
        "raw_path": target.encode("utf-8", "replace"),
        "query_string": query.encode("utf-8", "replace"),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in given],
        "client": client,
        "server": server,
    }
    waiting = [{"type": "http.request", "body": body, "more_body": False}] if pieces is None else list(pieces)
    sent = []

    async def receive():
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    LOOP.run_until_complete(app(scope, receive, send))
    start = sent[0]
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(each.get("body", b"") for each in sent[1:]), path)


class Browser:
    """One user's browser, let in unless told otherwise."""

    def __init__(self, folder: Path, *, study: str = "study.toml", peer=lambda client, server: None, let_in=True):
        self.desk = Desk((folder / study).resolve(), FileChoice.of(folder))
        self.address = PageAddress("0123.localhost", 4321)
        self.app = application(self.desk, self.address, peer=peer)
        self.cookie = ""
        self.seen: list[str] = []
        if let_in:
            assert self.enter(self.desk.entrance.token).status_code == 200

    def ask(self, method, path, headers, body=b"", **more):
        """Send a request with the page's Host and this browser's cookie; a header that is None is omitted."""
        base = {"host": self.address.authority, "content-length": str(len(body))}
        base = {**base, "cookie": self.cookie} if self.cookie else base
        given = {name: value for name, value in {**base, **headers}.items() if value is not None}
        answer = ask(self.app, method, path, given, body, **more)
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.seen.append(answer.content.decode("utf-8", "replace"))
        return answer

    def enter(self, key, origin="null", site="cross-site"):
        headers = {"origin": origin, "sec-fetch-site": site, "content-type": FORM}
        return self.ask("POST", "/enter", headers, urlencode({"key": key}).encode())

    def get(self, path, headers=OWN, follow=True):
        answer = self.ask("GET", path, headers)
        return self.get(answer.headers["location"]) if follow and answer.status_code == 303 else answer

    def send(self, path, fields, headers=None, follow=True):
        """Send a form by its fields alone."""
        given = {**OWN, "origin": self.address.origin, "content-type": FORM, **(headers or {})}
        answer = self.ask("POST", path, given, urlencode(fields).encode())
        return self.get(answer.headers["location"]) if follow and answer.status_code == 303 else answer

    def fields(self, page, action):
        """Return what a form of a page says as it is shown; the first that is sent there."""
        text = self.get(page).text
        return next(form["fields"] for form in Forms(text).forms if form["action"] == action)

    def fill(self, page, action, changes=(), **more):
        """Open a page, change fields of its form, and send it. A list stands for several boxes, None for no box."""
        given = {**dict(changes), **more}
        kept = [(name, value) for name, value in self.fields(page, action) if name not in given]
        for name, value in given.items():
            kept += [(name, each) for each in (value if isinstance(value, list) else [value]) if each is not None]
        return self.send(action, kept)
