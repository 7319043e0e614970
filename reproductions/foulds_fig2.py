"""Error of a draw against the number of records: not private, OPS, Laplace, and ours [FouldsGWC16, Fig. 2]."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.experiment import Experiment, Numbers, claim, mean_and_error, picture
from reproductions.proportion import laplace_plug_in, ops_draws, private_estimates, temperature
from vestry.display.plotting import COLOURS, DASHES
from vestry.numerics import Array

P, TRUNCATION, EPSILON = 0.1, 0.05, 0.1
SIZES = (
    1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 300, 500, 700, 1000, 2000, 3000, 5000, 7000, 10_000, 20_000,
    50_000, 100_000,
)  # fmt: skip
QUICK = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
DRAWN = {
    "posterior draw": "posterior, not private",
    "ops draw": "OPS",
    "laplace draw": "Laplace, plug-in",
    "aware draw": "Laplace, noise-aware (ours)",
}
MEANS = {
    "posterior mean": DRAWN["posterior draw"],
    "laplace mean": DRAWN["laplace draw"],
    "aware mean": DRAWN["aware draw"],
}


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Average |estimate - p| over datasets."""
    sizes, repeats = (QUICK, 400) if quick else (SIZES, 1000)
    tempered = temperature(truncation=TRUNCATION, epsilon=EPSILON)
    errors: dict[str, Numbers] = {name: {"l1": [], "standard_error": []} for name in (*DRAWN, *MEANS)}
    for n in sizes:
        successes = rng.binomial(n, P, repeats).astype(float)
        for name, estimate in _estimates(rng, successes, n, tempered):
            mean, deviation = mean_and_error(np.abs(estimate - P))
            errors[name]["l1"].append(mean)
            errors[name]["standard_error"].append(deviation)
    crossing = _crossing(rng, 50_000 if quick else 500_000, tempered)
    return {
        "settings": {
            "p": P, "truncation": TRUNCATION, "epsilon": EPSILON, "repeats": repeats, "prior": [1, 1],
            "laplace_scale": 2 / EPSILON, "noise_aware_scale": 1 / EPSILON,
        },
        "temperature": tempered,
        "sizes": list(sizes),
        "errors": errors,
        "crossing": crossing,
        "claims": _claims(list(sizes), errors, crossing),
    }  # fmt: skip


def _estimates(rng: np.random.Generator, successes: Array, n: int, tempered: float) -> Iterator[tuple[str, Array]]:
    alpha, beta = 1 + successes, 1 + n - successes
    yield "posterior draw", rng.beta(alpha, beta)
    yield "posterior mean", alpha / (alpha + beta)
    known = {"truncation": TRUNCATION, "temperature": tempered, "epsilon": EPSILON}
    yield from private_estimates(rng, successes, n=n, **known)


def _crossing(rng: np.random.Generator, repeats: int, tempered: float) -> Numbers:
    """Find where Laplace draws overtake OPS, with many more repeats: near there the two errors differ by little."""
    sizes, errors = range(1, 21), []
    for n in sizes:
        successes = rng.binomial(n, P, repeats).astype(float)
        tempering = ops_draws(rng, successes, n=n, truncation=TRUNCATION, temperature=tempered)
        laplace = rng.beta(*laplace_plug_in(rng, successes, n=n, epsilon=EPSILON))
        errors.append([float(np.abs(each - P).mean()) for each in (tempering, laplace)])
    behind = [n for n, each in zip(sizes, errors, strict=True) if each[1] >= each[0]]
    return {
        "repeats": repeats,
        "sizes": list(sizes),
        "ops": [each[0] for each in errors],
        "laplace": [each[1] for each in errors],
        "overtaken_from": max(behind, default=0) + 1,
    }


def _claims(sizes: list[int], errors: Numbers, crossing: Numbers) -> list[dict[str, Any]]:
    last = {name: errors[name]["l1"][-1] for name in errors}
    ratio = {name: last[f"{name} draw"] / last["posterior draw"] for name in ("ops", "laplace", "aware")}
    nearer = [a < b for a, b in zip(errors["aware draw"]["l1"], errors["laplace draw"]["l1"], strict=True)]
    return [
        claim(
            "OPS is better only for very few records, about N = 10, and Laplace overtakes it quickly",
            f"Laplace errs less from N = {crossing['overtaken_from']} on ({crossing['repeats']} repeats)",
            holds=crossing["overtaken_from"] <= 15,
        ),
        claim(
            "Laplace converges to the posterior at N records; OPS does not",
            f"error at N = {sizes[-1]} over that of a posterior draw: Laplace {ratio['laplace']:.2f},"
            f" OPS {ratio['ops']:.2f}",
            holds=ratio["laplace"] < 1.15 and ratio["ops"] > 3,
        ),
        claim(
            "ours: noise-aware draws of the successes alone err less than the plug-in's at every size",
            f"at {sum(nearer)} of {len(nearer)} sizes. Where noise swamps the data, the noise-aware draw falls back on"
            " the uniform prior, while cutting noisy counts at 0 happens to favour a proportion as small as 0.1",
            holds=all(nearer),
        ),
    ]


def draw(numbers: Numbers, path: Path) -> None:
    """Draw the errors of draws, and beside them those of posterior means, which a noisy posterior gives for free."""
    with picture(2, path=path, width=4.4, height=3.6) as (_, axes):
        for panel, names, title in (
            (axes[0], DRAWN, "one draw"),
            (axes[1], MEANS, "posterior mean (OPS has none to give)"),
        ):
            styles = {label: (COLOURS[i], DASHES[i]) for i, label in enumerate(DRAWN.values())}
            for name, label in names.items():
                colour, dash = styles[label]
                panel.plot(numbers["sizes"], numbers["errors"][name]["l1"], color=colour, linestyle=dash, label=label)
            panel.set(xscale="log", yscale="log", ylim=(5e-4, 1), xlabel="records N", ylabel="mean |estimate - p|")
            panel.set_title(title)
            panel.legend(fontsize=8, loc="lower left", handlelength=3)


EXPERIMENT = Experiment(
    "foulds-fig2", "FouldsGWC16", "Figure 2", 20162, run, draw,
    summary="Error of a private draw against the number of records",
    erratum="The pair (x, 1 - x) is redundant where n is public: its sensitivity is 2, that of x alone is 1. The"
    " plug-in is drawn with the paper's pair, ours with x.",
)  # fmt: skip
