"""The page in a real browser: what it shows to a screen reader, that it fits, and that it asks for nothing."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest
from report.example import AWKWARD, FOUR, coefficients, hidden, result, story
from report.page_reader import read

from vestry.report.page import page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on the path; install it to see the page in a browser"),
]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
]

# The page in a frame of a given width, and a script outside it that looks in. The page itself has no script.
FRAME = """<!DOCTYPE html><body style="margin:0">
<iframe id="frame" src="page.html" style="border:0;width:%dpx;height:900px">
</iframe><pre id="found"></pre><script>
window.onload = () => {
  const inside = document.getElementById("frame").contentWindow, root = inside.document.documentElement;
  const wide = [...inside.document.querySelectorAll("body *")].filter(each => {
    if (each.closest(".scroll, pre, .skip, thead") || each.closest("svg") && each.tagName !== "svg") return false;
    const box = each.getBoundingClientRect();
    return box.width > 0 && (box.right > root.clientWidth + 1 || box.left < -1);
  });
  const texts = [...inside.document.querySelectorAll("svg text")].filter(each => {
    const box = each.getBoundingClientRect(), picture = each.closest("svg").getBoundingClientRect();
    return box.right > picture.right + 4 || box.left < picture.left - 4;
  });
  document.getElementById("found").textContent = JSON.stringify({
    shown: root.clientWidth, needed: root.scrollWidth,
    wide: wide.map(each => each.tagName + " " + each.className).slice(0, 5),
    cut: texts.map(each => each.textContent).slice(0, 5),
    headings: [...inside.document.querySelectorAll("h1, h2, h3")].map(each => each.tagName + " " + each.textContent),
    pictures: [...inside.document.querySelectorAll("svg[role=img]")].map(each => each.getAttribute("aria-label")),
    shrunk: [...inside.document.querySelectorAll("figure svg")].filter(each => {
      return each.clientWidth < 0.7 * each.width.baseVal.value; }).length,
    small: [...inside.document.querySelectorAll("figure svg")].filter(each => each.clientWidth < 200).length,
    fetched: inside.performance.getEntriesByType("resource").map(each => each.name),
  });
};
</script>"""


STORIES = {
    "four": lambda: FOUR,
    "few months": lambda: story(result("states", "Which state?", hidden(18))),
    "many months": lambda: story(result("states", "Which state?", hidden(60))),
    "coefficients": lambda: story(result("odds", "Which odds?", coefficients(), labels=("age", "intercept"))),
}


def seen(case, width, folder):
    text = page(STORIES[case]() if case in STORIES else story(AWKWARD[case]))
    (folder / "page.html").write_text(text, encoding="utf-8")
    (folder / "frame.html").write_text(FRAME % width, encoding="utf-8")
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500)},900"]
    ran = subprocess.run(
        [*command, "--dump-dom", (folder / "frame.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)
    return text, json.loads(html.unescape(found[1])), [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("case", [*STORIES, "markup in names", "twelve long groups", "thirty categories"])
def test_the_page_in_a_browser(case, width, tmp_path):
    text, found, console = seen(case, width, tmp_path)
    assert console == []
    assert found["fetched"] == []
    assert found["shown"] == width
    assert found["needed"] <= width, f"wider than the screen: {found['wide']}"
    assert found["wide"] == []
    assert found["cut"] == [], "names that leave their picture"
    assert found["small"] == 0
    assert found["shrunk"] == 0, "pictures whose words are too small to read"
    root = read(text)
    assert found["headings"] == [f"{each.name.upper()} {each.text()}" for each in root.all("h1", "h2", "h3")]
    assert found["pictures"] == [each.attributes["aria-label"] for each in root.all("svg")]
    assert all(len(each) > 30 for each in found["pictures"])


def command(folder, *arguments):
    return [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", *arguments]


def test_four_releases_fit_six_sheets(tmp_path):
    """A4; chromium writes each page of a PDF as an object of its own. The demo's report has five."""
    (tmp_path / "page.html").write_text(page(FOUR), encoding="utf-8")
    printed = tmp_path / "page.pdf"
    asked = command(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={printed}", (tmp_path / "page.html").as_uri())
    subprocess.run(asked, capture_output=True, timeout=120, check=True)
    content = printed.read_bytes()
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 6
    assert re.search(rb"/MediaBox \[0 0 59[45][.\d]* 84[12][.\d]*\]", content), "A4"


# axe runs inside the page, and reports to the frame around it.
AXE = """<!DOCTYPE html><body><iframe id="frame" src="page.html" style="border:0;width:%dpx;height:900px"></iframe>
<pre id="found"></pre><script src="axe.min.js"></script><script>
window.onload = async () => {
  const inside = document.getElementById("frame").contentWindow;
  const script = inside.document.createElement("script");
  script.src = "axe.min.js";
  script.onload = async () => {
    const found = await inside.axe.run(inside.document);
    document.getElementById("found").textContent = JSON.stringify(
      {passes: found.passes.length, violations: found.violations.map(each => each.id + ": " + each.nodes[0].html)});
  };
  inside.document.head.append(script);
};
</script>"""


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


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("case", [*STORIES, "plug-in", "thirty categories"])
def test_axe_finds_nothing(case, width, axe, tmp_path):
    text = page(STORIES[case]() if case in STORIES else story(AWKWARD[case]))
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    (tmp_path / "axe.min.js").write_text(axe, encoding="utf-8")
    (tmp_path / "frame.html").write_text(AXE % width, encoding="utf-8")
    asked = command(tmp_path, "--window-size=1280,900", "--dump-dom", (tmp_path / "frame.html").as_uri())
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)[1]))
    assert found["passes"] > 20
    assert found["violations"] == []
