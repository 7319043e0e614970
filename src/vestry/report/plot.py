"""Pictures of privacy curves and of posteriors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.report.style import INK, figure


def privacy_curve(event: Event, *, title: str, path: Path | None = None) -> Any:
    """Draw an event's Renyi curve and its profile, and return the figure."""
    with figure(2, path=path) as (drawn, (left, right)):
        orders = 1 + np.geomspace(0.01, 200, 160)
        values = np.array([accountant.curve(event)(float(order)) for order in orders])
        finite = np.isfinite(values)
        left.plot(orders[finite], values[finite], color=INK)
        if not finite.all():
            limit = orders[~finite].min()
            left.axvline(limit, color=INK, linestyle=":", linewidth=1)
            left.annotate("infinite beyond", (limit, 0.04), xycoords=("data", "axes fraction"), ha="right", va="bottom",
                          rotation=90, fontsize=8, xytext=(-3, 0), textcoords="offset points")  # fmt: skip
        left.set(xscale="log", yscale="log", xlabel="order", ylabel="Renyi divergence")
        top = accountant.epsilon(event, 1e-9)
        epsilons = np.linspace(0, top if top < math.inf else 10.0, 120)
        deltas = np.array([accountant.delta(event, float(x)) for x in epsilons])
        right.plot(epsilons[deltas > 0], deltas[deltas > 0], color=INK)
        right.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(1e-10, 2))
        drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
    return drawn
