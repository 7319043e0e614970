"""The picture of an audit: the claimed profile as a line, and each lower bound on delta as a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vestry.report.plot import _powers
from vestry.report.style import COLOURS, INK, figure


class Bound(Protocol):
    """What is drawn of one piece of evidence."""

    @property
    def epsilon(self) -> float:
        """Where on the claimed profile."""

    @property
    def lower(self) -> float:
        """The lower bound on delta there."""

    @property
    def direction(self) -> str:
        """Which dataset is the likelier one."""

    @property
    def refutes(self) -> bool:
        """Whether the bound exceeds the claim."""


# Filled and open, up and down: told apart without colour.
_MARKS = {"first over second": ("^", COLOURS[1], "full"), "second over first": ("v", COLOURS[2], "none")}


def evidence_picture(
    claim: Callable[[float], float], evidence: Sequence[Bound], *, title: str, path: Path | None = None
) -> Any:
    """Draw the claim and the bounds over epsilon, and return the figure. Points above the line refute the claim."""
    seen = [bound for bound in evidence if bound.lower > 0]
    reach = max([bound.epsilon for bound in seen], default=1.0) * 1.15
    epsilons = np.linspace(0, max(reach, 0.1), 160)
    deltas = np.array([claim(float(x)) for x in epsilons])
    floor = min([bound.lower for bound in seen], default=1e-3) / 3
    with figure(1, path=path, width=6.4, height=4.0) as (drawn, (axes,)):
        inside = deltas > 0
        axes.plot(epsilons[inside], deltas[inside], color=INK, label="claimed")
        for direction, (mark, colour, fill) in _MARKS.items():
            points = [bound for bound in seen if bound.direction == direction]
            if points:
                axes.plot(
                    [bound.epsilon for bound in points],
                    [bound.lower for bound in points],
                    mark,
                    color=colour,
                    fillstyle=fill,
                    markersize=6,
                    label=f"at least, {direction}",
                )
        above = [bound for bound in seen if bound.refutes]
        if above:
            axes.plot(
                [bound.epsilon for bound in above],
                [bound.lower for bound in above],
                "o",
                color="black",
                fillstyle="none",
                markersize=12,
                markeredgewidth=0.9,
                linestyle="none",
                label="above the claim",
            )
        axes.set(xlabel="epsilon", ylabel="delta", yscale="log", ylim=(max(floor, 1e-9), 2), xlim=(-0.02 * reach, None))
        _powers(axes.yaxis)
        axes.legend(loc="lower left", fontsize=9)
        drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
    return drawn
