"""Asymptotic relative efficiencies: 2 for a Laplace draw, 1 + T for OPS, 1 for a mean [FouldsGWC16, Thm 4, 5, Rem. 1].

The mean squared error, times N, over p (1 - p), which the best estimator would have in the limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproductions.experiment import Experiment, Numbers, claim, mean_and_error, picture
from reproductions.proportion import private_estimates, temperature
from vestry.display.plotting import GREY, line

P, TRUNCATION, EPSILON = 0.3, 0.2, 1.0
NAMED = {name: name for name in ("ops draw", "laplace draw", "laplace mean")} | {"aware mean": "noise-aware mean"}
SIZES = (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Measure each estimator at growing N."""
    repeats = 20_000 if quick else 200_000
    known = {"truncation": TRUNCATION, "epsilon": EPSILON}
    tempered = temperature(**known)
    limits = dict(zip(NAMED.values(), (1 + tempered, 2.0, 1.0, 1.0), strict=True))
    efficiencies: dict[str, Numbers] = {
        name: {"limit": at, "ratio": [], "standard_error": []} for name, at in limits.items()
    }
    for n in SIZES:
        successes = rng.binomial(n, P, repeats).astype(float)
        for name, estimate in private_estimates(rng, successes, n=n, temperature=tempered, **known):
            if name in NAMED:
                mean, deviation = mean_and_error((estimate - P) ** 2 * n / (P * (1 - P)))
                efficiencies[NAMED[name]]["ratio"].append(mean)
                efficiencies[NAMED[name]]["standard_error"].append(deviation)
    return {
        "settings": {"p": P, "truncation": TRUNCATION, "epsilon": EPSILON, "repeats": repeats, "prior": [1, 1]},
        "temperature": tempered,
        "sizes": list(SIZES),
        "efficiencies": efficiencies,
        "claims": [_claim(name, each) for name, each in efficiencies.items()],
    }


def _claim(name: str, each: Numbers) -> dict[str, Any]:
    ratio, error = each["ratio"][-1], each["standard_error"][-1]
    away = abs(ratio - each["limit"]) / error
    return claim(
        f"{name}: asymptotic relative efficiency {each['limit']:.4g}",
        f"{ratio:.4f} +- {error:.4f} at N = {SIZES[-1]}, {away:.1f} standard errors away",
        holds=away < 5,
    )


def draw(numbers: Numbers, path: Path) -> None:
    """Draw each ratio against N, with its limit."""
    with picture(1, path=path, width=5.6, height=3.6) as (_, (axes,)):
        for index, (name, each) in enumerate(numbers["efficiencies"].items()):
            style = {**line(index), "marker": "os^v"[index], "markersize": 4}
            axes.plot(numbers["sizes"], each["ratio"], label=f"{name}: limit {each['limit']:.3g}", **style)
            axes.axhline(each["limit"], color=GREY, linewidth=0.8)
        axes.set(xscale="log", ylim=(0, 5), xlabel="records N", ylabel="N x squared error / p(1 - p)")
        axes.legend(fontsize=8, loc="upper right", ncols=2, handlelength=3)


EXPERIMENT = Experiment(
    "foulds-are", "FouldsGWC16", "Theorems 4 and 5, Remark 1", 20163, run, draw,
    summary="Asymptotic relative efficiencies of OPS and Laplace draws, and of the mean of a noisy posterior",
    erratum="Table 1's efficiency of 1 for the Laplace mechanism is that of the posterior mean; a draw has 2.",
)  # fmt: skip
