"""The largest power of the likelihood, by the paper's bounds and as it truly is [MinamiAS16, Thm 7, Cor. 8].

What counts is x = rho L/sqrt(m): one row replaced, losses L-Lipschitz, minus the log prior m-strongly convex. The exact
value follows from Gaussian privacy with mu = 2 x [GopiLL22, Thm 4]. A bound above it allows what is not private, and
Corollary 8 gets there at large epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from reproductions.experiment import Experiment, Numbers, claim, picture
from vestry.display.plotting import GREY, line
from vestry.privacy import gibbs_cost
from vestry.privacy.guarantee import ApproxDP
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.privacy.profile import gaussian
from vestry.regression.gibbs_calibration import GDP, RENYI, likelihood_power

TABLE = ((0.1, 1e-5), (1.0, 1e-5), (3.0, 1e-8))
DELTA = 1e-5
LABELS = {
    "corollary_8": "Corollary 8 (ii)", "theorem_7": "Theorem 7", "renyi": "by Renyi curves", "exact": "exact",
}  # fmt: skip


@cache
def allowed(epsilon: float, delta: float, analysis: str = GDP) -> float:
    """Return the largest x by an analysis of the library's."""
    promise, row = ApproxDP(epsilon, delta), Adjacency(Neighbours.REPLACE)
    return likelihood_power(promise, lipschitz=1.0, strong_convexity=1.0, adjacency=row, analysis=analysis)


def false_from(bound: Callable[[float], float], delta: Callable[[float], float]) -> float:
    """Return the least epsilon above 1 from which a bound allows more than is private."""

    def excess(epsilon: float) -> float:
        return gaussian(epsilon, mu=2 * bound(epsilon)) - delta(epsilon)

    grid = np.linspace(1.0, 40.0, 400)
    last = next(i for i, e in enumerate(grid) if excess(float(e)) > 0)
    return float(brentq(excess, grid[max(0, last - 1)], grid[last])) if last else 1.0


def _second_part_fails(delta: float) -> float:
    return false_from(lambda e: gibbs_cost.corollary_8(e, delta), lambda _: delta)


BOUNDS: dict[str, Callable[[float, float], float]] = {
    "corollary_8": gibbs_cost.corollary_8,
    "theorem_7": gibbs_cost.theorem_7,
    "renyi": lambda epsilon, delta: allowed(epsilon, delta, RENYI),
    "exact": allowed,
}


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Fill the table, draw the bounds over epsilon, and find where Corollary 8 fails."""
    table = [
        {"epsilon": epsilon, "delta": delta, **{name: bound(epsilon, delta) for name, bound in BOUNDS.items()}}
        for epsilon, delta in TABLE
    ]
    grid = np.exp(np.linspace(math.log(0.01), math.log(20), 3 if quick else 21)).tolist()
    curves = {name: [bound(epsilon, DELTA) for epsilon in grid] for name, bound in BOUNDS.items()}
    fails = {f"8 (ii) at delta {delta:g}": _second_part_fails(delta) for delta in (0.01, DELTA)}
    fails["8 (i)"] = false_from(lambda e: math.sqrt(e / 2), lambda e: math.exp(-(1 + e) / 4))
    return {
        "settings": {"table": [list(each) for each in TABLE], "delta": DELTA, "epsilons": grid},
        "table": table,
        "epsilons": grid,
        "curves": curves,
        "false_from": fails,
        "claims": _claims(grid, table, curves, fails),
    }


def _claims(
    grid: list[float], table: list[dict[str, float]], curves: dict[str, list[float]], fails: dict[str, float]
) -> list[Numbers]:
    gains = [row["exact"] / row["theorem_7"] for row in table]
    beyond = [row["exact"] / row["renyi"] for row in table]
    sure = sum(epsilon <= 1 for epsilon in grid)
    return [
        claim(
            "Theorem 7 is private at every epsilon",
            f"it is below the exact power at all of {len(grid)} epsilons up to {grid[-1]:g}, which is"
            f" {min(gains):.2f} to {max(gains):.2f} times it in the table",
            holds=all(a <= b for a, b in zip(curves["theorem_7"], curves["exact"], strict=True)),
        ),
        claim(
            "Corollary 8 (ii) is private, for epsilon up to 1",
            f"below the exact power at all of {sure} epsilons",
            holds=all(a <= b for a, b in zip(curves["corollary_8"][:sure], curves["exact"][:sure], strict=True)),
        ),
        claim(
            "ours: Corollary 8 is false at large epsilon",
            "; ".join(f"{name} from epsilon {value:.2f} on" for name, value in fails.items()),
            holds=all(value < 20 for value in fails.values()),
        ),
        claim(
            "ours: the exact power is above what Renyi curves give",
            f"{min(beyond):.3f} to {max(beyond):.3f} times in the table",
            holds=min(beyond) > 1,
        ),
    ]


def draw(numbers: Numbers, path: Path) -> None:
    """Draw the powers, and each as a share of the exact one."""
    with picture(2, path=path, width=4.6, height=3.6) as (_, axes):
        left, right = axes
        exact = np.array(numbers["curves"]["exact"])
        for i, (name, label) in enumerate(LABELS.items()):
            style = {**line(i), "label": label}
            left.plot(numbers["epsilons"], numbers["curves"][name], **style)
            right.plot(numbers["epsilons"], np.array(numbers["curves"][name]) / exact, **style)
        left.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="rho L / sqrt(m) at delta 1e-5")
        left.legend(fontsize=8, handlelength=3)
        first = numbers["false_from"][f"8 (ii) at delta {DELTA:g}"]
        right.axvline(first, color=GREY, linewidth=1)
        right.text(first * 0.93, 1.08, f"Corollary 8 (ii)\nfalse from {first:.1f}", rotation=90, fontsize=8, ha="right")
        right.set(xscale="log", ylim=(0.3, 1.6), xlabel="epsilon", ylabel="share of the exact power")


EXPERIMENT = Experiment(
    "minami-temperatures", "MinamiAS16", "Theorem 7 and Corollary 8", 20162, run, draw,
    summary="The largest likelihood power by the paper's bounds, by Renyi curves and exactly",
    erratum="Corollary 8 (ii) does not follow from Theorem 7 for epsilon above about 1, and both parts are false at"
    " large epsilon; Theorem 10 has a constant that is not stated.",
)  # fmt: skip
