"""A posterior as a plot, and as a notebook shows it."""

from __future__ import annotations

import base64
import re

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

import vestry
from vestry.errors import InvalidParameter
from vestry.releases import Certificate, Draws, NoisyStatistics, Release

CERTIFICATE = Certificate({"epsilon": 0.5}, {"kind": "pure", "count": 1}, "laplace", "scale", 2.0, "", "row", {})
COUNTS = NoisyStatistics(("successes", "failures"), (31, 18), "discrete-laplace", 2.0)
POINTS = Draws(((0.2,), (0.3,), (0.25,)))


def posterior(**contents):
    by = None if list(contents) == ["all"] else "ward"
    return Release({"name": "beta-bernoulli"}, (1, 1), contents, CERTIFICATE, by).posterior()


@pytest.fixture
def pyplot():
    mpl.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("draw", [lambda post, ax: post.plot(ax), lambda post, ax: vestry.plot(post, ax=ax)])
def test_a_plot_is_drawn_into_given_axes(draw):
    left, right = Figure().subplots(1, 2)
    assert draw(posterior(A=COUNTS, B=COUNTS), right) is right
    assert [label.get_text() for label in right.get_yticklabels()] == ["B", "A"]
    assert right.get_title() == "90 % credible intervals: noise summed out"
    assert not left.lines


def test_a_plot_without_axes_is_one_that_a_notebook_shows(pyplot):
    axes = posterior(all=COUNTS).plot(prob=0.5)
    assert pyplot.get_fignums() == [axes.figure.number]
    assert axes.figure.get_suptitle() == "50 % credible intervals: noise summed out"


def test_the_interval_in_a_plot_is_the_posteriors():
    axes, post = Figure().subplots(), posterior(all=COUNTS)
    post.plot(axes, prob=0.5)
    whisker = axes.lines[1]
    assert whisker.get_xdata() == pytest.approx(post.interval(0.5).loc["all", "probability"].to_numpy())


def test_released_draws_are_points():
    axes = posterior(all=POINTS).plot(Figure().subplots())
    assert axes.lines[0].get_xdata() == pytest.approx([0.2, 0.3, 0.25])
    assert axes.get_title() == "no interval: released draws"


@pytest.mark.parametrize("ax", [1, "axes", Figure()], ids=["number", "text", "figure"])
def test_what_is_not_axes_is_refused(ax):
    with pytest.raises(
        InvalidParameter, match=r"ax must be axes of Matplotlib, not '\w+'; write ax=matplotlib\.pyplot"
    ):
        posterior(all=COUNTS).plot(ax)


def cells(page: str) -> list[str]:
    return re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", page)


def test_a_notebook_shows_summary_and_plot(pyplot):
    post = posterior(A=COUNTS, B=COUNTS)
    page = post._repr_html_()
    (picture,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(picture).startswith(b"\x89PNG")
    found = cells(page)
    assert {"mean", "sd", "low", "high", "A", "B", "probability"} <= set(found)
    assert f"{post.rows()[0]['mean']:.2f}" in found  # the digits that its spread allows
    assert not pyplot.get_fignums(), "a displayed posterior leaves no open figure"


def test_a_notebook_shows_released_draws():
    found = cells(posterior(all=POINTS)._repr_html_())
    assert found[-3:] == ["0.200", "0.300", "0.250"]
    assert "draw 3" in found


def test_names_of_groups_are_text():
    page = posterior(**{"<script>": COUNTS, "B&B": COUNTS})._repr_html_()
    assert "<script>" not in page
    assert {"&lt;script&gt;", "B&amp;B"} <= set(cells(page))


def test_many_rows_are_cut():
    page = posterior(**{f"ward {place}": POINTS for place in range(40)})._repr_html_()
    assert "ward 0" in page
    assert "ward 20" not in page
