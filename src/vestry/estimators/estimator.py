"""What the private linear learners share: which rows, which mechanism, and how coefficients are read back."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, ClassVar, cast

import numpy as np

from vestry.data.row_limit import limit_records
from vestry.errors import InvalidParameter
from vestry.estimators.bounds import encoder_of
from vestry.estimators.fit_plan import FitPlan, feature_names
from vestry.estimators.private_fit import FittedPosterior, PrivateFit
from vestry.ledger import Ledger
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.regression.coefficients import coefficients_reader
from vestry.regression.loss import Loss
from vestry.regression.method import POSTERIOR, Regression, penalty, regression, shrinkage, try_out
from vestry.regression.problem import LinearProblem
from vestry.releases import Draws, Release
from vestry.schema.design_matrix import INTERCEPT, RowEncoder
from vestry.schema.private import PrivateRows
from vestry.validation import require_truth, require_whole


@dataclass(frozen=True)
class RowPlan(FitPlan):
    """A fit over rows."""

    def collect(self, X: np.ndarray, *, row_key: str) -> PrivateRows:  # noqa: N803 - scikit-learn's name
        """Encode the rows, in single precision: what one row may be is bounded after rounding. At most `max_rows`."""
        block = self.encoder.encode(X, np.float32), self.outcomes()
        return PrivateRows(limit_records([block], self.mechanism.problem.max_rows, row_key=row_key))


@dataclass(frozen=True, eq=False)
class FittedCoefficients(FittedPosterior):
    """Coefficients in the units of the features.

    Attributes
    ----------
    coefficients, intercepts
        Of every draw, with the draw first.
    """

    coefficients: np.ndarray
    intercepts: np.ndarray


@dataclass(frozen=True, eq=False)
class ReleasedCoefficients:
    """Coefficients that were released themselves: there is no posterior, only draws or an estimate.

    Attributes
    ----------
    coefficients, intercepts
        Of every draw, with the draw first, in the units of the features.
    encoded
        The same for encoded rows: (draws, predictors, features).
    """

    coefficients: np.ndarray
    intercepts: np.ndarray
    encoded: np.ndarray


@dataclass(eq=False, repr=False)
class PrivateEstimator(PrivateFit):
    """A linear learner whose `fit` is one release. Not to be used itself."""

    _: KW_ONLY
    method: str = POSTERIOR
    bounds: Any = None
    radius: Any = None
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

    def _read(self, plan: Any, release: Release) -> Any:
        """Return the coefficients of each draw, by predictor of the loss."""
        values = np.array(cast(Draws, release.contents["all"]).values)
        predictors = plan.mechanism.problem.loss.predictors
        shape = (len(values), predictors, plan.encoder.features)
        reader = coefficients_reader(plan.described, ())
        restored = reader.unscaled(values).reshape(shape)
        width = len(plan.encoder.middle)
        intercepts = restored[..., width] if plan.encoder.intercept else np.zeros(shape[:2])
        return ReleasedCoefficients(restored[..., :width], intercepts, values.reshape(shape))

    @property
    def coefficients_(self) -> np.ndarray:
        """The coefficients of every draw, in the units of the features."""
        return np.asarray(self._known_reading().coefficients)

    @property
    def intercepts_(self) -> np.ndarray:
        """The intercept of every draw."""
        return np.asarray(self._known_reading().intercepts)

    @property
    def coef_(self) -> np.ndarray:
        """The mean coefficients."""
        return np.asarray(self.coefficients_.mean(axis=0))

    @property
    def intercept_(self) -> Any:
        """The mean intercept."""
        return self.intercepts_.mean(axis=0)

    def _plan(self, rows: np.ndarray, y: np.ndarray, names: np.ndarray | None, ledger: Ledger | None) -> RowPlan:
        """Try all that can fail without touching values."""
        encoder, neighbours, guarantee = self._declared(rows.shape[1], ledger)
        loss, described, encode = self._outcome(y)
        adjacency, max_rows = self._adjacency(neighbours, len(rows))
        problem = LinearProblem(loss, encoder.features, encoder.norm, adjacency, max_rows)
        mechanism = self._mechanism(problem, guarantee)
        try_out(mechanism)
        features = feature_names(names, rows.shape[1])
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
            "shrinkage": float(f"{shrinkage(mechanism, _variances(encoder)):.3g}"),
            "at_most": max_rows,
        }
        return RowPlan(encoder, mechanism, record, encode, precision=float(penalty(mechanism)), labels=labels)

    def _declared(self, features: int, ledger: Ledger | None) -> tuple[RowEncoder, Neighbours, Guarantee]:
        """Return how rows are encoded, which neighbours are hidden and what the release may cost."""
        given: Any = self.fit_intercept
        given = given.item() if isinstance(given, np.bool_) else given
        intercept = require_truth("fit_intercept", given, "fit_intercept=True")
        neighbours, guarantee = self._promised(ledger)
        return encoder_of(self.bounds, self.radius, features=features, intercept=intercept), neighbours, guarantee

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
        rows = self._known_rows(X)
        return np.asarray(self._known_reading().encoded @ self._encoder.encode(rows).T)

    def to_arviz(self) -> Any:
        """Return the released draws as an ArviZ tree, without data; its attributes hold the certificate."""
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


def _variances(encoder: RowEncoder) -> np.ndarray:
    """Return the variance of each feature if rows are uniform on their bounds: a box, or a ball."""
    width, radius = len(encoder.middle), encoder.radius
    if not encoder.boxed and radius is not None:
        return np.full(width, radius**2 / (width + 2))
    return np.full(width, 1 / 3 if radius is None else min(1 / 3, radius**2 / width))
