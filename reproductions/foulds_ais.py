"""What annealing buys and what it costs: paths of temperatures over private records [FouldsGWC16, supplement C.2].

A proportion with a uniform prior on [a, 1 - a], n records, so that the posterior is known. Replace-one record, D =
log((1 - a)/a). A particle starts at a draw of the prior and makes Barker steps on the logit scale. Three ways to spend:
**steady** makes every update at the last rung's epsilon_0; **annealed** climbs to it by equal steps, so that early
updates cost less; both release the last state. **Importance** runs several annealed particles, each of which pays, and
releases one of them chosen by its weight, for epsilon_0 more. The rival is Laplace noise on the number of successes, at
the same total price, of which a draw costs no more.

Costs are at delta 1e-6 by bounded range. Quality is the total variation distance between the distribution of what is
released, over its own randomness, and the posterior.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc

from reproductions.experiment import Experiment, Numbers, claim, picture
from reproductions.proportion import discrete_noise
from vestry.display.plotting import GREY, line
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Laplace
from vestry.privacy import accountant
from vestry.privacy.annealing_cost import Ladder
from vestry.privacy.event import compose
from vestry.privacy.neighbours import Neighbours

TRUNCATION, N, SUCCESSES, DELTA = 0.1, 200, 60, 1e-6
SPAN = math.log((1 - TRUNCATION) / TRUNCATION)
SCALE = 0.6  # of a step on the logit scale
LAST, RUNGS, PARTICLES = 0.4, (2, 4, 8, 16, 32, 64), 5
PATHS = {
    "steady": "one particle, all updates at the last rung",
    "annealed": "one particle, climbing",
    "importance": f"one of {PARTICLES} climbing particles, by weight",
}
BINS = np.linspace(TRUNCATION, 1 - TRUNCATION, 41)


def log_prior(point: Any) -> Any:
    """Return the log density of a uniform proportion on the logit scale of its interval."""
    import jax

    return jax.nn.log_sigmoid(point[0]) + jax.nn.log_sigmoid(-point[0])


def log_likelihood(point: Any) -> Any:
    """Return the log-likelihood of the records."""
    import jax
    import jax.numpy as jnp

    theta = TRUNCATION + (1 - 2 * TRUNCATION) * jax.nn.sigmoid(point[0])
    return SUCCESSES * jnp.log(theta) + (N - SUCCESSES) * jnp.log1p(-theta)


def proportion(points: Array) -> Array:
    """Turn points of the logit scale back into proportions."""
    return np.asarray(TRUNCATION + (1 - 2 * TRUNCATION) / (1 + np.exp(-points[..., 0])))


def cells(*, power: float = 1.0) -> Array:
    """Return the probability of each bin under the posterior whose likelihood has this power."""
    edges = np.asarray(betainc(1 + power * SUCCESSES, 1 + power * (N - SUCCESSES), BINS))
    return np.asarray(np.diff(edges) / (edges[-1] - edges[0]))


def distance(theta: Array, shares: Array) -> float:
    """Return the total variation distance between a sample and a distribution, over bins."""
    return float(np.abs(np.histogram(theta, BINS)[0] / theta.size - shares).sum() / 2)


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Follow many particles of each path at once."""
    repeats = 4000 if quick else 40_000
    rungs = (8, 32) if quick else RUNGS
    rows = [row for count in rungs for row in _paths(rng, count, repeats)]
    shares = cells(power=LAST / (2 * SPAN))
    for row in rows:
        row["laplace"] = laplace_distance(rng, row["epsilon"], repeats)
    return {
        "settings": {
            "truncation": TRUNCATION, "n": N, "successes": SUCCESSES, "delta": DELTA, "last_epsilon": LAST,
            "particles": PARTICLES, "repeats": repeats, "scale": SCALE, "neighbours": "replace",
        },
        "span": SPAN,
        "last_power": Ladder(SPAN, (LAST,), Neighbours.REPLACE).powers[0],
        "exact_draw_at_the_last_power": float(np.abs(cells(power=LAST / (2 * SPAN)) - cells()).sum() / 2),
        "monte_carlo_floor": float(np.sqrt(shares * (1 - shares) / (2 * math.pi * repeats)).sum()),
        "rows": rows,
        "claims": _claims(rows),
    }  # fmt: skip


def _paths(rng: np.random.Generator, count: int, repeats: int) -> list[Numbers]:
    from vestry.mcmc import annealed_importance, barker_walk

    ladder = Ladder(SPAN, tuple(LAST * (j + 1) / count for j in range(count)), Neighbours.REPLACE)
    target, posterior = cells(power=ladder.powers[-1]), cells()

    def start(size: int) -> Array:
        return rng.logistic(size=(size, 1))

    def row(name: str, theta: Array, event: Any) -> Numbers:
        return {
            "path": name,
            "updates": count,
            "pure": float(accountant.pure(event)),
            "epsilon": accountant.epsilon(event, DELTA),
            "to_target": distance(theta, target),
            "to_posterior": distance(theta, posterior),
        }

    hot = Ladder(SPAN, (LAST,), Neighbours.REPLACE)
    walked = barker_walk(
        log_steady, start(repeats), draws=count, burn_in=count - 1, rng=rng, scale=SCALE, temperature=1 / hot.powers[-1]
    )
    climbed = annealed_importance(
        log_prior, log_likelihood, start(repeats * PARTICLES), powers=ladder.powers, rng=rng, scale=SCALE
    )
    every = proportion(climbed.points).reshape(repeats, PARTICLES)
    # One of each group by its weight: the largest of log weight plus Gumbel noise.
    groups = climbed.log_weights.reshape(repeats, PARTICLES)
    chosen = (groups + rng.gumbel(size=groups.shape)).argmax(axis=1)
    path = ladder.particle(updates=1)
    return [
        row("steady", proportion(walked[-1]), hot.particle(updates=1).times(count)),
        row("annealed", every[:, 0], path),
        row("importance", every[np.arange(repeats), chosen], compose(path.times(PARTICLES), ladder.resample())),
    ]


def log_steady(point: Any) -> Any:
    """Return a log density that at temperature 2 D/epsilon_0 is the likelihood's power and the prior untempered.

    On this scale a tempered prior would have long tails: most of its mass would lie at the ends of the interval.
    """
    return log_likelihood(point) + 2 * SPAN / LAST * log_prior(point)


def laplace_distance(rng: np.random.Generator, epsilon: float, repeats: int) -> float:
    """Return the distance of a plug-in draw from the posterior, over the noise, at this pure epsilon."""
    from vestry.mcmc import truncated_beta

    noisy = np.clip(SUCCESSES + discrete_noise(rng, Laplace(1 / epsilon), repeats), 0, N)
    theta = truncated_beta(rng, 1 + noisy, 1 + N - noisy, low=TRUNCATION, high=1 - TRUNCATION)
    return distance(theta, cells())


def _claims(rows: list[Numbers]) -> list[dict[str, Any]]:
    by = {(row["path"], row["updates"]): row for row in rows}
    longest = max(row["updates"] for row in rows)
    steady, annealed, importance = (by[name, longest] for name in PATHS)
    saved = 1 - annealed["epsilon"] / steady["epsilon"]
    nearer = {name: by[name, 8]["to_target"] for name in PATHS}
    beaten = sum(row["laplace"] < row["to_posterior"] for row in rows)
    return [
        claim(
            "annealing saves budget: its early, hot updates cost little",
            f"{longest} updates cost {steady['epsilon']:.2f} if all are at the last rung, {annealed['epsilon']:.2f} if"
            f" they climb to it: {100 * saved:.0f} % less. They end {annealed['to_target']:.3f} from their target then,"
            f" against {steady['to_target']:.3f}",
            holds=saved > 0.3,
        ),
        claim(
            f"importance weights over {PARTICLES} particles bring a short path nearer to its target",
            f"8 updates: {nearer['importance']:.3f}, one annealed particle {nearer['annealed']:.3f}; at"
            f" {by['importance', 8]['epsilon'] / by['annealed', 8]['epsilon']:.1f} times the cost, and a steady chain"
            f" that costs {by['steady', 8]['epsilon'] / by['importance', 8]['epsilon']:.1f} times as much as that has"
            f" {nearer['steady']:.3f}",
            holds=nearer["importance"] < nearer["annealed"],
        ),
        claim(
            "not in the paper: for the same price a draw after Laplace noise is nearer to the posterior",
            f"for {beaten} of {len(rows)} paths; the longest, of {importance['epsilon']:.1f}, ends"
            f" {importance['to_posterior']:.2f} from the posterior, Laplace {importance['laplace']:.2f}",
            holds=beaten == len(rows),
        ),
    ]


def draw(numbers: Numbers, path: Path) -> None:
    """Draw cost and distance to the target against updates, and distance to the posterior against cost."""
    with picture(3, path=path, width=3.7, height=3.8) as (fig, axes):
        for index, name in enumerate(PATHS):
            rows = [row for row in numbers["rows"] if row["path"] == name]
            style = {**line(index), "marker": "os^"[index], "markersize": 5}
            updates, costs = [row["updates"] for row in rows], [row["epsilon"] for row in rows]
            axes[0].plot(updates, costs, label=PATHS[name], **style)
            axes[1].plot(updates, [row["to_target"] for row in rows], **style)
            axes[2].plot(costs, [row["to_posterior"] for row in rows], **style)
        ordered = sorted((row["epsilon"], row["laplace"]) for row in numbers["rows"])
        axes[2].plot(*zip(*ordered, strict=True), color="black", linestyle=":", label="Laplace, at the same price")
        exact = numbers["exact_draw_at_the_last_power"]
        axes[2].axhline(exact, color=GREY, linewidth=1, label="an exact draw at the last rung")
        axes[1].axhline(numbers["monte_carlo_floor"], color=GREY, linewidth=1)
        axes[0].set(xscale="log", yscale="log", xlabel="updates a particle", ylabel="epsilon at delta 1e-6")
        axes[1].set(xscale="log", yscale="log", xlabel="updates a particle", ylabel="distance")
        axes[2].set(xscale="log", ylim=(0, None), xlabel="epsilon at delta 1e-6", ylabel="distance")
        for panel in axes[:2]:
            panel.set_xticks(updates, [str(number) for number in updates])
            panel.minorticks_off()
        titles = ("cost", "to its own target\n(grey: what chance alone gives)", "to the posterior")
        for panel, title in zip(axes, titles, strict=True):
            panel.set_title(title)
        handles, labels = (a + b for a, b in zip(*(p.get_legend_handles_labels() for p in axes[::2]), strict=True))
        fig.legend(handles, labels, fontsize=8, ncols=3, loc="outside lower center", handlelength=3.5)


EXPERIMENT = Experiment(
    "foulds-ais", "FouldsGWC16", "Supplement C.2", 20166, run, draw,
    summary="What annealing paths cost and how near they come, against Laplace noise",
    erratum="The normalised weights move by 2 tanh(epsilon_0/4) in l1, not by 2. Here one particle is drawn by its"
    " weight, for epsilon_0, and no weight is told.",
)  # fmt: skip
