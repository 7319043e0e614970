"""The picture of an audit: the claimed profile as a line, and each lower bound on delta as a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vestry.display.plotting import COLOURS, INK, figure, powers


class _Bound(Protocol):
    """A lower bound on delta at an epsilon: which dataset is the likelier one, which runs, and whether it refutes."""

    @property
    def epsilon(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def direction(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def refutes(self) -> bool: ...


# Filled and open, up and down: told apart without colour.
_MARKS = {"first over second": ("^", COLOURS[1], "full"), "second over first": ("v", COLOURS[2], "none")}


def evidence_picture(
    claim: Callable[[float], float], evidence: Sequence[_Bound], *, title: str, path: Path | None = None
) -> Any:
    """Draw the claim and the bounds over epsilon, and return the figure. Points above the line refute the claim.

    Where several runs bound the same, runs of the release itself, which are fewer, have smaller marks.
    """
    seen = [bound for bound in evidence if bound.lower > 0]
    reach = max([bound.epsilon for bound in seen], default=1.0) * 1.15
    epsilons = np.linspace(0, max(reach, 0.1), 160)
    deltas = np.array([claim(float(x)) for x in epsilons])
    heights = [*deltas.tolist(), *(bound.lower for bound in seen)]
    floor = min([bound.lower for bound in seen], default=1e-3) / 3
    with figure(1, path=path, width=6.4, height=4.0, title=title) as (fig, (axes,)):
        axes.plot(epsilons[deltas > 0], deltas[deltas > 0], color=INK, label="claimed")
        for bound in seen:
            mark, colour, fill = _MARKS[bound.direction]
            size = 3.5 if bound.where.startswith("release") else 6
            axes.plot(bound.epsilon, bound.lower, mark, color=colour, fillstyle=fill, markersize=size)
        for direction, (mark, colour, fill) in _MARKS.items():
            axes.plot([], [], mark, color=colour, fillstyle=fill, label=f"at least, {direction}")
        above = [bound for bound in seen if bound.refutes]
        if above:
            worst = max(above, key=lambda bound: bound.lower - claim(bound.epsilon))
            axes.plot(worst.epsilon, worst.lower, "ko", fillstyle="none", markersize=13, label="strongest evidence")
        axes.set(xlabel="epsilon", ylabel="delta", yscale="log", xlim=(-0.02 * reach, None))
        axes.set_ylim(max(floor, 1e-9), min(2.0, 2 * max(heights)))
        powers(axes.yaxis)
        axes.legend(loc="lower left")
    return fig
