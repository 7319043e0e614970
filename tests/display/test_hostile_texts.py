"""Texts of records, as files show them: no spreadsheet runs one, and none turns a line around."""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestry.display import csv_text as module
from vestry.display.csv_text import csv_text
from vestry.display.plotting import plot
from vestry.errors import printable
from vestry.posterior import Posterior
from vestry.releases import Certificate, NoisyStatistics, Release
from vestry.report.content import ReportContent, Result
from vestry.report.page import page, part, results_csv

BEGINNINGS = "=+-@\t\r"
FORMULAS = [
    "=1+1",
    "+1",
    "-1+cmd|' /C calc'!A0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "\n=1",
    "\uff1d1",
    "a;=1",
    "a;  @x",
]


def cells(text: str, divider: str = ",") -> list[list[str]]:
    """Read CSV as other programs do; a spreadsheet drops white space before it looks for a formula."""
    return [[cell.lstrip() for cell in row] for row in csv.reader(io.StringIO(text, newline=""), delimiter=divider)]


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("divider", [",", ";", "\t"])
def test_no_cell_begins_with_a_formula(text, divider):
    for row in cells(csv_text([[text, "b"], ["b", text]]), divider):
        assert not any(cell.startswith(("=", "+", "-", "@", "\uff1d")) for cell in row)


@pytest.mark.property
@given(st.lists(st.text("=+-@\t\r\n;,\"'|ab 1\u202e\uff1d"), min_size=1, max_size=3))
def test_no_text_at_all_begins_with_a_formula_and_none_has_controls(row):
    written = csv_text([row])
    (read,) = csv.reader(io.StringIO(written, newline=""))
    assert len(read) == len(row)
    for cell in read:
        assert not cell.strip().startswith(tuple(BEGINNINGS))
        assert cell.isprintable()


def test_numbers_of_ours_keep_their_sign_and_all_digits():
    assert csv_text([["a", -0.1, 1e-17, 3]]) == "a,-0.1,1e-17,3.0\n"


def test_harmless_texts_stay_as_they_are():
    row = ["A", "broken arm, left", 'say "hi"', "7-9", "a=b", "é 漢字", "90 %"]
    assert next(csv.reader(io.StringIO(csv_text([row])))) == row


def test_nobody_else_writes_csv():
    folder = Path(module.__file__).parents[1]
    writers = [
        path.name
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("writer", "DictWriter", "to_csv", "write_csv")
    ]
    assert writers == ["csv_text.py"]


# A release that shows texts of records

HOSTILE = ("\u202egnp.exe", "=HYPERLINK(1)", "a\u2066b\u2069", "\x1b[31mred", "<b>bold</b>", "\u200b")


@pytest.fixture(scope="module")
def result() -> Result:
    event = {"kind": "level-discovery", "count": 1}
    claim = Certificate(
        {"epsilon": 1.0, "neighbours": "add-remove"}, event, "discrete-laplace", "scale", 1.0, "", "row", {}
    )
    counts = NoisyStatistics(HOSTILE, (50,) * len(HOSTILE), "discrete-laplace", 1.0)
    family = {"name": "levels", "column": "diagnosis", "of": "records", "least": 1, "margin": 3}
    release = Release(family, (), {"all": counts}, claim, by="diagnosis")
    return Result("found", "Which values occur?", release, 1, "epsilon=1", "nothing")


def is_plain(text: str) -> bool:
    """Tell whether nothing of a text is hidden, or turns a line around."""
    return printable(text) == text


def test_the_report_and_its_table_escape_what_was_found(result):
    written = part(result, 1, 0)
    table = results_csv([written])
    names = dict.fromkeys(("title", "dataset", "remaining", "ledger", "head"), HOSTILE[0])
    columns = {HOSTILE[0]: {"levels": list(HOSTILE)}}
    content = ReportContent(
        **names,
        unit="row",
        neighbours="add-remove",
        budget="epsilon=1",
        columns=columns,
        public=(HOSTILE[0],),
        source="[study]\n\ta = 1\n",
        results=(result,),
    )
    whole = page(content)
    assert is_plain(whole.replace("\t", " "))
    assert "\n\ta = 1" in whole
    assert is_plain(table)
    assert r"\u202egnp.exe" in written.section
    assert r"\u202egnp.exe" in table
    assert "&lt;b&gt;bold" in written.section
    assert not any(cell.startswith("=") for row in cells(table) for cell in row)


def test_a_picture_and_a_notebook_escape_what_was_found(result, tmp_path):
    posterior: Posterior = result.posterior
    assert is_plain(posterior._repr_html_())
    axes = plot(posterior, path=tmp_path / "picture.png")
    assert all(is_plain(label.get_text()) for label in axes.get_yticklabels())
