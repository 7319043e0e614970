"""Draws how often intervals of regressions hold the truth, and how wide they are, from `linear.json` and `tables.json`.

python quality/coverage/regression_picture.py docs/regression-coverage.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from vestry.display.plotting import figure

HERE = Path(__file__).parent
SIZES = (3, 4, 5, 6)
METHODS = {"aware": ("noise-aware (moments)", "o-"), "plug-in": ("noise ignored", "s--"), "adassp": ("AdaSSP", "^:")}


def slopes(sums: dict[str, Any], key: str) -> float:
    """Return the mean over the slopes, per study."""
    values = np.array(sums[key])
    return float(values[1:4].mean() / sums["studies"])


def linear_panels(left: Any, right: Any, found: dict[str, Any]) -> None:
    """Draw coverage and width of three slopes against the number of records."""
    cells = [found[f"n1e{k}-d4"] for k in SIZES]
    n = [10.0**k for k in SIZES]
    for key, (label, style) in METHODS.items():
        left.plot(n, [slopes(each, key) for each in cells], style, label=label, markersize=4)
    left.axhline(0.9, color="grey", linewidth=0.8)
    left.set(xscale="log", ylim=(0, 1), xlabel="records", ylabel="slopes held by a 90 % interval")
    left.set_title("linear, 4 coefficients", fontsize=9)
    left.legend(fontsize=7, loc="upper left", bbox_to_anchor=(0, 0.86))
    for key, (_, style) in list(METHODS.items())[:2]:
        right.plot(n, [slopes(each, f"{key}-width") for each in cells], style, markersize=4)
    right.set(xscale="log", yscale="log", xlabel="records", ylabel="mean width")
    right.set_title("width, of scaled columns", fontsize=9)


def table_panel(axes: Any, found: dict[str, Any]) -> None:
    """Draw coverage of regressions by table, with and without the noise."""
    names = [name for name in found if not name.startswith("adult")][::-1]
    for place, name in enumerate(names):
        sums = found[name]
        aware = np.mean(sums["aware"]) / max(1, sums["studies"] - sums["refused"])
        plug = np.mean(sums["plug-in"]) / max(1, sums["plug-in-studies"])
        axes.plot([aware], [place], "o", color="C0", markersize=4)
        axes.plot([plug], [place], "s", color="C1", markersize=4, markerfacecolor="none")
    axes.axvline(0.9, color="grey", linewidth=0.8)
    axes.set(xlim=(0, 1), xlabel="coefficients held by a 90 % interval")
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_title("by table", fontsize=9)


if __name__ == "__main__":
    linear, tables = (json.loads((HERE / f"{name}.json").read_text()) for name in ("linear", "tables"))
    title = "Simulated studies, epsilon 1, delta 1e-6 (linear)"
    with figure(3, path=Path(sys.argv[1]), title=title) as (_, axes):
        linear_panels(axes[0], axes[1], linear)
        table_panel(axes[2], tables)
