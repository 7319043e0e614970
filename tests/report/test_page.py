"""The page: its structure, its numbers, and that it shows text as text."""

from __future__ import annotations

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
from vestry.posterior.discrete_noise import deviation
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.pricing import event
from vestry.releases import NoisyStatistics, Release
from vestry.report.content import estimates, prior, shares
from vestry.report.figures import points
from vestry.report.guarantee_section import weight
from vestry.report.page import left_in, page

LARGE = {"thirty categories", "twelve long groups", "draws of categories by group"}
each_case = pytest.mark.parametrize("case", [*cases(AWKWARD, quick=set(AWKWARD) - LARGE), "four"])


@cache
def written(case):
    return page(FOUR if case == "four" else story(AWKWARD[case]))


@cache
def parsed(case):
    return read(written(case))


def figures(cell):
    """Return the numbers of a cell, as written with a real minus and thin spaces."""
    plain = cell.replace("−", "-").replace("\u202f", "")
    return [float(each) for each in re.findall(r"-?\d+\.?\d*", plain)]


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
    root, names = parsed("markup in names"), ("h2", "p", "th", "td", "caption", "figcaption", "text")
    shown = {each.name for each in root.all(*names) if "<script>" in each.text()}
    assert shown >= {"h2", "p", "th", "td"}
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
        # Two digits of the spread are shown at the least, so a twentieth of it is lost at the most.
        assert mean == pytest.approx(law.mean(), abs=0.051 * spread)
        assert sd == pytest.approx(spread, rel=0.006)
        assert law.cdf(np.array(ends)) == pytest.approx([0.25, 0.75, 0.05, 0.95], abs=0.04)


def test_contrasts_are_seeded_by_the_release():
    """Six standard errors of a difference of two independent means, each known exactly."""
    posterior = FOUR.results[0].posterior
    exact = {row["group"]: row for row in posterior.rows()}
    shown = rows("four", "Differences for every pair")
    assert len(shown) == 6
    for name, mean, *_ in shown:
        a, b = (exact[each] for each in name.split(" − "))
        error = np.hypot(a["sd"], b["sd"])
        assert figures(mean)[0] == pytest.approx(a["mean"] - b["mean"], abs=6 * error / np.sqrt(20_000) + 0.0005)


@pytest.mark.long
def test_twelve_groups_are_compared_with_the_first():
    shown = rows("twelve long groups", "Differences for each group with")
    assert len(shown) == 11
    assert all(row[0].endswith(f"− {LONG} 00") for row in shown)


@pytest.mark.long
def test_draws_are_shown_and_have_no_interval():
    text = " ".join(parsed("four").all("body")[0].text().split())
    assert "5 draws from a posterior were released, and they are all there is" in text
    assert [figures(row[1])[0] for row in rows("four", "The released draws")] == [0.172, 0.203, 0.147, 0.189, 0.166]
    assert "What was released was drawn from a posterior in which each record counts " in text
    assert not any("interval" in row[0] for row in rows("one draw", "The released draws"))
    assert "One draw, probability 0.250; no interval" in written("one draw")
    assert "5 draws, probability from 0.147 to 0.203; no interval" in written("four")
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
    assert figures(row[-1])[0] == pytest.approx(100 * (actual / exact - 1), rel=0.06)


@pytest.mark.parametrize(("noise", "power"), [("discrete-laplace", 1), ("discrete-gaussian", 2)])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 7.0, 40.0])
def test_the_noise_s_deviation(noise, power, scale):
    """By summing the law; a wrong scale of 1 % would show."""
    k = np.arange(-4000, 4001)
    weights = np.exp(-(np.abs(k) ** power) / (power * scale**power))
    assert deviation(noise, scale) == pytest.approx(np.sqrt(weights @ k**2 / weights.sum()), rel=1e-6)


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
    assert f"({made})" in parsed(case).all("header")[0].text()


def test_what_no_theorem_covers_is_said():
    text = parsed("unknown law").all("body")[0].text()
    assert "No theorem covers this: " in text
    assert f"Converged {CANARY}" in text
    assert "so no privacy curve is drawn" in text


def test_budget_and_verification():
    text = parsed("four").all("body")[0].text()
    assert "keep within epsilon=2,delta=1e-5" in text
    assert f"vestry ledger verify patients.ledger --head {'9f2c' * 16}" in text
    assert "vestry posterior readmitted/release.json" in text
    pictures = [each.attributes["aria-label"] for each in parsed("four").all("svg")]
    assert (
        "before: 2.00; after readmitted: 1.70; after admission: 1.50; after stay: 1.30; after draws: 0.300"
        in pictures[-1]
    )


@pytest.mark.parametrize(
    ("words", "budget", "left"),
    [
        ("epsilon=0.3, or rho=0.11 (with delta up to 4e-6)", "epsilon=2,delta=1e-5", 0.3),
        ("order=8,epsilon=0.3, or order=16,epsilon=0.2", "epsilon=2,delta=1e-5", None),
        ("rho=1e-3", "rho=0.5", 0.001),
        ("nothing", "mu=1", 0.0),
        ("a little", "epsilon=1", None),
        ("order=8,epsilon=0.3", "order=8,epsilon=1", None),
    ],
)
def test_what_is_left_is_read_only_in_the_budget_s_currency(words, budget, left):
    assert left_in(words, Guarantee.parse(budget)) == left


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
