"""The whole journey in a real browser: by mouse, by keys alone, on a telephone; two tabs, reloads, a killed server.

Chromium is the system's own. What axe-core finds on any page, in light and in dark, is a fault.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess

import pytest
from page.running import opened
from study.fault_study import HEADER, records, study_in, vestry

from vestry.page.question_form import MORE_QUESTIONS, QUESTIONS
from vestry.page.routes import GET
from vestry.study import Study

sync_api = pytest.importorskip("playwright.sync_api", reason="pip install '.[heavy]' to drive a browser")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on the path; install it to see the page in a browser"),
]


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """Return axe-core's script, from the npm registry."""
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("no npm on the path; install it to let axe-core read the page")
    got = subprocess.run(["npm", "install", "--prefix", folder, "axe-core@4"], capture_output=True, check=False)
    if got.returncode != 0:
        pytest.skip("axe-core cannot be had from the npm registry")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people.csv").write_text("\n".join([HEADER, *records(60)]) + "\n")
    return tmp_path


class Reader:
    """A page that is looked at; whatever its console says is a fault."""

    def __init__(self, chromium, running, width=1100, **more):
        size = {"width": width, "height": 800}
        self.context = chromium.new_context(viewport=size, bypass_csp=bool(more.pop("axe", 0)), **more)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.running, self.width, self.said = running, width, []
        # A form that is sent back is an answer of its own kind, and no fault.
        self.page.on("console", lambda message: "422" in message.text or self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.see(request.url))
        self.page.goto(running.file.as_uri())
        self.page.wait_for_url(f"{running.address}/")
        self.heading("")

    def see(self, url):
        if not url.startswith((self.running.address, "file:///", "data:")):
            self.said.append(f"asked for {url}")

    def heading(self, text):
        """Wait for a page, and see that it is not wider than the screen."""
        self.page.wait_for_selector(f"h1:has-text('{text}')" if text else "h1")
        self.page.wait_for_load_state("load")
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width

    def click(self, role, name, then):
        self.page.get_by_role(role, name=name).first.click()
        self.heading(then)

    def type(self, label, text):
        self.page.get_by_label(label).first.fill(text)


class Typist(Reader):
    """The same by keys alone: Tab until it is there, then Enter or Space."""

    def reach(self, locator):
        for _ in range(120):
            if locator.evaluate("each => each === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"no key leads to {locator}")

    def click(self, role, name, then):
        self.reach(self.page.get_by_role(role, name=name).first)
        self.page.keyboard.press("Enter")
        self.heading(then)

    def type(self, label, text):
        self.reach(self.page.get_by_label(label).first)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)


def tick(reader, label):
    box = reader.page.get_by_label(label).first
    if isinstance(reader, Typist):
        reader.reach(box)
        reader.page.keyboard.press("Space")
    else:
        box.check()
    assert box.is_checked()


def choose(reader, label, value):
    choice = reader.page.get_by_label(label, exact=False).first
    if isinstance(reader, Typist):
        reader.reach(choice)
        reader.page.keyboard.type(value)
    else:
        choice.select_option(value)
    assert choice.input_value() == value


def journey(reader):
    """From an empty folder to a ledger with one line for each question."""
    page = reader.page
    reader.heading("Begin a study")
    tick(reader, "The first line of the CSV file")
    reader.click("button", "Begin with this file", "Columns")
    for name, levels in (("ward", "A\nB\nC"), ("readmitted", "no\nyes")):
        reader.click("link", re.compile(f"Declare {name}"), name)
        reader.type("Levels", levels)
        reader.click("button", "Save", "Columns")
    reader.click("link", re.compile("Declare stay_days"), "stay_days")
    reader.click("link", "A number", "stay_days")
    reader.type("Low end", "60")
    reader.type("High end", "0")
    reader.click("button", "Save", "stay_days")
    assert "must be below the high end" in page.get_by_role("alert").inner_text()
    reader.type("Low end", "0")
    reader.type("High end", "60")
    reader.click("button", "Save", "Columns")
    reader.click("link", "Next: who is protected", "Who is protected")
    reader.type("About how many records", "60")
    reader.click("button", "Save and go on", "Questions")
    reader.click("link", "What share has a property?", "What share has a property?")
    reader.type("Name", "readmission")
    choose(reader, "Column", "readmitted")
    choose(reader, "Level that counts", "yes")
    reader.click("button", "Save", "Questions")
    reader.click("link", "Next: the budget", "Budget")
    before = page.locator("#out-readmission").inner_text()
    slider = page.locator("#step-readmission")
    slider.focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('#out-readmission').innerText !== before", arg=before)
    reader.click("button", "Save and check", "Check")


def confirm(reader):
    reader.click("button", "Make the ledger", "Check")
    reader.click("link", "Next: release", "Release")
    reader.type("To confirm", "people")
    reader.page.get_by_role("button", name="Spend and release").dblclick()


def finish(reader, folder):
    page = reader.page
    page.wait_for_selector("h1:has-text('Releasing')")
    page.reload()
    with reader.context.expect_page() as opened_tab:
        page.get_by_role("link", name="Read the report").click()
    opened_tab.value.wait_for_selector("h2:has-text('What is protected')")
    opened_tab.value.close()
    page.goto(f"{reader.running.address}/ledger")
    reader.heading("Ledger")
    assert paid(folder) == ["charge", "charge", "open", "open", "release", "release"]
    assert reader.said == []


def paid(folder):
    return sorted(
        entry.action for entry in Study.open(folder / "study.toml").ledger.entries() if entry.action != "create"
    )


@pytest.mark.parametrize(("kind", "width"), [(Reader, 1100), (Typist, 1100), (Reader, 390)])
def test_from_an_empty_folder_to_a_report(chromium, folder, kind, width):
    with opened(folder) as running:
        reader = kind(chromium, running, width)
        journey(reader)
        confirm(reader)
        finish(reader, folder)
        text = (folder / "study.toml").read_text()
        assert 'neighbours = "add-remove"         # or "replace"' in text
        reader.page.get_by_role("button", name="End Vestry").click()
        reader.page.wait_for_selector("h1:has-text('ended')")
        assert running.process.wait(30) == 0


def test_a_server_that_is_killed_loses_nothing(chromium, folder):
    with opened(folder) as running:
        reader = Reader(chromium, running)
        journey(reader)
        assert running.end(signal.SIGKILL) == -signal.SIGKILL
    with opened(folder) as running:
        other = Reader(chromium, running)
        other.click("link", "Check", "Check")
        confirm(other)
        other.page.wait_for_selector("h1:has-text('Releasing')")
        running.end(signal.SIGKILL)
    with opened(folder) as running:
        last = Reader(chromium, running)
        last.click("link", "Release", "Release")
        last.type("To confirm", "people")
        last.page.get_by_role("button", name="Spend and release").click()
        last.page.wait_for_selector("text=/All was released|Not all was released/")
        charges = [action for action in paid(folder) if action == "charge"]
        assert len(charges) == 2  # each question once, whenever the kill came


def test_two_tabs_pay_once(chromium, folder):
    with opened(folder) as running:
        reader = Reader(chromium, running)
        journey(reader)
        reader.click("button", "Make the ledger", "Check")
        reader.click("link", "Next: release", "Release")
        tab = reader.context.new_page()
        tab.goto(f"{running.address}/release")
        for page in (reader.page, tab):
            page.get_by_label("To confirm").fill("people")
        for page in (reader.page, tab):
            page.get_by_role("button", name="Spend and release").click()
        reader.page.wait_for_selector("text=All was released")
        assert paid(folder) == ["charge", "charge", "open", "open", "release", "release"]


def test_a_page_of_another_site_cannot_use_it(chromium, folder):
    """A form, an image, a frame and a fetch from elsewhere, in the browser that is let in."""
    with opened(folder) as running:
        reader = Reader(chromium, running)
        page = reader.context.new_page()
        page.route("http://evil.example/", lambda route: route.fulfill(content_type="text/html", body="<h1>evil</h1>"))
        page.goto("http://evil.example/")
        for path, method in (("/", "get"), ("/example", "post"), ("/close", "post")):
            page.goto("http://evil.example/")
            page.evaluate(
                "([url, method]) => { const form = document.createElement('form'); form.method = method;"
                " form.action = url; document.body.append(form); form.submit(); }",
                [running.address + path, method],
            )
            page.wait_for_url(f"{running.address}{path}*")
            assert "another page" in page.content()
        page.goto("http://evil.example/")
        ask = "url => fetch(url, {credentials: 'include'}).then(x => x.text(), x => 'no')"
        fetched = page.evaluate(ask, running.address)
        assert fetched == "no"
        assert [path.name for path in folder.iterdir()] == ["people.csv"]
        assert running.process.poll() is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_axe_finds_nothing_on_any_page(chromium, folder, axe, scheme, width):
    with opened(folder) as running:
        reader = Reader(chromium, running, width, color_scheme=scheme, axe=True)
        seen = [violations(reader, axe, "begin")]
        study_in(folder, "readmission", "stay")
        assert vestry("release", folder / "study.toml", "readmission", "--yes").code == 0
        paths = [path for path in GET if not path.endswith(("/turn", "/piece")) and path != "/report"]
        models = [*QUESTIONS, *MORE_QUESTIONS]
        kinds = ("levels", "number", "count", "date")
        paths += [f"/question?model={model}" for model in models] + [f"/column?name=ward&kind={kind}" for kind in kinds]
        for path in paths:
            reader.page.goto(running.address + path)
            reader.heading("")
            reader.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            reader.heading("")
            seen.append(violations(reader, axe, path))
        assert len(seen) > 15
        assert [each for each in seen if each] == []


def violations(reader, axe, name):
    reader.page.evaluate(axe)
    found = reader.page.evaluate("axe.run(document)")
    assert len(found["passes"]) > 15
    return [f"{name}: {each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]
