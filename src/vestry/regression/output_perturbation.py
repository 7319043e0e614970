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
from vestry.noise import NoiseSource
from vestry.numerics import outward
from vestry.privacy.accountant import smallest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.pricing import event
from vestry.regression.certified_minimum import RidgeObjective
from vestry.regression.problem import LinearProblem, RowMechanism
from vestry.releases import Draws
from vestry.schema.private import Block, RemoteRows

THEOREM = (
    "The minimum of sum l + (lam/2)|theta|^2 moves by at most S/lam between neighbours, whose gradients are at most S"
    " apart, and a computed one by 2 t more if it is within t of the exact one [ChaudhuriMS11, Lemma 7]; normal noise"
    " on it is exactly Gaussian-private [BalleW18, Thm 8]."
)
# How near to the exact minimum, as a share of how far one unit moves it.
_NEAR = 1e-3


@dataclass(frozen=True)
class OutputPerturbation(RowMechanism):
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
    def event(self) -> Event:
        """What runs."""
        return output_event(self.scale, _moves(self._objective)).under(self.adjacency.neighbours)

    @property
    def _objective(self) -> RidgeObjective:
        return RidgeObjective(self.problem, self.regularisation)

    @property
    def way(self) -> str:
        """How the minimum of rows in memory is approached."""
        return self._objective.way(_near(self._objective), self.device)

    @property
    def few_passes(self) -> bool:
        """Whether Newton's method, whose passes are few, can be taken: for few features of one predictor."""
        return self._objective.sends_hessian

    def rehearse(self, noise: NoiseSource) -> tuple[Draws, ...]:
        """Add the noise to zeros."""
        noise.stream()
        return (exactly_noisy(np.zeros(self.problem.dimension), self.scale, noise),)

    def draw(self, rows: Sequence[Block] | RemoteRows, noise: NoiseSource) -> Draws:
        """Minimise, and add the noise."""
        nothing, near = np.zeros(self.problem.dimension), _near(self._objective)
        theta = self._objective.minimum(rows, nothing, near, stream=noise.stream(), device=self.device)
        return exactly_noisy(theta, self.scale, noise)


def exactly_noisy(values: np.ndarray, scale: float, noise: NoiseSource) -> Draws:
    """Add normal noise, drawn exactly and rounded once to a grid that the scale fixes."""
    from vestry.noise import exact_sampling
    from vestry.noise.bits import Bits
    from vestry.noise.grid import declared_grid

    grid, bits = declared_grid(scale), Bits(noise)
    precision = 1 / (scale * scale) * (1 - 2.0**-50)  # never less noise than was calibrated
    return Draws((tuple(exact_sampling.normal(bits, float(x), precision, grid=grid)[0] for x in values),), grid)


def _near(objective: RidgeObjective) -> float:
    """Return how near to the minimum a computed point is."""
    return max(_NEAR * objective.problem.sensitivity / objective.regularisation, objective.finest)


def _moves(objective: RidgeObjective) -> float:
    return outward(objective.problem.sensitivity / objective.regularisation + 2 * _near(objective))


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
    objective = RidgeObjective(problem, regularisation)
    objective.iterations(_near(objective))  # refuses before anything is charged
    moves = _moves(objective)
    scale = smallest_parameter(lambda x: output_event(x, moves), bound)
    return OutputPerturbation(problem, regularisation, scale, bound)
