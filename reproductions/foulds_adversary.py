"""Data chosen to make one posterior sample cost all that the theorem allows [FouldsGWC16, supplement A].

Beta posterior under a uniform prior, restricted to [a, 1 - a], not tempered. Two datasets that differ in one record
have k and k + 1 successes among N, and log p(theta | k)/p(theta | k + 1) = log(Z(k+1)/Z(k)) - logit(theta), which is
largest or least at an end of the interval: no grid search is needed. The cost *of these data* is therefore
log((1-a)/a) + |log(Z(k+1)/Z(k))|, and the adversary adds whichever record makes the costliest neighbour costlier.

A cost of given data is never a guarantee: the data would have to be known to quote it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc, betaln

from reproductions.experiment import Experiment, Numbers, claim, picture
from vestry.display.plotting import GREY, line

TRUNCATION = 0.1
SINGLE = math.log((1 - TRUNCATION) / TRUNCATION)


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Let the adversary build a dataset; beside it ordinary data, half of them successes."""
    sizes = list(range(1, 301 if quick else 2001))
    adversary, successes = [], 0
    for n in sizes:
        # A tie, as with no data, goes to the success.
        successes = max((successes + 1, successes), key=lambda k: (local_cost(k, n), k))
        adversary.append(local_cost(successes, n))
    ordinary = [local_cost(n // 2, n) for n in sizes]
    limit = 2 * SINGLE
    return {
        "settings": {"truncation": TRUNCATION, "prior": [1, 1], "temperature": 1},
        "limit": limit,
        "sizes": sizes,
        "adversary": adversary,
        "ordinary": ordinary,
        "successes": successes,
        "claims": _claims(sizes, adversary, ordinary, limit),
    }


def local_cost(successes: int, n: int) -> float:
    """Return the largest absolute log-ratio of densities between these data and any neighbour of them."""
    return max(_pair(k, n) for k in (successes - 1, successes) if 0 <= k < n)


def _pair(k: int, n: int) -> float:
    return SINGLE + abs(_log_mass(k + 1, n) - _log_mass(k, n))


def _log_mass(k: int, n: int) -> float:
    """Return log of the integral of theta^k (1 - theta)^(n - k) over [a, 1 - a]."""
    if 2 * k > n:
        return _log_mass(n - k, n)  # by symmetry, so that the mass lies towards 0 and no digits are lost
    ends = betainc(n - k + 1, k + 1, np.array([TRUNCATION, 1 - TRUNCATION]))
    return float(betaln(k + 1, n - k + 1) + np.log(ends[1] - ends[0]))


def _claims(sizes: list[int], adversary: list[float], ordinary: list[float], limit: float) -> list[dict[str, Any]]:
    steps = np.diff(adversary)
    half = len(sizes) // 2
    return [
        claim(
            "the adversary's cost approaches 2 log((1 - a)/a) as N grows",
            f"{adversary[-1]:.4f} of {limit:.4f} at N = {sizes[-1]}; never above it, and it never falls",
            holds=bool((steps > -1e-12).all()) and limit - 3 / sizes[-1] * limit < adversary[-1] < limit,
        ),
        claim(
            "not in the paper: the gap closes like 1/N",
            f"N x gap is {sizes[half] * (limit - adversary[half]):.3f} at N = {sizes[half]} and"
            f" {sizes[-1] * (limit - adversary[-1]):.3f} at N = {sizes[-1]}",
            holds=abs(sizes[half] * (limit - adversary[half]) / (sizes[-1] * (limit - adversary[-1])) - 1) < 0.1,
        ),
        claim(
            "not in the paper: ordinary data, half of them successes, pay about half of it",
            f"{ordinary[-1]:.4f} at N = {sizes[-1]}, against log((1 - a)/a) = {limit / 2:.4f}",
            holds=abs(ordinary[-1] - limit / 2) < 0.05,
        ),
    ]


def draw(numbers: Numbers, path: Path) -> None:
    """Draw the two costs and the limit."""
    with picture(1, path=path, width=5.6, height=3.4) as (_, (axes,)):
        axes.axhline(numbers["limit"], color=GREY, linewidth=1, label="worst case, 2 log((1 - a)/a)")
        lines = (("adversary", "adversary's data", 1), ("ordinary", "half of them successes (even N)", 2))
        for index, (name, label, step) in enumerate(lines):
            style = {**line(index), "label": label}
            axes.plot(numbers["sizes"][step - 1 :: step], numbers[name][step - 1 :: step], **style)
        axes.set(xscale="log", ylim=(0, 5), xlabel="records N", ylabel="cost of these data (epsilon)")
        axes.legend(fontsize=8, loc="lower right", handlelength=3)


EXPERIMENT = Experiment(
    "foulds-adversary", "FouldsGWC16", "Supplement A, Figure 1", 20164, run, draw,
    summary="What a posterior sample costs on adversarial data, approaching the worst case",
)  # fmt: skip
