"""The figures of a page: posteriors, groups side by side, released draws, and what remains of a budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.display import plotting
from vestry.display.plotting import COLOURS, GRID, INK, WIDTH
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.posterior import Posterior, Rows
from vestry.report.content import WIDE, Estimate

# Up to this many rows are drawn as densities, beyond as intervals; rows beyond the other are in the table only; rows of
# one half of a comparison.
MOST_DENSITIES, MOST_ROWS, _MOST_COMPARED = 12, 60, 36
PRIOR = COLOURS[1]


def densities(found: tuple[Estimate, ...], posterior: Posterior, before: PosteriorDistribution) -> Any:
    """Draw each posterior density over its prior, with 50 % and 90 % credible intervals."""
    names = [plotting.name_of(each.group, each.label, posterior) for each in found]
    low, high = min(each.reach[0] for each in found), max(each.reach[1] for each in found)
    x = np.linspace(low, high, 401)
    with plotting.figure(1, path=None, width=WIDTH, height=0.95 + 0.62 * max(1.6, len(found))) as (drawn, (axes,)):
        for height, each in zip(reversed(range(len(found))), found, strict=True):
            own = np.linspace(*each.reach, 161)
            after, prior = plotting.density(each.marginal, own), plotting.density(before.marginal(each.index), x)
            top = max(after.max(), prior.max()) / 0.72
            axes.fill_between(own, height, height + after / top, color=INK, alpha=0.2, linewidth=0)
            axes.plot(own, height + after / top, color=INK, linewidth=1.3, label="posterior" if height == 0 else None)
            axes.plot(x, height + prior / top, color=PRIOR, linewidth=1.1, linestyle="--",
                      label=posterior.reader.prior_words if height == 0 else None)  # fmt: skip
            plotting.whisker(axes, height, each.mean, each.wide, each.half)
        plotting.name_rows(axes, names, posterior.reader.parameter, below=0.25, above=0.9)
        drawn.legend(loc="outside upper right", ncols=2)
    return drawn


def intervals(found: tuple[Estimate, ...], posterior: Posterior, before: PosteriorDistribution) -> Any:
    """Draw each posterior's 50 % and 90 % credible intervals, and the prior's 90 % below, dashed."""
    shown = found[:MOST_ROWS]
    names = [plotting.name_of(each.group, each.label, posterior) for each in shown]
    ends = {index: before.marginal(index).interval(WIDE) for index in {each.index for each in shown}}
    with plotting.figure(1, path=None, width=WIDTH, height=0.95 + plotting.height_of(names)) as (drawn, (axes,)):
        for height, each in zip(reversed(range(len(shown))), shown, strict=True):
            axes.plot(ends[each.index], [height - 0.3] * 2, color=PRIOR, linewidth=1, linestyle="--",
                      label=f"{posterior.reader.prior_words}, 90 %" if height == 0 else None)  # fmt: skip
            plotting.whisker(axes, height, each.mean, each.wide, each.half, label="posterior" if height == 0 else None)
        low, high = min(each.wide[0] for each in shown), max(each.wide[1] for each in shown)
        axes.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
        plotting.name_rows(axes, names, posterior.reader.parameter, below=0.7)
        drawn.legend(loc="outside upper right", ncols=2)
    return drawn


def comparison(found: tuple[Estimate, ...], differences: Rows, posterior: Posterior) -> Any:
    """Draw the groups on one axis, and their differences below on another with its zero."""
    several = posterior.reader.dimension > 1
    ordered = sorted(found, key=lambda each: each.index)[:_MOST_COMPARED]
    names = [f"{each.label}: {each.group}" if several else each.group for each in ordered]
    shown = differences[:_MOST_COMPARED]
    pairs = [f"{row['label']}: {row['a']} − {row['b']}" if several else f"{row['a']} − {row['b']}" for row in shown]
    heights = (plotting.height_of(names) + 0.55, plotting.height_of(pairs) + 0.55)
    with plotting.figure(1, path=None, width=WIDTH, height=sum(heights), heights=heights) as (drawn, (above, below)):
        for height, each in zip(reversed(range(len(ordered))), ordered, strict=True):
            plotting.whisker(above, height, each.mean, each.wide, each.half)
        plotting.name_rows(above, names, posterior.reader.parameter)
        below.axvline(0, color=PRIOR, linewidth=1.2, linestyle="--")
        for height, row in zip(reversed(range(len(shown))), shown, strict=True):
            plotting.whisker(below, height, row["mean"], (row["low"], row["high"]))
        plotting.name_rows(below, pairs, f"difference in {posterior.reader.parameter}; dashed: none")
    return drawn


def effects(found: dict[str, tuple[float, tuple[float, float], tuple[float, float]]], outcome: str) -> Any:
    """Draw the mean, 90 % and 50 % interval of each effect on an outcome, with the line of none."""
    names = list(found)[:MOST_ROWS]
    with plotting.figure(1, path=None, width=WIDTH, height=0.95 + plotting.height_of(names)) as (drawn, (axes,)):
        axes.axvline(0, color=PRIOR, linewidth=1.2, linestyle="--")
        for height, name in zip(reversed(range(len(names))), names, strict=True):
            plotting.whisker(axes, height, *found[name])
        plotting.name_rows(axes, names, outcome)
    return drawn


def points(posterior: Posterior, labels: tuple[str, ...]) -> Any:
    """Draw released draws as the points that they are, numbered where they are few."""
    drawn_by_group = posterior.sample()
    rows = [(group, index) for group in drawn_by_group for index in range(len(labels))][:MOST_ROWS]
    names = [plotting.name_of(group, labels[index], posterior) for group, index in rows]
    with plotting.figure(1, path=None, width=WIDTH, height=0.9 + 1.4 * plotting.height_of(names)) as (drawn, (axes,)):
        for height, (group, index) in zip(reversed(range(len(rows))), rows, strict=True):
            axes.axhline(height, color=GRID, linewidth=1, zorder=0)
            plotting.dots(axes, height, drawn_by_group[group][:, index])
        plotting.name_rows(axes, names, posterior.reader.parameter, below=0.7, above=0.7)
        axes.margins(x=0.08)
    return drawn


def budget(steps: list[tuple[str, float]], total: float, unit: str) -> Any:
    """Draw what remains of a budget before the releases and after each of them."""
    names = [name for name, _ in steps]
    with plotting.figure(1, path=None, width=WIDTH, height=0.75 + 1.25 * plotting.height_of(names)) as (drawn, (axes,)):
        places = list(reversed(range(len(steps))))
        axes.barh(places, [total] * len(steps), height=0.56, facecolor="none", edgecolor=INK, linewidth=0.8)
        axes.barh(places, [left for _, left in steps], height=0.56, color=INK, alpha=0.55, linewidth=0)
        plotting.name_rows(axes, names, f"remaining {unit} (filled) of the budget (outline)")
        axes.set_xlim(0, total * 1.02)
    return drawn
