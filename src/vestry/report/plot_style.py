"""One look for every plot, readable in black and white."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vestry.errors import InvalidParameter
from vestry.report.formatting import SUPERSCRIPT

DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
INK = "#1b3a57"
PAPER, GRID = "#ffffff", "#e4e4e4"
GREY = "#777777"  # of what is there for comparison
COLOURS = ("#1b3a57", "#b3541e", "#4c7a5a", "#7b4b8a", "#8a7a2f")


def line(place: int) -> dict[str, Any]:
    """Return the look of one of several lines: its colour, and dashes that tell it apart in black and white."""
    return {"color": COLOURS[place], "linestyle": DASHES[place]}


@contextmanager
def figure(
    columns: int,
    *,
    path: Path | None,
    width: float = 4.6,
    height: float = 3.4,
    heights: tuple[float, ...] = (1.0,),
    title: str | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the house style, and save it if a path is given.

    Parameters
    ----------
    columns
        How many panels stand side by side, each `width` inches wide.
    path
        The file to save to.
    width, height
        Of one panel, and of the whole, in inches.
    heights
        The relative heights of rows of panels; one row unless told. The axes are in reading order.
    title
        What stands above all panels.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": GRID,
            "axes.axisbelow": True,
            "lines.linewidth": 1.8,
            "axes.titlelocation": "left",
            "axes.titlesize": 10,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "figure.dpi": 150,
        }
    ):
        drawn = Figure(figsize=(width * columns, height), layout="constrained")
        yield drawn, drawn.subplots(len(heights), columns, squeeze=False, height_ratios=heights).ravel()
        if title is not None:
            drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
        if path is not None:
            try:
                drawn.savefig(path)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "unknown kind of file"
                raise InvalidParameter(
                    "the plot's file", str(path), f"one that can be written ({reason})", "curve.png"
                ) from None


def powers(axis: Any) -> None:
    """Name the powers of ten in letters that any font has; within one decade, some of what lies between them too."""
    axis.set_major_formatter(lambda value, _: _power(value))
    axis.set_tick_params(which="minor", labelsize=8)
    axis.set_minor_formatter(lambda value, _: f"{value:.3g}" if _is_named(value, axis) else "")


def _is_named(value: float, axis: Any) -> bool:
    """Tell whether what lies between powers has room for its name: 2, 3 and 5 within a decade, all within less."""
    low, high = sorted(axis.get_view_interval())
    return bool(high < 3 * low or (high < 10 * low and f"{value:e}"[0] in "235"))


def _power(value: float) -> str:
    if value <= 0:
        return ""
    if 1e-3 <= value <= 1e3:
        return f"{value:g}"
    return "10" + str(round(math.log10(value))).translate(SUPERSCRIPT)
