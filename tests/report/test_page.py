"""The page: its structure, its numbers, and that it shows text as text."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from report.example import AWKWARD, CANARY, FOUR, LONG, coefficients, hidden, result, story
from report.page_reader import faults, read
from share import cases

from vestry.display.plotting import privacy_curve
from vestry.errors import InvalidParameter
from vestry.posterior import Posterior
from vestry.privacy.pricing import event
from vestry.releases import NoisyStatistics, Release
from vestry.report.content import Share, estimates, prior, shares
from vestry.report.figures import points
from vestry.report.guarantee_section import weight
from vestry.report.page import page, part, results_csv
from vestry.report.release_section import noise_sentence

LARGE = {"thirty categories", "twelve long groups", "draws of categories by group"}
SMALL = set(AWKWARD) - LARGE
each_case = pytest.mark.parametrize("case", [*cases(AWKWARD, quick=SMALL), *cases(["four"], quick=[])])


@cache
def written(case):
    return page(FOUR if case == "four" else story(AWKWARD[case]))


@cache
def parsed(case):
    return read(written(case))


def figures(cell):
    """Return the numbers of a cell, as written with a real minus and thin spaces, or in percent."""
    plain = cell.replace("−", "-").replace("\u202f", "")
    found = re.findall(r"(-?\d+\.?\d*)(\u00a0%)?", plain)
    return [float(number) / (100 if percent else 1) for number, percent in found]


def rows(case, caption):
    """Return the body of the first table whose caption begins so."""
    table = next(each for each in parsed(case).all("table") if each.all("caption")[0].text().startswith(caption))
    return [[cell.text() for cell in row.all("th", "td")] for row in table.all("tbody")[0].all("tr")]


@each_case
@pytest.mark.long
def test_structure(case):
    assert faults(parsed(case)) == []


@each_case
@pytest.mark.long
def test_every_caption_says_what_is_drawn(case):
    captions = [" ".join(each.text().split()) for each in parsed(case).all("figcaption")]
    shown = r"density of|credible intervals|released (draw|estimate)|profile|divergence|Remaining|probable state"
    assert [each for each in captions if not re.search(shown, each)] == []
    assert not any(" %" in each.text() for each in parsed(case).all("figcaption")), "% stays with its number"


@each_case
@pytest.mark.long
def test_no_number_is_missing(case):
    """No value is left unwritten, and none is written that is not one."""
    text = parsed(case).all("body")[0].text()
    labels = " ".join(each.attributes["aria-label"] for each in parsed(case).all("svg"))
    assert not re.search(r"\b(nan|inf|None|NaN|Infinity)\b", text + labels)
    assert "<bound" not in text


@each_case
@pytest.mark.long
def test_no_address_in_the_markup(case):
    """Not even a namespace: nothing in the page could be fetched."""
    assert not re.search(r"https?://|//[a-z]+\.", written(case))


@pytest.mark.parametrize("case", ["markup in names", "one draw"])
@pytest.mark.long
def test_the_same_story_gives_the_same_bytes(case):
    assert page(story(AWKWARD[case])) == written(case)


@each_case
def test_text_stays_text(case):
    """A name that looks like markup is shown, and is no element."""
    assert CANARY not in written(case)
    assert not parsed(case).all("script", "b") or {each.text()[:7] for each in parsed(case).all("b")} == {"Figure "}
    if case != "four":
        assert CANARY in parsed(case).all("h1")[0].text()
        assert CANARY in parsed(case).all("pre")[0].text()


def test_every_place_of_a_name_escapes_it():
    root, names = parsed("markup in names"), ("h3", "p", "th", "td", "caption", "figcaption", "text")
    shown = {each.name for each in root.all(*names) if "<script>" in each.text()}
    assert shown >= {"h3", "p", "th", "td"}
    assert any("<script>" in each.attributes["aria-label"] for each in root.all("svg"))
    assert any("$\\x_1$" in each.text() for each in root.all("text")), "names are no mathematics"
    assert any("漢字" in each.text() for each in root.all("text"))
    assert "'<script>alert('\"'\"'x'" in root.all("pre")[1].text(), "commands are quoted for a shell"


@each_case
def test_estimates_are_the_posterior_s(case):
    """Means and deviations to the digits shown; the ends of the intervals cut off a quarter and a twentieth."""
    results = FOUR.results if case == "four" else (AWKWARD[case],)
    laws = [
        law.marginal(index)
        for each in results
        if each.posterior.label != "released draws"
        for law in each.posterior.distributions.values()
        for index in range(law.dimension)
    ]
    shown = [
        [number for cell in row.all("td") for number in figures(cell.text())]
        for table in parsed(case).all("table")
        if table.all("caption")[0].text().startswith("Posterior of")
        for row in table.all("tbody")[0].all("tr")
    ]
    assert len(shown) == len(laws)
    for (mean, sd, *ends), law in zip(shown, laws, strict=True):
        spread = np.sqrt(law.variance())
        # Rounding to the digits that the spread allows loses a seventh of it at the most: 0.5/3.55.
        assert mean == pytest.approx(law.mean(), abs=0.142 * spread)
        assert sd == pytest.approx(spread, rel=0.142)
        assert law.cdf(np.array(ends)) == pytest.approx([0.25, 0.75, 0.05, 0.95], abs=0.08)


@pytest.mark.long
def test_contrasts_are_seeded_by_the_release():
    """Six standard errors of a difference of two independent means, each known exactly."""
    posterior = FOUR.results[0].posterior
    exact = {row["group"]: row for row in posterior.rows()}
    shown = rows("four", "Differences for every pair")
    assert len(shown) == 6
    for name, mean, *_ in shown:
        a, b = (exact[each] for each in name.split(" − "))
        error = np.hypot(a["sd"], b["sd"])
        wanted = 100 * (a["mean"] - b["mean"])  # in percentage points, to the digits that the error allows
        assert figures(mean)[0] == pytest.approx(wanted, abs=600 * error / np.sqrt(20_000) + 14.2 * error)


@pytest.mark.long
def test_twelve_groups_are_compared_with_the_first():
    shown = rows("twelve long groups", "Differences for each group with")
    assert len(shown) == 11
    assert all(row[0].endswith(f"− {LONG} 00") for row in shown)


@pytest.mark.long
def test_draws_are_shown_and_have_no_interval():
    text = " ".join(parsed("four").all("body")[0].text().split())
    assert "5 draws from a posterior were released, and they are all there is" in text
    assert [figures(row[1])[0] for row in rows("four", "The released draws")] == pytest.approx(
        [0.172, 0.203, 0.147, 0.189, 0.166]
    )
    assert "What was released was drawn from a posterior in which each record counts " in text
    assert not any("interval" in row[0] for row in rows("one draw", "The released draws"))
    assert "A draw was released as one draw, 25.0\u00a0%, without an interval." in written("one draw")
    assert "was released as 5 draws, from 14.7\u00a0% to 20.3\u00a0%, without an interval." in written("four")
    assert len(rows("draws of categories by group", "The released draws")) == 100


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("likelihood_power", 0.0131, "drawn from a posterior in which each record counts 1.3 %"),
        ("prior_scale", 0.04, "drawn from a posterior whose prior counts 25.0 times as much as the declared one"),
        ("likelihood_power", 1.0, ""),
        ("scale", 0.5, ""),
    ],
)
def test_a_posterior_that_was_weakened_is_called_so(parameter, value, words):
    claim = replace(FOUR.results[0].release.certificate, parameter=parameter, value=value)
    assert " ".join(weight(claim).split()) == words


@pytest.mark.parametrize(
    ("method", "draws", "words"),
    [
        ("posterior", 1, "What was released: one draw from the posterior of the coefficients, and no interval."),
        ("posterior", 3, "What was released: 3 draws from the posterior of the coefficients, and no interval."),
        ("output", 1, "What was released: one estimate: the minimum of the losses, with noise added to it, and no int"),
    ],
)
@pytest.mark.long
def test_coefficients_are_called_what_they_are(method, draws, words):
    root = read(page(story(result("odds", "Which odds?", coefficients(method, draws), labels=("age", "intercept")))))
    assert faults(root) == []
    assert words in " ".join(root.all("body")[0].text().split())


@pytest.mark.parametrize(("columns", "boxes"), [(12, 0), (60, 1)])
@pytest.mark.long
def test_a_wide_map_has_a_box_that_scrolls(columns, boxes):
    pytest.importorskip("numba")
    root = read(page(story(result("states", "Which state?", hidden(columns)))))
    assert faults(root) == []
    found = [each for figure in root.all("figure") for each in figure.all("div")]
    assert [each.attributes["class"] for each in found] == ["scroll"] * boxes
    assert [each.attributes["tabindex"] for each in found] == ["0"] * boxes
    captions = [" ".join(each.text().split()) for each in root.all("figcaption")]
    assert captions[0].startswith("Figure 1. The most probable state of each region (down) at each month (across).")
    assert "short lines are 90 % credible intervals (Markov chain, noise summed out: not calibrated)" in captions[1]


def test_the_numbers_of_an_axis_stand_apart():
    """Small coefficients have long numbers, which would run into each other if there were many."""
    drawn = points(Posterior.from_release(coefficients()), ("age", "intercept"))
    drawn.axes[0].set_xlim(-2.2e-4, 4.2e-4)
    drawn.draw_without_rendering()
    boxes = [each.get_window_extent() for each in drawn.axes[0].get_xticklabels() if each.get_text()]
    assert all(left.x1 + 4 < right.x0 for left, right in pairwise(boxes))


def test_a_log_axis_of_several_decades_names_the_powers_alone():
    assert between(event("gdp", mu=0.3)) == set()


@pytest.mark.long
def test_a_log_axis_within_a_decade_names_what_lies_between():
    """2, 3 and 5, since 0.09 would stand on 0.1."""
    assert between(event("pure", epsilon=0.3)) == {"0.05", "0.2", "0.3"}


def test_a_log_axis_of_less_names_every_step():
    assert len(between(event("pure", epsilon=5.0))) >= 4


def between(ran):
    """Return the labels of an event's Renyi axis that are no powers of ten."""
    drawn = privacy_curve(ran, title="x")
    drawn.draw_without_rendering()
    low, high = drawn.axes[0].get_ylim()
    ticks = zip(drawn.axes[0].get_yticks(minor=True), drawn.axes[0].get_yticklabels(minor=True), strict=True)
    return {label.get_text() for place, label in ticks if low <= place <= high} - {""}


def test_negative_counts_are_explained():
    assert rows("negative counts", "The numbers as released") == [["successes", "−7"], ["failures", "−2"]]
    assert "A negative count comes from the noise; it is not a mistake." in written("negative counts")
    assert rows("negative counts", "Standard deviations")[0][1] == "not defined"


def test_the_noise_s_share_is_the_ratio_of_deviations():
    """A proportion of a public count: the exact posterior is Beta(1 + 24, 1 + 76), known in closed form."""
    made = AWKWARD["public count"]
    (share,) = shares(made.release, made.posterior, estimates(made))
    exact = np.sqrt(25 * 77 / (102**2 * 103))
    actual = made.posterior.rows()[0]["sd"]
    assert share.exact == pytest.approx(exact)
    assert share.ratio == pytest.approx(actual / exact)
    q = np.exp(-1 / 10)
    assert share.noise == pytest.approx(np.sqrt(2 * q) / (1 - q) / 100)
    (row,) = rows("public count", "Standard deviations")
    assert figures(row[-1])[0] == pytest.approx(actual / exact - 1, rel=0.06)


def test_a_large_sample_owes_nothing_to_the_noise():
    assert "The noise adds next to nothing" in written("no noise to speak of")


def test_plug_in_is_labelled():
    assert "Its intervals are too short" in written("plug-in")
    root = parsed("plug-in")
    captions = [" ".join(each.text().split()) for each in (*root.all("caption"), *root.all("figcaption"))]
    with_intervals = [each for each in captions if "credible intervals" in each]
    assert len(with_intervals) == 4  # estimates and differences: a figure and a table of each
    assert all("plug-in: not calibrated" in each for each in with_intervals)
    assert [each.text() for each in root.all("td")].count("not calibrated") == 4  # a row for each group


@pytest.mark.parametrize("case", ["four", "plug-in"])
def test_an_answer_says_how_its_intervals_are_made(case):
    made = "plug-in: not calibrated" if case == "plug-in" else "noise summed out"
    assert f"credible intervals, {made})" in parsed(case).all("header")[0].text()


def test_what_no_theorem_covers_is_said():
    text = parsed("unknown law").all("body")[0].text()
    assert "No theorem covers this: " in text
    assert f"Converged {CANARY}" in text
    assert "so no privacy curve is drawn" in text


def test_budget_and_verification():
    text = " ".join(parsed("four").all("body")[0].text().split())
    assert "All releases together keep epsilon=2,delta=1e-5, past and future ones" in text
    assert f"vestry ledger verify patients.ledger --head {'9f2c' * 16}" in text
    assert "vestry posterior readmitted/release.json" in text
    digest = hashlib.sha256(FOUR.results[0].release.text().encode()).hexdigest()
    assert f"sha256sum readmitted/release.json # {digest}" in text


HEADINGS = """h1 Readmissions and length of stay, 2024
h2 What is protected
h2 Spent and remaining
h2 Results
h2 What may not be concluded
h2 Contents
h2 Each result in detail
h3 1. readmitted
h4 Groups compared
h3 2. admission
h3 3. stay
h3 4. draws
h2 Mathematics
h3 The guarantees
h3 The noise of readmitted
h3 The noise of admission
h3 The noise of stay
h3 References
h2 What was declared, what is public, and how to check it
h3 What is public
h3 The budget
h3 The study file
h3 How to check it"""


def test_a_screen_reader_hears_the_parts_in_their_order():
    found = [f"{each.name} {each.text()}" for each in parsed("four").all("h1", "h2", "h3", "h4")]
    assert found == HEADINGS.splitlines()


def test_the_first_page_says_who_and_why():
    told = replace(FOUR, results=(), issuer="Office", contact="x@y.example", date="2026-01-31", purpose="To know")
    facts = read(page(told)).all("dl")[0]
    assert [each.text() for each in facts.all("dd")] == ["Office", "x@y.example", "2026-01-31", "To know", "patients"]
    assert next(each.text() for each in read(page(replace(told, issuer=""))).all("dd")) == "not stated"


def test_the_first_page_has_protection_budget_and_answers():
    """At (2, 1e-5) the guess is right with probability (1 + TV)/2, TV = (e^2 - 1 + 2 delta)/(e^2 + 1): rounded up."""
    text = " ".join(parsed("four").all("header")[0].text().split())
    right = 50 + 50 * (np.exp(2) - 1 + 2e-5) / (np.exp(2) + 1)
    assert f"is right no more than {np.ceil(10 * right) / 10:.1f} % of the time" in text
    assert "Protected is whether any one row is in the data" in text
    assert "spent epsilon=0.3 on readmitted, rho=0.02 on admission" in text
    answers = [" ".join(each.text().split()) for each in parsed("four").all("ol")[0].all("li")]
    rows = {row["group"]: row for row in FOUR.results[0].posterior.rows()}
    for ward, row in rows.items():
        said = re.search(rf"([\d.]+ % \([^)]*\)) for {ward}", answers[0])[1].replace(" %", "\u00a0%")
        assert figures(said) == pytest.approx([row["mean"], row["low"], row["high"]], abs=0.2 * row["sd"])
    assert answers[3].endswith("was released as 5 draws, from 14.7 % to 20.3 %, without an interval. More of draws")


@pytest.mark.long
def test_the_table_of_results_has_all_digits():
    lines = list(csv.DictReader(io.StringIO(results_csv([part(FOUR.results[0], 1, 0), part(FOUR.results[3], 2, 0)]))))
    exact = FOUR.results[0].posterior.rows()
    assert [(row["group"], float(row["value"]), float(row["low"]), float(row["high"])) for row in lines[:4]] == [
        (row["group"], row["mean"], row["low"], row["high"]) for row in exact
    ]
    assert [(row["kind"], float(row["value"]), row["low"]) for row in lines[4:]] == [
        (f"draw {place}", value, "") for place, value in enumerate((0.1721, 0.2034, 0.1466, 0.1893, 0.1659), 1)
    ]


def test_an_average_over_persons_draws_no_prior():
    family = {"name": "beta-bernoulli", "average": "person", "kind": "numbers", "grouped": False, "dimension": 1,
              "low": 0.0, "high": 1.0}  # fmt: skip
    sums = NoisyStatistics(("s^2", "2sf", "f^2"), (200, 60, 700), "discrete-laplace", 2.0)
    made = Release(family, (1.0, 1.0), {"all": sums}, FOUR.results[0].release.certificate, None)
    told = part(result("persons", "How often?", made), 1, 0).section
    assert "prior" not in told.lower().replace("and uses no prior", "")
    assert "Prior (dashed)" in written("four")


def test_a_mean_is_in_units_of_its_column():
    told, number = part(replace(FOUR.results[2], unit="stay_days"), 1, 0), r"\d+\.\d+"
    assert re.match(f"The mean stay in days is {number} \\({number} to {number}\\) in units of stay_days", told.answer)
    assert "Posterior of the mean, in units of stay_days" in told.section
    cells = re.findall(r"<td>([−\d\u202f.]+)</td>", told.proof)
    noise = 2**0.5 * 2**20 / 0.2 * np.array([60 / 2**20, 2**-19])  # in days and in records, never in units of the grid
    exact = np.array([-21_100_000 * 60 / 2**20, 752_000_000 / 2**19])
    assert np.all(np.abs([figures(each)[0] for each in cells[-2:]] - exact) < 0.15 * noise)


def test_a_study_without_releases_has_a_page():
    assert faults(read(page(story()))) == []


def test_a_story_of_an_unknown_unit_is_refused():
    with pytest.raises(InvalidParameter, match="unit must be"):
        page(story(unit="household"))


def test_another_prior_is_drawn_as_asked():
    """The prior of the picture is the posterior's, and not the release's."""
    made = AWKWARD["public count"].release
    law = prior(Posterior.from_release(made, prior=(40.0, 60.0))).marginal(0)
    assert (law.mean(), law.variance()) == pytest.approx((0.4, 0.4 * 0.6 / 101))


@pytest.mark.parametrize("case", ["thirty categories", "two categories", "normal by group", "normal plane"])
def test_the_prior_is_the_posterior_of_no_records(case):
    posterior = AWKWARD[case].posterior
    law = prior(posterior).marginal(posterior.reader.dimension - 1)
    wanted = {30: (1 / 30, 29 / 30**2 / 31), 2: (0.5, 1 / 12)}.get(len(AWKWARD[case].release.prior))
    if posterior.reader.parameter == "mean":
        wanted = (9.0, 25.0)
    assert (law.mean(), law.variance()) == pytest.approx(wanted)


BAD = """<html><body><h1 id="a">x</h1><h3 id="a">y</h3><figure><svg role="img"></svg></figure>
<table><tr><th>x</th></tr></table><script src="https://example.org/x.js"></script>
<p style="background: url(x.png)" onclick="x">z</p></body></html>"""


def test_the_reader_sees_what_is_wrong():
    """The structure's test rejects a page that breaks each of its rules."""
    found = faults(read(BAD))
    wanted = ("id a twice", "h3 after h1", "no language", "a picture without", "a figure without", "a table without",
              "a heading without", "a script", "src=https", "onclick", "background")  # fmt: skip
    assert [each for each in wanted if not any(each in fault for fault in found)] == []
    with pytest.raises(AssertionError, match="closes"):
        read("<p><b></p>")


@pytest.mark.long
def test_a_release_of_classes_without_labels_names_its_parameters_by_place():
    """A class has one parameter more than it has counts: its own probability."""
    table = NoisyStatistics(("type=a", "type=b"), (30, 20), "discrete-laplace", 10 / 3)
    family = {"name": "naive-bayes", "target": "class", "classes": ["x", "y"], "features": ["type"],
              "levels": [["a", "b"]]}  # fmt: skip
    claim = FOUR.results[0].release.certificate
    made = Release(family, (1.0,), {"x": table, "y": table}, claim, "class")
    assert len(estimates(result("classes", "Which class", made))) == 2 * 3


def test_what_is_known_without_noise_owes_its_width_to_it():
    assert noise_sentence((Share(2.0, 0.0, 2.0),)) == "All of the width is noise: without it the number would be known."
    assert "cannot be told everywhere" in noise_sentence((Share(2.0, 0.0, 2.0), Share(1.0, 1.0, 2.0)))
