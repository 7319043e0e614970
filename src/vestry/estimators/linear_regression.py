"""Private robust linear regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

import vestry.estimators.input_checks as checks
from vestry.errors import InvalidParameter
from vestry.estimators.bounds import interval
from vestry.estimators.estimator import REQUIRED, PrivateEstimator, warn_uncharged
from vestry.regression.loss import positive
from vestry.regression.losses import Huber, Loss, PseudoHuber
from vestry.regression.method import POSTERIOR

LOSSES: dict[str, type[Huber | PseudoHuber]] = {"huber": Huber, "pseudo-huber": PseudoHuber}
# The threshold where none is declared, as a share of the outcome's reach.
_SHARE = 0.25


class PrivateLinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear regression by a robust loss, whose coefficients may be published.

    A residual beyond the threshold weighs no more than the threshold, which bounds what one row can do. `fit` is one
    release: it is charged to the ledger before the rows are read. Bounds are declared, never learnt; an outcome beyond
    its bounds is clipped, one that is no finite number becomes their middle, and no value is ever an error.

    Parameters
    ----------
    guarantee, method, bounds, radius, ledger, neighbours, at_most, fit_intercept, draws, accuracy, analysis, device
        See `PrivateLogisticRegression`. Objective perturbation holds here too.
    outcome_bounds
        (low, high), declared: outcomes are scaled to [-1, 1]. Without an intercept they are divided by the farther end,
        and not moved.
    loss
        `huber` or `pseudo-huber`.
    threshold
        In units of the outcome. None: an eighth of the interval of its bounds, or a quarter of the farther end without
        an intercept.
    prior_precision
        For the posterior, on scaled features and outcomes. None: the number of coefficients, so that the prior expects
        |theta|^2 = 1, where scaled outcomes are at most 1 in size; or n beta/10,000.
    regularisation
        For the other two: lam, of the sum of losses, on scaled features and outcomes. None, with beta = norm^2: for
        objective perturbation beta/(e^(epsilon/4k) - 1), by which the Jacobian takes a quarter of epsilon (k = 1 under
        add-remove, 2 under replace); for output perturbation so much that the noise moves a linear predictor by at most
        1/25 of the outcome's reach, as a standard deviation. At least n beta/10,000. See
        `vestry.regression.default_penalty`.

    Attributes
    ----------
    coef_, intercept_
        (features,) and a number, in the units of X and y: the mean of the draws.
    coefficients_, intercepts_, certificate_, release_, spent_
        See `PrivateLogisticRegression`.

    Notes
    -----
    Privacy: as `PrivateLogisticRegression`, with the slope of the loss its threshold.
    """

    _family = "linear"

    def __init__(
        self,
        guarantee: Any = None,
        *,
        method: str = POSTERIOR,
        bounds: Any = None,
        radius: Any = None,
        outcome_bounds: Any = None,
        loss: str = "huber",
        threshold: float | None = None,
        ledger: Any = REQUIRED,
        neighbours: Any = None,
        at_most: Any = None,
        fit_intercept: bool = True,
        prior_precision: float | None = None,
        regularisation: float | None = None,
        draws: int = 1,
        accuracy: float = 0.05,
        analysis: str = "auto",
        device: str = "auto",
    ) -> None:
        self.guarantee, self.method, self.bounds, self.radius = guarantee, method, bounds, radius
        self.outcome_bounds, self.loss, self.threshold = outcome_bounds, loss, threshold
        self.ledger, self.neighbours, self.at_most, self.fit_intercept = ledger, neighbours, at_most, fit_intercept
        self.prior_precision, self.regularisation, self.draws = prior_precision, regularisation, draws
        self.accuracy, self.analysis, self.device = accuracy, analysis, device

    def _outcome(self, y: np.ndarray) -> tuple[Loss, dict[str, Any], Callable[[], np.ndarray]]:
        middle, reach, stand_in = self._scale()
        if self.loss not in LOSSES:
            raise InvalidParameter("loss", self.loss, "one of " + ", ".join(LOSSES), 'loss="huber"')
        threshold = _SHARE
        if self.threshold is not None:
            threshold = positive("threshold", self.threshold, "threshold=1.0") / reach

        def encode() -> np.ndarray:
            values = checks.numbers(y)
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = np.clip((values - middle) / reach, -1.0, 1.0)
            scaled[np.isnan(values)] = stand_in
            return np.asarray(scaled)

        return LOSSES[self.loss](threshold), {"classes": [], "outcome": [middle, reach]}, encode

    def _scale(self) -> tuple[float, float, float]:
        """Return the outcome's middle and reach, and what a missing one becomes after scaling."""
        low, high = interval("outcome_bounds", self.outcome_bounds, "for example outcome_bounds=(0, 30)")
        centre = low / 2 + high / 2
        if self.fit_intercept:
            return centre, high / 2 - low / 2, 0.0
        reach = max(abs(low), abs(high))
        return 0.0, reach, centre / reach

    def _read(self, weights: np.ndarray, intercepts: np.ndarray) -> None:
        self._middle, self._reach, _ = self._scale()
        self.coefficients_ = self._reach * weights[:, 0]
        self.intercepts_ = self._middle + self._reach * intercepts[:, 0]
        self.coef_, self.intercept_ = self.coefficients_.mean(axis=0), float(self.intercepts_.mean())

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the expected outcome of each row, averaged over the draws that were bought."""
        eta = self._predictors(X)[:, 0].mean(axis=0)
        return np.asarray(self._middle + self._reach * eta)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return R^2. On private rows this is a release that no ledger is charged for, as cross-validation is.

        Use public rows, or rows whose score you pay for in another way. With a ledger, the first score of a process
        warns (`vestry.errors.UnpaidRelease`).
        """
        warn_uncharged(self.ledger)
        return float(super().score(X, y, sample_weight))
