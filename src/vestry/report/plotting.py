"""Pictures of privacy curves and of posteriors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from vestry.posterior import Posterior, ReleasedDraws
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.reader import DRAWS
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.report.estimates import name_of
from vestry.report.forest_plot import density, dots, name_rows, whisker
from vestry.report.plot_style import INK, figure, powers


def privacy_curve(event: Event, *, title: str, path: Path | None = None) -> Any:
    """Draw an event's Renyi curve and its profile, and return the figure."""
    with figure(2, path=path, title=title) as (drawn, (left, right)):
        renyi_panel(left, event)
        profile_panel(right, event)
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
    axes.set(xscale="log", xlabel="order", ylabel="Renyi divergence")
    powers(axes.xaxis)
    if finite.any():  # an axis of powers needs something to show
        axes.set(yscale="log")
        powers(axes.yaxis)


def profile_panel(axes: Any, event: Event) -> None:
    """Draw delta against epsilon."""
    top = accountant.epsilon(event, 1e-9)
    epsilons = np.linspace(0, top if top < math.inf else 10.0, 120)
    deltas = np.array([accountant.delta(event, float(x)) for x in epsilons])
    axes.plot(epsilons[deltas > 0], deltas[deltas > 0], color=INK)
    axes.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(1e-10, 2))
    powers(axes.yaxis)


def plot(posterior: Posterior, *, level: float = 0.9, path: Path | None = None) -> Any:
    """Draw the posterior density of each parameter, groups side by side, with its interval; return the figure.

    Released draws have no density: they are shown as the points that they are.
    """
    groups = list(posterior.laws)
    title = DRAWS if posterior.label == DRAWS else f"{posterior.label} posterior, {100 * level:g} % intervals"
    with figure(1, path=path, width=6.4, height=1.2 + 0.9 * max(2, len(groups)), title=title) as (drawn, (axes,)):
        rows = [(group, index) for group in groups for index in range(posterior.laws[group].dimension)][:_MOST]
        for height, (group, index) in enumerate(reversed(rows)):
            _row(axes, posterior.laws[group], index, height, level)
        bare = posterior.labels if posterior.reading.parameter == "coefficient" else posterior.parameters
        names = [name_of(group, bare[index], posterior) for group, index in rows]
        name_rows(axes, names, posterior.reading.parameter, below=0.4, above=0.95)
    return drawn


def _row(axes: Any, law: PosteriorDistribution | ReleasedDraws, index: int, height: int, level: float) -> None:
    if isinstance(law, ReleasedDraws):
        dots(axes, height, law.values[:, index])
        return
    marginal = law.marginal(index)
    low, high = marginal.quantile([0.0005, 0.9995])
    x = np.linspace(low, high, 301)
    found = density(marginal, x)
    y = height + 0.75 * found / found.max()
    low, high = marginal.interval(level)
    inside = (x >= low) & (x <= high)
    axes.fill_between(x, height, y, color=INK, alpha=0.12, linewidth=0)
    axes.fill_between(x[inside], height, y[inside], color=INK, alpha=0.25, linewidth=0)
    axes.plot(x, y, color=INK, linewidth=1.4)
    whisker(axes, height, marginal.mean(), (low, high))


# Rows beyond this many are left to the table.
_MOST = 24
