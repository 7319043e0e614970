"""Metropolis and Barker chains over private records: what a step costs, and how near it comes [FouldsGWC16, C.1].

The proportion of `foulds-ais`, on the logit scale. A Metropolis step is (epsilon, delta) with delta a bound on its
chance of rejection, for every dataset and every state; here that chance is integrated, at its worst over states *of
these data*, which is no more than a lower bound on that delta. Barker's step has no delta.

Chains start at the prior and release their last state. The price is that of all updates at delta 1e-6 by bounded
range; each chain is as hot as it must be to cost it. Quality is the total variation distance to the posterior.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

import reproductions.foulds_ais as trial
from reproductions.experiment import Experiment, Numbers, claim, picture
from vestry.display.plotting import GREY, line
from vestry.numerics import Array
from vestry.privacy import accountant
from vestry.privacy.mcmc_cost import barker_update, shared_scan

PRICES = (1.0, 3.0, 10.0)
STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SCALES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.3, 1.0, 3.0)
SCALE = 1.0  # of the chains' steps


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Integrate the chances of rejection, and follow chains of many lengths at three prices."""
    repeats, steps = (4000, (1, 8, 128)) if quick else (40_000, STEPS)
    rejection = [rejections(scale) for scale in SCALES]
    chains = [_chain(rng, price, number, repeats) for price in PRICES for number in steps]
    laplace = {str(price): trial.laplace_distance(rng, price, repeats) for price in PRICES}
    mixing = _mixing(rng, repeats, steps)
    return {
        "settings": {
            "truncation": trial.TRUNCATION, "n": trial.N, "successes": trial.SUCCESSES, "delta": trial.DELTA,
            "scale": SCALE, "epsilon_of_a_counted_step": trial.LAST, "repeats": repeats, "neighbours": "replace",
        },
        "span": trial.SPAN,
        "scales": list(SCALES),
        "worst_rejection": {name: [each[name] for each in rejection] for name in ("Metropolis", "Barker")},
        "mixing": mixing,
        "chains": chains,
        "laplace": laplace,
        "claims": _claims(rejection, mixing, chains, laplace),
    }  # fmt: skip


def log_target(x: Array, power: float) -> Array:
    """Return the log density on the logit scale, its likelihood at a power, in NumPy."""
    theta = trial.proportion(x[..., None])
    prior = -np.logaddexp(0, -x) - np.logaddexp(0, x)
    failures = trial.N - trial.SUCCESSES
    return np.asarray(prior + power * (trial.SUCCESSES * np.log(theta) + failures * np.log1p(-theta)))


def rejections(scale: float) -> Numbers:
    """Integrate the chance of rejection of a step of this size, at its worst over states."""
    power = trial.LAST / (2 * trial.SPAN)
    states = np.linspace(-6, 6, 241)[:, None]
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    rise = log_target(states + scale * z, power) - log_target(states, power)
    weight = weight / weight.sum()
    return {
        "Metropolis": float((-np.expm1(np.minimum(rise, 0)) @ weight).max()),
        "Barker": float(((1 / (1 + np.exp(rise))) @ weight).max()),
    }


def update_epsilon(price: float, steps: int) -> float:
    """Return what a step may cost if all together cost (price, 1e-6), or as much as a step at temperature 1 can."""

    def excess(log_each: float) -> float:
        update = barker_update(trial.SPAN, temperature=2 * trial.SPAN / math.exp(log_each), neighbours="replace")
        return accountant.epsilon(shared_scan(update, updates=steps), trial.DELTA) - price

    whole = math.log(2 * trial.SPAN)
    if excess(whole) <= 0:
        return 2 * trial.SPAN
    return 0.999 * math.exp(brentq(excess, math.log(price / steps) - 1, whole, xtol=5e-4))


def _chain(rng: np.random.Generator, price: float, steps: int, repeats: int) -> Numbers:
    """Make Barker steps at one power of the likelihood: a ladder of one rung."""
    from vestry.mcmc import annealed_importance

    epsilon = update_epsilon(price, steps)
    start, power = rng.logistic(size=(repeats, 1)), epsilon / (2 * trial.SPAN)
    walked = annealed_importance(
        trial.log_prior, trial.log_likelihood, start, powers=(power,), rng=rng, scale=SCALE, steps=steps
    )  # fmt: skip
    return {
        "price": price,
        "steps": steps,
        "epsilon_of_a_step": epsilon,
        "temperature": 1 / power,
        "to_posterior": trial.distance(trial.proportion(walked.points), trial.cells()),
    }


def _mixing(rng: np.random.Generator, repeats: int, steps: tuple[int, ...]) -> Numbers:
    """Follow both chains at one temperature: how far they are from where they go, and how often they move."""
    from vestry.mcmc import barker_walk, metropolis_walk

    target = trial.cells(power=trial.LAST / (2 * trial.SPAN))
    mixing: Numbers = {"steps": list(steps)}
    for name, walk in (("Metropolis", metropolis_walk), ("Barker", barker_walk)):
        start = rng.logistic(size=(repeats, 1))
        hot = 2 * trial.SPAN / trial.LAST
        draws = walk(trial.log_steady, start, draws=max(steps), burn_in=0, rng=rng, scale=SCALE, temperature=hot)
        theta = trial.proportion(draws)
        mixing[name] = [trial.distance(theta[number - 1], target) for number in steps]
        mixing[f"{name} moves"] = float((np.diff(theta, axis=0) != 0).mean())
    return mixing


def _claims(
    rejection: list[Numbers], mixing: Numbers, chains: list[Numbers], laplace: dict[str, float]
) -> list[dict[str, Any]]:
    usual = rejection[SCALES.index(SCALE)]["Metropolis"]
    moved = mixing["Barker moves"] / mixing["Metropolis moves"]
    best = {price: min((c for c in chains if c["price"] == price), key=lambda c: c["to_posterior"]) for price in PRICES}
    return [
        claim(
            "a Metropolis step's delta is too large to be of use",
            f"steps of size {SCALE:g} are rejected with chance {usual:.2f} at the worst state; even steps of size"
            f" {SCALES[0]:g}, which get nowhere, with {rejection[0]['Metropolis']:.1e}, more than the delta 1e-6 that"
            " all of a chain may have",
            holds=usual > 0.1 and rejection[0]["Metropolis"] > 1e-6,
        ),
        claim(
            "not in the paper: Barker's chain, which needs no delta, moves less often, but at least half as often",
            f"{moved:.2f} times as often at the same temperature; both reach their target",
            holds=0.5 <= moved <= 1 and mixing["Barker"][-1] < 0.06,
        ),
        claim(
            "not in the paper: there is a best number of steps for a price; many must be so hot that they say little",
            "; ".join(f"price {p:g}: {c['steps']} steps, {c['to_posterior']:.2f}" for p, c in best.items()),
            holds=all(
                c["steps"] < max(each["steps"] for each in chains) and c["to_posterior"] < 0.9 for c in best.values()
            ),
        ),
        claim(
            "not in the paper: for the same price a draw after Laplace noise is nearer to the posterior",
            "; ".join(
                f"price {p:g}: Laplace {laplace[str(p)]:.2f}, chain {c['to_posterior']:.2f}" for p, c in best.items()
            ),
            holds=all(laplace[str(p)] < c["to_posterior"] for p, c in best.items()),
        ),
    ]


def draw(numbers: Numbers, path: Path) -> None:
    """Draw the chances of rejection, the two chains' way to their target, and distance against steps at a price."""
    with picture(3, path=path, width=3.7, height=3.6) as (_, axes):
        for index, name in enumerate(("Metropolis", "Barker")):
            style = {**line(index), "marker": "os"[index], "label": name}
            axes[0].plot(numbers["scales"], numbers["worst_rejection"][name], markersize=5, **style)
            axes[1].plot(numbers["mixing"]["steps"], numbers["mixing"][name], markersize=5, **style)
        axes[0].axhline(trial.DELTA, color=GREY, linewidth=1, label="delta = 1e-6")
        axes[0].set(xscale="log", yscale="log", xlabel="size of a step", ylabel="chance")
        axes[1].set(xscale="log", yscale="log", xlabel="steps", ylabel="distance")
        for index, price in enumerate(PRICES):
            rows = [each for each in numbers["chains"] if each["price"] == price]
            style = {**line(index), "marker": "os^"[index]}
            far = [row["to_posterior"] for row in rows]
            axes[2].plot([row["steps"] for row in rows], far, markersize=5, label=f"Barker, epsilon {price:g}", **style)
            axes[2].plot(
                0.5 * 1.25**index, numbers["laplace"][str(price)], markersize=9, markerfacecolor="white", **style
            )
        axes[2].set(xscale="log", ylim=(0, 1), xlabel="steps", ylabel="distance")
        titles = ("rejection at the worst state", "to its own target", "to the posterior, by price\n(white: Laplace)")
        for panel, title in zip(axes, titles, strict=True):
            panel.set_title(title)
            panel.legend(fontsize=8, handlelength=3.5)


EXPERIMENT = Experiment(
    "foulds-mh", "FouldsGWC16", "Supplement C.1, Theorem C.1", 20167, run, draw,
    summary="Metropolis and Barker chains: rejections, costs and how near they come",
)  # fmt: skip
