"""Who is refused: another user, another name, another site, another session, another form; and in a sentence."""

from __future__ import annotations

import os
import random
import socket
import string
from pathlib import Path

import pytest
from page.browser import FORM, OWN, Browser
from study.fault_study import actions, study_in

from vestry.page import guard
from vestry.page.peer_user import UNKNOWN, peer_user
from vestry.page.routes import GET, POST


@pytest.fixture
def browser(tmp_path) -> Browser:
    study_in(tmp_path)
    return Browser(tmp_path)


@pytest.fixture
def unchanged(tmp_path):
    """Check at the end that nothing was spent and nothing saved."""
    yield
    assert actions(tmp_path) == []
    assert (tmp_path / "study.toml").read_text().startswith('[study]\nname = "people"')


def spending(browser: Browser) -> list[tuple[str, str]]:
    """What a right confirmation sends."""
    fields = [each for each in browser.fields("/release", "/release") if each[0] != "typed"]
    return [*fields, ("typed", "people")]


WRONG = {
    "another host": ({"host": "0123.localhost:80"}, 421, "not at this address"),
    "the address by number": ({"host": "127.0.0.1:4321"}, 421, "not at this address"),
    "no host": ({"host": None}, 421, "not at this address"),
    "another origin": ({"origin": "http://evil.example"}, 403, "another page"),
    "another port": ({"origin": "http://0123.localhost:9"}, 403, "another page"),
    "an opaque origin": ({"origin": "null"}, 403, "another page"),
    "no origin": ({"origin": None}, 403, "another page"),
    "another site": ({"sec-fetch-site": "cross-site"}, 403, "another page"),
    "the same site": ({"sec-fetch-site": "same-site"}, 403, "another page"),
    "typed": ({"sec-fetch-site": "none"}, 403, "another page"),
    "no metadata": ({"sec-fetch-site": None}, 403, "another page"),
    "no session": ({"cookie": None}, 401, "not let in"),
    "another session": ({"cookie": f"vestry={'0' * 64}"}, 401, "not let in"),
    "two sessions": ({"cookie": "vestry=1; vestry=2"}, 401, "not let in"),
    "another kind of form": ({"content-type": "text/plain"}, 415, "plain forms"),
    "a form in parts": ({"content-type": "multipart/form-data; boundary=x"}, 415, "plain forms"),
    "JSON": ({"content-type": "application/json"}, 415, "plain forms"),
    "no length": ({"content-length": None}, 411, "how long"),
    "a huge length": ({"content-length": "99999999999"}, 413, "bytes at most"),
    "no number as length": ({"content-length": "-1"}, 411, "how long"),
}


@pytest.mark.usefixtures("unchanged")
def test_a_right_form_that_comes_in_a_wrong_way_spends_nothing(browser):
    fields = spending(browser)
    for case, (headers, status, sentence) in WRONG.items():
        answer = browser.send("/release", fields, headers, follow=False)
        assert (answer.status_code, sentence in answer.text) == (status, True), case
        assert answer.headers["cache-control"] == "no-store"


def test_other_methods_are_refused(browser):
    for method in ["PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH"]:
        assert browser.ask(method, "/", OWN).status_code == 405


@pytest.mark.usefixtures("unchanged")
def test_charges_are_by_post_alone(browser):
    from urllib.parse import urlencode

    assert browser.get(f"/release?{urlencode(spending(browser))}").status_code == 200
    for path in POST:
        assert browser.get(path, follow=False).status_code in (200, 401, 404), path


@pytest.mark.usefixtures("unchanged")
def test_each_form_has_its_own_token(browser):
    fields = [each for each in spending(browser) if each[0] != "token"]
    other = browser.fields("/questions", "/question/delete")
    for given in ("", "0" * 64, "é", None, dict(other)["token"]):
        sent = fields if given is None else [*fields, ("token", given)]
        answer = browser.send("/release", sent, follow=False)
        assert (answer.status_code, "not written by this page" in answer.text) == (403, True)


@pytest.mark.usefixtures("unchanged")
def test_a_form_of_another_session_is_refused(browser, tmp_path):
    fields = spending(browser)
    browser.enter(browser.desk.entrance.token)
    assert browser.send("/release", fields, follow=False).status_code == 403
    restarted = Browser(tmp_path)
    assert restarted.send("/release", fields, follow=False).status_code == 403


def test_a_key_opens_once_and_is_renewed(tmp_path):
    browser = Browser(tmp_path, let_in=False)
    key = browser.desk.entrance.token
    assert browser.get("/").status_code == 401
    assert browser.enter("0" * 64).status_code == 403
    answer = browser.enter(key)
    assert answer.status_code == 200
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {
        part.strip() for part in answer.headers["set-cookie"].split(";")
    }
    assert "Domain" not in answer.headers["set-cookie"]
    assert browser.get("/").status_code == 200
    again = Browser.__new__(Browser)
    again.__dict__.update({**browser.__dict__, "cookie": ""})
    assert again.enter(key).status_code == 403
    assert again.get("/").status_code == 401
    assert browser.desk.entrance.token != key
    assert again.enter(browser.desk.entrance.token).status_code == 200


def test_a_key_is_taken_from_the_private_file_or_from_the_page_alone(tmp_path):
    browser = Browser(tmp_path, let_in=False)
    for origin, site in [("http://evil.example", "cross-site"), ("null", "same-origin"), ("null", "none")]:
        assert browser.enter(browser.desk.entrance.token, origin, site).status_code == 403
    assert browser.enter(browser.desk.entrance.token, browser.address.origin, "same-origin").status_code == 200


def test_a_typed_address_is_answered_and_a_link_from_elsewhere_is_not(browser):
    typed = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}
    assert browser.get("/columns", typed).status_code == 200
    assert browser.get("/columns", {**typed, "sec-fetch-mode": "no-cors"}).status_code == 403
    assert browser.get("/columns", {**typed, "sec-fetch-site": "cross-site"}).status_code == 403
    assert browser.get("/columns", {**OWN, "origin": "http://evil.example"}).status_code == 403


def test_another_user_of_the_machine_is_refused(tmp_path):
    study_in(tmp_path)
    other = Browser(tmp_path, peer=lambda client, server: os.getuid() + 1, let_in=False)
    for answer in (other.get("/"), other.enter(other.desk.entrance.token), other.get("/static/desk.css")):
        assert (answer.status_code, "another user" in answer.text) == (403, True)
    unknown = Browser(tmp_path, peer=lambda client, server: UNKNOWN, let_in=False)
    assert unknown.get("/").status_code == 403


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel does not tell whose a connection is")
def test_the_kernel_tells_whose_a_connection_is(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, address = server.accept()
        with accepted:
            assert peer_user(address, server.getsockname()) == os.getuid()
            assert peer_user((address[0], 1), server.getsockname()) == UNKNOWN
        assert client.getsockname() == address
    assert peer_user(("127.0.0.1", 5), ("127.0.0.1", 6), (tmp_path / "none",)) is None


@pytest.mark.parametrize(
    "table",
    [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        "   0: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1234        0 1\n",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        "   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:0050 01 0:0 0:0 0  1234  0 1\n",
    ],
)
def test_the_kernels_table_is_read(tmp_path, table):
    (tmp_path / "tcp").write_text(table)
    assert peer_user(("127.0.0.1", 8080), ("127.0.0.1", 80), (tmp_path / "tcp",)) == 1234
    assert peer_user(("127.0.0.1", 80), ("127.0.0.1", 8080), (tmp_path / "tcp",)) == UNKNOWN
    assert peer_user(("not an address", 80), ("127.0.0.1", 8080), (tmp_path / "tcp",)) == UNKNOWN


def test_no_answer_may_be_stored_framed_or_run_code_of_others(browser):
    for path in [*GET, "/static/desk.css", "/nothing"]:
        headers = browser.get(path, follow=False).headers
        policy = headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-eval" not in policy
        assert path == "/report" or "unsafe-inline" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_no_page_has_code_or_styles_inside_it(browser):
    import re

    for path in GET:
        if path != "/report":
            text = browser.get(path).text
            assert not re.search(r"<script(?! src=)|<style|\son\w+=|\sstyle=|javascript:", text), path
            assert "http://" not in text
            assert "https://" not in text


def test_a_long_address_is_refused(browser):
    assert browser.get("/columns?x=" + "a" * 5000).status_code == 414


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        (
            [
                {"type": "http.request", "body": b"a" * 2**18, "more_body": True},
                {"type": "http.request", "body": b"aa"},
            ],
            413,
        ),
        ([{"type": "http.disconnect"}], 400),
        ([{"type": "http.request", "body": b"a=1&" * 600, "more_body": False}], 400),
        ([{"type": "http.request", "body": b"\xff\xfe", "more_body": False}], 400),
        ([{"type": "http.request", "body": b"a=%ff", "more_body": False}], 400),
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_a_form_that_cannot_be_read_is_refused(browser, pieces, status):
    headers = {**OWN, "origin": browser.address.origin, "content-type": FORM, "content-length": "9"}
    assert browser.ask("POST", "/release", headers, pieces=pieces).status_code == status


@pytest.mark.usefixtures("unchanged")
def test_a_form_that_does_not_arrive_is_refused(browser, monkeypatch):
    monkeypatch.setattr(guard, "PATIENCE_S", 0.01)
    headers = {**OWN, "origin": browser.address.origin, "content-type": FORM, "content-length": "9"}
    late = [{"type": "http.request", "body": b"a", "more_body": True}]
    assert browser.ask("POST", "/release", headers, pieces=late).status_code == 408


# Requests that nobody would write


def scribble(rng: random.Random, most: int = 40) -> str:
    marks = string.printable + "é\u202e\0%/.\\&=;<>\"'"
    return "".join(rng.choice(marks) for _ in range(rng.randrange(most)))


def fuzz(browser: Browser, count: int, seed: int) -> set[int]:
    """Send so many random requests, half of them by this browser's own forms; return the answers' codes."""
    from urllib.parse import quote, urlencode

    rng, codes = random.Random(seed), set()
    names = [
        "name",
        "kind",
        "model",
        "levels",
        "low",
        "high",
        "missing",
        "from",
        "bins",
        "typed",
        "key",
        "head",
        "release",
        "unit",
        "rows",
        "person",
        "epsilon",
        "total-epsilon",
        "step-readmission",
        "was-readmission",
        "file",
        "header",
        "key-column",
        "key-success",
        "key-by",
        "key-prior",
        "before",
        "seal",
        "expected_rows",
    ]
    words = "readmission people ward levels number 1e400 -1 0 nan ../../etc/passwd beta-bernoulli yes person hmm table"
    words = [*words.split(), "é" * 50, "[study]\nx=1", "\"'", "A\nB", "9" * 30]
    for place in range(count):
        path = rng.choice(
            [*GET, *POST, "/" + quote(scribble(rng)), "/static/../guard.py", "/static/" + quote(scribble(rng))]
        )
        fields = [(rng.choice(names), rng.choice([*words, scribble(rng)])) for _ in range(rng.randrange(8))]
        headers = {**OWN, "origin": browser.address.origin, "content-type": FORM}
        if place % 2:
            for name in rng.sample([*headers, "host", "cookie", "content-length"], rng.randrange(1, 3)):
                headers[name] = rng.choice([None, "".join(x for x in scribble(rng) if x.isprintable())])
        else:
            fields = [(name, value) for name, value in fields if name not in ("typed",)]
            fields += [("token", browser.desk.entrance.form_token(browser.cookie.partition("=")[2], path))]
        method = rng.choice(["GET", "POST", "POST"])
        query = "" if method == "POST" else "?" + urlencode(fields)
        kept = browser.cookie
        answer = browser.ask(method, path + query, headers, urlencode(fields).encode() if method == "POST" else b"")
        browser.cookie = kept
        codes.add(answer.status_code)
        assert answer.status_code < 500, (method, path, fields, answer.text)
        assert answer.status_code in (200, 303) or answer.content.strip()
        assert "Traceback" not in answer.text
    return codes


@pytest.mark.parametrize("count", [120, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_requests_spend_nothing_and_are_refused_in_a_sentence(tmp_path, monkeypatch, count):
    study_in(tmp_path)
    browser = Browser(tmp_path)
    monkeypatch.setattr("vestry.page.budget_page.forecast_at", lambda *given, **named: _forecast())
    codes = fuzz(browser, count, seed=1)
    assert {200, 303, 403} <= codes
    assert actions(tmp_path) == []
    assert all("said nothing" not in text for text in browser.seen)
    import tomllib

    tomllib.loads((tmp_path / "study.toml").read_text())


def _forecast():
    from vestry.planning import Forecast

    return Forecast("laplace", "scale", 1.0, 0.1, 0.05, what="interval of the probability")
