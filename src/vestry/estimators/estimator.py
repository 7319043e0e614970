"""What the private learners share: check, charge, encode, release, and read the coefficients back."""

from __future__ import annotations

import copy
import json
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cache
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

import vestry.estimators.input_checks as checks
from vestry.data.row_limit import limit_records
from vestry.errors import InvalidParameter, UnpaidRelease
from vestry.estimators.bounds import encoder_of
from vestry.ledger import Ledger, OpenCharge
from vestry.mechanisms.release import Mechanism, certify, publish
from vestry.noise import SystemNoise
from vestry.numerics import up
from vestry.pipeline import charge_for
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.regression.coefficients import coefficients_reader
from vestry.regression.loss import Loss
from vestry.regression.method import POSTERIOR, Regression, penalty, regression, try_out
from vestry.regression.problem import LinearProblem
from vestry.releases import Draws, Release
from vestry.schema.design_matrix import INTERCEPT, RowEncoder
from vestry.schema.private import PrivateRows
from vestry.validation import require_truth, require_whole

_LEDGER = 'ledger=vestry.Ledger.open("study.ledger"), or ledger=None if the release is accounted for elsewhere'
_UNPAID = (
    "a score on private rows is a release that no ledger is charged for; score on public rows, and if these are public"
    ' write warnings.simplefilter("ignore", vestry.errors.UnpaidRelease).'
)


class Required:
    """Stands for a ledger that was not named; None is a declaration too."""


REQUIRED = Required  # a type, which scikit-learn's checks allow as a default and its copies leave as it is


class Unledgered:
    """The leave to draw, for a release that its maker accounts for elsewhere."""

    def take(self) -> None:
        """Use the leave: there is no ledger to ask."""


@dataclass(frozen=True)
class FitPlan:
    """All that a fit needs except the ledger's leave and the values.

    Attributes
    ----------
    encoder, mechanism
        How rows are encoded, and what is run over them.
    described, labels, precision
        As the release will name them.
    outcomes
        Returns encoded outcomes; it is called after the charge.
    """

    encoder: RowEncoder
    mechanism: Regression
    described: dict[str, Any]
    labels: tuple[str, ...]
    precision: float
    outcomes: Callable[[], np.ndarray]

    def collect(self, X: np.ndarray, *, row_key: str) -> PrivateRows:  # noqa: N803 - scikit-learn's name
        """Encode the rows, in single precision: what one row may be is bounded after rounding. At most `max_rows`."""
        block = self.encoder.encode(X, np.float32), self.outcomes()
        return PrivateRows(limit_records([block], self.mechanism.problem.max_rows, row_key=row_key))


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """A linear learner whose `fit` is one release. Not to be used itself."""

    guarantee: Any = None
    _: KW_ONLY
    method: str = POSTERIOR
    bounds: Any = None
    radius: Any = None
    ledger: Any = REQUIRED
    neighbours: Any = None
    max_rows: Any = None
    fit_intercept: bool = True
    prior_precision: float | None = None
    regularisation: float | None = None
    draws: int = 1
    accuracy: float = 0.05
    analysis: str = "auto"
    device: str = "auto"

    # What its releases call the regression: a posterior reads them by this name.
    _family: ClassVar[str]

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
            clipped; those that are not numbers become the middle of their interval, or 0 in a ball.
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
        self._encoder = plan.encoder
        self.release_, self.certificate_ = release, release.certificate
        self.spent_ = _spent(plan.mechanism)
        self._finish(plan, release)
        return self

    def _finish(self, plan: FitPlan, release: Release) -> None:
        """Set the fitted attributes."""
        values = np.array(cast(Draws, release.contents["all"]).values)
        shape = len(values), plan.mechanism.problem.loss.predictors, plan.encoder.features
        self._theta = values.reshape(shape)
        restored = coefficients_reader(plan.described, ()).unscaled(values).reshape(shape)
        width = len(plan.encoder.middle)
        self._read(restored[..., :width], restored[..., width] if plan.encoder.intercept else np.zeros(shape[:2]))

    def _ledger(self) -> Ledger | None:
        given = self.ledger
        if given is REQUIRED:
            raise InvalidParameter("ledger", "omitted", "named, since a fit spends privacy", _LEDGER)
        return given if given is None or isinstance(given, Ledger) else Ledger.open(given)

    def _plan(self, rows: np.ndarray, y: np.ndarray, names: np.ndarray | None, ledger: Ledger | None) -> FitPlan:
        """Try all that can fail without touching values."""
        encoder, neighbours, guarantee = self._declared(rows.shape[1], ledger)
        loss, described, encode = self._outcome(y)
        adjacency, max_rows = self._adjacency(neighbours, len(rows))
        problem = LinearProblem(loss, encoder.features, encoder.norm, adjacency, max_rows)
        mechanism = self._mechanism(problem, guarantee)
        try_out(mechanism)
        features = [f"x{place}" for place in range(rows.shape[1])] if names is None else [str(name) for name in names]
        own = [*features, INTERCEPT] if encoder.intercept else features
        classes = described["classes"]
        labels = tuple(f"{label}: {name}" for label in classes for name in own) if classes else tuple(own)
        record = {
            "name": self._family,
            "method": self.method,
            "loss": loss.to_dict(),
            "features": own,
            "scales": np.stack([encoder.middle, encoder.reach], axis=1).tolist(),
            "boxed": encoder.boxed,
            "radius": encoder.radius,
            "intercept": encoder.intercept,
            **described,
            "at_most": max_rows,
            "ledger": "elsewhere" if ledger is None else ledger.terms.dataset,
        }
        return FitPlan(encoder, mechanism, record, labels, float(penalty(mechanism)), encode)

    def _declared(self, features: int, ledger: Ledger | None) -> tuple[RowEncoder, Neighbours, Guarantee]:
        """Return how rows are encoded, which neighbours are hidden and what the release may cost."""
        given: Any = self.fit_intercept
        given = given.item() if isinstance(given, np.bool_) else given
        intercept = require_truth("fit_intercept", given, "fit_intercept=True")
        neighbours, guarantee = self._promised(ledger)
        return encoder_of(self.bounds, self.radius, features=features, intercept=intercept), neighbours, guarantee

    def _promised(self, ledger: Ledger | None) -> tuple[Neighbours, Guarantee]:
        """Return which neighbours are hidden and what the release may cost."""
        neighbours = self._neighbours(ledger)
        if self.guarantee is None:
            instead = 'guarantee="epsilon=1,delta=1e-6"'
            raise InvalidParameter("guarantee", None, "what the release may cost", instead)
        return neighbours, Guarantee.parse(self.guarantee, neighbours=neighbours)

    def _neighbours(self, ledger: Ledger | None) -> Neighbours:
        if ledger is not None:
            ledger.require(unit="row", neighbours=self.neighbours)
            return ledger.terms.neighbours
        if self.neighbours is None:
            raise InvalidParameter(
                "neighbours", None, "declared where no ledger states them", 'neighbours="add-remove" or "replace"'
            )
        return Neighbours.parse(self.neighbours)

    def _adjacency(self, neighbours: Neighbours, count: int) -> tuple[Adjacency, int]:
        """Return which neighbours are hidden, and how many rows there are at most."""
        given = None if self.max_rows is None else require_whole("max_rows", self.max_rows, "max_rows=100_000")
        if neighbours is Neighbours.REPLACE:
            require_whole("the number of rows", count, "a table with rows")
            return Adjacency(neighbours, 1, count), count if given is None else min(given, count)
        if given is None:
            raise InvalidParameter(
                "max_rows",
                None,
                "declared under add-remove, where the number of rows is private",
                "max_rows=100_000, a number that the rows will not exceed",
            )
        return Adjacency(neighbours), given

    def _mechanism(self, problem: LinearProblem, guarantee: Guarantee) -> Regression:
        names = "method", "prior_precision", "regularisation", "draws", "accuracy", "analysis", "device"
        return regression(problem, guarantee, **{name: getattr(self, name) for name in names})

    def _predictors(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the linear predictors of each draw (draws, predictors, n), rows encoded as they were for the fit."""
        check_is_fitted(self, "release_")
        rows = checks.features(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(self._theta @ self._encoder.encode(rows).T)

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
        """Say that noise has no seed, and that missing values are allowed."""
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
    """Warn once per process: scikit-learn's tools make Python forget what it has shown. An error is always one."""
    warnings.warn(_UNPAID, UnpaidRelease, stacklevel=4)


def _release(plan: Any, rows: np.ndarray, ledger: Ledger | None, *, purpose: str) -> Release:
    """Charge, read the rows, open, draw; without a ledger, draw.

    Every fit is a new question: which rows it is of is not a public fact, by which a charge could be found again.
    """
    mechanism, prior = plan.mechanism, (plan.precision,)
    if ledger is not None:
        charge = charge_for(mechanism, ledger, purpose)
        private = plan.collect(rows, row_key=ledger.row_key())
        return publish(mechanism, private, charge, family=plan.described, prior=prior, labels=plan.labels)
    noise = SystemNoise()
    private = plan.collect(rows, row_key=noise.random_bytes(16).hex())
    contents = mechanism.release(private, cast(OpenCharge, Unledgered()), noise)
    return Release(plan.described, prior, {"all": contents[0]}, certify(mechanism), None, plan.labels)


def _spent(mechanism: Mechanism) -> Guarantee:
    """Return what the release cost, in the privacy definition that was asked for."""
    return mechanism.guarantee.at(up(accountant.amount(mechanism.charge, mechanism.guarantee)))
