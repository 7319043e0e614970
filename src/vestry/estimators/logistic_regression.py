"""Private logistic regression, of two classes or of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp

from vestry.errors import InvalidParameter
from vestry.estimators.binned_fit import plan_table, read_bins
from vestry.estimators.declared_classes import PrivateClassifier, check_classes, class_coding, log_odds
from vestry.estimators.estimator import FittedCoefficients, PrivateEstimator
from vestry.estimators.fit_plan import feature_names
from vestry.ledger import Ledger
from vestry.posterior import Posterior
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.regression.loss import Loss
from vestry.regression.losses import Logistic, Multinomial
from vestry.regression.table_model import TABLE
from vestry.releases import Release


@dataclass(frozen=True, eq=False)
class FittedTable(FittedCoefficients):
    """A regression by table.

    Attributes
    ----------
    chances
        The probability of each class in each cell of the features' bins.
    """

    chances: np.ndarray


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(PrivateClassifier, PrivateEstimator):
    """Logistic regression whose coefficients may be published.

    `fit` is one release: it is charged to the ledger before the rows are read. Bounds and classes are declared, never
    learnt. A label that is not declared counts as the first declared class, and no value is ever an error.

    Parameters
    ----------
    guarantee
        What one fit may cost: a guarantee, or text such as "epsilon=1,delta=1e-6".
    method
        `posterior`: draws from the posterior, by a chain whose privacy is certified. `objective`: one estimate by
        objective perturbation, of two classes only; the best at small epsilon. `output`: one estimate by output
        perturbation. `table`: noisy counts of the classes in every cell of the features' bins, from which intervals
        follow; it needs `bins`, and no bounds.
    bounds
        (low, high), with numbers or one for each feature: features are clipped, and scaled to [-1, 1]. Or
        `Ball(radius)`: rows are clipped to that norm, and not scaled. Without an intercept features are divided by the
        farther end, and not moved.
    radius
        With (low, high): scaled rows beyond this norm are scaled down to it. Less noise, some bias.
    bins
        For table: the edges of each feature, three or more; or one list for all. A bin holds its lower edge; values
        beyond the first and the last edge are clipped, and what is not a number lies in the first bin.
    classes
        The declared classes, all text or all numbers.
    ledger
        A `Ledger` or its address. None, which must be written, means that nothing is charged: you account for the
        release elsewhere.
    neighbours
        "add-remove" or "replace"; taken from the ledger where there is one.
    max_rows
        How many rows there are at most. Under add-remove it must be declared: the number of rows is private, the
        promise covers datasets of no more rows, and further ones are omitted. Under replace the number of rows is
        public and is used.
    fit_intercept
        Whether there is an intercept.
    prior_precision
        For the posterior: 1/variance of each coefficient's normal prior, on scaled features. None: the number of
        coefficients over 20, so that the prior expects |theta|^2 = 20; or n beta/10,000, as below.
    regularisation
        For the other two: lam, of the sum of losses, on scaled features. None, with beta = norm^2/4: for objective
        perturbation beta/(e^(epsilon/4) - 1), by which the Jacobian takes a quarter of epsilon; for output perturbation
        so much that the noise moves a linear predictor by at most 1/3, as a standard deviation. At least n beta/10,000,
        n the declared number of rows, which bounds the number of steps. These rules use public numbers alone; see
        `vestry.regression.default_penalty`.
    draws
        How many draws of the posterior are bought; each costs, and `predict_proba` averages over them.
    accuracy
        For the posterior: how far the chain may be from it, relatively; see `vestry.regression.step_schedule`.
    analysis
        For objective perturbation: `auto` is the tightest that holds.
    device
        For the posterior: `cpu`, `gpu`, or `auto`.

    Attributes
    ----------
    classes_
        The declared classes, sorted.
    coef_, intercept_
        (1, features) and (1,) for two classes, (classes, features) and (classes,) for several, in the units of X: the
        mean of the draws.
        For table: the posterior means of the log odds of the classes after the first, one column for each bin after a
        feature's first.
    coefficients_, intercepts_
        Every draw, with the draw first.
    posterior_
        For table: the posterior, with intervals of coefficients, odds ratios and marginal effects.
    certificate_, release_
        What is promised, and what may be published.
    spent_
        What the fit cost.

    Notes
    -----
    Privacy, by method. posterior: [BokSA24, Thm 4.1]. objective: [RedbergKW23, Thm 1], and tighter for two classes.
    output: [ChaudhuriMS11, Lemma 7]. All for at most `max_rows` rows of the declared norm; `certificate_` states it.
    """

    _: KW_ONLY
    classes: Any = None
    bins: Any = None

    _family = "logistic"

    def _outcome(self, y: np.ndarray) -> tuple[Loss, dict[str, Any], Callable[[], np.ndarray]]:
        names, places = class_coding(self.classes, y)
        if len(names) == 2:
            described: dict[str, Any] = {"classes": [], "success": names[1], "outcome": None}
            return Logistic(), described, lambda: np.where(places() == 1, 1.0, -1.0)
        return Multinomial(len(names)), {"classes": names, "outcome": None}, places

    def _plan(self, rows: np.ndarray, y: np.ndarray, names: np.ndarray | None, ledger: Ledger | None) -> Any:
        if self.method != TABLE:
            if self.bins is not None:
                raise InvalidParameter("bins", "given", f"omitted except for the method {TABLE}", f'method="{TABLE}"')
            return super()._plan(rows, y, names, ledger)
        for name, usual in (("draws", 1), ("regularisation", None), ("radius", None), ("bounds", None)):
            if getattr(self, name) is not usual and getattr(self, name) != usual:
                raise InvalidParameter(name, "given", f"omitted for the method {TABLE}", f"no {name}")
        neighbours, guarantee = self._promised(ledger)
        classes, places = class_coding(self.classes, y)
        count = len(rows) if neighbours is Neighbours.REPLACE else None
        return plan_table(
            read_bins(self.bins, rows.shape[1]),
            feature_names(names, rows.shape[1]),
            classes,
            places,
            Adjacency(neighbours, 1, count),
            guarantee,
            prior_precision=self.prior_precision,
        )

    def _read(self, plan: Any, release: Release) -> Any:
        self.classes_ = np.array(sorted(check_classes(self.classes)))
        if self.method != TABLE:
            return super()._read(plan, release)
        posterior = Posterior.from_release(release)
        reader: Any = posterior.reader
        distribution: Any = posterior.distributions["all"]
        theta = distribution.theta
        chances = reader.outcomes_at(theta, plan.table.cells).mean(axis=0).T
        draws = theta.reshape(len(theta), -1, len(reader.features))
        return FittedTable(posterior, draws[..., :-1], draws[..., -1], chances)

    def to_arviz(self) -> Any:
        """Return draws as an ArviZ tree, without data: those released, or for table draws from the posterior."""
        return self.posterior_.to_arviz() if self.method == TABLE else super().to_arviz()

    def _dimensions(self) -> tuple[list[str], dict[str, list[Any]]]:
        named = self.classes_ if len(self.classes_) > 2 else self.classes_[1:]
        return ["class"], {"class": named.tolist()}

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return linear predictors; of several draws, those of the probabilities averaged over them."""
        if self.method == TABLE:
            return log_odds(self.predict_log_proba(X))
        eta = self._predictors(X)
        if len(eta) == 1:
            return np.asarray(eta[0, 0] if eta.shape[1] == 1 else eta[0].T)
        return log_odds(self._log_chances(eta))

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each class, averaged over the draws that were bought; for table, over all."""
        if self.method == TABLE:
            rows = self._known_rows(X)
            return np.asarray(self._known_reading().chances[cast(Any, self._encoder).cells(rows)])
        return np.asarray(np.exp(self._log_chances(self._predictors(X))))

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the log probability of each class; it is exact where the probability itself would be 0."""
        if self.method == TABLE:
            return super().predict_log_proba(X)
        return self._log_chances(self._predictors(X))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most probable class of each row."""
        score = self.decision_function(X)
        place = (score > 0).astype(int) if score.ndim == 1 else score.argmax(axis=1)
        return np.asarray(self.classes_[place])

    @staticmethod
    def _log_chances(eta: np.ndarray) -> np.ndarray:
        """Return log probabilities (n, classes), averaged over draws, from predictors (draws, predictors, n)."""
        if eta.shape[1] == 1:
            of_draws = np.concatenate([log_expit(-eta), log_expit(eta)], axis=1)
        else:
            of_draws = log_softmax(eta, axis=1)
        return np.asarray(logsumexp(of_draws, axis=0).T - np.log(len(eta)))
