"""Who may speak to the page: this user's own browser, at this address, by the page's own forms.

Other users of the machine can reach the loopback address, and so can every web page that this user looks at. So a
request is answered only if

- it comes from a socket of the same user, where the kernel says so; that is looked at when a connection is made too, so
  that silent ones of another user take no place;
- its Host is the page's random name and port, which keeps out pages that rebind a name, and keeps cookies from other
  servers on this machine (cookies ignore ports);
- the browser says that it comes from the page itself (Sec-Fetch-Site), or that the user typed it; its Origin, if there
  is one, is the page's own, and a POST has one;
- it has the cookie of a session, which is had for a one-use token out of a private file;
- a POST is a small form with the token of that form.

What is refused is refused with a sentence. No answer may be stored, framed or read by another origin.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from vestry.noise import SystemNoise
from vestry.page.peer_user import is_another_user, peer_user

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PeerUser = Callable[[tuple[str, int], tuple[str, int]], int | None]

COOKIE, TOKEN, ENTER, STATIC = "vestry", "token", "/enter", "/static/"
# The longest form in bytes, its most fields, the longest address, and how long a form may take to arrive in seconds.
MOST_BYTES, MOST_FIELDS, LONGEST_TARGET, PATIENCE_S = 2**18, 500, 4096, 10.0
# How many browsers may be in at a time.
_SESSIONS = 8
_FORM = "application/x-www-form-urlencoded"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The report has styles of its own and no script. It may do nothing but be read.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
# `no-referrer` would make browsers send a form's Origin as null; this one sends none to any other site either.
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True)
class PageAddress:
    """Where the page is: a random name of this machine, and a port."""

    host: str
    port: int

    @classmethod
    def at(cls, port: int) -> PageAddress:
        """Return an address that nobody can guess: browsers take every name below `localhost` for this machine."""
        return cls(f"{SystemNoise().random_bytes(16).hex()}.localhost", port)

    @property
    def authority(self) -> str:
        """What a request's Host must be."""
        return f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        """What a request's Origin must be."""
        return f"http://{self.authority}"


class Entrance:
    """One-use tokens, the sessions that were had for them, and the tokens of forms."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key = SystemNoise().random_bytes(32)
        self._sessions: list[str] = []
        self._token = _secret()

    @property
    def token(self) -> str:
        """The token that opens the page once."""
        return self._token

    def admit(self, token: str) -> str | None:
        """Return a new session for the token, which is then another one; None if it is wrong or was used."""
        with self._lock:
            if not _same(token, self._token):
                return None
            self._token = _secret()
            self._sessions = [*self._sessions[1 - _SESSIONS :], _secret()]
            return self._sessions[-1]

    def knows(self, session: str) -> bool:
        """Tell whether this is a session."""
        return any(_same(session, each) for each in self._sessions)

    def form_token(self, session: str, action: str) -> str:
        """Return the token of a session's forms that are sent to this path."""
        return hmac.new(self._key, f"{session} {action}".encode(), hashlib.sha256).hexdigest()

    def accepts(self, session: str, action: str, token: str) -> bool:
        """Tell whether a form came from a page that was made for this session."""
        return _same(token, self.form_token(session, action))


def _secret() -> str:
    return SystemNoise().random_bytes(32).hex()


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


class Refused(Exception):  # noqa: N818 - the name is the fact
    """A request that is not answered; never a private value, since none was read."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True)
class Guard:
    """Lets through to the page what may speak to it.

    Attributes
    ----------
    app
        The page.
    address, entrance
        Where it is, and who is in.
    refuse
        Writes a refusal as a page: status, sentence.
    peer
        Tells which user is at the other end.
    on_request
        Is called for each request of this user, so that the page knows when it is idle.
    """

    app: Callable[[Scope, Receive, Send], Awaitable[None]]
    address: PageAddress
    entrance: Entrance
    refuse: Callable[[int, str], Callable[[Scope, Receive, Send], Awaitable[None]]]
    peer: PeerUser = peer_user
    on_request: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            self._check_place(scope)
            self.on_request()
            session = self._session(scope)
            form = await _form(scope, receive)
            self._check_form(scope, session, form)
        except Refused as error:
            await self.refuse(error.status, error.sentence)(scope, receive, _hardened(send))
            return
        scope["vestry"] = {"session": session, "form": form}
        await self.app(scope, _nothing, _hardened(send))

    def _check_place(self, scope: Scope) -> None:
        """Refuse another user, another name, another site."""
        self._check_user(scope)
        if scope["method"] not in ("GET", "POST"):
            raise Refused(405, "The page answers GET and POST alone.")
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > LONGEST_TARGET:
            raise Refused(414, "The address is too long.")
        if _headers(scope, "host") != [self.address.authority]:
            raise Refused(421, "The page is not at this address; use the one that vestry open printed.")
        origins, sites = _headers(scope, "origin"), _headers(scope, "sec-fetch-site")
        if _is_entry(scope) and (origins, sites) == (["null"], ["cross-site"]):
            return  # from the private file, which has no origin; its token is looked at next
        own = origins == [self.address.origin] or (scope["method"] == "GET" and not origins)
        if not own or not _is_own(scope, sites):
            raise Refused(403, "This request comes from another page; use the page's own links and forms.")

    def _check_user(self, scope: Scope) -> None:
        client, server = scope.get("client"), scope.get("server")
        user = self.peer(tuple(client), tuple(server)) if client and server else None
        if is_another_user(user):
            raise Refused(403, "The page belongs to another user of this machine.")

    def _session(self, scope: Scope) -> str:
        session = _cookie(scope)
        if self.entrance.knows(session):
            return session
        if scope["path"] == ENTER or (scope["method"] == "GET" and scope["path"].startswith(STATIC)):
            return ""
        raise Refused(401, "This browser is not let in yet.")

    def _check_form(self, scope: Scope, session: str, form: list[tuple[str, str]]) -> None:
        """Refuse a form that this page did not write; the one that lets a browser in brings its own token."""
        if scope["method"] != "POST" or scope["path"] == ENTER:
            return
        tokens = [value for name, value in form if name == TOKEN]
        if len(tokens) != 1 or not self.entrance.accepts(session, scope["path"], tokens[0]):
            raise Refused(403, "This form was not written by this page; go back, load the page again and repeat it.")


def _is_entry(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"] == ENTER)


def _is_own(scope: Scope, sites: list[str]) -> bool:
    """Tell whether the browser says that the page itself asks, or that the user typed the address."""
    typed = scope["method"] == "GET" and _headers(scope, "sec-fetch-mode") == ["navigate"]
    return sites == ["same-origin"] or (sites == ["none"] and typed)


def _headers(scope: Scope, name: str) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name.encode()]


def _cookie(scope: Scope) -> str:
    """Return the session of a request; nothing if there is none, or more than one."""
    pairs = [each.strip().partition("=") for line in _headers(scope, "cookie") for each in line.split(";")]
    sessions = [value for name, _, value in pairs if name == COOKIE]
    return sessions[0] if len(sessions) == 1 else ""


async def _form(scope: Scope, receive: Receive) -> list[tuple[str, str]]:
    """Return the fields of a form; nothing of a GET."""
    if scope["method"] != "POST":
        return []
    kinds = [value.partition(";")[0].strip().lower() for value in _headers(scope, "content-type")]
    if kinds != [_FORM]:
        raise Refused(415, "The page takes plain forms alone.")
    (length, *more) = _headers(scope, "content-length") or [""]
    if more or not re.fullmatch("[0-9]{1,12}", length):
        raise Refused(411, "A form must say how long it is.")
    if int(length) > MOST_BYTES:
        raise Refused(413, f"A form may have {MOST_BYTES} bytes at most.")
    try:
        body = await asyncio.wait_for(_body(receive), PATIENCE_S)
    except TimeoutError:
        raise Refused(408, "The form took too long to arrive.") from None
    try:
        return parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(body), errors="strict",
            max_num_fields=MOST_FIELDS,
        )  # fmt: skip
    except ValueError:
        raise Refused(400, f"The form cannot be read; it may have {MOST_FIELDS} fields at most.") from None


async def _body(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "The form did not arrive.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            raise Refused(413, f"A form may have {MOST_BYTES} bytes at most.")
        if not message.get("more_body", False):
            return b"".join(parts)


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def _hardened(send: Send) -> Send:
    """Add to each answer what keeps it from being stored, framed or read elsewhere; what it sets itself stays."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in names]
            message = {**message, "headers": [*given, *added]}
        await send(message)

    return sent
