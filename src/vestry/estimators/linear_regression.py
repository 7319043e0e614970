"""Private robust linear regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

import vestry.estimators.input_checks as checks
from vestry.errors import InvalidParameter
from vestry.estimators.bounds import interval, scale_of
from vestry.estimators.estimator import FittedCoefficients, PrivateEstimator
from vestry.estimators.fit_plan import feature_names
from vestry.estimators.moment_fit import plan_moments
from vestry.estimators.private_fit import warn_uncharged
from vestry.ledger import Ledger
from vestry.posterior import Posterior
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.registry import LOSSES
from vestry.regression.loss import Loss
from vestry.regression.losses import robust_losses
from vestry.regression.method import POSTERIOR
from vestry.regression.moment_model import MOMENTS
from vestry.regression.residual_scale import check_residual_sd, with_residual_scale
from vestry.releases import Release
from vestry.validation import require_choice, require_number, require_whole

# The threshold where none is declared, as a share of the outcome's reach.
_SHARE = 0.25
# What belongs to methods over rows, and what it is where it is not said.
_OF_ROWS = {"draws": 1, "regularisation": None, "threshold": None, "residual_sd": None, "loss": "huber"}


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear regression by a robust loss, whose coefficients may be published.

    A residual beyond the threshold weighs no more than the threshold, which bounds what one row can do. `fit` is one
    release: it is charged to the ledger before the rows are read. Bounds are declared, never learnt; an outcome beyond
    its bounds is clipped, one that is not a finite number becomes their middle, and no value is ever an error.

    Parameters
    ----------
    guarantee, method, bounds, radius, ledger, neighbours, max_rows, fit_intercept, draws, accuracy, analysis, device
        See `PrivateLogisticRegression`. Objective perturbation holds here too. And `moments`: noisy sums of all
        products of the columns, from which follow least squares with intervals, without a loss or a radius.
    outcome_bounds
        (low, high), declared: outcomes are scaled to [-1, 1]. Without an intercept they are divided by the farther end,
        and not moved.
    loss
        `huber`, `pseudo-huber`, or another that is registered and has a threshold.
    threshold
        In units of the outcome. None: twice `residual_sd`; without it an eighth of the interval of its bounds, or a
        quarter of the farther end without an intercept.
    residual_sd
        For the posterior: the standard deviation of the residuals, in units of the outcome, known or from another
        release. Draws are then from the posterior of normal residuals, tempered as the guarantee needs it. None: their
        spread has no scale.
    expected_rows
        For moments under add-remove: about how many rows there are, as you would say without looking. A fit that is
        expected to have no answer with so many is refused before it is charged. None: one that is expected to have no
        answer with `max_rows`, where that is given, or any smaller number. Under replace the number of rows is used.
    prior_precision
        For the posterior and for moments, on scaled features and outcomes. None: 1 for moments; for the posterior the
        number of coefficients, so that the prior expects |theta|^2 = 1, where scaled outcomes are at most 1 in size; or
        n beta/10,000.
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
    posterior_
        For moments: the posterior, with intervals of coefficients, residual sd and R squared. Where the noise hides so
        much that none can be computed, `posterior_`, `coef_` and `predict` raise `NotFittedError` with the reason, and
        the release is in `release_`.

    Notes
    -----
    Privacy: as `PrivateLogisticRegression`, with the slope of the loss its threshold.
    """

    _: KW_ONLY
    outcome_bounds: Any = None
    loss: str = "huber"
    threshold: float | None = None
    residual_sd: float | None = None
    expected_rows: int | None = None

    _family = "linear"

    def _outcome(self, y: np.ndarray) -> tuple[Loss, dict[str, Any], Callable[[], np.ndarray]]:
        middle, reach, stand_in = self._scale()
        require_choice("loss", self.loss, robust_losses(), 'loss="huber"')
        threshold, residual_sd = None, None
        if self.threshold is not None:
            threshold = require_number("threshold", self.threshold, "threshold=1.0", above=0) / reach
        if self.residual_sd is not None:
            residual_sd = check_residual_sd(
                self.residual_sd, reach=reach, method=self.method, sampling_method=POSTERIOR
            )
        loss = with_residual_scale(LOSSES[self.loss], threshold=threshold, residual_sd=residual_sd, usual=_SHARE)

        def encode() -> np.ndarray:
            values = checks.numbers(y)
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = np.clip((values - middle) / reach, -1.0, 1.0)
            scaled[np.isnan(values)] = stand_in
            return np.asarray(scaled)

        return loss, {"classes": [], "outcome": [middle, reach]}, encode

    def _scale(self) -> tuple[float, float, float]:
        """Return the outcome's middle and reach, and what a missing one becomes after scaling."""
        low, high = interval("outcome_bounds", self.outcome_bounds, "for example outcome_bounds=(0, 30)")
        middle, reach, stand_in = scale_of(low, high, intercept=bool(self.fit_intercept))
        return middle, float(reach), float(stand_in)

    def _plan(self, rows: np.ndarray, y: np.ndarray, names: np.ndarray | None, ledger: Ledger | None) -> Any:
        if self.method != MOMENTS:
            if self.expected_rows is not None:
                allowed = f"omitted except for the method {MOMENTS}"
                raise InvalidParameter("expected_rows", self.expected_rows, allowed, f'method="{MOMENTS}"')
            return super()._plan(rows, y, names, ledger)
        for name, usual in _OF_ROWS.items():
            if getattr(self, name) != usual:
                raise InvalidParameter(name, getattr(self, name), f"omitted for the method {MOMENTS}", f"no {name}")
        encoder, neighbours, guarantee = self._declared(rows.shape[1], ledger)
        count = len(rows) if neighbours is Neighbours.REPLACE else None
        middle, reach, _ = self._scale()
        plan = plan_moments(
            encoder,
            feature_names(names, rows.shape[1]),
            (middle, reach),
            self._outcome(y)[2],
            Adjacency(neighbours, 1, count),
            guarantee,
            prior_precision=self.prior_precision,
        )
        if count is not None:
            plan.require_answer(count, "with this many rows")
        elif self.expected_rows is not None:
            expected = require_whole("expected_rows", self.expected_rows, "expected_rows=10_000")
            plan.require_answer(expected, f"with {expected:,} rows, as expected,")
        elif self.max_rows is not None:
            # More rows make the noise smaller beside the Gram matrix: what has no answer here has none with fewer.
            most = require_whole("max_rows", self.max_rows, "max_rows=100_000")
            plan.require_answer(most, f"with at most {most:,} rows")
        return plan

    def _read(self, plan: Any, release: Release) -> Any:
        self._middle, self._reach, _ = self._scale()
        if self.method != MOMENTS:
            released = super()._read(plan, release)
            return replace(released, coefficients=released.coefficients[:, 0], intercepts=released.intercepts[:, 0])
        posterior = Posterior.from_release(release)
        means = np.array([row["mean"] for row in posterior.rows()])
        # After the intercept come the residual sd and R squared.
        return FittedCoefficients(posterior, coefficients=means[None, :-3], intercepts=means[None, -3])

    def to_arviz(self) -> Any:
        """Return draws as an ArviZ tree, without data: those released, or for moments draws from the posterior."""
        return self.posterior_.to_arviz() if self.method == MOMENTS else super().to_arviz()

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: N803
        """Return the expected outcome of each row, averaged over the draws that were bought.

        For moments `return_std` adds the standard deviation of a new outcome there: coefficients and residual.
        """
        if self.method == MOMENTS:
            return self._predict_moments(X, return_std=return_std)
        if return_std:
            raise InvalidParameter("return_std", True, f"False except for the method {MOMENTS}", f'method="{MOMENTS}"')
        eta = self._predictors(X)[:, 0].mean(axis=0)
        return np.asarray(self._middle + self._reach * eta)

    def _predict_moments(self, X: Any, *, return_std: bool) -> Any:  # noqa: N803
        rows = self._known_rows(X)
        z = np.roll(self._encoder.encode(rows), 1, axis=1)  # the intercept first
        distribution: Any = self.posterior_.distributions["all"]
        mixture = distribution.mixture
        fitted = z @ mixture.means.T
        mean = fitted @ mixture.weights
        expected = np.asarray(self._middle + self._reach * mean)
        if not return_std:
            return expected
        inside = np.einsum("ri,nij,rj->rn", z, mixture.covariances, z) + mixture.sigma**2
        variance = (inside + (fitted - mean[:, None]) ** 2) @ mixture.weights
        return expected, np.asarray(self._reach * np.sqrt(variance))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return R^2. On private rows this is a release that no ledger is charged for, as cross-validation is.

        Use public rows, or rows whose score you pay for in another way. With a ledger, the first score of a process
        warns (`vestry.errors.UnpaidRelease`).
        """
        warn_uncharged(self.ledger)
        return float(super().score(X, y, sample_weight))
