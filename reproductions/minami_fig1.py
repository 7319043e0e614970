"""Losses differ without bound, their gradients do not [MinamiAS16, Fig. 1]: the logistic loss of one row and its flip.

On the left |l(theta; z, 1) - l(theta; z, -1)| = |theta z| and the gradients' difference, which is |z| wherever theta
is: half of the 2 L that the theorem allows. In one dimension no pair of rows does much better (1.05 L); with two
coordinates the 2 L are reached. On the right what it means: the power of the likelihood that the exponential mechanism
allows on a ball of parameters, and what the gradients allow whatever the ball.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from reproductions.experiment import Experiment, Numbers, claim, picture
from vestry.display.plotting import GREY, line
from vestry.privacy.guarantee import ApproxDP
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.regression import numpy_math
from vestry.regression.gibbs_calibration import likelihood_power
from vestry.regression.losses import Logistic

EPSILON, DELTA, PRECISION = 1.0, 1e-5, 1.0


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Evaluate losses and gradients, and calibrate on balls of several radii."""
    theta = np.linspace(-10, 10, 41 if quick else 201)
    radii = np.exp(np.linspace(math.log(0.3), math.log(100), 12 if quick else 60))
    row = Adjacency(Neighbours.REPLACE)
    private = likelihood_power(ApproxDP(EPSILON, DELTA), lipschitz=1.0, strong_convexity=PRECISION, adjacency=row)
    numbers = {
        "settings": {"z": 1, "epsilon": EPSILON, "delta": DELTA, "prior_precision": PRECISION},
        "theta": theta.tolist(),
        "losses": _between_flips(Logistic().value(numpy_math), theta),
        "gradients": _between_flips(Logistic().derivative(numpy_math), theta),
        "largest_in_one_dimension": _one_coordinate(),
        "largest_in_two": _two_coordinates(),
        "radii": radii.tolist(),
        # One replaced row moves the sum of losses by at most the radius; twice that, tempered, is what it costs.
        "exponential": (EPSILON / (2 * radii)).tolist(),
        "gibbs": private,
        "crossing": EPSILON / (2 * private),
    }
    return {**numbers, "claims": _claims(numbers)}


def _between_flips(function: Any, theta: np.ndarray) -> list[float]:
    """Return |f(theta, 1) - f(theta, -1)|."""
    ones = np.ones_like(theta)
    return [float(x) for x in np.abs(function(theta, ones) - function(theta, -ones))]


def _claims(numbers: Numbers) -> list[Numbers]:
    theta, losses, widest = numbers["theta"], numbers["losses"], max(numbers["gradients"])
    one, two = numbers["largest_in_one_dimension"], numbers["largest_in_two"]
    return [
        claim(
            "the difference of the losses grows with the size of the parameter space",
            f"it is |theta z|: {losses[-1]:g} at theta = {theta[-1]:g}",
            holds=bool(np.allclose(losses, np.abs(theta))),
        ),
        claim(
            "the difference of the gradients does not exceed twice the Lipschitz constant",
            f"it is {widest:.4g} for this pair; at most {one:.4f} for any pair in one dimension, and {two:.4f} of 2 was"
            " found in two",
            holds=max(widest, one, two) <= 2,
        ),
        claim(
            "so the likelihood's power need not shrink as the parameter space grows",
            f"at epsilon 1, delta 1e-5 and a prior of precision 1 it is {numbers['gibbs']:.4f} on every ball; the"
            " exponential mechanism, at epsilon 1 and no delta, allows less on every ball of a radius above"
            f" {numbers['crossing']:.2f}",
            holds=numbers["exponential"][-1] < numbers["gibbs"],
        ),
    ]


def _one_coordinate() -> float:
    """Return the largest difference of two gradients of rows of norm at most 1 that have one coordinate."""
    t = np.linspace(-20, 20, 2001)
    return max(float(np.max(np.abs(expit(t) + r * expit(-r * t)))) for r in np.linspace(0, 1, 201))


def _two_coordinates() -> float:
    """Return it for two rows of norm 1 that are nearly opposite, and theta against both."""
    angle, far = 0.02, 1000.0
    one, two = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.cos(angle), math.sin(angle)])
    theta = np.array([0.0, -far])
    return float(np.linalg.norm(expit(-one @ theta) * one - expit(-two @ theta) * two))


def draw(numbers: Numbers, path: Path) -> None:
    """Draw the two differences, and the powers that they allow."""
    with picture(2, path=path, width=4.6, height=3.5) as (_, axes):
        left, right = axes
        left.plot(numbers["theta"], numbers["losses"], **line(0), label="losses")
        left.plot(numbers["theta"], numbers["gradients"], **line(1), label="gradients")
        left.axhline(2, color=GREY, linewidth=1)
        left.text(-10, 2.15, "2 L", fontsize=8)
        left.set(xlabel="theta", ylabel="difference, z = 1", ylim=(0, 10.5))
        left.legend(fontsize=8, loc="upper center", handlelength=3)
        right.plot(numbers["radii"], numbers["exponential"], **line(0), label="exponential mechanism, epsilon 1")
        right.axhline(numbers["gibbs"], **line(1), label="by gradients, epsilon 1, delta 1e-5")
        right.set(xscale="log", yscale="log", xlabel="radius of the ball of parameters", ylabel="likelihood power")
        right.legend(fontsize=8, handlelength=3)


EXPERIMENT = Experiment(
    "minami-fig1", "MinamiAS16", "Figure 1", 20161, run, draw,
    summary="Differences of losses grow with the parameter, those of gradients do not",
    erratum="Section 3.3 bounds the gradient by R where there is an intercept; it is sqrt(R^2 + 1).",
)  # fmt: skip
