"""What a mechanism over the rows of a linear model may count on: constants that hold for every dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter
from vestry.losses import ComplementaryLogLog, Loss, Probit
from vestry.statistics.population import Population
from vestry.statistics.private import Block


@dataclass(frozen=True)
class LinearProblem:
    """A loss of a linear predictor, summed over records of bounded norm.

    Attributes
    ----------
    loss
        The loss of one record.
    features
        How many coefficients a linear predictor has, the intercept included.
    norm
        No record's features, the intercept included, are longer.
    population
        Which neighbours are hidden.
    at_most
        How many records there are at most: the public count, or a declared bound where the count is private. The
        guarantee covers datasets of at most so many; further records are left out.
    outcome
        The largest size of an outcome that is a number.
    """

    loss: Loss
    features: int
    norm: float
    population: Population
    at_most: int
    outcome: float = 1.0

    def __post_init__(self) -> None:
        for name in ("features", "at_most"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidParameter(name, value, "a whole number of at least 1", f"for example {name}=100")
        if not 0 < self.norm < math.inf:
            raise InvalidParameter("norm", self.norm, "a number above 0", "for example norm=1.0")
        if self.population.groups > 1:
            raise InvalidParameter("groups", self.population.groups, "1 for a regression", "the groups as a predictor")

    @property
    def dimension(self) -> int:
        """How many numbers a parameter has."""
        return self.features * self.loss.predictors

    @property
    def lipschitz(self) -> float:
        """Of one record's loss."""
        return self.loss.lipschitz(self.norm)

    @property
    def smoothness(self) -> float:
        """Of one record's loss."""
        return self.loss.smoothness(self.norm)

    @property
    def sensitivity(self) -> float:
        """How far neighbours can move the sum of gradients: 2 L a record under replace, L under add-remove."""
        return self.population.changes * self.lipschitz

    @property
    def ball(self) -> float | None:
        """The radius of the parameters where the loss's constants hold; None if they hold everywhere."""
        return self.loss.reach / self.norm if isinstance(self.loss, (Probit, ComplementaryLogLog)) else None

    @property
    def most(self) -> float:
        """The largest sum of losses at the parameter 0."""
        return self.at_most * _at_zero(self.loss, self.outcome)


def _at_zero(loss: Loss, outcome: float) -> float:
    """Bound the loss of one record at eta = 0; it grows by at most the slope times |y|."""
    import numpy as np

    from vestry.losses import array

    if loss.outcomes == "classes":
        return math.log(loss.predictors)
    ends = np.array([-1.0, 1.0] if loss.outcomes == "signs" else [-outcome, outcome])
    return float(np.max(loss.value(array)(np.zeros(2), ends)))


def kept(blocks: Sequence[Block], at_most: int) -> tuple[Block, ...]:
    """Leave out records beyond the declared number: the constants hold for no more."""
    found, room = [], at_most
    for features, outcomes in blocks:
        if room > 0:
            found.append((features[:room], outcomes[:room]))
        room -= len(outcomes)
    return tuple(found)


def finest(problem: LinearProblem, regularisation: float, longest: float) -> float:
    """Return the least distance from the minimum that `regularised` can certify in doubles, for every dataset."""
    return 6 * _slope_error(problem, regularisation, longest) / regularisation


def _slope_error(problem: LinearProblem, regularisation: float, longest: float) -> float:
    """Bound the error e of a computed gradient of the objective, within twice the reach of its minimum.

    It is that of the sum of losses, and eight roundings of numbers no larger than the terms of a gradient, or than a
    point times the smoothness: those of a step are among them.
    """
    from vestry.losses.rounding import gradient_error

    radius = 2 * reach_of(problem, regularisation, longest)
    error = gradient_error(
        problem.loss,
        rows=problem.at_most,
        features=problem.features,
        norm=problem.norm,
        radius=radius,
        outcome=problem.outcome,
    )
    terms = problem.at_most * problem.lipschitz + longest + _curvature(problem, regularisation) * radius
    return error + 8 * 2.0**-53 * terms


def _curvature(problem: LinearProblem, regularisation: float) -> float:
    """Return the smoothness of the objective."""
    return problem.at_most * problem.smoothness + regularisation


def reach_of(problem: LinearProblem, regularisation: float, longest: float) -> float:
    """Bound the norm of the minimum: (lam/2)|theta|^2 - |b||theta| is at most the sum of losses at 0.

    Also by the gradient there: |theta| <= (n L + |b|)/lam.
    """
    steep = (problem.at_most * problem.lipschitz + longest) / regularisation
    ratio = longest / regularisation
    return min(steep, ratio + math.sqrt(ratio * ratio + 2 * problem.most / regularisation))


def iterations_for(problem: LinearProblem, regularisation: float, tolerance: float, longest: float = 0.0) -> int:
    """Return how many gradients bring the gradient to at most lam * tolerance/2, for every dataset; or refuse."""
    from vestry.mechanisms.minimise import iterations

    curvature = _curvature(problem, regularisation)
    return iterations(
        strong_convexity=regularisation,
        smoothness=curvature,
        reach=reach_of(problem, regularisation, longest),
        tolerance=tolerance / 2 * regularisation / curvature,
    )


def regularised(
    problem: LinearProblem,
    blocks: Sequence[Block],
    regularisation: float,
    linear: np.ndarray,
    tolerance: float,
    *,
    longest: float = 0.0,
    device: str = "auto",
) -> np.ndarray:
    """Return a point within `tolerance` of the minimum of sum l + (lam/2)|theta|^2 + b . theta, |b| <= longest.

    The tolerance is at least `finest`: 6 e/lam, if computed gradients are within e of the exact ones.

    Proof. Let g be the gradient at the point, and g^ the computed one. It is checked that |g^| <= (2/3) lam tolerance,
    so |g| <= (2/3 + 1/6) lam tolerance, and the objective is lam-strongly convex. The number of steps, which public
    constants fix, makes |g| <= lam tolerance/2 but for rounding on the way, so the check passes; that rounding is not
    amplified was seen and not proved. Were it, plain steps of 1/M from 0 follow: each lowers the objective by at least
    (|g|^2 - e^2)/(2 M), so that |g| < 2 e, hence |g^| < 3 e, is reached.
    """
    from vestry.losses.gradient import gradient
    from vestry.mechanisms.minimise import minimise

    losses = gradient(problem.loss, blocks, device=device)
    curvature = _curvature(problem, regularisation)

    def slope(theta: np.ndarray) -> np.ndarray:
        return np.asarray(np.ravel(losses(theta)) + regularisation * theta + linear)

    def length(theta: np.ndarray) -> float:
        return float(np.linalg.norm(slope(theta)))

    enough, farthest = 2 / 3 * regularisation * tolerance, 2 * reach_of(problem, regularisation, longest)
    start = np.zeros(problem.dimension)
    count = iterations_for(problem, regularisation, tolerance, longest)
    theta = minimise(slope, start, strong_convexity=regularisation, smoothness=curvature, count=count)
    if np.linalg.norm(theta) <= farthest and length(theta) <= enough:
        return theta
    while length(start) > enough:
        start = start - slope(start) / curvature
    return start
