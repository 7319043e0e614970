"""Numbers in bins, on a page: bars with a band, and the distribution function with a band and its quantiles."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from vestry.display import plotting
from vestry.display.formatting import number, whole
from vestry.display.plotting import GREY, INK, WIDTH
from vestry.display.templates import Album, Content, Markup, tag
from vestry.report.content import WIDE, Result

# Groups that are drawn, each as its own bars or line; edges that are described.
_MOST_GROUPS, _MOST_DESCRIBED = 5, 8


def binned_figure(result: Result, album: Album) -> Markup:
    """Draw what the release was made for: bars of a histogram, or the function of quantiles."""
    return _bars(result, album) if result.percent else _function(result, album)


def function_parts(result: Result, album: Album) -> list[Content]:
    """Draw the distribution function of a histogram, too."""
    return [tag("h4", "The distribution function"), _function(result, album)]


def _bars(result: Result, album: Album) -> Markup:
    """Draw each group's bars up to the mean, with the 90 % interval of each bin as a band."""
    groups = _groups(result)
    names = list(groups)
    edges = next(iter(groups.values())).edges
    widths = np.diff(edges)
    even = bool(np.allclose(widths, widths[0]))
    size = np.ones_like(widths) if even else widths
    height = 0.9 + 1.7 * len(names)
    with plotting.figure(1, path=None, width=WIDTH, height=height, heights=(1.0,) * len(names)) as (fig, panels):
        for axes, name in zip(panels, names, strict=True):
            bins = [groups[name].marginal(at) for at in range(groups[name].dimension)]
            means, ends = (np.array([each.mean() for each in bins]), np.array([each.interval(WIDE) for each in bins]))
            low, high = (ends / size[:, None]).T
            how = {"align": "edge", "color": INK, "linewidth": 0}
            axes.bar(edges[:-1], means / size, widths, alpha=0.16, **how)
            axes.bar(edges[:-1], high - low, widths, bottom=low, alpha=0.4, label="90 %", **how)
            axes.hlines(means / size, edges[:-1], edges[1:], color=INK, linewidth=1.6, label="mean")
            axes.set_ylim(0, 1.08 * high.max())
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g} %")
            if result.posterior.by is not None:
                axes.set_title(name, parse_math=False)
            _name_values(axes, result, last=name == names[-1])
        fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    what = "" if even else ", divided by the width of its bin"
    caption = (
        f"Mean probability of each bin{what} (lines) with its 90 % credible interval (dark band;"
        f" {result.posterior.interval_method}).{_cut(result)}"
    )
    return album.figure(fig, alternative=_described(result), caption=caption)


def _function(result: Result, album: Album) -> Markup:
    """Draw the distribution function of each group with its band; of quantiles, where they lie."""
    reader: Any = result.posterior.reader
    with plotting.figure(1, path=None, width=WIDTH, height=3.4) as (fig, (axes,)):
        for place, (name, bins) in enumerate(_groups(result).items()):
            marginals = [bins.below(at) for at in range(bins.edges.size)]
            low, high = np.array([each.interval(WIDE) for each in marginals]).T
            look = plotting.line(place)
            axes.fill_between(bins.edges, low, high, color=look["color"], alpha=0.25, linewidth=0)
            axes.plot(bins.edges, [each.mean() for each in marginals], label=name, linewidth=1.4, **look)
            for q in () if result.percent else reader.quantiles:
                axes.axhline(q, color=GREY, linewidth=0.8, linestyle=":")
                ends = bins.quantile(q).interval(WIDE)
                axes.plot(ends, [q, q], color=look["color"], linewidth=3.5, solid_capstyle="butt")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        _name_values(axes, result, last=True)
        if result.posterior.by is not None:
            fig.legend(loc="outside upper left", ncols=2)
    marks = "" if result.percent else " Thick lines: the 90 % interval of each quantile, from edge to edge of bins."
    caption = (
        "Share of values below each point: mean and band of 90 % credible intervals, each for its own edge"
        f" (noise summed out); straight between the edges of bins.{marks}{_cut(result)}"
    )
    return album.figure(fig, alternative=_described(result), caption=caption)


def _groups(result: Result) -> dict[str, Any]:
    groups = list(result.posterior.distributions.items())[:_MOST_GROUPS]
    return {name: result.posterior.reader.binned(each) for name, each in groups}


def _cut(result: Result) -> str:
    count = len(result.posterior.distributions)
    return f" The first {_MOST_GROUPS} of {whole(count)} groups." if count > _MOST_GROUPS else ""


def _name_values(axes: Any, result: Result, *, last: bool) -> None:
    """Name the axis of values; those of dates by dates."""
    reader: Any = result.posterior.reader
    bins = reader.bins
    axes.set_xlim(bins.edges[0], bins.edges[-1])
    if bins.since is not None:
        first = datetime.date.fromisoformat(bins.since)
        axes.xaxis.set_major_formatter(lambda value, _: (first + datetime.timedelta(days=float(value))).isoformat())
        axes.tick_params(axis="x", labelsize=8)
        axes.locator_params(axis="x", nbins=4)
    if last:
        axes.set_xlabel(bins.column, parse_math=False)


def _described(result: Result) -> str:
    """Say in words what a figure shows."""
    lines = []
    for name, bins in list(_groups(result).items())[:2]:
        step = max(1, bins.dimension // _MOST_DESCRIBED)
        shares = [f"{100 * bins.below(at).mean():.3g} % below {number(bins.edges[at])}"
                  for at in range(step, bins.dimension, step)]  # fmt: skip
        lines.append(f"{name}: {', '.join(shares)}" if result.posterior.by is not None else ", ".join(shares))
    return "Distribution of the values in bins. " + "; ".join(lines)
