"""Rows of a picture: named from the top, each with its interval, its mean and its density."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from vestry.posterior.discrete_noise import Array
from vestry.posterior.mixture import Marginal
from vestry.report.plot_style import INK, PAPER

# Letters on a line of a row's name; steps of the axis, whose numbers may have seven letters.
_LETTERS, _MOST_STEPS = 22, 5


def name_rows(axes: Any, names: list[str], what: str, *, below: float = 0.6, above: float = 0.6) -> None:
    """Name the rows, from the top, and the axis below them; names are text and never mathematics."""
    axes.set_yticks(range(len(names)), [_folded(name) for name in reversed(names)], fontsize=9, parse_math=False)
    axes.set_ylim(-below, len(names) - 1 + above)
    axes.set_xlabel(what)
    axes.locator_params(axis="x", nbins=_MOST_STEPS)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def height_of(names: list[str]) -> float:
    """Return the inches that rows need, by the lines of the longest name."""
    lines = max(_folded(name).count("\n") for name in names)
    return (0.26 + 0.13 * lines) * max(2, len(names))


def whisker(
    axes: Any,
    height: float,
    mean: float,
    wide: tuple[float, float],
    half: tuple[float, float] | None = None,
    *,
    label: str | None = None,
) -> None:
    """Draw an interval, a narrower one if there is one, and the mean."""
    axes.plot(wide, [height, height], color=INK, linewidth=1.4, solid_capstyle="butt", label=label)
    if half is not None:
        axes.plot(half, [height, height], color=INK, linewidth=4.2, solid_capstyle="butt")
    axes.plot([mean], [height], "o", color=PAPER, markeredgecolor=INK, markersize=5, zorder=3)


def dots(axes: Any, height: float, values: Array) -> None:
    """Draw released draws as the points that they are."""
    axes.plot(values, np.full(len(values), height), "o", color=INK, markersize=6, alpha=0.75)


def density(marginal: Marginal, x: Array) -> Array:
    """Return the density, cut where it is infinite: at the end of a Beta law with a parameter below 1."""
    with np.errstate(over="ignore", divide="ignore"):
        found = np.exp(marginal.log_density(x))
    finite = found[np.isfinite(found)]
    return np.asarray(np.minimum(found, finite.max() if finite.size else 1.0))


def _folded(name: str) -> str:
    """Break a name into at most three lines; what is too long loses its middle, since names differ at their ends."""
    lines = textwrap.wrap(name, _LETTERS)
    return "\n".join(lines if len(lines) <= 3 else [lines[0], "…", lines[-1]])
