"""The minimum of a regularised sum of losses, within a distance that is proved for every dataset.

It is approached one record at a time (`ascent`) or by full gradients (`minimise`), whichever public numbers let expect
to be quicker; every record is read as often as public constants say. Then the gradient at the point is computed, with
an error that is bounded: it proves how far the minimum can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from vestry.errors import GuaranteeUnreachable
from vestry.regression import accelerated_descent, sdca
from vestry.regression.cpu import cores
from vestry.regression.gradient import gradient, has_gpu
from vestry.regression.problem import LinearProblem
from vestry.regression.rounding_error import gradient_error
from vestry.regression.sdca_rows import Rows
from vestry.schema.private import Block


def finest(problem: LinearProblem, regularisation: float, longest: float) -> float:
    """Return the least distance from the minimum that `regularised` can certify in doubles, for every dataset."""
    return 6 * _slope_error(problem, regularisation, longest) / regularisation


def _slope_error(problem: LinearProblem, regularisation: float, longest: float) -> float:
    """Bound the error e of a computed gradient of the objective, within twice the reach of its minimum.

    It is that of the sum of losses, and eight roundings of numbers no larger than the terms of a gradient, or than a
    point times the smoothness: those of a step are among them.
    """
    radius = 2 * reach_of(problem, regularisation, longest)
    error = gradient_error(
        problem.loss,
        rows=problem.max_rows,
        features=problem.features,
        norm=problem.norm,
        radius=radius,
        outcome=problem.outcome,
    )
    terms = problem.max_rows * problem.lipschitz + longest + _curvature(problem, regularisation) * radius
    return error + 8 * 2.0**-53 * terms


def _curvature(problem: LinearProblem, regularisation: float) -> float:
    """Return the smoothness of the objective."""
    return problem.max_rows * problem.smoothness + regularisation


def reach_of(problem: LinearProblem, regularisation: float, longest: float) -> float:
    """Bound the norm of the minimum: (lam/2)|theta|^2 - |b||theta| is at most the sum of losses at 0.

    Also by the gradient there: |theta| <= (n L + |b|)/lam.
    """
    steep = (problem.max_rows * problem.lipschitz + longest) / regularisation
    ratio = longest / regularisation
    return min(steep, ratio + math.sqrt(ratio * ratio + 2 * problem.most / regularisation))


def _near(regularisation: float, curvature: float, tolerance: float) -> float:
    """Return how near to the minimum the gradient is at most lam * tolerance/2."""
    return tolerance / 2 * regularisation / curvature


def iterations_for(problem: LinearProblem, regularisation: float, tolerance: float, longest: float = 0.0) -> int:
    """Return how many gradients bring the gradient to at most lam * tolerance/2, for every dataset; or refuse."""
    curvature = _curvature(problem, regularisation)
    return accelerated_descent.iterations(
        strong_convexity=regularisation,
        smoothness=curvature,
        reach=reach_of(problem, regularisation, longest),
        tolerance=_near(regularisation, curvature, tolerance),
    )


def readings_for(problem: LinearProblem, regularisation: float, tolerance: float, longest: float = 0.0) -> float:
    """Return how many updates a record do so, but once in `ascent.SELDOM` runs."""
    return sdca.readings(
        smoothness=problem.smoothness,
        regularisation=regularisation,
        most=problem.most,
        longest=longest,
        near=_near(regularisation, _curvature(problem, regularisation), tolerance),
    )


Losses = Callable[[np.ndarray], np.ndarray]


def regularised(
    problem: LinearProblem,
    blocks: Sequence[Block],
    regularisation: float,
    linear: np.ndarray,
    tolerance: float,
    *,
    stream: np.random.Generator,
    longest: float = 0.0,
    device: str = "auto",
) -> np.ndarray:
    """Return a point within `tolerance` of the minimum of sum l + (lam/2)|theta|^2 + b . theta, |b| <= longest.

    The tolerance is at least `finest`: 6 e/lam, if computed gradients are within e of the exact ones. The stream picks
    records: where within the tolerance the point is depends on them, and nothing else.

    Proof. Let g be the gradient at the point, and g^ the computed one. It is checked that |g^| <= (2/3) lam tolerance,
    so |g| <= (2/3 + 1/6) lam tolerance, and the objective is lam-strongly convex. The number of steps, or of updates a
    record, which public constants fix, makes |g| <= lam tolerance/2 but for rounding on the way, and but once in 1e9
    runs of updates, so the check passes; that rounding is not amplified was seen and not proved. If it does not, steps
    by full gradients follow the updates, and plain steps of 1/M from 0 follow those: each lowers the objective by at
    least (|g|^2 - e^2)/(2 M), so that |g| < 2 e, hence |g^| < 3 e, is reached.
    """
    if tolerance < finest(problem, regularisation, longest) * (1 - 1e-9):
        raise GuaranteeUnreachable(
            f"a minimum to {tolerance:g}", "rounding alone may be more; ask for `finest` or more"
        )
    enough, farthest = 2 / 3 * regularisation * tolerance, 2 * reach_of(problem, regularisation, longest)
    constants = problem, regularisation, tolerance, longest

    def slope(losses: Losses, theta: np.ndarray) -> np.ndarray:
        return np.asarray(np.ravel(losses(theta)) + regularisation * theta + linear)

    def proved(losses: Losses, theta: np.ndarray) -> bool:
        return bool(np.linalg.norm(theta) <= farthest and np.linalg.norm(slope(losses, theta)) <= enough)

    if one_by_one(*constants, device=device):
        rows = Rows(problem.loss, blocks)
        theta = sdca.ascend(
            rows,
            linear,
            stream,
            smoothness=problem.smoothness,
            regularisation=regularisation,
            times=readings_for(*constants),
        )
        if proved(rows.gradient, theta):
            return theta
    losses, curvature = gradient(problem.loss, blocks, device=device), _curvature(problem, regularisation)
    theta = accelerated_descent.minimise(
        lambda point: slope(losses, point),
        np.zeros(problem.dimension),
        strong_convexity=regularisation,
        smoothness=curvature,
        count=iterations_for(*constants),
    )
    if proved(losses, theta):
        return theta
    theta = np.zeros(problem.dimension)
    while not proved(losses, theta):
        theta = theta - slope(losses, theta) / curvature
        if not np.isfinite(theta).all():
            raise ArithmeticError("a minimum of losses that are no numbers")
    return theta


# What an update costs beyond twice its numbers, and a row of a full gradient beyond its own: in numbers of a gradient.
_UPDATE, _ROW = 280, 11


def one_by_one(
    problem: LinearProblem, regularisation: float, tolerance: float, longest: float = 0.0, *, device: str = "auto"
) -> bool:
    """Say whether updates of single records should be quicker than full gradients: by public numbers alone."""
    on_processor = device == "cpu" or (device == "auto" and not has_gpu())
    if problem.loss.predictors > 1 or not on_processor:
        return False
    single = readings_for(problem, regularisation, tolerance, longest) * (2 * problem.features + _UPDATE)
    full = iterations_for(problem, regularisation, tolerance, longest) * (problem.features + _ROW)
    return single < full / cores()
