"""What the private learners share: check, charge, encode, release, and read the coefficients back."""

from __future__ import annotations

import copy
import json
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

import vestry.estimators.input_checks as checks
from vestry.data.contribution_bounding import limited
from vestry.errors import InvalidParameter, UnpaidRelease
from vestry.estimators.bounds import Scaling
from vestry.ledger import Ledger, OpenCharge
from vestry.mechanisms.release import certificate, publish
from vestry.noise import SystemNoise
from vestry.numerics import up
from vestry.pipeline import charge_for
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.regression.losses import Loss
from vestry.regression.method import Regression, penalty, regression, try_out
from vestry.regression.problem import LinearProblem
from vestry.releases import Draws, Release
from vestry.schema.design_matrix import INTERCEPT
from vestry.schema.private import PrivateRows

_LEDGER = 'ledger=vestry.Ledger.open("study.ledger"), or ledger=None if the release is accounted for elsewhere'
_UNPAID = (
    "a score on private rows is a release that no ledger is charged for; score on public rows, and if these are public"
    ' write warnings.simplefilter("ignore", vestry.errors.UnpaidRelease).'
)


class Required:
    """Stands for a ledger that was not named; None is a declaration of its own."""


REQUIRED = Required  # a type, which scikit-learn's checks allow as a default and its copies leave as it is


class Unledgered:
    """The leave to draw, for a release that its maker accounts for elsewhere."""

    def take(self) -> None:
        """Use the leave: there is no ledger to ask."""


@dataclass(frozen=True)
class FitPlan:
    """All that a fit needs but the ledger's leave and the values.

    Attributes
    ----------
    scaling, mechanism
        How rows are encoded, and what is run over them.
    described, labels, precision
        As the release will name them.
    outcomes
        Returns encoded outcomes; it is called after the charge.
    """

    scaling: Scaling
    mechanism: Regression
    described: dict[str, Any]
    labels: tuple[str, ...]
    precision: float
    outcomes: Callable[[], np.ndarray]

    def collect(self, X: np.ndarray, *, row_key: str) -> PrivateRows:  # noqa: N803 - scikit-learn's name
        """Encode the rows, in single precision: what one row may be is bounded after rounding. At most `at_most`."""
        block = self.scaling.encode(X, np.float32), self.outcomes()
        return PrivateRows(limited([block], self.mechanism.problem.at_most, row_key=row_key))


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """A linear learner whose `fit` is one release. Not to be used itself."""

    guarantee: Any
    method: str
    bounds: Any
    radius: Any
    ledger: Any
    neighbours: Any
    at_most: Any
    fit_intercept: bool
    prior_precision: float | None
    regularisation: float | None
    draws: int
    accuracy: float
    analysis: str
    device: str

    # What its releases call the regression: a posterior reads them by this name.
    _family: str

    @abstractmethod
    def _outcome(self, y: np.ndarray) -> tuple[Loss, dict[str, Any], Callable[[], np.ndarray]]:
        """Check what is declared of the outcome; return the loss, its description, and how to encode y."""

    @abstractmethod
    def _read(self, weights: np.ndarray, intercepts: np.ndarray) -> None:
        """Set the fitted attributes from draws (draws, predictors, features) in the features' units."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Release the coefficients: check, charge the ledger, then read the rows. Every call is charged.

        Parameters
        ----------
        X
            Rows of numbers (n, features): an array, a list, or a data frame. Values beyond the declared bounds are
            clipped; those that are no number become the middle of their interval, or 0 in a ball.
        y
            One outcome for each row.
        """
        probe = BaseEstimator()
        features, outcomes = checks.features(X), checks.outcomes(y, type(self).__name__)
        checks.same_length(features, outcomes)
        validate_data(probe, X, skip_check_array=True)
        names = getattr(probe, "feature_names_in_", None)
        ledger = self._ledger()
        plan = self._plan(features, outcomes, names, ledger)
        release = _release(plan, features, ledger, purpose=f"{type(self).__name__} of {features.shape[1]} features")
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        for name, value in vars(probe).items():
            setattr(self, name, value)
        self._scaling = plan.scaling
        self.release_, self.certificate_ = release, release.certificate
        self.spent_ = _spent(plan.mechanism)
        content = release.contents["all"]
        values = np.array(cast(Draws, content).values)
        predictors = plan.mechanism.problem.loss.predictors
        self._theta = values.reshape(len(values), predictors, plan.scaling.features)
        self._read(*plan.scaling.restore(self._theta))
        return self

    def _ledger(self) -> Ledger | None:
        given = self.ledger
        if given is REQUIRED:
            raise InvalidParameter("ledger", "left out", "named, since a fit spends privacy", _LEDGER)
        return given if given is None or isinstance(given, Ledger) else Ledger.open(given)

    def _plan(self, rows: np.ndarray, y: np.ndarray, names: np.ndarray | None, ledger: Ledger | None) -> FitPlan:
        """Try all that can fail without touching values."""
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidParameter("fit_intercept", self.fit_intercept, "true or false", "fit_intercept=True")
        neighbours = self._neighbours(ledger)
        if self.guarantee is None:
            instead = 'guarantee="epsilon=1,delta=1e-6"'
            raise InvalidParameter("guarantee", None, "what the release may cost", instead)
        guarantee = Guarantee.parse(self.guarantee, neighbours=neighbours)
        scaling = Scaling.from_bounds(
            self.bounds, self.radius, features=rows.shape[1], intercept=bool(self.fit_intercept)
        )
        loss, described, encode = self._outcome(y)
        adjacency, at_most = self._population(neighbours, len(rows))
        problem = LinearProblem(loss, scaling.features, scaling.norm, adjacency, at_most)
        mechanism = self._mechanism(problem, guarantee)
        try_out(mechanism)
        features = [f"x{place}" for place in range(rows.shape[1])] if names is None else [str(name) for name in names]
        own = [*features, INTERCEPT] if scaling.intercept else features
        classes = described["classes"]
        labels = tuple(f"{label}: {name}" for label in classes for name in own) if classes else tuple(own)
        record = {
            "name": self._family,
            "method": self.method,
            "loss": loss.to_dict(),
            "features": own,
            **scaling.to_dict(),
            **described,
            "at_most": at_most,
            "ledger": "elsewhere" if ledger is None else ledger.terms.dataset,
        }
        return FitPlan(scaling, mechanism, record, labels, float(penalty(mechanism)), encode)

    def _neighbours(self, ledger: Ledger | None) -> Neighbours:
        if ledger is not None:
            ledger.require(unit="row", neighbours=self.neighbours)
            return ledger.terms.neighbours
        if self.neighbours is None:
            raise InvalidParameter(
                "neighbours", None, "declared where no ledger states them", 'neighbours="add-remove" or "replace"'
            )
        return Neighbours.parse(self.neighbours)

    def _population(self, neighbours: Neighbours, count: int) -> tuple[Adjacency, int]:
        """Return which neighbours are hidden, and how many rows there are at most."""
        given = self.at_most.item() if isinstance(self.at_most, np.integer) else self.at_most
        whole = isinstance(given, int) and not isinstance(given, bool) and given >= 1
        if given is not None and not whole:
            raise InvalidParameter("at_most", given, "a whole number of at least 1", "at_most=100_000")
        if neighbours is Neighbours.REPLACE:
            if count == 0:
                raise InvalidParameter("the number of rows", 0, "at least 1", "a table with rows")
            return Adjacency(neighbours, 1, count), count if given is None else min(given, count)
        if given is None:
            raise InvalidParameter(
                "at_most",
                None,
                "declared under add-remove, where the number of rows is private",
                "at_most=100_000, a number that the rows will not exceed",
            )
        return Adjacency(neighbours), given

    def _mechanism(self, problem: LinearProblem, guarantee: Guarantee) -> Regression:
        return regression(
            problem,
            guarantee,
            method=self.method,
            prior_precision=self.prior_precision,
            regularisation=self.regularisation,
            draws=self.draws,
            accuracy=self.accuracy,
            analysis=self.analysis,
            device=self.device,
        )

    def _predictors(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the linear predictors of each draw (draws, predictors, n), rows encoded as they were for the fit."""
        check_is_fitted(self, "release_")
        rows = checks.features(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(self._theta @ self._scaling.encode(rows).T)

    def to_arviz(self) -> Any:
        """Return the released draws as an ArviZ tree, without data; its attributes hold the certificate."""
        check_is_fitted(self, "release_")
        import arviz_base as arviz

        dims, coords = self._dimensions()
        names = getattr(self, "feature_names_in_", None)
        coords["feature"] = [f"x{k}" for k in range(self.n_features_in_)] if names is None else list(names)
        values = {"coefficient": self.coefficients_[None], "intercept": self.intercepts_[None]}
        tree = arviz.from_dict(
            {"posterior": values}, dims={"coefficient": [*dims, "feature"], "intercept": dims}, coords=coords
        )
        tree.attrs.update(method=self.method, certificate=json.dumps(asdict(self.certificate_), default=dict))
        return tree

    def _dimensions(self) -> tuple[list[str], dict[str, list[Any]]]:
        """Return the dimensions of an intercept, with their coordinates."""
        return [], {}

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that charges the same ledger."""
        parameters = self.get_params(deep=False)
        ledger = parameters.pop("ledger")
        unfitted = type(self)(**{name: clone(value, safe=False) for name, value in parameters.items()}, ledger=ledger)
        for own in ("_metadata_request", "_sklearn_output_config"):
            if own in vars(self):
                setattr(unfitted, own, copy.deepcopy(vars(self)[own]))
        return unfitted

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the ledger as its address: a connection belongs to one process."""
        state = dict(super().__getstate__())
        if isinstance(self.ledger, Ledger):
            state["ledger"] = self.ledger.address
        return state

    def __sklearn_tags__(self) -> Any:
        """Say that noise has no seed, and that missing values are no error."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


def warn_uncharged(ledger: Ledger | None) -> None:
    """Warn the caller of `score`, if there is a ledger that a score is not charged to."""
    if ledger is not None:
        _warn()


@cache
def _warn() -> None:
    """Warn once a process: scikit-learn's tools make Python forget what it has shown. As an error, it is one always."""
    warnings.warn(_UNPAID, UnpaidRelease, stacklevel=4)


def _release(plan: FitPlan, rows: np.ndarray, ledger: Ledger | None, *, purpose: str) -> Release:
    """Charge, read the rows, open, draw; without a ledger, draw.

    Every fit is a new question: which rows it is of is no public fact, by which a charge could be found again.
    """
    mechanism, prior = plan.mechanism, (plan.precision,)
    if ledger is not None:
        charge = charge_for(mechanism, ledger, purpose)
        private = plan.collect(rows, row_key=ledger.row_key())
        return publish(mechanism, private, charge, family=plan.described, prior=prior, labels=plan.labels)
    noise = SystemNoise()
    private = plan.collect(rows, row_key=noise.random_bytes(16).hex())
    contents = mechanism.release(private, cast(OpenCharge, Unledgered()), noise)
    return Release(plan.described, prior, {"all": contents[0]}, certificate(mechanism), None, plan.labels)


def _spent(mechanism: Regression) -> Guarantee:
    """Return what the release cost, in the currency that was asked for."""
    return mechanism.guarantee.at(up(accountant.amount(mechanism.charge, mechanism.guarantee)))
