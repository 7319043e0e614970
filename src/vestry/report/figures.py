"""The figures of a page: posteriors, differences between groups, released draws, and privacy profiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.display import plotting
from vestry.display.plotting import COLOURS, GRID, INK, WIDTH
from vestry.posterior.posterior import Posterior, Rows
from vestry.report.content import WIDE, Estimate, Result, prior

# Up to this many rows are drawn as densities, beyond as intervals; rows beyond the other are in the table only; rows of
# a comparison.
MOST_DENSITIES, MOST_ROWS, _MOST_COMPARED = 12, 60, 36
PRIOR = COLOURS[1]


def densities(estimates: tuple[Estimate, ...], result: Result) -> Any:
    """Draw each posterior density, over its prior if it has one, with 50 % and 90 % credible intervals."""
    posterior = result.posterior
    names = [plotting.name_of(each.group, each.label, posterior) for each in estimates]
    low, high = min(each.reach[0] for each in estimates), max(each.reach[1] for each in estimates)
    x, known = np.linspace(low, high, 401), posterior.reader.prior_words
    before = prior(posterior) if known else None
    with plotting.figure(1, path=None, width=WIDTH, height=0.95 + 0.5 * max(1.6, len(estimates))) as (fig, (axes,)):
        for height, each in zip(reversed(range(len(estimates))), estimates, strict=True):
            own = np.linspace(*each.reach, 161)
            after = plotting.density(each.marginal, own)
            above = None if before is None else plotting.density(before.marginal(each.index), x)
            top = max(after.max(), 0 if above is None else above.max()) / 0.72
            axes.fill_between(own, height, height + after / top, color=INK, alpha=0.2, linewidth=0)
            axes.plot(own, height + after / top, color=INK, linewidth=1.3, label="posterior" if height == 0 else None)
            if above is not None:
                axes.plot(x, height + above / top, color=PRIOR, linewidth=1.1, linestyle="--",
                          label=known if height == 0 else None)  # fmt: skip
            plotting.whisker(axes, height, each.mean, each.wide, each.half)
        plotting.name_rows(axes, names, result.measure, below=0.25, above=0.9, percent=result.percent)
        if before is not None:
            fig.legend(loc="outside upper right", ncols=2)
    return fig


def intervals(estimates: tuple[Estimate, ...], result: Result) -> Any:
    """Draw each posterior's 50 % and 90 % credible intervals, and the prior's 90 % below, dashed, if it has one."""
    posterior, shown = result.posterior, estimates[:MOST_ROWS]
    names = [plotting.name_of(each.group, each.label, posterior) for each in shown]
    known, ends = posterior.reader.prior_words, {}
    if known:
        before = prior(posterior)
        ends = {index: before.marginal(index).interval(WIDE) for index in {each.index for each in shown}}
    with plotting.figure(1, path=None, width=WIDTH, height=0.95 + plotting.height_of(names)) as (fig, (axes,)):
        for height, each in zip(reversed(range(len(shown))), shown, strict=True):
            if known:
                axes.plot(ends[each.index], [height - 0.3] * 2, color=PRIOR, linewidth=1, linestyle="--",
                          label=f"{known}, 90 %" if height == 0 else None)  # fmt: skip
            plotting.whisker(axes, height, each.mean, each.wide, each.half, label="posterior" if height == 0 else None)
        low, high = min(each.wide[0] for each in shown), max(each.wide[1] for each in shown)
        axes.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
        plotting.name_rows(axes, names, result.measure, below=0.7, percent=result.percent)
        if known:
            fig.legend(loc="outside upper right", ncols=2)
    return fig


def comparison(differences: Rows, result: Result) -> Any:
    """Draw the differences of groups on one axis with its zero."""
    several = result.posterior.reader.dimension > 1
    shown = differences[:_MOST_COMPARED]
    pairs = [f"{row['label']}: {row['a']} − {row['b']}" if several else f"{row['a']} − {row['b']}" for row in shown]
    with plotting.figure(1, path=None, width=WIDTH, height=0.7 + plotting.height_of(pairs)) as (fig, (axes,)):
        axes.axvline(0, color=PRIOR, linewidth=1.2, linestyle="--")
        for height, row in zip(reversed(range(len(shown))), shown, strict=True):
            plotting.whisker(axes, height, row["mean"], (row["low"], row["high"]))
        points = ", percentage points" if result.percent else ""
        plotting.name_rows(axes, pairs, f"difference{points}; dashed: none", percent=result.percent, sign="")
    return fig


def profiles(curves: dict[str, tuple[list[float], list[float]]]) -> Any:
    """Draw delta against epsilon of what ran for each release."""
    with plotting.figure(1, path=None, width=WIDTH, height=2.6) as (fig, (axes,)):
        for place, (name, (epsilons, deltas)) in enumerate(curves.items()):
            axes.plot(epsilons, deltas, label=name, **plotting.line(place))
        axes.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(1e-10, 2))
        plotting.powers(axes.yaxis)
        fig.legend(loc="outside upper left", ncols=2)
    return fig


def effects(summaries: dict[str, tuple[float, tuple[float, float], tuple[float, float]]], outcome: str) -> Any:
    """Draw the mean, 90 % and 50 % interval of each effect on an outcome, with the line of none."""
    names = list(summaries)[:MOST_ROWS]
    with plotting.figure(1, path=None, width=WIDTH, height=0.95 + plotting.height_of(names)) as (fig, (axes,)):
        axes.axvline(0, color=PRIOR, linewidth=1.2, linestyle="--")
        for height, name in zip(reversed(range(len(names))), names, strict=True):
            plotting.whisker(axes, height, *summaries[name])
        plotting.name_rows(axes, names, outcome)
    return fig


def points(posterior: Posterior, labels: tuple[str, ...]) -> Any:
    """Draw released draws as the points that they are, numbered where they are few."""
    draws_by_group = posterior.sample()
    rows = [(group, index) for group in draws_by_group for index in range(len(labels))][:MOST_ROWS]
    names = [plotting.name_of(group, labels[index], posterior) for group, index in rows]
    with plotting.figure(1, path=None, width=WIDTH, height=0.9 + 1.4 * plotting.height_of(names)) as (fig, (axes,)):
        for height, (group, index) in zip(reversed(range(len(rows))), rows, strict=True):
            axes.axhline(height, color=GRID, linewidth=1, zorder=0)
            plotting.dots(axes, height, draws_by_group[group][:, index])
        percent = posterior.reader.parameter == "probability"
        plotting.name_rows(axes, names, posterior.reader.parameter, below=0.7, above=0.7, percent=percent)
        axes.margins(x=0.08)
    return fig
