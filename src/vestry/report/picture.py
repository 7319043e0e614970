"""The pictures of a page: posteriors, groups side by side, released draws, and what is left of a budget."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from vestry.posterior.mixture import Law, Marginal
from vestry.posterior.noise_law import Array
from vestry.posterior.posterior import Posterior, Rows
from vestry.report.estimate import WIDE, Estimate, name_of
from vestry.report.style import COLOURS, INK, figure

WIDTH = 4.8
# Up to this many rows are drawn as densities, beyond as intervals; rows beyond the other are left to the table.
MOST_DENSITIES, MOST_ROWS = 12, 60
PRIOR = COLOURS[1]


def densities(found: tuple[Estimate, ...], posterior: Posterior, before: Law) -> Any:
    """Draw each posterior density over its prior, with the intervals of 50 % and 90 %."""
    names = [name_of(each.group, each.label, posterior) for each in found]
    low, high = min(each.reach[0] for each in found), max(each.reach[1] for each in found)
    x = np.linspace(low, high, 401)
    with figure(1, path=None, width=WIDTH, height=0.95 + 0.62 * max(1.6, len(found))) as (drawn, (axes,)):
        for height, each in zip(reversed(range(len(found))), found, strict=True):
            own = np.linspace(*each.reach, 161)
            after, prior = _density(each.marginal, own), _density(before.marginal(each.index), x)
            top = max(after.max(), prior.max()) / 0.72
            axes.fill_between(own, height, height + after / top, color=INK, alpha=0.2, linewidth=0)
            axes.plot(own, height + after / top, color=INK, linewidth=1.3, label="posterior" if height == 0 else None)
            axes.plot(x, height + prior / top, color=PRIOR, linewidth=1.1, linestyle="--",
                      label="prior" if height == 0 else None)  # fmt: skip
            _whisker(axes, height, each.mean, each.wide, each.half)
        _name(axes, names)
        axes.set_ylim(-0.25, len(found) - 0.1)
        axes.set_xlabel(posterior.reading.parameter)
        drawn.legend(loc="outside upper right", ncols=2, fontsize=9)
    return drawn


def intervals(found: tuple[Estimate, ...], posterior: Posterior, before: Law) -> Any:
    """Draw each posterior's intervals of 50 % and 90 %, and the prior's 90 % below, dashed."""
    shown = found[:MOST_ROWS]
    names = [name_of(each.group, each.label, posterior) for each in shown]
    ends = [before.marginal(index).interval(WIDE) for index in range(posterior.reading.dimension)]
    with figure(1, path=None, width=WIDTH, height=0.95 + _height(names)) as (drawn, (axes,)):
        for height, each in zip(reversed(range(len(shown))), shown, strict=True):
            axes.plot(ends[each.index], [height - 0.3] * 2, color=PRIOR, linewidth=1, linestyle="--",
                      label="prior, 90 %" if height == 0 else None)  # fmt: skip
            _whisker(axes, height, each.mean, each.wide, each.half, label="posterior" if height == 0 else None)
        reach = max(each.wide[1] for each in shown) - min(each.wide[0] for each in shown)
        axes.set_xlim(
            min(each.wide[0] for each in shown) - 0.06 * reach, max(each.wide[1] for each in shown) + 0.06 * reach
        )
        _name(axes, names)
        axes.set_ylim(-0.7, len(shown) - 0.4)
        axes.set_xlabel(posterior.reading.parameter)
        drawn.legend(loc="outside upper right", ncols=2, fontsize=9)
    return drawn


def comparison(found: tuple[Estimate, ...], differences: Rows, posterior: Posterior) -> Any:
    """Draw the groups on one axis, and their differences below on another with its zero."""
    several = posterior.reading.dimension > 1
    ordered = sorted(found, key=lambda each: each.index)[:_MOST_COMPARED]
    names = [f"{each.label}: {each.group}" if several else each.group for each in ordered]
    shown = differences[:_MOST_COMPARED]
    pairs = [f"{row['label']}: {row['a']} − {row['b']}" if several else f"{row['a']} − {row['b']}" for row in shown]
    heights = (_height(names) + 0.55, _height(pairs) + 0.55)
    with figure(1, path=None, width=WIDTH, height=sum(heights), heights=heights) as (drawn, (above, below)):
        for height, each in zip(reversed(range(len(ordered))), ordered, strict=True):
            _whisker(above, height, each.mean, each.wide, each.half)
        _name(above, names)
        above.set_ylim(-0.6, len(ordered) - 0.4)
        above.set_xlabel(posterior.reading.parameter)
        below.axvline(0, color=PRIOR, linewidth=1.2, linestyle="--")
        for height, row in zip(reversed(range(len(shown))), shown, strict=True):
            _whisker(below, height, row["mean"], (row["low"], row["high"]), None)
        _name(below, pairs)
        below.set_ylim(-0.6, len(shown) - 0.4)
        below.set_xlabel(f"difference in {posterior.reading.parameter}; dashed: none")
    return drawn


def points(posterior: Posterior, labels: tuple[str, ...]) -> Any:
    """Draw released draws as the points that they are, numbered where they are few."""
    drawn_by_group = posterior.draw()
    rows = [(group, index) for group in drawn_by_group for index in range(len(labels))][:MOST_ROWS]
    names = [name_of(group, labels[index], posterior) for group, index in rows]
    with figure(1, path=None, width=WIDTH, height=0.9 + 1.4 * _height(names)) as (drawn, (axes,)):
        for height, (group, index) in zip(reversed(range(len(rows))), rows, strict=True):
            values = drawn_by_group[group][:, index]
            axes.axhline(height, color="#e4e4e4", linewidth=1, zorder=0)
            axes.plot(values, np.full(len(values), height), "o", color=INK, markersize=6, alpha=0.75)
        _name(axes, names)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_xlabel(posterior.reading.parameter)
        axes.margins(x=0.08)
    return drawn


def budget(steps: list[tuple[str, float]], total: float, unit: str) -> Any:
    """Draw what is left of a budget before the releases and after each of them."""
    names = [name for name, _ in steps]
    with figure(1, path=None, width=WIDTH, height=0.75 + 1.25 * _height(names)) as (drawn, (axes,)):
        places = list(reversed(range(len(steps))))
        axes.barh(places, [total] * len(steps), height=0.56, facecolor="none", edgecolor=INK, linewidth=0.8)
        axes.barh(places, [left for _, left in steps], height=0.56, color=INK, alpha=0.55, linewidth=0)
        _name(axes, names)
        axes.set_xlim(0, total * 1.02)
        axes.set_xlabel(f"{unit} left (filled) of the budget (outline)")
    return drawn


def _whisker(
    axes: Any,
    height: float,
    mean: float,
    wide: tuple[float, float],
    half: tuple[float, float] | None,
    *,
    label: str | None = None,
) -> None:
    axes.plot(wide, [height, height], color=INK, linewidth=1.4, solid_capstyle="butt", label=label)
    if half is not None:
        axes.plot(half, [height, height], color=INK, linewidth=4.2, solid_capstyle="butt")
    axes.plot([mean], [height], "o", color="#ffffff", markeredgecolor=INK, markersize=5, zorder=3)


def _density(marginal: Marginal, x: Array) -> Array:
    """Return the density, cut where it is infinite: at the end of a Beta law with a parameter below 1."""
    with np.errstate(over="ignore", divide="ignore"):
        found = np.exp(marginal.log_density(x))
    finite = found[np.isfinite(found)]
    return np.asarray(np.minimum(found, finite.max() if finite.size else 1.0))


def _name(axes: Any, names: list[str]) -> None:
    """Name the rows, from the top; names are text and never mathematics."""
    axes.set_yticks(range(len(names)), [_folded(name) for name in reversed(names)], fontsize=9, parse_math=False)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _folded(name: str) -> str:
    """Break a name into at most three lines; what is too long loses its middle, since names differ at their ends."""
    lines = textwrap.wrap(name, _LETTERS)
    return "\n".join(lines if len(lines) <= 3 else [lines[0], "…", lines[-1]])


def _height(names: list[str]) -> float:
    """Return the inches that rows need, by the lines of the longest name."""
    lines = max(_folded(name).count("\n") for name in names)
    return (0.26 + 0.13 * lines) * max(2, len(names))


# Letters on a line of a row's name; rows of one half of a comparison.
_LETTERS, _MOST_COMPARED = 22, 36
