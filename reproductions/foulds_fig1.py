"""What each mechanism publishes of one posterior: OPS, thirty Laplace plug-ins, and ours [FouldsGWC16, Fig. 1].

Twenty records, six of them successes, as the true proportion 0.3 says. The plug-in takes its noisy counts as exact, so
each of its curves is about as narrow as the posterior, in another place; the noise-aware curves are as wide as the
noise leaves one to be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc, betaln, xlog1py, xlogy

from reproductions.experiment import Experiment, Numbers, claim, picture
from reproductions.proportion import PRIOR, count_posteriors, discrete_noise, laplace_plug_in, temperature
from vestry.display.plotting import COLOURS, INK
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Laplace

P, TRUNCATION, N, EPSILON, DRAWS = 0.3, 0.2, 20, 1.0, 30


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Compute the densities on a grid of the proportion."""
    grid = np.linspace(0, 1, 101 if quick else 301)[1:-1]
    successes = np.full(DRAWS, float(round(P * N)))
    tempered = temperature(truncation=TRUNCATION, epsilon=EPSILON)
    plug = laplace_plug_in(rng, successes, n=N, epsilon=EPSILON)
    noisy = successes + discrete_noise(rng, Laplace(1 / EPSILON), DRAWS)
    aware = count_posteriors(noisy, n=N, prior=PRIOR, noise=Laplace(1 / EPSILON))
    shapes = PRIOR.alpha + aware.counts, PRIOR.beta + N - aware.counts
    members = _density(grid, shapes[0][:, :, None], shapes[1][:, :, None])
    densities = {
        "posterior": _density(grid, 1 + successes[:1], 1 + N - successes[:1]).tolist(),
        "ops": _truncated(grid, 1 + successes[0] / tempered, 1 + (N - successes[0]) / tempered).tolist(),
        "laplace": _density(grid, plug[0][:, None], plug[1][:, None]).tolist(),
        "noise-aware": (aware.weights[:, :, None] * members).sum(axis=1).tolist(),
    }
    return {
        "settings": {
            "p": P, "n": N, "successes": int(successes[0]), "truncation": TRUNCATION, "epsilon": EPSILON,
            "draws": DRAWS, "prior": [1, 1], "laplace_scale": 2 / EPSILON, "noise_aware_scale": 1 / EPSILON,
        },
        "temperature": tempered,
        "theta": grid.tolist(),
        "densities": densities,
        "distances": _distances(grid, densities),
        "claims": _claims(tempered, grid, densities),
    }  # fmt: skip


def _density(theta: Array, alpha: Array, beta: Array) -> Array:
    return np.asarray(np.exp(xlogy(alpha - 1, theta) + xlog1py(beta - 1, -theta) - betaln(alpha, beta)))


def _truncated(theta: Array, alpha: float, beta: float) -> Array:
    inside = float(np.diff(betainc(alpha, beta, np.array([TRUNCATION, 1 - TRUNCATION])))[0])
    known = _density(theta, np.array([alpha]), np.array([beta])) / inside
    return np.where((theta >= TRUNCATION) & (theta <= 1 - TRUNCATION), known, 0.0)


def _distances(theta: Array, densities: Numbers) -> Numbers:
    """Return the total variation distance to the true posterior: of OPS, and on average over the noisy ones."""
    truth, step = np.array(densities["posterior"]), theta[1] - theta[0]
    return {
        name: float(np.abs(np.atleast_2d(densities[name]) - truth).sum(axis=1).mean() * step / 2)
        for name in ("ops", "laplace", "noise-aware")
    }


def _claims(tempered: float, theta: Array, densities: Numbers) -> list[dict[str, Any]]:
    distances = _distances(theta, densities)
    aware, plug_in, ops = (distances[name] for name in ("noise-aware", "laplace", "ops"))
    return [
        claim(
            "the truncated posterior is flattened by T = 2.7",
            f"T = 2 log(0.8/0.2)/1 = {tempered:.4f}, which rounds to 2.8; the paper cuts it",
            holds=abs(tempered - 2.7) < 0.1,
        ),
        claim(
            "ours: noise-aware posteriors of the successes alone are nearer to the posterior than the plug-in",
            f"mean total variation {aware:.3f} against {plug_in:.3f}; OPS {ops:.3f}",
            holds=aware < plug_in,
        ),
    ]


def draw(numbers: Numbers, path: Path) -> None:
    """Draw the paper's picture, and the same with ours."""
    theta = numbers["theta"]
    with picture(2, path=path, width=4.4, height=3.5) as (fig, panels):
        for axes, name, label in (
            (panels[0], "laplace", "Laplace, plug-in: 30 releases"),
            (panels[1], "noise-aware", "Laplace, noise-aware (ours): 30 releases"),
        ):
            for index, density in enumerate(numbers["densities"][name]):
                options = {"color": COLOURS[1], "linewidth": 0.9, "alpha": 0.7}
                axes.plot(theta, density, linestyle=":", label=label if index == 0 else None, **options)
            axes.plot(theta, numbers["densities"]["ops"], color=COLOURS[2], linestyle="--", label="OPS")
            axes.plot(theta, numbers["densities"]["posterior"], color=INK, linestyle="-", label="posterior")
            axes.set(xlim=(0, 1), ylim=(0, 8), xlabel="proportion", ylabel="density")
            axes.legend(fontsize=8, loc="upper right")
        fig.suptitle("20 records, 6 successes, epsilon 1, OPS truncated at 0.2", x=0.01, ha="left", fontsize=11)


EXPERIMENT = Experiment(
    "foulds-fig1", "FouldsGWC16", "Figure 1", 20161, run, draw,
    summary="One posterior as OPS, Laplace plug-in and noise-aware releases show it",
    erratum="h(x) is 1, not 0, for the Bernoulli. The pair (x, 1 - x) is redundant where n is public: its sensitivity"
    " is 2, that of x alone is 1. The plug-in is drawn with the paper's pair, ours with x.",
)  # fmt: skip
