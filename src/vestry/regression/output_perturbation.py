"""Output perturbation: the regularised minimum, with normal noise.

theta = argmin sum l + (lam/2)|theta|^2 moves by at most L/lam if a record is added or removed, and 2 L/lam if one is
replaced (the norm, not its square, as the lecture prints) [ChaudhuriMS11, Lemma 7]. An approximate minimum, within t of
the exact one, adds 2 t. Then the noise is that of the analytic Gaussian mechanism, drawn exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestry.errors import GuaranteeUnreachable
from vestry.ledger import OpenCharge
from vestry.noise import NoiseSource
from vestry.numerics import outward
from vestry.privacy.accountant import smallest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.regression.certified_minimum import finest, iterations_for, one_by_one, regularised
from vestry.regression.problem import LinearProblem, first_rows
from vestry.releases import Draws
from vestry.schema.private import Block, PrivateRows, reveal_rows

THEOREM = (
    "The minimum of sum l + (lam/2)|theta|^2 moves by at most S/lam between neighbours, whose gradients are at most S"
    " apart, and a computed one by 2 t more if it is within t of the exact one [ChaudhuriMS11, Lemma 7]; normal noise"
    " on it is exactly Gaussian-private [BalleW18, Thm 8]."
)
# How near to the exact minimum, as a share of how far one unit moves it.
_NEAR = 1e-3


@dataclass(frozen=True)
class OutputPerturbation:
    """The regularised minimum plus normal noise.

    Attributes
    ----------
    problem, regularisation
        The losses, and lam, the regularisation of their sum.
    scale
        The noise's standard deviation.
    guarantee
        What was asked for and is met.
    device
        `cpu`, `gpu` or `auto`.
    """

    problem: LinearProblem
    regularisation: float
    scale: float
    guarantee: Guarantee
    device: str = "auto"

    name = "output"
    parameter = "scale"
    theorem = THEOREM

    @property
    def value(self) -> float:
        """The noise's scale."""
        return self.scale

    @property
    def adjacency(self) -> Adjacency:
        """Which neighbours are hidden."""
        return self.problem.adjacency

    @property
    def event(self) -> Event:
        """What runs."""
        return output_event(self.scale, _moves(self.problem, self.regularisation)).under(self.adjacency.neighbours)

    charge = event  # the ledger is charged what runs

    @property
    def one_by_one(self) -> bool:
        """Whether records are taken one by one, and not all for each step."""
        near = _near(self.problem, self.regularisation)
        return one_by_one(self.problem, self.regularisation, near, device=self.device)

    def release(self, private: PrivateRows, opened: OpenCharge, noise: NoiseSource) -> tuple[Draws, ...]:
        """Minimise, in a number of steps that public constants fix, and add the noise."""
        opened.take()
        return (self.drawn(first_rows(reveal_rows(private), self.problem.max_rows), noise),)

    def drawn(self, blocks: Sequence[Block], noise: NoiseSource) -> Draws:
        """Do so over blocks of features and outcomes."""
        theta = regularised(
            self.problem,
            blocks,
            self.regularisation,
            np.zeros(self.problem.dimension),
            _near(self.problem, self.regularisation),
            stream=noise.stream(),
            device=self.device,
        )
        return exactly_noisy(theta, self.scale, noise)


def exactly_noisy(values: np.ndarray, scale: float, noise: NoiseSource) -> Draws:
    """Add normal noise, drawn exactly and rounded once to a grid that the scale fixes."""
    from vestry.noise import exact_sampling
    from vestry.noise.bits import Bits
    from vestry.noise.grid import declared_grid

    grid, bits = declared_grid(scale), Bits(noise)
    precision = 1 / (scale * scale) * (1 - 2.0**-50)  # never less noise than was calibrated
    return Draws((tuple(exact_sampling.normal(bits, float(x), precision, grid=grid)[0] for x in values),), grid)


def _near(problem: LinearProblem, regularisation: float) -> float:
    """Return how near to the minimum a computed point is."""
    return max(_NEAR * problem.sensitivity / regularisation, finest(problem, regularisation, 0.0))


def _moves(problem: LinearProblem, regularisation: float) -> float:
    return outward(problem.sensitivity / regularisation + 2 * _near(problem, regularisation))


def output_event(scale: float, sensitivity: float) -> Event:
    """Record normal noise on a minimum that moves by at most this much."""
    return event("gaussian", sensitivity=sensitivity, scale=scale)


def output_perturbation(problem: LinearProblem, guarantee: Guarantee, *, regularisation: float) -> OutputPerturbation:
    """Calibrate the least noise that meets the guarantee."""
    if problem.ball is not None:
        raise GuaranteeUnreachable(
            f"output perturbation of the {problem.loss.name} loss", "its slope is unbounded; use logistic"
        )
    bound = guarantee.under(problem.adjacency.neighbours)
    iterations_for(problem, regularisation, _near(problem, regularisation))  # refuses before anything is charged
    moves = _moves(problem, regularisation)
    scale = smallest_parameter(lambda x: output_event(x, moves), bound)
    return OutputPerturbation(problem, regularisation, scale, bound)
