"""Which path is answered by what; and that a fault is always answered with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from vestry.errors import VestryError, refusal
from vestry.page import (
    begin_page,
    budget_page,
    column_pages,
    lesson_page,
    protect_page,
    question_pages,
    release_pages,
)
from vestry.page.guard import Guard, PageAddress, PeerUser
from vestry.page.peer_user import peer_user
from vestry.page.visit import Desk, Visit

Answer = Callable[[Visit], Response]
GET: dict[str, Answer] = {
    "/": begin_page.front,
    "/enter": begin_page.enter,
    "/columns": column_pages.columns,
    "/column": column_pages.column,
    "/protect": protect_page.protect,
    "/questions": question_pages.questions,
    "/question": question_pages.question,
    "/budget": budget_page.budget,
    "/budget/turn": budget_page.turn,
    "/check": release_pages.check,
    "/release": release_pages.release,
    "/progress": release_pages.progress,
    "/progress/piece": release_pages.progress_piece,
    "/results": release_pages.results,
    "/report": release_pages.report,
    "/ledger": release_pages.ledger,
    "/learn": lesson_page.learn,
    "/learn/turn": lesson_page.learn_turn,
}
POST: dict[str, Answer] = {
    "/enter": begin_page.enter,
    "/begin": begin_page.begin,
    "/example": begin_page.begin_example,
    "/columns/names": column_pages.names,
    "/column": column_pages.save_column,
    "/column/forget": column_pages.forget_column,
    "/protect": protect_page.save_protect,
    "/question": question_pages.save_question,
    "/question/delete": question_pages.delete_question,
    "/budget": budget_page.save_budget,
    "/ledger/create": release_pages.create_ledger,
    "/release": release_pages.spend,
    "/close": begin_page.close,
}
# These are answered before there is a study file.
_ALWAYS = ("/", "/enter", "/begin", "/example", "/learn", "/learn/turn", "/close")
_STATIC = {
    "report.css": ("vestry.report", "page.css", "text/css"),
    "desk.css": ("vestry.page", "static/desk.css", "text/css"),
    "htmx.min.js": ("vestry.page", "static/htmx.min.js", "text/javascript"),
}


def application(
    desk: Desk, address: PageAddress, *, peer: PeerUser = peer_user, on_request: Callable[[], None] = lambda: None
) -> Guard:
    """Return the page behind its guard."""
    paths = dict.fromkeys([*GET, *POST])
    routes = [Route(path, _endpoint(desk, path), methods=_methods(path)) for path in paths]
    routes.append(Route("/static/{name}", _static, methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={404: _not_found(desk), 405: _not_found(desk)})
    app.router.redirect_slashes = False  # what is not a path is not found
    return Guard(app, address, desk.entrance, lambda status, sentence: _refused(desk, status, sentence), peer,
                 on_request)  # fmt: skip


def _methods(path: str) -> list[str]:
    return [name for name, table in (("GET", GET), ("POST", POST)) if path in table]


def _endpoint(desk: Desk, path: str) -> Callable[[Request], Response]:
    """Return what answers a path; in a thread, since it computes."""

    def answer(request: Request) -> Response:
        visit = _visit(desk, request, path)
        if not visit.begun and path not in _ALWAYS:
            return visit.go("/")
        table = POST if request.method == "POST" else GET
        if path not in table:
            return _faulty(visit, 405, "This page is not asked for in this way.")
        try:
            return table[path](visit)
        except VestryError as error:
            return _faulty(visit, 422, str(error))
        except Exception as error:  # its message may quote anything, so its kind and place are told
            return _faulty(visit, 500, refusal(error))

    return answer


def _visit(desk: Desk, request: Request, path: str) -> Visit:
    known: dict[str, Any] = request.scope.get("vestry", {"session": "", "form": []})
    return Visit(desk, known["session"], path, list(request.query_params.multi_items()), known["form"])


def _faulty(visit: Visit, status: int, sentence: str) -> Response:
    return visit.page("fault.html", status=status, error=sentence, here="")


def _not_found(desk: Desk) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        return _faulty(_visit(desk, request, ""), 404, "There is no such page; use the links of the page.")

    return answer


def _refused(desk: Desk, status: int, sentence: str) -> Response:
    if status == 401:
        return Visit(desk, "", "/enter", [], []).page("enter.html", status=status, error=sentence)
    return PlainTextResponse(sentence + "\n", status_code=status)


def _static(request: Request) -> Response:
    resource = _STATIC.get(request.path_params["name"])
    if resource is None:
        return PlainTextResponse("There is no such file.\n", status_code=404)
    room, name, kind = resource
    return Response(files(room).joinpath(name).read_bytes(), media_type=kind)
