"""The minimum of a regularised sum of losses, within a distance that is proved for every dataset.

It is approached by Newton's method (`newton`), one record at a time (`sdca`) or by full gradients
(`accelerated_descent`), whichever should be quickest by public numbers; every record is read as often as public
constants say. Then the gradient at the point is computed, with an error that is bounded: it proves how far the minimum
can be. Records that stay on other machines are approached by Newton's method alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vestry.errors import GuaranteeUnreachable
from vestry.regression import accelerated_descent, newton, sdca
from vestry.regression.cpu import cores
from vestry.regression.gradient import gradient, has_gpu
from vestry.regression.newton_sums import RowPasses
from vestry.regression.problem import LinearProblem
from vestry.regression.rounding_error import gradient_error
from vestry.regression.sdca_rows import Rows
from vestry.schema.private import Block, RemoteRows

NEWTON, ONE_BY_ONE, GRADIENTS = "newton", "one by one", "gradients"
# Of so many features records that stay elsewhere send a Hessian.
FEW = 100
# What an update costs beyond twice its numbers, and a row of a full gradient beyond its own; what a row of a Newton
# pass costs, with each of its products and of its numbers: in numbers of a gradient.
_UPDATE, _ROW = 280, 11
_PASS, _PRODUCT, _NUMBER = 65, 0.06, 2.7
# Beyond this condition the Hessian's products are in doubles.
_SINGLE = 1e6
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

    @property
    def single(self) -> bool:
        """Whether the Hessian's products are in single precision: where its condition is moderate."""
        return self.curvature <= _SINGLE * self.regularisation

    @property
    def sends_hessian(self) -> bool:
        """Whether records that stay elsewhere can be summed by Newton's method: few features, one predictor."""
        return self.problem.loss.predictors == 1 and self.problem.features <= FEW

    def way(self, tolerance: float, device: str = "auto") -> str:
        """Return which method should be quickest for rows in memory: by public numbers alone."""
        on_processor = device == "cpu" or (device == "auto" and not has_gpu())
        if self.problem.loss.predictors > 1 or not on_processor:
            return GRADIENTS
        d = self.problem.features
        costs = {
            NEWTON: newton.PASSES * (_PRODUCT * d * d + _NUMBER * d + _PASS),
            ONE_BY_ONE: self.readings(tolerance) * (2 * d + _UPDATE),
            GRADIENTS: self.iterations(tolerance) * (d + _ROW) / cores(),
        }
        return min(costs, key=costs.__getitem__)

    def minimum(
        self,
        rows: Sequence[Block] | RemoteRows,
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
        lam-strongly convex. How often the check is made, and after how many passes, is public. The number of gradients
        or of updates per record, which public constants fix, makes |g| <= lam tolerance/2 except for rounding on the
        way, and except once in 1e9 runs of updates, so the check passes; that rounding is not amplified was seen and
        not proved. That Newton's passes do is not proved for every dataset. If the check fails, more of them, or steps
        by full gradients, follow; plain steps of 1/M from 0 follow those: each lowers the objective by at least
        (|g|^2 - e^2)/(2 M), so that |g| < 2 e, hence |g^| < 3 e, is reached. So a point that passes is returned always,
        and nothing is refused here for what the records are: the longer run is as private.
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

        if isinstance(rows, RemoteRows) or self.way(tolerance, device) == NEWTON:
            passes = RowPasses(problem.loss, rows, features=problem.features, single=self.single)
            search = newton.NewtonSearch(passes.newton, linear, regularisation=lam)
            for count in newton.ROUNDS:
                theta = search.walk(count)
                if proves(passes.gradient, theta):
                    return theta
            losses: Losses = passes.gradient
        else:
            if self.way(tolerance, device) == ONE_BY_ONE:
                one_by_one, times = Rows(problem.loss, rows), self.readings(tolerance)
                constants = {"smoothness": problem.smoothness, "regularisation": lam, "times": times}
                theta = sdca.ascend(one_by_one, linear, stream, **constants)
                if proves(one_by_one.gradient, theta):
                    return theta
            losses = gradient(problem.loss, rows, device=device)
        start = np.zeros(problem.dimension)
        theta = accelerated_descent.minimise(
            lambda point: slope(losses, point),
            start,
            strong_convexity=lam,
            smoothness=curvature,
            count=self.iterations(tolerance),
        )
        if proves(losses, theta):
            return theta
        theta = start
        while not proves(losses, theta):
            theta = theta - slope(losses, theta) / curvature
            if not np.isfinite(theta).all():
                raise ArithmeticError("a minimum of losses that are not numbers")
        return theta
