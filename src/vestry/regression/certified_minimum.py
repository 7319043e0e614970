"""The minimum of a regularised sum of losses, within a distance that is proved for every dataset.

It is approached one record at a time (`sdca`) or by full gradients (`accelerated_descent`), whichever should be quicker
by public numbers; every record is read as often as public constants say. Then the gradient at the point is computed,
with an error that is bounded: it proves how far the minimum can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vestry.errors import GuaranteeUnreachable
from vestry.regression import accelerated_descent, sdca
from vestry.regression.cpu import cores
from vestry.regression.gradient import gradient, has_gpu
from vestry.regression.problem import LinearProblem
from vestry.regression.rounding_error import gradient_error
from vestry.regression.sdca_rows import Rows
from vestry.schema.private import Block

# What an update costs beyond twice its numbers, and a row of a full gradient beyond its own: in numbers of a gradient.
_UPDATE, _ROW = 280, 11
Losses = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RidgeObjective:
    """sum l + (lam/2)|theta|^2 + b . theta, |b| <= longest: constants that hold for every dataset, and its minimum.

    Attributes
    ----------
    problem, regularisation
        The losses, and lam.
    longest
        A bound on the norm of the linear term.
    """

    problem: LinearProblem
    regularisation: float
    longest: float = 0.0

    @property
    def curvature(self) -> float:
        """Its smoothness."""
        return self.problem.max_rows * self.problem.smoothness + self.regularisation

    @property
    def reach(self) -> float:
        """A bound on the norm of the minimum: (lam/2)|theta|^2 - |b||theta| is at most the sum of losses at 0.

        Also by the gradient there: |theta| <= (n L + |b|)/lam.
        """
        steep = (self.problem.max_rows * self.problem.lipschitz + self.longest) / self.regularisation
        ratio = self.longest / self.regularisation
        return min(steep, ratio + math.sqrt(ratio * ratio + 2 * self.problem.most / self.regularisation))

    @property
    def finest(self) -> float:
        """The least distance from the minimum that `minimum` can certify in doubles: 6 e/lam.

        e bounds the error of a computed gradient within twice the reach. It is that of the sum of losses, and eight
        roundings of numbers no larger than the terms of a gradient, or than a point times the smoothness: those of a
        step are among them.
        """
        p, radius = self.problem, 2 * self.reach
        error = gradient_error(
            p.loss, rows=p.max_rows, features=p.features, norm=p.norm, radius=radius, outcome=p.outcome
        )
        terms = p.max_rows * p.lipschitz + self.longest + self.curvature * radius
        return 6 * (error + 8 * 2.0**-53 * terms) / self.regularisation

    def _near(self, tolerance: float) -> float:
        """Return how near to the minimum the gradient is at most lam * tolerance/2."""
        return tolerance / 2 * self.regularisation / self.curvature

    def iterations(self, tolerance: float) -> int:
        """Return how many gradients bring the gradient to at most lam * tolerance/2; or refuse."""
        return accelerated_descent.iterations(
            strong_convexity=self.regularisation,
            smoothness=self.curvature,
            reach=self.reach,
            tolerance=self._near(tolerance),
        )

    def readings(self, tolerance: float) -> float:
        """Return how many updates per record do so, except once in `sdca.SELDOM` runs."""
        return sdca.readings(
            smoothness=self.problem.smoothness,
            regularisation=self.regularisation,
            most=self.problem.most,
            longest=self.longest,
            near=self._near(tolerance),
        )

    def one_by_one(self, tolerance: float, device: str = "auto") -> bool:
        """Say whether updates of single records should be quicker than full gradients: by public numbers alone."""
        on_processor = device == "cpu" or (device == "auto" and not has_gpu())
        if self.problem.loss.predictors > 1 or not on_processor:
            return False
        single = self.readings(tolerance) * (2 * self.problem.features + _UPDATE)
        full = self.iterations(tolerance) * (self.problem.features + _ROW)
        return single < full / cores()

    def minimum(
        self,
        blocks: Sequence[Block],
        linear: np.ndarray,
        tolerance: float,
        *,
        stream: np.random.Generator,
        device: str = "auto",
    ) -> np.ndarray:
        """Return a point within `tolerance`, which is at least `finest`, of the minimum.

        The stream picks records: where within the tolerance the point is depends on them, and nothing else.

        Proof. Let g be the gradient at the point, g^ the computed one, and e as in `finest`, so that |g - g^| <= e. It
        is checked that |g^| <= (2/3) lam tolerance, so |g| <= (2/3 + 1/6) lam tolerance, and the objective is
        lam-strongly convex. The number of steps, or of updates per record, which public constants fix, makes |g| <= lam
        tolerance/2 except for rounding on the way, and except once in 1e9 runs of updates, so the check passes; that
        rounding is not amplified was seen and not proved. If it does not, steps by full gradients follow the updates,
        and plain steps of 1/M from 0 follow those: each lowers the objective by at least (|g|^2 - e^2)/(2 M), so that
        |g| < 2 e, hence |g^| < 3 e, is reached.
        """
        if tolerance < self.finest * (1 - 1e-9):
            raise GuaranteeUnreachable(
                f"a minimum to {tolerance:g}", "rounding alone may be more; ask for `finest` or more"
            )
        problem, lam, curvature = self.problem, self.regularisation, self.curvature
        enough, farthest = 2 / 3 * lam * tolerance, 2 * self.reach

        def slope(losses: Losses, theta: np.ndarray) -> np.ndarray:
            return np.asarray(np.ravel(losses(theta)) + lam * theta + linear)

        def proves(losses: Losses, theta: np.ndarray) -> bool:
            return bool(np.linalg.norm(theta) <= farthest and np.linalg.norm(slope(losses, theta)) <= enough)

        if self.one_by_one(tolerance, device):
            rows, times = Rows(problem.loss, blocks), self.readings(tolerance)
            constants = {"smoothness": problem.smoothness, "regularisation": lam, "times": times}
            theta = sdca.ascend(rows, linear, stream, **constants)
            if proves(rows.gradient, theta):
                return theta
        losses, start = gradient(problem.loss, blocks, device=device), np.zeros(problem.dimension)
        theta = accelerated_descent.minimise(
            lambda point: slope(losses, point),
            start,
            strong_convexity=lam,
            smoothness=curvature,
            count=self.iterations(tolerance),
        )
        if not proves(losses, theta):
            theta = start
        while not proves(losses, theta):
            theta = theta - slope(losses, theta) / curvature
            if not np.isfinite(theta).all():
                raise ArithmeticError("a minimum of losses that are not numbers")
        return theta
