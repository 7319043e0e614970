"""Pictures of privacy curves and of posteriors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from vestry.posterior import Posterior, ReleasedDraws
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.report.style import INK, figure


def privacy_curve(event: Event, *, title: str, path: Path | None = None) -> Any:
    """Draw an event's Renyi curve and its profile, and return the figure."""
    with figure(2, path=path) as (drawn, (left, right)):
        renyi_panel(left, event)
        profile_panel(right, event)
        drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
    return drawn


def renyi_panel(axes: Any, event: Event) -> None:
    """Draw the Renyi divergence against the order, as far as it is finite."""
    orders = 1 + np.geomspace(0.01, 200, 160)
    values = np.array([accountant.curve(event)(float(order)) for order in orders])
    finite = np.isfinite(values)
    axes.plot(orders[finite], values[finite], color=INK)
    if not finite.all():
        limit = orders[~finite].min()
        axes.axvline(limit, color=INK, linestyle=":", linewidth=1)
        axes.annotate("infinite beyond", (limit, 0.04), xycoords=("data", "axes fraction"), ha="right", va="bottom",
                      rotation=90, fontsize=8, xytext=(-3, 0), textcoords="offset points")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="order", ylabel="Renyi divergence")
    _powers(axes.xaxis)
    _powers(axes.yaxis)


def profile_panel(axes: Any, event: Event) -> None:
    """Draw delta against epsilon."""
    top = accountant.epsilon(event, 1e-9)
    epsilons = np.linspace(0, top if top < math.inf else 10.0, 120)
    deltas = np.array([accountant.delta(event, float(x)) for x in epsilons])
    axes.plot(epsilons[deltas > 0], deltas[deltas > 0], color=INK)
    axes.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(1e-10, 2))
    _powers(axes.yaxis)


def _powers(axis: Any) -> None:
    """Name the powers of ten in letters that any font has."""
    axis.set_major_formatter(lambda value, _: _power(value))
    axis.set_minor_formatter(lambda value, _: "")


def plot(posterior: Posterior, *, level: float = 0.9, path: Path | None = None) -> Any:
    """Draw the posterior density of each parameter, groups side by side, with its interval; return the figure.

    Released draws have no density: they are shown as the points that they are.
    """
    groups = list(posterior.laws)
    with figure(1, path=path, width=6.4, height=1.2 + 0.9 * max(2, len(groups))) as (drawn, (axes,)):
        rows = [(group, index) for group in groups for index in range(posterior.laws[group].dimension)][:_MOST]
        for height, (group, index) in enumerate(reversed(rows)):
            _row(axes, posterior, group, index, height, level)
        axes.set_yticks(range(len(rows)), [_name(posterior, *row) for row in reversed(rows)], parse_math=False)
        axes.set_ylim(-0.4, len(rows) - 0.05)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(posterior.reading.parameter)
        drawn.suptitle(f"{posterior.label} posterior, {level:.0%} intervals", x=0.01, ha="left", fontsize=11)
    return drawn


def _row(axes: Any, posterior: Posterior, group: str, index: int, height: int, level: float) -> None:
    law = posterior.laws[group]
    if isinstance(law, ReleasedDraws):
        values = law.values[:, index]
        axes.plot(values, np.full(len(values), height), "o", color=INK, markersize=5, alpha=0.7)
        return
    marginal = law.marginal(index)
    ends = marginal.quantile([0.0005, 0.9995])
    x = np.linspace(ends[0], ends[1], 301)
    density = np.exp(marginal.log_density(x))
    y = height + 0.75 * density / density.max()
    low, high = marginal.interval(level)
    inside = (x >= low) & (x <= high)
    axes.fill_between(x, height, y, color=INK, alpha=0.12, linewidth=0)
    axes.fill_between(x[inside], height, y[inside], color=INK, alpha=0.25, linewidth=0)
    axes.plot(x, y, color=INK, linewidth=1.4)
    axes.plot([low, high], [height, height], color=INK, linewidth=3, solid_capstyle="butt")
    axes.plot([marginal.mean()], [height], "o", color="white", markeredgecolor=INK, markersize=5, zorder=3)


def _name(posterior: Posterior, group: str, index: int) -> str:
    parameter = posterior.parameters[index]
    return parameter if posterior.by is None else (group if len(posterior.parameters) == 1 else f"{group} {parameter}")


def _power(value: float) -> str:
    if value <= 0:
        return ""
    if 1e-3 <= value <= 1e3:
        return f"{value:g}"
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# Rows beyond this many are left to the table.
_MOST = 24
