"""How well the prior matches: held-out log-likelihood at order 15 for three true proportions [GeumlekSC17, app. A.2].

The prior Beta(6, 12) has mean 1/3. The scan of the appendix has lost its sentences; the captions call 1/3 a high match
and 2/3 a low one, and no more is claimed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproductions.beta_trial import NAMES, RECORDS, calibrate, epsilons, held_out
from reproductions.experiment import Experiment, Numbers, claim, picture
from reproductions.geumlek_fig2 import LABELS, STYLES, likelihood_panel

ORDER = 15
PROPORTIONS = {"1/3": 1 / 3, "1/2": 1 / 2, "2/3": 2 / 3}


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Calibrate once, and draw for each true proportion."""
    repeats, grid = (500, epsilons(2)) if quick else (10_000, epsilons(6))
    calibrations = [calibrate(ORDER, epsilon) for epsilon in grid]
    panels = [
        {"rho": name, "epsilons": grid, "held_out": held_out(rng, calibrations, rho=rho, repeats=repeats)}
        for name, rho in PROPORTIONS.items()
    ]
    return {
        "settings": {"prior": [6, 12], "n": RECORDS, "order": ORDER, "epsilons": grid, "repeats": repeats},
        "panels": panels,
        "claims": _claims(panels),
    }


def _claims(panels: list[Numbers]) -> list[dict[str, Any]]:
    """Measure what the least epsilon and the largest one lose against the true posterior."""
    lost = {
        name: [panel["held_out"]["posterior"]["mean"] - panel["held_out"][name]["mean"][0] for panel in panels]
        for name in NAMES
    }
    floor = [panel["held_out"]["posterior"]["mean"] - panel["held_out"]["concentrated"]["mean"][-1] for panel in panels]
    shown = ", ".join(f"{x:.2f}" for x in lost["concentrated"])
    near, far = lost["concentrated"][0], lost["concentrated"][2]
    return [
        claim(
            "after its captions: the better the prior matches, the less algorithm 3 loses at small epsilon",
            f"log-likelihood lost at epsilon 0.001, for rho 1/3, 1/2, 2/3: {shown}",
            holds=near < lost["concentrated"][1] < far,
        ),
        claim(
            "not in the scan: with a high match algorithm 3 is the best of all at small epsilon",
            f"rho 1/3: it loses {near:.2f}; below 0 is better than a draw from the true posterior, which spreads."
            f" rho 2/3: it loses {far:.1f}, and algorithm 2 loses {lost['diffused'][2]:.1f}",
            holds=near == min(lost[name][0] for name in NAMES),
        ),
        claim(
            "not in the scan: algorithm 3 keeps some pull of the prior at any epsilon; a bad match makes it lose",
            "lost at epsilon 100: " + ", ".join(f"{x:.2f}" for x in floor),
            holds=floor[2] > floor[1] > floor[0],
        ),
    ]


def draw(numbers: Numbers, path: Path) -> None:
    """Draw one panel per proportion."""
    with picture(3, path=path, width=3.6, height=4.0) as (fig, axes):
        for each, panel in zip(axes, numbers["panels"], strict=True):
            likelihood_panel(each, panel["epsilons"], panel["held_out"])
            each.set_title(f"true proportion {panel['rho']}, prior mean 1/3")
        for name in NAMES:
            axes[0].plot([], [], label=LABELS[name], **STYLES[name])
        named = axes[0].get_legend_handles_labels()
        fig.legend(*named, loc="outside upper center", ncols=2, fontsize=8, handlelength=3)


EXPERIMENT = Experiment(
    "geumlek-match", "GeumlekSC17", "Appendix A.2", 20173, run, draw,
    summary="Held-out log-likelihood at order 15 where the prior matches the truth, and where it does not",
    erratum="As in geumlek-fig2: the Gaussian's Renyi epsilon is order D^2/(2 sigma^2), and Corollary 2's n is r n.",
)  # fmt: skip
