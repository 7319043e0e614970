"""Objective perturbation: the minimum of a regularised sum of losses plus a random linear term.

theta = argmin sum l + (lam/2)|theta|^2 + b . theta, b ~ N(0, sigma^2 I) [ChaudhuriMS11; KiferST12]. Its privacy is
`vestry.privacy.objective_cost`'s, by the tightest analysis that the loss and the neighbours allow. Only losses of one
linear predictor: for others the classic proof has a gap.

A minimum is never computed exactly. What is released is a point within t of it, with normal noise of scale s on top,
drawn exactly: it costs mu = 2 t/s besides. The number of steps is fixed by public constants, so that t is guaranteed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.noise import NoiseSource
from vestry.noise.bounded_error_normals import ERROR
from vestry.privacy.accountant import largest_parameter, smallest_parameter
from vestry.privacy.event import Event, compose
from vestry.privacy.guarantee import ApproxDP, Guarantee, RenyiDP
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event, event_of_guarantee
from vestry.regression.certified_minimum import RidgeObjective
from vestry.regression.output_perturbation import exactly_noisy
from vestry.regression.problem import LinearProblem, RowMechanism
from vestry.releases import Draws
from vestry.schema.private import Block, RemoteRows
from vestry.validation import require_choice

THEOREMS = {
    "objective": "Objective perturbation of a convex loss of one linear predictor [RedbergKW23, Thm 1], with the"
    " Jacobian's share log(1 + smoothness/regularisation).",
    "objective-one-sided": "Objective perturbation of a loss whose derivative keeps its sign for each record: the"
    " hockey-stick divergence of one normal shift, beyond log(1 + smoothness/regularisation).",
    "objective-one-sided-replace": "Objective perturbation of a loss whose derivative keeps its sign for each record,"
    " one record replaced: H_2mu + 2 H_mu beyond log(1 + smoothness/regularisation).",
    "objective-published": "Objective perturbation of a convex loss of one linear predictor [RedbergKW23, Thm 1].",
    "objective-lecture": "Objective perturbation by the lecture's bound [ChaudhuriMS11; KiferST12].",
}
ANALYSES = {
    "auto": "",
    "general": "objective",
    "one-sided": "objective-one-sided",
    "one-sided-replace": "objective-one-sided-replace",
    "redberg": "objective-published",
    "lecture": "objective-lecture",
}
# The share of epsilon and of delta that the noise on top of the approximate minimum takes.
_TOP = 1 / 200
# Its scale, as a share of the least spread that the random linear term gives the minimum.
_FINE = 0.1
# A random vector's norm is beyond sqrt(d) + 12 of its deviations once in 1e31.
_BEYOND = 12.0


def kind_for(*, one_sided: bool, replaces: bool, rows: int = 1, analysis: str = "auto") -> str:
    """Return the kind of event whose analysis is the tightest that holds, or the one that is named."""
    require_choice("analysis", analysis, ANALYSES, "analysis=auto")
    if analysis != "auto":
        kind = ANALYSES[analysis]
        if "one-sided" in kind and not one_sided:
            raise InvalidParameter("analysis", analysis, "for a loss whose derivative keeps its sign", "analysis=auto")
        if analysis == "one-sided-replace" and (not replaces or rows != 1):
            raise InvalidParameter("analysis", analysis, "for one replaced row", "analysis=auto")
        return kind
    if not one_sided:
        return "objective"
    return "objective-one-sided-replace" if replaces and rows == 1 else "objective-one-sided"


def objective_event(
    scale: float,
    *,
    lipschitz: float,
    smoothness: float,
    regularisation: float,
    adjacency: Adjacency,
    one_sided: bool,
    analysis: str = "auto",
) -> Event:
    """Record a minimum of a perturbed objective. A change that no analysis covers is taken one record at a time."""
    kind = kind_for(one_sided=one_sided, replaces=adjacency.replaces, rows=adjacency.rows, analysis=analysis)
    return event(
        kind,
        lipschitz=lipschitz,
        smoothness=smoothness,
        regularisation=regularisation,
        scale=scale,
        records=1 if kind == "objective-one-sided-replace" else adjacency.changes,
    )


def objective_scale(make: Callable[[float], Event], guarantee: Guarantee, regularisation: float) -> float:
    """Return the least scale of the random linear term that meets the guarantee, or say which lam would."""
    try:
        return smallest_parameter(make, guarantee)
    except GuaranteeUnreachable:
        pass
    raise GuaranteeUnreachable(
        f"{guarantee} with regularisation {regularisation:g}",
        "the Jacobian alone costs log(1 + smoothness/regularisation) per record; regularise more, or use output"
        " perturbation",
    )


@dataclass(frozen=True)
class ObjectivePerturbation(RowMechanism):
    """The minimum of a perturbed objective, approximated, with a little noise on top.

    Attributes
    ----------
    problem, regularisation
        The losses, and lam, the regularisation of their sum.
    scale
        The standard deviation of each coordinate of the random linear term.
    tolerance
        How near to the minimum the computed point is.
    top
        The standard deviation of the noise on top of it.
    guarantee
        What was asked for and is met.
    analysis
        Which analysis the claim rests on.
    device
        `cpu`, `gpu` or `auto`.
    """

    problem: LinearProblem
    regularisation: float
    scale: float
    tolerance: float
    top: float
    guarantee: Guarantee
    analysis: str
    device: str = "auto"

    name = "objective"
    parameter = "scale"

    @property
    def event(self) -> Event:
        """What runs: the minimum, and the noise on top."""
        minimum = minimum_event(self.problem, self.regularisation, self.analysis)(self.scale)
        over = event("gaussian", sensitivity=2 * self.tolerance, scale=self.top)
        return compose(minimum, over).under(self.adjacency.neighbours)

    @property
    def charge(self) -> Event:
        """What the ledger is charged: what was asked for, in its own privacy definition."""
        return event_of_guarantee(self.guarantee)

    @property
    def theorem(self) -> str:
        """The results that the claim rests on."""
        kind = self.event.parts[0].kind
        return (
            f"{THEOREMS[kind]} The computed point is within {self.tolerance:.2g} of the minimum, which its gradient"
            " proves, after a number of steps that public constants fix; normal noise on top of it covers the rest."
        )

    @property
    def _objective(self) -> RidgeObjective:
        return RidgeObjective(self.problem, self.regularisation, _longest(self.problem, self.scale))

    @property
    def way(self) -> str:
        """How the minimum of rows in memory is approached."""
        return self._objective.way(self._near, self.device)

    @property
    def _near(self) -> float:
        """How near the computed point is to the minimum for the linear term as it is computed."""
        return self.tolerance - _linear_error(self.problem, self.scale, self.regularisation)

    @property
    def few_passes(self) -> bool:
        """Whether Newton's method, whose passes are few, can be taken: for few features of one predictor."""
        return self._objective.sends_hessian

    def rehearse(self, noise: NoiseSource) -> tuple[Draws, ...]:
        """Draw a linear term, and add the noise on top to zeros."""
        from vestry.noise.bounded_error_normals import normals

        normals(noise.stream(), self.problem.dimension)
        return (exactly_noisy(np.zeros(self.problem.dimension), self.top, noise),)

    def draw(self, rows: Sequence[Block] | RemoteRows, noise: NoiseSource) -> Draws:
        """Draw the linear term, minimise, and add the noise on top."""
        from vestry.noise.bounded_error_normals import normals

        stream, objective = noise.stream(), self._objective
        linear = self.scale * normals(stream, self.problem.dimension)
        length = float(np.linalg.norm(linear))
        if length > objective.longest:  # pragma: no cover - once in 1e31
            linear *= objective.longest / length
        theta = objective.minimum(rows, linear, self._near, stream=stream, device=self.device)
        return exactly_noisy(theta, self.top, noise)


def _longest(problem: LinearProblem, scale: float) -> float:
    """Bound the norm of the linear term."""
    return scale * (math.sqrt(problem.dimension) + _BEYOND)


def _linear_error(problem: LinearProblem, scale: float, regularisation: float) -> float:
    """Bound how far the minimum moves because the linear term is not quite normal."""
    return scale * math.sqrt(problem.dimension) * ERROR / regularisation


def minimum_event(problem: LinearProblem, regularisation: float, analysis: str) -> Callable[[float], Event]:
    """Return how the minimum is recorded, from the scale of the random linear term."""
    return lambda scale: objective_event(
        scale,
        lipschitz=problem.lipschitz,
        smoothness=problem.smoothness,
        regularisation=regularisation,
        adjacency=problem.adjacency,
        one_sided=problem.loss.one_sided,
        analysis=analysis,
    )


def objective_perturbation(
    problem: LinearProblem, guarantee: Guarantee, *, regularisation: float, analysis: str = "auto"
) -> ObjectivePerturbation:
    """Calibrate the random linear term, and the little noise on top, to meet the guarantee."""
    if problem.loss.predictors > 1:
        raise GuaranteeUnreachable(
            f"objective perturbation of the {problem.loss.name} loss",
            "its proof holds for one linear predictor; use the posterior or output perturbation",
        )
    if problem.ball is not None:
        raise GuaranteeUnreachable(
            f"objective perturbation of the {problem.loss.name} loss", "its slope is unbounded; use logistic"
        )
    bound = guarantee.under(problem.adjacency.neighbours)
    main, rest = _split(bound)
    make = minimum_event(problem, regularisation, analysis)
    scale = objective_scale(make, main, regularisation)
    objective = RidgeObjective(problem, regularisation, _longest(problem, scale))
    mu = largest_parameter(lambda x: event("gdp", mu=x), rest)
    near = max(mu * _FINE * scale / objective.curvature / 2, objective.finest)
    tolerance = near + _linear_error(problem, scale, regularisation)
    objective.iterations(near)  # refuses before anything is charged
    top = 2 * tolerance / mu * (1 + 1e-9)
    return ObjectivePerturbation(problem, regularisation, scale, tolerance, top, bound, analysis)


def _split(guarantee: Guarantee) -> tuple[Guarantee, Guarantee]:
    """Split a guarantee between the minimum and the noise on top: both definitions add up."""

    def part(share: float) -> Guarantee:
        if isinstance(guarantee, ApproxDP):
            return ApproxDP(guarantee.epsilon * share, guarantee.delta * share, neighbours=guarantee.neighbours)
        if isinstance(guarantee, RenyiDP):
            return RenyiDP(guarantee.order, guarantee.epsilon * share, neighbours=guarantee.neighbours)
        raise GuaranteeUnreachable(
            f"{guarantee} by objective perturbation",
            "the Jacobian's share is known in no other definition; ask for an epsilon and a delta, or use output"
            " perturbation",
        )

    return part(1 - _TOP), part(_TOP)
